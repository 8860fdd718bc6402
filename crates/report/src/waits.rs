//! The waits for an object, as a person tells them apart: by what is shown of their places.

use std::collections::BTreeMap;

use convoy_analysis::counters::WaitsFor;
use convoy_model::{Model, SiteId};

use crate::human::{count_of, percent};
use crate::names;

/// Callers that are named, and the share of the waits that they must have.
const CALLERS: usize = 3;
const LEAST: f64 = 0.01;

/// Waits whose ends read the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waits {
    /// Their sum, with the releasing place of those that were waited for most.
    pub sum: WaitsFor,
    /// Call stacks of the waiting place, and how long was waited with each.
    sites: BTreeMap<SiteId, u64>,
}

/// Call stacks that differ further out, or in what was inlined, read the same in a line: they are one. Most waited
/// first.
pub fn alike<'a>(model: &Model, rows: impl IntoIterator<Item = &'a WaitsFor>) -> Vec<Waits> {
    let mut together: Vec<((String, String), Waits)> = Vec::new();
    for row in rows {
        let holder = convoy_model::telling(&row.holder).map_or_else(String::new, names::frame);
        let key = (names::site_of(model, row.waiter), holder);
        let place = together.iter().position(|(k, _)| *k == key);
        let place = place.unwrap_or_else(|| {
            let none = WaitsFor {
                waits: 0,
                wait_ns: 0,
                wait_max_ns: 0,
                share: 0.0,
                ..row.clone()
            };
            let waits = Waits {
                sum: none,
                ..Waits::default()
            };
            together.push((key, waits));
            together.len() - 1
        });
        together[place].1.add(row);
    }
    let mut all: Vec<Waits> = together.into_iter().map(|(_, waits)| waits).collect();
    all.sort_by_key(|waits| std::cmp::Reverse(waits.sum.wait_ns));
    all
}

impl Waits {
    fn add(&mut self, row: &WaitsFor) {
        let sum = &mut self.sum;
        sum.waits = sum.waits.saturating_add(row.waits);
        sum.wait_ns = sum.wait_ns.saturating_add(row.wait_ns);
        sum.wait_max_ns = sum.wait_max_ns.max(row.wait_max_ns);
        sum.share += row.share;
        let ns = self.sites.entry(row.waiter).or_default();
        *ns = ns.saturating_add(row.wait_ns);
    }

    /// `read() a.c:3 60 %, write() a.c:9 40 %`: who called the waiting place, if there is more than one; `None` = one.
    pub fn callers(&self, model: &Model) -> Option<String> {
        let stacks: Vec<_> = self
            .sites
            .iter()
            .map(|(id, ns)| (callers(model, *id), *ns))
            .collect();
        let deepest = stacks.iter().map(|(stack, _)| stack.len()).max()?;
        let (first, _) = stacks.first()?;
        // The first ones that differ say which way a wait came; those further out follow from them.
        let differs = |at: &usize| stacks.iter().any(|(s, _)| s.get(*at) != first.get(*at));
        let at = (0..deepest).find(differs)?;
        let mut by_caller: BTreeMap<&str, u64> = BTreeMap::new();
        for (stack, ns) in &stacks {
            let caller = stack.get(at).map_or("callers not known", String::as_str);
            *by_caller.entry(caller).or_default() += ns;
        }
        let mut rows: Vec<_> = by_caller.into_iter().collect();
        rows.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let all_ns = self.sum.wait_ns.max(1) as f64;
        let shares = rows
            .iter()
            .map(|(caller, ns)| (caller, *ns as f64 / all_ns));
        let named = shares.take(CALLERS).filter(|(_, share)| *share >= LEAST);
        let mut texts: Vec<_> = named
            .map(|(caller, share)| format!("{caller} {}", percent(share)))
            .collect();
        let others = rows.len() - texts.len();
        if others > 0 {
            texts.push(count_of(others as u64, "other", "others"));
        }
        Some(texts.join(", "))
    }
}

/// The frames around the one that is shown, innermost first.
fn callers(model: &Model, id: SiteId) -> Vec<String> {
    let site = model.sites.get(id.0 as usize);
    let frames = site.and_then(|site| site.frames.get(site.shown + 1..));
    frames.unwrap_or(&[]).iter().map(names::frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::{Site, SiteFrame};

    fn stack(functions: &[&str]) -> Vec<SiteFrame> {
        let frame = |function: &&str| SiteFrame {
            function: (*function).into(),
            ..SiteFrame::default()
        };
        functions.iter().map(frame).collect()
    }

    fn model(stacks: &[&[&str]]) -> Model {
        let site = |functions: &&[&str]| Site {
            frames: stack(functions),
            ..Site::default()
        };
        Model {
            sites: stacks.iter().map(site).collect(),
            ..Model::default()
        }
    }

    fn row(waiter: u32, holder: &str, wait_ns: u64) -> WaitsFor {
        WaitsFor {
            waiter: SiteId(waiter),
            holder: stack(&[holder]),
            waits: 1,
            wait_ns,
            wait_max_ns: wait_ns,
            share: wait_ns as f64 / 100.0,
            ..WaitsFor::default()
        }
    }

    #[test]
    fn places_that_read_the_same_are_one_with_their_callers() {
        let model = model(&[
            &["alloc", "grow", "read", "main"],
            &["alloc", "grow", "write", "main"],
            &["free", "main"],
            &["alloc", "grow", "read", "worker"],
        ]);
        let rows = [
            row(2, "alloc", 40),
            row(0, "alloc", 30),
            row(1, "alloc", 15),
            row(3, "alloc", 10),
            row(0, "free", 5),
        ];
        let all = alike(&model, &rows);
        let sums: Vec<_> = all
            .iter()
            .map(|w| {
                (
                    w.sum.waiter.0,
                    w.sum.waits,
                    w.sum.wait_ns,
                    w.sum.wait_max_ns,
                )
            })
            .collect();
        assert_eq!(sums, [(0, 3, 55, 30), (2, 1, 40, 40), (0, 1, 5, 5)]);
        assert!((all[0].sum.share - 0.55).abs() < 1e-9);
        assert_eq!(
            all[0].callers(&model).as_deref(),
            Some("read() 73 %, write() 27 %")
        );
        assert_eq!(all[1].callers(&model), None);
    }

    #[test]
    fn stacks_that_are_the_same_have_no_callers_that_differ() {
        let model = model(&[&["alloc", "main"], &["alloc", "main"], &[]]);
        let all = alike(&model, &[row(0, "f", 1), row(1, "f", 1), row(2, "f", 1)]);
        assert_eq!((all.len(), all[0].sum.wait_ns), (2, 2));
        assert_eq!(all[0].callers(&model), None);
        assert_eq!(all[1].callers(&model), None);
    }
}
