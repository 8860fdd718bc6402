//! Function probes in a running process: docs/design/0009-function-probes.md.

#[cfg(target_arch = "x86_64")]
mod area;
#[cfg(target_arch = "x86_64")]
mod borrow;
#[cfg(target_arch = "x86_64")]
mod clock;
#[cfg(target_arch = "x86_64")]
mod code;
#[cfg(target_arch = "x86_64")]
mod columns;
#[cfg(target_arch = "x86_64")]
mod cpu_clock;
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
#[cfg(target_arch = "x86_64")]
mod files;
#[cfg(target_arch = "x86_64")]
mod inside;
#[cfg(target_arch = "x86_64")]
mod leftovers;
#[cfg(target_arch = "x86_64")]
mod modules;
#[cfg(target_arch = "x86_64")]
mod patching;
#[cfg(target_arch = "x86_64")]
mod row;
#[cfg(target_arch = "x86_64")]
mod session;
#[cfg(target_arch = "x86_64")]
mod table_memory;
#[cfg(target_arch = "x86_64")]
mod thread_pointer;

#[cfg(target_arch = "x86_64")]
pub(crate) use cpu_clock::is_cpu_clock;
#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::Probes;
#[cfg(target_arch = "x86_64")]
pub use session::Probes;
