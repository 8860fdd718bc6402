//! What the scheduler said, as it is read from files that are cut short, damaged or hostile.

use convoy_profile::{
    CodeFrom, Doing, Interval, Lane, OffCpu, OffReason, Process, Profile, ReadWarning, Sched,
    SchedThread, Slice, Thread, ThreadRef, Timeline, Wake, Waker,
};

use crate::draw::{profile, Random};
use crate::hostile::{file, number, sections, Section};

/// Indices of what was read must all lead somewhere, and amounts must be amounts.
pub fn assert_sound(sched: &Sched, processes: &[Process]) {
    let process = |ix: u32| processes.get(ix as usize);
    let thread = |t: ThreadRef| process(t.process)?.threads.get(t.thread as usize);
    let stack = |t: ThreadRef, ix: u32| {
        ix == 0 || process(t.process).is_some_and(|p| (ix as usize) < p.stacks.len())
    };
    let within = |ix: Option<u32>, len: usize| ix.is_none_or(|ix| (ix as usize) < len);
    let amount = |value: f64| value.is_finite() && value >= 0.0;
    for row in &sched.loops {
        assert!(process(row.process).is_some_and(|p| within(row.frame, p.frames.len())));
    }
    for row in &sched.threads {
        assert!(thread(row.thread).is_some() && amount(row.cm_ns) && amount(row.cm_working_ns));
    }
    for row in &sched.slices {
        assert!(thread(row.thread).is_some() && stack(row.thread, row.stack));
        assert!(amount(row.cm_ns) && amount(row.cm_working_ns));
        assert!(within(row.spin, sched.loops.len()));
        assert!(row.by_active.len() <= 256 && row.by_working.len() <= 256);
    }
    for row in &sched.bins.bins {
        assert!(within(row.top, sched.slices.len()));
    }
    for row in &sched.offs {
        assert!(thread(row.thread).is_some() && stack(row.thread, row.stack));
        assert!(within(row.name, sched.names.len()));
        assert!(
            row.hist.each().len() <= 64
                && row.by_active.len() <= 256
                && row.by_working.len() <= 256
        );
    }
    for row in &sched.wakes {
        assert!(within(Some(row.off), sched.offs.len()));
        assert!(row
            .waker_off
            .iter()
            .all(|&(off, _)| within(Some(off), sched.offs.len())));
        if let Waker::Thread(waker, ix) = row.waker {
            assert!(thread(waker).is_some() && stack(waker, ix));
        }
    }
    if let Some(lines) = &sched.lines {
        assert!(lines.lines.iter().all(|row| process(row.process).is_some()));
        for row in &lines.uses {
            let of = ThreadRef {
                process: lines.lines[row.line as usize].process,
                thread: row.thread,
            };
            assert!(thread(of).is_some() && stack(of, row.stack) && row.offset < 64);
        }
    }
    assert!(sched.active.len() <= 256 && sched.working.len() <= 256);
    for lane in sched.timeline.iter().flat_map(|timeline| &timeline.lanes) {
        assert!(thread(lane.thread).is_some());
        for interval in &lane.intervals {
            assert!(interval.start_ns <= interval.end_ns);
            assert_eq!(interval.times().all_ns(), interval.ns());
            assert!(within(interval.wake, sched.wakes.len()));
            assert!(match interval.doing {
                Doing::Running(slice) | Doing::Spinning(slice) => within(slice, sched.slices.len()),
                Doing::Preempted(off) | Doing::Waiting(off) => within(off, sched.offs.len()),
                Doing::Woken => true,
            });
        }
    }
}

