//! The recorded order of a program's sections, as the native replay enforces it: by lock, the threads
//! whose turn it is (ELSC; PerfPlay, CGO'15, section 5).

use std::collections::HashMap;

use convoy_replay::program::{Op, Program, SectionId, ThreadIx};

/// For each lock of `program`, the threads that acquire it, in the order that `recorded` has for each
/// lock of the recorded run. A changed program may have other locks, each for sections of one of those.
///
/// # Errors
///
/// A lock that is acquired for a section without a place in the order, or for sections of several
/// orders: for people.
pub fn of_threads(
    program: &Program,
    recorded: &[Vec<SectionId>],
) -> Result<Vec<Vec<ThreadIx>>, String> {
    let mut places: HashMap<SectionId, (usize, usize)> = HashMap::new();
    for (list, sections) in recorded.iter().enumerate() {
        let numbered = sections.iter().enumerate();
        places.extend(numbered.map(|(at, &section)| (section, (list, at))));
    }
    let mut of_lock: Vec<Vec<((usize, usize), ThreadIx)>> = vec![Vec::new(); program.locks.len()];
    for (thread, ops) in (0..).zip(&program.threads) {
        // A thread that holds a lock takes no turn to take it once more.
        let mut depths = vec![0u32; program.locks.len()];
        for op in &ops.ops {
            if let Op::Release { lock, .. } = *op {
                depths[lock as usize] = depths[lock as usize].saturating_sub(1);
            }
            let (Op::Acquire { lock, section, .. } | Op::TryAcquire { lock, section }) = *op else {
                continue;
            };
            depths[lock as usize] += 1;
            if depths[lock as usize] > 1 {
                continue;
            }
            let place = *places.get(&section).ok_or(
                "some acquisitions have no place in the recorded order: simulate this schedule",
            )?;
            of_lock[lock as usize].push((place, thread));
        }
    }
    of_lock.into_iter().map(in_order).collect()
}

fn in_order(mut turns: Vec<((usize, usize), ThreadIx)>) -> Result<Vec<ThreadIx>, String> {
    turns.sort_unstable();
    let list = |turn: &((usize, usize), ThreadIx)| turn.0 .0;
    if turns.first().map(list) != turns.last().map(list) {
        let found = "a lock takes the place of several, whose orders are apart";
        return Err(format!("{found}: simulate this schedule"));
    }
    Ok(turns.into_iter().map(|(_, thread)| thread).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_replay::program::Thread;

    /// Threads that acquire locks for sections.
    fn program(locks: usize, threads: &[&[(u32, SectionId)]]) -> Program {
        let section = |&(lock, section): &(u32, SectionId)| {
            let shared = false;
            let acquire = Op::Acquire {
                lock,
                shared,
                section,
            };
            // Once more while it is held: no turn.
            [acquire, acquire, Op::Release { lock }, Op::Release { lock }]
        };
        let thread = |ops: &&[(u32, SectionId)]| Thread {
            ops: ops.iter().flat_map(section).collect(),
            ..Thread::default()
        };
        Program {
            locks: vec![Default::default(); locks],
            threads: threads.iter().map(thread).collect(),
            ..Program::default()
        }
    }

    #[test]
    fn threads_have_their_turns_as_their_sections_were_recorded() {
        let recorded = [vec![7, 1, 3], vec![2]];
        let ran = program(2, &[&[(0, 1), (1, 2)], &[(0, 7), (0, 3)]]);
        let orders = of_threads(&ran, &recorded);
        assert_eq!(orders, Ok(vec![vec![1, 0, 1], vec![0]]));
        // Two locks replace the first one, each for sections of its own.
        let split = program(3, &[&[(0, 1), (1, 2)], &[(2, 7), (0, 3)]]);
        let orders = of_threads(&split, &recorded);
        assert_eq!(orders, Ok(vec![vec![0, 1], vec![0], vec![1]]));
    }

    #[test]
    fn sections_without_a_place_are_refused() {
        let unknown = program(1, &[&[(0, 9)]]);
        assert!(of_threads(&unknown, &[vec![1]]).is_err());
        let joined = program(1, &[&[(0, 1), (0, 2)]]);
        let why = of_threads(&joined, &[vec![1], vec![2]]).unwrap_err();
        assert!(why.contains("several"), "{why}");
    }
}
