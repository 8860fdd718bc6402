//! Processes: fork, exec, exit, and ids that come again.

use convoy_profile::{OffReason, Waker};
use convoy_sched::{Event, Output, State, WakerIs};

use crate::laws::check;
use crate::tell::{account, at, block, by, exit, fork, init, run, sample, wake, OPTIONS};

fn fork_process(ts: u64, pid: u32, parent: u32) -> Event {
    Event::Fork {
        ts,
        tid: pid,
        pid,
        parent,
    }
}

fn exec(ts: u64, pid: u32, old_tid: u32) -> Event {
    Event::Exec { ts, pid, old_tid }
}

fn start(ts: u64, tid: u32) -> [Event; 2] {
    [wake(ts, tid, WakerIs::Unknown), run(ts, tid)]
}

fn told(out: &Output) -> Vec<(u32, Option<u32>, u32, u64, u64, bool)> {
    let images = out.images.iter();
    images
        .map(|i| (i.pid, i.ppid, i.exec, i.start_ns, i.end_ns, i.ended))
        .collect()
}

#[test]
fn an_exec_ends_an_image_with_all_its_threads_and_begins_another() {
    let mut events = vec![init(0, 1, State::Running)];
    events.push(fork_process(10, 20, 1));
    events.extend(start(10, 20));
    events.push(Event::Fork {
        ts: 20,
        tid: 21,
        pid: 20,
        parent: 20,
    });
    events.extend(start(20, 21));
    events.push(sample(25, 20, 7, None));
    // Thread 21 calls exec: the kernel ends thread 20, and 21 gets its id.
    events.push(exit(30, 20));
    events.push(exec(30, 20, 21));
    events.push(sample(40, 20, 7, None));
    events.push(exec(50, 20, 20));
    events.push(exit(60, 20));
    let out = account(OPTIONS, &events, 100);
    check(&out);
    assert_eq!(out.sched.contradictions, 0);
    assert_eq!(
        told(&out),
        [
            (1, None, 0, 0, 100, false),
            (20, Some(1), 0, 10, 30, true),
            (20, Some(1), 1, 30, 50, true),
            (20, Some(1), 2, 50, 60, true),
        ]
    );
    let lives: Vec<_> = out.images[1]
        .lives
        .iter()
        .map(|l| (l.tid, l.parent, l.start_ns, l.end_ns, l.main))
        .collect();
    assert_eq!(
        lives,
        [(20, Some(1), 10, 30, true), (21, Some(20), 20, 30, false)]
    );
    assert_eq!(out.images[2].lives.len(), 1);
    assert_eq!(out.images[2].lives[0].tid, 20);
    assert_eq!(out.images[2].lives[0].parent, Some(1));
    // Stack 7 of one program is not stack 7 of the next.
    let of_stack = out.sched.slices.iter().filter(|s| s.stack == 7);
    let processes: Vec<_> = of_stack.map(|s| s.thread.process).collect();
    assert_eq!(processes, [1, 2]);
}

#[test]
fn a_tid_that_comes_again_is_another_thread() {
    let mut events = vec![init(0, 1, State::Running), fork(10, 2, 1)];
    events.extend(start(10, 2));
    events.extend([exit(20, 2), fork(30, 2, 1)]);
    events.extend(start(30, 2));
    let out = account(OPTIONS, &events, 45);
    check(&out);
    let lives: Vec<_> = out.images[0].lives.iter().map(|l| l.tid).collect();
    assert_eq!(lives, [1, 2, 2]);
    let running: Vec<_> = out.sched.threads.iter().map(|t| t.running_ns).collect();
    assert_eq!(running, [45, 10, 15]);
}

#[test]
fn a_pid_that_comes_again_is_another_process() {
    let mut events = vec![init(0, 1, State::Running)];
    for ts in [10, 30] {
        events.push(fork_process(ts, 20, 1));
        events.extend(start(ts, 20));
        events.push(exit(ts + 10, 20));
    }
    let out = account(OPTIONS, &events, 50);
    check(&out);
    assert_eq!(out.sched.contradictions, 0);
    assert_eq!(
        told(&out)[1..],
        [
            (20, Some(1), 0, 10, 20, true),
            (20, Some(1), 0, 30, 40, true)
        ]
    );
}

#[test]
fn a_thread_outlives_the_main_thread_and_the_image_lives_as_long() {
    let mut events = vec![init(0, 1, State::Running), fork(10, 2, 1)];
    events.extend(start(10, 2));
    events.extend([exit(20, 1), exit(50, 2)]);
    let out = account(OPTIONS, &events, 60);
    check(&out);
    assert_eq!(told(&out), [(1, None, 0, 0, 50, true)]);
}

/// A thread's exit wakes whoever waits for it: the wake-up may come after the exit.
#[test]
fn a_thread_that_has_ended_can_still_be_the_waker() {
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            init(0, 2, State::Running),
            block(10, 1, 3),
            exit(40, 2),
            wake(45, 1, by(2, 9)),
            exit(50, 1),
        ],
        50,
    );
    check(&out);
    let [w] = &out.sched.wakes[..] else {
        panic!("{:?}", out.sched.wakes)
    };
    let who = out.sched.threads[1].thread;
    assert_eq!(w.waker, Waker::Thread(who, 9));
    assert_eq!((w.wait_ns, w.waker_running_ns), (35, 30));
}

/// What a thread did is forgotten some time after its end: a storm of threads must not fill the memory.
#[test]
fn a_waker_that_ended_long_ago_is_known_by_name_only() {
    let mut events = vec![init(0, 1, State::Running), init(0, 2, State::Running)];
    events.extend([block(10, 1, 3), exit(40, 2)]);
    for tid in 100..200 {
        events.push(fork(50, tid, 1));
        events.extend(start(50, tid));
        events.push(exit(51, tid));
    }
    events.push(wake(60, 1, by(2, 9)));
    let out = account(OPTIONS, &events, 60);
    check(&out);
    let [w] = &out.sched.wakes[..] else {
        panic!("{:?}", out.sched.wakes)
    };
    assert_eq!(w.waker, Waker::Thread(out.sched.threads[1].thread, 9));
    assert_eq!((w.wait_ns, w.waker_running_ns), (50, 0));
}

#[test]
fn events_after_the_exit_say_nothing() {
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            exit(10, 1),
            run(12, 1),
            block(15, 1, 3),
            Event::Out {
                ts: 20,
                tid: 1,
                how: convoy_sched::Out::Dead,
            },
        ],
        30,
    );
    check(&out);
    assert_eq!(out.sched.contradictions, 0);
    assert_eq!(out.sched.active, [20, 10]);
}

#[test]
fn a_death_without_exit_is_one() {
    let dead = Event::Out {
        ts: 10,
        tid: 1,
        how: convoy_sched::Out::Dead,
    };
    let out = account(OPTIONS, &[init(0, 1, State::Running), dead], 30);
    check(&out);
    assert_eq!(told(&out), [(1, None, 0, 0, 10, true)]);
}

/// A fork says which process it is in even if nothing was known of that one.
#[test]
fn a_thread_of_an_unknown_process_makes_it_known() {
    let mut events = vec![fork(5, 3, 2)];
    events.extend(start(5, 3));
    events.push(init(8, 3, State::Blocked(at(1, OffReason::Futex))));
    let out = account(OPTIONS, &events, 10);
    check(&out);
    assert_eq!(told(&out), [(1, None, 0, 5, 10, false)]);
    // What /proc said is older than the events.
    assert_eq!(out.sched.threads[0].running_ns, 5);
    assert_eq!(out.sched.contradictions, 0);
}
