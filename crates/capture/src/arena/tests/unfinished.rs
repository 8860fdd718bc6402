//! What the agent had not written when the program ended: holds, waits, and figures of killed threads.

use std::cell::Cell;

use super::*;

#[test]
fn holds_that_were_not_recorded_yet_are_committed() {
    let (mut builder, places) = sample();
    builder.change::<abi::Thread>(places.worker, |t| {
        t.held_count = 2;
        t.held[0] = abi::Held {
            obj: STATIC_LOCK,
            acquired_ns: 5_000,
            released_ns: 7_500,
            wait_ns: 1_000,
            detail: places.detail,
            peer_tid: 100,
            peer_frame: 1,
            op: abi::CV_OP_MUTEX_LOCK,
            ..Default::default()
        };
        // still held when the thread ended, sampled, and its entry could not be made
        t.held[1] = abi::Held {
            obj: STACK_LOCK,
            acquired_ns: 6_000,
            op: abi::CV_OP_MUTEX_LOCK,
            flags: abi::CV_HELD_SAMPLED,
            acquire_ns: 30,
            ..Default::default()
        };
        t.held[2] = t.held[0]; // left behind: past the count
    });
    let p = process(&builder.finish());
    let [first, second] = p.details.as_slice() else {
        panic!("{:?}", p.details)
    };
    assert_eq!(
        (
            first.hold_n,
            first.hold_sum_ns,
            first.hold_sampled_n,
            first.hold_max_us
        ),
        (4, 5_500, 1, 2)
    );
    let wait = first.wait.as_ref().unwrap();
    assert_eq!(
        (
            wait.n,
            wait.sum_ns,
            wait.max_ns,
            wait.hist[9],
            wait.unfinished
        ),
        (3, 1_300, 1_000, 1, 0)
    );
    assert_eq!(
        (
            second.hold_n,
            second.hold_sampled_sum_ns,
            second.acquire_sum_ns
        ),
        (1, 2_000, 30)
    );
    assert_eq!((second.stack, &second.wait), (0, &None));
    let lock = &p.objects[second.object as usize];
    assert_eq!(
        (lock.addr, lock.kind, lock.memory),
        (STACK_LOCK, ObjectKind::Mutex, Memory::Stack(1))
    );
    // without the peer's stack it is another pair
    assert_eq!(
        p.pairs
            .iter()
            .map(|p| (p.peer_stack, p.n, p.wait_sum_ns))
            .collect::<Vec<_>>(),
        [(0, 1, 1_000), (1, 2, 300)]
    );
}

#[test]
fn an_acquire_that_lost_its_cpu_is_no_price_of_the_lock() {
    let (mut builder, places) = sample();
    builder.change::<abi::Thread>(places.worker, |t| {
        t.held_count = 1;
        t.held[0] = abi::Held {
            obj: STACK_LOCK,
            acquired_ns: 6_000,
            op: abi::CV_OP_MUTEX_LOCK,
            flags: abi::CV_HELD_SAMPLED,
            acquire_ns: 4_000_000,
            ..Default::default()
        };
    });
    let p = process(&builder.finish());
    let sampled = p.details.last().expect("its entry");
    assert_eq!((sampled.hold_sampled_n, sampled.acquire_n), (1, 0));
}

#[test]
fn waits_that_were_not_recorded_yet_are_no_holds() {
    let (mut builder, places) = sample();
    builder.change::<abi::Thread>(places.worker, |t| {
        t.held_count = 2;
        // the lock that delayed the record is another object than the one waited for
        t.held[0] = abi::Held {
            obj: STACK_LOCK,
            wait_ns: 2_000,
            detail: places.detail,
            op: abi::CV_OP_MUTEX_LOCK,
            flags: abi::CV_HELD_WAIT_ONLY | abi::CV_HELD_TIMEOUT,
            ..Default::default()
        };
        t.held[1] = abi::Held {
            detail: 0, // its entry could not be made
            ..t.held[0]
        };
    });
    let p = process(&builder.finish());
    let [detail] = p.details.as_slice() else {
        panic!("{:?}", p.details)
    };
    assert_eq!((detail.hold_n, detail.hold_sum_ns), (3, 3_000));
    let wait = detail.wait.as_ref().unwrap();
    assert_eq!((wait.n, wait.sum_ns), (3, 2_300));
    assert_eq!((wait.timeouts, wait.timeout_sum_ns), (1, 2_000));
}

