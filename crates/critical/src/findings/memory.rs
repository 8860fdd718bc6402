//! Page faults and the lock of the address space.

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{OffId, OffReason};

use super::blocked::Blocked;
use super::Context;
use crate::gain::Saving;
use crate::text::{cause, evidence, time};

/// Some of it stays whatever one does.
const EXPECTED: f64 = 0.5;

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
    let faults = finding(cx, OffReason::PageFault, |place, share| {
        Words {
        id: "page-faults",
        title: format!("{share} of the run few threads work because others are in page faults, most at {place}"),
        text: "memory is read in or zeroed page by page, or waits for the lock of the address space",
        fix: format!("touch or read the memory of {place} ahead (MAP_POPULATE, madvise), reuse it, or use huge pages"),
    }
    });
    let lock = finding(cx, OffReason::Memory, |place, share| {
        Words {
        id: "memory-lock",
        title: format!("{share} of the run few threads work because others wait for the lock of the address space, most at {place}"),
        text: "mmap(), munmap(), brk() and page faults of all threads take one lock",
        fix: format!("map less often at {place}: keep memory instead of giving it back (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, another allocator)"),
    }
    });
    faults.into_iter().chain(lock).collect()
}

struct Words {
    id: &'static str,
    title: String,
    text: &'static str,
    fix: String,
}

fn finding(
    cx: &Context,
    reason: OffReason,
    words: impl Fn(&str, &str) -> Words,
) -> Option<Finding> {
    let view = cx.view;
    let mut blocked = Blocked::default();
    for (ix, off) in view.sched.offs.iter().enumerate() {
        if off.reason == reason {
            blocked.add(cx, OffId(ix as u32), off);
        }
    }
    let (one, all) = blocked.wall(cx);
    let saving = Saving {
        expected: EXPECTED * one,
        most: all,
        sure: 0.0,
    };
    if saving.bound(view) < view.t.gain_mid || !blocked.on_the_critical_path(cx) {
        return None;
    }
    let site = blocked.site()?;
    let share = one / view.wall;
    let words = words(&view.place(Some(site)), &percent(share));
    Some(Finding {
        id: words.id,
        subject: Subject::Code(site),
        title: words.title,
        evidence: vec![
            evidence(
                "wait_ns",
                blocked.sum,
                format!(
                    "{} waits, {} together, the longest {}",
                    count(blocked.n as f64),
                    duration(blocked.sum),
                    duration(blocked.longest as f64)
                ),
            ),
            time(
                "wait_low_ns",
                blocked.low,
                "of it passed while few threads worked or none",
            ),
        ],
        causes: vec![cause(words.id, words.text, words.fix)],
        undecided: String::new(),
        gain: saving.gain(
            view,
            "time that few threads worked while somebody was in it",
            "how much of the memory traffic can be avoided",
        ),
        share_of_thread_time: share,
        caveats: vec!["the expected gain assumes that half of it can be avoided".into()],
    })
}
