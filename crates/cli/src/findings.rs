//! `convoy findings`: the catalog of what a report can say.

use std::io::Write;

use clap::Args;
use convoy_analysis::catalog::{documentation, Entry, CATALOG};
use convoy_model::{Bottleneck, FindingId};

use crate::exit::Status;
use crate::message::Message;

/// `convoy findings`.
#[derive(Debug, Args)]
pub struct Findings {
    /// A finding or bottleneck, as in square brackets in a report [default: list all]
    #[arg(value_name = "ID")]
    id: Option<String>,
}

/// Prints the catalog, or the documentation of one finding or of all of one bottleneck.
pub fn findings(args: &Findings) -> Status {
    let text = match args.id.as_deref() {
        None => list(),
        Some(name) => match entries(name) {
            Ok(entries) => entries
                .into_iter()
                .map(section)
                .collect::<Vec<_>>()
                .join("\n"),
            Err(message) => {
                message.print();
                return Status::Failure;
            }
        },
    };
    // Who closes standard output has read enough.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Status::Success
}

/// Those of that name. A name of both, as busy-waiting, is the bottleneck's.
fn entries(name: &str) -> Result<Vec<&'static Entry>, Message> {
    let name = name.trim_matches(['[', ']']);
    let bottleneck = Bottleneck::from_name(name);
    let id = FindingId::from_name(name);
    let found: Vec<_> = CATALOG
        .iter()
        .filter(|of| bottleneck == Some(of.bottleneck()) || id == Some(of.id))
        .collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Message::new(
            format!("no finding or bottleneck has the id `{name}`"),
            "nothing is shown",
            "take one of those that `convoy findings` lists",
        )),
    }
}

fn list() -> String {
    let width = CATALOG.iter().map(|of| of.id.as_str().len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    let mut last = None;
    for entry in CATALOG {
        let bottleneck = entry.bottleneck();
        if last.replace(bottleneck) != Some(bottleneck) {
            text += &format!("{bottleneck}\n");
        }
        text += &format!("  {:width$}  {}\n", entry.id.as_str(), entry.summary);
    }
    text + "\nAll about one: convoy findings ID\n"
}

fn section(entry: &Entry) -> String {
    let code = entry.detectors.iter();
    let code = code.map(|name| format!("crates/analysis/src/detectors/{name}.rs"));
    format!(
        "{id}: {}\n\nbottleneck  {}\nneeds       {}\nsource      {}\ncode        {}\n\n{}\n",
        entry.summary,
        entry.bottleneck(),
        entry.needs.as_str(),
        entry.source,
        code.collect::<Vec<_>>().join("\n            "),
        documentation(entry.id).unwrap_or_default(),
        id = entry.id,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_findings_and_bottlenecks_select() {
        let ids =
            |name| entries(name).map(|found| found.iter().map(|of| of.id).collect::<Vec<_>>());
        assert_eq!(ids("[lock-step]").unwrap(), [FindingId::LockStep]);
        assert_eq!(ids("handoff-bound").unwrap(), [FindingId::LockStep]);
        assert!(ids("busy-waiting")
            .unwrap()
            .contains(&FindingId::TrylockSpin));
        assert!(ids("lock").is_err());
    }

    #[test]
    fn lines_fit_a_terminal() {
        let wide = list().lines().map(|line| line.chars().count()).max();
        assert!(wide.is_some_and(|wide| wide <= 100), "{wide:?}");
    }
}
