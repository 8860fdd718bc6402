//! The metrics that a resource can be measured by: the menu behind Enter.

use convoy_live::{Description, Focus, Key, Metric, Request, Subject, METRICS};

/// Metrics that make sense for a focus, in the order of the table.
pub fn for_focus(focus: &Focus) -> Vec<&'static Description> {
    let rows = METRICS.iter();
    rows.filter(|row| Request::new(row.metric, focus.clone()).is_ok())
        .collect()
}

/// The metric that the menu begins with.
pub fn usual(focus: &Focus) -> Metric {
    if focus.get(Key::Function).is_some() {
        Metric::Calls
    } else if focus.get(Key::Lock).is_some() {
        Metric::Wait
    } else {
        Metric::Cpu
    }
}

/// Narrows a function or a lock down to threads, or the reverse: the marked resource is added to
/// the one under the cursor. Both must not say the same.
pub fn conjunction(marked: &Focus, focus: &Focus) -> Focus {
    let mut both = marked.clone();
    for key in focus.keys() {
        if let Some(value) = focus.get(key) {
            both = both.with(key, value);
        }
    }
    both
}

/// The functions that a function calls, in the same threads.
pub fn callees(focus: &Focus) -> Focus {
    let caller = focus.get(Key::Function).unwrap_or_default();
    let all = Focus::new()
        .with(Key::In, caller)
        .with(Key::Function, Request::CALLEES);
    let threads = [Key::Group, Key::Thread].into_iter();
    threads
        .filter_map(|key| Some((key, focus.get(key)?)))
        .fold(all, |all, (key, value)| all.with(key, value))
}

/// A word for what is measured.
pub fn noun(focus: &Focus) -> &'static str {
    match focus {
        f if f.get(Key::Function).is_some() => Subject::Function.noun(),
        f if f.get(Key::Lock).is_some() => Subject::Lock.noun(),
        _ => Subject::Thread.noun(),
    }
}
