//! Replays written by hand: one of each kind that a report has to show.

use convoy_estimate::Method::{ReplayNative, ReplaySimulated};
use convoy_replay::analysis::{
    Access, Analysis, CurvePoint, Doing, Lane, Lanes, LockRow, Place, PlanRow, Race, Recorded,
    Region, SourceLine, Ulcp, UlcpCounts, Verified, WhatIfRow,
};
use convoy_replay::caveat::Caveat;
use convoy_replay::cost::{CodeRegion, Overall, RegionPair, Regions, SpanCost};
use convoy_replay::fidelity::{Fidelity, Fingerprint};
use convoy_replay::predict::{Answer, Baseline, Replayed, Saved};
use convoy_replay::tables::Analyzed;
use convoy_trace::Mode;

/// A place in the source.
pub fn place(function: &str, file: &str, line: u32) -> Place {
    Place {
        function: function.into(),
        file: file.into(),
        line,
    }
}

/// A saving of `mid`, within so many points.
pub fn saved(mid: f64, points: f64) -> Saved {
    Saved {
        low: mid - points / 100.0,
        mid,
        high: (mid + points / 100.0).min(1.0),
    }
}

/// What the simulated and the native replay expect, each within 5 points.
pub fn answer(simulated: f64, native: f64) -> Answer {
    Answer {
        by_method: vec![
            (ReplaySimulated, saved(simulated, 5.0)),
            (ReplayNative, saved(native, 5.0)),
        ],
        refused: Vec::new(),
    }
}

fn what_if(query: &str, title: &str, answer: Answer) -> WhatIfRow {
    WhatIfRow {
        query: query.into(),
        title: title.into(),
        answer,
        ..WhatIfRow::default()
    }
}

fn baselines(recorded_ns: f64, simulated: f64, native: f64) -> Vec<Baseline> {
    [(ReplaySimulated, simulated), (ReplayNative, native)]
        .map(|(method, ratio)| {
            let middle = recorded_ns * ratio;
            let fingerprint = |wall_ns, waited_share| Fingerprint {
                wall_ns,
                contended_share: 0.11,
                waited_share,
                voluntary: 4_000.0,
                involuntary: f64::NAN,
                wait_p50_ns: 40_000.0,
                wait_p90_ns: 90_000.0,
                wait_p99_ns: 3_900_000.0 * ratio.powi(30),
            };
            let (recorded, replayed) = (fingerprint(recorded_ns, 0.41), fingerprint(middle, 0.43));
            Baseline {
                method,
                recorded_ns,
                replayed_ns: vec![middle * 0.99, middle, middle * 1.01],
                runs: Replayed::default(),
                shortened_ns: None,
                fidelity: Some(Fidelity::compare(method, &recorded, &replayed, None)),
                refused: ((ratio - 1.0f64).abs() > 0.05).then(|| {
                    format!(
                        "it replays the recorded run in {:.0} % of its time",
                        100.0 * ratio
                    )
                }),
            }
        })
        .to_vec()
}

fn counts(acquisitions: u64, by_class: [u64; 6]) -> UlcpCounts {
    let [null_lock, read_read, disjoint_write, benign, true_contention, unknown] = by_class;
    UlcpCounts {
        acquisitions,
        null_lock,
        read_read,
        disjoint_write,
        benign,
        true_contention,
        unknown,
    }
}

