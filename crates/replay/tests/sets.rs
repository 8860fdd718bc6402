//! Read and write sets from a synthetic diagnose run, joined with a recording of another run.
#![forbid(unsafe_code)]

use convoy_model::Model;
use convoy_profile::{FrameIx, ObjectIx, Profile, StackIx, ThreadIx};
use convoy_replay::sections::Sections;
use convoy_replay::sets::{Assignment, LockKey, RunKeys, SectionSets, UnknownOperations, Update};
use convoy_testkit::sections::{Step, Traces};
use convoy_testkit::ProfileBuilder;
use convoy_trace::{Event, Kind, Object, ObjectKind, Recording, Site, Thread, Window};

const HEAP: u64 = 0x7f55_0000_0000;

/// Two workers that take `big_lock` in line 10 of `work`.
struct Run {
    p: ProfileBuilder,
    traces: Traces,
    threads: [ThreadIx; 2],
    lock: ObjectIx,
    site: StackIx,
}

impl Run {
    fn new() -> Self {
        let mut p = ProfileBuilder::new("server");
        let threads = ["pool-1", "pool-2"].map(|name| p.thread(name).start("work", "w.c", 1).id());
        let lock = p.mutex("big_lock");
        let site = p.site("work", "w.c", 10);
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
        self.p.frame("work", "w.c", line)
    }

    fn section(&mut self, thread: usize, steps: &[Step]) {
        let (id, lock, site) = (self.threads[thread], self.lock, self.site);
        self.traces
            .section(&mut self.p, id, lock, site, 50_000, steps);
    }

    fn recorded(self) -> Profile {
        self.traces.recorded(self.p)
    }
}

fn sets_of(profile: &Profile) -> SectionSets {
    let model = Model::build(profile.clone());
    SectionSets::of(profile, &model, 0, &UnknownOperations)
}

#[test]
fn words_of_several_threads_are_in_the_sets_and_private_ones_are_not() {
    let mut run = Run::new();
    let line = run.line(12);
    for turn in 0..40 {
        for thread in 0..2 {
            // Pages of their own, a list that both read, a counter that both change.
            let own = HEAP + 0x10_0000 * (thread as u64 + 1);
            let steps = [
                Step::Write(line, own + turn % 4 * 8),
                Step::Read(line, HEAP),
                Step::Add(line, HEAP + 64),
            ];
            run.section(thread, &steps);
        }
    }
    let sets = sets_of(&run.recorded());
    assert_eq!(sets.classes.len(), 1);
    assert_eq!(sets.samples.len(), 80);
    assert_eq!(sets.words.len(), 2);
    for sample in &sets.samples {
        let flags: Vec<_> = sample
            .accesses
            .iter()
            .map(|a| (a.read, a.written))
            .collect();
        assert_eq!(flags, [(true, false), (true, true)]);
        assert_eq!(sample.accesses[1].update, Update::ReadModifyWrite);
        assert!(sample.complete);
    }
    let lock = sets.classes[0].lock.as_ref();
    assert!(matches!(lock, Some(LockKey::Variable { name, .. }) if name.starts_with("big_lock")));
    assert_eq!(sets.classes[0].site.line, 10);
}

#[test]
fn elements_of_a_shared_array_are_shared_data_of_one_thread_each() {
    let mut run = Run::new();
    let line = run.line(12);
    for _ in 0..20 {
        for thread in 0..2 {
            let element = HEAP + 8 * thread as u64;
            run.section(thread, &[Step::Write(line, element)]);
        }
    }
    let sets = sets_of(&run.recorded());
    let words = |thread: u32| {
        let samples = sets.samples.iter().filter(move |s| s.thread == thread);
        let words = samples.flat_map(|s| s.accesses.iter().map(|a| a.word));
        words.collect::<std::collections::BTreeSet<_>>()
    };
    let threads: Vec<u32> = sets.samples.iter().map(|s| s.thread).collect();
    let (first, last) = (threads[0], threads[1]);
    assert_eq!((words(first).len(), words(last).len()), (1, 1));
    assert!(words(first).is_disjoint(&words(last)));
}

/// A recording of another run of the same program: its `big_lock` lies elsewhere, other threads exist.
fn recording(profile: &Profile, lock: ObjectIx, site: StackIx) -> Recording {
    let frame = profile.processes[0].stacks[site as usize][0];
    let thread = |ix: u32, begin: u64| Thread {
        profile_thread: ix,
        events: [(begin, Kind::Acquired), (begin + 10, Kind::Released)]
            .map(|(at_ns, kind)| Event {
                at_ns,
                kind,
                ..Event::default()
            })
            .to_vec(),
        ..Thread::default()
    };
    Recording {
        end_ns: 1000,
        windows: vec![Window {
            start_ns: 0,
            end_ns: 1000,
        }],
        objects: vec![Object {
            addr: 0x1234,
            kind: ObjectKind::Mutex,
            profile_object: Some(lock),
            attr: 0,
        }],
        sites: vec![Site {
            pc: 1,
            frame,
            stack: site,
        }],
        threads: vec![thread(1, 100), thread(2, 200), thread(0, 300)],
        ..Recording::default()
    }
}

#[test]
fn sections_get_sets_of_their_lock_site_and_thread() {
    let mut run = Run::new();
    let line = run.line(12);
    for _ in 0..20 {
        for thread in 0..2 {
            let element = HEAP + 8 * thread as u64;
            run.section(thread, &[Step::Write(line, element)]);
        }
    }
    let sets = sets_of(&run.recorded());

    let other = Run::new();
    let (lock, site) = (other.lock, other.site);
    let other = other.recorded();
    let recording = recording(&other, lock, site);
    let sections = Sections::of(&recording);
    let keys = RunKeys::of(&other.processes[0]);
    let assigned = Assignment::draw(&recording, &sections, &keys, &sets, 1);
    let of = |section: usize| sets.sample(assigned.samples[section]).unwrap();
    assert_ne!(of(0).accesses[0].word, of(1).accesses[0].word);
    assert_eq!(assigned.coverage.same_thread, 2);
    // The main thread never took the lock in the run that gave the sets.
    assert_eq!(assigned.coverage.same_lock, 1);
    assert_eq!(assigned.coverage.share(), 1.0);
}

#[test]
fn a_site_that_was_not_looked_into_has_no_sets() {
    let sets = sets_of(&Run::new().recorded());
    let other = Run::new();
    let (lock, site) = (other.lock, other.site);
    let other = other.recorded();
    let recording = recording(&other, lock, site);
    let sections = Sections::of(&recording);
    let keys = RunKeys::of(&other.processes[0]);
    let assigned = Assignment::draw(&recording, &sections, &keys, &sets, 1);
    assert_eq!(assigned.coverage.none, 3);
    assert_eq!(assigned.coverage.share(), 0.0);
}
