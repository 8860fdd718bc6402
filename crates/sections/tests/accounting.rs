//! Sections as they would come from a trace, and what the tables say of them.

use convoy_profile::{CallKind, FrameIx, ObjectIx, Op, SectionEnd, Sections, StackIx, ThreadIx};
use convoy_sections::{Access, AccessKind, Accounting, Allocator, Block, Options, Places, Section};

const LOCK: u64 = 0x5000;
const STACK: u64 = 0x7fff_0000;

/// The identity, as far as indices allow.
#[derive(Default)]
struct Plain {
    ips: Vec<u64>,
}

impl Places for Plain {
    fn process(&mut self, process: u32) -> Option<u32> {
        (process != 9).then_some(process)
    }
    fn instruction(&mut self, _: u32, ip: u64) -> FrameIx {
        self.ips.push(ip);
        ip as FrameIx
    }
    fn return_address(&mut self, _: u32, ra: u64) -> FrameIx {
        ra as FrameIx
    }
    fn stack(&mut self, _: u32, stack: u32) -> StackIx {
        stack
    }
    fn object(&mut self, _: u32, address: u64) -> Option<ObjectIx> {
        Some(address as ObjectIx)
    }
    fn thread(&mut self, _: u32, thread: u32) -> Option<ThreadIx> {
        Some(thread)
    }
    fn op(&mut self, op: u32) -> Option<Op> {
        (op == 1).then_some(Op::MutexLock)
    }
}

fn access(instruction: u16, rw: &str) -> Access {
    Access {
        at: instruction * 4,
        instruction,
        kind: AccessKind::Plain,
        reads: rw.contains('r'),
        writes: rw.contains('w'),
        atomic: rw.contains('a'),
        implicit: rw.contains('i'),
        lanes: 0,
        size: 8,
        field: None,
    }
}

fn block(ip: u64, instructions: u16, accesses: Vec<Access>) -> Block {
    Block {
        ip,
        code_bytes: u32::from(instructions) * 4,
        instructions,
        accesses,
    }
}

fn run(id: u64, words: &[u64]) -> Vec<u64> {
    [&[1 << 56 | id], words].concat()
}

fn section(thread: u32, begin_ns: u64, events: &[u64]) -> Section<'_> {
    Section {
        process: 0,
        thread,
        object: LOCK,
        ra: 0x1000,
        stack_lo: 0,
        stack: 3,
        op: Some(Op::MutexLock),
        begin_ns,
        end_ns: begin_ns + 100,
        end: SectionEnd::Released,
        weight: 1,
        waited: false,
        events,
    }
}

fn finish(accounting: Accounting) -> Sections {
    accounting.finish(&mut Plain::default())
}

/// `counter++` in block 1, at 0x2000: load, add, store.
fn counter() -> Accounting {
    let mut accounting = Accounting::new(Options::default());
    accounting.block(0, 1, block(0x2000, 3, vec![access(0, "r"), access(2, "w")]));
    accounting
}

#[test]
fn a_counter_is_one_shared_word_read_first() {
    let mut accounting = counter();
    let events = run(1, &[0x8000, 0x8000]);
    for i in 0..10 {
        accounting.section(&section(i % 2, u64::from(i) * 1000, &events));
    }
    let tables = finish(accounting);
    let [site] = &tables.sites[..] else { panic!() };
    assert_eq!((site.run, site.threads, site.objects), (10, 2, 1));
    assert_eq!(
        (site.frame, site.stack, site.object),
        (0x1000, 3, Some(LOCK as u32))
    );
    assert_eq!(site.ends, [10, 0, 0, 0, 0, 0, 0, 0, 0]);
    let whole = &site.whole;
    assert_eq!((whole.instructions, whole.accesses), (30, 20));
    assert_eq!(
        (whole.reads, whole.writes, whole.words, whole.bytes),
        (10, 10, 10, 80)
    );
    assert_eq!((whole.traced_ns, site.largest.instructions), (1000, 3));
    assert_eq!((site.distinct_words, site.words.len()), (1, 1));
    let [word] = &tables.words[..] else { panic!() };
    assert_eq!(word.address, 0x8000);
    assert!(word.seen.flow && word.seen.writers && word.seen.only.is_none());
    assert_eq!(tables.samples.len(), 10);
    let touch = &tables.samples[0].touches[0];
    assert!(touch.read_first);
    let ip = |code: Option<u32>| tables.code[code.unwrap() as usize].frame;
    assert_eq!((ip(touch.read_by), ip(touch.written_by)), (0x2000, 0x2008));
    let instructions: u64 = tables.code.iter().map(|row| row.instructions).sum();
    assert_eq!(instructions, 30);
    // All of thread 0's and 1's follow one another on the same lock.
    assert_eq!(tables.follows[0].n, 8);
    assert_eq!(tables.follows[0].gap_median_ns, 1900);
}