/// A server whose readers exclude each other at one lock, with everything that can be known.
pub fn rich() -> Analysis {
    let cache = counts(160_000, [0, 98_000, 4_000, 0, 51_000, 2_000]);
    let stats = counts(80_000, [0, 0, 0, 61_000, 900, 0]);
    let queue = counts(12_000, [5_000, 0, 0, 0, 6_500, 0]);
    let all = counts(252_000, [5_000, 98_000, 4_000, 61_000, 58_400, 2_000]);
    let mut rwlock = what_if(
        "rwlock cache_lock",
        "cache_lock as a reader-writer lock",
        answer(0.38, 0.33),
    );
    rwlock.assumption = "writers do not starve".into();
    rwlock.verified = Some(Verified {
        saved: saved(0.36, 2.0),
        pairs: 20,
    });
    let mut what_ifs = vec![
        rwlock,
        what_if(
            "remove cache_lock",
            "cache_lock removed",
            answer(0.45, 0.43),
        ),
        what_if("remove stats_lock", "stats_lock removed", answer(0.01, 0.0)),
        what_if(
            "remove queue_lock",
            "queue_lock removed",
            answer(-0.01, 0.02),
        ),
    ];
    for (k, mid) in [(2, 0.2), (4, 0.31), (8, 0.38), (16, 0.41)] {
        let query = format!("cache_lock / {k}");
        let title = format!("cache_lock split into {k}");
        what_ifs.push(what_if(&query, &title, answer(mid, mid - 0.02)));
    }
    for (percent, mid) in [(25, 0.12), (50, 0.24), (75, 0.35)] {
        let query = format!("shorten cache_lock {percent}%");
        let title = format!("sections of cache_lock {percent} % shorter");
        what_ifs.push(what_if(&query, &title, answer(mid, mid + 0.03)));
    }
    Analysis {
        command: ["./server", "--threads", "16"].map(String::from).to_vec(),
        pid: 4242,
        recorded: Recorded {
            wall_ns: 2.1e9,
            mode: Mode::Windows,
            windows: (21, 21),
            replayed_ns: 2.1e8,
            events: 1_204_000,
            sections: 252_000,
            threads: 17,
            cpus: 8,
            opaque_share: 0.02,
        },
        baselines: baselines(2.1e8, 0.97, 1.02),
        locks: vec![
            lock_row("cache_lock", 1.4e9, cache),
            lock_row("stats_lock", 2.0e8, stats),
            lock_row("queue_lock", 3.0e7, queue),
        ],
        ulcp: Ulcp {
            counts: all,
            unknown_because: None,
            inferred_share: 0.12,
            races: vec![Race {
                data: "stats.hits".into(),
                accesses: [
                    Access {
                        place: place("stats_hit", "src/stats.c", 18),
                        is_write: true,
                    },
                    Access {
                        place: place("stats_print", "src/stats.c", 40),
                        is_write: false,
                    },
                ],
            }],
            unobserved_share: 0.08,
        },
        ulcp_free: Some(answer(0.4, 0.37)),
        regions: regions(),
        what_ifs,
        plan: vec![
            PlanRow {
                queries: vec!["rwlock cache_lock".into()],
                answer: answer(0.38, 0.33),
                alone: vec![0.36],
                limited_by: "cache_lock".into(),
            },
            PlanRow {
                queries: vec!["remove stats_lock".into()],
                answer: answer(0.55, 0.5),
                alone: vec![0.005],
                limited_by: "stats_lock".into(),
            },
        ],
        curve: curve(),
        compared: vec![compared(16, 0.4), compared(4, 0.12)],
        lanes: lanes(),
        caveats: vec![Caveat::Drift(0.04)],
    }
}

fn lock_row(name: &str, waited_ns: f64, ulcp: UlcpCounts) -> LockRow {
    LockRow {
        name: name.into(),
        addr: 0x5555_0000,
        acquisitions: ulcp.acquisitions,
        contended: ulcp.acquisitions / 10,
        waited_ns,
        held_ns: waited_ns / 3.0,
        threads: 16,
        ulcp: Some(ulcp),
    }
}

