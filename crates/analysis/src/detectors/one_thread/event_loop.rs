//! A program with an event loop whose thread computes all the time: all other events wait meanwhile.

use convoy_model::words::percent;
use convoy_model::{Process, Site, SiteFrame, ThreadId};

use super::seen_to_listen;
use super::More;
use super::EXPECTED;
use super::NEVER_SEEN;
use crate::facts::request_queue::{self, Queue};
use crate::facts::run_facts::RunFacts;
use crate::words::how_many;

/// Samples of the thread from which on shares of them mean something.
const SAMPLES: u64 = 50;
/// Part of its work that must be divisible for all that is known.
const WORTH: f64 = 0.2;
/// Functions of Node that do on the calling thread what a variant of the call does in its pool (`DoThreadPoolWork`, and what it may be
/// inlined into). There is no such variant of hashes, and none is called for what a connection encrypts.
const BLOCKING: [[&str; 2]; 3] = [
    ["", "::DoThreadPoolWork("],
    ["CryptoJob<", "::Run("],
    ["CompressionStream<", "::Write<false>("],
];
/// How the parts of V8 begin that programs' code calls and is called by.
const BUILTIN: &str = "Builtins_";
const CAVEAT: &str = "whether there are several tasks at a time is not known";

/// `None` where all that is known of what it runs is that it is the program's own code, and for nobody who asks.
pub(crate) fn more(
    cx: &RunFacts,
    id: ThreadId,
    process: &Process,
    queue: Option<Queue>,
) -> Option<More> {
    let view = cx.view;
    let (mut all, mut blocking) = (0, 0);
    for (slice, site) in view.model.samples().filter(|(slice, _)| slice.thread == id) {
        all += slice.n;
        blocking += slice.n * u64::from(site.is_some_and(is_blocking));
    }
    let share = match all >= SAMPLES {
        true => blocking as f64 / all as f64,
        false => 0.0,
    };
    let own = match queue {
        Some(_) => request_queue::EXPECTED,
        None if !process.listens => 0.0,
        None if cx.askers.take_turns(view, view.role(id)) => return None,
        None => NEVER_SEEN,
    };
    let expected = share * EXPECTED + (1.0 - share) * own;
    if expected < WORTH {
        return None;
    }
    let processes = format!(
        "{} processes that share the requests (cluster)",
        how_many(view.cpus)
    );
    // Said of both only where each alone would be.
    let (seen, fix) = match share * EXPECTED >= WORTH {
        true => (
            format!(
                "{} of it is in calls that have variants which run in threads of {}",
                percent(share),
                process.name
            ),
            format!(
                "variants of the calls that do not block (crypto.pbkdf2 instead of pbkdf2Sync, zlib.gzip instead of gzipSync); or {}",
                match own > 0.0 {
                    true => processes,
                    false => "worker_threads".into(),
                }
            ),
        ),
        false => (
            queue.map_or_else(|| seen_to_listen(process), |queue| queue.seen()),
            format!("{processes}; or worker_threads for what computes"),
        ),
    };
    Some(More {
        expected,
        seen,
        why: "one thread handles all events, and all others wait while it computes",
        fix,
        caveat: CAVEAT,
    })
}

/// Whether the program's innermost code is in a call that does its work before it returns, and need not.
fn is_blocking(site: &Site) -> bool {
    let of_runtime =
        |frame: &&SiteFrame| !frame.module.is_empty() && !frame.function.starts_with(BUILTIN);
    let does = |name: &str| {
        BLOCKING
            .iter()
            .any(|parts| parts.iter().all(|part| name.contains(part)))
    };
    let mut called = site.frames.iter().take_while(of_runtime);
    called.any(|frame| does(&frame.function))
}
