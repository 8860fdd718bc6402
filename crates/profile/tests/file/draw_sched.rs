//! What a scheduler said, drawn at random.

use convoy_profile::*;

use crate::draw::Random;

const REASONS: [OffReason; 5] = [
    OffReason::Unknown,
    OffReason::Futex,
    OffReason::AsyncIo,
    OffReason::OtherCall,
    OffReason::Preempted,
];
const KINDS: [SpinKind; 3] = [SpinKind::Polling, SpinKind::Yield, SpinKind::KnownFunction];
const FROM: [CodeFrom; 3] = [CodeFrom::Unknown, CodeFrom::Sample, CodeFrom::StackTop];

/// Uses every field that these processes allow, with tables of at most `rows` rows.
pub fn sched(r: &mut Random, processes: &[Process], rows: u64) -> Sched {
    let n = |r: &mut Random| r.below(rows + 1);
    let mut s = Sched {
        source: [SchedSource::Bpf, SchedSource::Perf][r.index(2) as usize],
        start_ns: r.number(),
        end_ns: r.number(),
        events: r.number(),
        sample_period_ns: r.number(),
        active: numbers(r, 256),
        working: numbers(r, 30),
        running: numbers(r, 2),
        contradictions: r.number(),
        ..Sched::default()
    };
    s.names = (0..n(r)).map(|_| r.text()).collect();
    s.lost = (0..n(r)).map(|_| lost(r)).collect();
    let with_threads = |p: &Process| !p.threads.is_empty();
    if processes.iter().any(with_threads) {
        s.loops = (0..n(r)).map(|_| spin_loop(r, processes)).collect();
        s.threads = (0..n(r)).map(|_| thread(r, processes)).collect();
        let loops = s.loops.len();
        s.slices = (0..n(r)).map(|_| slice(r, processes, loops)).collect();
        let names = s.names.len();
        s.offs = (0..n(r)).map(|_| off(r, processes, names)).collect();
        let written = (0..n(r)).map(|_| written(r, processes, names));
        s.writes = written.collect();
    }
    let slices = s.slices.len();
    s.bins = Bins {
        width_ns: r.number(),
        bins: (0..n(r)).map(|_| bin(r, slices)).collect(),
    };
    let offs = s.offs.len();
    if offs > 0 {
        s.wakes = (0..n(r)).map(|_| wake(r, processes, offs)).collect();
    }
    if processes.iter().any(with_threads) && r.flag() {
        s.timeline = Some(Timeline {
            limit: r.number(),
            merged_below_ns: r.number(),
            threads_left_out: r.number(),
            lanes: (0..n(r)).map(|_| lane(r, processes, &s, rows)).collect(),
        });
    }
    if processes.iter().any(with_threads) && r.flag() {
        s.lines = Some(lines(r, processes, rows));
    }
    if !processes.is_empty() && r.flag() {
        s.goroutines = (0..n(r).min(3))
            .map(|_| go_program(r, processes, rows))
            .collect();
    }
    s
}

/// One section, whatever is in it: no more rows than a recorder writes there.
fn go_program(r: &mut Random, processes: &[Process], rows: u64) -> GoProgram {
    let rows = rows.min(1_000);
    let process = r.index(processes.len());
    let stacks = processes[process as usize].stacks.len().max(1);
    let (waits, places) = (r.below(rows + 1) as usize, r.below(rows + 1) as usize);
    let state = |r: &mut Random| {
        use GoroutineState::*;
        [Waiting, Running, Runnable, InCall][r.index(4) as usize]
    };
    let doing = |r: &mut Random| GoDoing {
        state: state(r),
        wait: some_index(r, waits),
        n: r.number(),
    };
    GoProgram {
        process,
        version: r.text(),
        unknown: r.text(),
        looks: r.number(),
        cost_ns: r.number(),
        goroutines: r.number(),
        turns: r.number(),
        longest: r.number(),
        states: (0..r.below(rows + 1))
            .map(|_| GoState {
                procs: r.number() as u32,
                running: r.number() as u32,
                in_calls: r.number() as u32,
                runnable: r.number() as u32,
                n: r.number(),
            })
            .collect(),
        waits: (0..waits)
            .map(|_| GoWait {
                reason: r.text(),
                stack: r.index(stacks),
                n: r.number(),
                waits: r.number(),
                place: some_index(r, places),
            })
            .collect(),
        places: (0..places)
            .map(|_| GoPlace {
                reason: r.text(),
                stack: r.index(stacks),
                depth: r.number() as u32,
                gives_back: r.number() as u32,
                capacity: r.number(),
                users: r.number() as u32,
                most: r.number(),
                present: r.number(),
                looks: r.number(),
                waiting: r.number(),
                away: r.number(),
                away_squares: r.number(),
                doing: (0..r.below(4)).map(|_| doing(r)).collect(),
            })
            .collect(),
    }
}

