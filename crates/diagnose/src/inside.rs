//! Locks that are taken inside sections of other locks.

use std::collections::BTreeMap;

use convoy_model::{is_blocking_acquire, Called, Model, ObjectId, SectionSite, Sections, SiteId};

use crate::rows::InsideRow;
use crate::Thresholds;

/// Which lock lies in which.
pub(crate) struct Inside {
    pub(crate) rows: Vec<InsideRow>,
}

/// Fewer acquisitions of an inner lock say nothing.
const MIN_CALLS: u64 = 20;

pub(crate) fn inside(model: &Model, sections: &Sections) -> Inside {
    #[derive(Default)]
    struct Sum {
        calls: u64,
        run: f64,
        by_site: BTreeMap<SiteId, u64>,
    }
    let mut sums: BTreeMap<(ObjectId, ObjectId), Sum> = BTreeMap::new();
    for call in &sections.calls {
        let (Called::Op(op, Some(inner)), Some(site)) =
            (call.what, sections.sites.get(call.site as usize))
        else {
            continue;
        };
        let Some(outer) = site.object.filter(|&outer| outer != inner) else {
            continue;
        };
        if is_blocking_acquire(op) {
            let sum = sums.entry((inner, outer)).or_default();
            sum.calls += call.n;
            let each = call.n as f64 / site.traced().max(1) as f64;
            let run = each * acquisitions(model, site) as f64;
            sum.run += run;
            *sum.by_site.entry(site.site).or_default() += run as u64;
        }
    }
    let always = Thresholds::default().always;
    let mut totals: BTreeMap<ObjectId, u64> = BTreeMap::new();
    for row in model
        .uses
        .iter()
        .filter(|row| row.op.is_some_and(is_blocking_acquire))
    {
        *totals.entry(row.object).or_default() += row.calls;
    }
    let rows = sums.into_iter().filter_map(|((inner, outer), sum)| {
        let total = totals.get(&inner).copied().unwrap_or(0).max(sum.calls);
        let share = (sum.run / total as f64).min(1.0);
        Some(InsideRow {
            inner,
            outer,
            outer_site: sum
                .by_site
                .iter()
                .max_by_key(|(_, run)| **run)
                .map(|(site, _)| *site)?,
            acquisitions: sum.run,
            share,
            always: share >= always && sum.calls >= MIN_CALLS,
        })
    });
    let mut rows: Vec<InsideRow> = rows.collect();
    rows.sort_by(|a, b| {
        b.acquisitions
            .total_cmp(&a.acquisitions)
            .then(a.inner.cmp(&b.inner))
    });
    Inside { rows }
}

/// Sections of a site that ran: as the agent counted, which sees those after the last traced one as well.
pub(crate) fn acquisitions(model: &Model, site: &SectionSite) -> u64 {
    let Some(object) = site.object else {
        return site.run;
    };
    let here = |row: &&convoy_model::Use| row.site == site.site && row.op == site.op;
    let counted = model.uses_of(object).iter().filter(here);
    counted.map(|row| row.calls).sum::<u64>().max(site.run)
}

impl Inside {
    /// The lock that is always held when this one is taken.
    pub(crate) fn always(&self, inner: ObjectId) -> Option<&InsideRow> {
        self.rows
            .iter()
            .find(|row| row.inner == inner && row.always)
    }

    /// Locks that are only ever taken while this one is held.
    pub(crate) fn below(&self, outer: ObjectId) -> Vec<&InsideRow> {
        let rows = self.rows.iter();
        rows.filter(|row| row.outer == outer && row.always)
            .collect()
    }
}