/// A profile with every table of the scheduler.
fn full() -> Profile {
    let full = |p: &Profile| {
        p.sched.as_ref().is_some_and(|s| {
            let small = [s.names.len(), s.loops.len(), s.threads.len(), s.lost.len()];
            let large = [
                s.slices.len(),
                s.bins.bins.len(),
                s.offs.len(),
                s.wakes.len(),
            ];
            let timeline = s.timeline.as_ref();
            let of_threads =
                timeline.is_some_and(|t| t.lanes.iter().any(|l| l.intervals.len() > 1));
            let lines = s.lines.as_ref();
            let has_lines = lines.is_some_and(|l| l.lines.len() > 1 && l.uses.len() > 1);
            let has_writes = s.writes.len() > 1;
            // Tables of their own, with tests of their own.
            let has_more = !s.goroutines.is_empty() || p.sections.is_some() || p.trace.is_some();
            !has_more
                && of_threads
                && has_lines
                && has_writes
                && small.iter().chain(&large).all(|&rows| rows > 1)
        })
    };
    let alone = |seed| Profile {
        experiments: None,
        live_curves: None,
        second_run: None,
        ..profile(seed, 6)
    };
    (0..).map(alone).find(full).unwrap()
}

/// Reads; the scheduler's data and the warnings.
fn read(sections: &[Section]) -> (Option<Sched>, Vec<String>) {
    let (part, warnings) = Profile::read(&file(sections)).unwrap();
    crate::round_trip::assert_sound(&part);
    (
        part.sched,
        warnings.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn a_file_cut_between_sections_names_the_tables_that_are_missing() {
    let whole = full();
    let sched = whole.sched.as_ref().unwrap();
    let all = sections(&whole.to_bytes().unwrap());
    let begin = all.iter().position(|s| &s.0 == b"SCHD").unwrap();
    let tags: Vec<_> = all[begin..].iter().map(|s| s.0).collect();
    let order = [
        b"SCHD", b"STIM", b"SLHD", b"SWHD", b"SNAM", b"SLUP", b"STHR", b"SLST", b"SLIC", b"SBIN",
        b"SOFF", b"SWAK", b"SLIN", b"SLUS", b"SWRI", b"SLAN", b"SINT", b"END ",
    ];
    assert_eq!(tags, order.map(|tag| *tag));

    assert_eq!(read(&all[..begin]).0, None);
    let begin = begin + 3; // all heads
    let lanes = &sched.timeline.as_ref().unwrap().lanes;
    let lines = sched.lines.as_ref().unwrap();
    let tables = [
        (sched.names.len(), "names of files"),
        (sched.loops.len(), "waiting loops"),
        (sched.threads.len(), "scheduled threads"),
        (sched.lost.len(), "records of lost events"),
        (sched.slices.len(), "slices"),
        (sched.bins.bins.len(), "pieces of the run"),
        (sched.offs.len(), "times off the processors"),
        (sched.wakes.len(), "wakers"),
        (lines.lines.len(), "shared cache lines"),
        (lines.uses.len(), "uses of shared cache lines"),
        (sched.writes.len(), "samples in writes"),
        (lanes.len(), "lanes"),
        (lanes.iter().map(|l| l.intervals.len()).sum(), "intervals"),
    ];
    for kept in 0..=tables.len() {
        let (part, warnings) = read(&all[..=begin + kept]);
        let part = part.unwrap();
        let cut: Vec<_> = warnings
            .iter()
            .filter(|w| w.contains(" are lost"))
            .collect();
        let expected = tables[kept..].iter().map(|(rows, name)| {
            format!("{rows} of {rows} {name} are lost: what they held is missing: sums are too low")
        });
        assert_eq!(cut.len(), tables.len() - kept);
        for (cut, expected) in cut.iter().zip(expected) {
            assert!(cut.starts_with(&expected), "{cut}");
        }
        assert_eq!(part.active, sched.active);
        assert_eq!(part.threads.is_empty(), kept < 3);
        assert_eq!(part.offs == sched.offs, kept >= 7, "{kept}");
    }
}

/// Two processes of two threads and two stacks each.
fn two_processes() -> Profile {
    let process = |pid: u32| Process {
        pid,
        stacks: vec![vec![], vec![]],
        threads: vec![Thread::default(), Thread::default()],
        ..Process::default()
    };
    Profile {
        processes: vec![process(10), process(20)],
        sched: Some(Sched::default()),
        ..Profile::default()
    }
}

const FIRST: ThreadRef = ThreadRef {
    process: 0,
    thread: 1,
};
const SECOND: ThreadRef = ThreadRef {
    process: 1,
    thread: 1,
};

#[test]
fn rows_move_up_with_their_process() {
    let mut whole = two_processes();
    let on = |thread| SchedThread {
        thread,
        cm_ns: 1.5,
        ..SchedThread::default()
    };
    whole.sched.as_mut().unwrap().threads = vec![on(FIRST), on(SECOND)];
    let mut sections = sections(&whole.to_bytes().unwrap());
    // Nothing is left of the first process.
    sections.retain(|(tag, process, _)| {
        *process == 1 || [b"META", b"SCHD", b"STHR", b"END "].contains(&tag)
    });
    let (sched, warnings) = read(&sections);
    let moved = ThreadRef {
        process: 0,
        thread: 1,
    };
    assert_eq!(sched.unwrap().threads, [on(moved)]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("1 scheduled threads refer to what is not in the profile"),
        "{warnings:?}"
    );
}

#[test]
fn waits_find_their_wakers_again_behind_a_gap() {
    let off = |sum_ns| OffCpu {
        thread: FIRST,
        reason: OffReason::Futex,
        sum_ns,
        ..OffCpu::default()
    };
    let wake = |off, waker_off| Wake {
        off,
        waker: Waker::Thread(SECOND, 1),
        n: 1,
        waker_off,
        ..Wake::default()
    };
    let mut whole = two_processes();
    let sched = whole.sched.as_mut().unwrap();
    // Three chunks; the one in the middle is lost.
    let rows = 32_768;
    sched.offs = (0..3 * rows).map(|n| off(u64::from(n))).collect();
    let (first, middle, last) = (5, rows + 5, 2 * rows + 5);
    sched.wakes = vec![
        wake(first, vec![(last, 7), (middle, 8)]),
        wake(middle, vec![]),
        wake(last, vec![(first, 9)]),
    ];
    let mut all = sections(&whole.to_bytes().unwrap());
    let offs = all.iter().position(|s| &s.0 == b"SOFF").unwrap();
    let chunk_rows = all[offs..].iter().filter(|s| &s.0 == b"SOFF").count();
    assert!(chunk_rows >= 3, "{chunk_rows}");
    // Chunks may be shorter than the most rows: find the one with the row.
    let starts = |s: &Section| first_row(&s.2) <= u64::from(middle);
    let hit = (offs..offs + chunk_rows)
        .rfind(|&at| starts(&all[at]))
        .unwrap();
    all.remove(hit);
    let (part, warnings) = read(&all);
    let part = part.unwrap();
    assert_eq!(part.wakes.len(), 2);
    let sum = |ix: u32| part.offs[ix as usize].sum_ns;
    assert_eq!(sum(part.wakes[0].off), u64::from(first));
    assert_eq!(part.wakes[0].waker_off.len(), 1);
    assert_eq!(sum(part.wakes[0].waker_off[0].0), u64::from(last));
    assert_eq!(sum(part.wakes[1].off), u64::from(last));
    assert_eq!(sum(part.wakes[1].waker_off[0].0), u64::from(first));
    let found: Vec<_> = warnings
        .iter()
        .map(|w| w.split(':').next().unwrap())
        .collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].ends_with("of 98304 times off the processors are lost"));
    assert!(found[1].starts_with("1 wakers refer to what is not in the profile or cannot be"));
    assert_eq!(found[2], "1 wakers refer to what is not in the profile");
}

