//! Names of locks and thread groups in queries.

use strsim::levenshtein as distance;

use crate::program::{BarrierIx, LockIx, SemIx, ThreadIx};

use super::{Barriers, Group, Semaphores, Target};

/// Suggestions for a name that is not there, at most.
const MAX_SUGGESTIONS: usize = 3;
/// Changes of characters that a suggestion may be away, as a share of the name's length.
const MAX_DISTANCE_SHARE: f64 = 0.5;

/// The names of a program. Several locks can have one name: those of an array, or of one creation site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of locks.
    pub locks: Vec<(String, Vec<LockIx>)>,
    /// Names of barriers.
    pub barriers: Vec<(String, Vec<BarrierIx>)>,
    /// Names of semaphores.
    pub semaphores: Vec<(String, Vec<SemIx>)>,
    /// Names of thread groups.
    pub groups: Vec<(String, Vec<ThreadIx>)>,
}

/// A name does not lead to anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{name}` is not in the trace{}", suggestion(suggestions))]
pub struct NameError {
    /// "lock", "barrier", "semaphore" or "thread group".
    pub kind: &'static str,
    /// What was asked for.
    pub name: String,
    /// Similar names that exist, or those that contain it, the most similar first.
    pub suggestions: Vec<String>,
}

fn suggestion(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", quoted.join(" or ")),
    }
}

impl Names {
    /// The locks of a name.
    pub fn target(&self, name: &str) -> Result<Target, NameError> {
        let (name, locks) = find("lock", &self.locks, name)?.clone();
        Ok(Target { name, locks })
    }

    /// The barriers of a name.
    pub fn barriers(&self, name: &str) -> Result<Barriers, NameError> {
        let (name, barriers) = find("barrier", &self.barriers, name)?.clone();
        Ok(Barriers { name, barriers })
    }

    /// The semaphores of a name.
    pub fn semaphores(&self, name: &str) -> Result<Semaphores, NameError> {
        let (name, semaphores) = find("semaphore", &self.semaphores, name)?.clone();
        Ok(Semaphores { name, semaphores })
    }

    /// The threads of a group.
    pub fn group(&self, name: &str) -> Result<Group, NameError> {
        let (name, threads) = find("thread group", &self.groups, name)?.clone();
        Ok(Group { name, threads })
    }
}

/// The entry of that name; else the only one that contains it.
fn find<'n, T>(
    kind: &'static str,
    names: &'n [(String, T)],
    name: &str,
) -> Result<&'n (String, T), NameError> {
    if let Some(exact) = names.iter().find(|(known, _)| known == name) {
        return Ok(exact);
    }
    let lower = name.to_lowercase();
    let contains = |entry: &&(String, T)| {
        let known = entry.0.to_lowercase();
        known.contains(&lower) || without_numbers(&known) == lower
    };
    let containing: Vec<&(String, T)> = names.iter().filter(contains).collect();
    if let ([only], false) = (containing.as_slice(), name.is_empty()) {
        return Ok(only);
    }
    let mut suggestions: Vec<String> = match containing.is_empty() || name.is_empty() {
        true => similar(names, name),
        false => containing.iter().map(|(known, _)| known.clone()).collect(),
    };
    suggestions.truncate(MAX_SUGGESTIONS);
    Err(NameError {
        kind,
        name: name.to_owned(),
        suggestions,
    })
}

/// A name without what a compiler puts behind that of a static variable of a function: `.112`.
fn without_numbers(name: &str) -> String {
    let mut parts = name.split('.');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_number = rest.len() < part.len() && !rest.starts_with(char::is_alphanumeric);
        if !is_number {
            plain.push('.');
        }
        plain += if is_number { rest } else { part };
    }
    plain
}

fn similar<T>(names: &[(String, T)], name: &str) -> Vec<String> {
    let limit = (name.chars().count() as f64 * MAX_DISTANCE_SHARE).ceil() as usize;
    let near = names
        .iter()
        .map(|(known, _)| (distance(known, name), known));
    let mut near: Vec<_> = near.filter(|(distance, _)| *distance <= limit).collect();
    near.sort();
    near.into_iter().map(|(_, known)| known.clone()).collect()
}

/// A name as a query may have it.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_.+:-[]".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{name}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let lock = |name: &str, ix| (name.to_owned(), vec![ix]);
        Names {
            locks: vec![
                lock("cache_lock", 0),
                lock("queue.mutex", 1),
                lock("log.mutex", 2),
            ],
            groups: vec![("workers".into(), vec![1, 2])],
            ..Names::default()
        }
    }

    #[test]
    fn a_name_is_found_exactly_or_by_the_only_one_that_contains_it() {
        assert_eq!(names().target("cache_lock").unwrap().locks, [0]);
        assert_eq!(names().target("Queue").unwrap().name, "queue.mutex");
        assert_eq!(names().group("workers").unwrap().threads, [1, 2]);
    }

    #[test]
    fn numbers_of_the_compiler_need_not_be_known() {
        let mut names = names();
        names.locks.push(("mutexes.112+0x30".into(), vec![7]));
        names.locks.push(("mutexes.112+0x60".into(), vec![8]));
        assert_eq!(names.target("mutexes+0x30").unwrap().locks, [7]);
        assert_eq!(without_numbers("a.b.3[1].m2"), "a.b[1].m2");
    }

    #[test]
    fn unknown_names_get_suggestions() {
        let error = names().target("cahce_lock").unwrap_err();
        assert_eq!(error.suggestions, ["cache_lock"]);
        assert_eq!(
            error.to_string(),
            "lock `cahce_lock` is not in the trace; did you mean `cache_lock`?"
        );
        let error = names().target("mutex").unwrap_err();
        assert_eq!(error.suggestions, ["queue.mutex", "log.mutex"]);
        assert!(names().target("xyzzy").unwrap_err().suggestions.is_empty());
        assert!(names().target("").is_err());
    }

    #[test]
    fn the_distance_counts_changes() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
