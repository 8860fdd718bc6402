//! Every wait at the stack of who waited.

use convoy_report::Report;

use super::rows::{text, Rows, Sum};
use super::{lock_labels, pseudo, thread_labels};
use crate::moments;
use crate::stacks::frames_of;
use crate::waits::{self, Classes};

/// All rows, and remarks for people.
pub(super) fn rows(report: &Report<'_>) -> (Rows, Vec<String>) {
    let model = report.model;
    let classes = Classes::of(report);
    let mut rows = Rows::default();
    let all = waits::all(report);
    for waited in &all {
        let mut labels = match waited.object {
            Some(object) => lock_labels(model, object),
            None => vec![text("kind", "futex")],
        };
        labels.push(text("class", classes.get(waited.object)));
        labels.extend(thread_labels(model, waited.thread));
        let sum = Sum {
            count: waited.count,
            ns: waited.wait_ns,
        };
        match frames_of(model, waited.site) {
            [] => rows.add(&[pseudo("[call stack not known]")], labels, sum),
            known => rows.add(known, labels, sum),
        }
    }
    let mut remarks = Vec::new();
    if all.is_empty() {
        let empty = "no thread waited for another: the profile is empty";
        remarks.extend(moments::nothing(model, empty));
    }
    (rows, remarks)
}
