//! Verdicts of recordings that did not see everything: nothing is ruled out that was not seen.
use convoy_analysis::counters::{analyze, Analysis};
use convoy_analysis::Params;
use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::{Collector, Op, Profile};
use convoy_testkit::sched::Schedule;
use convoy_testkit::{ms, s, us, ProfileBuilder};

fn judged(profile: Profile) -> Analysis {
    analyze(&Model::build(profile), &Params::default())
}

/// Four threads on two CPUs for a second, each with so much CPU time, `sys` of it in the kernel.
fn four_threads(cpu: u64, sys: u64) -> ProfileBuilder {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).wall(s(1));
    for _ in 0..4 {
        let rest = s(1) - cpu;
        p.thread("worker").cpu(cpu).sys(sys).run_delay(rest);
    }
    p.edit_thread(0).lives(0, ms(1)).cpu(ms(1));
    p
}

fn keys(analysis: &Analysis) -> Vec<&str> {
    analysis.unexplained.iter().map(|e| e.key).collect()
}

/// Whatever it says, locks are not ruled out.
fn assert_open(verdict: &str) {
    for ruled_out in [
        "not what limits",
        "No lock was used",
        "CPU bound",
        "it is parallel",
    ] {
        assert!(!verdict.contains(ruled_out), "{verdict}");
    }
}

#[test]
fn kernel_time_without_a_lock_is_not_explained() {
    let analysis = judged(four_threads(ms(500), ms(200)).build());
    assert_eq!(keys(&analysis), ["kernel_cpu_ratio"]);
    assert_eq!(
        analysis.verdict,
        "Not explained by what was seen: 40 % of the CPU time in the kernel. Run with sudo to see the cause."
    );
}

#[test]
fn context_switches_beyond_the_waits_are_not_explained() {
    let mut p = four_threads(ms(450), 0);
    let lock = p.mutex("m");
    let at = p.site("f", "f.c", 1);
    p.contended(1, lock, at, 100, us(10));
    let mut profile = p.build();
    for thread in &mut profile.processes[0].threads[1..] {
        thread.voluntary_switches = 3_000;
    }
    let analysis = judged(profile.clone());
    assert_eq!(keys(&analysis), ["context_switches_hz"]);
    assert!(
        analysis.verdict.contains("12 k context switches a second"),
        "{}",
        analysis.verdict
    );
    assert_open(&analysis.verdict);
    // Each of them was a wait for a lock that was seen.
    for detail in &mut profile.processes[0].details {
        if let Some(wait) = &mut detail.wait {
            wait.n = 12_000;
        }
    }
    assert!(keys(&judged(profile)).is_empty());
}

#[test]
fn time_blocked_outside_of_waits_is_not_explained() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).wall(s(1));
    for _ in 0..4 {
        p.thread("worker").cpu(ms(400)).run_delay(ms(400));
    }
    p.edit_thread(0).lives(0, ms(1)).cpu(ms(1));
    let analysis = judged(p.build());
    assert_eq!(keys(&analysis), ["blocked_ratio"]);
    assert_open(&analysis.verdict);
}

#[test]
fn full_cpus_may_spin() {
    let analysis = judged(four_threads(ms(495), 0).build());
    assert!(analysis.unexplained.is_empty());
    assert_open(&analysis.verdict);
    assert_eq!(
        analysis.verdict,
        "No lock that was seen limits this program: its 2 CPUs were busy 99 % of the time. Spinning, false sharing \
         and locks inside libc look like work: run with sudo."
    );
}

#[test]
fn remedy_is_an_option_where_the_user_did_not_ask() {
    let mut p = four_threads(ms(200), 0);
    p.meta().collectors.push(Collector {
        name: "scheduler".into(),
        active: false,
        lost: "who waits".into(),
        enable: "--scheduler auto".into(),
    });
    let verdict = judged(p.build()).verdict;
    assert!(
        verdict.ends_with(": run with --scheduler auto."),
        "{verdict}"
    );
    assert_open(&verdict);
}

#[test]
fn acquisitions_that_are_not_seen_are_not_counted_as_none() {
    let mut p = four_threads(ms(300), 0);
    let word = p.futex("queue");
    let at = p.site("pop", "pool.rs", 7);
    for thread in 1..=4 {
        p.op(thread, word, at, Op::FutexWait, 5).waits(5, us(50));
    }
    let verdict = judged(p.build()).verdict;
    assert!(!verdict.contains("acquisitions"), "{verdict}");
    assert_open(&verdict);
}

#[test]
fn ebpf_leaves_nothing_unexplained() {
    let mut p = four_threads(ms(500), ms(200));
    let at = p.site("f", "f.c", 1);
    let mut profile = {
        let mut sched = Schedule::new();
        for thread in 1..=4 {
            sched.runs(thread, at, ms(500));
        }
        let mut profile = p.build();
        sched.put_into(&mut profile);
        profile
    };
    profile.meta.collectors.clear();
    let analysis = judged(profile);
    assert!(analysis.sources.see_reasons());
    assert!(
        analysis.unexplained.is_empty(),
        "{:?}",
        analysis.unexplained
    );
    assert!(
        !analysis.verdict.contains("not seen"),
        "{}",
        analysis.verdict
    );
}

/// Eight threads on two CPUs that try for one lock, of which nearly every try fails; taken off the CPU every `slice`.
fn spinners(slice_ns: u64) -> Analysis {
    let mut p = ProfileBuilder::new("barrier");
    p.cpus(2).wall(s(1));
    let lock = p.mutex("gate");
    let at = p.site("arrive", "barrier.c", 7);
    for _ in 0..8 {
        let t = p.thread("worker").cpu(ms(248)).run_delay(ms(752)).id();
        p.trylocks(t, lock, at, 2_000_000, 1_980_000).busy(ms(200));
    }
    p.edit_thread(0).lives(0, ms(1)).cpu(ms(1));
    let mut profile = p.build();
    for thread in &mut profile.processes[0].threads[1..] {
        thread.involuntary_switches = ms(248) / slice_ns;
    }
    judged(profile)
}

fn spin(analysis: &Analysis) -> &Finding {
    let mut found = analysis.findings.iter();
    found.find(|f| f.id == FindingId::TrylockSpin).unwrap()
}

#[test]
fn spinners_that_crowd_the_cpus_gain_without_a_bound() {
    let analysis = spinners(ms(4));
    let gain = &spin(&analysis).gain;
    assert!(gain.mid > 3.0 && gain.mid <= 4.0, "{gain:?}");
    assert!(gain.high.is_infinite());
    assert!(
        analysis
            .verdict
            .starts_with("gate: 8 threads spin on trylock")
            && analysis.verdict.ends_with("(1.00x or more)."),
        "{}",
        analysis.verdict
    );
}

#[test]
fn spinners_that_yield_keep_nobody_from_running() {
    let analysis = spinners(us(100));
    assert!(spin(&analysis).gain.high.is_finite());
}

#[test]
fn short_runs_are_not_judged() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).wall(ms(15));
    let (lock, at) = (p.mutex("m"), p.site("f", "f.c", 1));
    for _ in 0..2 {
        let t = p.thread("worker").cpu(ms(5)).id();
        p.contended(t, lock, at, 500, ms(9));
    }
    let analysis = judged(p.build());
    assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
    assert!(!analysis.dismissed.is_empty());
    assert_eq!(
        analysis.verdict,
        "The run took 15 ms: too short to judge. Give it work for 20 ms at least."
    );
}
