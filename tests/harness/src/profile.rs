//! Questions to a recorded profile.

use convoy_profile::{Frame, FrameIx, Op, Process, Profile, StackIx, Symbol};

/// Calls and failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Acquisitions of blocking acquires, calls of everything else.
    pub n: u64,
    /// Failed tries and timeouts.
    pub failed: u64,
}

/// Waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many.
    pub n: u64,
    /// Their sum.
    pub sum_ns: u64,
}

/// Calls of `op` whose call site is in `function`, in all processes and threads.
pub fn calls(profile: &Profile, function: &str, op: Op) -> Calls {
    let mut calls = Calls::default();
    for process in &profile.processes {
        let there = |frame: FrameIx| frame_is_in(process, frame, function);
        let counts = process
            .counts
            .iter()
            .filter(|c| c.op == op && there(c.frame))
            .map(|c| (c.n, c.failed));
        let rest = process
            .unattributed
            .iter()
            .filter(|c| c.op == op && there(c.frame))
            .map(|c| (c.n, c.failed));
        for (n, failed) in counts.chain(rest) {
            calls.n += n;
            calls.failed += failed;
        }
    }
    calls
}

/// Waits, of any operation, with `function` anywhere on the stack.
pub fn waits(profile: &Profile, function: &str) -> Waits {
    let mut waits = Waits::default();
    for process in &profile.processes {
        for detail in &process.details {
            let wait = detail
                .wait
                .as_ref()
                .filter(|_| stack_has(process, detail.stack, function));
            if let Some(wait) = wait {
                waits.n += wait.n;
                waits.sum_ns += wait.sum_ns;
            }
        }
    }
    waits
}

/// Threads with this start routine and name.
pub fn threads(profile: &Profile, start: &str, name: &str) -> usize {
    let matches = |process: &Process| {
        let of_start =
            |t: &&convoy_profile::Thread| t.start.is_some_and(|f| frame_is_in(process, f, start));
        process
            .threads
            .iter()
            .filter(of_start)
            .filter(|t| t.name == name)
            .count()
    };
    profile.processes.iter().map(matches).sum()
}

/// An operation by the name that it has in programs and tables: kebab-case.
pub fn op(name: &str) -> Option<Op> {
    let pascal: String = name
        .split('-')
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
                .unwrap_or_default()
        })
        .collect();
    serde_json::from_value(serde_json::Value::String(pascal)).ok()
}

fn stack_has(process: &Process, stack: StackIx, function: &str) -> bool {
    let frames = process
        .stacks
        .get(stack as usize)
        .map(Vec::as_slice)
        .unwrap_or_default();
    frames
        .iter()
        .any(|&frame| frame_is_in(process, frame, function))
}

fn frame_is_in(process: &Process, frame: FrameIx, function: &str) -> bool {
    process
        .frames
        .get(frame as usize)
        .is_some_and(|frame| names(frame).any(|name| plain(name) == function))
}

fn names(frame: &Frame) -> impl Iterator<Item = &str> {
    let locations = match &frame.symbol {
        Symbol::Known(locations) => locations.as_slice(),
        Symbol::Unknown(_) => &[],
    };
    locations.iter().map(|location| location.function.as_str())
}

/// The name as the source has it: without arguments, scopes and the compiler's suffixes.
pub fn plain(name: &str) -> &str {
    let name = name.split(['(', '<']).next().unwrap_or(name);
    let name = name.rsplit("::").next().unwrap_or(name);
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_operations_are_those_of_the_profile() {
        assert_eq!(op("mutex-lock"), Some(Op::MutexLock));
        assert_eq!(op("rwlock-timedrd"), Some(Op::RwlockTimedrd));
        assert_eq!(op("mutex-luck"), None);
    }

    #[test]
    fn names_of_functions_lose_what_the_compiler_added() {
        assert_eq!(plain("bank::hot_lock_region(int)"), "hot_lock_region");
        assert_eq!(plain("cov_omp_barrier._omp_fn.0"), "cov_omp_barrier");
        assert_eq!(plain("hot_mutex::hot_lock_region"), "hot_lock_region");
    }
}
