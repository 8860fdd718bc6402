//! Where the threads' time went, by role: what the first screen shows where no scheduler events
//! were recorded.

use convoy_analysis::counters::GroupRow;
use convoy_model::finding::{Finding, Subject};
use convoy_model::GroupId;
use convoy_report::{names, subject, Report};

use super::band::{Part, PARTS};
use super::focus::limiting;
use crate::roles::Roles;

/// Roles with a bar.
const BARS: usize = 6;

/// A role's time.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// Its place in [`Roles::list`].
    pub(crate) role: usize,
    /// Nanoseconds by [`Part`].
    pub(crate) parts: [f64; PARTS],
}

#[derive(Debug)]
pub(crate) struct GroupTime {
    /// Most time first.
    pub(crate) bars: Vec<Bar>,
    pub(crate) culprit: String,
    pub(crate) blocked: String,
    /// Roles without a bar.
    pub(crate) left_out: usize,
}

/// `None`: no thread was seen.
pub(crate) fn group_time(
    report: &Report<'_>,
    first: Option<&Finding>,
    roles: &Roles,
) -> Option<GroupTime> {
    let marks = first.map_or_else(Marks::default, |finding| Marks::of(report, finding));
    let mut sums = vec![[0.0; PARTS]; roles.list.len()];
    for row in &report.analysis.groups {
        if let Some(sum) = roles.of_group(row.group).and_then(|at| sums.get_mut(at)) {
            for (sum, ns) in sum.iter_mut().zip(marks.parts(row)) {
                *sum += ns;
            }
        }
    }
    let bars = sums.into_iter().enumerate();
    let bars = bars.filter(|(_, parts)| parts.iter().sum::<f64>() > 0.0);
    let mut bars: Vec<_> = bars.map(|(role, parts)| Bar { role, parts }).collect();
    if bars.is_empty() {
        return None;
    }
    let marked = |bar: &Bar| bar.parts[Part::Culprit as usize] + bar.parts[Part::Blocked as usize];
    bars.sort_by(|a, b| {
        let total = |bar: &Bar| bar.parts.iter().sum::<f64>();
        let order = marked(b).total_cmp(&marked(a));
        order.then(total(b).total_cmp(&total(a)))
    });
    let left_out = bars.len().saturating_sub(BARS);
    bars.truncate(BARS);
    let is_there = |part: Part| bars.iter().any(|bar| bar.parts[part as usize] > 0.0);
    let text = |part, text: String| Some(text).filter(|_| is_there(part)).unwrap_or_default();
    Some(GroupTime {
        culprit: text(Part::Culprit, marks.culprit),
        blocked: text(Part::Blocked, marks.blocked),
        bars,
        left_out,
    })
}

/// Whose work, and which waits, the finding is about.
#[derive(Default)]
struct Marks {
    culprit: String,
    blocked: String,
    busy: Option<GroupId>,
    /// All waits of these for events.
    waiting: Vec<GroupId>,
    ids: subject::Ids,
}

impl Marks {
    fn of(report: &Report<'_>, finding: &Finding) -> Self {
        let ids = subject::ids(&finding.subject);
        let name = |id: GroupId| {
            let group = report.model.groups.get(id.0 as usize);
            group.map(names::group).unwrap_or_default()
        };
        if let Some(object) = ids.objects.first() {
            let name = match ids.objects.len() {
                1 => names::object_of(report.model, *object),
                _ => "these locks".into(),
            };
            return Self {
                blocked: format!("waits for {name}"),
                ids,
                ..Self::default()
            };
        }
        let Some(busy) = limiting(report, &ids.groups) else {
            return Self::default();
        };
        let is_stage = matches!(finding.subject, Subject::Groups(_));
        let others = ids.groups.iter().filter(|id| is_stage && **id != busy);
        Self {
            culprit: format!("{} works", name(busy)),
            blocked: "waits meanwhile".into(),
            busy: Some(busy),
            waiting: others.copied().collect(),
            ids,
        }
    }

    fn parts(&self, row: &GroupRow) -> [f64; PARTS] {
        let own = row.top_waits.iter();
        let own = own.filter(|(object, _)| self.ids.objects.contains(object));
        let mut blocked: u64 = own.map(|(_, ns)| *ns).sum();
        if self.waiting.contains(&row.group) {
            blocked = row.event_wait_ns;
        }
        let work = match self.busy == Some(row.group) {
            true => Part::Culprit,
            false => Part::Running,
        };
        let ready = row.run_delay_ns.unwrap_or(0);
        let mut parts = [0.0; PARTS];
        parts[work as usize] = row.busy_ns as f64;
        parts[Part::Blocked as usize] = blocked as f64;
        parts[Part::Ready as usize] = ready as f64;
        let known = row.busy_ns.saturating_add(blocked).saturating_add(ready);
        parts[Part::Other as usize] = row.life_ns.saturating_sub(known) as f64;
        parts
    }
}
