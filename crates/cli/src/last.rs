//! The profile of the last run whose report was short: the rest of it is there on demand.

use std::path::PathBuf;

use convoy_profile::Profile;

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

/// What shows it again: root's runs are root's.
pub fn command() -> &'static str {
    match std::env::var_os("SUDO_UID") {
        Some(_) => "sudo convoy report --last",
        None => "convoy report --last",
    }
}

/// Nobody else can read it: a profile names files and functions.
fn file() -> Result<PathBuf, String> {
    let parent = std::env::temp_dir();
    let dir = convoy_capture::own_directory(&parent, "convoy-runs", 0o700)?;
    Ok(dir.join("last.convoy"))
}
