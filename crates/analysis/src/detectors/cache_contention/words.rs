//! How threads that fight for cache lines are told.

use std::collections::BTreeMap;

use convoy_model::finding::Cause;
use convoy_model::{FindingId, SiteId, ThreadId};

use crate::facts::cache_lines::{Fight, Fought};
use crate::facts::lanes::Lanes;
use crate::facts::run_view::RunView;
use crate::words::cause;

/// What the bytes are called.
pub(super) fn data(fought: &Fought) -> String {
    match fought.line.symbol.as_str() {
        "" => format!("{:#x} (heap or stack)", fought.line.address),
        symbol => symbol.to_owned(),
    }
}

/// Which bytes of the line each thread uses.
pub(super) fn offsets(view: &RunView, lanes: &Lanes, fought: &Fought) -> String {
    /// Threads that are listed.
    const LISTED: usize = 8;
    let mut of_thread: BTreeMap<ThreadId, BTreeMap<(u8, u8), u64>> = BTreeMap::new();
    for used in &fought.uses {
        let bytes = (
            used.offset,
            used.offset.saturating_add(used.size.saturating_sub(1)),
        );
        *of_thread
            .entry(lanes.first(used.thread))
            .or_default()
            .entry(bytes)
            .or_default() += used.n;
    }
    let name = |id: &ThreadId| match view.thread(*id) {
        Some(thread) if !thread.name.is_empty() => format!("{} ({})", thread.name, thread.tid),
        Some(thread) => format!("thread {}", thread.tid),
        None => "a thread".into(),
    };
    let most_used = |bytes: &BTreeMap<(u8, u8), u64>| {
        let most = bytes.iter().max_by_key(|(_, n)| **n);
        most.map_or((0, 0), |(bytes, _)| *bytes)
    };
    let listed = of_thread.iter().take(LISTED).map(|(id, bytes)| {
        let (first, last) = most_used(bytes);
        format!("{} most at bytes {first} to {last}", name(id))
    });
    let listed: Vec<String> = listed.collect();
    format!("in the line: {}", listed.join(", "))
}

/// How a fight is told.
pub(super) struct Words {
    pub(super) id: FindingId,
    pub(super) title: String,
    pub(super) cause: Cause,
}

impl Words {
    pub(super) fn of(view: &RunView, fight: Fight, first: &Fought, site: SiteId) -> Self {
        let (place, data) = (view.place(Some(site)), data(first));
        let (id, title, because, why, fix) = match fight {
            Fight::Atomic if counts_references(view, site) => (
                FindingId::ContendedAtomic,
                format!("change the reference count {data} at {place}"),
                "shared-reference-count",
                "each copy of a shared pointer and the end of each changes the same count, which goes from processor to processor",
                format!("pass a reference instead of a copy at {place}, or copy the pointer once per thread and not once per item"),
            ),
            Fight::Atomic => (
                FindingId::ContendedAtomic,
                format!("change the same atomic {data} at {place}"),
                "shared-atomic",
                "every change takes the cache line away from the others, and each waits for it",
                format!("at {place} count in a variable per thread and add up when it is read (sharding), or add several steps at once"),
            ),
            Fight::Plain => (
                FindingId::ContendedLine,
                format!("read and write the same bytes of {data} at {place}"),
                "true-sharing",
                "data that several threads use and some write goes from processor to processor with each write",
                format!("at {place} work on a copy per thread and write it back once for many steps"),
            ),
            Fight::Neighbours => (
                FindingId::FalseSharing,
                format!("use neighbouring bytes of one cache line, {data}, at {place}"),
                "false-sharing",
                match first.own_locks.is_empty() {
                    true => "each thread has its own data, but they are in one cache line, which goes from processor to processor with each write",
                    false => "each thread has its own lock, but they are in one cache line, which goes from processor to processor with each time that one is taken",
                },
                format!(
                    "keep the {} of {place} of each thread 64 bytes apart (alignas(64), #[repr(align(64))], CachePadded), or in local variables until the end",
                    if first.own_locks.is_empty() { "data" } else { "lock and data" }
                ),
            ),
        };
        let cause = cause(because, why, fix);
        Self { id, title, cause }
    }
}

/// Whether the code is that of a shared pointer.
pub(super) fn counts_references(view: &RunView, site: SiteId) -> bool {
    const NAMES: [&str; 5] = [
        "sync::Arc<",
        "shared_ptr",
        "_Sp_counted",
        "shared_count",
        "Arc::",
    ];
    let site = view.model.site(site);
    let mut frames = site.into_iter().flat_map(|site| &site.frames);
    // Up to the function that was compiled: whoever called it copied something else.
    let compiled = frames.clone().position(|frame| !frame.inlined).unwrap_or(0);
    frames
        .by_ref()
        .take(compiled + 1)
        .any(|frame| NAMES.iter().any(|name| frame.function.contains(name)))
}
