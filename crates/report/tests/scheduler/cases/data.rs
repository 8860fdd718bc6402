//! Recordings that lack something, or hold what they should not.

use convoy_analysis::scheduler::{EdgeRow, Link, LoopRow, WaitRow};
use convoy_model::finding::Subject;
use convoy_model::{Lost, OffReason, SchedSource, SpinKind, Waker};

use super::{function, line, nothing_wrong, serial_phase};
use crate::world::{finding, path, Spent, World, MS};

/// The serial phase seen by perf events: no wakers, no reasons, no samples.
pub fn by_perf_events() -> World {
    let mut w = serial_phase();
    w.critical.quality.source = SchedSource::Perf;
    w.critical.quality.sample_period_ns = 0;
    w.critical.quality.code_from = [0.0, 0.0, 1.0];
    w.critical.quality.remarks = vec!["a woken thread counts as active once it runs: with more threads than CPUs parallelism is higher than shown".into()];
    w.sched().source = SchedSource::Perf;
    w.critical.edges.clear();
    w.critical.paths.clear();
    w.critical.waits.clear();
    w.critical
        .groups
        .iter_mut()
        .for_each(|g| g.woken_by.clear());
    w.critical.reasons = vec![];
    w.off(OffReason::Unknown, 44, 1760, 1600, 5);
    w.critical.timeline.iter_mut().for_each(|m| m.site = None);
    let group = w.model.threads[0].group;
    w.critical.findings[0].subject = Subject::Group(group);
    w.critical.findings[0].title =
        "main runs alone for 40 % of the run while 4 threads wait".into();
    w.critical.verdict = format!("{}.", w.critical.findings[0].title);
    w.critical.findings[0].causes[0].fix =
        "record with eBPF (sudo) to see which code that is".into();
    let scheduler = &mut w.model.meta.collectors[1];
    scheduler.lost = "who woke whom, why threads were blocked, and call stacks (perf events tell only of switches)".into();
    scheduler.enable = "sudo convoy -- COMMAND".into();
    w
}

/// The serial phase with a hole in the recording.
pub fn lost_events() -> World {
    let mut w = serial_phase();
    let start = w.sched().start_ns;
    let lost = |from: u64, to: u64, events, stacks| Lost {
        from_ns: start + from * MS,
        to_ns: start + to * MS,
        events,
        stacks,
    };
    w.sched().lost = vec![
        lost(510, 532, 18_402, false),
        lost(700, 702, 60, false),
        lost(510, 540, 1_204, true),
    ];
    let q = &mut w.critical.quality;
    (q.lost_events, q.lost_ns, q.lost_stacks) = (18_462, 24 * MS, 1_204);
    (q.contradictions, q.dropped_rows, q.cm_check) = (31, 2, 0.981);
    q.remarks = vec!["findings of less than 3 % of the run are not certain".into()];
    w
}

