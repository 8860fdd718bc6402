//! Traces drawn at random.

use convoy_profile::*;

use crate::draw::Random;

/// Traces of some of the processes; `None` = of none.
pub fn trace(r: &mut Random, processes: &[Process], rows: u64) -> Option<Trace> {
    let all = (0..).zip(processes).filter(|_| r.flag());
    let all: Vec<(u32, &Process)> = all.collect();
    let traces: Vec<_> = all.into_iter().map(|(ix, p)| of(r, ix, p, rows)).collect();
    (!traces.is_empty()).then_some(Trace { processes: traces })
}

fn of(r: &mut Random, process: u32, p: &Process, rows: u64) -> ProcessTrace {
    let n = |r: &mut Random| r.below(rows + 1);
    let mut at_ns = 0;
    let mut ascending = |r: &mut Random| {
        at_ns += r.below(1 << 40);
        at_ns
    };
    ProcessTrace {
        process,
        mode: [TraceMode::Full, TraceMode::Windows, TraceMode::Last(9)][r.below(3) as usize],
        start_ns: r.number(),
        end_ns: r.number(),
        sees_preemptions: r.flag(),
        lost: (0..r.below(3)).map(|_| (r.text(), r.number())).collect(),
        lost_windows: r.number(),
        windows: (0..n(r))
            .map(|_| TraceWindow {
                start_ns: ascending(r),
                end_ns: ascending(r),
            })
            .collect(),
        objects: (0..n(r))
            .map(|_| TraceObject {
                addr: r.number(),
                kind: [ObjectKind::Mutex, ObjectKind::Cond][r.below(2) as usize],
                attr: r.number() as u32,
                object: (!p.objects.is_empty() && r.flag()).then(|| r.index(p.objects.len())),
            })
            .collect(),
        sites: (0..n(r))
            .map(|_| TraceSite {
                pc: r.number(),
                frame: match p.frames.len() {
                    0 => NO_FRAME,
                    frames => r.index(frames),
                },
                stack: r.index(p.stacks.len()),
            })
            .collect(),
        threads: match p.threads.len() {
            0 => Vec::new(),
            threads => (0..n(r))
                .map(|_| TraceThread {
                    number: r.number() as u32,
                    thread: r.index(threads),
                })
                .collect(),
        },
        blocks: match p.threads.len() {
            0 => Vec::new(),
            threads => (0..n(r)).map(|_| block(r, threads)).collect(),
        },
    }
}

fn block(r: &mut Random, threads: usize) -> TraceBlock {
    let start_ns = r.number() / 2;
    TraceBlock {
        thread: r.index(threads),
        start_ns,
        end_ns: start_ns + r.below(1 << 50),
        events: r.number() as u32,
        bytes: (0..r.below(40)).map(|_| r.next() as u8).collect(),
    }
}
