//! What an analysis found, as text for a person and as JSON for a program. Pure: a model and an
//! analysis in, a string out; whoever calls knows the terminal and the locale.

#![forbid(unsafe_code)]

pub mod human;
pub mod names;
pub mod text;
