//! What keeps a program from running in parallel, why, and what fixing it would buy: pure functions
//! of a [`convoy_model::Model`].
//!
//! [`counters`] judges what the agent counted (SyncPerf, EuroSys'17), [`scheduler`] what the kernel
//! showed (GAPP, ICPE'20), and [`arbitration`] makes one list of both.

#![forbid(unsafe_code)]

pub mod arbitration;
pub mod catalog;
pub mod counters;
mod detectors;
mod estimate;
mod facts;
mod knowledge;
pub mod params;
mod ranking;
mod root_causes;
pub mod scheduler;
mod tables;
mod verdict;
mod words;

pub use params::Params;
