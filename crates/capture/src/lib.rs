//! Launches a program under the agent, waits for it, and turns what the agent wrote into a profile.
//!
//! The program is sacred: it gets the environment, signal state, descriptors, process group and
//! terminal that it would have got without convoy, and two variables more.
//!
//! ```no_run
//! # fn main() -> Result<(), convoy_capture::Error> {
//! use convoy_capture::{Options, Recorder};
//!
//! let command = ["./server".into(), "--threads".into(), "16".into()];
//! let recording = Recorder::new(Options::default())?.launch(&command)?.wait();
//! println!("{} processes", recording.profile.processes.len());
//! # Ok(())
//! # }
//! ```

mod agent_file;
mod agent_inside;
mod allocator;
mod arena;
mod attach;
pub mod causal;
mod clock;
mod collect;
mod command;
mod criticality;
pub mod doctor;
mod elf_check;
mod empty_library;
mod error;
mod events;
mod inherited;
mod injector;
mod interrupt;
mod kernel;
mod launch;
mod machine;
mod members;
mod open_files;
mod others;
mod own_directory;
mod poll;
pub mod probes;
mod procfs;
mod recorder;
mod recover;
mod sections;
mod session;
mod side_file;
mod signals;
mod store;
mod targets;
mod threads;
mod wait;
mod watch;

pub use agent_inside::AgentInside;
pub use allocator::keep_little_memory;
pub use attach::{attach, Attached};
pub use command::{Command, Program};
pub use criticality::CriticalitySampler;
pub use elf_check::Elf;
pub use error::{Error, ErrorKind, Refusal, Trouble};
pub use events::{Budget, Mode as TraceMode, TraceOptions};
pub use injector::{serve as serve_injection, ARGUMENT as INJECTOR_ARGUMENT};
pub use interrupt::{asks_for_an_end, Interrupt};
pub use kernel::Scheduler;
pub use machine::machine;
pub use members::{Member, Members};
pub use open_files::OpenFiles;
pub use own_directory::own_directory;
pub use probes::ProbeClient;
pub use procfs::{
    command_line, end_process, processes_called, thread_names, IoFigures, ProcessReading,
};
pub use recorder::{Options, Recorder, Recording, Running, Streams};
pub use recover::{discard, recover};
pub use sections::{Diagnose, Site};
pub use session::{leftovers, Leftover, Session};
pub use store::{can_write, write_profile};
pub use targets::Targets;
pub use threads::{ThreadReader, ThreadReading};
pub use watch::{HeldLocks, Reading, Watch};
