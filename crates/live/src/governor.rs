//! The cost governor: which probes may time, which may only count, which go out.
//!
//! The cost of a probe is its rate times its price, as a share of the CPU time that the program
//! uses meanwhile. A probe begins as a counter; its rate then decides whether a timer fits into the
//! budget (threaded Paradyn, 1999, section 5: insert, observe, decide).

use convoy_probes::Measure;

/// CPU time that one call of a probed function costs, nanoseconds; measured on the machine. By
/// default nothing costs anything: without a function, nothing has a price.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prices {
    /// Of a probe that counts.
    pub counter_ns: f64,
    /// Of a probe that times, entry and exit together.
    pub timer_ns: f64,
}

impl Prices {
    /// Price of a probe.
    pub fn of(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Calls => self.counter_ns,
            Measure::Time => self.timer_ns,
        }
    }
}

/// A probe that is in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Its row.
    pub row: u32,
    /// Calls per second, of all threads.
    pub rate: f64,
    /// What a call costs where the kernel counts it, nanoseconds; `None` = the usual price.
    pub call_ns: Option<f64>,
    /// What it does now.
    pub measure: Measure,
    /// It should time, and can.
    pub wants_timer: bool,
    /// It timed already, and was found too expensive.
    pub was_too_expensive: bool,
}

/// A decision about a probe. Shares are of the CPU time of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// It may time from now on.
    Time {
        /// The row.
        row: u32,
    },
    /// It may not time (any more): that costs, or would cost, this share.
    Count {
        /// The row.
        row: u32,
        /// Cost of timing.
        share: f64,
    },
    /// It goes out: even counting costs this share.
    Out {
        /// The row.
        row: u32,
        /// Cost of counting.
        share: f64,
    },
}

/// Keeps the cost of all probes below a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Governor {
    /// Share of the program's CPU time.
    pub budget: f64,
    /// Measured prices.
    pub prices: Prices,
}

/// A timer that was too expensive comes back only when it fits into this share of the budget, so
/// that it does not come and go.
const RETURN_SHARE: f64 = 0.5;

impl Governor {
    /// Cost of calls, as a share of the program's CPU time; `cpu` is that time per second of
    /// elapsed time (1.0 = one CPU). Without any CPU time, of one CPU.
    pub fn share(&self, rate: f64, measure: Measure, cpu: f64) -> f64 {
        share_at(self.prices.of(measure), rate, cpu)
    }

    /// What has to change. Every load with `wants_timer` that counts gets an answer; the others
    /// only if they must go.
    pub fn decide(&self, loads: &[Load], cpu: f64) -> Vec<Change> {
        let share = |load: &Load, measure| {
            let price = load.call_ns.unwrap_or_else(|| self.prices.of(measure));
            share_at(price, load.rate, cpu)
        };
        let mut changes = Vec::new();
        let mut kept: Vec<Load> = loads.to_vec();
        // The most expensive first, whatever it does.
        kept.sort_by(|a, b| share(b, Measure::Calls).total_cmp(&share(a, Measure::Calls)));
        let mut counting: f64 = kept.iter().map(|l| share(l, Measure::Calls)).sum();
        kept.retain(|load| {
            let cost = share(load, Measure::Calls);
            let goes = counting > self.budget;
            if goes {
                counting -= cost;
                let row = load.row;
                changes.push(Change::Out { row, share: cost });
            }
            !goes
        });
        let mut spent: f64 = kept.iter().map(|l| share(l, l.measure)).sum();
        for load in kept.iter_mut().filter(|l| l.measure == Measure::Time) {
            if spent > self.budget {
                let timing = share(load, Measure::Time);
                spent -= timing - share(load, Measure::Calls);
                let row = load.row;
                changes.push(Change::Count { row, share: timing });
                load.wants_timer = false; // answered
            }
        }
        let candidates = kept.iter().rev();
        for load in candidates.filter(|l| l.measure == Measure::Calls && l.wants_timer) {
            let timing = share(load, Measure::Time);
            let more = timing - share(load, Measure::Calls);
            let limit = match load.was_too_expensive {
                true => self.budget * RETURN_SHARE,
                false => self.budget,
            };
            let row = load.row;
            if spent + more <= limit {
                spent += more;
                changes.push(Change::Time { row });
            } else {
                changes.push(Change::Count { row, share: timing });
            }
        }
        changes
    }
}

