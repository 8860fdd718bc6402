//! What traced sections touched, drawn at random.

use convoy_profile::*;

use crate::draw::Random;

/// Uses every field that these processes allow, with tables of at most `rows` rows.
pub fn sections(r: &mut Random, processes: &[Process], rows: u64) -> Sections {
    let n = |r: &mut Random| r.below(rows + 1);
    let mut s = Sections {
        sampling: SectionSampling {
            all_sites: r.flag(),
            every: r.flag(),
            first: r.number() as u32,
            budget_ppm: r.number() as u32,
        },
        drops: (0..r.below(3)).map(|_| (r.text(), r.number())).collect(),
        ..Sections::default()
    };
    let useful = |p: &Process| !p.threads.is_empty() && !p.frames.is_empty();
    let usable: Vec<u32> = (0..)
        .zip(processes)
        .filter(|(_, p)| useful(p))
        .map(|(ix, _)| ix)
        .collect();
    if usable.is_empty() {
        return s;
    }
    let draw = |r: &mut Random| {
        let ix = usable[r.index(usable.len()) as usize];
        (ix, &processes[ix as usize])
    };
    s.words = (0..n(r))
        .map(|_| {
            let (process, p) = draw(r);
            word(r, process, p)
        })
        .collect();
    let words = s.words.len();
    s.sites = (0..n(r))
        .map(|_| {
            let (process, p) = draw(r);
            site(r, process, p, words)
        })
        .collect();
    let sites = s.sites.len();
    if sites == 0 {
        return s;
    }
    let process_of = |s: &Sections, site: u32| &processes[s.sites[site as usize].process as usize];
    for _ in 0..n(r) {
        let site = r.index(sites);
        let row = code(r, site, process_of(&s, site), words);
        s.code.push(row);
    }
    for _ in 0..n(r) {
        let site = r.index(sites);
        let row = call(r, site, process_of(&s, site));
        s.calls.push(row);
    }
    s.follows = (0..n(r))
        .map(|_| SectionFollow {
            first: r.index(sites),
            then: r.index(sites),
            n: r.number(),
            gap_median_ns: r.number(),
        })
        .collect();
    for _ in 0..n(r) {
        let site = r.index(sites);
        let threads = process_of(&s, site).threads.len();
        let row = SectionSample {
            site,
            thread: r.index(threads),
            object: r.number(),
            weight: r.number(),
            begin_ns: r.number(),
            totals: totals(r),
            touches: match words {
                0 => Vec::new(),
                _ => (0..r.below(9))
                    .map(|_| touch(r, words, s.code.len()))
                    .collect(),
            },
            untold: r.number(),
        };
        s.samples.push(row);
    }
    if !s.samples.is_empty() {
        s.inputs = (0..r.below(20))
            .map(|_| input(r, s.samples.len()))
            .collect();
    }
    s
}

fn input(r: &mut Random, samples: usize) -> SectionInput {
    SectionInput {
        sample: r.index(samples),
        resume: r.number(),
        object: r.number(),
        registers: std::array::from_fn(|_| r.number()),
        stack_lo: r.number(),
        instructions: r.number(),
        path: r.number(),
        loads: r.number(),
        found: (0..r.below(5))
            .map(|_| FoundWord {
                address: r.number(),
                value: r.number(),
                known: r.number() as u8,
            })
            .collect(),
    }
}

fn some(r: &mut Random, len: usize) -> Option<u32> {
    (len > 0 && r.flag()).then(|| r.index(len))
}

fn list(r: &mut Random, len: usize) -> Vec<u32> {
    match len {
        0 => Vec::new(),
        _ => (0..r.below(6)).map(|_| r.index(len)).collect(),
    }
}

fn word(r: &mut Random, process: u32, p: &Process) -> SectionWord {
    SectionWord {
        process,
        address: r.number(),
        seen: WordSeen {
            only: some(r, p.threads.len()),
            sections: r.number() as u8,
            read: r.flag(),
            written: r.flag(),
            writers: r.flag(),
            flow: r.flag(),
            atomic: r.flag(),
            allocator: r.flag(),
            own_stack: r.flag(),
            object: r.flag(),
        },
        allocated_by: some(r, p.frames.len()),
        symbol: r.flag().then(|| r.text()),
    }
}

fn totals(r: &mut Random) -> SectionTotals {
    SectionTotals {
        traced_ns: r.number(),
        instructions: r.number(),
        accesses: r.number(),
        implicit: r.number(),
        reads: r.number(),
        writes: r.number(),
        allocator: r.number(),
        allocator_instructions: r.number(),
        syscalls: r.number(),
        words: r.number(),
        bytes: r.number(),
    }
}

fn site(r: &mut Random, process: u32, p: &Process, words: usize) -> SectionSite {
    SectionSite {
        process,
        object: some(r, p.objects.len()),
        stack: r.index(p.stacks.len()),
        frame: r.index(p.frames.len()),
        op: [None, Some(Op::MutexLock), Some(Op::OmpCritical)][r.index(3) as usize],
        threads: r.number() as u32,
        objects: r.number() as u32,
        run: r.number(),
        waited: r.number(),
        ends: std::array::from_fn(|_| r.number()),
        whole: totals(r),
        largest: totals(r),
        distinct_words: r.number(),
        words: list(r, words),
    }
}

fn code(r: &mut Random, site: u32, p: &Process, words: usize) -> SectionCode {
    SectionCode {
        site,
        frame: r.index(p.frames.len()),
        from: some(r, p.frames.len()),
        executions: r.number(),
        instructions: r.number(),
        allocator: r.number(),
        accesses: r.number(),
        size: r.number() as u32,
        field: r.flag().then(|| r.number() as i32),
        reads: r.flag(),
        writes: r.flag(),
        atomic: r.flag(),
        words: list(r, words),
    }
}

fn call(r: &mut Random, site: u32, p: &Process) -> SectionCall {
    let kinds = [
        CallKind::Syscall(r.number() as u32),
        CallKind::Op(Op::CondSignal),
        CallKind::Agent,
        CallKind::Release,
    ];
    SectionCall {
        site,
        kind: kinds[r.index(4) as usize],
        object: some(r, p.objects.len()),
        frame: some(r, p.frames.len()),
        n: r.number(),
        run: r.number(),
        sections: r.number(),
        waits: r.number(),
        wait_ns: r.number(),
        wait_max_ns: r.number(),
    }
}

fn touch(r: &mut Random, words: usize, code: usize) -> Touch {
    Touch {
        word: r.index(words),
        reads: r.number() as u32,
        writes: r.number() as u32,
        read_by: some(r, code),
        written_by: some(r, code),
        read_first: r.flag(),
    }
}
