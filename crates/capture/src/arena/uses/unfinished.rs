//! What threads had not written down yet: holds, the waits before them, and the wait that each is in.

use convoy_abi as abi;
use convoy_profile::{ThreadIx, Wait};

use super::super::objects::op_of;
use super::super::threads::Waiting;
use super::{add_waits, Reader};

impl Reader<'_, '_, '_> {
    /// What the thread had not recorded yet: holds of locks that it held to the end, or released just
    /// before, and the waits before them. The agent records nothing while a lock is held.
    pub(super) fn holds(&mut self, thread: ThreadIx, record: &abi::Thread, until_ns: u64) {
        let used = (record.held_count as usize).min(record.held.len());
        for held in record.held[..used].iter().filter(|h| h.obj != 0) {
            let Some(op) = op_of(held.op) else {
                self.view.mark_damaged();
                continue;
            };
            if held.flags & abi::CV_HELD_WAIT_ONLY != 0 {
                // The wait was for what the entry is about; `obj` is the lock that delayed the record.
                if let Some(ix) = self.detail_at(held.detail, thread) {
                    self.held_wait(ix, held);
                }
                continue;
            }
            let object = self.objects.of(held.obj, op);
            let ix = self.detail_for(held.detail, object, thread, op);
            let released_ns = if held.released_ns != 0 {
                held.released_ns
            } else {
                until_ns
            };
            let hold_ns = released_ns.saturating_sub(held.acquired_ns);
            let detail = &mut self.details[ix];
            detail.hold_n = detail.hold_n.saturating_add(1);
            detail.hold_sum_ns = detail.hold_sum_ns.saturating_add(hold_ns);
            detail.hold_max_us = detail
                .hold_max_us
                .max(u32::try_from(hold_ns / 1000).unwrap_or(u32::MAX));
            if held.flags & abi::CV_HELD_SAMPLED != 0 {
                detail.hold_sampled_n = detail.hold_sampled_n.saturating_add(1);
                detail.hold_sampled_sum_ns = detail.hold_sampled_sum_ns.saturating_add(hold_ns);
                if held.acquire_ns < abi::CV_ACQUIRE_MAX_NS {
                    detail.acquire_n = detail.acquire_n.saturating_add(1);
                    detail.acquire_sum_ns =
                        detail.acquire_sum_ns.saturating_add(held.acquire_ns.into());
                }
            }
            self.held_wait(ix, held);
        }
    }

    /// The wait of a record that was still to be made, added to its entry.
    fn held_wait(&mut self, ix: usize, held: &abi::Held) {
        if held.wait_ns == 0 && held.spun_ns == 0 {
            return;
        }
        let detail = &mut self.details[ix];
        let wait = detail.wait.get_or_insert_default();
        wait.busy_sum_ns = wait.busy_sum_ns.saturating_add(held.spun_ns);
        if held.wait_ns == 0 {
            return;
        }
        add_wait(wait, held.wait_ns, held.flags & abi::CV_HELD_TIMEOUT != 0);
        let (object, stack, thread) = (detail.object, detail.stack, detail.thread);
        if held.peer_tid != 0 {
            let raw = abi::EntryPair {
                n: 1,
                wait_sum_ns: held.wait_ns,
                wait_max_ns: held.wait_ns,
                peer_tid: held.peer_tid,
                peer_frame: held.peer_frame,
                peer_stack: held.peer_stack,
                ..Default::default()
            };
            self.pair(object, stack, thread, &raw);
        }
    }

    /// The wait that the thread was in at the end. One that has ended since may be among the entries.
    pub(super) fn unfinished_wait(
        &mut self,
        thread: ThreadIx,
        record: &abi::Thread,
        until_ns: u64,
    ) {
        let Some(waiting) = self.threads.waited_for(thread) else {
            return;
        };
        if waiting.since_ns == 0 || waiting.object == 0 {
            return;
        }
        let Some(op) = u16::try_from(waiting.op).ok().and_then(op_of) else {
            self.view.mark_damaged();
            return;
        };
        let object = self.objects.of(waiting.object, op);
        let ix = self.detail_for(waiting.detail, object, thread, op);
        // One that began while the first records were read has only just begun.
        let wait_ns = until_ns.saturating_sub(waiting.since_ns).max(1);
        let detail = &mut self.details[ix];
        let stack = detail.stack;
        let wait = detail.wait.get_or_insert_default();
        wait.unfinished = 1;
        wait.unfinished_ns = wait_ns;
        if *waiting != Waiting::of(record) {
            return;
        }
        add_wait(wait, wait_ns, false);
        if waiting.peer_tid != 0 {
            let raw = abi::EntryPair {
                n: 1,
                wait_sum_ns: wait_ns,
                wait_max_ns: wait_ns,
                peer_tid: waiting.peer_tid,
                peer_frame: waiting.peer_frame,
                ..Default::default()
            };
            self.pair(object, stack, thread, &raw);
        }
    }
}

/// One more wait, as the agent adds it.
fn add_wait(wait: &mut Wait, ns: u64, timed_out: bool) {
    let mut one = abi::WaitDetail {
        n: 1,
        sum_ns: ns,
        max_ns: ns,
        timeouts: timed_out.into(),
        timeout_sum_ns: if timed_out { ns } else { 0 },
        ..Default::default()
    };
    let bucket = ns.checked_ilog2().unwrap_or(0) as usize;
    one.hist[bucket.min(abi::CV_HIST - 1)] = 1;
    add_waits(wait, &one);
}
