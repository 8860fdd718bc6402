//! Words of findings: numbers and places as a person reads them.

use convoy_model::finding::Evidence;
use convoy_model::{SiteFrame, SiteId};

use crate::view::View;

pub(crate) use convoy_model::words::{count, duration, percent, plural};

/// A function with its line, as far as known.
pub(crate) fn frame_place(frame: &SiteFrame) -> String {
    if frame.is_unnamed_generated() {
        "an unknown place".into()
    } else {
        frame.label()
    }
}

/// The frame of a site that is shown to people.
pub(crate) fn shown<'a>(view: &View<'a>, site: SiteId) -> Option<&'a SiteFrame> {
    let site = view.model.site(site)?;
    site.shown_frame()
}

/// Where a site is, for people.
pub(crate) fn place(view: &View, site: SiteId) -> String {
    shown(view, site).map_or_else(|| "an unknown place".into(), frame_place)
}

/// The same, if there is one.
pub(crate) fn place_of(view: &View, site: Option<SiteId>) -> String {
    site.map_or_else(|| "an unknown place".into(), |site| place(view, site))
}

/// The function of a site; empty if unknown.
pub(crate) fn function<'a>(view: &View<'a>, site: SiteId) -> &'a str {
    shown(view, site).map_or("", |f| f.function.as_str())
}

pub(crate) fn evidence(key: &'static str, value: f64, text: String) -> Evidence {
    Evidence { key, value, text }
}
