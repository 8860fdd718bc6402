//! Every row of Table 1 that is about sections, broken and fixed: the right verdict, and none where there is nothing
//! to say.
#![forbid(unsafe_code)]

use convoy_diagnose::{analyze, Analysis, SiteRow, Thresholds};
use convoy_model::Model;
use convoy_profile::{FrameIx, ObjectIx, StackIx, ThreadIx};
use convoy_testkit::sections::{Step, Traces};
use convoy_testkit::ProfileBuilder;

const HEAP: u64 = 0x7f55_0000_0000;

/// A program with two workers, a lock, and a function `work` that takes it in line 10.
struct World {
    p: ProfileBuilder,
    traces: Traces,
    threads: [ThreadIx; 2],
    lock: ObjectIx,
    site: StackIx,
}

impl World {
    fn new() -> Self {
        let mut p = ProfileBuilder::new("server");
        let threads = ["a", "b"].map(|name| p.thread(name).start("work", "work.c", 1).id());
        let lock = p.mutex("big_lock");
        let site = p.site("work", "work.c", 10);
        for thread in threads {
            p.acquires(thread, lock, site, 10);
        }
        Self {
            p,
            traces: Traces::new(),
            threads,
            lock,
            site,
        }
    }

    fn line(&mut self, line: u32) -> FrameIx {
        self.p.frame("work", "work.c", line)
    }

    /// Two locks that are taken inside of sections only.
    fn finer_locks(&mut self) -> [ObjectIx; 2] {
        let site = self.p.site("work", "work.c", 12);
        ["left_lock", "right_lock"].map(|name| {
            let lock = self.p.mutex(name);
            self.p.acquires(self.threads[0], lock, site, 60);
            lock
        })
    }

    /// One section of each thread in turn, `n` times; `steps` gets the thread and the turn.
    fn run(&mut self, n: u64, steps: impl Fn(u64, u64) -> Vec<Step>) {
        let (lock, site) = (self.lock, self.site);
        for turn in 0..n {
            for thread in 0..2 {
                let steps = steps(thread, turn);
                let id = self.threads[thread as usize];
                self.traces
                    .section(&mut self.p, id, lock, site, 50_000, &steps);
            }
        }
    }

    fn judge(self) -> (Model, Analysis) {
        let profile = self.traces.recorded(self.p);
        let model = Model::build(profile);
        let analysis = analyze(&model, &Thresholds::default());
        (model, analysis)
    }

    fn row(self) -> SiteRow {
        let (_, analysis) = self.judge();
        let big = analysis.sites.into_iter().max_by_key(|site| site.run);
        big.unwrap()
    }
}

fn decided(row: &SiteRow) -> &'static str {
    assert_eq!(row.verdict.undecided, "", "{:?}", row.verdict);
    row.verdict.decided().unwrap().id
}

fn lines(row: &SiteRow) -> Vec<u32> {
    row.verdict.lines.iter().map(|frame| frame.line).collect()
}

#[test]
fn one_integer_operation_is_an_atomic() {
    let mut w = World::new();
    let add = w.line(11);
    w.run(40, |_, _| vec![Step::Add(add, HEAP)]);
    let row = w.row();
    assert_eq!(
        (decided(&row), lines(&row)),
        ("small-integer-section", vec![11])
    );
    assert!(row.one_word.low > 0.9 && row.instructions.mean == 1.0);

    // The value decides what happens to another shared word: no one atomic operation does that.
    let mut w = World::new();
    let (add, check) = (w.line(11), w.line(12));
    w.run(40, |_, _| {
        vec![Step::Add(add, HEAP), Step::Add(check, HEAP + 8)]
    });
    assert_eq!(decided(&w.row()), "small-section");
}

#[test]
fn an_atomic_needs_all_sections_of_the_lock() {
    let mut w = World::new();
    let (add, other) = (w.line(11), w.p.frame("other", "work.c", 30));
    w.run(40, |_, _| vec![Step::Add(add, HEAP)]);
    w.site = w.p.stack(&[other]);
    w.run(20, |_, _| {
        vec![Step::Add(other, HEAP), Step::Add(other, HEAP + 8)]
    });
    let (_, analysis) = w.judge();
    let row = &analysis.sites[0];
    assert!(
        row.verdict.undecided.contains("would break them"),
        "{:?}",
        row.verdict
    );
}

