//! A closed queueing network of threads, CPUs and locks, solved by exact mean value analysis.
//!
//! Threads are the customers. A cycle is whatever unit the demands are given in: the solution does
//! not depend on how often a thread visits a station, only on its total demand there. CPUs are one
//! station with several servers, each lock is a station with one, everything else is delay.
//!
//! Source: Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks",
//! JACM 27(2), 1980; the form for several servers with its stable `p(0)` as in Lazowska et al.,
//! "Quantitative System Performance", chapter 20.

/// Customers beyond this are scaled down together with the servers: the shape of the result does
/// not change, the work does.
const CUSTOMERS_MAX: usize = 256;

/// Means per cycle of one thread, in the unit of the demands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Solution {
    /// Whole cycle.
    pub cycle: f64,
    /// Queueing for a CPU.
    pub cpu_delay: f64,
    /// Queueing for each lock.
    pub lock_delays: Vec<f64>,
}

/// `threads` that spend `delay` neither computing nor queueing, `cpu` on one of `cpus`, and
/// `holds[i]` with lock `i`, which may include CPU time: pass `cpu` without it.
pub(crate) fn solve(threads: f64, cpus: f64, delay: f64, cpu: f64, holds: &[f64]) -> Solution {
    let scale = (threads / CUSTOMERS_MAX as f64).max(1.0);
    let n_max = (threads / scale).round().max(1.0) as usize;
    // More servers than customers are never used.
    let servers = (cpus / scale).min(n_max as f64).round().max(1.0) as usize;
    let holds: Vec<f64> = holds.iter().map(|h| h * scale).collect();

    let mut p = vec![0.0; servers];
    p[0] = 1.0;
    let mut queue = vec![0.0; holds.len()];
    let mut solution = Solution {
        cycle: delay + cpu,
        cpu_delay: 0.0,
        lock_delays: vec![0.0; holds.len()],
    };
    for n in 1..=n_max {
        let waiting: f64 = (0..servers.saturating_sub(1))
            .map(|j| (servers - 1 - j) as f64 * p[j])
            .sum();
        let mean_at_cpus = queue_at_cpus(&solution, cpu, n - 1);
        let cpu_residence = cpu / servers as f64 * (1.0 + mean_at_cpus + waiting);
        let cpu_residence = cpu_residence.max(cpu);
        let residences: Vec<f64> = holds
            .iter()
            .zip(&queue)
            .map(|(h, q)| h * (1.0 + q))
            .collect();
        let cycle = delay + cpu_residence + residences.iter().sum::<f64>();
        let x = if cycle > 0.0 { n as f64 / cycle } else { 0.0 };
        for (q, r) in queue.iter_mut().zip(&residences) {
            *q = x * r;
        }
        for j in (1..servers).rev() {
            p[j] = (x * cpu / j as f64 * p[j - 1]).clamp(0.0, 1.0);
        }
        let used = x * cpu
            + (1..servers)
                .map(|j| (servers - j) as f64 * p[j])
                .sum::<f64>();
        p[0] = (1.0 - used / servers as f64).clamp(0.0, 1.0);
        solution = Solution {
            cycle,
            cpu_delay: cpu_residence - cpu,
            lock_delays: residences
                .iter()
                .zip(&holds)
                .map(|(r, h)| (r - h) / scale)
                .collect(),
        };
    }
    solution
}

/// Mean number of threads at the CPUs with `n` threads, by Little's law.
fn queue_at_cpus(of_n: &Solution, cpu: f64, n: usize) -> f64 {
    if n == 0 || of_n.cycle <= 0.0 {
        0.0
    } else {
        n as f64 * (cpu + of_n.cpu_delay) / of_n.cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn threads_that_only_compute_share_the_cpus() {
        // 4 threads, 2 CPUs, 1 of work each: a cycle takes 2.
        close(solve(4.0, 2.0, 0.0, 1.0, &[]).cycle, 2.0);
        // As many CPUs as threads: no queueing at all.
        close(solve(4.0, 4.0, 0.5, 1.0, &[]).cycle, 1.5);
    }

    #[test]
    fn a_lock_alone_serializes() {
        let s = solve(4.0, 8.0, 0.0, 0.0, &[1.0]);
        close(s.cycle, 4.0);
        close(s.lock_delays[0], 3.0);
    }

    #[test]
    fn machine_repairman_by_hand() {
        // 2 threads, delay 1, one server of 1: R(1) = 1, X(1) = 1/2, Q(1) = 1/2; R(2) = 1.5, C = 2.5.
        close(solve(2.0, 1.0, 1.0, 1.0, &[]).cycle, 2.5);
        close(solve(2.0, 8.0, 1.0, 0.0, &[1.0]).cycle, 2.5);
    }

    #[test]
    fn asymptotes_hold() {
        for n in [1.0, 3.0, 8.0, 40.0] {
            for cpus in [1.0, 2.0, 5.0, 16.0] {
                let s = solve(n, cpus, 0.7, 1.0, &[0.2, 0.1]);
                let bound = (0.7_f64 + 1.0 + 0.3).max(n * 1.0 / cpus).max(n * 0.2);
                assert!(
                    s.cycle >= bound - 1e-6,
                    "{n} threads, {cpus} CPUs: {} < {bound}",
                    s.cycle
                );
                assert!(s.cycle <= 2.0 + (n - 1.0) * 1.3 + 1e-6);
            }
        }
    }

    #[test]
    fn many_threads_are_scaled() {
        let s = solve(2560.0, 20.0, 0.0, 1.0, &[]);
        assert!((s.cycle / 128.0 - 1.0).abs() < 0.01, "{}", s.cycle);
    }
}
