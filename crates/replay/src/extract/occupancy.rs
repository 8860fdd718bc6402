//! Who ran on which CPU, as the events tell it: a thread whose CPU has events of another thread was
//! off it then. It needs no CPU clock, and knows what a clock that is read later cannot tell: when.

use convoy_trace::{Event, Recording, ThreadIx, Window, NO_CPU};
use rustc_hash::FxHashMap;

/// Events in a window by CPU, in order of time.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    by_cpu: FxHashMap<u16, Vec<(u64, ThreadIx)>>,
}

impl Occupancy {
    pub fn of(recording: &Recording, window: Window) -> Self {
        let mut by_cpu: FxHashMap<u16, Vec<(u64, ThreadIx)>> = FxHashMap::default();
        for (thread, of) in (0..).zip(&recording.threads) {
            for event in &of.events[of.in_window(window)] {
                if event.cpu != NO_CPU {
                    let on_cpu = by_cpu.entry(event.cpu).or_default();
                    on_cpu.push((event.at_ns, thread));
                }
            }
        }
        for on_cpu in by_cpu.values_mut() {
            on_cpu.sort_unstable();
        }
        Self { by_cpu }
    }

    /// When another thread is seen on the CPU of a thread's last event; `None` = nobody is, the
    /// thread may have run on.
    pub fn lost_cpu_ns(&self, thread: ThreadIx, last: &Event) -> Option<u64> {
        let on_cpu = self.by_cpu.get(&last.cpu)?;
        let after = on_cpu.partition_point(|seen| *seen <= (last.at_ns, thread));
        let mut others = on_cpu[after..].iter().filter(|(_, of)| *of != thread);
        others.next().map(|(at_ns, _)| *at_ns)
    }

    /// Until when another thread is seen on the CPU of a thread's first event; `None` = nobody is,
    /// the thread may have run before.
    pub fn got_cpu_ns(&self, thread: ThreadIx, first: &Event) -> Option<u64> {
        let on_cpu = self.by_cpu.get(&first.cpu)?;
        let before = on_cpu.partition_point(|seen| *seen < (first.at_ns, thread));
        let mut others = on_cpu[..before].iter().rev();
        let seen = others.find(|(_, of)| *of != thread)?;
        Some(seen.0)
    }
}
