//! Locks in memory that several processes share.
use convoy_analysis::counters::{analyze, Analysis};
use convoy_analysis::Params;
use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::{ObjectKind, Op};
use convoy_testkit::{ms, us, ProfileBuilder};

/// Contended for by its only thread, or by that and another one of the same process.
#[derive(Clone, Copy, PartialEq)]
enum Users {
    One,
    Two,
}

/// Forked workers that take a lock at this address, waiting for it for 600 of 1000 ms.
fn worker(b: &mut ProfileBuilder, program: &str, addr: u64, users: Users, line: u32) {
    b.process(program);
    let threads = match users {
        Users::One => 1,
        Users::Two => 2,
    };
    let at = b.site("add_sample", "app.c", line);
    let lock = b.object(ObjectKind::Mutex).addr(addr).id();
    for _ in 0..threads {
        let t = b.thread("w").start("work", "app.c", 1).lives(0, ms(1000));
        let t = t.cpu(ms(390)).id();
        b.acquires(t, lock, at, 6_000).hold(us(10));
        b.contended(t, lock, at, 4_000, ms(600)).hold(us(10));
    }
}

fn analysis(build: impl Fn(&mut ProfileBuilder)) -> Analysis {
    let mut b = ProfileBuilder::new("start");
    b.cpus(4).wall(ms(1000));
    build(&mut b);
    analyze(&Model::build(b.build()), &Params::default())
}

fn locks(a: &Analysis) -> Vec<&Finding> {
    let all = a.findings.iter().chain(&a.dismissed);
    all.filter(|f| f.id == FindingId::ContendedLock).collect()
}

fn sharing(f: &Finding) -> Option<f64> {
    let said = f.evidence.iter().find(|e| e.key == "sharing_processes");
    said.map(|e| e.value)
}

const SHARED: u64 = 0x7fff_1000_0000;

#[test]
fn one_lock_of_three_processes_is_one_finding_about_all_of_them() {
    let a = analysis(|b| (0..3).for_each(|_| worker(b, "app", SHARED, Users::One, 10)));
    let found = locks(&a);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(sharing(found[0]), Some(3.0));
    assert!(found[0].title.contains("3 threads"), "{}", found[0].title);
    // They wait for 0.6 of their lives, and there are processors for all of them.
    assert!(found[0].gain.mid > 1.4, "{:?}", found[0].gain);
}

#[test]
fn memory_that_each_process_maps_for_itself_is_known_by_the_place() {
    let a = analysis(|b| {
        worker(b, "app", SHARED, Users::One, 10);
        worker(b, "app", SHARED + 0x10_0000, Users::One, 10);
    });
    let found = locks(&a);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(sharing(found[0]), Some(2.0));
}

#[test]
fn locks_that_have_their_waiters_in_their_own_process_are_not_shared() {
    for build in [
        // A mutex that was there before the fork is another one in each process.
        |b: &mut ProfileBuilder| (0..2).for_each(|_| worker(b, "app", SHARED, Users::Two, 10)),
        |b: &mut ProfileBuilder| {
            worker(b, "app", SHARED, Users::One, 10);
            worker(b, "other", SHARED, Users::One, 10);
        },
        |b: &mut ProfileBuilder| {
            worker(b, "app", SHARED, Users::One, 10);
            worker(b, "app", SHARED + 0x10_0000, Users::One, 20);
        },
    ] {
        let a = analysis(build);
        let found = locks(&a);
        assert!(!found.is_empty());
        assert!(found.iter().all(|f| sharing(f).is_none()), "{found:?}");
    }
}

/// Forked workers that take a semaphore, waiting for it for 600 of 1000 ms, and post it so many times.
fn semaphore(b: &mut ProfileBuilder, posted: u64) {
    b.process("app");
    let (take, give) = (b.site("add", "app.c", 10), b.site("add", "app.c", 12));
    let token = b.object(ObjectKind::Sem).addr(SHARED).id();
    let t = b.thread("w").start("work", "app.c", 1).lives(0, ms(1000));
    let t = t.cpu(ms(390)).id();
    b.op(t, token, take, Op::SemWait, 6_000)
        .waits(4_000, ms(600));
    b.op(t, token, give, Op::SemPost, posted);
}

#[test]
fn a_semaphore_that_each_process_takes_and_posts_is_a_lock_of_all() {
    let told = |posted| {
        let a = analysis(|b| (0..3).for_each(|_| semaphore(b, posted)));
        let all = a.findings.into_iter().chain(a.dismissed);
        all.filter(|f| f.id == FindingId::SmallPool)
            .collect::<Vec<_>>()
    };
    let found = told(6_000);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(sharing(&found[0]), Some(3.0));
    assert!(found[0].title.contains("3 threads"), "{}", found[0].title);
    assert!(found[0].gain.mid > 1.3, "{:?}", found[0].gain);
    // Who is only waited for is no lock: another process gives it something to do.
    assert!(told(0).is_empty());
}