#[test]
fn a_small_section_that_is_no_atomic() {
    let mut w = World::new();
    let line = w.line(11);
    w.run(40, |_, _| {
        (0..4).map(|i| Step::Add(line, HEAP + i * 8)).collect()
    });
    assert_eq!(decided(&w.row()), "small-section");
}

#[test]
fn who_writes_each_time_does_not_only_read() {
    // A count in each of many objects, of which most were seen in the hands of one thread by chance.
    let mut w = World::new();
    let (read, count) = (w.line(11), w.line(12));
    w.run(60, |thread, turn| {
        let mine = if turn % 5 == 0 { 0 } else { 1 + thread };
        let object = HEAP + 4096 * (1 + turn % 15) + 0x10_0000 * mine;
        let mut steps: Vec<Step> = (0..20).map(|i| Step::Read(read, HEAP + i * 8)).collect();
        steps.push(Step::Add(count, object));
        steps
    });
    let row = w.row();
    assert!(row.read_only.share < 0.01, "{:?}", row.read_only);
    assert_ne!(
        row.verdict.causes.first().map(|cause| cause.id),
        Some("read-only-section")
    );
}

#[test]
fn readers_exclude_each_other() {
    let reading = |line: FrameIx, turn: u64, writes: u64| -> Vec<Step> {
        let mut steps: Vec<Step> = (0..150).map(|i| Step::Read(line, HEAP + i * 8)).collect();
        if writes > 0 && turn % writes == 0 {
            steps.push(Step::Add(line, HEAP));
        }
        steps
    };
    let mut w = World::new();
    let line = w.line(11);
    w.run(60, |_, turn| reading(line, turn, 20));
    let row = w.row();
    assert_eq!(decided(&row), "read-only-section");
    assert!((row.read_only.share - 0.95).abs() < 1e-9);
    assert!(row.verdict.waits_saved.unwrap() < 0.95);

    // All write.
    let mut w = World::new();
    let line = w.line(11);
    w.run(60, |_, turn| reading(line, turn, 1));
    assert_eq!(decided(&w.row()), "truly-shared-data");
}

#[test]
fn one_lock_for_many_elements() {
    let element = |line: FrameIx, i: u64| -> Vec<Step> {
        (0..60)
            .flat_map(|k| [Step::Add(line, HEAP + i * 512 + k * 8), Step::Work(line, 1)])
            .collect()
    };
    let mut w = World::new();
    let line = w.line(11);
    w.run(60, |thread, turn| {
        element(line, (turn * 7 + thread * 13) % 31)
    });
    let row = w.row();
    assert_eq!(decided(&row), "too-many-data-under-one-lock");
    let partition = row.partition.unwrap();
    assert_eq!(partition.parts, 31);
    assert!(row.conflicts.unwrap().share < 0.1);

    // All of them together each time.
    let mut w = World::new();
    let line = w.line(11);
    w.run(60, |_, _| element(line, 3));
    assert_eq!(decided(&w.row()), "truly-shared-data");
}

#[test]
fn a_counter_that_all_use_does_not_hide_the_parts() {
    let mut w = World::new();
    let line = w.line(11);
    w.run(60, |thread, turn| {
        let i = (turn * 7 + thread * 13) % 31;
        let of = (0..120).map(|k| Step::Add(line, HEAP + 4096 + i * 1024 + k * 8));
        of.chain([Step::Add(line, HEAP)]).collect()
    });
    let row = w.row();
    assert_eq!(decided(&row), "too-many-data-under-one-lock");
    assert_eq!(row.partition.unwrap().common.len(), 1);
    assert!(row.verdict.causes[0].fix.contains("atomics"));
}

