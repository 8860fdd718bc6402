//! Algorithm 2: fusion of pairs per code region; equation 2: their ranking.
//!
//! A section's code region reaches from its acquire to its release in one function. Regions that overlap or
//! contain one another are one region, since a developer changes them together: so are those of locks that
//! are taken inside of one another's sections. Pairs of the same two regions are fused.

use std::collections::BTreeMap;

use convoy_trace::ObjectIx;

use super::pair_cost::Span;
use super::{SpanCost, SpanPair};
use crate::sections::Sections;
use crate::sets::CodePlace;

/// A code region is nested in another one if this share of its sections lies in sections of the other.
const NESTED_SHARE: f64 = 0.5;

/// Code that critical sections run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeRegion {
    /// First acquire in it.
    pub begin: CodePlace,
    /// Last release in it; the acquire where the release is elsewhere or not known.
    pub end: CodePlace,
    /// The acquire and release sites that it was fused from.
    pub spans: Vec<Span>,
}

/// Two code regions whose sections contend unnecessarily: one row of the paper's ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionPair {
    /// Indices into [`Regions::regions`]; equal if a region contends with itself.
    pub regions: (usize, usize),
    /// Locks that are contended for.
    pub locks: Vec<ObjectIx>,
    /// What the pairs cost.
    pub cost: SpanCost,
    /// Equation 2: its share of the cost of all pairs, P, 0..1.
    pub p: f64,
}

/// Fused code regions and their ranking.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Regions {
    /// The regions.
    pub regions: Vec<CodeRegion>,
    /// Costliest first.
    pub pairs: Vec<RegionPair>,
}

/// Fuses pairs per code region and ranks them. `place` gives the code place of a call site.
///
/// Equation 2: P(g) = sum of dT over the pairs of group g / sum of dT over the pairs of all groups. Groups
/// that save nothing have P = 0 and are left out of the sum.
pub fn fuse(
    sections: &Sections,
    costs: &BTreeMap<SpanPair, SpanCost>,
    place: &dyn Fn(convoy_trace::SiteIx) -> CodePlace,
) -> Regions {
    let spans = costs.keys().flat_map(|pair| [pair.first, pair.second]);
    let mut spans: Vec<Span> = spans.collect();
    spans.sort_unstable();
    spans.dedup();
    let ranges: Vec<(CodePlace, CodePlace)> = spans.iter().map(|it| range(*it, place)).collect();
    let mut groups = Groups::new(spans.len());
    fuse_overlapping(&ranges, &mut groups);
    fuse_nested(sections, &spans, &mut groups);

    let mut number_of: BTreeMap<usize, usize> = BTreeMap::new();
    let mut regions: Vec<CodeRegion> = Vec::new();
    for (at, (span, range)) in spans.iter().zip(&ranges).enumerate() {
        let number = *number_of.entry(groups.root(at)).or_insert_with(|| {
            regions.push(CodeRegion {
                begin: range.0.clone(),
                end: range.1.clone(),
                spans: Vec::new(),
            });
            regions.len() - 1
        });
        let region = &mut regions[number];
        region.spans.push(*span);
        let is_here =
            range.0.module == region.begin.module && range.0.function == region.begin.function;
        if is_here && range.0.offset < region.begin.offset {
            region.begin = range.0.clone();
        }
        if is_here && range.1.offset > region.end.offset {
            region.end = range.1.clone();
        }
    }
    let mut region_of = |span: &Span| {
        let at = spans.binary_search(span).unwrap_or(0);
        number_of.get(&groups.root(at)).copied().unwrap_or(0)
    };
    let mut pairs: BTreeMap<(usize, usize), RegionPair> = BTreeMap::new();
    for (pair, cost) in costs {
        let (a, b) = (region_of(&pair.first), region_of(&pair.second));
        let regions = (a.min(b), a.max(b));
        let row = pairs.entry(regions).or_insert_with(|| RegionPair {
            regions,
            locks: Vec::new(),
            cost: SpanCost::default(),
            p: 0.0,
        });
        row.cost.merge(cost);
        if !row.locks.contains(&pair.lock) {
            row.locks.push(pair.lock);
        }
    }
    let mut pairs: Vec<RegionPair> = pairs.into_values().collect();
    let all: f64 = pairs.iter().map(|row| row.cost.saved_ns.max(0.0)).sum();
    for row in &mut pairs {
        row.p = if all > 0.0 {
            row.cost.saved_ns.max(0.0) / all
        } else {
            0.0
        };
    }
    pairs.sort_by(|a, b| {
        let by_cost = b.cost.saved_ns.total_cmp(&a.cost.saved_ns);
        by_cost.then(a.regions.cmp(&b.regions))
    });
    Regions { regions, pairs }
}

/// From the acquire to the release, if that is behind it in the same function.
fn range(span: Span, place: &dyn Fn(convoy_trace::SiteIx) -> CodePlace) -> (CodePlace, CodePlace) {
    let (begin, end) = (place(span.acquire), place(span.release));
    let is_one_function = begin.module == end.module && begin.function == end.function;
    match is_one_function && begin.offset <= end.offset {
        true => (begin, end),
        false => (begin.clone(), begin),
    }
}

fn fuse_overlapping(ranges: &[(CodePlace, CodePlace)], groups: &mut Groups) {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    let key = |at: &usize| {
        let begin = &ranges[*at].0;
        (&begin.module, &begin.function, begin.offset)
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut reach: Option<(usize, u64)> = None;
    for at in order {
        let (begin, end) = &ranges[at];
        match reach {
            Some((of, until)) if is_same_code(&ranges[of].0, begin) && begin.offset <= until => {
                groups.join(of, at);
                reach = Some((of, until.max(end.offset)));
            }
            _ => reach = Some((at, end.offset)),
        }
    }
}

/// Two unknown places are not the same code.
fn is_same_code(a: &CodePlace, b: &CodePlace) -> bool {
    let is_known = !a.module.is_empty() || a.offset != 0;
    is_known && a.module == b.module && a.function == b.function
}

/// Joins the code of inner sections with that of the sections they mostly lie in.
fn fuse_nested(sections: &Sections, spans: &[Span], groups: &mut Groups) {
    let at = |section: &crate::sections::Section| {
        let span = Span {
            acquire: section.acquire_site,
            release: section.release_site,
        };
        spans.binary_search(&span).ok()
    };
    let mut all: BTreeMap<usize, u64> = BTreeMap::new();
    let mut inside: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for section in &sections.all {
        let Some(inner) = at(section) else {
            continue;
        };
        *all.entry(inner).or_default() += 1;
        if let Some(outer) = sections.get(section.parent).and_then(at) {
            *inside.entry((inner, outer)).or_default() += 1;
        }
    }
    for ((inner, outer), n) in inside {
        let all = all.get(&inner).copied().unwrap_or(0);
        if n as f64 >= NESTED_SHARE * all as f64 {
            groups.join(inner, outer);
        }
    }
}

/// Disjoint sets of numbers.
struct Groups {
    parents: Vec<usize>,
}

impl Groups {
    fn new(n: usize) -> Self {
        Self {
            parents: (0..n).collect(),
        }
    }

    fn root(&mut self, at: usize) -> usize {
        let mut root = at;
        while self.parents.get(root).is_some_and(|up| *up != root) {
            root = self.parents[root];
        }
        if let Some(parent) = self.parents.get_mut(at) {
            *parent = root;
        }
        root
    }

    /// The smaller number stands for both.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.parents[a.max(b)] = a.min(b);
        }
    }
}
