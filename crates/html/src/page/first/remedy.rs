//! Fixes as imperatives of a few words, by the cause that calls for them.
//!
//! The finding's own text says where and how. It stands alone where a cause is not listed.

/// What to do, for a heading; `None`: the cause is not listed.
pub(super) fn imperative(cause: &str) -> Option<&'static str> {
    Some(match cause {
        "too-many-data-under-one-lock" | "truly-shared-data" => "Split the lock",
        "too-large-critical-section" | "small-section" => "Shorten the critical section",
        "blocking-inside-section" => "Move the blocking call out of the critical section",
        "read-only-section" => "Let readers run in parallel",
        "rwlock-mostly-written" | "rwlock-word-shared" => "Replace the reader-writer lock",
        "small-integer-section" => "Use atomic operations instead of the lock",
        "already-exclusive" | "local-data" => "Remove the lock",
        "lock-too-fine" | "several-small-sections" => "Take the lock once for several steps",
        "queue-lock" => "Move several items per lock acquisition",
        "uneven-partition" | "asymmetric-contention" => "Spread the work over all locks",
        "serialized-by-common-lock" | "contended-futex" => "Shorten or split the shared section",
        "library-locale-lock" | "library-shared-ptr-lock" | "library-unwind-lock" => {
            "Avoid the library's lock"
        }
        "memory-lock" => "Map memory less often",
        "page-faults" => "Touch the memory ahead of its use",
        "interpreter-lock" => "Use processes instead of threads",
        "blocking-io" | "blocking-calls" => "Overlap the I/O with work",
        "write-through" => "Sync several writes at once",
        "write-per-item" | "message-per-call" | "read-per-item" => "Buffer small reads and writes",
        "contended-file-lock" => "Hold the file lock for a shorter time",
        "busy-waiting" | "trylock-instead-of-block" | "trylock-spin" => "Block instead of spinning",
        "sleep-polling" => "Wait for the event instead of sleeping",
        "thundering-herd" => "Wake one thread, not all",
        "fine-grained-tasks" => "Use larger tasks",
        "lock-step" | "one-request-at-a-time" => "Hand over many items at once",
        "short-lived-threads" | "process-per-piece" => "Reuse threads and processes",
        "limiting-stage" | "slow-stage" => "Add threads to the limiting stage",
        "wrong-thread-assignment" => "Spread the threads otherwise",
        "too-few-threads" => "Add threads",
        "too-many-threads" => "Use fewer threads",
        "pool-too-small" | "small-pool" => "Enlarge the pool",
        "kept-off-cpus" => "Let the program use all CPUs",
        "serial-code" | "serial-phase" | "serial-jobs" => "Parallelize the serial code",
        "uneven-work" | "uneven-tasks" | "barrier-imbalance" | "thread-imbalance" => {
            "Balance the work"
        }
        "slow-peer" | "delayed-peer" => "Speed up the process that others wait for",
        "garbage-collection" => "Allocate less",
        "shared-atomic" | "contended-atomic" | "true-sharing" => "Count per thread, add up later",
        "shared-reference-count" => "Pass references, not shared copies",
        "false-sharing" | "contended-line" => "Keep the threads' data on separate cache lines",
        "copied-data" => "Copy less data",
        "starved-thread" => "Let the waiting thread go first",
        _ => return None,
    })
}

/// A text as a sentence begins.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_not_listed_has_no_imperative() {
        assert_eq!(imperative("too-many-threads"), Some("Use fewer threads"));
        assert_eq!(imperative("a-cause-of-next-year"), None);
        assert_eq!(capitalized("one lock per part"), "One lock per part");
        assert_eq!(capitalized(""), "");
    }
}
