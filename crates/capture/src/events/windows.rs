//! When every event is recorded. Adaptive: a process is recorded completely until its events cost more
//! than the budget, then in windows, and completely again when it has calmed down.

use convoy_profile::{TraceMode, TraceWindow};

use super::Mode;

/// Of complete recording, between two looks at the rate of events.
const RATE_INTERVAL_NS: u64 = 50_000_000;
/// Windows in a row below a quarter of the budget, until the process is recorded completely again.
const CALM_WINDOWS: u32 = 10;

/// Events per second that may be recorded all the time.
///
/// A thread at its limit spends a few per cent of its time on events (10 to 25 ns each); the total is
/// what takes convoy a twentieth of a processor to read and encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Of one thread.
    pub thread: u64,
    /// Of one process.
    pub process: u64,
    /// Length of a window, nanoseconds.
    pub window_ns: u64,
    /// From the begin of a window to that of the next, nanoseconds.
    pub period_ns: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            thread: 2_000_000,
            process: 5_000_000,
            window_ns: 10_000_000,
            period_ns: 100_000_000,
        }
    }
}

/// The windows of one process image.
#[derive(Debug)]
pub(super) struct Windows {
    mode: Mode,
    closed: Vec<TraceWindow>,
    /// Begin of the window that is open.
    open_ns: Option<u64>,
    /// In windows, because of the rate.
    throttled: bool,
    was_throttled: bool,
    /// When to open or close next.
    due_ns: u64,
    /// Since when events are counted.
    counted_from_ns: u64,
    calm: u32,
}

/// What is to be done with the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Open,
    Close,
}

/// Events since they were counted last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub process: u64,
    /// Of the thread with the most.
    pub thread: u64,
}

impl Windows {
    /// A process is recorded from its start on.
    pub fn new(mode: Mode, start_ns: u64) -> Self {
        Self {
            mode,
            closed: Vec::new(),
            open_ns: Some(start_ns),
            throttled: false,
            was_throttled: false,
            due_ns: 0,
            counted_from_ns: start_ns,
            calm: 0,
        }
    }

    /// Whether events are to be counted anew after this look.
    pub fn wants_count(&self, now_ns: u64) -> bool {
        match (self.mode, self.throttled) {
            (Mode::Window(_), false) => now_ns >= self.counted_from_ns + RATE_INTERVAL_NS,
            (Mode::Window(_), true) => now_ns >= self.due_ns,
            _ => false,
        }
    }

    /// What to do now, after [`Self::wants_count`] was true.
    pub fn turn(&mut self, now_ns: u64, counted: Counted) -> Option<Turn> {
        let Mode::Window(budget) = self.mode else {
            return None;
        };
        let seconds = now_ns.saturating_sub(self.counted_from_ns) as f64 / 1e9;
        let share = (counted.thread as f64 / budget.thread as f64)
            .max(counted.process as f64 / budget.process as f64)
            / seconds.max(1e-3);
        if !self.throttled {
            self.counted_from_ns = now_ns;
            if share <= 1.0 {
                return None;
            }
            self.throttled = true;
            self.was_throttled = true;
            self.due_ns = now_ns + budget.period_ns.saturating_sub(budget.window_ns);
            return Some(Turn::Close);
        }
        if self.open_ns.is_none() {
            self.counted_from_ns = now_ns;
            self.due_ns = now_ns + budget.window_ns;
            return Some(Turn::Open);
        }
        self.calm = if share < 0.25 { self.calm + 1 } else { 0 };
        if self.calm >= CALM_WINDOWS {
            self.throttled = false;
            self.calm = 0;
            self.counted_from_ns = now_ns;
            return None;
        }
        self.due_ns = now_ns + budget.period_ns.saturating_sub(budget.window_ns);
        Some(Turn::Close)
    }

    /// The window was opened, and threads know of it by now.
    pub fn opened(&mut self, now_ns: u64) {
        self.open_ns = Some(now_ns);
    }

    /// The window is closed at this time.
    pub fn closed(&mut self, now_ns: u64) {
        if let Some(start_ns) = self.open_ns.take() {
            self.closed.push(TraceWindow {
                start_ns,
                end_ns: now_ns,
            });
        }
    }

    /// When the next turn is due; `None` = not at a certain time.
    pub fn due_ns(&self) -> Option<u64> {
        self.throttled.then_some(self.due_ns)
    }

    /// Gives up what lies wholly in this span. How many windows that were.
    pub fn give_up(&mut self, from_ns: u64, to_ns: u64) -> u64 {
        let mut left = Vec::with_capacity(self.closed.len() + 1);
        let mut given_up = 0;
        let open = self.open_ns.map(|start_ns| TraceWindow {
            start_ns,
            end_ns: u64::MAX,
        });
        for window in self.closed.drain(..).chain(open) {
            let before = TraceWindow {
                end_ns: window.end_ns.min(from_ns),
                ..window
            };
            let after = TraceWindow {
                start_ns: window.start_ns.max(to_ns),
                ..window
            };
            let parts = [before, after]
                .into_iter()
                .filter(|w| w.start_ns < w.end_ns);
            let parts: Vec<_> = parts.collect();
            given_up += u64::from(parts.as_slice() != [window]);
            left.extend(parts);
        }
        if self.open_ns.is_some() {
            self.open_ns = left.pop().map(|window| window.start_ns);
        }
        self.closed = left;
        given_up
    }

