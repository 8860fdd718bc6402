//! The order of a simulator's acquisitions, as the native replay enforces it: the threads whose
//! turn it is (PerfPlay, CGO'15, section 5).
//!
//! ELSC: by lock, in the recorded order of its sections. SYNC: in one order of all locks, condition
//! variables and semaphores, that of the simulator. It follows from the work between operations,
//! not from the machine, so that threads need no clocks of their own, as Kendo's do.

use std::collections::HashMap;

use convoy_replay::program::{Op, Program, SectionId, ThreadIx};
use convoy_replay::simulated::{Order, Simulator};
use convoy_replayer::cpus;
use convoy_replayer::native::Schedule;

/// Share of the run time in which more threads may be able to run than there are CPUs: whose turn
/// it is would not be running, and all others would wait for it.
const MOST_CROWDED: f64 = 0.02;

/// How the native replay of the program of this number keeps to the order that a simulator
/// enforces.
///
/// # Errors
///
/// It cannot, for people.
pub fn enforced(
    simulator: &Simulator,
    number: usize,
    program: &Program,
) -> Result<Schedule, String> {
    let cpus = cpus::usable();
    if matches!(simulator.order(), Order::Free) {
        return Ok(Schedule::Free);
    }
    let ordered = simulator.on_cpus(cpus).ordered(number, program)?;
    if ordered.crowded > MOST_CROWDED {
        let percent = (100.0 * ordered.crowded).round();
        return Err(format!(
            "its threads do not fit the CPUs: for {percent} % of the time more than {cpus} could \
             run, and those whose turn it is would wait for a CPU"
        ));
    }
    Ok(match simulator.order() {
        Order::Free => Schedule::Free,
        Order::Recorded(orders) => {
            let of_program = orders.get(number).map_or(&[][..], Vec::as_slice);
            Schedule::Recorded(of_threads(program, of_program)?)
        }
        Order::LogicalTime(_) => Schedule::Total(ordered.turns),
    })
}

/// For each lock of `program`, the threads that acquire it, in the order that `recorded` has for each
/// lock of the recorded run. A changed program may have other locks, each for sections of one of those.
///
/// # Errors
///
/// A lock that is acquired for a section without a place in the order, or for sections of several
/// orders: for people.
fn of_threads(
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
    use convoy_replay::machine::{Machine, WakeLatency};
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

    /// Threads that only work, and acquire lock 0 for a section each.
    fn workers(threads: u32) -> Program {
        let worker = |section| Thread {
            at_start: true,
            ops: vec![
                Op::Work { ns: 1e6 },
                Op::Acquire {
                    lock: 0,
                    shared: false,
                    section,
                },
                Op::Release { lock: 0 },
            ],
            ..Thread::default()
        };
        Program {
            locks: vec![Default::default()],
            threads: (0..threads).map(worker).collect(),
            ..Program::default()
        }
    }

    /// Orders by logical time on this machine.
    fn logical(program: &Program) -> Simulator {
        let wake_up = WakeLatency {
            idle_ns: 0.0,
            p10_ns: 2400.0,
            p50_ns: 3000.0,
            p90_ns: 4500.0,
            ipi_share: 0.0,
        };
        let machine = Machine {
            cpus: cpus::usable(),
            atomic_local_ns: 4.0,
            atomic_remote_ns: 20.0,
            lock_pair_ns: 10.0,
            rdlock_pair_ns: 20.0,
            futex_check_ns: 200.0,
            futex_eagain_ns: 350.0,
            futex_block_ns: 400.0,
            futex_wake_none_ns: 300.0,
            futex_wake_ns: 900.0,
            futex_wake_ipi_ns: 10_000.0,
            switch_ns: 1500.0,
            tick_ns: 4e6,
            slice_ns: 3e6,
            wake_latency: vec![wake_up],
            spawn_ns: 20_000.0,
            clock_ns: 10.0,
        };
        let programs = std::slice::from_ref(program);
        let simulator = Simulator::fitted(&machine, programs, &Default::default(), 1);
        simulator.with_order(Order::LogicalTime(500.0))
    }

    #[test]
    fn logical_time_is_one_order_where_threads_fit_the_cpus() {
        let program = workers(1);
        let schedule = enforced(&logical(&program), 0, &program);
        assert_eq!(schedule, Ok(Schedule::Total(vec![0])));
        let program = workers(cpus::usable() + 1);
        let why = enforced(&logical(&program), 0, &program).unwrap_err();
        assert!(why.contains("do not fit the CPUs"), "{why}");
        // A free order needs no CPUs.
        let free = logical(&program).with_order(Order::Free);
        assert_eq!(enforced(&free, 0, &program), Ok(Schedule::Free));
    }
}
