//! `convoy top`: the tables of a running program, read from its shared memory without stopping it.

#![forbid(unsafe_code)]
