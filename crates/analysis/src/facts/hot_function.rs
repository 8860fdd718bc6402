//! The function in which threads were found most often.

use std::collections::BTreeMap;

use convoy_model::{FunctionKey, SiteId, Slice};

use crate::facts::run_view::RunView;
use crate::tables::paths::most;

/// A function, by its samples.
pub(crate) struct Hottest<'a> {
    /// Empty if it has none.
    pub(crate) name: &'a str,
    /// Share of all samples.
    pub(crate) share: f64,
    /// Where in it most of them are.
    pub(crate) site: SiteId,
}

/// Of these samples; `None` if none of them is in known code.
pub(crate) fn hottest<'a>(view: &RunView<'a>, is: impl Fn(&Slice) -> bool) -> Option<Hottest<'a>> {
    let mut functions: BTreeMap<FunctionKey, BTreeMap<SiteId, f64>> = BTreeMap::new();
    let mut all = 0.0;
    for (slice, _) in view.model.samples().filter(|(slice, _)| is(slice)) {
        all += slice.n as f64;
        let Some(site) = slice.site else { continue };
        if let Some(frame) = view.shown(site) {
            let sites = functions.entry(frame.key()).or_default();
            *sites.entry(site).or_default() += slice.n as f64;
        }
    }
    let n = |sites: &BTreeMap<SiteId, f64>| sites.values().sum::<f64>();
    let functions = functions.into_iter();
    let ((_, name, _), sites) = functions.max_by(|a, b| n(&a.1).total_cmp(&n(&b.1)))?;
    Some(Hottest {
        name,
        share: n(&sites) / all,
        site: most(sites)?,
    })
}
