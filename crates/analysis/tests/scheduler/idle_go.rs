//! Go: where threads wait for the network or a timer for long, there may be nothing to do. What others then seem to wait for
//! is no loss.

use convoy_model::{FindingId, Model, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, go_stack, ids, model, workers};

/// Waits for the network: so many, so long each, and who ends them.
#[derive(Clone, Copy)]
struct Polls {
    n: u64,
    each: u64,
    ended_by: EndedBy,
    threads: u64,
    reason: OffReason,
}

#[derive(Clone, Copy)]
enum EndedBy {
    Network,
    OwnThread,
    OtherProcess,
}

/// 20 times 6 ms of a run of 1200 ms, until something comes.
const IDLE: Polls = Polls {
    n: 20,
    each: ms(6),
    ended_by: EndedBy::Network,
    threads: 1,
    reason: OffReason::Poll,
};

impl Polls {
    /// Adds them to the process of Go, and another process that may end them.
    fn add(self, p: &mut ProfileBuilder, s: &mut Schedule, waker: u32) {
        let poll = p.site("runtime.netpoll", "netpoll.go", 1);
        let wait = Wait::new(self.reason, poll);
        let wait = match self.ended_by {
            EndedBy::Network => wait,
            EndedBy::OwnThread => wait.woken_by(waker, poll),
            EndedBy::OtherProcess => wait.woken_from(1, 0, 0),
        };
        for t in workers(p, self.threads as usize) {
            for _ in 0..self.n {
                s.waits(t, wait, self.each);
            }
        }
        p.process("client");
    }
}

/// Two threads run goroutines in turn that have a lock, for 1200 ms. Who lets it go wakes the other thread for one that waits.
fn in_turns(polls: Polls) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let idle = go_stack(&mut p, &["runtime.stopm", "runtime.mstart"]);
    let unlock = ["runtime.readyWithTime.goready.func1", "runtime.mstart"];
    let unlock = go_stack(&mut p, &unlock);
    let work = go_stack(&mut p, &["main.render", "runtime.goexit"]);
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for at in 0..600 {
        let (runs, waits) = (ids[at % 2], ids[1 - at % 2]);
        let ready = Wait::futex(idle, 0x100).woken_by(runs, unlock);
        s.runs(runs, work, ms(2)).waits(waits, ready, ms(2));
    }
    polls.add(&mut p, &mut s, ids[0]);
    model(p, s)
}

/// What a lock that goroutines wait for promises; nothing where it may be that nobody has anything to do.
fn promised(polls: Polls) -> bool {
    let a = analysis(&in_turns(polls));
    let mut all = a.findings.into_iter().chain(a.dismissed);
    let found = all
        .find(|f| f.id == FindingId::ContendedFutex)
        .expect("said");
    assert!(found.gain.high > 1.5, "the bound stays: {:?}", found.gain);
    assert!(found.gain.mid == 1.0 || found.gain.mid > 1.3, "{found:?}");
    found.gain.mid > 1.0
}

#[test]
fn a_lock_of_goroutines_promises_nothing_where_there_may_be_nothing_to_do() {
    assert!(!promised(IDLE));
}

#[test]
fn few_and_short_waits_for_the_network_leave_enough_to_do() {
    let short = Polls {
        each: ms(5) + 900_000,
        ..IDLE
    };
    let few = Polls {
        n: 19,
        each: ms(10),
        ..IDLE
    };
    // A tenth of the run is what one of them waits, not all of them together.
    let many = Polls {
        each: ms(5),
        threads: 3,
        ..IDLE
    };
    for polls in [short, few, many] {
        assert!(promised(polls));
    }
}

#[test]
fn who_looks_for_work_until_another_thread_has_some_is_not_idle() {
    let ended_by = |ended_by| Polls { ended_by, ..IDLE };
    assert!(promised(ended_by(EndedBy::OwnThread)));
    assert!(!promised(ended_by(EndedBy::OtherProcess)));
    let file = Polls {
        reason: OffReason::File,
        ..IDLE
    };
    assert!(promised(file));
}

/// One thread merges for 50 ms what two have done in 10 ms before.
fn alone(polls: Polls) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let exit = p.frame("runtime.goexit", "asm.s", 1);
    let mut stack = |function| {
        let frame = p.frame(function, "m.go", 4);
        p.stack(&[frame, exit])
    };
    let [merge, work, park] = ["main.merge", "main.work", "runtime.futex"].map(&mut stack);
    let ids_of = workers(&mut p, 2);
    let (main, other) = (ids_of[0], ids_of[1]);
    let mut s = Schedule::new();
    let waits = Wait::futex(park, 0x10).woken_by(main, merge);
    for _ in 0..20 {
        s.runs(main, work, ms(10)).runs(other, work, ms(10));
        s.runs(main, merge, ms(50)).waits(other, waits, ms(50));
    }
    polls.add(&mut p, &mut s, main);
    ids(&analysis(&model(p, s)))
}

#[test]
fn a_goroutine_that_works_alone_may_be_all_there_is_to_do() {
    let own = Polls {
        ended_by: EndedBy::OwnThread,
        ..IDLE
    };
    assert_eq!(alone(own), ["serial-code"]);
    assert_eq!(alone(IDLE), [""; 0]);
}