#[test]
fn wait_at_the_end_counts_up_to_the_end() {
    let (mut builder, places) = sample();
    builder.header.state = abi::CV_PROCESS_RUNNING;
    builder.header.end_ns = 0;
    builder.change::<abi::Thread>(places.main, |t| {
        t.wait_obj = HEAP_COND;
        t.wait_op = abi::CV_OP_COND_WAIT.into();
        t.wait_since_ns = 3_500;
        t.wait_peer_tid = 101;
        t.wait_peer_frame = 1;
    });
    let p = process(&builder.finish());
    assert_eq!((p.end_ns, p.ended_cleanly), (9_500, false));
    let pair = p.pairs.iter().find(|pair| pair.thread == 0).unwrap();
    assert_eq!((pair.peer, pair.peer_frame), (Some(1), Some(1)));
    assert_eq!((pair.n, pair.wait_sum_ns), (1, 6_000));
    let detail = p.details.iter().find(|d| d.thread == 0).unwrap();
    let wait = detail.wait.as_ref().unwrap();
    assert_eq!(
        (detail.op, wait.n, wait.sum_ns, wait.max_ns),
        (Some(Op::CondWait), 1, 6_000, 6_000)
    );
    assert_eq!(
        (wait.unfinished, wait.unfinished_ns, wait.hist.len()),
        (1, 6_000, 13)
    );
}

/// An arena that becomes another one when what lies at a place is read.
struct Changing {
    before: Vec<u8>,
    after: Vec<u8>,
    at: u64,
    changed: Cell<bool>,
}

impl Bytes for Changing {
    fn end(&self) -> u64 {
        self.before.end()
    }

    fn fill(&self, at: u64, into: &mut [u8]) -> bool {
        self.changed.set(self.changed.get() || at == self.at);
        let now = if self.changed.get() {
            &self.after
        } else {
            &self.before
        };
        now.fill(at, into)
    }
}

#[test]
fn a_wait_that_ends_while_entries_are_read_is_one_and_is_not_counted_twice() {
    let waiting = |since_ns| {
        let (mut builder, places) = sample();
        builder.header.state = abi::CV_PROCESS_RUNNING;
        builder.header.end_ns = 0;
        builder.change::<abi::Thread>(places.worker, |t| {
            t.end_ns = 0;
            t.wait_obj = STATIC_LOCK;
            t.wait_op = abi::CV_OP_MUTEX_LOCK.into();
            t.wait_detail = places.detail;
            t.wait_since_ns = since_ns;
        });
        (builder.finish(), places)
    };
    let ((before, places), (after, _)) = (waiting(8_500), waiting(0));
    let bytes = Changing {
        before,
        after,
        at: u64::from(places.detail) * 64,
        changed: Cell::new(false),
    };
    let p = process(&bytes);
    assert!(bytes.changed.get(), "the entry was never read");
    let wait = p.details[0].wait.as_ref().unwrap();
    assert_eq!((wait.n, wait.sum_ns), (2, 300));
    assert_eq!((wait.unfinished, wait.unfinished_ns), (1, 1_000));
}

#[test]
fn killed_threads_take_what_was_polled() {
    let (mut builder, _) = sample();
    builder.header.state = abi::CV_PROCESS_RUNNING;
    let figures = |name: &str| ThreadFigures {
        name: name.into(),
        cpu_ns: 2_000,
        user_ns: 1_500,
        sys_ns: 500,
        run_delay_ns: Some(9),
        voluntary_switches: 4,
        involuntary_switches: 5,
    };
    let polled = HashMap::from([(100, figures("polled")), (101, figures("polled"))]);
    let bytes = builder.finish();
    let p = read(
        &bytes,
        Context {
            seen_end_ns: 9_500,
            polled: &polled,
        },
    )
    .unwrap();
    let main = &p.threads[0];
    assert_eq!(
        (
            main.cpu_ns,
            main.user_ns,
            main.run_delay_ns,
            main.voluntary_switches
        ),
        (2_000, 1_500, Some(9), 4)
    );
    assert_eq!(
        (main.name.as_str(), main.cpu_exact, main.end_ns),
        ("main", false, 9_500)
    );
    let worker = &p.threads[1];
    assert!(
        !worker.cpu_exact && worker.cpu_ns == 2_000,
        "it ended in a sandbox: it could not tell how long it had run"
    );
}
