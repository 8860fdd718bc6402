//! Threads over the groups of a pipeline (SyncPerf section 3.2.3): in proportion to the total work
//! of each group, in whole threads, and never faster than the CPUs allow.
//!
//! A unit of work needs `work[g]` thread time and `cpu[g]` CPU time of group g, so with `n[g]` threads
//!
//! ```text
//! X(n) = min( min_g n[g] / work[g],  CPUs / sum_g cpu[g] )
//! ```
//!
//! units pass in a unit of time (the asymptotic bound of a closed queueing network). Taking the
//! observed run as the unit of work makes X a multiple of the throughput observed.

/// Demands of linked groups. All per observed run, in thread time over run time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demands {
    /// Thread time at work.
    pub work: Vec<f64>,
    /// CPU time, all groups and everybody else in the process.
    pub cpu: f64,
    pub cpus: f64,
    /// Threads today.
    pub now: Vec<u32>,
    /// The number of threads may be changed (not of the main thread).
    pub movable: Vec<bool>,
}

impl Demands {
    /// Throughput that this assignment can reach, in multiples of the observed one.
    pub(crate) fn throughput(&self, n: &[u32]) -> f64 {
        self.stage_bound(n).min(self.cpu_bound())
    }

    /// What the groups alone would allow.
    pub(crate) fn stage_bound(&self, n: &[u32]) -> f64 {
        let bound = |(n, work): (&u32, &f64)| {
            if *work > 0.0 {
                f64::from(*n) / work
            } else {
                f64::INFINITY
            }
        };
        n.iter()
            .zip(&self.work)
            .map(bound)
            .fold(f64::INFINITY, f64::min)
    }

    /// What the CPUs alone would allow.
    pub(crate) fn cpu_bound(&self) -> f64 {
        if self.cpu > 0.0 {
            self.cpus / self.cpu
        } else {
            f64::INFINITY
        }
    }

    /// The group that limits an assignment.
    pub(crate) fn bottleneck(&self, n: &[u32]) -> usize {
        let load = |i: usize| self.work[i] / f64::from(n[i].max(1));
        (0..n.len())
            .max_by(|a, b| load(*a).total_cmp(&load(*b)))
            .unwrap_or(0)
    }

    /// Shares of the movable threads in proportion to work, not rounded.
    pub(crate) fn ideal(&self) -> Vec<f64> {
        let threads: f64 = self.movable().map(|i| f64::from(self.now[i])).sum();
        let work: f64 = self.movable().map(|i| self.work[i]).sum();
        (0..self.now.len())
            .map(|i| {
                if self.movable[i] && work > 0.0 {
                    threads * self.work[i] / work
                } else {
                    f64::from(self.now[i])
                }
            })
            .collect()
    }

    /// The best whole-numbered assignment of as many threads: every group one, each further thread to
    /// the group that is slowest so far. (Greedy is optimal for the least of monotone terms.)
    pub(crate) fn best(&self) -> Vec<u32> {
        let mut n: Vec<u32> = (0..self.now.len())
            .map(|i| if self.movable[i] { 1 } else { self.now[i] })
            .collect();
        let threads: u32 = self.movable().map(|i| self.now[i]).sum();
        let spare = threads.saturating_sub(self.movable().count() as u32);
        for _ in 0..spare.min(4096) {
            let slowest = self.movable().max_by(|a, b| {
                (self.work[*a] / f64::from(n[*a])).total_cmp(&(self.work[*b] / f64::from(n[*b])))
            });
            match slowest {
                Some(i) => n[i] += 1,
                None => break,
            }
        }
        n
    }

    /// The best assignment and those around it. Today's is no alternative to itself: it is among them only if it is the
    /// best.
    pub(crate) fn options(&self) -> Vec<Vec<u32>> {
        let best = self.best();
        let mut options = self.neighbours(&best);
        options.retain(|n| *n != self.now);
        options.insert(0, best);
        options
    }

    /// Assignments one move of a thread away.
    fn neighbours(&self, n: &[u32]) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        for from in self.movable().filter(|i| n[*i] > 1) {
            for to in self.movable().filter(|i| *i != from) {
                let mut m = n.to_vec();
                m[from] -= 1;
                m[to] += 1;
                all.push(m);
            }
        }
        all
    }

    fn movable(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.movable.len()).filter(|i| self.movable[*i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demands(work: &[f64], now: &[u32], cpus: f64) -> Demands {
        Demands {
            work: work.to_vec(),
            cpu: work.iter().sum(),
            cpus,
            now: now.to_vec(),
            movable: vec![true; now.len()],
        }
    }

    #[test]
    fn threads_in_proportion_to_work() {
        // Units of 10, 80 and 10 us: 2, 1, 2 threads pass 1/80 us, 1, 3, 1 pass 3/80 us.
        let d = demands(&[0.125, 1.0, 0.125], &[2, 1, 2], 16.0);
        assert_eq!(d.best(), [1, 3, 1]);
        assert_eq!(d.ideal(), [0.5, 4.0, 0.5]);
        assert_eq!(d.throughput(&[2, 1, 2]), 1.0);
        assert_eq!(d.throughput(&[1, 3, 1]), 3.0);
        assert!(d.neighbours(&[1, 3, 1]).contains(&vec![2, 2, 1]));
    }

    #[test]
    fn todays_assignment_is_an_option_only_if_it_is_the_best() {
        let d = demands(&[0.125, 1.0, 0.125], &[2, 2, 1], 16.0);
        assert!(d.neighbours(&d.best()).contains(&d.now));
        assert_eq!(d.options(), [[1, 3, 1], [1, 2, 2]]);
        let d = demands(&[0.5, 1.0], &[1, 2], 16.0);
        assert_eq!(d.options(), [[1, 2], [2, 1]]);
    }

    #[test]
    fn cpus_limit_any_assignment() {
        let d = demands(&[0.125, 1.0, 0.125], &[2, 1, 2], 2.0);
        assert_eq!(d.throughput(&[1, 3, 1]), 1.6);
    }

    #[test]
    fn the_main_thread_stays_one() {
        let mut d = demands(&[1.0, 0.2], &[1, 3], 8.0);
        d.movable[0] = false;
        assert_eq!(d.best(), [1, 3]);
    }
}
