//! CPU time at the stack of who ran.

use convoy_model::Model;

use super::rows::{Rows, Sum};
use super::{pseudo, thread_labels};
use crate::stacks::frames_of;
use crate::Error;

/// All rows. Times are exact in their sum by thread; which code ran is known from samples.
pub(super) fn rows(model: &Model) -> Result<Rows, Error> {
    let Some(sched) = &model.sched else {
        return Err(Error::Missing("the profile has no scheduler events"));
    };
    let mut rows = Rows::default();
    for slice in sched.slices.iter().filter(|slice| slice.running_ns > 0) {
        let sum = Sum {
            count: slice.n,
            ns: slice.running_ns,
        };
        let labels = thread_labels(model, slice.thread);
        match frames_of(model, slice.site) {
            [] => rows.add(&[pseudo("[call stack not known]")], labels, sum),
            known => rows.add(known, labels, sum),
        }
    }
    Ok(rows)
}