/// Cost of calls at a price, nanoseconds each.
pub(crate) fn share_at(price_ns: f64, rate: f64, cpu: f64) -> f64 {
    let cpu = if cpu > 0.0 { cpu } else { 1.0 };
    rate * price_ns / 1e9 / cpu
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOVERNOR: Governor = Governor {
        budget: 0.03,
        prices: Prices {
            counter_ns: 1.0,
            timer_ns: 20.0,
        },
    };

    fn load(row: u32, rate: f64, measure: Measure) -> Load {
        Load {
            row,
            rate,
            call_ns: None,
            measure,
            wants_timer: true,
            was_too_expensive: false,
        }
    }

    #[test]
    fn a_uprobe_has_its_own_price() {
        let uprobe = Load {
            call_ns: Some(1_000.0),
            wants_timer: false,
            ..load(1, 1e5, Measure::Calls)
        };
        let changes = GOVERNOR.decide(&[uprobe], 1.0);
        assert_eq!(changes, [Change::Out { row: 1, share: 0.1 }]);
        let rare = Load {
            rate: 1e4,
            ..uprobe
        };
        assert!(GOVERNOR.decide(&[rare], 1.0).is_empty());
        let jump = Load {
            wants_timer: false,
            ..load(2, 1e5, Measure::Calls)
        };
        let changes = GOVERNOR.decide(&[jump, uprobe], 1.0);
        assert_eq!(
            changes,
            [Change::Out { row: 1, share: 0.1 }],
            "not the cheap one"
        );
    }

    #[test]
    fn a_timer_goes_in_where_its_rate_allows() {
        let loads = [
            load(1, 1e5, Measure::Calls),
            load(2, 2e7, Measure::Calls),
            load(3, 1e8, Measure::Calls),
        ];
        let changes = GOVERNOR.decide(&loads, 1.0);
        assert_eq!(
            changes,
            [
                Change::Out { row: 3, share: 0.1 },
                Change::Time { row: 1 },
                Change::Count { row: 2, share: 0.4 },
            ]
        );
    }

    #[test]
    fn the_sum_of_all_timers_stays_below_the_budget() {
        let loads: Vec<Load> = (0..10).map(|r| load(r, 5e5, Measure::Calls)).collect();
        let changes = GOVERNOR.decide(&loads, 1.0);
        let timers = changes.iter().filter(|c| matches!(c, Change::Time { .. }));
        assert_eq!(timers.count(), 2, "each costs 1 %, and counters cost, too");
    }

    #[test]
    fn a_timer_that_became_too_expensive_counts_and_does_not_flicker() {
        let timing = load(1, 2e6, Measure::Time);
        let changes = GOVERNOR.decide(&[timing], 1.0);
        assert_eq!(
            changes,
            [Change::Count {
                row: 1,
                share: 0.04
            }]
        );
        let mut counting = load(1, 1.2e6, Measure::Calls);
        counting.was_too_expensive = true;
        let stays = GOVERNOR.decide(&[counting], 1.0);
        assert!(matches!(stays[..], [Change::Count { .. }]), "{stays:?}");
        counting.rate = 1e5;
        assert_eq!(GOVERNOR.decide(&[counting], 1.0), [Change::Time { row: 1 }]);
    }

    #[test]
    fn a_busy_program_bears_more_calls() {
        let loads = [load(1, 4e6, Measure::Calls)];
        assert!(matches!(
            GOVERNOR.decide(&loads, 1.0)[..],
            [Change::Count { .. }]
        ));
        assert!(matches!(
            GOVERNOR.decide(&loads, 8.0)[..],
            [Change::Time { .. }]
        ));
    }
}
