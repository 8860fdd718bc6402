//! `convoy top`: the tables of a running program, read from its shared memory without stopping it.
//!
//! A reading is a whole model (`reading`); what goes on now is the difference of two (`span`),
//! which the tables (`tables`) and the page of one object (`page`) lay out as rows (`grid`). What
//! is on the screen is one plain state (`app`) that keys (`keys`) and readings change and that is
//! drawn without any other knowledge (`view`), or written as text or JSON (`plain`). Only
//! `reading` and `terminal` know the world. The screen of `convoy live` (`live`) is made of the
//! same parts.

#![forbid(unsafe_code)]

mod app;
mod filter;
mod grid;
mod keys;
mod layout;
mod live;
mod page;
mod plain;
mod reading;
mod span;
mod symbols;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use app::App;
pub use live::{run_live, Measurement, Progress};
pub use reading::{Live, Reading, Source};
pub use terminal::run;
pub use view::Look;
pub use words::value;