#[test]
fn code_that_is_called_belongs_to_the_calling_line() {
    let mut accounting = counter();
    // 2: a call at 0x3008; 3: the function, with its return; 4: behind the call.
    accounting.block(0, 2, block(0x3000, 3, vec![access(2, "wi")]));
    accounting.block(
        0,
        3,
        block(0x4000, 5, vec![access(1, "r"), access(4, "ri")]),
    );
    let slot = STACK - 8;
    let events = [
        run(2, &[slot]),
        run(3, &[0x9000, slot]),
        run(1, &[0x8000, 0x8000]),
    ]
    .concat();
    accounting.section(&section(0, 0, &events));
    let tables = finish(accounting);
    let from = |frame: FrameIx| {
        let row = tables.code.iter().find(|row| row.frame == frame);
        row.and_then(|row| row.from)
    };
    assert_eq!(from(0x4004), Some(0x300b)); // inside the call instruction
    assert_eq!(from(0x2000), None);
    assert_eq!(tables.sites[0].whole.implicit, 2);
}

#[test]
fn an_object_is_of_the_line_that_asked_for_it() {
    let field = |instruction, field| Access {
        field: Some(field),
        ..access(instruction, "w")
    };
    let result = Access {
        kind: AccessKind::Result,
        ..access(1, "ri")
    };
    // 2, 3: calls of 4, which hands out memory, or of 5, which takes it back; 6: writes two fields, and a word of an array.
    let asked = |does: Allocator| {
        let mut accounting = Accounting::new(Options::default());
        accounting.allocator(0, 0x4000, does);
        accounting.block(0, 2, block(0x3000, 1, vec![access(0, "wi")]));
        accounting.block(0, 3, block(0x3800, 1, vec![access(0, "wi")]));
        let function = vec![access(1, "ri"), result];
        accounting.block(0, 4, block(0x4000, 2, function));
        let fields = vec![field(0, 0x10), field(1, 0x1c), access(2, "w")];
        accounting.block(0, 6, block(0x5000, 3, fields));
        let mut object = |call: u64, at: u64| {
            let events = [
                run(call, &[STACK]),
                run(4, &[STACK, at]),
                run(6, &[at + 0x10, at + 0x1c, at + 0x20]),
            ];
            let begin_ns = accounting.sections() * 1000;
            accounting.section(&section(0, begin_ns, &events.concat()));
        };
        object(2, 0x9000);
        object(3, 0xa000);
        object(2, 0xb000);
        object(3, 0xb000);
        let tables = finish(accounting);
        let words = tables.words.iter();
        let mut words: Vec<_> = words.map(|w| (w.address, w.allocated_by)).collect();
        words.sort();
        words
    };
    let lines = [
        (0x9000, Some(0x3003)),
        (0xa000, Some(0x3803)),
        (0xb000, None),
    ];
    let wanted = lines.into_iter().flat_map(|(at, by)| {
        // Which object an element of an array is in is not said.
        [(at + 0x10, by), (at + 0x18, by), (at + 0x20, None)]
    });
    assert_eq!(asked(Allocator::HandsOut), wanted.collect::<Vec<_>>());
    let told = asked(Allocator::Other);
    assert!(told.iter().all(|(_, by)| by.is_none()), "{told:?}");
}

