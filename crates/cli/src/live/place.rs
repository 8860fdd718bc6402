//! From a request to the code in the process that it means.

use std::ops::Range;

use convoy_live::{is_c_library, Focus, Function, Invalid, Key, Place, Request, Subject};

use super::functions::{places, Functions};

/// Ranges of addresses that one curve may be called from: each takes a row of every function, which
/// has eight.
const MOST_CALLERS: usize = 7;

/// The code of a request; which locks must be held is not known here.
///
/// # Errors
/// A function is not there, or more than one is meant.
pub fn of(functions: &Functions, request: &Request) -> Result<Place, Invalid> {
    Ok(Place {
        functions: measured(functions, request)?,
        within: outer(functions, &request.focus)?,
        callers: callers(functions, &request.focus)?,
        holding: None,
    })
}

/// The functions that are measured.
fn measured(functions: &Functions, request: &Request) -> Result<Vec<Function>, Invalid> {
    let names = request.functions();
    if names.is_empty() {
        return functions.find(&request.focus);
    }
    let mut all = functions.named_in_c(&names);
    // A function of the program's own may be called `send` or `read`, and have no descriptor.
    if request.subject() == Subject::File && all.iter().any(|f| is_c_library(&f.module)) {
        all.retain(|f| is_c_library(&f.module));
    }
    match all.is_empty() {
        false => Ok(all),
        true => Err(Invalid::new(
            format!("no file of the process has {}", names.join(", ")),
            "it may have its own way to do that, or load one later: name a function instead",
        )),
    }
}

/// The function that a focus is confined to by `in`.
fn outer(functions: &Functions, focus: &Focus) -> Result<Option<Function>, Invalid> {
    let Some(name) = focus.get(Key::In) else {
        return Ok(None);
    };
    let mut found = functions.named(name, None)?;
    match found.len() {
        1 => Ok(found.pop()),
        n => Err(Invalid::new(
            format!("in=\"{name}\" stands for {n} copies of the function"),
            format!("name one of them: {}", places(&found)),
        )),
    }
}

/// Addresses that calls return to: those behind the calls of a function, or of a source line.
fn callers(functions: &Functions, focus: &Focus) -> Result<Vec<Range<u64>>, Invalid> {
    let Some(name) = focus.get(Key::Caller) else {
        return Ok(Vec::new());
    };
    let code = match line(name) {
        Some((file, line)) => of_line(functions, name, file, line)?,
        None => {
            let found = functions.named(name, None)?;
            found.into_iter().map(|f| f.addresses).collect()
        }
    };
    let all = joined(code);
    match all.len() {
        0..=MOST_CALLERS => Ok(all),
        n => Err(Invalid::new(
            format!("caller=\"{name}\" stands for {n} pieces of code"),
            format!("at most {MOST_CALLERS} can be told apart: name a function or another line"),
        )),
    }
}

fn of_line(
    functions: &Functions,
    name: &str,
    file: &str,
    line: u32,
) -> Result<Vec<Range<u64>>, Invalid> {
    match functions.of_line(file, line) {
        Some(code) if !code.is_empty() => Ok(code),
        Some(_) => Err(Invalid::new(
            format!("no instruction belongs to {name}"),
            "name a line with a call, by the file's name as the compiler got it",
        )),
        None => Err(Invalid::new(
            format!("{name} is not known: the program has no debug information"),
            "name the function that calls instead, or compile with -g",
        )),
    }
}

/// `file:line`.
fn line(name: &str) -> Option<(&str, u32)> {
    let (file, line) = name.rsplit_once(':')?;
    Some((file, line.parse().ok()?))
}

/// Addresses behind calls: a call may be the last instruction of its code, and then the one behind
/// belongs to something else. What overlaps or touches is one.
fn joined(mut code: Vec<Range<u64>>) -> Vec<Range<u64>> {
    code.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in code {
        let behind = range.start.saturating_add(1)..range.end.saturating_add(1);
        match all.last_mut().filter(|last| last.end >= behind.start) {
            Some(last) => last.end = last.end.max(behind.end),
            None => all.push(behind),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_from_a_function() {
        assert_eq!(line("cache.c:88"), Some(("cache.c", 88)));
        assert_eq!(line("zip::run"), None);
        assert_eq!(line("main"), None);
    }

    #[test]
    fn return_addresses_are_behind_the_calls() {
        assert_eq!(
            joined(vec![0x20..0x30, 0x10..0x18]),
            [0x11..0x19, 0x21..0x31]
        );
        let touching = joined(vec![0x20..0x30, 0x30..0x38]);
        assert_eq!((touching.len(), touching[0].clone()), (1, 0x21..0x39));
        assert!(joined(Vec::new()).is_empty());
    }
}
