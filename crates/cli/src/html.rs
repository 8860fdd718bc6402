//! `convoy report --html`: the page with pictures.

use std::path::Path;

use convoy_profile::Profile;

use crate::args::Report;
use crate::judge::Judged;
use crate::message::Message;
use crate::show::write_file;

/// Analyses a profile and writes the page.
pub fn write(profile: Profile, report: &Report, file: &Path) -> Result<(), Message> {
    let judged = Judged::new(profile, report.view.process, &report.limits)?;
    write_file(file, &convoy_html::render(&judged.report()))
}
