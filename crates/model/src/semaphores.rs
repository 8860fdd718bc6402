//! Semaphores: some are events, some hand out tokens that are given back, and some of these are locks.

use std::collections::{BTreeMap, BTreeSet};

use convoy_profile::{ObjectKind, Op};

use crate::{Model, ObjectId, ThreadId, Use};

/// Waits that make a pool of tokens: fewer are a start or an end.
const POOL_WAITS: u64 = 20;
/// Holds of a lock exclude each other, so that they last no longer than the run: but for errors of the samples.
const ALONE: f64 = 1.1;
/// Where CPython makes the locks of its programs: of semaphores, with one token.
const PYTHONS_LOCK: &str = "PyThread_allocate_lock";

/// Semaphores that are used as locks: with one token, which threads give back, and not for something that they use asleep, like a
/// connection, of which there may be more. The locks of Python's threads are left out: without them the interpreter's lock
/// would keep the threads from running at once.
pub fn semaphores_used_as_locks(model: &Model) -> BTreeSet<ObjectId> {
    let run_ns = model.meta.end_ns.saturating_sub(model.meta.start_ns) as f64;
    let is_lock = |uses: &[Use]| {
        let id = uses[0].object;
        let object = model.objects.get(id.0 as usize);
        let Some(object) = object.filter(|object| object.kind == ObjectKind::Sem) else {
            return false;
        };
        let held_ns: f64 = uses.iter().map(Use::hold_total_ns).sum();
        let alone = match object.tokens {
            Some(tokens) => tokens == 1,
            None => held_ns > 0.0 && held_ns <= ALONE * run_ns,
        };
        alone
            && held_ns <= ran_ns(model, uses)
            && !is_pythons_lock(model, id)
            && tokens_are_given_back(uses.iter())
    };
    let by_object = model.uses.chunk_by(|a, b| a.object == b.object);
    by_object
        .filter(|uses| is_lock(uses))
        .map(|uses| uses[0].object)
        .collect()
}

/// Whether an object is a lock of Python's threads, which CPython makes of a semaphore with one token.
pub fn is_pythons_lock(model: &Model, id: ObjectId) -> bool {
    let object = model.objects.get(id.0 as usize);
    let made = object.and_then(|of| model.site(of.init_site?));
    made.is_some_and(|site| site.has_function(|name| name == PYTHONS_LOCK))
}

/// The threads of a semaphore take and give back tokens: the calls of each thread balance, and several had to wait again
/// and again. One wait of one thread is for another's end: Python's threads hold such a semaphore while they live.
pub fn tokens_are_given_back<'a>(uses: impl Iterator<Item = &'a Use> + Clone) -> bool {
    let waits = |u: &Use| matches!(u.op, Some(Op::SemWait | Op::SemTimedwait));
    let waiting = || uses.clone().filter(|u| waits(u) && u.waits > 0);
    let waiters: BTreeSet<ThreadId> = waiting().map(|u| u.thread).collect();
    let waited: u64 = waiting().map(|u| u.waits).sum();
    if waiters.len() < 2 || waited < POOL_WAITS {
        return false;
    }
    let mut calls: BTreeMap<ThreadId, Balance> = BTreeMap::new();
    for u in uses.clone() {
        let c = calls.entry(u.thread).or_default();
        match u.op {
            Some(Op::SemPost) => c.given += u.calls,
            Some(Op::SemWait | Op::SemTimedwait | Op::SemTrywait) => {
                c.taken += u.calls.saturating_sub(u.failed)
            }
            _ => {}
        }
        c.estimated |= u.estimated;
    }
    let all = calls.values().fold(Balance::default(), |sum, c| Balance {
        taken: sum.taken + c.taken,
        given: sum.given + c.given,
        estimated: false,
    });
    let balanced = calls.values().filter(|c| c.holds());
    let balanced: u64 = balanced.map(|c| c.taken).sum();
    let users = calls.values().filter(|c| c.taken > 0).count();
    users >= 2 && all.holds() && balanced * 10 >= all.taken * 9
}

/// Tokens that a thread took and gave back.
#[derive(Default)]
struct Balance {
    taken: u64,
    given: u64,
    /// Some of it was not counted but drawn.
    estimated: bool,
}

impl Balance {
    /// Whether one is about the other: within a fifth, or a half of what is an estimate.
    fn holds(&self) -> bool {
        let (of, all) = if self.estimated { (1, 2) } else { (4, 5) };
        self.taken > 0 && self.given * all >= self.taken * of && self.given * of <= self.taken * all
    }
}

/// What the users of an object ran or waited for a processor, nanoseconds: who holds it longer than that was asleep with it.
fn ran_ns(model: &Model, uses: &[Use]) -> f64 {
    let users: BTreeSet<ThreadId> = uses.iter().map(|u| u.thread).collect();
    let threads = users
        .iter()
        .filter_map(|id| model.threads.get(id.0 as usize));
    threads
        .map(|t| (t.cpu_ns + t.run_delay_ns.unwrap_or(0)) as f64)
        .sum()
}
