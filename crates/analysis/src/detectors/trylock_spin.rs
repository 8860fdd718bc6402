//! Trylock loops: CPU time burnt in failed tries (SyncPerf section 3.2.2).
//!
//! A thread that spins gets nothing done while it does, but it would get nothing done asleep
//! either: what it waits for takes as long. Removing the loop only helps others, and only if they are
//! short of CPUs. (A loop that failed 9.7 million times a second bought nothing on two CPUs.)
//! With more threads than CPUs they are: the lock holder itself queues behind those that spin for its lock. (Eight
//! threads on two CPUs took 40 times as long as with a condition variable.)

use convoy_model::finding::{Finding, Gain, Subject};
use convoy_model::FindingId;
use convoy_model::Use;

use crate::estimate::queueing::{predict, Change};
use crate::facts::operations::Role;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::{polls, site_with_most, try_spin_ns};
use crate::root_causes::cause;
use crate::tables::counters::LockRow;
use crate::words::{count, evidence, percent, place_of, plural};

/// Failed tries a second below which a loop is a poll, not a spin.
const SPIN_HZ: f64 = 1000.0;
/// Threads that spin over CPUs, from which on they keep lock holders from running.
const CROWDED: f64 = 1.5;
/// Spun over all CPU time, from which on the same.
const CROWDED_SPIN: f64 = 0.2;
/// Mean time on a CPU between two context switches below which threads yield between tries, nanoseconds: a
/// thread that does not runs until the scheduler takes it off, 2 to 4 ms later.
const MIN_SLICE_NS: f64 = 1e6;
/// What the spinners' fight for the cache line may cost those at work, as a share of the spun
/// time: only an upper bound, it is not observable from counts.
const INTERFERENCE: f64 = 0.10;

pub(crate) fn findings(cx: &ProcessFacts, locks: &[LockRow]) -> Vec<Finding> {
    locks.iter().filter_map(|row| finding(cx, row)).collect()
}

fn finding(cx: &ProcessFacts, row: &LockRow) -> Option<Finding> {
    let view = cx.view;
    let s = &row.stats;
    if s.try_calls == 0 || view.wall() <= 0.0 {
        return None;
    }
    let failure = s.try_failed as f64 / s.try_calls as f64;
    let failed_hz = s.try_failed as f64 / view.wall() * 1e9;
    if failure < cx.t.trylock_failure_ratio || failed_hz < SPIN_HZ {
        return None;
    }
    let (mut change, mut most) = (Change::none(view), Change::none(view));
    let mut spinners = 0;
    let (mut life, mut running, mut switches) = (0.0, 0.0, 0.0);
    let failing = |u: &&&Use| view.role(u) == Some(Role::Try) && u.failed > 0;
    for u in view.uses_of(row.object).iter().filter(failing) {
        let Some(i) = view.thread(u.thread) else {
            continue;
        };
        let cpu = view.threads[i].cpu;
        if most.deltas[i].freed == 0.0 {
            spinners += 1;
            life += view.threads[i].life;
            running += cpu;
            switches += view.threads[i].switches + view.threads[i].preemptions;
        }
        let (known, possible) = spun(u, cpu);
        let add = |sum: &mut f64, ns: f64| *sum = (*sum + ns).min(0.95 * cpu);
        add(&mut change.deltas[i].freed, (known + possible) / 2.0);
        add(&mut most.deltas[i].freed, possible);
    }
    let total: f64 = change.deltas.iter().map(|d| d.freed).sum();
    let share = total / life.max(1.0);
    if share < cx.t.waited_ratio {
        return None;
    }
    let tries = view.uses_of(row.object).iter().copied();
    let tries = tries.filter(|u| view.role(u) == Some(Role::Try));
    let site = site_with_most(tries, |u| u.failed);
    let here = place_of(view, site);
    let spun = Spun {
        share,
        ns: total,
        crowd: life / view.wall() / view.cpus_allowed,
        yields: switches == 0.0 || running / switches < MIN_SLICE_NS,
    };
    let gain = gain(cx, &change, &most, &spun);
    let mut caveats = Vec::new();
    if gain.mid < cx.t.gain_mid {
        caveats.push(format!(
            "sleeping instead would free {:.1} CPUs, but nothing in this program is short of one: what the spinners wait for takes as long",
            total / view.wall()
        ));
    }
    Some(Finding {
        id: FindingId::TrylockSpin,
        subject: Subject::object_at(row.object, site),
        title: format!(
            "{}: {} spin on trylock {} of their time",
            view.object_name(row.object),
            plural(spinners, "thread"),
            percent(share)
        ),
        evidence: vec![
            evidence(
                "trylock_failure_ratio",
                failure,
                format!(
                    "{} of {} trylock calls failed",
                    percent(failure),
                    count(s.try_calls as f64)
                ),
            ),
            evidence(
                "failed_tries_hz",
                failed_hz,
                format!("{} failed tries a second", count(failed_hz)),
            ),
            evidence(
                "spun_ratio",
                share,
                format!(
                    "trying took {} of the time of {}",
                    percent(share),
                    plural(spinners, "thread")
                ),
            ),
        ],
        causes: vec![cause(
            "trylock-instead-of-block",
            "a loop tries for a lock or a condition instead of sleeping until it is there",
            format!(
                "a blocking lock, a condition variable or a barrier instead of the loop at {here}"
            ),
        )],
        undecided: String::new(),
        share_of_thread_time: share,
        caveats,
        gain,
    })
}