/// A counter of all, and the ends of a list that nearly half of the sections use: more or fewer in one run than in another.
#[test]
fn what_nearly_half_of_the_sections_use_does_not_hide_the_parts() {
    for of_ten in [4, 5, 6] {
        let mut w = World::new();
        let line = w.line(11);
        w.run(60, |thread, turn| {
            let i = (turn * 7 + thread * 13) % 31;
            let of = (0..120).map(|k| Step::Add(line, HEAP + 4096 + i * 1024 + k * 8));
            let end = (turn % 10 < of_ten).then_some(Step::Add(line, HEAP + 64));
            of.chain([Step::Add(line, HEAP)]).chain(end).collect()
        });
        let row = w.row();
        assert_eq!(decided(&row), "too-many-data-under-one-lock", "{of_ten}");
        assert_eq!(row.partition.unwrap().parts, 31, "{of_ten}");
    }
}

#[test]
fn work_that_needs_no_lock_is_moved_out() {
    let own = |thread: u64, k: u64| HEAP + 0x10_0000 * (thread + 1) + k * 8;
    let mut w = World::new();
    let (random, table) = (w.line(11), w.line(12));
    let inner = w.p.frame("random", "rng.c", 5);
    let private = |thread: u64| -> Vec<Step> {
        (0..300)
            .flat_map(|k| [Step::Add(inner, own(thread, k)), Step::Work(inner, 2)])
            .collect()
    };
    w.run(40, |thread, _| {
        vec![
            Step::Call(random, private(thread)),
            Step::Add(table, HEAP),
            Step::Add(table, HEAP + 8),
        ]
    });
    let row = w.row();
    assert_eq!(
        (decided(&row), lines(&row)),
        ("too-large-critical-section", vec![11])
    );
    assert!(row.movable > 0.95 && row.verdict.waits_saved == Some(row.movable));

    // The function moved out: what stays is short.
    let mut w = World::new();
    let table = w.line(12);
    w.run(40, |_, _| {
        vec![Step::Add(table, HEAP), Step::Add(table, HEAP + 8)]
    });
    assert_eq!(decided(&w.row()), "small-section");
}

#[test]
fn a_loop_around_shared_data_is_not_moved_out() {
    let mut w = World::new();
    let (control, body) = (w.line(11), w.line(12));
    w.run(40, |_, _| {
        (0..100)
            .flat_map(|k| [Step::Work(control, 3), Step::Add(body, HEAP + k * 8)])
            .collect()
    });
    let row = w.row();
    assert_eq!(decided(&row), "truly-shared-data");
    assert_eq!(row.movable, 0.0);
}

#[test]
fn several_small_sections_become_one() {
    let world = |gap_ns: u64| {
        let mut w = World::new();
        let places = [10, 14, 18].map(|line| w.p.site("work", "work.c", line));
        let frames = [11, 15, 19].map(|line| w.line(line));
        for turn in 0..90 {
            let thread = w.threads[turn % 2];
            for i in 0..3 {
                let steps: Vec<Step> = (0..6)
                    .map(|k| Step::Add(frames[i], HEAP + i as u64 * 16 + k * 8))
                    .collect();
                let gap = match (turn, i) {
                    (_, 0) => 90_000,
                    (7, _) => 50_000_000, // somebody else had the processor
                    _ => gap_ns,
                };
                w.traces
                    .section(&mut w.p, thread, w.lock, places[i], gap, &steps);
            }
        }
        w.row()
    };
    let row = world(150);
    assert_eq!(decided(&row), "several-small-sections");
    assert!(row.verdict.causes[0].fix.contains("work.c:10, 14, 18"));
    assert_eq!(decided(&world(80_000)), "small-section");
}

