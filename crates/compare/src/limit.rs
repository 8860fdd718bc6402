//! Limits for a gate: `lock.wait_share>+5pp`.
//!
//! ```text
//! limit  = metric ("[" name "]")? (">" | "<") bound
//! metric = "wall" | "cpu" | "locks.wait_share" | "lock." ("wait_share" | "wait" | "contended" | "acquisitions")
//!        | "findings" | "findings.new" | "gain" | "gain.new"
//! bound  = sign? number unit?         with a sign: of the change; without: of the value after
//! unit   = "pp" (percentage points) | "%" | "ns" | "us" | "ms" | "s" | "x"
//! ```

use convoy_report::human::{count, duration, factor, percent};

use crate::change::Change;
use crate::compare::{Comparison, FindingChange, LockChange, Status};
use crate::gate::Breach;
use crate::inconclusive::{self, Doubt, Matter, Sides};

/// A limit that was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    text: String,
    metric: Metric,
    /// Part of the name of a lock.
    name: Option<String>,
    above: bool,
    bound: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metric {
    Wall,
    Cpu,
    AllWaitShare,
    WaitShare,
    Wait,
    Contended,
    Acquisitions,
    Findings,
    FindingsNew,
    Gain,
    GainNew,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// The value after.
    Value(f64),
    /// After minus before, in the metric's unit.
    Difference(f64),
    /// After over before, minus 1.
    Relative(f64),
}

const METRICS: &[(&str, Metric)] = &[
    ("wall", Metric::Wall),
    ("cpu", Metric::Cpu),
    ("locks.wait_share", Metric::AllWaitShare),
    ("lock.wait_share", Metric::WaitShare),
    ("lock.wait", Metric::Wait),
    ("lock.contended", Metric::Contended),
    ("lock.acquisitions", Metric::Acquisitions),
    ("findings", Metric::Findings),
    ("findings.new", Metric::FindingsNew),
    ("gain", Metric::Gain),
    ("gain.new", Metric::GainNew),
];

/// What a metric is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Time,
    Share,
    Count,
    Factor,
}

impl Metric {
    fn unit(self) -> Unit {
        match self {
            Self::Wall | Self::Cpu | Self::Wait => Unit::Time,
            Self::AllWaitShare | Self::WaitShare => Unit::Share,
            Self::Contended | Self::Acquisitions | Self::Findings | Self::FindingsNew => {
                Unit::Count
            }
            Self::Gain | Self::GainNew => Unit::Factor,
        }
    }

    fn of_lock(self) -> bool {
        matches!(
            self,
            Self::WaitShare | Self::Wait | Self::Contended | Self::Acquisitions
        )
    }

    /// What it is made of.
    fn matter(self) -> Matter {
        match self {
            Self::Wall => Matter::RunTime,
            Self::Cpu => Matter::CpuTime,
            Self::AllWaitShare | Self::WaitShare => Matter::LockShare,
            Self::Wait | Self::Contended | Self::Acquisitions => Matter::LockSum,
            Self::Findings | Self::FindingsNew | Self::Gain | Self::GainNew => Matter::Findings,
        }
    }

    /// It has a value before that one can compare with.
    fn changes(self) -> bool {
        !matches!(self, Self::FindingsNew | Self::GainNew)
    }
}

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text
            .find(['>', '<'])
            .ok_or("no > or < in it: write for example lock.wait_share>+5pp")?;
        let (left, right) = text.split_at(at);
        let above = right.starts_with('>');
        let (metric, name) = match left.trim().strip_suffix(']').map(|l| l.split_once('[')) {
            Some(Some((metric, name))) => (metric, Some(name.to_owned())),
            Some(None) => return Err("a ] without a [".into()),
            None => (left.trim(), None),
        };
        // The name may also stand behind "lock": lock[cache].wait_share.
        let (metric, name) = match (metric.split_once('['), name) {
            (Some((head, rest)), None) => match rest.split_once(']') {
                Some((name, tail)) => (format!("{head}{tail}"), Some(name.to_owned())),
                None => return Err("a [ without a ]".into()),
            },
            (_, name) => (metric.to_owned(), name),
        };
        let known = METRICS.iter().find(|(word, _)| *word == metric);
        let Some(&(_, metric)) = known else {
            let words: Vec<_> = METRICS.iter().map(|(word, _)| *word).collect();
            return Err(format!(
                "no metric {metric:?}; one of: {}",
                words.join(", ")
            ));
        };
        if name.is_some() && !metric.of_lock() {
            return Err("only the metrics of a lock take a name".into());
        }
        let bound = bound(right.get(1..).unwrap_or_default().trim(), metric)?;
        Ok(Self {
            text: text.to_owned(),
            metric,
            name,
            above,
            bound,
        })
    }
}

