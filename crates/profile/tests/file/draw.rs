//! Profiles drawn at random, the same for the same seed.

use convoy_profile::*;

use crate::draw_live::live_curves;
use crate::draw_sched::sched;
use crate::draw_sections::sections;
use crate::draw_trace::trace;

/// A small generator (xorshift64*): tests must not differ from run to run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0..n; 0 for n = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next().checked_rem(n).unwrap_or(0)
    }

    pub fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Any size of number, extremes included.
    pub fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::from(u32::MAX),
            bits => self.next() >> (self.below(64 / bits) + 1),
        }
    }

    pub fn number32(&mut self) -> u32 {
        self.number() as u32
    }

    pub fn text(&mut self) -> String {
        let words = [
            "",
            "main",
            "worker-7",
            "Queue<int>::push(int const&)",
            "naïve",
            "a/b.c",
        ];
        words[self.below(words.len() as u64) as usize].to_owned()
    }

    pub fn texts(&mut self) -> Vec<String> {
        (0..self.below(4)).map(|_| self.text()).collect()
    }

    pub fn index(&mut self, len: usize) -> u32 {
        self.below(len as u64) as u32
    }

    fn option<T>(&mut self, value: T) -> Option<T> {
        self.flag().then_some(value)
    }
}

const OPS: [Op; 6] = [
    Op::MutexLock,
    Op::SpinTrylock,
    Op::CondWait,
    Op::OmpRegion,
    Op::FutexWake,
    Op::Join,
];
const KINDS: [ObjectKind; 4] = [
    ObjectKind::Unknown,
    ObjectKind::Mutex,
    ObjectKind::Cond,
    ObjectKind::OmpRegion,
];
const REASONS: [Reason; 3] = [Reason::NotResolved, Reason::NoSymbol, Reason::BadSymbols];

/// A profile that uses every field, with tables of at most `rows` rows.
pub fn profile(seed: u64, rows: u64) -> Profile {
    let r = &mut Random::new(seed);
    let first = run(r, rows);
    let second_run = r.flag().then(|| Box::new(run(r, rows.min(2000))));
    Profile {
        second_run,
        ..first
    }
}

fn run(r: &mut Random, rows: u64) -> Profile {
    let meta = Meta {
        convoy_version: r.text(),
        started_unix_ns: r.number(),
        command: r.texts(),
        cwd: r.text(),
        start_ns: r.number(),
        end_ns: r.number(),
        exit: [
            Exit::Unknown,
            Exit::Status(-1),
            Exit::Signal(9),
            Exit::Running,
        ][r.below(4) as usize],
        machine: Machine {
            kernel: r.text(),
            arch: r.text(),
            cpu_model: r.text(),
            cpus_online: r.number32(),
            cpus_allowed: r.number32(),
            memory_bytes: r.number(),
            libc: r.text(),
            mutex_pair_ns: r.below(1000) as f64 / 8.0,
        },
        collectors: (0..r.below(3))
            .map(|_| Collector {
                name: r.text(),
                active: r.flag(),
                lost: r.text(),
                enable: r.text(),
            })
            .collect(),
        sample_period: r.number32(),
        cpu_user_ns: r.number(),
        cpu_sys_ns: r.number(),
        stolen_ns: r.number(),
        others_ns: 0,         // a section of its own
        damage: Vec::new(),   // of the reader
        costs: String::new(), // likewise
        notes: r.texts(),
    };
    let processes: Vec<_> = (0..r.below(4)).map(|_| process(r, rows)).collect();
    let sched = r.flag().then(|| sched(r, &processes, rows));
    let sections = r.flag().then(|| sections(r, &processes, rows.min(2000)));
    let trace = trace(r, &processes, rows.min(2000));
    Profile {
        meta,
        processes,
        sched,
        sections,
        live_curves: r.flag().then(|| live_curves(r, rows.min(50))),
        trace,
        second_run: None,
    }
}

