//! Locks that a program has split already.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::Op;
use convoy_testkit::{ms, s, us, ProfileBuilder};

/// Two threads of a second on two processors, each of which takes so many locks at one place 800 000 times together and waits for them
/// 160 ms in all, so long each time.
fn shards(locks: u64, each_ns: u64) -> Finding {
    let mut p = ProfileBuilder::new("dedup");
    p.cpus(2).wall(s(1));
    let put = p.frame("put", "dedup.cpp", 18);
    let at = p.stack(&[put]);
    let locks: Vec<u32> = (0..locks)
        .map(|ix| p.mutex(&format!("shard[{ix}]")))
        .collect();
    for _ in 0..2 {
        let thread = p.thread("worker").start("worker", "dedup.cpp", 1);
        let t = thread.cpu(ms(840)).run_delay(0).id();
        let n = locks.len() as u64;
        for &lock in &locks {
            let waits = ms(160) / n / each_ns;
            p.op(t, lock, at, Op::MutexLock, 800_000 / n)
                .waits(waits, waits * each_ns)
                .hold(us(1) / 4);
        }
    }
    let found = analyze(&Model::build(p.build()), &Params::default());
    let mut all = found.findings.into_iter().chain(found.dismissed);
    let lock = all.find(|f| f.id == FindingId::ContendedLock);
    lock.expect("a contended lock")
}

/// Another one of 8 is taken every 1.25 us: after 10 us each thread has come to the one that somebody keeps.
#[test]
fn more_locks_do_not_take_away_waits_for_one_that_is_kept() {
    let (met, kept) = (shards(8, us(5)), shards(8, us(1000)));
    assert!(met.gain.mid > 1.15, "{met:?}");
    assert!(kept.gain.mid < 1.05, "{kept:?}");
    assert!(kept.gain.high > 1.15, "{kept:?}");
    let says = |f: &Finding| f.caveats.iter().any(|c| c.contains("however many locks"));
    assert!(says(&kept) && !says(&met));
}

#[test]
fn one_lock_can_be_split() {
    let kept = shards(1, us(1000));
    assert!(kept.gain.mid > 1.15, "{kept:?}");
}
