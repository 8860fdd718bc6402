//! Words of findings: numbers, places and evidence as a person reads them.

use convoy_model::finding::{Cause, Evidence};
use convoy_model::{OffReason, SiteFrame, SiteId};

use crate::facts::process_view::ProcessView;

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
pub(crate) fn shown<'a>(view: &ProcessView<'a>, site: SiteId) -> Option<&'a SiteFrame> {
    let site = view.model.site(site)?;
    site.shown_frame()
}

/// Where a site is, for people.
pub(crate) fn place(view: &ProcessView, site: SiteId) -> String {
    shown(view, site).map_or_else(|| "an unknown place".into(), frame_place)
}

/// The same, if there is one.
pub(crate) fn place_of(view: &ProcessView, site: Option<SiteId>) -> String {
    site.map_or_else(|| "an unknown place".into(), |site| place(view, site))
}

/// The function of a site; empty if unknown.
pub(crate) fn function<'a>(view: &ProcessView<'a>, site: SiteId) -> &'a str {
    shown(view, site).map_or("", |f| f.function.as_str())
}

pub(crate) fn evidence(key: &'static str, value: f64, text: String) -> Evidence {
    Evidence { key, value, text }
}

/// A duration as evidence: `text` with the time in front.
pub(crate) fn time(key: &'static str, ns: f64, text: &str) -> Evidence {
    evidence(key, ns, format!("{} {text}", duration(ns)))
}

pub(crate) fn cause(id: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Cause {
    Cause {
        id,
        text: text.into(),
        fix: fix.into(),
    }
}

/// So many of something that there should be more than one of; how many processors there are is not always known.
pub(crate) fn how_many(n: f64) -> String {
    match n.is_finite() {
        true => format!("{n:.0}"),
        false => "several".into(),
    }
}

/// What a thread did that was off the processors for this reason.
pub(crate) fn in_what(reason: OffReason) -> &'static str {
    match reason {
        OffReason::Unknown => "blocked",
        OffReason::Futex => "waiting for another thread",
        OffReason::File => "reading or writing a file",
        OffReason::Sync => "writing a file through to the disk (fsync)",
        OffReason::Disk => "waiting for a disk",
        OffReason::PageFault => "in page faults",
        OffReason::Memory => "waiting for the lock of the address space (mmap_lock)",
        OffReason::Pipe => "reading or writing a pipe",
        OffReason::Socket => "sending or receiving",
        OffReason::Poll => "polling descriptors",
        OffReason::Sleep => "asleep",
        OffReason::Signal => "waiting for a signal",
        OffReason::Child => "waiting for a child process",
        OffReason::Ipc => "waiting for a message or a file lock",
        OffReason::AsyncIo => "waiting for asynchronous I/O",
        OffReason::Stopped => "stopped",
        OffReason::OtherCall => "in a system call",
        OffReason::Preempted => "preempted",
    }
}