fn written(r: &mut Random, processes: &[Process], names: usize) -> CallSamples {
    let (thread, stack) = place(r, processes);
    CallSamples {
        thread,
        stack,
        name: some_index(r, names),
        size_class: r.below(33) as u8,
        reads: r.flag(),
        n: r.number(),
    }
}

fn lines(r: &mut Random, processes: &[Process], rows: u64) -> SharedLines {
    let mut all = SharedLines {
        samples: r.number(),
        unread: r.number(),
        ..SharedLines::default()
    };
    for line in 0..r.below(rows + 1) as u32 {
        let (ThreadRef { process, .. }, _) = place(r, processes);
        all.lines.push(SharedLine {
            process,
            address: r.number(),
            symbol: r.flag().then(|| r.text()),
            samples: r.number(),
            waits: r.number(),
            turns: r.number(),
        });
        let of = &processes[process as usize];
        let used = |r: &mut Random| LineUse {
            line,
            thread: r.index(of.threads.len()),
            stack: r.index(of.stacks.len()),
            offset: r.below(64) as u8,
            size: r.number() as u8,
            locked: r.flag(),
            reads: r.flag(),
            writes: r.flag(),
            n: r.number(),
        };
        let n = r.below(4);
        all.uses.extend((0..n).map(|_| used(r)));
    }
    all
}

fn lane(r: &mut Random, processes: &[Process], s: &Sched, rows: u64) -> Lane {
    let mut end_ns = 0;
    let mut interval = |r: &mut Random| {
        let start_ns = if r.flag() { end_ns } else { r.number() };
        end_ns = start_ns.saturating_add(r.number());
        let (slice, off) = (some_index(r, s.slices.len()), some_index(r, s.offs.len()));
        let mut shares = [0, 0, 0].map(|_: u16| r.number() as u16);
        shares.sort_unstable();
        Interval {
            start_ns,
            end_ns,
            doing: [
                Doing::Running(slice),
                Doing::Spinning(slice),
                Doing::Woken,
                Doing::Preempted(off),
                Doing::Waiting(off),
            ][r.index(5) as usize],
            wake: some_index(r, s.wakes.len()),
            mix: r.flag().then(|| Mix {
                running: shares[0],
                spinning: shares[1] - shares[0],
                ready: shares[2] - shares[1],
            }),
        }
    };
    // There are as many lanes: all of them together are no more than any table has.
    let most = rows.min(300_000 / rows.max(1));
    Lane {
        thread: place(r, processes).0,
        intervals: (0..r.below(most + 1)).map(|_| interval(r)).collect(),
    }
}

fn numbers(r: &mut Random, most: u64) -> Vec<u64> {
    (0..r.below(most + 1)).map(|_| r.number()).collect()
}

fn some_index(r: &mut Random, len: usize) -> Option<u32> {
    Some(r.index(len)).filter(|_| len > 0 && r.flag())
}

/// A thread, and a stack of its process.
fn place(r: &mut Random, processes: &[Process]) -> (ThreadRef, StackIx) {
    loop {
        let process = r.index(processes.len());
        let p = &processes[process as usize];
        if !p.threads.is_empty() {
            let thread = r.index(p.threads.len());
            return (ThreadRef { process, thread }, r.index(p.stacks.len()));
        }
    }
}