/// Time spun in vain.
struct Spun {
    /// Of the life of the threads that spin.
    share: f64,
    /// CPU time, nanoseconds.
    ns: f64,
    /// Threads that spin, on average, over the CPUs that they may use.
    crowd: f64,
    /// They give up the CPU between tries, or it is not known.
    yields: bool,
}

/// Threads that spin share the CPUs with those that they wait for. If the waiters slept, the others would have the CPUs
/// to themselves: as many times more of them as there are threads for each CPU, or as the CPU time is of its part
/// that is not spun. There is no bound: a lock holder that is preempted keeps all others spinning meanwhile.
fn crowded(cx: &ProcessFacts, spun: &Spun) -> Option<Gain> {
    let cpu = cx.view.cpu();
    if spun.yields || spun.crowd < CROWDED || spun.ns < CROWDED_SPIN * cpu {
        return None;
    }
    let unspun = cpu / (cpu - spun.ns).max(1.0);
    Some(Gain {
        low: 1.0,
        mid: unspun.min(spun.crowd),
        high: f64::INFINITY,
        method: "CPU time without the failed tries, shared by fewer threads".into(),
        limited_by: "the work between the tries".into(),
        estimates: Vec::new(),
    })
}

fn gain(cx: &ProcessFacts, change: &Change, most: &Change, spun: &Spun) -> Gain {
    if let Some(gain) = crowded(cx, spun) {
        return gain;
    }
    let (share, spun) = (spun.share, spun.ns);
    let mut gain = predict(cx.view, cx.stations, cx.links, change);
    // Only somebody who queues for a CPU can use one that is set free.
    let delay: f64 = cx.view.threads.iter().map(|t| t.run_delay).sum();
    if delay < 0.02 * cx.view.cpu() {
        gain.mid = 1.0;
        gain.high = gain.high.min(1.0 + INTERFERENCE * share);
        gain.limited_by =
            "what the spinners wait for takes as long, and nobody queues for a CPU".into();
    } else {
        let most = predict(cx.view, cx.stations, cx.links, most);
        gain.high = gain.high.max(most.high);
    }
    // If nothing but CPUs limited the program, and twice as much were spun as is likely.
    let work = (cx.view.cpu() - 2.0 * spun).max(0.2 * cx.view.cpu());
    gain.low = 1.0;
    gain.high = gain.high.min(cx.view.cpu() / work.max(1.0));
    gain.high = gain.high.max(gain.mid).max(1.0 + INTERFERENCE * share);
    gain
}

/// CPU time of a trylock loop, nanoseconds: surely spun in failed tries, and possibly. A loop that
/// takes a lock only to look at a condition and lets it go again (streamcluster's barrier) also
/// spins when it succeeds.
fn spun(u: &Use, cpu: f64) -> (f64, f64) {
    const LOOP_MAX_NS: f64 = 500.0;
    let known = try_spin_ns(u);
    if polls(u, cpu) {
        let per_call = cpu / u.calls.max(1) as f64;
        let possible = u.calls as f64 * per_call.min(LOOP_MAX_NS);
        (known, known.max(possible))
    } else {
        (known, known)
    }
}
