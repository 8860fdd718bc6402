//! Permits of semaphores: their number at a window's start, and semaphores that are made anew.

use std::collections::{BTreeMap, BTreeSet};

use convoy_trace::{Event, Kind, ObjectIx, ObjectKind, Recording, ThreadIx, Window};

use crate::program::{Op, Program, SemIx};

/// One thread's use of a semaphore.
#[derive(Debug, Clone, Copy)]
struct Turns {
    /// Its first operation takes a permit.
    takes_first: bool,
    /// Its latest one does.
    takes_last: bool,
    /// It has taken one.
    has_taken: bool,
    /// It has taken and given back in turn.
    alternate: bool,
}

/// Takes the permits out that threads hold when the window begins: those of threads that give one
/// back before they take one. Semaphores that threads post without having taken them keep their
/// value.
pub(super) fn take_out(program: &mut Program) {
    let mut uses: BTreeMap<(SemIx, usize), Turns> = BTreeMap::new();
    for (thread, of) in program.threads.iter().enumerate() {
        for op in &of.ops {
            let (sem, takes) = match op {
                Op::SemWait { sem } => (*sem, true),
                Op::SemPost { sem } => (*sem, false),
                _ => continue,
            };
            uses.entry((sem, thread))
                .and_modify(|turns| {
                    turns.alternate &= turns.takes_last != takes;
                    turns.takes_last = takes;
                    turns.has_taken |= takes;
                })
                .or_insert(Turns {
                    takes_first: takes,
                    takes_last: takes,
                    has_taken: takes,
                    alternate: true,
                });
        }
    }
    for (semaphore, sem) in program.semaphores.iter_mut().zip(0..) {
        let of_it = || {
            uses.range((sem, 0)..=(sem, usize::MAX))
                .map(|(_, turns)| turns)
        };
        if of_it().all(|turns| turns.alternate) {
            let out = of_it().filter(|turns| !turns.takes_first && turns.has_taken);
            semaphore.value = semaphore.permits.saturating_sub(out.count() as u32);
        }
    }
}

/// Delay between a post and its event, at most, nanoseconds: the thread can lose its CPU in
/// between.
const LATE_NS: u64 = 20_000;

/// When, who, which of its events, what.
type Use = (u64, ThreadIx, usize, Kind);

/// Acquisitions without a wait of a semaphore that had no permit left, as (thread, event): it was
/// destroyed and made again at the same address, as the short-lived locks of an interpreter are.
pub(super) fn made_anew(recording: &Recording, window: Window) -> BTreeSet<(ThreadIx, usize)> {
    let mut uses: Vec<Vec<Use>> = vec![Vec::new(); recording.objects.len()];
    for (thread, of) in (0..).zip(&recording.threads) {
        let mut requested: Option<&Event> = None;
        for at in of.in_window(window) {
            let event = &of.events[at];
            let kind = match event.kind {
                Kind::SemRequest => {
                    requested = Some(event);
                    continue;
                }
                Kind::SemAcquired if requested.take().is_some() => Kind::SemRequest,
                kind @ (Kind::SemAcquired | Kind::SemPost) => kind,
                _ => continue,
            };
            if let Some(uses) = uses.get_mut(event.object as usize) {
                uses.push((event.at_ns, thread, at, kind));
            }
        }
    }
    let mut all = BTreeSet::new();
    for (object, mut uses) in (0..).zip(uses) {
        if let Some(permits) = made_with(recording, object) {
            uses.sort_unstable_by_key(|(at_ns, thread, at, _)| (*at_ns, *thread, *at));
            all.extend(of_one(&uses, i64::from(permits)));
        }
    }
    all
}

/// Permits that a semaphore was made with; `None` = it is none, or had none.
fn made_with(recording: &Recording, object: ObjectIx) -> Option<u32> {
    let object = recording.objects.get(object as usize)?;
    (object.kind == ObjectKind::Sem && object.attr > 0).then_some(object.attr)
}

/// Uses in order of time: acquisitions without a wait, after one (as its request), and posts.
fn of_one(uses: &[Use], permits: i64) -> Vec<(ThreadIx, usize)> {
    let (mut left, mut anew) = (permits, Vec::new());
    for (ix, (at_ns, thread, at, kind)) in uses.iter().enumerate() {
        match kind {
            Kind::SemPost => left += 1,
            Kind::SemRequest => left -= 1,
            _ if left > 0 => left -= 1,
            _ => {
                let soon = uses[ix + 1..]
                    .iter()
                    .take_while(|later| later.0 <= at_ns + LATE_NS);
                let by_others = |later: &&Use| later.3 == Kind::SemPost && later.1 != *thread;
                let posted = soon.filter(by_others).count() as i64;
                if left + posted > 0 {
                    left -= 1;
                } else {
                    anew.push((*thread, *at));
                    left = permits - 1;
                }
            }
        }
    }
    anew
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Semaphore, Thread};

    /// Threads that take (`+`) and give back (`-`) permits of a semaphore that was made with two.
    fn permits_left(threads: &[&str]) -> u32 {
        let op = |c: char| match c {
            '+' => Op::SemWait { sem: 0 },
            _ => Op::SemPost { sem: 0 },
        };
        let mut program = Program {
            threads: threads
                .iter()
                .map(|ops| Thread {
                    ops: ops.chars().map(op).collect(),
                    ..Default::default()
                })
                .collect(),
            semaphores: vec![Semaphore {
                recorded: 0,
                value: 2,
                permits: 2,
            }],
            ..Program::default()
        };
        take_out(&mut program);
        program.semaphores[0].value
    }

    #[test]
    fn permits_that_are_given_back_first_were_out_when_the_window_began() {
        assert_eq!(permits_left(&["+-+-", "+-"]), 2);
        assert_eq!(permits_left(&["-+-", "+-+"]), 1);
    }

    #[test]
    fn who_posts_what_others_wait_for_has_no_permit() {
        assert_eq!(permits_left(&["--", "++"]), 2);
        assert_eq!(permits_left(&["-", "+"]), 2);
    }

    #[test]
    fn a_lock_that_is_had_again_without_a_post_was_made_anew() {
        let of = |uses: &[(u64, ThreadIx, Kind)]| {
            let uses = uses.iter().zip(0..);
            let uses: Vec<Use> = uses
                .map(|((at, thread, kind), ix)| (*at, *thread, ix, *kind))
                .collect();
            of_one(&uses, 1)
        };
        let (get, wait, post) = (Kind::SemAcquired, Kind::SemRequest, Kind::SemPost);
        let in_turn = [(0, 0, get), (1, 0, post), (2, 1, get), (3, 1, post)];
        assert_eq!(of(&in_turn), []);
        // Taken, waited for until somebody posts, thrown away; then another one.
        let thrown_away = [
            (0, 0, get),
            (9, 1, post),
            (10, 0, wait),
            (90, 0, get),
            (91, 0, post),
        ];
        assert_eq!(of(&thrown_away), [(0, 3)]);
        // The post was written down late.
        let late = [(0, 0, get), (50, 1, get), (60, 0, post), (70, 1, post)];
        assert_eq!(of(&late), []);
    }
}
