//! The value of a curve at a sample: which rows, threads and files it is made of, and why it is not
//! known, or incomplete.

use crate::curve::Curve;
use crate::focus::Key;
use crate::lock::{LockChanges, Role};
use crate::metric::Subject;
use crate::row::{NoTimer, Row, State};
use crate::session::{Session, SHORTEST};
use crate::value::{self, Measured, NO_THREAD};

impl Session {
    pub(crate) fn measure(&self, curve: &Curve, now_ms: u64, has_locks: bool) -> Measured {
        let (metric, focus) = (curve.request.metric, &curve.request.focus);
        let seconds = now_ms.saturating_sub(self.sampled_ms).max(1) as f64 / 1e3;
        let mut threads = self.roster.all();
        if focus.selects_threads() && !threads.any(|thread| focus.holds(&thread.name())) {
            return Measured::gap(NO_THREAD);
        }
        match curve.request.subject() {
            Subject::Thread => value::of_threads(metric, focus, &self.roster, seconds),
            Subject::Lock if !has_locks => Measured::gap("the agent is not in the program"),
            Subject::Lock => value::of_locks(metric, focus, &self.roster, &self.locks, seconds),
            Subject::Function | Subject::Program | Subject::File => self.measure_probed(curve),
        }
    }

    fn measure_probed(&self, curve: &Curve) -> Measured {
        let (metric, focus) = (curve.request.metric, &curve.request.focus);
        if let Some(why) = focus.get(Key::Holding).and_then(|l| unheld(l, &self.locks)) {
            return Measured::gap(why);
        }
        let is_inner = focus.get(Key::In).is_some();
        let rows = curve.rows.iter().filter_map(|id| self.rows.get(id));
        let rows = rows.filter(|row| row.gate.within.is_some() == is_inner);
        let rows = rows.map(|row| (row, self.seconds(row, self.read_ms)));
        let needs_timer = curve.request.needs_timer();
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        for (row, seconds) in rows {
            match gap(row, seconds, needs_timer) {
                None => known.push((row, seconds)),
                // One of several functions that are measured together.
                Some((why, true)) if curve.request.subject() != Subject::Function => {
                    missing.push((row.function.name.as_str(), why));
                }
                Some((why, _)) => return Measured::gap(why),
            }
        }
        let missing = left_out(&missing);
        if known.is_empty() {
            return Measured::gap(missing.unwrap_or_else(|| "nothing is measured".into()));
        }
        if focus.selects_threads() && known.iter().any(|(row, _)| row.uprobe_ns.is_some()) {
            return Measured::gap("a uprobe counts the calls of all threads together");
        }
        let measured = match curve.io_group {
            Some(group) => {
                let seconds = known.iter().map(|(_, seconds)| *seconds);
                let seconds = seconds.fold(SHORTEST, f64::max);
                self.descriptors
                    .measure((metric, focus), group, &self.roster, seconds)
            }
            None => value::of_rows(metric, focus, &self.roster, known.into_iter()),
        };
        let lost = self.lost_calls.change();
        let lost = (lost > 0).then(|| {
            format!(
                "{lost} calls of probed functions are left out: the program has more threads than \
                 there was room for"
            )
        });
        [missing, lost]
            .into_iter()
            .flatten()
            .fold(measured, Measured::incomplete)
    }
}

/// Functions without a probe, among several that are measured together.
fn left_out(missing: &[(&str, String)]) -> Option<String> {
    let (name, why) = missing.first()?;
    let others = match missing.len() {
        1 => String::new(),
        n => format!(", and of {} others", n - 1),
    };
    let names: Vec<&str> = missing.iter().skip(1).map(|(name, _)| *name).collect();
    let others = match names.len() {
        1..=4 => format!(", and those of {}", names.join(", ")),
        _ => others,
    };
    Some(format!("calls of {name} are left out ({why}){others}"))
}

/// Why nothing can be held that a focus names.
fn unheld(pattern: &str, locks: &LockChanges) -> Option<String> {
    let all = locks.latest.locks.iter();
    let mut meant = all.filter(|lock| lock.answers_to(pattern)).peekable();
    match meant.peek() {
        None => Some(format!("no lock answers to {pattern} so far")),
        Some(first) => {
            let (name, kind) = (first.name.clone(), first.kind.clone());
            let is_held = |lock: &crate::lock::Lock| lock.role == Role::Lock && lock.has_holder;
            let is_there = meant.any(is_held);
            (!is_there).then(|| format!("{name} is a {kind}: which thread holds it is not seen"))
        }
    }
}

/// Why a row has no value, and whether that stays so.
fn gap(row: &Row, seconds: f64, needs_timer: bool) -> Option<(String, bool)> {
    match &row.state {
        State::New => return Some(("not in yet".into(), false)),
        State::Out { why } => return Some((why.clone(), true)),
        State::Counting | State::Timing => {}
    }
    if row.gate.is_there() && !row.is_confined {
        let why = match row.gate.within {
            Some(_) => "the function that it is confined to is not timed (yet)",
            None => "the rate of all its calls is being measured",
        };
        return Some((why.into(), false));
    }
    if needs_timer && row.state != State::Timing {
        return Some(match row.no_timer.as_ref().map(NoTimer::why) {
            Some(why) => (why.into(), true),
            None => ("the rate of its calls is being measured".into(), false),
        });
    }
    (seconds < SHORTEST).then(|| ("just put in".into(), false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Lock, LockReading};

    #[test]
    fn functions_without_a_probe_are_named() {
        let why = || "an exit is too short".to_owned();
        assert_eq!(left_out(&[]), None);
        let one = left_out(&[("calloc", why())]).unwrap();
        assert_eq!(one, "calls of calloc are left out (an exit is too short)");
        let two = left_out(&[("calloc", why()), ("memalign", why())]).unwrap();
        assert!(two.ends_with(", and those of memalign"), "{two}");
        let many: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|n| (n, why())).into();
        assert!(left_out(&many).unwrap().ends_with(", and of 5 others"));
    }

    #[test]
    fn only_locks_with_a_holder_can_be_held() {
        let lock = |has_holder| Lock {
            name: "queue".into(),
            kind: "futex".into(),
            has_holder,
            ..Lock::default()
        };
        let mut changes = LockChanges::default();
        assert!(unheld("queue", &changes)
            .unwrap()
            .contains("no lock answers"));
        let with = |lock| LockReading {
            locks: vec![lock],
            uses: Vec::new(),
        };
        changes.update(with(lock(false)));
        assert!(unheld("queue", &changes).unwrap().contains("is a futex"));
        changes.update(with(lock(true)));
        assert_eq!(unheld("queue", &changes), None);
    }
}
