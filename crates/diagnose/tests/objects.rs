//! What allocated memory is called, and how a lock's data fall into parts: by object, by field, by element.
#![forbid(unsafe_code)]

use convoy_diagnose::{analyze, PartitionBy, SiteRow, Thresholds};
use convoy_model::Model;
use convoy_profile::{FrameIx, ObjectIx, StackIx, ThreadIx};
use convoy_testkit::sections::{Step, Traces};
use convoy_testkit::ProfileBuilder;

const HEAP: u64 = 0x7f55_0000_0000;

struct World {
    p: ProfileBuilder,
    traces: Traces,
    threads: [ThreadIx; 2],
    lock: ObjectIx,
}

impl World {
    fn new() -> Self {
        let mut p = ProfileBuilder::new("server");
        let threads = ["a", "b"].map(|name| p.thread(name).start("work", "work.c", 1).id());
        Self {
            lock: p.mutex("lock"),
            traces: Traces::new(),
            threads,
            p,
        }
    }

    fn site(&mut self, function: &str, line: u32) -> StackIx {
        let site = self.p.site(function, "work.c", line);
        for thread in self.threads {
            self.p.acquires(thread, self.lock, site, 10);
        }
        site
    }

    fn line(&mut self, line: u32) -> FrameIx {
        self.p.frame("work", "work.c", line)
    }

    /// A section of each thread.
    fn both(&mut self, site: StackIx, steps: impl Fn(u64) -> Vec<Step>) {
        for (number, thread) in (0..).zip(self.threads) {
            let steps = steps(number);
            self.traces
                .section(&mut self.p, thread, self.lock, site, 50_000, &steps);
        }
    }

    fn rows(self) -> Vec<SiteRow> {
        let profile = self.traces.recorded(self.p);
        analyze(&Model::build(profile), &Thresholds::default()).sites
    }

    fn row(self) -> SiteRow {
        self.rows().into_iter().next().unwrap()
    }
}