#[test]
fn a_timeline_with_a_hole_keeps_what_is_on_both_sides() {
    let interval = |at: u64| Interval {
        start_ns: 10 * at,
        end_ns: 10 * at + 10,
        doing: Doing::Woken,
        ..Interval::default()
    };
    let lane = |thread, n: u64| Lane {
        thread,
        intervals: (0..n).map(interval).collect(),
    };
    let nowhere = ThreadRef {
        process: 1,
        thread: 2,
    };
    let mut whole = two_processes();
    let rows = 32_768;
    let lanes = vec![lane(FIRST, 3 * rows), lane(nowhere, 7), lane(SECOND, 5)];
    whole.sched.as_mut().unwrap().timeline = Some(Timeline {
        lanes: lanes.clone(),
        ..Timeline::default()
    });
    let mut all = sections(&whole.to_bytes().unwrap());
    let second = all.iter().position(|s| &s.0 == b"SINT").unwrap() + 1;
    all.remove(second);
    let (part, warnings) = read(&all);
    let found = part.unwrap().timeline.unwrap().lanes;
    assert_eq!(found.len(), 2);
    let (a, b) = lanes[0].intervals.split_at(rows as usize);
    assert_eq!(found[0].intervals, [a, &b[rows as usize..]].concat());
    assert_eq!(found[1], lanes[2]);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("1 lanes refer to what is not in the profile"));
    assert!(warnings[1].starts_with("32768 of 98316 intervals are lost"));
}