#[test]
fn what_an_allocator_does_is_not_the_sections_data() {
    let mut accounting = counter();
    accounting.allocator(0, 0x4000, Allocator::HandsOut);
    accounting.block(0, 2, block(0x3000, 3, vec![access(2, "wi")]));
    // The allocator calls another function of its own, which returns into the middle of it.
    accounting.block(
        0,
        3,
        block(0x4000, 5, vec![access(1, "r"), access(4, "wi")]),
    );
    accounting.block(
        0,
        4,
        block(0x4100, 2, vec![access(0, "rw"), access(1, "ri")]),
    );
    accounting.block(
        0,
        5,
        block(0x4014, 2, vec![access(0, "w"), access(1, "ri")]),
    );
    let (slot, inner) = (STACK - 8, STACK - 64);
    let events = [
        run(2, &[slot]),
        run(3, &[0x9000, inner]),
        run(4, &[0x9008, inner]),
        run(5, &[0x8000, slot]),
        run(1, &[0x8000, 0x8000]),
    ]
    .concat();
    accounting.section(&section(0, 0, &events));
    accounting.section(&section(0, 1000, &events));
    let tables = finish(accounting);
    let site = &tables.sites[0];
    assert_eq!(site.whole.allocator, 12);
    assert_eq!(site.whole.allocator_instructions, 18);
    assert_eq!(site.distinct_words, 1);
    assert!(tables.words[0].seen.allocator);
    // All that the call led to is one row: it says what the call costs.
    let rows: Vec<_> = tables.code.iter().filter(|r| r.from.is_some()).collect();
    let [row] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.frame, row.from), (0x4000, Some(0x300b)));
    assert_eq!((row.instructions, row.allocator, row.accesses), (18, 2, 0));
}

#[test]
fn memory_that_was_given_back_in_a_section_carries_nothing_to_the_next() {
    // 2: a call of the allocator; 3: which writes the word, and returns.
    let given_back = |allocator: bool| {
        let mut accounting = counter();
        if allocator {
            accounting.allocator(0, 0x4000, Allocator::HandsOut);
        }
        accounting.block(0, 2, block(0x3000, 3, vec![access(2, "wi")]));
        accounting.block(
            0,
            3,
            block(0x4000, 2, vec![access(0, "w"), access(1, "ri")]),
        );
        let slot = STACK - 8;
        let events = [
            run(1, &[0x8000, 0x8000]),
            run(2, &[slot]),
            run(3, &[0x8000, slot]),
        ]
        .concat();
        accounting.section(&section(0, 0, &events));
        accounting.section(&section(1, 1000, &events));
        finish(accounting).words[0].seen
    };
    assert!(given_back(false).flow);
    let seen = given_back(true);
    assert!(!seen.flow && seen.only.is_none() && seen.allocator);
}

#[test]
fn calls_inside_are_counted_where_the_section_calls() {
    let mut accounting = counter();
    accounting.block(0, 2, block(0x3000, 3, vec![access(2, "wi")]));
    accounting.block(0, 3, block(0x4000, 2, vec![]));
    let slot = STACK - 8;
    let hook = |op: u64, object: u64| vec![3 << 56 | op, object];
    let events = [
        run(2, &[slot]),
        run(3, &[]), // a stub of the linker
        hook(1, 0x6000),
        vec![4 << 56 | 700],
        run(1, &[0x8000, 0x8000]),
        vec![2 << 56 | 1],
    ]
    .concat();
    accounting.section(&Section {
        weight: 5,
        ..section(0, 0, &events)
    });
    let tables = finish(accounting);
    let called = |call: &&convoy_profile::SectionCall| call.kind != CallKind::Release;
    let calls: Vec<_> = tables.calls.iter().filter(called).collect();
    let [call, lock] = calls[..] else { panic!() };
    assert_eq!(
        (lock.kind, lock.object),
        (CallKind::Op(Op::MutexLock), Some(0x6000))
    );
    assert_eq!((lock.n, lock.run, lock.sections), (1, 5, 1));
    assert_eq!((lock.waits, lock.wait_ns, lock.wait_max_ns), (1, 700, 700));
    assert_eq!(lock.frame, Some(0x300b));
    assert_eq!(
        (call.kind, call.frame),
        (CallKind::Syscall(1), Some(0x200b))
    );
    // The counter is no part of what was called.
    let row = tables.code.iter().find(|row| row.frame == 0x2000).unwrap();
    assert_eq!(row.from, None);
}