/// Two MPI ranks, started without the agent: one has more to do.
pub fn without_agent() -> World {
    let mut w = World::new("mpirun -n 2 ./solver", 2);
    let ranks = [w.process("solver", 5001), w.process("solver", 5002)];
    let mut threads = Vec::new();
    for rank in ranks {
        let (_, thread) = w.group(rank, "solver", 1);
        threads.push(thread[0]);
        w.model.processes[rank.0 as usize].without_agent = true;
    }
    let at_solve = w.site(ranks[0], "solve.f90", &[("solve_block", 210), ("main", 40)]);
    let at_wait = w.site(ranks[1], "solve.f90", &[("exchange", 300), ("main", 42)]);
    for _ in 0..10 {
        w.phase(60, 2, 2, 2, (threads[0], at_solve));
        w.phase(40, 1, 1, 1, (threads[0], at_solve));
    }
    w.spent(
        threads[0],
        Spent {
            cm: 700.0,
            running: 1000,
            ..Spent::default()
        },
    );
    w.spent(
        threads[1],
        Spent {
            cm: 300.0,
            running: 600,
            blocked: 400,
            ..Spent::default()
        },
    );
    w.critical.paths = vec![path(
        ranks[0],
        w.model.threads[0].group,
        at_solve,
        400.0,
        1000.0,
    )];
    w.off(OffReason::Poll, 10, 400, 400, 1);
    w.critical.waits = vec![WaitRow {
        process: ranks[1],
        reason: OffReason::Poll,
        nr: 7,
        site: Some(at_wait),
        group: w.model.threads[1].group,
        threads: 1,
        n: 10,
        sum_ns: 400 * MS,
        max_ns: 41 * MS,
        low_ns: 400e6,
        critical_ns: 400e6,
        ..WaitRow::default()
    }];
    let agent = &mut w.model.meta.collectors[0];
    agent.active = false;
    agent.lost = "locks, condition variables and barriers by name, and who holds them".into();
    agent.enable = "convoy -- COMMAND".into();
    w.finding(finding(
        "thread-imbalance",
        Subject::Processes(ranks.to_vec()),
        "solver (5001) works 1.7 times as long as solver (5002), which waits for it",
        &[
            "working time 1.00 s and 600 ms",
            "solver (5002) waited 400 ms at exchange() solve.f90:300",
        ],
        (
            "the data are not divided evenly among the processes",
            "divide the work of solve_block() solve.f90:210 by what it costs, not by its size",
        ),
        (1.1, 1.2, 1.3, "2 CPUs"),
    ));
    w.finish(2)
}

/// A server with the agent starts a helper of Go, which cannot carry it.
pub fn with_a_foreign_child() -> World {
    let mut w = nothing_wrong();
    let child = w.process("fetcher", 950);
    w.model.processes[child.0 as usize].without_agent = true;
    w
}

/// Names that would clear the screen, turn the text around or end the line.
pub fn hostile() -> World {
    let mut w = World::new("evil\u{1b}[2J", 2);
    let p = w.process("e\u{202e}vil", 66);
    let (group, threads) = w.group(p, "t\u{1b}]0;x\u{7}", 2);
    let at = w.site(p, "a\r\n.c", &[("f\u{1b}[31m", 1), ("日本語の関数", 2)]);
    let name = w.file("/tmp/\u{1b}[2J\nwarez");
    let spin = w.spin_loop(p, at, SpinKind::Pause, "pause\u{1b}[0m\n jmp");
    w.phase(50, 1, 1, 1, (threads[0], at));
    w.phase(50, 2, 1, 2, (threads[1], at));
    for thread in &threads {
        w.spent(
            *thread,
            Spent {
                cm: 50.0,
                cm_working: 50.0,
                running: 75,
                spinning: 25,
                ..Spent::default()
            },
        );
    }
    let mut row = path(p, group, at, 50.0, 100.0);
    row.functions = vec![function(
        "f\u{1b}[31m\n",
        7,
        50.0,
        vec![line("a\u{7}.c", 3, 7, 50.0)],
    )];
    w.critical.paths = vec![row];
    w.critical.loops = vec![LoopRow {
        spin,
        process: p,
        kind: SpinKind::Pause,
        site: Some(at),
        group,
        threads: 1,
        waits_for: vec![0, 99],
        ..LoopRow::default()
    }];
    w.critical.waits = vec![WaitRow {
        process: p,
        site: Some(at),
        name: Some(name),
        kernel_stack: vec!["k\u{1b}[1m".into()],
        ..WaitRow::default()
    }];
    w.critical.edges = vec![EdgeRow {
        process: p,
        site: Some(at),
        waker: Waker::Thread(threads[1], Some(at)),
        chain: vec![Link {
            thread: threads[0],
            name: Some(name),
            ..Link::default()
        }],
        ..EdgeRow::default()
    }];
    w.critical.quality.remarks = vec!["r\u{1b}[2J".into()];
    w.finding(finding(
        "blocking-io",
        Subject::File(name, at),
        "title \u{1b}[2J\n",
        &["seen \u{1b}]0;x\u{7}"],
        ("why \u{9b}2J", "fix \u{1b}[31m"),
        (1.0, 1.1, 1.2, "limit\u{1b}[2J"),
    ));
    w.finish(2)
}
