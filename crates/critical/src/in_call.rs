//! Activity inside of a call that waits for files: between two waits of one fsync(), a thread is active, but it
//! computes nothing. It is part of the call, and no code that could be spread over threads.

use std::collections::BTreeMap;

use convoy_model::{OffReason, SiteId, Slice};

use crate::view::{is_file_io, View};

/// Which call stacks are of such a call.
pub(crate) struct InCall {
    by_site: BTreeMap<SiteId, OffReason>,
}

impl InCall {
    pub(crate) fn of(view: &View) -> Self {
        let offs = view.sched.offs.iter().filter(|off| is_file_io(off.reason));
        Self {
            by_site: offs
                .filter_map(|off| Some((off.site?, off.reason)))
                .collect(),
        }
    }

    /// What the call of this piece waits for, if it is one: a sample fell into it, or the piece ended in its wait.
    pub(crate) fn reason(&self, slice: &Slice) -> Option<OffReason> {
        let site = slice.site.filter(|_| slice.spin.is_none())?;
        self.by_site.get(&site).copied()
    }
}
