//! Who waits for whom: pairs of waiting site and holding (or waking) site, with their share.

use std::collections::BTreeMap;

use convoy_model::{ObjectId, Pair, SiteFrame, SiteId};

use crate::tables::counters::WaitsFor;

/// The pairs of a model by object, so that each object's are found without a scan.
#[derive(Debug)]
pub(crate) struct Pairs<'a> {
    by_object: BTreeMap<ObjectId, Vec<&'a Pair>>,
}

impl<'a> Pairs<'a> {
    pub(crate) fn of(pairs: &'a [Pair]) -> Self {
        let mut by_object: BTreeMap<ObjectId, Vec<&Pair>> = BTreeMap::new();
        for p in pairs {
            by_object.entry(p.object).or_default().push(p);
        }
        Self { by_object }
    }

    pub(crate) fn get(&self, id: ObjectId) -> &[&'a Pair] {
        self.by_object.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// Sums the pairs of one or more objects over threads. Most waited first; `share` is of all waits in `pairs`.
pub(crate) fn waits_for<'a>(pairs: impl IntoIterator<Item = &'a Pair>) -> Vec<WaitsFor> {
    #[derive(Default)]
    struct Sum {
        waits: u64,
        wait_ns: u64,
        wait_max_ns: u64,
        released: BTreeMap<SiteId, u64>,
    }
    let mut sums: BTreeMap<(SiteId, &[SiteFrame]), Sum> = BTreeMap::new();
    let mut all_ns = 0u64;
    for p in pairs {
        let sum = sums
            .entry((p.site, p.peer_acquired_at.as_slice()))
            .or_default();
        sum.waits += p.waits;
        sum.wait_ns += p.wait_ns;
        sum.wait_max_ns = sum.wait_max_ns.max(p.wait_max_ns);
        if let Some(site) = p.peer_site {
            *sum.released.entry(site).or_default() += p.wait_ns;
        }
        all_ns += p.wait_ns;
    }
    let mut rows: Vec<WaitsFor> = sums
        .into_iter()
        .map(|((waiter, holder), sum)| WaitsFor {
            waiter,
            holder: holder.to_vec(),
            released_at: sum
                .released
                .iter()
                .max_by_key(|(_, ns)| **ns)
                .map(|(site, _)| *site),
            waits: sum.waits,
            wait_ns: sum.wait_ns,
            wait_max_ns: sum.wait_max_ns,
            share: if all_ns > 0 {
                sum.wait_ns as f64 / all_ns as f64
            } else {
                0.0
            },
        })
        .collect();
    rows.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then(a.waiter.cmp(&b.waiter)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> Vec<SiteFrame> {
        vec![SiteFrame {
            function: function.into(),
            ..Default::default()
        }]
    }

    #[test]
    fn threads_are_summed_and_shares_are_of_the_wait() {
        let pair = |site, holder: &str, released, wait_ns| Pair {
            site: SiteId(site),
            peer_acquired_at: frame(holder),
            peer_site: Some(SiteId(released)),
            waits: 1,
            wait_ns,
            wait_max_ns: wait_ns,
            ..Default::default()
        };
        let pairs = [
            pair(1, "put", 7, 50),
            pair(1, "put", 8, 10),
            pair(2, "get", 7, 40),
        ];
        let rows = waits_for(&pairs);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].waiter, rows[0].wait_ns, rows[0].waits),
            (SiteId(1), 60, 2)
        );
        assert_eq!(rows[0].released_at, Some(SiteId(7)));
        assert_eq!((rows[0].share, rows[1].share), (0.6, 0.4));
        assert_eq!(rows[1].holder[0].function, "get");
    }
}
