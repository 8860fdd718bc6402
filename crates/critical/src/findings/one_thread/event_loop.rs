//! A program with an event loop whose thread computes all the time: all other events wait meanwhile.

use convoy_model::words::percent;
use convoy_model::{Process, Site, ThreadId};

use super::{More, EXPECTED, NEVER_SEEN};
use crate::view::View;

/// Samples of the thread from which on shares of them mean something.
const SAMPLES: u64 = 50;
/// Part of its work that must be divisible for all that is known.
const WORTH: f64 = 0.2;
/// Libraries that compute for it, and how Node's own part calls them: each such call has a variant that does it in a pool of threads.
const LIBRARIES: [&str; 4] = [
    "libcrypto.so",
    "libz.so",
    "libbrotlienc.so",
    "libbrotlidec.so",
];
const CALLS: [&str; 2] = ["node::crypto::", "::CompressionStream<"];

/// `None` where all that is known of what it runs is that it is the program's own code, and for nobody who asks.
pub(in crate::findings) fn more(view: &View, id: ThreadId, process: &Process) -> Option<More> {
    let (mut all, mut computes) = (0, 0);
    for (slice, site) in view.model.samples().filter(|(slice, _)| slice.thread == id) {
        all += slice.n;
        computes += slice.n * u64::from(site.is_some_and(has_a_variant));
    }
    let share = computes as f64 / all.max(1) as f64;
    let own = match process.listens {
        true => NEVER_SEEN,
        false => 0.0,
    };
    let expected = share * EXPECTED + (1.0 - share) * own;
    if all < SAMPLES || expected < WORTH {
        return None;
    }
    let seen = format!(
        "{} of it is in calls of libraries for which {} has threads of its own",
        percent(share),
        process.name
    );
    Some(More {
        expected,
        seen,
        why: "one thread handles all events, and all others wait while it computes",
        fix: format!(
            "what computes in other threads: variants of the calls that do not block (crypto.pbkdf2 instead of pbkdf2Sync, zlib.gzip instead of \
             gzipSync), worker_threads; or {:.0} processes that share the requests (cluster)",
            view.cpus
        ),
        caveat: "whether there are several tasks at a time is not known",
    })
}

fn has_a_variant(site: &Site) -> bool {
    let of = |name: &str, parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let mut frames = site.frames.iter();
    frames.any(|frame| of(&frame.module, &LIBRARIES) || of(&frame.function, &CALLS))
}