fn amount(r: &mut Random) -> f64 {
    [0.0, f64::MAX, 1e-300, 0.1, r.number() as f64 / 3.0][r.index(5) as usize]
}

fn lost(r: &mut Random) -> Lost {
    Lost {
        from_ns: r.number(),
        to_ns: r.number(),
        events: r.number(),
        stacks: r.flag(),
    }
}

fn spin_loop(r: &mut Random, processes: &[Process]) -> SpinLoop {
    let process = r.index(processes.len());
    SpinLoop {
        process,
        frame: some_index(r, processes[process as usize].frames.len()),
        lo: r.number(),
        hi: r.number(),
        kind: KINDS[r.index(3) as usize],
        evidence: r.text(),
        samples: r.number(),
    }
}

fn thread(r: &mut Random, processes: &[Process]) -> SchedThread {
    SchedThread {
        thread: place(r, processes).0,
        start_ns: r.number(),
        end_ns: r.number(),
        running_ns: r.number(),
        delayed_ns: r.number(),
        preempted_ns: r.number(),
        spinning_ns: r.number(),
        blocked_ns: r.number(),
        cm_ns: amount(r),
        cm_working_ns: amount(r),
        slices: r.number(),
        preemptions: r.number(),
    }
}

/// Often the same, as in a program that never waits in a loop.
fn by_threads(r: &mut Random) -> (Vec<u64>, Vec<u64>) {
    let active = numbers(r, 40);
    let working = if r.flag() {
        active.clone()
    } else {
        numbers(r, 256)
    };
    (active, working)
}

fn slice(r: &mut Random, processes: &[Process], loops: usize) -> Slice {
    let (thread, stack) = place(r, processes);
    let (by_active, by_working) = by_threads(r);
    let cm_ns = amount(r);
    Slice {
        thread,
        stack,
        from: FROM[r.index(3) as usize],
        spin: some_index(r, loops),
        n: r.number(),
        faults: r.number(),
        active_ns: r.number(),
        running_ns: r.number(),
        cm_ns,
        cm_working_ns: if r.flag() { cm_ns } else { amount(r) },
        by_active: by_active.into(),
        by_working: by_working.into(),
    }
}

fn off(r: &mut Random, processes: &[Process], names: usize) -> OffCpu {
    let (thread, stack) = place(r, processes);
    let (by_active, by_working) = by_threads(r);
    OffCpu {
        thread,
        stack,
        kernel_stack: r.texts(),
        reason: REASONS[r.index(5) as usize],
        nr: [-1, 0, 202, i16::MAX, i16::MIN][r.index(5) as usize],
        address: r.number(),
        name: some_index(r, names),
        n: r.number(),
        sum_ns: r.number(),
        max_ns: r.number(),
        unfinished_ns: r.number(),
        hist: numbers(r, 64).into(),
        by_active: by_active.into(),
        by_working: by_working.into(),
    }
}

fn bin(r: &mut Random, slices: usize) -> Bin {
    Bin {
        active_ns: r.number(),
        working_ns: r.number(),
        running_ns: r.number(),
        idle_ns: r.number(),
        top: some_index(r, slices),
    }
}

fn wake(r: &mut Random, processes: &[Process], offs: usize) -> Wake {
    let (thread, stack) = place(r, processes);
    let wait = |r: &mut Random| (r.index(offs), r.number());
    Wake {
        off: r.index(offs),
        waker: [
            Waker::Unknown,
            Waker::Interrupt,
            Waker::Thread(thread, stack),
            Waker::Outside(r.number() as u32),
        ][r.index(4) as usize],
        n: r.number(),
        wait_ns: r.number(),
        max_ns: r.number(),
        waker_running_ns: r.number(),
        waker_delayed_ns: r.number(),
        waker_off: (0..r.below(4)).map(|_| wait(r)).collect(),
    }
}
