//! Lock of musl's allocator: one for all threads. Its function has no unwind information, so that the call stacks of
//! its waits end there; samples say who takes it.

use convoy_model::{SiteFrame, SiteId};

use crate::facts::run_view::RunView;

/// Function in which musl's own locks are waited for.
const LOCK: &str = "__lock";
/// Functions of musl's allocator.
const ALLOCATOR: [&str; 4] = [
    "__libc_malloc_impl",
    "__libc_free",
    "alloc_slot",
    "__libc_realloc",
];
/// Share of the samples that fall in the allocator, from which on its lock is the one that is waited for.
const ALLOCATES: f64 = 0.1;

/// Whether a frame is of a wait for a lock of musl's.
pub(crate) fn waits(frame: &SiteFrame) -> bool {
    frame.function == LOCK
}

/// What is waited for at this place, and what to do, if it is the allocator's lock.
pub(crate) fn place(view: &RunView, site: SiteId) -> Option<(String, String)> {
    view.shown(site).filter(|frame| waits(frame))?;
    let (mut all, mut allocates) = (0, 0);
    for (slice, site) in view.model.samples() {
        all += slice.n;
        let shown = site.and_then(|site| site.shown_frame());
        if shown.is_some_and(|frame| ALLOCATOR.contains(&frame.function.as_str())) {
            allocates += slice.n;
        }
    }
    let is_the_allocators = allocates as f64 >= ALLOCATES * all as f64 && allocates > 0;
    is_the_allocators.then(|| {
        (
            "the lock of musl's malloc, which all threads share".into(),
            "link an allocator with a cache for each thread (mimalloc, jemalloc), or allocate less often".into(),
        )
    })
}
