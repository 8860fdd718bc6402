//! Whether the machine has time to spare.

use std::time::{Duration, Instant};

use crate::others::{idle, since, PerCpu};

/// Idle time is counted in ticks: a measurement takes so long.
const MEASURES: Duration = Duration::from_secs(1);
/// With less than one part in so many of a processor idle, of however many, there are hardly gaps to work in.
const HARDLY_IDLE: u32 = 5;

/// Of the processors that we may use.
#[derive(Debug)]
pub(super) struct Load {
    since: Instant,
    idle: PerCpu,
    is_full: bool,
}

impl Load {
    /// Not full, until it has been measured.
    pub fn new() -> Self {
        Self {
            since: Instant::now(),
            idle: idle(),
            is_full: false,
        }
    }

    /// Whether all processors were busy nearly all the time lately.
    pub fn is_full(&mut self) -> bool {
        if self.since.elapsed() >= MEASURES {
            self.measure(idle());
        }
        self.is_full
    }

    fn measure(&mut self, idle: PerCpu) {
        let took = self.since.elapsed();
        let (cpus, idle_ns) = since(&idle, &self.idle);
        *self = Self {
            since: Instant::now(),
            idle,
            // Of no processor is it known where /proc is not what it should be.
            is_full: cpus > 0 && is_little(Duration::from_nanos(idle_ns), took),
        };
    }
}

fn is_little(idle: Duration, took: Duration) -> bool {
    idle * HARDLY_IDLE < took
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_a_processor_is_enough_to_work_in() {
        let ms = Duration::from_millis;
        assert!(is_little(ms(0), ms(1_000)));
        assert!(is_little(ms(190), ms(1_000)));
        assert!(!is_little(ms(200), ms(1_000)));
        assert!(!is_little(ms(1_900), ms(1_000)), "of two");
    }

    #[test]
    fn a_machine_is_not_full_before_it_has_been_measured() {
        assert!(!Load::new().is_full());
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_is_not_full() {
        let full = |before: PerCpu, now: PerCpu| {
            let mut load = Load {
                since: Instant::now(),
                idle: before,
                is_full: false,
            };
            load.measure(now);
            load.is_full
        };
        assert!(full([(0, 70), (1, 50)].into(), [(0, 70), (1, 50)].into()));
        assert!(
            full([(0, 70), (1, 50)].into(), [(0, 70)].into()),
            "one went"
        );
        assert!(!full([(0, 70)].into(), [(1, 50)].into()), "others");
        assert!(!full(PerCpu::new(), PerCpu::new()));
    }
}
