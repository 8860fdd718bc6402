//! What a lock costs besides its waits: system calls to park and wake, and the transfer of its
//! cache line from core to core.
//!
//! Both are CPU time of the threads that use it, so they go away with the contention, and with
//! full CPUs they are most of the gain: SQLite's statistics mutex halves the throughput of four
//! threads on two CPUs, although the CPUs are busy before and after.

use std::collections::BTreeSet;

use convoy_model::ObjectId;

use super::locking::{taken, Shares};
use super::predict::Change;
use crate::facts::operations::{spins, Role};
use crate::facts::process_view::{polls, ProcessView, ThreadTime};

/// System time of one contended acquisition: wait, wake and the switches between, pessimistic,
/// expected, optimistic. Nanoseconds. A wait and its wake take 2-6 us together; a waiter may be
/// woken and find the lock taken again several times, and to wake an idle CPU takes an interrupt,
/// which is slow in virtual machines.
pub(crate) const PARK_NS: [f64; 3] = [1000.0, 6000.0, 40_000.0];
/// The same, where a short run's ticks show less time in the kernel than that must have taken.
const PARK_LEAST_NS: [f64; 3] = [0.0, 1500.0, 4000.0];
/// Excess cost of an acquire that can be a transfer of a cache line, also from another socket.
/// What is beyond is preemption caught by the sampler. Nanoseconds.
const TRANSFER_MAX_NS: f64 = 400.0;
/// So many cache lines of the data under a lock move with it at most, each for what the lock's own
/// costs.
const LINES_OF_DATA: f64 = 8.0;
/// Share of the samples of a lock's users in its functions from which on its word is what they work on.
pub(crate) const LOCKING: f64 = 0.2;
/// Of what goes beyond the price of an uncontended lock, a fix that leaves some sharing leaves some: pessimistic and
/// expected. At best there is no lock any more.
const LOCKING_GOES: [f64; 2] = [0.3, 0.9];
/// Of what threads run so much can be the price of a lock, the rest is work; at best more, where samples find more in its functions.
pub(crate) const NO_WORK: f64 = 0.9;
/// Samples that an object needs to be a baseline or to have an excess.
const SAMPLES_MIN: u64 = 16;

/// What an acquire costs here if the lock is in the thread's own cache, nanoseconds.
///
/// The sampled cost includes the clock reads around it, so the best baseline are locks of this
/// very run that one thread alone uses; without any, half of the machine's lock-unlock pair and
/// two clock reads.
pub(crate) fn local_acquire_ns(view: &ProcessView) -> f64 {
    const CLOCK_READS_NS: f64 = 25.0;
    let mut best = f64::INFINITY;
    for uses in view.uses().chunk_by(|a, b| a.object == b.object) {
        if !view.locks.contains(uses[0].object) {
            continue;
        }
        let (mut n, mut ns, mut shared) = (0, 0, false);
        for u in uses.iter().filter(|u| view.role(u) == Some(Role::Acquire)) {
            shared |= u.thread != uses[0].thread;
            n += u.acquire_n;
            ns += u.acquire_ns;
        }
        if !shared && n >= SAMPLES_MIN {
            best = best.min(ns as f64 / n as f64);
        }
    }
    let pair = view.model.meta.machine.mutex_pair_ns;
    let nominal = if pair > 0.0 { pair / 2.0 } else { 10.0 } + CLOCK_READS_NS;
    if best.is_finite() {
        best.max(if pair > 0.0 { pair / 2.0 } else { 5.0 })
    } else {
        nominal
    }
}

/// An uncontended lock and unlock here, nanoseconds; a usual one where it was not measured.
pub(crate) fn pair_ns(view: &ProcessView) -> f64 {
    match view.model.meta.machine.mutex_pair_ns {
        ns if ns > 0.0 => ns,
        _ => 15.0,
    }
}

