//! Estimates.
#![forbid(unsafe_code)]
