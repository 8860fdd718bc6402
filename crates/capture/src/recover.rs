//! Makes a profile of what a convoy left that was killed.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use convoy_profile::{Exit, Profile};

use crate::collect::collect;
use crate::error::{Error, ErrorKind, Trouble};
use crate::events;
use crate::recorder::{agent_collector, stacks};
use crate::sections;
use crate::session::{is_session_name, read_owner};

/// The profile of a session directory. The directory stays.
pub fn recover(dir: &Path) -> Result<Profile, Error> {
    let owner = read_owner(dir).ok_or_else(|| {
        not_a_session(
            dir,
            "has no readable file \"owner\"",
            "name a directory that convoy doctor lists",
        )
    })?;
    let traced = sections::left(dir);
    let events = events::left(dir);
    let stacks = |pid, start_ns| stacks(traced.as_ref(), events.as_ref(), pid, start_ns);
    let collected = collect(dir, &HashMap::new(), None, None, &stacks);
    let mut meta = owner.meta;
    meta.exit = Exit::Unknown;
    meta.end_ns = collected
        .processes
        .iter()
        .map(|p| p.end_ns)
        .max()
        .unwrap_or(meta.start_ns);
    meta.collectors = vec![agent_collector(!collected.processes.is_empty(), None)];
    meta.notes.push(format!(
        "recovered from {}: convoy ended before the program; times end with the last event of each process",
        dir.display()
    ));
    meta.notes.extend(collected.notes);
    let mut processes = collected.processes;
    let late = |pid, start_ns| collected.late.get(&(pid, start_ns)).cloned();
    let mut troubles = Vec::new();
    let sections = traced.map(|t| t.place(&mut processes, late, &mut troubles));
    let trace = events.map(|e| e.place(&mut processes, late, &mut troubles));
    let notes = troubles.iter();
    meta.notes
        .extend(notes.map(|t| format!("{}: {}", t.found, t.effect)));
    Ok(Profile {
        meta,
        processes,
        sched: None,
        sections,
        live_curves: None,
        trace,
        experiments: None,
        second_run: None,
    })
}

/// Removes a session directory of ours.
pub fn discard(dir: &Path) -> Result<(), Error> {
    let uid = rustix::process::geteuid().as_raw();
    let ours = dir.file_name().is_some_and(is_session_name)
        && fs::symlink_metadata(dir).is_ok_and(|m| m.is_dir() && m.uid() == uid);
    if !ours {
        return Err(not_a_session(
            dir,
            "is no session directory of yours",
            "remove it by hand if you are sure",
        ));
    }
    fs::remove_dir_all(dir).map_err(|e| not_a_session(dir, &format!("cannot be removed: {e}"), ""))
}

fn not_a_session(dir: &Path, found: &str, fix: &str) -> Error {
    let found = format!("{} {found}", dir.display());
    Error::new(
        ErrorKind::Session,
        Trouble::new(found, "nothing was done", fix),
    )
}
