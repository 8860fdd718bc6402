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
    } else if focus.get(Key::File).is_some() {
        Metric::IoWait
    } else {
        Metric::Cpu
    }
}

/// Narrows a function or a lock down to threads, or the reverse: the marked resource is added to
/// the one under the cursor. Both must not say the same. A function or file and a lock are what
/// happens while a thread holds that.
pub fn conjunction(marked: &Focus, focus: &Focus) -> Focus {
    let has = |key| marked.get(key).or(focus.get(key)).is_some();
    let is_held = has(Key::Lock) && (has(Key::Function) || has(Key::File));
    let both = marked.keys().map(|key| (key, marked.get(key)));
    let both = both.chain(focus.keys().map(|key| (key, focus.get(key))));
    both.fold(Focus::new(), |both, (key, value)| match (key, value) {
        (Key::Lock, Some(value)) if is_held => both.with(Key::Holding, value),
        (key, Some(value)) => both.with(key, value),
        (_, None) => both,
    })
}

/// The functions that a function calls, in the same threads.
pub fn callees(focus: &Focus) -> Focus {
    let caller = focus.get(Key::Function).unwrap_or_default();
    let all = Focus::new()
        .with(Key::In, caller)
        .with(Key::Function, Request::CALLEES);
    let threads = [Key::Holding, Key::Group, Key::Thread].into_iter();
    threads
        .filter_map(|key| Some((key, focus.get(key)?)))
        .fold(all, |all, (key, value)| all.with(key, value))
}

/// A word for what is measured.
pub fn noun(focus: &Focus) -> &'static str {
    match focus {
        f if f.get(Key::Function).is_some() => Subject::Function.noun(),
        f if f.get(Key::Lock).is_some() => Subject::Lock.noun(),
        f if f.get(Key::File).is_some() => Subject::File.noun(),
        _ => Subject::Thread.noun(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_and_a_function_are_what_happens_while_a_thread_holds_it() {
        let lock = Focus::new().with(Key::Lock, "0x40");
        let function = Focus::new().with(Key::Function, "f");
        let both = conjunction(&lock, &function);
        assert_eq!(both.to_string(), r#"{function="f", holding="0x40"}"#);
        assert_eq!(conjunction(&function, &lock), both);
        let group = Focus::new().with(Key::Group, "pool-#");
        let waits = conjunction(&group, &lock);
        assert_eq!(waits.to_string(), r#"{lock="0x40", group="pool-#"}"#);
    }

    #[test]
    fn a_file_is_measured_by_waits_and_bytes() {
        let file = Focus::new().with(Key::File, "/var/log/a.log");
        let names: Vec<&str> = for_focus(&file).iter().map(|row| row.name).collect();
        assert_eq!(names, ["read_bytes", "write_bytes", "io_wait"]);
        assert_eq!(usual(&file), Metric::IoWait);
    }
}
