//! Call stacks as other tools want them.

use convoy_model::{Model, Site, SiteFrame, SiteId, Thread, ThreadId};
use convoy_report::names;

/// Frames of a call stack, leaf first; empty = unknown.
pub fn frames(model: &Model, site: SiteId) -> &[SiteFrame] {
    site_of(model, site).map_or(&[], |site| &site.frames)
}

/// The same of a stack that may be unknown.
pub fn frames_of(model: &Model, site: Option<SiteId>) -> &[SiteFrame] {
    site.map_or(&[], |site| frames(model, site))
}

fn site_of(model: &Model, site: SiteId) -> Option<&Site> {
    model.sites.get(site.0 as usize)
}

/// A frame by its function, whatever the line, so that frames of one function are one box; its place in the
/// file where it has no name.
pub fn function(frame: &SiteFrame) -> String {
    if frame.function.is_empty() {
        frame.label()
    } else {
        frame.function.clone()
    }
}

/// A thread of the model.
pub fn thread(model: &Model, id: ThreadId) -> Option<&Thread> {
    model.threads.get(id.0 as usize)
}

/// What to call a thread in a column of its own.
pub fn thread_name(model: &Model, id: ThreadId) -> String {
    names::thread_of(model, id)
}

/// File name of the executable that a thread runs.
pub fn process_name(model: &Model, id: ThreadId) -> &str {
    thread(model, id)
        .and_then(|thread| model.processes.get(thread.process.0 as usize))
        .map_or("", |process| process.name.as_str())
}

/// The name of threads like this one: digits are `#`, so that the workers of a pool are one box.
pub fn thread_pattern(model: &Model, id: ThreadId) -> &str {
    thread(model, id)
        .and_then(|thread| model.groups.get(thread.group.0 as usize))
        .map_or("", |group| group.name_pattern.as_str())
}
