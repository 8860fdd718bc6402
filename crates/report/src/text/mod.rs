//! The report for a person.

pub mod page;