fn bound(text: &str, metric: Metric) -> Result<Bound, String> {
    let signed = text.starts_with(['+', '-']);
    let end = text
        .trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%')
        .len();
    let (number, unit) = text.split_at(end);
    let number: f64 = number
        .trim()
        .parse()
        .ok()
        .filter(|n: &f64| n.is_finite())
        .ok_or_else(|| format!("{text:?} is no number with a unit: +5pp, +10%, 2s"))?;
    if signed && !metric.changes() {
        return Err("what is new has no value before: write it without a sign".into());
    }
    let scale = match (metric.unit(), unit) {
        // A percentage with a sign is of the value before, whatever it is measured in.
        (_, "%") if signed => return Ok(Bound::Relative(number / 100.0)),
        (Unit::Share, "pp") if signed => 0.01,
        (Unit::Share, "%") => 0.01,
        (Unit::Time, "ns") => 1.0,
        (Unit::Time, "us") => 1e3,
        (Unit::Time, "ms") => 1e6,
        (Unit::Time, "s") => 1e9,
        (Unit::Count | Unit::Factor, "") | (Unit::Factor, "x") => 1.0,
        (Unit::Time, "") => return Err("a time needs a unit: ns, us, ms, s".into()),
        (Unit::Share, "") => return Err("a share needs a unit: 10%, +5pp".into()),
        (_, unit) => return Err(format!("the unit {unit:?} does not fit the metric")),
    };
    if metric.unit() == Unit::Count && number.fract() != 0.0 {
        return Err(format!("{number} is no count: write a whole number"));
    }
    Ok(if signed {
        Bound::Difference(number * scale)
    } else {
        Bound::Value(number * scale)
    })
}

impl Limit {
    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where a comparison goes beyond it; empty: it holds. With three or more runs a side the whole 95 %
    /// interval must be beyond it, so that noise alone trips it rarely; with fewer, the mean.
    ///
    /// # Errors
    /// The comparison cannot know.
    pub fn check(&self, c: &Comparison) -> Result<Vec<Breach>, Doubt> {
        let unknown = inconclusive::of(c, self.metric.matter(), self.sides());
        match unknown.or_else(|| self.names_nothing(c)) {
            Some(doubt) => Err(doubt),
            None => Ok(self.breaches(c)),
        }
    }

    /// A name that is nowhere would hold for ever. A lock that is gone after the change has a side that knows it.
    fn names_nothing(&self, c: &Comparison) -> Option<Doubt> {
        /// Names that are offered.
        const OFFERED: usize = 5;
        let name = self.name.as_ref()?;
        let locks = || c.locks.iter().filter(|lock| lock.is_lock);
        if locks().any(|lock| self.means(lock)) {
            return None;
        }
        let names: Vec<_> = locks().map(|lock| lock.name.as_str()).collect();
        let offered = names.get(..OFFERED).unwrap_or(&names).join(", ");
        let there = match names.len().saturating_sub(OFFERED) {
            _ if names.is_empty() => "there are no locks at all".to_owned(),
            0 => format!("locks there are: {offered}"),
            more => format!("locks there are: {offered} and {more} more"),
        };
        Some(Doubt::new(
            format!("no lock of either side is called {name}, so that the limit could only hold; {there}"),
            "correct the name; if the lock is gone for good, take the limit away",
        ))
    }

    /// A value without a sign is that of the runs after; what is new is new against those before.
    fn sides(&self) -> Sides {
        match self.bound {
            Bound::Value(_) if self.metric.changes() => Sides::After,
            _ => Sides::Both,
        }
    }

    fn breaches(&self, c: &Comparison) -> Vec<Breach> {
        let breach = |what: &str, change: &Change| {
            self.beyond(change).then(|| Breach {
                limit: self.text.clone(),
                found: format!("{what}: {}", self.values(change)),
            })
        };
        let one = |what: &str, change: &Change| breach(what, change).into_iter().collect();
        match self.metric {
            Metric::Wall => one("run time", &c.wall_ns),
            Metric::Cpu => one("CPU time", &c.cpu_ns),
            Metric::AllWaitShare => one("waits for all locks", &c.lock_wait_share),
            Metric::Findings => one("findings", &findings(c)),
            Metric::FindingsNew => {
                let new = c.findings.iter().filter(|f| f.status == Status::Came);
                let found: Vec<_> = new.clone().map(|f| f.title.as_str()).collect();
                let what = format!("new findings ({})", found.join("; "));
                one(&what, &value(new.count() as f64))
            }
            Metric::Gain => one("largest predicted gain", &largest_gain(c)),
            Metric::GainNew => {
                let new = c.findings.iter().filter(|f| f.status == Status::Came);
                let gain = |f: &FindingChange| f.gain[1].unwrap_or(1.0);
                new.filter_map(|f| breach(&f.title, &value(gain(f))))
                    .collect()
            }
            Metric::WaitShare | Metric::Wait | Metric::Contended | Metric::Acquisitions => c
                .locks
                .iter()
                .filter(|lock| lock.is_lock && self.means(lock))
                .filter_map(|lock| breach(&lock.name, self.of(lock)))
                .collect(),
        }
    }