/// The number that a chunk begins with.
fn first_row(payload: &[u8]) -> u64 {
    let bytes = payload.iter().enumerate();
    let mut value = 0;
    for (at, byte) in bytes {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

#[test]
fn numbers_that_cannot_be_cost_their_rows() {
    let slice = |thread, cm_ns: f64| Slice {
        thread,
        from: CodeFrom::Sample,
        n: 3,
        cm_ns,
        cm_working_ns: cm_ns,
        ..Slice::default()
    };
    let good = slice(FIRST, 2.0);
    let nowhere = ThreadRef {
        process: 1,
        thread: 2,
    };
    let mut whole = two_processes();
    whole.sched.as_mut().unwrap().slices = vec![
        slice(FIRST, f64::NAN),
        slice(SECOND, f64::INFINITY),
        slice(FIRST, -1.0),
        slice(nowhere, 1.0),
        good.clone(),
        Slice {
            stack: 2,
            spin: Some(0),
            ..good.clone()
        },
    ];
    let (part, warnings) = read(&sections(&whole.to_bytes().unwrap()));
    // The last one says enough without its stack and loop.
    assert_eq!(part.unwrap().slices, [good.clone(), good]);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("4 slices refer"), "{warnings:?}");
    assert!(warnings[1].starts_with("1 slices refer"), "{warnings:?}");
}

#[test]
fn without_its_times_it_is_left_out() {
    let whole = full();
    let mut all = sections(&whole.to_bytes().unwrap());
    all.retain(|s| &s.0 != b"SCHD");
    let (part, warnings) = read(&all);
    assert_eq!(part, None);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("nothing of what the scheduler said can be shown"));
    // A profile of an older Convoy has none of it, and nobody misses it.
    all.retain(|s| s.0[0] != b'S' || &s.0 == b"STAK");
    assert_eq!(read(&all), (None, vec![]));
}

#[test]
fn few_bytes_cannot_claim_much() {
    let many = |n: u64| std::iter::repeat_n(0u8, n as usize);
    let refused = |tag: &[u8; 4], payload: Vec<u8>| {
        let whole = two_processes();
        let mut all = sections(&whole.to_bytes().unwrap());
        let end = all.pop().unwrap();
        all.push((*tag, 0, payload));
        all.push(end);
        let (part, warnings) = Profile::read(&file(&all)).unwrap();
        assert_eq!(part, whole);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            matches!(warnings[0], ReadWarning::Damaged { .. }),
            "{warnings:?}"
        );
    };
    // Rows beyond what an index can name, and more of them than a section has.
    refused(
        b"SNAM",
        [number(u64::from(u32::MAX)), number(1), number(0)].concat(),
    );
    refused(b"SNAM", [number(u64::MAX), number(1), number(0)].concat());
    refused(b"SWAK", [number(0), number(1 << 50)].concat());
    // A histogram of 2^40 bins, in a slice that has all columns before it.
    let mut slice = [number(0), number(1)].concat();
    slice.extend(many(8 + 8));
    slice.extend(number(1 << 40));
    refused(b"SLIC", slice);
    // A wait with 2^40 names of kernel functions.
    let mut off = [number(0), number(0), number(1)].concat();
    off.extend([number(0), number(0), number(0), number(0), number(1 << 40)].concat());
    refused(b"SOFF", off);
    // A waker with 16 million waits, two bytes each.
    let mut wake = [number(0), number(1)].concat();
    wake.extend(many(7));
    wake.extend(number(16 << 20));
    wake.extend(many(32 << 20));
    refused(b"SWAK", wake);
    // The run's figures with a histogram of 60 million bins.
    let head = [
        vec![0; 7],
        number(60 << 20),
        many((60 << 20) + 10).collect(),
    ]
    .concat();
    refused(b"SCHD", head);
}