    /// How it came out, and the windows. `end_ns`: of the process, or of the recording.
    pub fn finish(mut self, end_ns: u64) -> (TraceMode, Vec<TraceWindow>) {
        self.closed(end_ns);
        let mut windows = self.closed;
        for window in &mut windows {
            window.end_ns = window.end_ns.min(end_ns);
        }
        if let Mode::Last(ns) = self.mode {
            for window in &mut windows {
                window.start_ns = window.start_ns.max(end_ns.saturating_sub(ns));
            }
        }
        windows.retain(|window| window.start_ns < window.end_ns);
        let mode = match self.mode {
            Mode::Last(ns) => TraceMode::Last(ns),
            Mode::Window(_) if self.was_throttled => TraceMode::Windows,
            Mode::Window(_) | Mode::Full => TraceMode::Full,
        };
        (mode, windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FEW: Counted = Counted {
        process: 1000,
        thread: 1000,
    };

    fn many(ms: u64) -> Counted {
        let events = Budget::default().thread * 2 * ms / 1000;
        Counted {
            process: events,
            thread: events,
        }
    }

    fn adaptive() -> Windows {
        Windows::new(Mode::Window(Budget::default()), 0)
    }

    #[test]
    fn few_events_are_recorded_completely() {
        let mut windows = adaptive();
        for at in 1..100 {
            let now = at * 50 * MS;
            assert!(windows.wants_count(now));
            assert_eq!(windows.turn(now, FEW), None);
        }
        let whole = TraceWindow {
            start_ns: 0,
            end_ns: 5000 * MS,
        };
        assert_eq!(windows.finish(5000 * MS), (TraceMode::Full, vec![whole]));
    }

    #[test]
    fn many_events_lead_to_windows() {
        let mut windows = adaptive();
        assert!(!windows.wants_count(40 * MS));
        assert_eq!(windows.turn(50 * MS, many(50)), Some(Turn::Close));
        windows.closed(50 * MS);
        assert!(!windows.wants_count(130 * MS));
        assert_eq!(windows.due_ns(), Some(140 * MS));
        assert_eq!(windows.turn(140 * MS, FEW), Some(Turn::Open));
        windows.opened(140 * MS);
        assert_eq!(windows.turn(150 * MS, many(10)), Some(Turn::Close));
        windows.closed(150 * MS);
        let (mode, found) = windows.finish(200 * MS);
        let found: Vec<_> = found
            .iter()
            .map(|w| (w.start_ns / MS, w.end_ns / MS))
            .collect();
        assert_eq!(
            (mode, found),
            (TraceMode::Windows, vec![(0, 50), (140, 150)])
        );
    }

    #[test]
    fn calm_processes_are_recorded_completely_again() {
        let mut windows = adaptive();
        windows.turn(50 * MS, many(50));
        windows.closed(50 * MS);
        for round in 1..=10 {
            let now = 50 * MS + round * 100 * MS;
            assert_eq!(windows.turn(now, FEW), Some(Turn::Open));
            windows.opened(now);
            let turn = windows.turn(now + 10 * MS, FEW);
            assert_eq!(turn.is_none(), round == 10);
            if turn.is_some() {
                windows.closed(now + 10 * MS);
            }
        }
        assert_eq!(windows.due_ns(), None);
        let (_, found) = windows.finish(2000 * MS);
        assert_eq!(found.last().map(|w| w.end_ns), Some(2000 * MS));
    }

    #[test]
    fn the_last_seconds_end_with_the_process() {
        let windows = Windows::new(Mode::Last(300), 100);
        let last = TraceWindow {
            start_ns: 700,
            end_ns: 1000,
        };
        assert_eq!(windows.finish(1000), (TraceMode::Last(300), vec![last]));
    }

    #[test]
    fn windows_that_are_given_up_are_counted() {
        let mut windows = adaptive();
        windows.closed(10);
        for start in [20, 40, 60] {
            windows.opened(start);
            windows.closed(start + 10);
        }
        windows.opened(80);
        assert_eq!(windows.give_up(15, 55), 2);
        let (_, found) = windows.finish(100);
        let found: Vec<_> = found.iter().map(|w| (w.start_ns, w.end_ns)).collect();
        assert_eq!(found, [(0, 10), (60, 70), (80, 100)]);
    }

    #[test]
    fn a_hole_divides_the_window_that_is_open() {
        let mut windows = Windows::new(Mode::Full, 0);
        assert_eq!(windows.give_up(10, 20), 1);
        let (_, found) = windows.finish(30);
        let found: Vec<_> = found.iter().map(|w| (w.start_ns, w.end_ns)).collect();
        assert_eq!(found, [(0, 10), (20, 30)]);
    }
}
