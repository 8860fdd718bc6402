//! How far a recording can be trusted: what was lost, what it cost, what has no name.

use std::collections::BTreeMap;

use convoy_model::{Model, Site, Use};
use convoy_profile::Meta;

/// What the agent adds to a call that it only counts: two table look-ups in cache. Nanoseconds;
/// `make bench`, case "own mutex", says what it is on the machine at hand.
const COUNTED_CALL_NS: f64 = 1.0;

/// What it adds to a call of which it takes the stack: 12 frames at 8 ns, two clock reads and one
/// table update. Nanoseconds; of contended calls most of it passes while the thread would wait anyway.
const STACK_NS: f64 = 200.0;
/// CPU time for an event of the scheduler: told by the kernel's side in 130 to 330 ns, worked off beside the program in 200 to
/// 440 (`bench/run --case switches`; docs/design/0003).
const EVENT_NS: f64 = 500.0;
/// CPU time for a sample of the scheduler's: mostly the timer's interrupt.
const SAMPLE_NS: f64 = 10_000.0;

/// The quality of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quality {
    /// What was lost, most first.
    pub losses: Vec<Loss>,
    /// What Convoy itself cost.
    pub cost: Cost,
    /// Call stacks that lack names.
    pub stacks: Stacks,
}

/// One reason for losing something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Stable kebab-case id.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// What it means for the reader.
    pub meaning: &'static str,
    /// Whether counts or waits are missing (and not only details of them).
    pub numbers_are_missing: bool,
}

/// Convoy's own cost, estimated from what it did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cost {
    /// Calls that it counted.
    pub calls: u64,
    /// Calls of which it took the stack (sampled, or contended).
    pub stacks: u64,
    /// Estimated CPU time for both, and for the scheduler's events and samples.
    pub cpu_ns: f64,
    /// The same over the CPU time of all threads; 0 if that is not known.
    pub cpu_ratio: f64,
}

/// Call stacks and their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Sites that are used by anything.
    pub sites: usize,
    /// Of these, without any frame.
    pub without_frames: usize,
    /// Of these, whose shown frame has no function name.
    pub unnamed: usize,
    /// Of these, whose shown frame has a function but no line.
    pub without_line: usize,
    /// Why names are missing: (module, reason, sites), most first.
    pub unnamed_by_module: Vec<(String, String, usize)>,
    /// Modules that have functions but no lines: (module, sites), most first.
    pub no_line_by_module: Vec<(String, usize)>,
}

/// Share of the time of all CPUs that a hypervisor gave to others during the run; `None` for an empty run.
pub fn stolen_ratio(meta: &Meta) -> Option<f64> {
    let wall = meta.end_ns.saturating_sub(meta.start_ns) as f64;
    let all = wall * f64::from(meta.machine.cpus_online.max(1));
    (all > 0.0).then(|| (meta.stolen_ns as f64 / all).min(1.0))
}

/// Looks at all processes of a model together.
pub fn of(model: &Model) -> Quality {
    Quality {
        losses: losses(model),
        cost: cost(model),
        stacks: stacks(model),
    }
}

fn losses(model: &Model) -> Vec<Loss> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for process in &model.processes {
        for (reason, count) in &process.drops {
            *sums.entry(reason).or_default() += count;
        }
    }
    for lost in model.sched.iter().flat_map(|sched| &sched.lost) {
        let reason = if lost.stacks {
            "sched-stacks"
        } else {
            "sched-events"
        };
        *sums.entry(reason).or_default() += lost.events;
    }
    let damage = model.meta.damage.len() as u64;
    sums.insert("file-damaged", damage);
    let mut losses: Vec<_> = sums
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| {
            let (meaning, numbers_are_missing) = meaning(reason);
            Loss {
                reason: reason.to_owned(),
                count,
                meaning,
                numbers_are_missing,
            }
        })
        .collect();
    losses.sort_by_key(|loss| std::cmp::Reverse((loss.numbers_are_missing, loss.count)));
    losses
}

