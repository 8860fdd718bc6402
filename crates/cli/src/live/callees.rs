//! A function opened into its callees: which of them takes the time, in these threads.

use convoy_live::{Focus, Invalid, Key, Request};

use super::functions::Functions;

/// Callees that are measured at a time.
const MOST: usize = 16;

/// What `function="*"` stands for inside a function: first that function itself, then those that
/// it calls by its instructions, each only while the thread is inside of it.
pub fn requests(functions: &Functions, request: &Request) -> Result<Vec<Request>, Invalid> {
    let outer = request.focus.get(Key::In).unwrap_or_default();
    let threads = threads_of(&request.focus);
    let whole = Request::new(request.metric, threads.clone().with(Key::Function, outer))?;
    let mut all = vec![whole];
    for function in functions.called(outer)? {
        for callee in functions.callees(&function) {
            let Some(named) = functions.focus_of(&callee) else {
                continue;
            };
            let name = named.get(Key::Function).unwrap_or_default();
            let focus = threads
                .clone()
                .with(Key::Function, name)
                .with(Key::In, outer);
            let request = Request::new(request.metric, focus)?;
            if !all.contains(&request) {
                all.push(request);
            }
        }
    }
    match all.len() {
        1 => Err(Invalid::new(
            format!("{outer} calls no function that its instructions name"),
            "calls through pointers are not followed: measure it by convoy live PID --search",
        )),
        _ => Ok(all),
    }
}

/// The first of them, and how many are left out.
pub fn first(mut all: Vec<Request>) -> (Vec<Request>, usize) {
    let beyond = all.len().saturating_sub(1 + MOST);
    all.truncate(1 + MOST);
    (all, beyond)
}

fn threads_of(focus: &Focus) -> Focus {
    let keys = [Key::Holding, Key::Group, Key::Thread].into_iter();
    keys.filter_map(|key| Some((key, focus.get(key)?)))
        .fold(Focus::new(), |all, (key, value)| all.with(key, value))
}
