//! Families: locks that are taken at the same sites (one per bucket, row, connection, ...).
//!
//! The key is the whole call stack, not the function that calls `pthread_mutex_lock`: a program's
//! own lock wrapper would make one family of all its locks.

use std::collections::BTreeMap;

use convoy_model::{ObjectId, SiteId};

use crate::facts::asymmetry;
use crate::facts::operations::Role;
use crate::facts::process_view::ProcessView;
use crate::params::Params;
use crate::tables::counters::FamilyRow;
use crate::tables::locks::{sort_by_wait, Sum};

/// A site ties its locks together if it makes at least this share of each one's acquisitions.
const TIE_SHARE: f64 = 0.25;

/// The families of a process.
#[derive(Debug, Default)]
pub(crate) struct Families {
    pub rows: Vec<FamilyRow>,
    of: BTreeMap<ObjectId, usize>,
}

impl Families {
    pub(crate) fn of_view(view: &ProcessView, t: &Params) -> Self {
        let members = members(view);
        let mut rows: Vec<FamilyRow> = members
            .into_iter()
            .map(|locks| row(view, locks, t))
            .collect();
        sort_by_wait(&mut rows, |r| {
            (&r.stats, r.locks.first().map_or(0, |id| id.0))
        });
        let of = rows
            .iter()
            .enumerate()
            .flat_map(|(i, r)| r.locks.iter().map(move |id| (*id, i)))
            .collect();
        Self { rows, of }
    }

    /// Index into `rows` of a lock's family, if it has one.
    pub(crate) fn of(&self, id: ObjectId) -> Option<usize> {
        self.of.get(&id).copied()
    }
}

/// Sets of two or more locks tied by common sites.
fn members(view: &ProcessView) -> Vec<Vec<ObjectId>> {
    let mut taken: BTreeMap<ObjectId, f64> = BTreeMap::new();
    let mut taken_at: BTreeMap<(SiteId, ObjectId), f64> = BTreeMap::new();
    for u in view.uses().iter().filter(|u| view.locks.contains(u.object)) {
        if let Some(Role::Acquire | Role::AcquireShared | Role::Try) = view.role(u) {
            let n = u.calls.max(u.waits) as f64;
            *taken.entry(u.object).or_default() += n;
            *taken_at.entry((u.site, u.object)).or_default() += n;
        }
    }
    let ids: Vec<ObjectId> = taken.keys().copied().collect();
    let local: BTreeMap<ObjectId, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
    let mut parent: Vec<usize> = (0..ids.len()).collect();
    let mut at_site: Option<(SiteId, usize)> = None;
    for ((site, object), n) in &taken_at {
        let known = view
            .model
            .sites
            .get(site.0 as usize)
            .is_none_or(|s| !s.frames.is_empty());
        if !known || *n < TIE_SHARE * taken[object] {
            continue;
        }
        let lock = local[object];
        match at_site {
            Some((s, other)) if s == *site => {
                let (a, b) = (root(&mut parent, other), root(&mut parent, lock));
                parent[a] = b;
            }
            _ => at_site = Some((*site, lock)),
        }
    }
    let mut sets: BTreeMap<usize, Vec<ObjectId>> = BTreeMap::new();
    for (i, id) in ids.iter().enumerate() {
        sets.entry(root(&mut parent, i)).or_default().push(*id);
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

fn root(parent: &mut [usize], mut i: usize) -> usize {
    while parent[i] != i {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    i
}

fn row(view: &ProcessView, locks: Vec<ObjectId>, t: &Params) -> FamilyRow {
    let mut all = Sum::default();
    let mut sites: BTreeMap<SiteId, u64> = BTreeMap::new();
    let mut per_lock = Vec::with_capacity(locks.len());
    for id in locks {
        let mut one = Sum::default();
        for u in view.uses_of(id) {
            all.add(view, u);
            one.add(view, u);
            if matches!(
                view.role(u),
                Some(Role::Acquire | Role::AcquireShared | Role::Try)
            ) {
                *sites.entry(u.site).or_default() += u.calls.max(u.waits);
            }
        }
        per_lock.push((id, one.finish(view, t)));
    }
    sort_by_wait(&mut per_lock, |(id, s)| (s, id.0));
    let mut row = FamilyRow {
        stats: all.finish(view, t),
        site: sites
            .iter()
            .max_by_key(|(_, n)| **n)
            .map(|(s, _)| *s)
            .unwrap_or_default(),
        ..Default::default()
    };
    asymmetry::judge(&mut row, &per_lock, t);
    row.locks = per_lock.into_iter().map(|(id, _)| id).collect();
    row
}
