//! How much a sampled section counts.

use convoy_model::Sections;

/// A section counts at most as much as so many of the median one.
const MOST: u64 = 4;

/// The first sections of a site are all traced, later ones stand for thousands each: a few of those would decide
/// alone. Their weights are cut, which takes variance for a bias towards the early ones (truncated importance sampling,
/// Ionides, 2008). What is cut is no longer counted in shares, but in no sum.
pub(crate) fn tempered(sections: &Sections) -> Sections {
    let mut sections = sections.clone();
    let mut by_site: Vec<Vec<u64>> = vec![Vec::new(); sections.sites.len()];
    for sample in &sections.samples {
        if let Some(weights) = by_site.get_mut(sample.site as usize) {
            weights.push(sample.weight);
        }
    }
    let most: Vec<u64> = by_site
        .into_iter()
        .map(|mut weights| {
            weights.sort_unstable();
            let median = weights.get(weights.len() / 2).copied().unwrap_or(1);
            median.max(1).saturating_mul(MOST)
        })
        .collect();
    for sample in &mut sections.samples {
        if let Some(&most) = most.get(sample.site as usize) {
            sample.weight = sample.weight.min(most);
        }
    }
    sections
}
