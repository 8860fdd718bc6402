//! Every sentence that experiments say, in one place.

use std::time::Duration;

use crate::estimator::Estimator;
use crate::progress::{gap_seconds, Progress, WINDOW_S as SHORTEST_WINDOW_S};

/// Windows of a block of one target.
const WINDOWS_LEAST: usize = 6;
/// The beginning of a program, and the look at it.
const LOOK: Duration = Duration::from_millis(700);
/// The beginning of a program that is known from earlier runs.
const BEGINNING: Duration = Duration::from_millis(100);

/// What counts as progress.
pub(crate) fn progress(progress: &Progress) -> String {
    match progress {
        Progress::Calls(name) => format!("calls of {name}"),
        Progress::SystemCalls(name) => format!("system calls {name}"),
        Progress::Point(name) => format!("progress point {name}"),
        Progress::Latency(name) => format!("latency {name}"),
        Progress::Releases => "locks released".into(),
        Progress::Wakes => "wake-ups given".into(),
        Progress::Arrivals => "arrivals at barriers".into(),
    }
}

pub(crate) fn too_few_windows(windows: usize) -> String {
    format!(
        "only {windows} windows were measured in whole blocks: raise --budget, or give the program \
         more work"
    )
}

pub(crate) fn estimator(estimator: Estimator) -> &'static str {
    match estimator {
        Estimator::Dilate => "everything but the target was slowed down (docs/causal.md: D)",
        Estimator::Slow => {
            "the target was slowed down: upper bounds of the gain (docs/causal.md: S)"
        }
        Estimator::Factorial => {
            "each target was slowed down in half of the windows, at random: means over the others being \
             slowed or not (docs/causal.md: F)"
        }
        Estimator::Exchange => {
            "threads waited for the lock by another algorithm in some windows (docs/causal.md: try)"
        }
    }
}

/// Why experiments have no result.
pub mod reason {
    use std::time::Duration;

    use crate::progress::{Progress, Rate};
    use crate::target::Kind;

    /// The program ended too early.
    pub fn too_short(ran: Duration, needed: Duration) -> String {
        format!(
            "the program ended after {}: experiments need about {}. Give it more work, or run it \
             again until that is reached (--repeat)",
            seconds(ran),
            seconds(needed)
        )
    }

    /// It ends before one block of windows, however often it runs.
    pub fn too_short_to_repeat(ran: Duration, windows_per_block: usize) -> String {
        format!(
            "the program ends after {}, and a run must last for {} windows in turn: {}. Give it \
             more work, or name fewer targets",
            seconds(ran),
            windows_per_block.max(super::WINDOWS_LEAST),
            seconds(super::block_needed(windows_per_block))
        )
    }

    /// A process that runs on was given too little time, or has ended.
    pub fn stopped(ran: Duration, needed: Duration) -> String {
        format!(
            "they ended after {}, and need about {}. Let them run longer",
            seconds(ran),
            seconds(needed)
        )
    }

    /// Code belongs to two targets.
    pub fn overlap(other: &str) -> String {
        format!("its code is also code of {other}: try them in two runs")
    }

    /// The same target again.
    pub fn named_twice() -> String {
        "it is named twice: its result is in the other row".into()
    }

    /// The agent has no room for its code.
    pub fn too_many_ranges(ranges: usize, most: usize) -> String {
        format!(
            "its code lies in {ranges} places, and all targets together may have {most}: name fewer \
             targets, or a line or function with fewer inlined copies"
        )
    }

    /// The agent has no room for its locks.
    pub fn too_many_locks(locks: usize, most: usize) -> String {
        format!(
            "this name stands for {locks} locks, and one target may have {most}: name one of them \
             by its address (0x...)"
        )
    }

    /// Nothing happened that counts.
    pub fn no_progress() -> String {
        "nothing counts as progress: the program releases no locks and wakes no threads, and \
         functions that took samples are called too rarely, or are inlined. Name a function that is \
         called for each unit of work (--progress fn:NAME), or mark a place in the loop with \
         COZ_PROGRESS (coz.h)"
            .into()
    }

    /// What the user has named comes too rarely.
    pub fn rare_progress(progress: &Progress, per_second: f64) -> String {
        format!(
            "{}: {per_second:.1} per second, and experiments need {:.0}. Name another point, or \
             give the program more work",
            super::progress(progress),
            Rate::LEAST_HZ.ceil()
        )
    }

    /// A point that the user has named cannot be counted.
    pub fn no_point(point: &str, found: &str, fix: &str) -> String {
        format!("{point} cannot be counted: {found}; {fix}")
    }

    /// No agent in the program.
    pub fn no_agent() -> String {
        "the agent is not in the program: experiments need a dynamically linked program that uses \
         glibc. `convoy doctor PROGRAM` says more"
            .into()
    }

    /// Nothing ran that could be a target.
    pub fn no_target() -> String {
        "no function and no lock took a share of the run that is worth an experiment. Name one with \
         --target"
            .into()
    }

    /// The code of a target took no sample.
    pub fn never_ran() -> String {
        "it took no sample: it does not run, or only very briefly".into()
    }

    /// No sample in windows of a target's own met it.
    pub fn never_met(kind: Kind, samples: u64) -> String {
        let none =
            format!("none of {samples} samples in its windows met it: no data, which is not zero.");
        match kind {
            Kind::Path => format!(
                "{none} Its functions are inlined, leave by a tail call, or do not run in this order: \
                 name one that has a frame of its own (fn:NAME, or path:NAME of a caller)"
            ),
            Kind::Threads => format!(
                "{none} These threads hardly run, and do not sleep: name those that they wait for"
            ),
            _ => format!("{none} It does not run, or only very briefly"),
        }
    }