#[test]
fn a_lock_inside_another_is_not_needed() {
    let world = |always: bool| {
        let mut w = World::new();
        let (line, inner_line) = (w.line(11), w.line(12));
        let inner = w.p.mutex("inner_lock");
        let inner_site = w.p.site("work", "work.c", 12);
        let alone = if always { 0 } else { 2000 };
        w.p.acquires(w.threads[0], inner, inner_site, 80 + alone);
        w.run(40, |_, _| {
            vec![
                Step::Add(line, HEAP),
                Step::Add(line, HEAP + 8),
                Step::Lock(inner_line, inner, vec![Step::Add(inner_line, HEAP + 16)]),
            ]
        });
        let (model, analysis) = w.judge();
        let [row] = &analysis.inside[..] else {
            panic!()
        };
        assert_eq!(model.objects[row.inner.0 as usize].name, "inner_lock");
        (row.always, row.share)
    };
    assert_eq!(world(true), (true, 1.0));
    let (always, share) = world(false);
    assert!(!always && share < 0.05);
}

#[test]
fn a_common_lock_serializes_finer_ones() {
    let mut w = World::new();
    let line = w.line(12);
    let locks = w.finer_locks();
    w.run(60, |_, turn| {
        let side = turn % 2;
        vec![Step::Lock(
            line,
            locks[side as usize],
            vec![Step::Add(line, HEAP + side * 64)],
        )]
    });
    assert_eq!(decided(&w.row()), "serialized-by-common-lock");
}

#[test]
fn a_common_lock_of_one_thread_serializes_nobody() {
    let mut w = World::new();
    let line = w.line(12);
    let locks = w.finer_locks();
    for turn in 0..120 {
        let side = turn % 2;
        let inner = vec![Step::Add(line, HEAP + side * 64)];
        let steps = [Step::Lock(line, locks[side as usize], inner)];
        // The other thread takes it when it begins and when it ends.
        let thread = w.threads[usize::from(turn % 119 == 0)];
        w.traces
            .section(&mut w.p, thread, w.lock, w.site, 50_000, &steps);
    }
    let row = w.row();
    assert!(row.verdict.causes.is_empty(), "{:?}", row.verdict);
    assert!(row.verdict.undecided.contains("ran in one thread"));
}

#[test]
fn data_of_one_thread_need_no_lock() {
    let mut w = World::new();
    let line = w.line(11);
    w.run(60, |thread, _| {
        (0..50)
            .map(|k| Step::Add(line, HEAP + thread * 0x1000 + k * 8))
            .collect()
    });
    let row = w.row();
    assert_eq!(decided(&row), "local-data");
    assert!(row.nothing_shared.low > 0.95);

    // One word in one section of a hundred is enough to need it.
    let mut w = World::new();
    let line = w.line(11);
    w.run(60, |thread, turn| {
        let word = if turn % 10 == 0 {
            HEAP
        } else {
            HEAP + 0x1000 + thread * 0x1000
        };
        (0..50).map(|k| Step::Add(line, word + k * 8)).collect()
    });
    assert_ne!(decided(&w.row()), "local-data");
}

#[test]
fn memory_that_is_handed_out_again_is_no_sharing() {
    let run = |allocates: bool| {
        let mut w = World::new();
        let (line, allocate) = (w.line(11), w.line(12));
        w.run(60, |_, _| {
            // The same block, now in this thread's hands and now in that one's: written before it is read.
            let mut steps = vec![
                Step::Write(line, HEAP),
                Step::Write(line, HEAP + 8),
                Step::Read(line, HEAP),
            ];
            if allocates {
                steps.insert(0, Step::Allocate(allocate, 0x7f00_1234_0000));
            }
            steps
        });
        w.row()
    };
    assert_eq!(decided(&run(true)), "local-data");
    let row = run(false);
    let ids: Vec<&str> = row.verdict.causes.iter().map(|cause| cause.id).collect();
    assert_eq!(ids, ["local-data", "too-many-data-under-one-lock"]);
    assert!(row.verdict.undecided.contains("handed out again"));
}

#[test]
fn a_system_call_inside_is_moved_out() {
    let run = |every: u64| {
        let mut w = World::new();
        let (line, call) = (w.line(11), w.line(12));
        w.run(60, |_, turn| {
            let mut steps: Vec<Step> = (0..60).map(|k| Step::Add(line, HEAP + k * 8)).collect();
            if turn % every == 0 {
                steps.push(Step::Syscall(call, 74));
            }
            steps
        });
        w.row()
    };
    let row = run(1);
    assert_eq!(
        (decided(&row), lines(&row)),
        ("blocking-inside-section", vec![12])
    );
    assert!(row.verdict.causes[0].text.contains("fsync()"));
    assert_ne!(decided(&run(30)), "blocking-inside-section");
}

