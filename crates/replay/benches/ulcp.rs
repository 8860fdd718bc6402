//! Speed of the analysis of unnecessary lock contention: `cargo bench -p convoy-replay --bench ulcp`.
#![forbid(unsafe_code)]

use std::time::Instant;

use convoy_replay::cost::{fuse, pair_costs, ReplayTimes};
use convoy_replay::program::{Lock, Op, Program, Thread as ProgramThread};
use convoy_replay::races::races;
use convoy_replay::sections::Sections;
use convoy_replay::sets::{Access, Assignment, CodePlace, SectionSets, SetSample, WordInfo};
use convoy_replay::transform::{ulcp_free, LockPlan, Scheme};
use convoy_replay::ulcp::{count, for_each_pair, Classifier, StaticRules};
use convoy_trace::{Event, Kind, Object, ObjectKind, Recording, Site, Thread, Window};

const THREADS: u32 = 4;
const SECTIONS: u32 = 4_000_000;
const LOCKS: u32 = 16;
const SITES: u32 = 8;
const SAMPLES: u32 = 512;

/// Numbers that look random (a linear congruential generator; Knuth's constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) as u32) % limit
    }
}

/// A fifth of the acquires wait.
fn recording() -> Recording {
    let mut numbers = Numbers(1);
    let thread = |number: u32, numbers: &mut Numbers| {
        let mut at_ns = u64::from(number);
        let mut events = Vec::new();
        for _ in 0..SECTIONS / THREADS {
            at_ns += 50 + u64::from(numbers.below(200));
            let event = Event {
                object: numbers.below(LOCKS),
                site: numbers.below(SITES),
                ..Event::default()
            };
            let mut push = |at_ns, kind| {
                events.push(Event {
                    at_ns,
                    kind,
                    ..event
                })
            };
            if numbers.below(5) == 0 {
                push(at_ns, Kind::Request);
                at_ns += 100;
                push(at_ns, Kind::AcquiredAfterWait);
            } else {
                push(at_ns, Kind::Acquired);
            }
            at_ns += 20 + u64::from(numbers.below(100));
            push(at_ns, Kind::Released);
        }
        Thread {
            profile_thread: number,
            events,
            ..Thread::default()
        }
    };
    let threads: Vec<Thread> = (0..THREADS).map(|ix| thread(ix, &mut numbers)).collect();
    let last = |thread: &Thread| thread.events.last().map_or(0, |event| event.at_ns);
    let end_ns = threads.iter().map(last).max().unwrap_or(0) + 1;
    let object = Object {
        kind: ObjectKind::Mutex,
        ..Object::default()
    };
    Recording {
        end_ns,
        cpus: 2,
        windows: vec![Window {
            start_ns: 0,
            end_ns,
        }],
        objects: vec![object; LOCKS as usize],
        sites: (0..SITES)
            .map(|ix| Site {
                pc: u64::from(ix) * 16,
                ..Site::default()
            })
            .collect(),
        threads,
        ..Recording::default()
    }
}

/// Sets of eight words of 256, one section in eight writes one of them.
fn sets() -> SectionSets {
    let mut numbers = Numbers(2);
    let sample = |numbers: &mut Numbers| {
        let mut words: Vec<u32> = (0..8).map(|_| numbers.below(256)).collect();
        words.sort_unstable();
        words.dedup();
        let writes = numbers.below(8) == 0;
        let access = |(ix, word): (usize, u32)| Access {
            word,
            read: true,
            written: writes && ix == 0,
            ..Access::default()
        };
        SetSample {
            weight: 1,
            complete: true,
            accesses: words.into_iter().enumerate().map(access).collect(),
            ..SetSample::default()
        }
    };
    SectionSets {
        samples: (0..SAMPLES).map(|_| sample(&mut numbers)).collect(),
        words: vec![WordInfo::default(); 256],
        ..SectionSets::default()
    }
}

fn program(recording: &Recording, sections: &Sections) -> Program {
    let mut threads = vec![ProgramThread::default(); recording.threads.len()];
    for (ix, section) in sections.all.iter().enumerate() {
        let ops = &mut threads[section.thread as usize].ops;
        let work = |ns: u64| Op::Work { ns: ns as f32 };
        let acquire = Op::Acquire {
            lock: section.lock,
            shared: section.shared,
            section: ix as u32,
        };
        let release = Op::Release { lock: section.lock };
        ops.extend([work(150), acquire, work(section.hold_ns()), release]);
    }
    Program {
        threads,
        locks: vec![
            Lock {
                recorded: 0,
                kind: Default::default(),
                ..Lock::default()
            };
            LOCKS as usize
        ],
        ..Program::default()
    }
}

/// Runs a step, prints its speed.
fn measure<T>(name: &str, unit: &str, run: impl FnOnce() -> (T, u64)) -> T {
    let begin = Instant::now();
    let (result, n) = run();
    let seconds = begin.elapsed().as_secs_f64();
    let speed = n as f64 / seconds / 1e6;
    println!("{name:24} {seconds:7.3} s  {speed:8.2} M {unit}/s");
    result
}

fn main() {
    let recording = recording();
    let sets = sets();
    println!(
        "{} events, {SECTIONS} sections, {THREADS} threads",
        recording.event_count()
    );
    let n = u64::from(SECTIONS);
    let sections = measure("sections", "sections", || (Sections::of(&recording), n));
    let samples: Vec<u32> = {
        let mut numbers = Numbers(3);
        sections
            .all
            .iter()
            .map(|_| numbers.below(SAMPLES))
            .collect()
    };
    let assignment = Assignment::observed(samples);
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    measure("pairs", "pairs", || {
        let mut pairs = 0;
        for (_, of_lock) in sections.by_lock().iter() {
            for_each_pair(&sections, of_lock, |_, _| pairs += 1);
        }
        ((), pairs)
    });
    let counts = measure("pairs, classified", "pairs", || {
        let counts = count(&sections, &mut classifier);
        let pairs = counts.total().all.total();
        (counts, pairs)
    });
    println!("{:?}", counts.total());
    let program = program(&recording, &sections);
    let by_section = Scheme::BySection { finished: None };
    for (name, scheme) in [
        ("plan by data", Scheme::ByData),
        ("plan by section", by_section),
    ] {
        let plan = measure(name, "sections", || {
            (LockPlan::of(&sections, &mut classifier, scheme), n)
        });
        println!("{:24} {} auxiliary locks", "", plan.aux.len());
        measure("transformed", "sections", || {
            (ulcp_free(&program, &plan), n)
        });
        let races = measure("races", "sections", || {
            let races = races(&recording, &sections, &mut classifier, &plan);
            let looked_at = races.looked_at;
            (races, looked_at)
        });
        println!("{:24} {} kinds of races", "", races.races.len());
    }
    let original = ReplayTimes::recorded(&recording, &sections);
    let mut free = original.clone();
    for span in &mut free.sections {
        span.requested_ns = span.acquired_ns;
    }
    let place = |site: u32| CodePlace {
        module: "bench".into(),
        offset: u64::from(site) * 16,
        ..CodePlace::default()
    };
    let regions = measure("costs", "sections", || {
        let costs = pair_costs(&sections, &mut classifier, &original, &free);
        (fuse(&sections, &costs, &place), n)
    });
    println!("{:24} {} pairs of regions", "", regions.pairs.len());
}
