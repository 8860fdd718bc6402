//! Function probes in a running process, by a process of their own: the end of this one, whatever
//! ends it, takes them out.

mod client;
mod server;
mod uprobe;
mod uprobe_price;
mod wire;

pub use client::{clean_up, ProbeClient};
pub use server::{serve, ARGUMENT};