/// What a reason means, and whether numbers are missing. The reasons are the agent's `enum cv_drop`.
fn meaning(reason: &str) -> (&'static str, bool) {
    match reason {
        "arena-full" => (
            "records that found the recording's memory full: counts are too low",
            true,
        ),
        "no-memory" => ("times /dev/shm was full: what came after is missing", true),
        "reentrant" => (
            "operations in signal handlers that interrupted the agent: not counted",
            true,
        ),
        "unregistered" => (
            "operations of threads that the agent does not know: not counted",
            true,
        ),
        "held-overflow" => (
            "acquisitions with too many locks held at once: hold not timed",
            false,
        ),
        "stack-truncated" => (
            "call stacks deeper than recorded: the outermost callers are missing",
            false,
        ),
        "stack-no-rule" => (
            "call stacks through code without unwind information: the callers are missing",
            false,
        ),
        "object-table-full" => ("objects beyond the table: shown by address only", false),
        "fork-unrecorded" => (
            "forked children without room for a recording: not seen at all",
            true,
        ),
        "exec-without-agent" => (
            "programs started with a cleaned environment, or where the agent cannot be reached (chroot): \
             not seen by the agent",
            true,
        ),
        "exec-unloadable" => (
            "programs started that cannot load the agent (static, musl, 32-bit, foreign): not seen by it",
            true,
        ),
        "thread-reused" => (
            "threads beyond the limit: they share the rows of threads that had ended",
            false,
        ),
        "sandboxed" => (
            "processes that entered a sandbox (seccomp): CPU times of their threads are missing or early, and room for new records is limited",
            true,
        ),
        "file-damaged" => (
            "parts of the profile could not be read: numbers are too low",
            true,
        ),
        "sched-events" => (
            "scheduler events: who ran and who waited is not known meanwhile (--critical: when)",
            true,
        ),
        "sched-stacks" => (
            "call stacks of waits or samples: an older one of the same place stands for them, or none",
            false,
        ),
        _ => ("not known to this version of convoy", true),
    }
}

fn cost(model: &Model) -> Cost {
    let calls: u64 = model.uses.iter().map(|u| u.calls).sum();
    let waits: u64 = model.uses.iter().map(|u| u.waits).sum();
    let period = u64::from(model.meta.sample_period).max(1);
    // Where acquires were timed, their number is that of the samples; else so many are expected.
    let sampled = |u: &Use| match u.acquire_n {
        0 => u.calls.saturating_sub(u.waits) / period,
        n => n,
    };
    let stacks = model.uses.iter().map(sampled).sum::<u64>() + waits;
    let events = model.sched.as_ref().map_or(0, |sched| sched.events);
    let samples: u64 = model.samples().map(|(slice, _)| slice.n).sum();
    let of_agent = calls as f64 * COUNTED_CALL_NS + stacks as f64 * STACK_NS;
    let cpu_ns = of_agent + events as f64 * EVENT_NS + samples as f64 * SAMPLE_NS;
    let all_ns: u64 = model.threads.iter().map(|t| t.cpu_ns).sum();
    let cpu_ratio = if all_ns == 0 {
        0.0
    } else {
        cpu_ns / all_ns as f64
    };
    Cost {
        calls,
        stacks,
        cpu_ns,
        cpu_ratio,
    }
}

fn stacks(model: &Model) -> Stacks {
    let mut used = vec![false; model.sites.len()];
    for r#use in &model.uses {
        if let Some(flag) = used.get_mut(r#use.site.0 as usize) {
            *flag = true;
        }
    }
    let mut stacks = Stacks::default();
    let mut unnamed: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut no_line: BTreeMap<String, usize> = BTreeMap::new();
    for (site, _) in model.sites.iter().zip(&used).filter(|(_, used)| **used) {
        stacks.sites += 1;
        count_names(site, &mut stacks, &mut unnamed, &mut no_line);
    }
    stacks.unnamed_by_module = most_first(
        unnamed
            .into_iter()
            .map(|((module, why), n)| (module, why, n)),
        |x| x.2,
    );
    stacks.no_line_by_module = most_first(no_line.into_iter(), |x| x.1);
    stacks
}

