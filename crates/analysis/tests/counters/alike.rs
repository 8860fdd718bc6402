//! Processes of one program with the same bottleneck.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_testkit::{ms, us, ProfileBuilder};

/// A process whose four threads wait for so many locks that are taken at places of their own.
fn contended(b: &mut ProfileBuilder, program: &str, locks: usize) {
    b.process(program);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let t = b.thread("w").start("work", "app.c", 1).lives(0, ms(1000));
            t.cpu(ms(300)).id()
        })
        .collect();
    for lock in 0..locks {
        let at = b.site(["enter", "append"][lock], "app.c", 10 + lock as u32);
        let object = b.mutex("m");
        for &t in &threads {
            b.acquires(t, object, at, 5_000).hold(us(25));
            b.contended(t, object, at, 4_000, ms(300))
                .held_by(threads[0], at, at)
                .hold(us(25));
        }
    }
}

fn said(build: impl Fn(&mut ProfileBuilder)) -> Vec<Option<f64>> {
    let mut b = ProfileBuilder::new("start");
    b.cpus(4).wall(ms(1000));
    build(&mut b);
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let locks = analysis
        .findings
        .iter()
        .filter(|f| f.id == FindingId::ContendedLock);
    let others = locks.map(|f| f.evidence.iter().find(|e| e.key == "other_processes"));
    others.map(|e| e.map(|e| e.value)).collect()
}

#[test]
fn what_forked_workers_have_in_common_is_said_once() {
    let three = said(|b| (0..3).for_each(|_| contended(b, "app", 1)));
    assert_eq!(three, [Some(2.0)]);
}

#[test]
fn two_locks_of_one_process_are_two_findings() {
    assert_eq!(said(|b| contended(b, "app", 2)), [None, None]);
    let both = said(|b| (0..2).for_each(|_| contended(b, "app", 2)));
    assert_eq!(both, [Some(1.0), Some(1.0)]);
}

#[test]
fn other_programs_have_findings_of_their_own() {
    let two = said(|b| {
        ["app", "other"]
            .iter()
            .for_each(|name| contended(b, name, 1))
    });
    assert_eq!(two, [None, None]);
}

#[test]
fn a_fix_is_for_all_of_them_and_so_are_the_cpus() {
    let gain = |processes: usize| {
        let mut b = ProfileBuilder::new("start");
        b.cpus(4).wall(ms(1000));
        (0..processes).for_each(|_| contended(&mut b, "app", 1));
        let analysis = analyze(&Model::build(b.build()), &Params::default());
        let lock = analysis
            .findings
            .into_iter()
            .find(|f| f.id == FindingId::ContendedLock);
        lock.map_or((1.0, 1.0), |f| (f.gain.mid, f.gain.high))
    };
    let (mid, high) = gain(1);
    assert!(mid > 1.3 && high > 1.5, "{mid} {high}");
    // Three have 3.6 of the four CPUs: 1.11 times as much is all there is.
    let (mid, high) = gain(3);
    assert!(mid < 1.12 && high < 1.15, "{mid} {high}");
}
