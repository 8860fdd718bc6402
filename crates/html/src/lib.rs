//! What an analysis found, as one HTML page with pictures: no network, opens from a file in any browser.
//!
//! The findings and tables are plain HTML and say everything without a script. The pictures are drawn by the
//! scripts in `assets/` with well-known libraries (`vendor/`), from data that the page carries compressed. Pure: a
//! report in, a text out. The page is described in docs/html.md.

#![forbid(unsafe_code)]

mod bytes;
mod data;
mod page;
pub mod replay;
mod roles;
mod words;

use convoy_report::Report;

/// Writes the page. `damage` says in words what could not be read of the profile's file; empty = nothing.
pub fn render(report: &Report<'_>, damage: &[String]) -> String {
    let data = data::of(report);
    page::page(report, &data, damage).into_string()
}