fn count_names(
    site: &Site,
    stacks: &mut Stacks,
    unnamed: &mut BTreeMap<(String, String), usize>,
    no_line: &mut BTreeMap<String, usize>,
) {
    let Some(frame) = crate::names::shown(site) else {
        stacks.without_frames += 1;
        return;
    };
    if frame.function.is_empty() {
        stacks.unnamed += 1;
        *unnamed
            .entry((frame.module.clone(), frame.unknown.clone()))
            .or_default() += 1;
    } else if frame.line == 0 {
        stacks.without_line += 1;
        *no_line.entry(frame.module.clone()).or_default() += 1;
    }
}

fn most_first<T>(items: impl Iterator<Item = T>, count: impl Fn(&T) -> usize) -> Vec<T> {
    let mut items: Vec<_> = items.collect();
    items.sort_by_key(|item| std::cmp::Reverse(count(item)));
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::{Process, SiteFrame, SiteId, Thread, Use};

    #[test]
    fn losses_add_up_over_processes_and_missing_numbers_come_first() {
        let process = |drops: &[(&str, u64)]| Process {
            drops: drops.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect(),
            ..Process::default()
        };
        let model = Model {
            processes: vec![
                process(&[("stack-truncated", 900), ("reentrant", 2)]),
                process(&[
                    ("reentrant", 3),
                    ("thread-reused", 0),
                    ("from-the-future", 1),
                ]),
            ],
            ..Model::default()
        };
        let got: Vec<_> = losses(&model)
            .into_iter()
            .map(|l| (l.reason, l.count))
            .collect();
        let want = [
            ("reentrant", 5),
            ("from-the-future", 1),
            ("stack-truncated", 900),
        ];
        assert_eq!(got, want.map(|(r, n)| (r.to_owned(), n)));
    }

    #[test]
    fn cost_counts_contended_calls_as_stacks_once() {
        let model = Model {
            meta: convoy_profile::Meta {
                sample_period: 64,
                ..Default::default()
            },
            threads: vec![Thread {
                cpu_ns: 1_000_000,
                ..Thread::default()
            }],
            uses: vec![Use {
                calls: 6_410,
                waits: 10,
                ..Use::default()
            }],
            ..Model::default()
        };
        let cost = cost(&model);
        assert_eq!((cost.calls, cost.stacks), (6_410, 110));
        assert_eq!(cost.cpu_ns, 6_410.0 + 110.0 * 200.0);
        assert!((cost.cpu_ratio - 0.028_41).abs() < 1e-9, "{cost:?}");
    }

    #[test]
    fn only_sites_in_use_are_judged() {
        let named = |function: &str, line| Site {
            frames: vec![SiteFrame {
                function: function.into(),
                line,
                module: "app".into(),
                unknown: if function.is_empty() {
                    "no symbol".into()
                } else {
                    String::new()
                },
                ..SiteFrame::default()
            }],
            ..Site::default()
        };
        let model = Model {
            sites: vec![
                named("f", 1),
                named("g", 0),
                named("", 0),
                Site::default(),
                named("", 0),
            ],
            uses: (0..4)
                .map(|i| Use {
                    site: SiteId(i),
                    ..Use::default()
                })
                .collect(),
            ..Model::default()
        };
        let stacks = stacks(&model);
        assert_eq!(
            (
                stacks.sites,
                stacks.without_frames,
                stacks.unnamed,
                stacks.without_line
            ),
            (4, 1, 1, 1)
        );
        assert_eq!(
            stacks.unnamed_by_module,
            [("app".into(), "no symbol".into(), 1)]
        );
        assert_eq!(stacks.no_line_by_module, [("app".into(), 1)]);
    }
}
