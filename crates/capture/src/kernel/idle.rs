//! Whether the machine has time to spare.

use std::time::{Duration, Instant};

use crate::others::idle_ns;

/// Idle time is counted in ticks: a measurement takes so long.
const MEASURES: Duration = Duration::from_secs(1);
/// With less than one part in so many of a processor idle there are hardly gaps to work in.
const HARDLY_IDLE: u32 = 5;

/// Of the processors that we may use.
#[derive(Debug)]
pub(super) struct Idle {
    since: Instant,
    idle_ns: u64,
    is_full: bool,
}

impl Idle {
    /// Not full, until it has been measured.
    pub fn new() -> Self {
        Self {
            since: Instant::now(),
            idle_ns: idle_ns(),
            is_full: false,
        }
    }

    /// Whether all processors were busy nearly all the time lately.
    pub fn is_full(&mut self) -> bool {
        let took = self.since.elapsed();
        if took >= MEASURES {
            let idle_ns = idle_ns();
            let idle = Duration::from_nanos(idle_ns.saturating_sub(self.idle_ns));
            *self = Self {
                since: Instant::now(),
                idle_ns,
                is_full: is_little(idle, took),
            };
        }
        self.is_full
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
        assert!(!Idle::new().is_full());
    }
}
