//! When a program could run in parallel and does not, and which code runs then.

#![forbid(unsafe_code)]