#[test]
fn one_long_kernel_function_cannot_be_named_often() {
    // 20,000 waits below a function with a name of 60,000 letters: 1.2 GB from a few hundred bytes.
    let rows = 20_000u64;
    let name = "x".repeat(60_000);
    let mut payload = [number(0), number(rows), number(1), number(60_000)].concat();
    payload.extend(name.as_bytes());
    // process, thread, stack; one name each, the same; all other columns.
    for column in [0, 0, 0, 1, 0].into_iter().chain([0; 12]) {
        payload.extend(std::iter::repeat_n(column, rows as usize));
    }
    let mut all = sections(&two_processes().to_bytes().unwrap());
    all.push((*b"SOFF", 0, payload));
    let bytes = file(&all);
    assert!(bytes.len() < 20_000, "{}", bytes.len());
    let (part, warnings) = Profile::read(&bytes).unwrap();
    assert_eq!(part, two_processes());
    assert!(warnings[0]
        .to_string()
        .contains("more rows than a section may hold"));
}

#[test]
fn chunks_out_of_order_are_refused() {
    let whole = full();
    let mut all = sections(&whole.to_bytes().unwrap());
    let names = all.iter().position(|s| &s.0 == b"SNAM").unwrap();
    let again = all[names].clone();
    all.insert(names, again);
    let (part, warnings) = read(&all);
    assert_eq!(part, whole.sched);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("section names of files at byte"),
        "{warnings:?}"
    );
}

/// 100,000 kinds of waits of 64 threads, as a busy server has them.
fn many_waits() -> Profile {
    let mut r = Random::new(7);
    let mut profile = two_processes();
    profile.processes[0].threads = vec![Thread::default(); 64];
    profile.processes[0].stacks = vec![vec![]; 3000];
    let sched = profile.sched.as_mut().unwrap();
    let names = ["futex_wait", "futex_wait_queue", "schedule", "do_futex"];
    for n in 0..100_000u32 {
        let times = 1 + r.below(2000);
        let each_ns = 3000 + r.below(1_000_000);
        let bin = each_ns.ilog2() as usize;
        sched.offs.push(OffCpu {
            thread: ThreadRef {
                process: 0,
                thread: n / 1563,
            },
            stack: 1 + n * 7 % 2999,
            kernel_stack: names.map(str::to_owned).to_vec(),
            reason: OffReason::Futex,
            nr: 202,
            address: 0x7f00_0000_0000 + 64 * r.below(5000),
            n: times,
            sum_ns: times * each_ns,
            max_ns: 3 * each_ns,
            hist: [vec![0; bin], vec![times / 2, times / 2]].concat().into(),
            by_active: (0..20).map(|_| r.below(each_ns)).collect(),
            by_working: Default::default(),
            ..OffCpu::default()
        });
    }
    for off in &mut sched.offs {
        off.by_working = off.by_active.clone();
    }
    profile
}

#[test]
fn a_hundred_thousand_waits_fit() {
    let profile = many_waits();
    let start = std::time::Instant::now();
    let bytes = profile.to_bytes().unwrap();
    let written = start.elapsed();
    let (read, warnings) = Profile::read(&bytes).unwrap();
    let took = start.elapsed();
    println!(
        "{} bytes, written in {written:?}, both {took:?}",
        bytes.len()
    );
    assert_eq!(warnings, []);
    assert!(read == profile);
    assert!(bytes.len() < 12_000_000, "{} bytes", bytes.len());
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
}
