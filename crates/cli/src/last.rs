//! The profile of the last run whose report was short: the rest of it is there on demand.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use convoy_profile::Profile;
use convoy_report::human;

use crate::message::Message;

/// Keeps a run in the place of the one before.
///
/// # Errors
/// Why it cannot be kept.
pub fn keep(profile: &Profile) -> Result<(), String> {
    let written = convoy_capture::write_profile(&file()?, profile);
    written.map_err(|error| error.trouble().to_string())
}

/// The file of the run that was kept last.
///
/// # Errors
/// There is none.
pub fn kept() -> Result<PathBuf, Message> {
    let none = |why: String| {
        let fix =
            "run one on a terminal: convoy -- COMMAND, or keep one: convoy -o FILE -- COMMAND";
        Message::new(format!("no run was kept{why}"), "nothing to report", fix)
    };
    let file = file().map_err(|why| none(format!(": {why}")))?;
    match file.is_file() {
        true => Ok(file),
        false => Err(none(String::new())),
    }
}

/// How long ago that was, for a person: other runs may have been since, and not be kept.
pub fn age(kept: &Path) -> String {
    let written = fs::metadata(kept).and_then(|file| file.modified());
    let age = written.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
    age.map_or_else(
        |_| "reading the run that was kept last".into(),
        |age| {
            let ago = human::duration(age.as_secs_f64().round() * 1e9);
            format!("reading the run that was kept {ago} ago")
        },
    )
}

/// Command that shows the run again: a run of root's is in a directory of root's.
pub fn command() -> &'static str {
    let owner = file()
        .ok()
        .and_then(|file| fs::metadata(file.parent()?).ok());
    let is_roots = owner.is_some_and(|owner| owner.uid() == 0);
    match is_roots && std::env::var_os("SUDO_UID").is_some() {
        true => "sudo convoy report --last",
        false => "convoy report --last",
    }
}

/// Nobody else can read it: a profile names files and functions.
fn file() -> Result<PathBuf, String> {
    let parent = std::env::temp_dir();
    let dir = convoy_capture::own_directory(&parent, "convoy-runs", 0o700)?;
    Ok(dir.join("last.convoy"))
}
