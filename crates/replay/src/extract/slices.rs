//! Which parts of a recording are replayed: windows, and slices of windows that are long.

use convoy_trace::{Recording, Window};

/// Events of a slice: what runs across its ends is little beside them.
const SLICE_EVENTS: usize = 50_000;

/// Cuts windows of more than `events` events into slices of equal length, so that some of them can
/// stand for all. Everything between two slices is recorded, so that none is known less than a
/// window.
pub fn slice_windows(recording: &mut Recording, events: usize) {
    let windows = std::mem::take(&mut recording.windows);
    let slices = windows.into_iter().flat_map(|window| {
        let found = events_in(recording, window);
        let slices = match found > events {
            true => found.div_ceil(SLICE_EVENTS) as u64,
            false => 1,
        };
        let length_ns = window.end_ns.saturating_sub(window.start_ns);
        let at = move |n: u64| {
            let offset = u128::from(length_ns) * u128::from(n) / u128::from(slices);
            window.start_ns + offset as u64
        };
        (0..slices).map(move |n| Window {
            start_ns: at(n),
            end_ns: at(n + 1),
        })
    });
    let slices = slices.collect();
    recording.windows = slices;
}

/// Windows to replay, by their numbers: all of them, or, where they hold more than `events` events,
/// as many as fit, evenly spread over the run. For a stationary program a tenth of the trace
/// predicts as well as all of it.
pub fn choose_windows(recording: &Recording, events: usize) -> Vec<u32> {
    let windows = recording.windows.len();
    // Between windows waits are recorded, which no window needs.
    let of_windows = recording.windows.iter();
    let total: usize = of_windows.map(|w| events_in(recording, *w)).sum();
    if windows < 2 || total <= events {
        return (0..windows as u32).collect();
    }
    let wanted = ((windows as f64 * events as f64 / total as f64) as usize).max(1);
    let step = windows as f64 / wanted as f64;
    (0..wanted)
        .map(|i| ((i as f64 + 0.5) * step) as u32)
        .collect()
}

fn events_in(recording: &Recording, window: Window) -> usize {
    let threads = recording.threads.iter();
    threads.map(|thread| thread.in_window(window).len()).sum()
}