fn process(r: &mut Random, rows: u64) -> Process {
    let mut p = Process {
        pid: r.number32(),
        ppid: r.number32(),
        exe: r.text(),
        args: r.texts(),
        start_ns: r.number(),
        end_ns: r.number(),
        ended_cleanly: r.flag(),
        inline_mutex: r.flag(),
        without_agent: r.flag(),
        listens: r.flag(),
        makes_threads: r.flag(),
        drops: (0..r.below(3)).map(|_| (r.text(), r.number())).collect(),
        ..Process::default()
    };
    let n = |r: &mut Random| r.below(rows + 1);
    p.modules = (0..n(r))
        .map(|_| Module {
            path: r.text(),
            build_id: (0..r.below(21)).map(|b| b as u8).collect(),
            bias: r.number(),
            lo: r.number(),
            hi: r.number(),
            symbols: r.text(),
        })
        .collect();
    let modules = p.modules.len();
    let module = |r: &mut Random| r.index(modules);
    p.frames = (0..n(r))
        .map(|_| Frame {
            pc: r.number(),
            module: if modules == 0 { None } else { Some(module(r)) },
            offset: r.number(),
            exact: r.flag(),
            no_rule: r.flag(),
            symbol: symbol(r),
        })
        .collect();
    let frames = p.frames.len();
    p.starts = (0..frames / 2)
        .map(|ix| FunctionStart {
            frame: ix as u32 * 2,
            address: p.frames[ix].offset,
        })
        .collect();
    p.stacks = (0..n(r))
        .map(|_| {
            let depth = if frames == 0 { 0 } else { r.below(9) };
            (0..depth).map(|_| r.index(frames)).collect()
        })
        .collect();
    let stacks = p.stacks.len();
    p.threads = (0..n(r))
        .map(|_| Thread {
            tid: r.number32(),
            parent_tid: r.number32(),
            name: r.text(),
            start: if frames == 0 {
                None
            } else {
                Some(r.index(frames))
            },
            create_stack: r.index(stacks),
            start_ns: r.number(),
            end_ns: r.number(),
            cpu_ns: r.number(),
            user_ns: r.number(),
            sys_ns: r.number(),
            run_delay_ns: Some(r.number()).filter(|_| r.flag()),
            voluntary_switches: r.number(),
            involuntary_switches: r.number(),
            cpu_exact: r.flag(),
            lives: r.number32(),
            stack_lo: r.number(),
            stack_hi: r.number(),
        })
        .collect();
    let threads = p.threads.len();
    p.objects = (0..n(r))
        .map(|_| Object {
            addr: r.number(),
            kind: KINDS[r.below(4) as usize],
            init_stack: r.index(stacks),
            lives: r.number32(),
            destroyed: r.number32(),
            attr: r.number32(),
            module: if modules == 0 { None } else { Some(module(r)) },
            symbol: Some(r.text()).filter(|_| r.flag()),
            memory: match r.below(4) {
                0 => Memory::Unknown,
                1 => Memory::Static,
                2 if threads > 0 => Memory::Stack(r.index(threads)),
                _ => Memory::Heap,
            },
        })
        .collect();
    if frames > 0 && threads > 0 {
        p.unattributed = (0..n(r))
            .map(|_| Unattributed {
                frame: r.index(frames),
                thread: r.index(threads),
                op: OPS[r.below(6) as usize],
                n: r.number(),
                failed: r.number(),
            })
            .collect();
    }
    if frames > 0 && threads > 0 && !p.objects.is_empty() {
        fill_rows(r, &mut p, n);
    }
    p
}

fn fill_rows(r: &mut Random, p: &mut Process, n: impl Fn(&mut Random) -> u64) {
    let (frames, stacks) = (p.frames.len(), p.stacks.len());
    let (threads, objects) = (p.threads.len(), p.objects.len());
    p.counts = (0..n(r))
        .map(|_| Count {
            object: r.index(objects),
            frame: r.index(frames),
            thread: r.index(threads),
            op: OPS[r.below(6) as usize],
            n: r.number(),
            failed: r.number(),
            sampled: r.number(),
        })
        .collect();
    p.details = (0..n(r))
        .map(|_| Detail {
            object: r.index(objects),
            stack: r.index(stacks),
            thread: r.index(threads),
            op: r.option(Op::MutexLock),
            samples: r.number32(),
            acquire_n: r.number32(),
            acquire_sum_ns: r.number(),
            hold_n: r.number32(),
            hold_sum_ns: r.number(),
            hold_sampled_n: r.number32(),
            hold_sampled_sum_ns: r.number(),
            hold_max_us: r.number32(),
            wait: wait(r),
        })
        .collect();
    p.pairs = (0..n(r))
        .map(|_| Pair {
            object: r.index(objects),
            stack: r.index(stacks),
            thread: r.index(threads),
            peer: Some(r.index(threads)).filter(|_| r.flag()),
            peer_frame: Some(r.index(frames)).filter(|_| r.flag()),
            peer_stack: r.index(stacks),
            n: r.number(),
            wait_sum_ns: r.number(),
            wait_max_ns: r.number(),
        })
        .collect();
}

fn wait(r: &mut Random) -> Option<Wait> {
    r.flag().then(|| Wait {
        n: r.number(),
        sum_ns: r.number(),
        max_ns: r.number(),
        timeouts: r.number(),
        timeout_sum_ns: r.number(),
        unfinished: r.below(2),
        unfinished_ns: r.number(),
        last_arrivals: r.number(),
        busy_sum_ns: r.number(),
        hist: (0..r.below(33)).map(|_| r.number32()).collect(),
    })
}

fn symbol(r: &mut Random) -> Symbol {
    if r.below(4) == 0 {
        return Symbol::Unknown(REASONS[r.below(3) as usize]);
    }
    let location = |r: &mut Random| Location {
        function: r.text(),
        file: Some(r.text()).filter(|_| r.flag()),
        line: Some(r.number32()).filter(|_| r.flag()),
    };
    Symbol::Known((0..r.below(4)).map(|_| location(r)).collect())
}