fn regions() -> Vec<Region> {
    let texts = [
        (41, 0.02, false, "    pthread_mutex_lock(&cache_lock);"),
        (42, 0.31, false, "    uint64_t h = hash(key, len);"),
        (43, 0.22, true, "    struct entry *e = table[h & mask];"),
        (44, 0.0, false, "    if (!e) {"),
        (45, 0.4, true, "    e->last_used = now;"),
        (46, 0.03, false, "    char *copy = strdup(name);"),
        (47, 0.02, false, "    pthread_mutex_unlock(&cache_lock);"),
    ];
    let source = texts.map(|(line, share, shared, text)| SourceLine {
        file: "src/cache.c".into(),
        line,
        text: text.into(),
        share,
        shared,
    });
    vec![
        Region {
            lock: "cache_lock".into(),
            sites: vec![
                place("cache_get", "src/cache.c", 41),
                place("cache_get", "src/cache.c", 47),
            ],
            kind: "read-read",
            pairs: 98_000,
            p: 0.78,
            answer: answer(0.38, 0.33),
            query: "rwlock cache_lock".into(),
            fix: String::new(),
            source: source.to_vec(),
        },
        Region {
            lock: "stats_lock".into(),
            sites: vec![
                place("stats_hit", "src/stats.c", 17),
                place("stats_hit", "src/stats.c", 19),
                place("stats_print", "src/stats.c", 38),
                place("stats_print", "src/stats.c", 44),
            ],
            kind: "benign",
            pairs: 61_000,
            p: 0.19,
            answer: answer(0.01, 0.0),
            query: "remove stats_lock".into(),
            ..Region::default()
        },
        Region {
            lock: "queue_lock".into(),
            sites: vec![place("libq.so.1+0x1a40", "", 0)],
            kind: "null-lock",
            pairs: 5_000,
            p: 0.03,
            answer: answer(-0.01, 0.02),
            query: "remove queue_lock".into(),
            ..Region::default()
        },
    ]
}

fn curve() -> Vec<CurvePoint> {
    [
        (1, 0.3),
        (2, 0.55),
        (4, 0.82),
        (8, 1.0),
        (16, 1.05),
        (64, 1.04),
    ]
    .map(|(cpus, mid)| CurvePoint {
        cpus,
        threads: None,
        speedup: (mid * 0.9, mid, mid * 1.1),
        limited_by: (cpus > 4).then(|| ("cache_lock".into(), 0.97)),
        extrapolated: cpus > 8,
    })
    .to_vec()
}

/// The program with so many threads.
fn compared(threads: u32, t_pd: f64) -> Analyzed {
    let mut of = Analyzed {
        has_sets: true,
        input: format!("--threads {threads}"),
        program: "server".into(),
        threads,
        overall: Some(Overall {
            original_ns: 2.04e8,
            free_ns: 2.04e8 * (1.0 - t_pd),
            saved_ns: 1.6e9 * t_pd,
            t_pd,
            t_rw: 0.02,
        }),
        regions: Regions {
            regions: vec![CodeRegion::default()],
            pairs: vec![RegionPair {
                regions: (0, 0),
                locks: vec![0],
                cost: SpanCost {
                    pairs: 98_000,
                    saved_ns: 5e8,
                    by_class: [0.0, 5e8, 0.0, 0.0],
                },
                p: 0.78,
            }],
        },
        region_labels: vec!["cache_get() cache.c:41–47".into()],
        recorded_ns: 2.1e8,
        replays: vec![("orig, simulated".into(), vec![2.02e8, 2.04e8, 2.06e8])],
        ..Analyzed::default()
    };
    of.counts.acquisitions = 252_000;
    of.counts.all.read_read = 98_000;
    of.counts.all.true_contention = 58_400;
    of.counts.contended.read_read = 9_000;
    of.counts.contended.true_contention = 4_000;
    of
}

fn lanes() -> Vec<Lanes> {
    let turns = |title: &str, wait_ns: f64| {
        let (work, hold) = (30_000.0, 20_000.0);
        let lane = |thread: u32| {
            let mut at = 5_000.0 * f64::from(thread);
            let mut intervals = Vec::new();
            for _ in 0..20 {
                at += work;
                for (ns, doing) in [(wait_ns, Doing::Waits(0)), (hold, Doing::Section(0))] {
                    if ns > 0.0 {
                        intervals.push((at, at + ns, doing));
                    }
                    at += ns;
                }
            }
            intervals.push((at, at + 10_000.0, Doing::Off));
            Lane {
                thread: format!("worker-{thread}"),
                intervals,
            }
        };
        Lanes {
            title: title.into(),
            length_ns: 20.0 * (work + wait_ns + hold) + 25_000.0,
            threads: (0..4).map(lane).collect(),
        }
    };
    vec![
        turns("recorded", 60_000.0),
        turns("without unnecessary contention", 0.0),
    ]
}

