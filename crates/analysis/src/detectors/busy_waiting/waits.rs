//! Loops that are one wait: threads that spin for one another are relieved by one change of how they meet.
//!
//! A thread that fills a ring spins in push(), and one that empties it in pop(). As long as one of them spins, CPUs stay short,
//! so that what each loop costs alone is not what a fix of both buys.

use std::collections::BTreeSet;

use convoy_model::{GroupId, ProcessId, SpinKind, SyncCode};

use super::is_inside;
use super::is_monitor;
use super::place;
use super::Spinners;
use crate::facts::run_view::RunView;
use crate::tables::scheduler::LoopRow;

/// Places that a title names.
const NAMED: usize = 2;

/// Joins what is one wait; most first, as they came.
pub(super) fn together(view: &RunView, all: Vec<Spinners>) -> Vec<Spinners> {
    let mut joined: Vec<Spinners> = Vec::new();
    let burning: BTreeSet<_> = all
        .iter()
        .filter(|of| is_own(view, &of.row))
        .flat_map(Spinners::groups)
        .collect();
    let for_one_another = nobody_else(view, &burning);
    for spinners in all {
        let own = is_own(view, &spinners.row);
        let same = |of: &&mut Spinners| {
            own && is_own(view, &of.row)
                && of.processes() == spinners.processes()
                && (for_one_another
                    || of.shares_threads(&spinners)
                    || same_data(view, of, &spinners.row))
        };
        match joined.iter_mut().find(same) {
            Some(of) => of.join(spinners),
            None => joined.push(spinners),
        }
    }
    joined
}

/// A loop of the program's own that looks at memory. Locks are waited for one by one, and what a runtime polls is its own affair.
fn is_own(view: &RunView, row: &LoopRow) -> bool {
    let looks = matches!(
        row.kind,
        SpinKind::Polling | SpinKind::Pause | SpinKind::Yield
    );
    let spin = view.sched.loops.get(row.spin.0 as usize);
    let of_a_lock = || {
        is_inside(view.model, row.spin, |site| {
            site.sync == Some(SyncCode::Lock)
        })
    };
    looks && !spin.is_some_and(is_monitor) && !of_a_lock()
}

/// Whether all who work spin as well: whom each of them waits for is one of them.
fn nobody_else(view: &RunView, spin: &BTreeSet<(ProcessId, GroupId)>) -> bool {
    let processes: BTreeSet<_> = spin.iter().map(|(process, _)| *process).collect();
    let mut workers = view
        .workers
        .iter()
        .map(|id| (view.process(*id), view.group(*id)));
    processes.len() == 1 && workers.all(|of| spin.contains(&of) || !processes.contains(&of.0))
}

/// Whether the loops are in functions of one type, as `Ring::push` and `Ring::pop`.
fn same_data(view: &RunView, a: &Spinners, b: &LoopRow) -> bool {
    let of = |row: &LoopRow| {
        let spin = view.sched.loops.get(row.spin.0 as usize)?;
        let name = spin.frames.get(spin.shown)?.function_label();
        let (data, _) = name.rsplit_once("::")?;
        Some((spin.frames.first()?.module.clone(), data.to_owned()))
    };
    let mut known = std::iter::once(&a.row).chain(&a.elsewhere);
    of(b).is_some_and(|b| known.any(|row| of(row).as_ref() == Some(&b)))
}

/// The places of a wait, those with most named.
pub(super) fn places(view: &RunView, spinners: &Spinners, first: String) -> String {
    let mut places = vec![first];
    for row in &spinners.elsewhere {
        let spin = view.sched.loops.get(row.spin.0 as usize);
        let here = spin.map(|spin| place(view, row, spin));
        places.extend(here.filter(|here| !places.contains(here)));
    }
    let others = places.len().saturating_sub(NAMED);
    places.truncate(NAMED);
    let named = places.join(" and ");
    match others {
        0 => named,
        n => format!("{named} ({n} more)"),
    }
}

impl Spinners {
    fn groups(&self) -> impl Iterator<Item = (ProcessId, GroupId)> + '_ {
        self.threads.keys().copied()
    }

    fn processes(&self) -> BTreeSet<ProcessId> {
        self.groups().map(|(process, _)| process).collect()
    }

    fn shares_threads(&self, other: &Self) -> bool {
        other.groups().any(|of| self.threads.contains_key(&of))
    }

    fn join(&mut self, other: Self) {
        let row = other.row.clone();
        self.add(&other.row);
        for (of, n) in other.threads {
            let threads = self.threads.entry(of).or_default();
            *threads = (*threads).max(n);
        }
        self.row.threads = self.threads.values().sum();
        self.elsewhere.push(row);
        self.elsewhere.extend(other.elsewhere);
    }
}