    fn means(&self, lock: &LockChange) -> bool {
        self.name
            .as_ref()
            .is_none_or(|name| lock.names.iter().any(|known| known.contains(name)))
    }

    fn of<'a>(&self, lock: &'a LockChange) -> &'a Change {
        match self.metric {
            Metric::Wait => &lock.wait_ns,
            Metric::Contended => &lock.contended,
            Metric::Acquisitions => &lock.acquisitions,
            _ => &lock.wait_share,
        }
    }

    fn beyond(&self, change: &Change) -> bool {
        let of = |before: f64, after: f64| match self.bound {
            Bound::Value(_) => after,
            Bound::Difference(_) => after - before,
            // From nothing to something is more than any factor.
            Bound::Relative(_) if before == 0.0 => {
                if after > 0.0 {
                    f64::INFINITY
                } else {
                    0.0
                }
            }
            Bound::Relative(_) => after / before - 1.0,
        };
        let (Bound::Value(bound) | Bound::Difference(bound) | Bound::Relative(bound)) = self.bound;
        let mean = of(change.mean_before(), change.mean_after());
        let (low, high) = change.interval(of).unwrap_or((mean, mean));
        if self.above {
            low > bound
        } else {
            high < bound
        }
    }

    fn values(&self, change: &Change) -> String {
        let text = |value: f64| match self.metric.unit() {
            Unit::Time => duration(value),
            Unit::Share => percent(value),
            Unit::Count => count(value.round() as u64),
            Unit::Factor => factor(value),
        };
        let after = text(change.mean_after());
        if change.before.is_empty() {
            after
        } else {
            format!("{} before, {after} after", text(change.mean_before()))
        }
    }
}

/// A value that has none before.
fn value(after: f64) -> Change {
    Change {
        before: Vec::new(),
        after: vec![after],
    }
}

fn findings(c: &Comparison) -> Change {
    let on = |side: usize| {
        let there = c.findings.iter().filter(|f| {
            let gone = if side == 0 {
                Status::Came
            } else {
                Status::Went
            };
            f.status != gone
        });
        vec![there.count() as f64]
    };
    Change {
        before: on(0),
        after: on(1),
    }
}

fn largest_gain(c: &Comparison) -> Change {
    let on = |side: usize| {
        let gone = if side == 0 {
            Status::Came
        } else {
            Status::Went
        };
        let there = c.findings.iter().filter(|f| f.status != gone);
        vec![there.filter_map(|f| f.gain[side]).fold(1.0, f64::max)]
    };
    Change {
        before: on(0),
        after: on(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_documented() {
        let bound = |text: &str| text.parse::<Limit>().map(|l| l.bound);
        assert_eq!(bound("lock.wait_share>+5pp"), Ok(Bound::Difference(0.05)));
        assert_eq!(bound("lock.wait_share>10%"), Ok(Bound::Value(0.1)));
        assert_eq!(bound("wall > +5%"), Ok(Bound::Relative(0.05)));
        assert_eq!(bound("wall>2s"), Ok(Bound::Value(2e9)));
        assert_eq!(bound("cpu>+10ms"), Ok(Bound::Difference(1e7)));
        assert_eq!(bound("findings.new>0"), Ok(Bound::Value(0.0)));
        assert_eq!(bound("gain>1.2x"), Ok(Bound::Value(1.2)));
        assert_eq!(bound("findings>+1.5%"), Ok(Bound::Relative(0.015)));
        let named = |text: &str| text.parse::<Limit>().unwrap().name;
        assert_eq!(named("lock[cache].contended<-5%").as_deref(), Some("cache"));
        assert_eq!(named("lock.contended[a[3]]>7").as_deref(), Some("a[3]"));
    }

    #[test]
    fn what_is_no_limit_is_refused_with_a_reason() {
        for (text, why) in [
            ("wall", "no > or <"),
            ("speed>1", "one of: wall, cpu"),
            ("wall>5", "needs a unit"),
            ("lock.wait_share>5", "needs a unit"),
            ("wall>+5pp", "does not fit"),
            ("lock.wait_share>5pp", "does not fit"),
            ("findings.new>+1", "without a sign"),
            ("wall[x]>1s", "only the metrics of a lock"),
            ("findings>1.5", "1.5 is no count: write a whole number"),
            ("lock.contended>+0.5", "whole number"),
            ("gain>x", "no number"),
            ("wall>", "no number"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn noise_does_not_trip_a_limit_when_there_are_runs_to_see_it() {
        let limit: Limit = "wall>+5%".parse().unwrap();
        let once = |before: f64, after: f64| Change {
            before: vec![before],
            after: vec![after],
        };
        assert!(limit.beyond(&once(1.0, 1.06)) && !limit.beyond(&once(1.0, 1.04)));
        let noisy = Change {
            before: vec![1.0, 1.3, 0.8],
            after: vec![1.1, 1.4, 0.9],
        };
        assert!(!limit.beyond(&noisy));
        assert!(limit.beyond(&once(0.0, 0.1)) && !limit.beyond(&once(0.0, 0.0)));
    }
}
