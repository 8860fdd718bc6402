//! Runs what `emit` makes.

mod api;
mod dispatch;
mod entry;
mod heap;
mod lock;
mod log;
mod maps;
mod memory;
mod panic;
mod record;
mod region;
mod signals;
mod sys;
mod syscalls;
mod tables;
mod thread;
mod translator;
