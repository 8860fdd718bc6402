//! What threads wait for when none goes on, in words.

use std::collections::BTreeMap;

use crate::program::Op;

/// Begins the reason of a simulated replay whose threads all wait.
pub const PREFIX: &str = "a replay comes to a standstill";

/// Whether a replay gives this reason.
pub fn is_one(reason: &str) -> bool {
    reason.starts_with(PREFIX)
}

/// What an operation waits for, if it has to.
pub fn waits_for(op: &Op) -> &'static str {
    match op {
        Op::Acquire { .. } | Op::TryAcquire { .. } => LOCK,
        Op::Await { .. } => CONDITION,
        Op::Barrier { .. } => BARRIER,
        Op::SemWait { .. } => SEMAPHORE,
        Op::Join { .. } => THREAD,
        _ => CPU,
    }
}

/// Waits for a lock.
pub const LOCK: &str = "a lock";
/// ... for a predicate.
pub const CONDITION: &str = "a condition";
/// ... for other threads.
pub const BARRIER: &str = "the others of a barrier";
/// ... for a post.
pub const SEMAPHORE: &str = "a semaphore";
/// ... for its end.
pub const THREAD: &str = "another thread's end";
/// ... for nothing of the program.
pub const CPU: &str = "a CPU";

/// `2 threads wait for a condition, 1 for a semaphore`.
pub fn told(waits: impl Iterator<Item = &'static str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for wait in waits {
        *counts.entry(wait).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut counts = counts.into_iter();
    let Some((first, n)) = counts.next() else {
        return "no thread waits".into();
    };
    let threads = if n == 1 {
        "thread waits"
    } else {
        "threads wait"
    };
    let mut text = format!("{n} {threads} for {first}");
    for (wait, n) in counts {
        text += &format!(", {n} for {wait}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_wait_comes_first() {
        let waits = [SEMAPHORE, CONDITION, CONDITION];
        assert_eq!(
            told(waits.into_iter()),
            "2 threads wait for a condition, 1 for a semaphore"
        );
        assert_eq!(told([LOCK].into_iter()), "1 thread waits for a lock");
        assert_eq!(told([].into_iter()), "no thread waits");
    }
}
