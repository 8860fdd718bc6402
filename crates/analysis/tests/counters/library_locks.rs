//! Locks that the C++ library takes for itself.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::Op;
use convoy_testkit::{ms, us, ProfileBuilder};

/// What is advised for a lock that four threads wait for in this function, which `field()` calls.
fn causes(function: &str) -> Vec<(&'static str, String)> {
    let mut b = ProfileBuilder::new("export");
    b.cpus(2).wall(ms(1000));
    let library = b.module("/usr/lib/libstdc++.so.6");
    let inner = b.frame_in(library, function, "", 0);
    let outer = b.frame("field", "export.cpp", 22);
    let at = b.stack(&[inner, outer]);
    let lock = b.mutex("lock");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let thread = b.thread("w").start("work", "export.cpp", 1);
            thread.lives(0, ms(1000)).cpu(ms(300)).id()
        })
        .collect();
    for &t in &threads {
        let waits = b.op(t, lock, at, Op::MutexLock, 1500);
        let waits = waits.waits(1500, ms(500)).hold(us(1));
        drop(waits.held_by(threads[0], inner, at));
    }
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let found = analysis.findings.into_iter();
    let mut found = found.filter(|f| f.id == FindingId::ContendedLock);
    let causes = found.next().expect("said").causes;
    causes.into_iter().map(|c| (c.id, c.fix)).collect()
}

#[test]
fn a_lock_of_the_librarys_own_cannot_be_split() {
    let own = causes("std::locale::locale");
    let [(id, fix)] = own.as_slice() else {
        panic!("{own:?}");
    };
    assert_eq!(*id, "library-locale-lock");
    assert!(
        fix.contains("field()") && fix.contains("std::to_chars"),
        "{fix}"
    );
}

#[test]
fn a_lock_of_the_program_that_the_library_waits_with_is_not_its_own() {
    let ids: Vec<_> = causes("std::condition_variable::wait")
        .into_iter()
        .map(|c| c.0)
        .collect();
    assert!(ids.contains(&"too-many-data-under-one-lock"), "{ids:?}");
}
