//! Call stacks from copies of registers and stack memory, by call frame information.

#![forbid(unsafe_code)]
