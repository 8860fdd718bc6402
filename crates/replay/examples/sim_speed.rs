//! Speed of the simulator: critical sections simulated per second on one core.
//!
//! `cargo run --release -p convoy-replay --example sim_speed`

use std::time::Instant;

use convoy_replay::machine::Machine;
use convoy_replay::machine::WakeLatency;
use convoy_replay::program::Lock;
use convoy_replay::program::Op;
use convoy_replay::program::Program;
use convoy_replay::program::Thread;
use convoy_replay::sim;

/// Costs of some virtual machine; only their order of magnitude matters here.
fn machine(cpus: u32) -> Machine {
    Machine {
        cpus,
        atomic_local_ns: 3.0,
        atomic_remote_ns: 15.0,
        lock_pair_ns: 6.0,
        rdlock_pair_ns: 12.0,
        futex_check_ns: 200.0,
        futex_eagain_ns: 350.0,
        futex_block_ns: 350.0,
        futex_wake_none_ns: 300.0,
        futex_wake_ns: 900.0,
        futex_wake_ipi_ns: 10_000.0,
        switch_ns: 1500.0,
        tick_ns: 4e6,
        slice_ns: 3e6,
        wake_latency: vec![WakeLatency {
            idle_ns: 0.0,
            p10_ns: 3_000.0,
            p50_ns: 20_000.0,
            p90_ns: 40_000.0,
            ipi_share: 0.5,
        }],
        spawn_ns: 20_000.0,
        clock_ns: 10.0,
    }
}

fn program(threads: u32, locks: u32, sections: u32, inside: f32, outside: f32) -> Program {
    let ops = |thread: u32| {
        let mut state = u64::from(thread) + 1;
        let mut vary = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            0.8 + 0.4 * (state >> 40) as f32 / (1u64 << 24) as f32
        };
        let mut ops = Vec::with_capacity(4 * sections as usize);
        for index in 0..sections {
            let lock = (thread + index) % locks;
            ops.push(Op::Work {
                ns: outside * vary(),
            });
            ops.push(Op::Acquire {
                lock,
                shared: false,
                section: thread * sections + index,
            });
            ops.push(Op::Work {
                ns: inside * vary(),
            });
            ops.push(Op::Release { lock });
        }
        ops
    };
    Program {
        threads: (0..threads)
            .map(|thread| Thread {
                at_start: true,
                ops: ops(thread),
                ..Thread::default()
            })
            .collect(),
        locks: vec![Lock::default(); locks as usize],
        ..Program::default()
    }
}

fn main() -> Result<(), sim::SimError> {
    let cases = [
        (
            "2 threads, uncontended",
            2,
            2,
            program(2, 64, 2_000_000, 100.0, 1000.0),
        ),
        (
            "2 threads, lightly contended",
            2,
            2,
            program(2, 1, 2_000_000, 50.0, 1000.0),
        ),
        (
            "2 threads, contended",
            2,
            2,
            program(2, 1, 2_000_000, 200.0, 1000.0),
        ),
        (
            "4 threads on 2 CPUs, saturated",
            4,
            2,
            program(4, 1, 1_000_000, 1000.0, 200.0),
        ),
        (
            "64 threads on 64 CPUs",
            64,
            64,
            program(64, 16, 60_000, 100.0, 5000.0),
        ),
    ];
    for (name, threads, cpus, program) in &cases {
        for sections in [false, true] {
            let options = sim::Options {
                sections,
                ..sim::Options::default()
            };
            let start = Instant::now();
            let outcome = sim::run(program, &machine(*cpus), &options)?;
            let seconds = start.elapsed().as_secs_f64();
            let acquisitions: u64 = outcome.locks.iter().map(|lock| lock.acquisitions).sum();
            let contended: u64 = outcome.locks.iter().map(|lock| lock.contended).sum();
            println!(
                "{name}{}: {:.1} M sections/s ({threads} threads, {:.2} % contended, \
                 {} EAGAIN, {} wakes)",
                if sections { ", section times kept" } else { "" },
                acquisitions as f64 / seconds / 1e6,
                100.0 * contended as f64 / acquisitions as f64,
                outcome.futex.eagain,
                outcome.futex.wakes,
            );
        }
    }
    Ok(())
}