/// Takes some locks away altogether: their waits, their parking, their cache line transfers.
pub(crate) fn without_locks(view: &ProcessView, locks: &[ObjectId], baseline_ns: f64) -> Change {
    let mut change = Change::none(view);
    change.removed = locks.iter().copied().collect::<BTreeSet<_>>();
    let mut parks = vec![0.0; view.threads.len()];
    let mut acquired = vec![0.0; view.threads.len()];
    // Of these, calls whose price goes with the lock.
    let mut paid = vec![0.0; view.threads.len()];
    for id in locks {
        let uses = view.uses_of(*id);
        let spinning = view.object(*id).is_some_and(|o| spins(o.kind));
        let excess = transfer_ns(view, *id, baseline_ns);
        for u in uses {
            let Some(i) = view.thread(u.thread) else {
                continue;
            };
            if !matches!(
                view.role(u),
                Some(Role::Acquire | Role::AcquireShared | Role::Try)
            ) {
                continue;
            }
            let d = &mut change.deltas[i];
            if view.role(u) != Some(Role::Try) {
                d.wait += u.wait_ns as f64;
                if spinning {
                    d.spin += u.wait_ns as f64;
                } else {
                    parks[i] += u.waits as f64;
                }
            }
            let calls = taken(u);
            acquired[i] += calls;
            // What a poll costs is spent instead of sleeping: without the lock it would poll faster.
            if polls(u, view.threads[i].cpu) {
                continue;
            }
            // What a spin lock's functions run are its waits.
            if !spinning {
                paid[i] += calls;
            }
            // The word is fetched to acquire it, and once more to release it if a waiter touched it.
            for (sum, factor) in d.overhead.iter_mut().zip([0.3, 1.0, 2.0]) {
                *sum += calls * excess * factor;
            }
            // Data that stay with one thread are in its cache: at most, a short section is all misses.
            let t = &view.threads[i];
            let on_cpu = t.cpu / (t.cpu + t.run_delay).max(1.0);
            d.overhead[2] += (on_cpu * u.hold_total_ns()).min(calls * excess * LINES_OF_DATA);
            // And where threads need no lock at all, they do not pay for a free one either.
            d.overhead[2] += calls * pair_ns(view);
        }
    }
    for (i, d) in change.deltas.iter().enumerate() {
        parks[i] = parked(&view.threads[i], parks[i], d.wait - d.spin);
    }
    let all_parks: f64 = parks.iter().sum();
    let all_acquired: f64 = acquired.iter().sum();
    let kernel_share = kernel_share(view, &acquired);
    for (i, d) in change.deltas.iter_mut().enumerate() {
        let t = &view.threads[i];
        // A waiter pays for going to sleep, a holder for waking it: holders by their share of acquisitions.
        let woken = if all_acquired > 0.0 {
            all_parks * acquired[i] / all_acquired
        } else {
            parks[i]
        };
        let events = (parks[i] + woken) / 2.0;
        // System calls for other waits and their switches are not this lock's.
        let of_all = (parks[i] + woken) / (t.waits.max(t.switches).max(parks[i]) + woken).max(1.0);
        let in_kernel = t.cpu * kernel_share * of_all;
        for ((sum, park), least) in d.overhead.iter_mut().zip(PARK_NS).zip(PARK_LEAST_NS) {
            *sum += (events * park).min(in_kernel.max(events * least));
        }
        d.wait = d.wait.min(t.life);
        d.spin = d.spin.min(d.wait);
    }
    let shares = by_samples(view, locks, &paid, &mut change);
    let at_best = shares.map_or(NO_WORK, |shares| shares.with_section.clamp(NO_WORK, 1.0));
    let at_most = [NO_WORK, NO_WORK, at_best];
    for (t, d) in view.threads.iter().zip(&mut change.deltas) {
        let spare = (t.cpu - d.spin).max(0.0);
        for (x, part) in d.overhead.iter_mut().zip(at_most) {
            *x = x.min(part * spare);
        }
    }
    change
}

/// What the samples say of the locks' own functions, with their system calls. That is what there is to expect; at best the
/// data under the lock stay where they are as well.
fn by_samples(
    view: &ProcessView,
    locks: &[ObjectId],
    paid: &[f64],
    change: &mut Change,
) -> Option<Shares> {
    let all: f64 = paid.iter().sum();
    let shares = view.lock_code.shares(view, locks).filter(|_| all > 0.0)?;
    let share = shares.locking;
    let users = view.threads.iter().zip(paid).filter(|(_, n)| **n > 0.0);
    let running = users.map(|(t, _)| t.cpu - t.spin).sum::<f64>();
    let locking = share * running;
    let excess = (locking - all * pair_ns(view)).max(0.0);
    let least = match share >= LOCKING {
        true => [
            LOCKING_GOES[0] * excess,
            LOCKING_GOES[1] * excess,
            shares.with_section * running,
        ],
        false => [0.0; 3],
    };
    let most = [locking, locking, f64::INFINITY];
    for (d, n) in change
        .deltas
        .iter_mut()
        .zip(paid)
        .filter(|(_, n)| **n > 0.0)
    {
        let part = n / all;
        for ((sum, least), most) in d.overhead.iter_mut().zip(least).zip(most) {
            *sum = sum.max(part * least).min(part * most);
        }
    }
    Some(shares)
}

/// Share of their CPU time that the users of a lock spend in the kernel. Many kernels split a thread's
/// CPU time into user and system by what ticks happened to hit: only the sum over threads means much.
pub(crate) fn kernel_share(view: &ProcessView, acquired: &[f64]) -> f64 {
    let users = view.threads.iter().zip(acquired).filter(|(_, n)| **n > 0.0);
    let (cpu, sys) = users.fold((0.0, 0.0), |a, (t, _)| (a.0 + t.cpu, a.1 + t.sys));
    if cpu > 0.0 {
        sys / cpu
    } else {
        0.0
    }
}

/// Times that a thread went to sleep for a lock. One wait can take many: the waiter is woken, finds
/// the lock taken again and sleeps again. Its switches tell, shared out by time.
fn parked(t: &ThreadTime, waits: f64, waited: f64) -> f64 {
    let asleep = t.lock_wait + t.event_wait + t.off;
    let by_switches = if asleep > 0.0 {
        t.switches * (waited / asleep).min(1.0)
    } else {
        0.0
    };
    if waits > 0.0 {
        waits.max(by_switches)
    } else {
        0.0
    }
}

/// What acquiring a lock costs more than in a thread's own cache, nanoseconds per acquisition.
pub(crate) fn transfer_ns(view: &ProcessView, id: ObjectId, baseline_ns: f64) -> f64 {
    let (mut n, mut ns) = (0, 0);
    for u in view.uses_of(id) {
        if matches!(view.role(u), Some(Role::Acquire | Role::AcquireShared)) {
            n += u.acquire_n;
            ns += u.acquire_ns;
        }
    }
    if n < SAMPLES_MIN {
        return 0.0;
    }
    (ns as f64 / n as f64 - baseline_ns).clamp(0.0, TRANSFER_MAX_NS)
}
