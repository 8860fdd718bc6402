//! Permits of semaphores: how many there are when a window begins, and where a semaphore was made anew.

use std::collections::BTreeSet;

use convoy_trace::{Event, Kind, ObjectIx, ObjectKind, Recording, ThreadIx, Window};

use crate::program::{Op, Program, Thread};

/// A thread that gives a permit back before it takes one had it when the window began; where each
/// thread takes and gives back in turn, that is: elsewhere threads post what others wait for.
pub(super) fn take_out(program: &mut Program) {
    for (semaphore, sem) in program.semaphores.iter_mut().zip(0..) {
        let takes = |thread: &Thread| -> Vec<bool> {
            let of_it = thread.ops.iter().filter_map(|op| match op {
                Op::SemWait { sem: of } if *of == sem => Some(true),
                Op::SemPost { sem: of } if *of == sem => Some(false),
                _ => None,
            });
            of_it.collect()
        };
        let all: Vec<Vec<bool>> = program.threads.iter().map(takes).collect();
        let in_turn = |takes: &Vec<bool>| takes.windows(2).all(|pair| pair[0] != pair[1]);
        if all.iter().all(in_turn) {
            let has_one =
                |takes: &&Vec<bool>| takes.first() == Some(&false) && takes.contains(&true);
            let out = all.iter().filter(has_one);
            semaphore.value = semaphore.permits.saturating_sub(out.count() as u32);
        }
    }
}

/// A post may be written down so much later than whoever takes the permit says so, nanoseconds: the
/// thread can lose its CPU in between.
const LATE_NS: u64 = 20_000;

/// When, who, which of its events, what.
type Use = (u64, ThreadIx, usize, Kind);

/// Acquisitions without a wait of a semaphore that had no permit left, as (thread, event): it was
/// destroyed and made again at the same address, as the short-lived locks of an interpreter are.
pub(super) fn made_anew(recording: &Recording, window: Window) -> BTreeSet<(ThreadIx, usize)> {
    let mut uses: Vec<Vec<Use>> = vec![Vec::new(); recording.objects.len()];
    for (thread, of) in (0..).zip(&recording.threads) {
        let begin = of.events.partition_point(|e| e.at_ns < window.start_ns);
        let end = of.events.partition_point(|e| e.at_ns < window.end_ns);
        let mut requested: Option<&Event> = None;
        for (at, event) in of.events.iter().enumerate().take(end).skip(begin) {
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
    use crate::program::Semaphore;

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
