//! Independent pieces of work on all CPUs.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Pieces of work at a time: each may need memory for a whole program.
const MOST: usize = 8;

/// Calls `work` with each number below `count`; results are in order. The CPUs that the process may
/// use share the numbers; `work` must give the same whatever the others do.
pub(crate) fn map<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    if count < 2 || cpus < 2 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..cpus.min(count).min(MOST) {
            scope.spawn(|| loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                let result = work(number);
                // Poisoned only if `work` panicked, which the scope passes on.
                if let Ok(mut done) = done.lock() {
                    done.push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_keep_the_order_of_their_numbers() {
        let squares = map(100, |n| {
            std::thread::yield_now();
            n * n
        });
        assert_eq!(squares, (0..100).map(|n| n * n).collect::<Vec<_>>());
        assert!(map(0, |n| n).is_empty());
    }
}
