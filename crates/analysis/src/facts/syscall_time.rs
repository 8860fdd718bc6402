//! Activity inside of a call that waits for files: between two waits of one fsync(), a thread is active, but it
//! computes nothing. It is part of the call, and no code that could be spread over threads.

use std::collections::BTreeMap;

use convoy_model::{bare, OffReason, SiteId, Slice};

use crate::facts::run_view::{is_file_io, RunView};

/// The C library's side of calls that write files through.
const SYNCS: [&str; 5] = ["fsync", "fdatasync", "sync_file_range", "syncfs", "msync"];
/// The same of other calls of a commit. What write() goes to may be no file.
const OF_A_COMMIT: [&str; 33] = [
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev64",
    "pwritev2",
    "open",
    "open64",
    "openat",
    "openat64",
    "creat",
    "creat64",
    "close",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "ftruncate",
    "ftruncate64",
    "fallocate",
    "fallocate64",
    "posix_fallocate",
    "fcntl",
    "fcntl64",
    "fcntl64_nocancel_adjusted",
    "flock",
    "stat",
    "fstat",
    "lstat",
    "fstatat",
    "fchown",
    "access",
];

/// Which call stacks are of such a call.
pub(crate) struct InCall {
    by_site: BTreeMap<SiteId, OffReason>,
}

impl InCall {
    pub(crate) fn of(view: &RunView) -> Self {
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

    /// Whether a call stack ends in a call that writes through.
    pub(crate) fn is_sync(&self, view: &RunView, site: SiteId) -> bool {
        self.by_site.get(&site) == Some(&OffReason::Sync) || is_in(view, site, &SYNCS)
    }

    /// Whether it ends in another call that a commit may need: that writes at a place of a file, makes or deletes one, or locks it.
    pub(crate) fn is_of_a_commit(&self, view: &RunView, site: SiteId) -> bool {
        is_in(view, site, &OF_A_COMMIT)
    }
}

/// Whether the innermost function is one of these.
fn is_in(view: &RunView, site: SiteId, functions: &[&str]) -> bool {
    let leaf = view.model.site(site).and_then(|site| site.frames.first());
    leaf.is_some_and(|frame| functions.contains(&bare(&frame.function)))
}
