//! Files and disks on the critical path: few threads are active because somebody waits for I/O, and others
//! wait for him.

use std::collections::BTreeMap;

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{FindingId, OffId, OffReason};

use crate::estimate::saving::Saving;
use crate::facts::call_path::{CallPaths, PathId};
use crate::facts::own_wait::Blocked;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::{is_file_io, RunView};
use crate::words::{cause, in_what, time};

/// I/O can be overlapped, or done by another thread, for half of what it takes; whether at all is not known.
const EXPECTED: f64 = 0.5;
const METHOD: &str =
    "time that few threads worked while somebody waited for I/O, overlapped with work";

/// One finding per call path and kind of I/O.
pub(crate) fn findings(cx: &RunFacts) -> Vec<Finding> {
    let view = cx.view;
    let mut places = CallPaths::new(view.model, true);
    let mut sums: BTreeMap<(PathId, OffReason), Blocked> = BTreeMap::new();
    // What is written through again and again is one cost, wherever it is done.
    for (ix, off) in view.sched.offs.iter().enumerate() {
        if is_file_io(off.reason) && !cx.written_through.has(view, off) {
            let key = (places.of(off.site), off.reason);
            sums.entry(key).or_default().add(cx, OffId(ix as u32), off);
        }
    }
    for slice in &view.sched.slices {
        if let Some(reason) = cx.in_call.reason(slice) {
            let key = (places.of(slice.site), reason);
            if let Some(blocked) = sums.get_mut(&key) {
                blocked.add_call(cx, slice);
            }
        }
    }
    sums.into_iter()
        .filter_map(|((_, reason), blocked)| finding(cx, reason, &blocked))
        .collect()
}

fn finding(cx: &RunFacts, reason: OffReason, blocked: &Blocked) -> Option<Finding> {
    let view = cx.view;
    let (one, all) = blocked.wall(cx);
    let saving = Saving {
        expected: EXPECTED * one,
        most: all,
        sure: 0.0,
        cpu: (0.0, blocked.cpu),
    };
    if saving.bound(view) < view.t.gain_mid || !blocked.on_the_critical_path(cx) || cx.nobody_asks {
        return None;
    }
    let site = blocked.site()?;
    let place = view.place(Some(site));
    let file = blocked.main_name();
    let share = one / view.wall;
    let mut list = blocked.evidence("io_wait_ns", "io_wait_low_ns");
    list.extend(waited_for(cx, blocked));
    list.extend(files(view, blocked));
    Some(Finding {
        id: FindingId::BlockingIo,
        subject: match file {
            Some(name) => Subject::File(name, site),
            None => Subject::Code(site),
        },
        title: format!(
            "{} of the run few threads work because {} {} at {place}",
            percent(share),
            what(view, blocked),
            match reason {
                OffReason::Sync => "written through to the disk",
                OffReason::File => "read or written",
                _ => "waited for",
            }
        ),
        evidence: list,
        causes: vec![cause(
            "blocking-io",
            format!("threads wait for one that is {}", in_what(reason)),
            match reason {
                OffReason::Sync => format!("one fsync for several writes at {place}, or a thread of its own for it"),
                _ => format!("read ahead or write behind at {place}: a thread of its own, or asynchronous I/O"),
            },
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the disk, where nothing can be overlapped"),
        share_of_thread_time: share,
        caveats: vec!["I/O can be overlapped, but it does not go away: the expected gain assumes half of it".into()],
    })
}

/// The file that it is about, or how many they are, as a subject: `a file is`.
pub(crate) fn what(view: &RunView, blocked: &Blocked) -> String {
    match view.file_name(blocked.main_name()) {
        Some(name) => format!("{name} is"),
        None if blocked.names.len() > 1 => format!("{} are", plural(blocked.names.len(), "file")),
        None => "a file is".into(),
    }
}

/// What others waited for it.
pub(crate) fn waited_for(cx: &RunFacts, blocked: &Blocked) -> Option<Evidence> {
    let waited = blocked.waited_for(cx);
    let text = "is what another thread waited for it";
    (waited > 0.0).then(|| time("waited_for_ns", waited, text))
}

/// The files with most of it, if it is not mostly one.
pub(crate) fn files(view: &RunView, blocked: &Blocked) -> Vec<Evidence> {
    let names = blocked.names.iter();
    let names = names.filter(|_| blocked.main_name().is_none());
    let mut names: Vec<_> = names.map(|(&id, &ns)| (ns, id)).collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let named = names.into_iter().take(3).filter_map(|(ns, id)| {
        let name = view.file_name(Some(id))?;
        Some(time("file_wait_ns", ns, &format!("for {name}")))
    });
    named.collect()
}