/// Neither replay gives the recorded run back.
pub fn refused() -> Analysis {
    let mut analysis = rich();
    analysis.baselines = baselines(2.1e8, 0.61, 1.4);
    let why = analysis.baselines.iter();
    let refused: Vec<_> = why
        .filter_map(|b| Some((b.method, b.refused.clone()?)))
        .collect();
    let no_answer = Answer {
        by_method: Vec::new(),
        refused,
    };
    for row in &mut analysis.what_ifs {
        row.answer = no_answer.clone();
    }
    for region in &mut analysis.regions {
        region.answer = no_answer.clone();
    }
    analysis.ulcp_free = None;
    analysis.plan.clear();
    analysis.curve.clear();
    analysis
}

/// One run: no read and write sets. The native replay is refused.
pub fn sets_unknown() -> Analysis {
    let full = rich();
    let mut analysis = Analysis {
        ulcp: Ulcp {
            counts: counts(252_000, [0, 0, 0, 0, 0, 228_400]),
            unknown_because: Some("the recording has timing only".into()),
            ..Ulcp::default()
        },
        baselines: baselines(2.1e8, 0.97, 1.4),
        regions: Vec::new(),
        ulcp_free: None,
        plan: Vec::new(),
        curve: Vec::new(),
        compared: Vec::new(),
        lanes: full.lanes[..1].to_vec(),
        caveats: Vec::new(),
        ..full
    };
    let why = analysis.baselines[1].refused.clone().unwrap_or_default();
    for row in &mut analysis.what_ifs {
        row.verified = None;
        row.answer.by_method.truncate(1);
        row.answer.refused = vec![(ReplayNative, why.clone())];
    }
    for lock in &mut analysis.locks {
        lock.ulcp = None;
    }
    analysis
}

/// A program of one thread.
pub fn one_thread() -> Analysis {
    Analysis {
        command: vec!["./single".into()],
        pid: 7,
        recorded: Recorded {
            wall_ns: 5e8,
            replayed_ns: 5e8,
            windows: (1, 1),
            events: 2_000,
            sections: 1_000,
            threads: 1,
            cpus: 8,
            ..Recorded::default()
        },
        ..Analysis::default()
    }
}

/// Threads that take no lock.
pub fn no_lock() -> Analysis {
    let mut analysis = one_thread();
    analysis.command = vec!["./numbers".into()];
    analysis.recorded.threads = 8;
    analysis.recorded.events = 16;
    analysis.recorded.sections = 0;
    analysis
}

/// The two replays contradict each other.
pub fn disputed() -> Analysis {
    let mut analysis = rich();
    for row in &mut analysis.what_ifs {
        if let Some((_, saved)) = row.answer.by_method.last_mut() {
            let mid = (saved.mid + 0.4).min(0.95);
            *saved = Saved {
                low: mid - 0.1,
                mid,
                high: 1.0,
            };
        }
    }
    analysis.regions[0].answer = analysis.what_ifs[0].answer.clone();
    analysis
}

/// Much unnecessary contention at a lock that is no bottleneck.
pub fn worthless() -> Analysis {
    let mut analysis = rich();
    analysis.regions.remove(0);
    analysis.regions[0].p = 0.9;
    analysis.ulcp_free = Some(answer(0.02, 0.0));
    analysis
        .what_ifs
        .retain(|row| !row.query.contains("cache_lock"));
    analysis.plan.clear();
    analysis
}

/// Names that try to command a terminal or a browser.
pub fn hostile() -> Analysis {
    let name = "\u{1b}[31m</script><script>window.harmed=1</script><img src=x>\"'&amp;\u{202e}";
    let mut analysis = rich();
    analysis.command = vec![name.into()];
    for lock in &mut analysis.locks {
        lock.name = name.into();
    }
    for region in &mut analysis.regions {
        region.lock = name.into();
        for site in &mut region.sites {
            *site = place(name, name, 3);
        }
        for line in &mut region.source {
            line.text = name.into();
            line.file = name.into();
        }
    }
    for row in &mut analysis.what_ifs {
        row.query = format!("remove {name}");
        row.title = name.into();
    }
    for lanes in &mut analysis.lanes {
        lanes.threads[0].thread = name.into();
    }
    analysis.caveats.push(Caveat::Other(name.into()));
    analysis
}
