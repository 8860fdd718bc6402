//! Locks on files, fcntl() and flock(): processes and threads of one program that exclude one another where no agent and
//! no futex sees it.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{GroupId, NameId, OffCpu, OffReason, SiteId, ThreadId, Waker};

use super::excluded::Excluded;
use super::Context;
use crate::gain::Saving;
use crate::levels::freed;
use crate::switching::Switching;
use crate::tables::paths::most;
use crate::text::{cause, evidence};
use crate::view::View;

/// Ranges of a file can have a lock each; something is left to wait for.
const EXPECTED: f64 = 0.8;
const SURE: f64 = 0.2;
const METHOD: &str = "waits for the lock, gone";

/// fcntl() and flock() on x86-64 and on aarch64. Those that have these numbers on the other one wait for something
/// else, and have another reason.
const CALLS: [i16; 4] = [72, 73, 25, 32];

#[derive(Default)]
struct Case {
    waits: Excluded,
    names: BTreeSet<Option<NameId>>,
    wakers: BTreeMap<SiteId, f64>,
}

pub(crate) fn findings(cx: &Context) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let is_case = |off: &OffCpu| {
        off.reason == OffReason::Ipc
            && CALLS.contains(&off.nr)
            && (view.workers.contains(&off.thread) || is_for_a_script(view, off.thread))
    };
    // By place, in whichever process: they are one program.
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for off in view.sched.offs.iter().filter(|off| is_case(off)) {
        let case = cases.entry(view.place(off.site)).or_default();
        case.waits.add(view, off);
        case.names.insert(off.name);
    }
    for wake in &view.sched.wakes {
        let (Some(off), Waker::Thread(_, Some(site))) = (view.sched.off(wake.off), wake.waker)
        else {
            continue;
        };
        let case = cases.get_mut(&view.place(off.site));
        if let Some(case) = case.filter(|_| is_case(off)) {
            *case.wakers.entry(site).or_default() += wake.wait_ns as f64;
        }
    }
    cases
        .into_iter()
        .filter_map(|(place, case)| Some((case.waits.roles(view), case.finding(cx, &place)?)))
        .collect()
}

/// Whether the one that waits is `flock` of util-linux: it does no work, and the script that goes on afterwards waits for it.
fn is_for_a_script(view: &View, id: ThreadId) -> bool {
    let process = view.process(id);
    let process = view.model.processes.get(process.0 as usize);
    process.is_some_and(|process| process.name == "flock")
}

impl Case {
    fn saving(&self, cx: &Context) -> Saving {
        let view = cx.view;
        let waits = &self.waits;
        let switching = Switching::of(view, &waits.threads, waits.n as f64);
        let threads = waits.threads.len() as f64;
        let each = |cpu: f64| ((waits.sum + cpu) / threads).min(view.wall);
        let freed = freed(&waits.meanwhile, &view.sched.working, view.useful);
        Saving {
            expected: EXPECTED * freed.max(each(switching.expected)),
            most: freed.max(each(switching.most)),
            sure: SURE,
            cpu: (switching.expected, switching.most),
        }
    }

    fn finding(&self, cx: &Context, place: &str) -> Option<Finding> {
        let view = cx.view;
        if !self.waits.is_a_convoy() {
            return None;
        }
        let saving = self.saving(cx);
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let site = most(self.waits.sites.clone())?;
        let share = self.waits.share(view);
        let who = match self.waits.processes(view).len() {
            1 => plural(self.waits.threads.len(), "thread"),
            n => format!("{n} processes"),
        };
        let names: Vec<&str> = self
            .names
            .iter()
            .filter_map(|&name| view.file_name(name))
            .collect();
        let lock = match names.as_slice() {
            [one] if self.names.len() == 1 => format!("the lock on {one}"),
            _ => "a lock on a file".to_owned(),
        };
        let mut list = self.waits.evidence();
        if let Some(released) = most(self.wakers.clone()) {
            let of_all = self.wakers.values().sum::<f64>() / self.waits.sum.max(1.0);
            let at = view.place(Some(released));
            let of_all = of_all.min(1.0);
            let text = format!("most was ended at {at}; known of {} of it", percent(of_all));
            list.push(evidence("released_ratio", of_all, text));
        }
        let threads = &self.waits.threads;
        let fix = match threads.iter().all(|&id| is_for_a_script(view, id)) {
            true => "less in the script before the lock is let go: write to a file of one's own, and take the lock only to move or \
                     append it"
                .into(),
            false => format!(
                "less work under the lock taken at {place}, a lock for each part of the file (a range, a file each), or a mutex \
                 in shared memory"
            ),
        };
        Some(Finding {
            id: "contended-file-lock",
            subject: Subject::Code(site),
            title: format!(
                "{who} wait for {lock} {} of their time, at {place}",
                percent(share)
            ),
            evidence: list,
            causes: vec![cause(
                "contended-file-lock",
                "processes or threads exclude one another by a lock on a file (fcntl, flock)",
                fix,
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the section itself"),
            share_of_thread_time: share,
            caveats: Vec::new(),
        })
    }
}
