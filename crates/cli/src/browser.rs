//! The user's browser, by xdg-open(1).

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OPENER: &str = "xdg-open";
/// Where a browser could show something. xdg-open without one of them looks for a text browser,
/// which would take the terminal.
const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];
/// xdg-open that has not failed by then has found a browser: some stay until that is closed.
const PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);

/// Shows a page. The error says why it could not, in a few words.
pub fn open(page: &Path) -> Result<(), String> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !DISPLAYS.iter().any(is_set) {
        return Err("there is no display".into());
    }
    let child = Command::new(OPENER)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|e| match e.kind() {
        ErrorKind::NotFound => format!("{OPENER} is not installed"),
        _ => format!("{OPENER}: {e}"),
    })?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err(format!("{OPENER} found no browser")),
            Ok(None) => std::thread::sleep(POLL),
            Err(e) => return Err(format!("{OPENER}: {e}")),
        }
    }
    Ok(())
}