    /// The process has ended while its files were read.
    pub fn gone() -> String {
        "the process ended before its files could be read".into()
    }

    /// No thread has such a name or group.
    pub fn no_threads(wanted: &str, groups: &[String]) -> String {
        format!(
            "no thread is called {wanted}, and none is of such a group (digits as #); there are: {}",
            groups.join(", ")
        )
    }

    /// No file has such a line.
    pub fn no_line() -> String {
        "no instruction belongs to this line: the compiler has moved or removed its code".into()
    }

    /// Lines are not known.
    pub fn no_debug_information() -> String {
        "lines need debug information: compile with -g, or name a function".into()
    }

    /// No lock answers to a name.
    pub fn no_lock(text: &str) -> String {
        format!("the program has used no lock that {text:?} means; `convoy -- COMMAND` lists them")
    }

    /// No mutex is worth another algorithm.
    pub fn no_contended_mutex() -> String {
        "threads wait for no mutex long enough for another algorithm to matter. Name one with --lock"
            .into()
    }

    /// An object that threads do not wait for as for a mutex.
    pub fn no_mutex(kind: &str) -> String {
        format!("it is a {kind}: algorithms are tried for mutexes")
    }

    /// An algorithm was in force, and no thread used it.
    pub fn not_tried() -> String {
        "no thread waited by it: the mutex is recursive, robust, shared between processes or has a \
         priority protocol, or no thread had to wait"
            .into()
    }

    /// Sections were to be entered together, and no thread did so.
    pub fn not_entered() -> String {
        "no thread entered a section so: the mutex is recursive, robust, shared between processes or \
         has a priority protocol, or no section is entered by a function named with --reads"
            .into()
    }

    /// A mutex that belongs to a condition.
    pub fn condition() -> String {
        "threads wait on a condition variable with the mutex: without it they would miss wake-ups. It \
         was left alone"
            .into()
    }

    /// A queue stood still.
    pub fn broken_queue() -> String {
        "the queue stood still for 100 ms and was given up: a thread held the mutex for so long, or \
         got no CPU"
            .into()
    }

    /// The agent has no room for the locks of all targets that are tried at once.
    pub fn too_many_locks_at_once(most: usize) -> String {
        format!(
            "all targets of --estimator factorial may stand for {most} locks together: name fewer, or \
             take another estimator"
        )
    }

    /// Samples are needed and cannot be taken.
    pub fn no_samples(why: &str) -> String {
        format!("targets of code need samples, which cannot be taken: {why}")
    }

    fn seconds(time: Duration) -> String {
        match time.as_millis() {
            ms @ 0..1000 => format!("{ms} ms"),
            ms => format!("{:.1} s", ms as f64 / 1000.0),
        }
    }
}

/// More targets than there is room for.
pub fn too_many_targets(targets: usize, most: usize) -> crate::Invalid {
    crate::Invalid {
        found: format!("{targets} targets are named, and one run may have {most}"),
        fix: "divide them between two runs".into(),
    }
}

/// How long a program must run for a first result. `window_seconds`: 0 = not known yet.
pub fn length_needed(windows_per_block: usize, window_seconds: f64) -> Duration {
    let windows = crate::experiment::BLOCKS_LEAST * windows_per_block.max(WINDOWS_LEAST);
    let window = window_seconds.max(SHORTEST_WINDOW_S);
    LOOK + Duration::from_secs_f64(windows as f64 * (window + gap_seconds(window)))
}

/// How long each run must last if a program runs again and again.
pub fn block_needed(windows_per_block: usize) -> Duration {
    let window = SHORTEST_WINDOW_S + gap_seconds(SHORTEST_WINDOW_S);
    BEGINNING + Duration::from_secs_f64(windows_per_block.max(WINDOWS_LEAST) as f64 * window)
}

/// Caveats, each with what to do.
pub mod note {
    use crate::result::TargetRow;

    const OTHERS: &str = "Other programs had";

    /// Other programs used the CPUs.
    pub fn busy(share: f64) -> String {
        format!(
            "{OTHERS} {:.0} % of the CPUs: repeat on an idle machine.",
            100.0 * share
        )
    }

    /// Whether it is a note of [`busy`].
    pub(crate) fn is_busy(note: &str) -> bool {
        note.starts_with(OTHERS)
    }

    /// Samples come at the kernel's tick.
    pub fn timers(why: &str) -> String {
        format!(
            "Samples come from CPU-time timers, at the kernel's tick (4 ms): {why}. Results of \
             functions are coarser. As root, or with kernel.perf_event_paranoid at 2, samples are exact."
        )
    }

    /// What a profile with experiments is of.
    pub fn slowed(seconds: f64) -> String {
        format!(
            "Experiments slowed the program down for {seconds:.1} s: waits and holds of this run \
             are longer than they would be."
        )
    }

    /// The beginning of some requests was not counted.
    pub fn missed(requests: u64) -> String {
        format!(
            "At least {requests} requests were in flight when they began to be counted: if there were \
             more, latencies are longer. Start the load after convoy, or mark them with COZ_BEGIN and \
             COZ_END (coz.h)."
        )
    }

    /// Threads without samples.
    pub fn blocked(threads: usize) -> String {
        format!(
            "Threads that block all signals: {threads}. Their code was not slowed down: choose locks as \
             targets."
        )
    }

    /// How many samples met a call path or threads.
    pub fn hits(row: &TargetRow, hits: u64, samples: u64) -> String {
        format!(
            "{}: {hits} of the {samples} samples in its own windows met it.",
            crate::text::subject(row)
        )
    }

    /// A system call was interrupted.
    pub fn broken(calls: u64) -> String {
        format!(
            "{calls} system calls of the program were interrupted by samples: please report this."
        )
    }
}
