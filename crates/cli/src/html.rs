//! `convoy report --html`: the page with pictures.

use std::path::Path;

use convoy_profile::{Profile, ReadWarning};

use crate::args::Report;
use crate::judge::Judged;
use crate::message::Message;
use crate::show::write_file;

/// Analyses a profile and writes the page, with what could not be read of it.
pub fn write(
    profile: Profile,
    damage: &[ReadWarning],
    report: &Report,
    file: &Path,
) -> Result<(), Message> {
    let damage: Vec<String> = damage
        .iter()
        .map(|warning| format!("{}: {}", warning.found(), warning.effect()))
        .collect();
    let judged = Judged::new(profile, report.view.process, &report.limits)?;
    write_file(file, &convoy_html::render(&judged.report(), &damage))
}
