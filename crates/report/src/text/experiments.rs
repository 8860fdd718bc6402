//! What experiments on the running program found, as `convoy causal` tells it.

use convoy_causal::{text, Look};

use super::page::{plain, Page};
use crate::{experiments, Report};

/// Nothing without experiments.
pub fn write(page: &mut Page, report: &Report<'_>) {
    let Some(experiments) = experiments(report.model) else {
        return;
    };
    page.title("Experiments");
    let look = Look {
        width: page.width(),
        unicode: page.unicode(),
    };
    for line in text(&experiments, look).lines() {
        page.row(&[plain(line)]);
    }
}