#[test]
fn too_few_sections_decide_nothing() {
    let mut w = World::new();
    let line = w.line(11);
    w.run(5, |_, _| vec![Step::Add(line, HEAP)]);
    let row = w.row();
    assert!(row.verdict.causes.is_empty());
    assert!(
        row.verdict.undecided.contains("only 10 whole sections"),
        "{}",
        row.verdict.undecided
    );
}

#[test]
fn nodes_of_one_list_are_no_parts() {
    let mut w = World::new();
    let line = w.line(11);
    // Head, count, and the one node that hangs on the head.
    w.run(60, |thread, turn| {
        let node = HEAP + 4096 + ((turn * 7 + thread * 13) % 31) * 64;
        vec![
            Step::Read(line, HEAP),
            Step::Add(line, node),
            Step::Write(line, HEAP),
            Step::Add(line, HEAP + 8),
        ]
    });
    assert_eq!(decided(&w.row()), "small-section");
}

#[test]
fn several_elements_at_a_time_have_no_parts() {
    let mut w = World::new();
    let line = w.line(11);
    // A chain of pairs joins all elements, and yet few sections meet.
    w.run(60, |thread, turn| {
        let first = (turn * 7 + thread * 13) % 60;
        let element = |i: u64| {
            let i = (first + i) % 60;
            (0..30)
                .flat_map(move |k| [Step::Add(line, HEAP + i * 512 + k * 8), Step::Work(line, 1)])
        };
        element(0).chain(element(1)).collect()
    });
    let row = w.row();
    let ids: Vec<&str> = row.verdict.causes.iter().map(|cause| cause.id).collect();
    assert_eq!(ids, ["too-many-data-under-one-lock", "truly-shared-data"]);
    assert!(row.verdict.undecided.contains("taken together"));
}

#[test]
fn one_rare_word_in_a_library_does_not_keep_a_line_in() {
    let own = |thread: u64, k: u64| HEAP + 0x10_0000 * (thread + 1) + k * 8;
    let world = |every: u64| {
        let mut w = World::new();
        let (format, append) = (w.line(11), w.line(12));
        let inner = w.p.frame("format", "format.c", 5);
        w.run(60, |thread, turn| {
            let steps = (0..300).map(|k| Step::Add(inner, own(thread, k)));
            let rare = (turn % every == 0).then(|| Step::Read(inner, own(9, turn * 2 + thread)));
            vec![
                Step::Call(format, steps.chain(rare).collect()),
                Step::Add(append, HEAP),
                Step::Add(append, HEAP + 8),
            ]
        });
        w.row()
    };
    let row = world(60);
    assert_eq!(
        (decided(&row), lines(&row)),
        ("too-large-critical-section", vec![11])
    );
    // One in each section: nothing says that it is nobody else's.
    assert_ne!(world(1).verdict.lines.len(), 1);
}

#[test]
fn a_lock_that_one_thread_takes_excludes_nobody() {
    let world = |others: u64| {
        let mut w = World::new();
        let line = w.line(11);
        let lock = w.p.mutex("own_lock");
        w.p.acquires(w.threads[0], lock, w.site, 100_000);
        if others > 0 {
            w.p.acquires(w.threads[1], lock, w.site, others);
        }
        for _ in 0..60 {
            let steps = [Step::Add(line, HEAP), Step::Add(line, HEAP + 8)];
            let (thread, site) = (w.threads[0], w.site);
            w.traces
                .section(&mut w.p, thread, lock, site, 50_000, &steps);
        }
        w.row()
    };
    let row = world(0);
    assert_eq!(decided(&row), "local-data");
    assert!(row.verdict.causes[0].text.contains("excludes nobody"));
    // Others take it: what they share was not seen.
    assert!(world(20_000).verdict.undecided.contains("in one thread"));
}
