//! A session as a profile: its curves, and what ran.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use convoy_live::{Changes, Curve, Request, Roster};
use convoy_profile::{
    Exit, LiveCurve, LiveCurves, LiveMark, LiveMarkKind, LivePoint, LiveThread, Meta, Process,
    Profile, Thread, MOST_LIVE_CURVES, MOST_LIVE_MARKS, MOST_LIVE_POINTS, MOST_LIVE_THREADS,
};

use super::engine::Engine;
use crate::message::Message;

/// Characters of a reason that are kept.
const REASON: usize = 200;

/// What of a session would be lost otherwise: curves that were removed, and what happened.
#[derive(Debug, Default)]
pub struct Kept {
    removed: Vec<LiveCurve>,
    marks: Vec<LiveMark>,
    left_out: u64,
}

impl Kept {
    /// Threads that began and ended since the sample before.
    pub fn sampled(&mut self, at: Duration, changes: &Changes) {
        let text = |name: &str, tid: u32| format!("{name} ({tid})");
        for thread in &changes.born {
            self.mark(
                at,
                LiveMarkKind::ThreadBegan,
                text(&thread.name, thread.tid),
            );
        }
        for thread in &changes.ended {
            self.mark(
                at,
                LiveMarkKind::ThreadEnded,
                text(&thread.name, thread.tid),
            );
        }
    }

    /// A curve was added.
    pub fn added(&mut self, at: Duration, request: &Request) {
        self.mark(at, LiveMarkKind::CurveAdded, request.to_string());
    }

    /// A curve is going to be removed.
    pub fn removed(&mut self, at: Duration, curve: &Curve, roster: &Roster) {
        self.mark(at, LiveMarkKind::CurveRemoved, curve.request.to_string());
        match self.removed.len() < MOST_LIVE_CURVES {
            true => self.removed.push(kept(curve, roster)),
            false => self.left_out += 1,
        }
    }

    fn mark(&mut self, at: Duration, kind: LiveMarkKind, text: String) {
        match self.marks.len() < MOST_LIVE_MARKS {
            true => self.marks.push(LiveMark {
                t_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
                kind,
                text,
            }),
            false => self.left_out += 1,
        }
    }
}

/// The session as it is now.
pub fn profile(engine: &Engine) -> Profile {
    let kept = engine.kept();
    let length = engine.elapsed();
    let mut curves = kept.removed.clone();
    let (session, roster) = (engine.session(), engine.session().threads());
    curves.extend(session.curves().map(|(_, curve)| self::kept(curve, roster)));
    let beyond = curves.len().saturating_sub(MOST_LIVE_CURVES);
    curves.truncate(MOST_LIVE_CURVES);
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let pid = engine.pid();
    let mut command = convoy_capture::command_line(pid);
    if command.is_empty() {
        command.push(engine.process().to_owned());
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let threads = roster.all().map(|thread| Thread {
        tid: thread.tid,
        name: thread.name.clone(),
        ..Thread::default()
    });
    Profile {
        meta: Meta {
            convoy_version: env!("CARGO_PKG_VERSION").into(),
            started_unix_ns: ns(now.saturating_sub(length)),
            command: command.clone(),
            end_ns: ns(length),
            exit: Exit::Running,
            machine: convoy_capture::machine(),
            sample_period: 1,
            ..Meta::default()
        },
        processes: vec![Process {
            pid,
            exe: exe.to_string_lossy().into_owned(),
            args: command,
            end_ns: ns(length),
            threads: threads.collect(),
            without_agent: true,
            ..Process::default()
        }],
        live_curves: Some(LiveCurves {
            every_ns: ns(engine.every()),
            length_ns: ns(length),
            marks: kept.marks.clone(),
            left_out: kept.left_out + beyond as u64,
            curves,
        }),
        ..Profile::default()
    }
}

/// Writes it, and says where.
pub fn save(profile: &Profile, to: &Path, quiet: bool) -> Result<(), Message> {
    convoy_capture::write_profile(to, profile).map_err(|e| Message::from(e.trouble()))?;
    if !quiet {
        crate::record::say_written(to);
    }
    Ok(())
}

fn kept(curve: &Curve, roster: &Roster) -> LiveCurve {
    let description = curve.request.metric.describe();
    let skipped = curve.points.len().saturating_sub(MOST_LIVE_POINTS);
    let points = || curve.points.iter().skip(skipped);
    let finite = |x: f64| x.is_finite().then_some(x);
    let mut sums: HashMap<u32, f64> = HashMap::new();
    for (tid, value) in points().flat_map(|point| &point.by_thread) {
        *sums.entry(*tid).or_default() += value;
    }
    let mut tids: Vec<(u32, f64)> = sums.into_iter().collect();
    tids.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let threads = tids
        .iter()
        .take(MOST_LIVE_THREADS)
        .map(|(tid, _)| LiveThread {
            tid: *tid,
            name: roster
                .get(*tid)
                .map(|thread| thread.name.clone())
                .unwrap_or_default(),
            values: points()
                .map(|point| {
                    let own = point.by_thread.iter().find(|(of, _)| of == tid);
                    own.and_then(|(_, value)| finite(*value))
                })
                .collect(),
        });
    LiveCurve {
        metric: description.name.into(),
        focus: curve.request.focus.to_string(),
        unit: description.unit.symbol().into(),
        kind: description.kind.name().into(),
        threads: threads.collect(),
        threads_left_out: tids.len().saturating_sub(MOST_LIVE_THREADS) as u64,
        points: points()
            .map(|point| LivePoint {
                t_ms: point.t_ms,
                value: point.value.and_then(finite),
                gap: point
                    .gap
                    .iter()
                    .flat_map(|gap| gap.chars().take(REASON))
                    .collect(),
                cost_ratio: finite(point.cost_share).unwrap_or_default(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_live::{Governor, Prices, Session, Snapshot};

    #[test]
    fn the_threads_with_most_are_kept_with_a_value_for_each_point() {
        let mut session = Session::new(Governor {
            budget: 0.03,
            prices: Prices::default(),
        });
        let mut probes = super::super::probes::LazyProbes::new(0, std::time::Instant::now());
        let request = "cpu".parse().unwrap();
        let id = session
            .add(&mut probes, request, &convoy_live::Place::default())
            .unwrap();
        for t in 0..=2_u64 {
            let thread = |tid: u32| convoy_live::Thread {
                tid,
                pid: 1,
                name: format!("pool-{tid}"),
                process: "server".into(),
                group: "pool-#".into(),
                start_ticks: 1,
                state: 'R',
                cpu_ns: Some(t * u64::from(tid) * 10_000_000),
                run_queue_ns: None,
                switches: None,
                cmetric_ns: None,
                read_bytes: None,
                write_bytes: None,
            };
            let threads: Vec<_> = (1..=20).map(thread).collect();
            session
                .sample(&mut probes, t * 1000, Snapshot::from(threads), None)
                .unwrap();
        }
        let curve = kept(session.curve(id).unwrap(), session.threads());
        assert_eq!((curve.metric.as_str(), curve.unit.as_str()), ("cpu", "s/s"));
        assert_eq!(curve.threads.len(), MOST_LIVE_THREADS);
        assert_eq!(curve.threads_left_out, 4);
        assert_eq!(
            (curve.threads[0].tid, curve.threads[0].name.as_str()),
            (20, "pool-20")
        );
        assert_eq!(curve.threads[0].values.len(), curve.points.len());
        assert_eq!(curve.threads[0].values.last().unwrap(), &Some(0.2));
    }
}