fn names(row: &SiteRow) -> Vec<&str> {
    let mut names: Vec<&str> = row.data.iter().map(|data| data.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn evidence(row: &SiteRow) -> String {
    let texts = row.verdict.evidence.iter().map(|e| e.text.as_str());
    texts.collect::<Vec<_>>().join("; ")
}

#[test]
fn words_that_one_address_leads_to_are_one_object() {
    let mut w = World::new();
    let (site, get, link) = (w.site("work", 10), w.line(11), w.line(12));
    for _ in 0..40 {
        w.both(site, |_| {
            vec![
                Step::AddField(get, HEAP + 0x100, 0x18),
                Step::AddField(get, HEAP + 0x100, 0x28),
                // A list in the midst of it: from there backward.
                Step::AddField(link, HEAP + 0x120, -8),
                Step::AddField(link, HEAP + 0x120, 8),
                // By an index, as far as is known.
                Step::Add(link, HEAP + 0x4000),
            ]
        });
    }
    let row = w.row();
    assert_eq!(
        names(&row),
        [
            "+0x18..+0x28 of the heap object that work() work.c:11 reaches",
            "heap, 1 word"
        ]
    );
    let of_object: Vec<u64> = row.data.iter().map(|data| data.words).collect();
    assert_eq!(of_object, [2, 1]);
}

#[test]
fn objects_of_one_line_are_counted_and_arrays_are_one() {
    let mut w = World::new();
    let (site, node, walk) = (w.site("work", 10), w.line(11), w.line(12));
    for turn in 0..40 {
        w.both(site, |_| {
            let mut steps = vec![Step::AddField(node, HEAP + 0x40 * (turn % 10), 0x20)];
            steps.extend((0..16).map(|i| Step::AddField(walk, HEAP + 0x8000 + 8 * i, 0)));
            steps
        });
    }
    assert_eq!(
        names(&w.row()),
        [
            "+0x0..+0x78 of the heap object that work() work.c:12 reaches",
            "field +0x20 of 10 heap objects that work() work.c:11 reaches"
        ]
    );
}

#[test]
fn an_object_that_a_section_allocates_is_named_by_that() {
    let mut w = World::new();
    let (site, ask, fill) = (w.site("work", 10), w.line(11), w.line(12));
    for turn in 0..40 {
        w.both(site, |thread| {
            let at = HEAP + 0x1000 * (2 * turn + thread);
            vec![Step::Allocate(ask, at - 8), Step::AddField(fill, at, 0x10)]
        });
    }
    assert_eq!(
        names(&w.row()),
        ["field +0x10 of 80 heap objects allocated at work() work.c:11"]
    );
}

#[test]
fn parts_are_told_by_object() {
    let mut w = World::new();
    let (site, get) = (w.site("work", 10), w.line(11));
    for turn in 0..64 {
        w.both(site, |thread| {
            let object = HEAP + 0x40 * ((turn * 5 + thread * 3) % 16);
            let fields = (0..4).map(|i| Step::AddField(get, object, 8 * i));
            fields.chain([Step::Work(get, 120)]).collect()
        });
    }
    let row = w.row();
    let decided = row.verdict.decided().unwrap();
    assert_eq!(decided.id, "too-many-data-under-one-lock");
    assert!(
        decided.fix.starts_with("one lock in each object"),
        "{}",
        decided.fix
    );
    let partition = row.partition.as_ref().unwrap();
    assert_eq!((partition.by, partition.parts), (PartitionBy::Object, 16));
    assert_eq!(partition.largest[0].bytes, 32);
    assert!(
        evidence(&row).contains("by object: the same lines use different ones, of 32 bytes"),
        "{}",
        evidence(&row)
    );
}

#[test]
fn parts_are_told_by_field() {
    let mut w = World::new();
    let places = [
        ("count", 10),
        ("size", 20),
        ("age", 30),
        ("log", 40),
        ("hits", 50),
    ];
    let places = places.map(|(function, line)| (w.site(function, line), w.line(line + 1)));
    for turn in 0..60 {
        let at = turn % places.len();
        let (site, line) = places[at];
        w.both(site, |_| {
            let fields = (0..2).map(|i| Step::AddField(line, HEAP, 0x20 * at as i32 + 8 * i));
            fields.chain([Step::Work(line, 120)]).collect()
        });
    }
    let row = w.row();
    let partition = row.partition.as_ref().unwrap();
    assert_eq!((partition.by, partition.parts), (PartitionBy::Field, 5));
    let said = evidence(&row);
    assert!(said.contains("by field: different places"), "{said}");
    assert!(
        said.contains("+0x20..+0x28 of the heap object that work() work.c:21 reaches (20 % of the sections, at size() work.c:20)"),
        "{said}"
    );
}

#[test]
fn one_large_part_and_a_small_one_are_no_partition() {
    let world = |small: u64| {
        let mut w = World::new();
        let (site, get) = (w.site("work", 10), w.line(11));
        for turn in 0..100 {
            // One of two parts; each is a ring of buffers, of which a section uses two that follow one another.
            let part = HEAP + 0x10_0000 * u64::from(turn % 100 < small);
            w.both(site, |thread| {
                let at = (turn * 7 + thread * 11) % 40;
                let buffers = [at, at + 1].map(|at| part + 0x40 * (at % 40));
                let words = buffers
                    .into_iter()
                    .flat_map(|at| [Step::Add(get, at), Step::Add(get, at + 8)]);
                words.chain([Step::Work(get, 120)]).collect()
            });
        }
        w.row()
    };
    let row = world(5);
    assert!(
        row.partition.as_ref().unwrap().separated < 0.2,
        "{:?}",
        row.partition
    );
    assert!(row.verdict.decided().is_none(), "{:?}", row.verdict);
    assert!(row.verdict.undecided.contains("one and the same part"));
    let row = world(50);
    assert_eq!(
        row.verdict.decided().unwrap().id,
        "too-many-data-under-one-lock"
    );
    let saved = row.verdict.waits_saved.unwrap();
    assert!((0.4..=0.6).contains(&saved), "{saved}");
}

#[test]
fn threads_that_take_turns_are_compared_with_one_another() {
    // More sections than are compared, of two threads in strict turn: every second one would be of one thread.
    let mut w = World::new();
    let (site, get) = (w.site("work", 10), w.line(11));
    for _ in 0..128 {
        w.both(site, |_| {
            vec![Step::Add(get, HEAP), Step::Add(get, HEAP + 8)]
        });
    }
    let conflicts = w.row().conflicts.unwrap();
    assert_eq!(conflicts.share, 1.0);
}
