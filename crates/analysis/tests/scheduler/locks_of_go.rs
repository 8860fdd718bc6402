//! Go: what a lock costs that is fought for on the processor.

use convoy_model::finding::{Finding, Gain};
use convoy_model::FindingId;
use convoy_profile::SpinKind;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, go_stack, model, workers};

/// What is said of two threads that run goroutines that take a lock; of each 4 ms, one is in these functions.
fn said(at_the_lock: &[&str], spins: bool) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let idle = go_stack(&mut p, &["runtime.stopm", "runtime.mstart"]);
    let unlock = ["runtime.readyWithTime.goready.func1", "runtime.mstart"];
    let unlock = go_stack(&mut p, &unlock);
    let work = go_stack(&mut p, &["main.render", "runtime.goexit"]);
    let locks = go_stack(&mut p, at_the_lock);
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    let spin = s.spin_loop(SpinKind::Pause, None);
    for at in 0..600 {
        let (runs, waits) = (ids[at % 2], ids[1 - at % 2]);
        let ready = Wait::futex(idle, 0x100).woken_by(runs, unlock);
        for id in [runs, waits] {
            s.runs(id, work, ms(2));
            match spins {
                true => s.spins(id, locks, spin, ms(1)),
                false => s.runs(id, locks, ms(1)),
            };
        }
        s.runs(runs, work, ms(1)).waits(waits, ready, ms(1));
    }
    let a = analysis(&model(p, s));
    a.findings.into_iter().chain(a.dismissed).collect()
}

fn gain(at_the_lock: &[&str], spins: bool) -> Gain {
    let said = said(at_the_lock, spins).into_iter();
    let mut locks = said.filter(|f| f.id == FindingId::ContendedFutex);
    locks.next().expect("said").gain
}

#[test]
fn time_in_the_functions_of_a_lock_goes_with_it() {
    let slow = "internal/sync.(*Mutex).lockSlow";
    let elsewhere = gain(&["main.parse", "runtime.goexit"], false);
    let there = gain(&[slow, "main.render", "runtime.goexit"], false);
    let spinning = ["runtime.procyieldAsm", slow, "runtime.goexit"];
    let spinning = gain(&spinning, true);
    for more in [&there, &spinning] {
        assert!(more.mid > elsewhere.mid + 0.2, "{more:?} {elsewhere:?}");
        assert!(more.high > elsewhere.high + 0.3, "{more:?} {elsewhere:?}");
    }
    // 3.5 of the 8 ms that the processors have in each turn are work.
    assert!(
        there.high < 2.6 && spinning.high < 2.6,
        "{there:?} {spinning:?}"
    );
}

#[test]
fn the_loop_of_a_lock_is_not_said_again() {
    let spins = |functions: &[&str]| {
        let said = said(functions, true);
        said.iter().any(|f| f.id == FindingId::BusyWaiting)
    };
    let slow = "internal/sync.(*Mutex).lockSlow";
    assert!(!spins(&["runtime.procyieldAsm", slow, "runtime.goexit"]));
    assert!(spins(&["main.poll", "runtime.goexit"]));
}