#[test]
fn operands_of_every_kind_touch_their_words() {
    let mut accounting = Accounting::new(Options::default());
    let of = |kind, lanes, size| Access {
        kind,
        lanes,
        size,
        ..access(0, "r")
    };
    accounting.block(0, 1, block(0x2000, 1, vec![of(AccessKind::Repeat, 0, 8)]));
    accounting.block(0, 2, block(0x2100, 1, vec![of(AccessKind::Masked, 0, 8)]));
    accounting.block(0, 3, block(0x2200, 1, vec![of(AccessKind::Lanes, 3, 4)]));
    accounting.block(0, 4, block(0x2300, 1, vec![of(AccessKind::Plain, 0, 64)]));
    let events = [
        run(1, &[0x1_0000, 5]),
        run(1, &[0x9_0000, 0]),
        run(2, &[0x2_0000, 0b1001]),
        run(3, &[0b101, 0x3_0000, 0x3_1000, 0x3_2004]),
        run(4, &[0x4_0004]),
    ]
    .concat();
    accounting.section(&section(0, 0, &events));
    let tables = finish(accounting);
    let mut words: Vec<u64> = tables.words.iter().map(|word| word.address).collect();
    words.sort_unstable();
    let repeat = (0..5).map(|i| 0x1_0000 + 8 * i);
    let masked = [0x2_0000, 0x2_0018, 0x3_0000, 0x3_2000];
    let plain = (0..9).map(|i| 0x4_0000 + 8 * i);
    assert_eq!(words, repeat.chain(masked).chain(plain).collect::<Vec<_>>());
}

#[test]
fn a_fault_takes_the_rest_of_its_block_away() {
    let mut accounting = counter();
    let events = [run(1, &[0x8000, 0]), vec![5 << 56 | 2]].concat();
    accounting.section(&Section {
        end: SectionEnd::Signal,
        ..section(0, 0, &events)
    });
    let tables = finish(accounting);
    assert_eq!(tables.sites[0].ends[SectionEnd::Signal as usize], 1);
    assert!(tables.samples.is_empty());
    assert_eq!(tables.words.len(), 1);
    assert!(!tables.words[0].seen.written);
}

#[test]
fn own_stacks_are_nobodys_data_unless_lent() {
    let mut accounting = counter();
    accounting.stack(0, 0, STACK - 0x1000..STACK);
    let local = run(1, &[STACK - 0x100, STACK - 0x100]);
    let lent = run(1, &[STACK - 0x200, STACK - 0x200]);
    accounting.section(&section(0, 0, &local));
    accounting.section(&section(0, 1000, &lent));
    accounting.section(&section(1, 2000, &lent));
    let tables = finish(accounting);
    let touched: Vec<usize> = tables.samples.iter().map(|s| s.touches.len()).collect();
    assert_eq!(touched, [0, 1, 1]);
}

#[test]
fn what_makes_no_sense_is_dropped_and_counted() {
    for events in [
        &[77 << 56][..],
        &[1 << 56 | 2],
        &[1 << 56 | 1, 0x8000],
        &[3 << 56],
        &[0],
        &[1 << 56 | 0x00ff_ffff_ffff],
    ] {
        let mut accounting = counter();
        accounting.section(&section(0, 0, events));
        let tables = finish(accounting);
        assert_eq!(
            tables.drops,
            [("malformed-section".to_owned(), 1)],
            "{events:x?}"
        );
        assert!(tables.samples.is_empty());
    }
}

#[test]
fn objects_beyond_the_first_ones_are_taken_together() {
    let mut accounting = counter();
    let events = run(1, &[0x8000, 0x8000]);
    for i in 0..100 {
        accounting.section(&Section {
            object: LOCK + 64 * i,
            ..section(0, i * 1000, &events)
        });
    }
    let tables = finish(accounting);
    assert_eq!(tables.sites.len(), 17);
    let rest = tables
        .sites
        .iter()
        .find(|site| site.object.is_none())
        .unwrap();
    assert_eq!((rest.run, rest.objects), (84, 84));
}

#[test]
fn memory_stays_within_its_bounds() {
    let mut accounting = Accounting::new(Options {
        words: 1000,
        sample_bytes: 1 << 20,
        ..Options::default()
    });
    let many = vec![Access {
        kind: AccessKind::Repeat,
        ..access(0, "r")
    }];
    accounting.block(0, 1, block(0x2000, 1, many));
    for i in 0..2000 {
        let events = run(1, &[0x10_0000 + i * 0x1000, 500]);
        accounting.section(&section(0, i * 1000, &events));
    }
    let tables = finish(accounting);
    let touches: usize = tables.samples.iter().map(|s| s.touches.len()).sum();
    assert!(
        touches * 24 < 2 << 20 && !tables.samples.is_empty(),
        "{touches}"
    );
    assert_eq!(tables.drops[0].0, "word-table-full");
    // A word that found no room may be anybody's.
    let full = tables.words.iter().filter(|word| word.seen.flow).count();
    assert!(full > 0);
    let estimate = tables.sites[0].distinct_words as f64 / 1_000_000.0;
    assert!((0.8..1.2).contains(&estimate), "{estimate}");
}
