//! Pages with pictures: `convoy report --html` and `--open`, `convoy replay --html`.

use std::io::Write;
use std::path::{Path, PathBuf};

use convoy_profile::{Profile, ReadWarning};
use convoy_report::human;

use crate::analyze::Judged;
use crate::args::Report;
use crate::browser;
use crate::message::{say, Message};

/// Analyses a profile and writes the page, with what could not be read of it.
pub fn write(profile: Profile, damage: &[ReadWarning], report: &Report) -> Result<(), Message> {
    let damage: Vec<String> = damage
        .iter()
        .map(|warning| format!("{}: {}", warning.found(), warning.effect()))
        .collect();
    let judged = Judged::new(profile, report.view.process, &report.limits)?;
    let page = convoy_html::render(&judged.report(), &damage);
    let file = match &report.html {
        Some(file) => save(file, &page)?,
        None => save_temporarily(&page)?,
    };
    if !report.open {
        if !report.quiet {
            say(&written(&file, page.len(), Opened::No));
        }
        return Ok(());
    }
    let opened = browser::open(&file);
    // A page that nobody sees is of no use without its path.
    if !report.quiet || opened.is_err() {
        say(&written(&file, page.len(), Opened::from(opened)));
    }
    Ok(())
}

/// Writes a page whose text is there already.
pub fn write_page(file: &Path, page: &str, quiet: bool) -> Result<(), Message> {
    let file = save(file, page)?;
    if !quiet {
        say(&written(&file, page.len(), Opened::No));
    }
    Ok(())
}

fn save(file: &Path, page: &str) -> Result<PathBuf, Message> {
    std::fs::write(file, page)
        .map_err(|e| not_written(file, &e, "choose another file with --html"))?;
    Ok(file.to_owned())
}

/// The file stays: the browser may read it long after this program has ended.
fn save_temporarily(page: &str) -> Result<PathBuf, Message> {
    let dir = std::env::temp_dir();
    let fix = "name a file with --html";
    let file = tempfile::Builder::new()
        .prefix("convoy-")
        .suffix(".html")
        .tempfile_in(&dir);
    let mut file = file.map_err(|e| not_written(&dir, &e, fix))?;
    file.write_all(page.as_bytes())
        .map_err(|e| not_written(file.path(), &e, fix))?;
    let (_, path) = file.keep().map_err(|e| not_written(&dir, &e.error, fix))?;
    Ok(path)
}

fn not_written(path: &Path, why: &std::io::Error, fix: &str) -> Message {
    Message::new(
        format!("{}: {why}", path.display()),
        "the page was not written",
        fix,
    )
}

/// Whether a browser was told to show the page.
enum Opened {
    /// Nobody asked for it.
    No,
    Yes,
    /// Why not.
    Failed(String),
}

impl From<Result<(), String>> for Opened {
    fn from(opened: Result<(), String>) -> Self {
        match opened {
            Ok(()) => Self::Yes,
            Err(why) => Self::Failed(why),
        }
    }
}

/// What was written, and how to see it: one line.
fn written(file: &Path, bytes: usize, opened: Opened) -> String {
    let name = file.display();
    let size = human::bytes(bytes as u64);
    let how = match opened {
        Opened::No => format!("; open it in a browser: xdg-open {name}"),
        Opened::Yes => "; opened it with xdg-open".into(),
        Opened::Failed(why) => format!("; {why}: open it in a browser"),
    };
    format!("convoy: wrote {name} ({size}){how}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_was_written_and_how_to_see_it() {
        let line = |opened| written(Path::new("out.html"), 696_320, opened);
        let asked = line(Opened::No);
        let expected =
            "convoy: wrote out.html (680 KiB); open it in a browser: xdg-open out.html\n";
        assert_eq!(asked, expected);
        let shown = line(Opened::Yes);
        assert_eq!(
            shown,
            "convoy: wrote out.html (680 KiB); opened it with xdg-open\n"
        );
        let failed = line(Opened::Failed("there is no display".into()));
        let expected =
            "convoy: wrote out.html (680 KiB); there is no display: open it in a browser\n";
        assert_eq!(failed, expected);
    }

    #[test]
    fn a_temporary_page_stays() {
        let path = save_temporarily("<!doctype html>").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "<!doctype html>");
        assert_eq!(path.extension().unwrap(), "html");
    }
}
