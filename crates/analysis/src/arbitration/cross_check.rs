//! Findings on objects, checked against the scheduler: a lock whose waits pass while all CPUs work is not on the
//! critical path.

use std::collections::BTreeSet;

use convoy_model::finding::Finding;
use convoy_model::words::percent;
use convoy_model::{FindingId, Model, ObjectId, OffCpu, OffReason, Sched};

use crate::facts::concurrency::{at_least, low_or_none};
use crate::facts::run_view::is_any_event;
use crate::params::Params;
use crate::tables::scheduler::{Analysis, Parallelism};
use crate::tables::waits::meanwhile;
use crate::words::evidence;

/// Waits that say something: fewer, or shorter ones, and the scheduler hardly saw them.
const WAITS: u64 = 10;
const WAIT_NS: f64 = 1e6;
/// A single one says as much if it is this share of the run.
const LONG: f64 = 0.05;
/// Share of the waits at low parallelism that makes both agree.
const AGREES: f64 = 0.5;

/// Findings whose gain is not that waits are shorter: what wakes threads for nothing costs CPU time, and who keeps one
/// from its lock works meanwhile.
const NOT_BY_WAITS: [FindingId; 2] = [FindingId::FutileWakeups, FindingId::StarvedThread];

/// Says of each finding on an object what the scheduler says of the waits for it: the others are left as they
/// are. Findings of this crate need no check.
pub fn cross_check(model: &Model, analysis: &Analysis, findings: &mut [Finding]) {
    let t = Params::default();
    cross_check_with(model, analysis, findings, &t);
}

/// The same with other limits.
pub fn cross_check_with(model: &Model, analysis: &Analysis, findings: &mut [Finding], t: &Params) {
    let told = |finding: &&mut Finding| !NOT_BY_WAITS.contains(&finding.id);
    for finding in findings.iter_mut().filter(told) {
        let objects = finding.subject.objects();
        if let Some(waits) = Waits::of(model, analysis, objects) {
            waits.tell(analysis, finding, t);
        }
    }
}

/// A switch that a wait causes, there and back. Nanoseconds (as in `too-many-threads`).
const SWITCH_NS: f64 = 5_000.0;
/// Share of the CPUs' time from which on handing over is a cost of its own.
const CHURN: f64 = 0.02;

/// Time that threads were off the processors for one of the objects.
struct Waits {
    n: f64,
    /// What acquiring and releasing took, waits apart.
    locking: f64,
    sum: f64,
    low: f64,
    /// While as many threads worked as could.
    full: f64,
    /// Of what those did who ended them, other than wait for the same: the share that they waited for whatever comes next.
    any_event: f64,
}

impl Waits {
    /// `None` if the scheduler saw too little of them.
    fn of(model: &Model, analysis: &Analysis, objects: &[ObjectId]) -> Option<Self> {
        let p = &analysis.parallelism;
        let (mut n, mut this) = (
            0u64,
            Self {
                n: 0.0,
                locking: 0.0,
                sum: 0.0,
                low: 0.0,
                full: 0.0,
                any_event: 0.0,
            },
        );
        let sched = model.sched.as_ref()?;
        let useful = p.useful.floor().max(1.0);
        let of_object = |id: &Option<ObjectId>| id.is_some_and(|id| objects.contains(&id));
        for off in sched
            .offs
            .iter()
            .filter(|off| off.reason == OffReason::Futex && of_object(&off.object))
        {
            n = n.saturating_add(off.n);
            let histogram = meanwhile(off);
            this.sum += off.sum_ns as f64;
            this.low += low_or_none(histogram, p.low_below);
            this.full += at_least(histogram, useful);
        }
        // Who was ready worked only where it had a processor: those who hand a lock on wake one another on one, and
        // another may be idle beside it.
        let on_cpus = at_least(&sched.running, useful) / at_least(&sched.working, useful).max(1.0);
        this.full *= on_cpus.min(1.0);
        this.n = n as f64;
        let uses = objects.iter().flat_map(|id| model.uses_of(*id));
        let calls: f64 = uses.map(|u| u.calls as f64).sum();
        this.locking = calls * model.meta.machine.mutex_pair_ns;
        let seen = n >= WAITS || this.sum >= LONG * p.wall_ns as f64;
        let tells = seen && this.sum >= WAIT_NS && p.workers_at_once > 1;
        tells.then(|| Self {
            any_event: any_event(sched, objects),
            ..this
        })
    }

    /// Share of the CPUs' time that goes into the lock itself: taking it, parking and waking.
    fn handing_over(&self, p: &Parallelism) -> f64 {
        let capacity = p.wall_ns as f64 * f64::from(p.cpus.max(1));
        (self.n * SWITCH_NS + self.locking) / capacity.max(1.0)
    }

    fn tell(&self, analysis: &Analysis, finding: &mut Finding, t: &Params) {
        let p = &analysis.parallelism;
        if self.any_event >= AGREES {
            finding.caveats.push(format!(
                "{} of the time its holder waited for whatever comes next: the others may be kept waiting until then on purpose",
                percent(self.any_event)
            ));
            keep(finding, 1.0 - self.any_event);
            return;
        }
        let (full, low) = (
            (self.full / self.sum).min(1.0),
            (self.low / self.sum).min(1.0),
        );
        if full >= t.off_path_ratio {
            finding.caveats.push(format!(
                "not on the critical path: {} of its waits passed while {:.0} threads worked, as many as can at once",
                percent(full),
                p.useful.floor()
            ));
            // Where the lock itself keeps the CPUs busy (taken millions of times a second, handed over all the time)
            // a fix gives them back: `detect` has priced that.
            if self.handing_over(p) >= CHURN {
                return;
            }
            keep(finding, 1.0 - full);
        } else if low >= AGREES {
            finding.evidence.push(evidence(
                "low_parallelism_ratio",
                low,
                format!(
                    "the scheduler agrees: {} of the waits passed while fewer than {:.0} threads worked",
                    percent(low),
                    p.low_below.ceil()
                ),
            ));
        }
    }
}

/// Share of the waits for these objects that their holder was waiting for whatever comes next.
fn any_event(sched: &Sched, objects: &[ObjectId]) -> f64 {
    let objects: BTreeSet<ObjectId> = objects.iter().copied().collect();
    let for_objects = |off: &OffCpu| off.object.is_some_and(|id| objects.contains(&id));
    let (mut idle, mut all) = (0.0, 0.0);
    for wake in &sched.wakes {
        if !sched.off(wake.off).is_some_and(for_objects) {
            continue;
        }
        all += wake.wait_ns as f64;
        for &(id, ns) in &wake.waker_off {
            match sched.off(id) {
                // Who waits before this one in the queue waits for the same holder.
                Some(off) if for_objects(off) => all -= ns as f64,
                Some(off) if is_any_event(sched, off) => idle += ns as f64,
                _ => {}
            }
        }
    }
    (idle / all.max(1.0)).min(1.0)
}

/// Promises only so much of the gain.
fn keep(finding: &mut Finding, part: f64) {
    finding.gain.low = 1.0;
    finding.gain.mid = 1.0 + part * (finding.gain.mid - 1.0);
}
