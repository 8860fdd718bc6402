//! Whatever the file holds: no panic, the same again, nothing of nothing.

use convoy_analysis::arbitration::{cross_check, merge};
use convoy_analysis::scheduler::{analyze, Analysis};
use convoy_analysis::Params;
use convoy_model::Model;
use convoy_profile::{
    Bin, Bins, CodeFrom, Lost, OffCpu, OffReason, Sched, SchedThread, Slice, SpinLoop, ThreadRef,
    Wake, Waker,
};
use convoy_testkit::ProfileBuilder;

fn build(sched: Option<Sched>) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.thread("w").id();
    p.site("f", "a.c", 1);
    let mut profile = p.build();
    profile.sched = sched;
    Model::build(profile)
}

#[test]
fn nothing_comes_of_nothing() {
    let t = Params::default();
    let none = build(None);
    assert_eq!(analyze(&none, &t), Analysis::default());
    assert_eq!(
        merge(&none, &Analysis::default(), vec![], vec![]),
        (vec![], vec![])
    );
    let empty = analyze(&build(Some(Sched::default())), &t);
    assert!(empty.findings.is_empty() && empty.dismissed.is_empty());
    assert_eq!(empty.verdict, "No thread did any work to speak of.");
    assert_eq!(empty.quality.cm_check, 0.0);
}

/// Random rows: numbers out of all bounds, indices that lead nowhere.
#[test]
fn nonsense_is_survived() {
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let r = seed >> 33;
        match r % 5 {
            0 => 0,
            1 => r % 7,
            2 => u64::MAX - r % 3,
            _ => r,
        }
    };
    for _ in 0..300 {
        let mut r = || random();
        let thread = |r: &mut dyn FnMut() -> u64| ThreadRef {
            process: (r() % 3) as u32,
            thread: (r() % 3) as u32,
        };
        let hist = |r: &mut dyn FnMut() -> u64| (0..r() % 40).map(|_| r()).collect::<Vec<u64>>();
        let mut sched = Sched {
            start_ns: r(),
            end_ns: r(),
            events: r(),
            active: hist(&mut r),
            working: hist(&mut r),
            running: hist(&mut r),
            ..Sched::default()
        };
        for _ in 0..6 {
            sched.threads.push(SchedThread {
                thread: thread(&mut r),
                start_ns: r(),
                end_ns: r(),
                running_ns: r(),
                delayed_ns: r(),
                preempted_ns: r(),
                spinning_ns: r(),
                blocked_ns: r(),
                cm_ns: r() as f64,
                preemptions: r(),
                ..SchedThread::default()
            });
            sched.slices.push(Slice {
                thread: thread(&mut r),
                stack: (r() % 3) as u32,
                from: CodeFrom::Sample,
                spin: (r() % 2 == 0).then(|| (r() % 3) as u32),
                n: r(),
                active_ns: r(),
                running_ns: r(),
                cm_ns: f64::from_bits(r()),
                by_active: hist(&mut r).into(),
                by_working: hist(&mut r).into(),
                ..Slice::default()
            });
            sched.offs.push(OffCpu {
                thread: thread(&mut r),
                stack: (r() % 3) as u32,
                reason: [OffReason::Futex, OffReason::Sync, OffReason::PageFault]
                    [(r() % 3) as usize],
                address: r(),
                n: r(),
                sum_ns: r(),
                by_active: hist(&mut r).into(),
                by_working: hist(&mut r).into(),
                ..OffCpu::default()
            });
            sched.wakes.push(Wake {
                off: (r() % 8) as u32,
                waker: Waker::Thread(thread(&mut r), (r() % 3) as u32),
                n: r(),
                wait_ns: r(),
                waker_off: vec![((r() % 8) as u32, r()), ((r() % 8) as u32, r())],
                ..Wake::default()
            });
            sched.loops.push(SpinLoop {
                process: (r() % 3) as u32,
                frame: Some((r() % 5) as u32),
                ..SpinLoop::default()
            });
            sched.lost.push(Lost {
                from_ns: r(),
                to_ns: r(),
                events: r(),
                stacks: r() % 2 == 0,
            });
        }
        sched.bins = Bins {
            width_ns: r(),
            bins: vec![
                Bin {
                    active_ns: r(),
                    top: Some((r() % 9) as u32),
                    ..Bin::default()
                };
                3
            ],
        };
        let model = build(Some(sched));
        for n_min in [None, Some(f64::NAN), Some(-1.0), Some(1e300), Some(2.0)] {
            let t = Params {
                n_min,
                top: (r() % 30) as usize,
                ..Params::default()
            };
            let a = analyze(&model, &t);
            for f in a.findings.iter().chain(&a.dismissed) {
                let g = &f.gain;
                assert!(
                    1.0 <= g.low && g.low <= g.mid && g.mid <= g.high && g.mid <= 110.1,
                    "{f:?}"
                );
                assert!(f.evidence.iter().all(|e| e.value.is_finite()), "{f:?}");
            }
            // NaN compares with nothing, but its text does.
            assert_eq!(format!("{a:?}"), format!("{:?}", analyze(&model, &t)));
            let mut found = a.findings.clone();
            cross_check(&model, &a, &mut found);
            merge(&model, &a, Vec::new(), a.dismissed.clone());
            let (found, _) = merge(&model, &a, found, Vec::new());
            assert!(found.len() >= a.findings.len());
        }
    }
}
