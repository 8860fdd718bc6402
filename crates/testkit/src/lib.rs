//! For tests only: profiles written by hand in a few lines, golden files, redaction.
//!
//! ```
//! use convoy_testkit::{ms, us, ProfileBuilder};
//!
//! let mut p = ProfileBuilder::new("server");
//! p.cpus(2).wall(ms(1000));
//! let work = p.frame("work", "server.c", 30);
//! let hot = p.frame("hot_lock_region", "server.c", 12);
//! let site = p.stack(&[hot, work]);
//! let a = p.thread("worker-0").start("work", "server.c", 28).cpu(ms(600)).id();
//! let b = p.thread("worker-1").start("work", "server.c", 28).cpu(ms(600)).id();
//! let lock = p.mutex("cache_lock");
//! p.acquires(a, lock, site, 10_000).hold(us(20));
//! p.contended(b, lock, site, 500, ms(300)).held_by(a, hot, site).hold(us(20));
//! let profile = p.build();
//! assert_eq!(profile.processes[0].counts.len(), 2);
//! ```

#![forbid(unsafe_code)]

mod builder;
mod calls;
mod golden;
mod objects;
mod redact;
pub mod replay;
pub mod sched;
pub mod sections;
mod threads;
mod time;

pub use builder::ProfileBuilder;
pub use calls::Calls;
pub use golden::{assert_golden, check_golden, Mismatch};
pub use objects::ObjectSpec;
pub use redact::Redactor;
pub use threads::ThreadSpec;
pub use time::{ms, ns, s, us};
