//! Reads all arenas of a session.

use std::collections::HashMap;
use std::path::Path;

use convoy_profile::Process;

use crate::arena::{self, Context, Late, NoArena, Pieces, Refs};
use crate::poll::Seen;
use crate::procfs;
use crate::session::{self, ArenaFile};

/// What a session holds.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// In order of start.
    pub processes: Vec<Process>,
    /// Remarks for the profile.
    pub notes: Vec<String>,
    /// Processes that still ran.
    pub running: u32,
    /// What the agents' numbers mean, by pid and start; see `collect`.
    pub late: HashMap<(u32, u64), Late>,
}

struct Found {
    file: ArenaFile,
    life: arena::Life,
}

/// Reads the arenas in `dir`. `end_ns`: when the recording stopped, `None` = not known (recovery).
/// `polled`: what was seen of each process, by pid. `main`: the main child and when it ended. `stacks`: those of a process image, by pid and start, that other files name.
pub(crate) fn collect(
    dir: &Path,
    polled: &HashMap<u32, Seen>,
    end_ns: Option<u64>,
    main: Option<(u32, u64)>,
    stacks: &dyn Fn(u32, u64) -> Refs,
) -> Collected {
    let mut collected = Collected::default();
    let mut found = Vec::new();
    let mut not_ready = 0u32;
    for file in session::arenas(dir) {
        match arena::open(&file.path).and_then(|opened| arena::head(&opened)) {
            Ok(head) => match arena::life(&head) {
                Ok(life) => found.push(Found { file, life }),
                Err(NoArena::NotReady) => not_ready += 1,
                Err(NoArena::OtherVersion(v)) => {
                    collected.notes.push(format!(
                        "process {}: arena of another version ({v}), left out",
                        file.pid
                    ));
                }
            },
            Err(e) => collected
                .notes
                .push(format!("process {}: arena not readable: {e}", file.pid)),
        }
    }
    for (i, this) in found.iter().enumerate() {
        let pid = this.file.pid;
        // One after the other: there may be thousands of processes.
        let Ok(opened) = arena::open(&this.file.path) else {
            not_ready += 1;
            continue;
        };
        let bytes = Pieces::new(&opened);
        let next = found.get(i + 1).filter(|next| next.file.pid == pid);
        let seen = polled.get(&pid);
        let seen_end_ns = if let Some(next) = next {
            next.life.start_ns // another image has taken its place
        } else if let Some((_, at_ns)) = main.filter(|(main_pid, _)| *main_pid == pid) {
            at_ns
        } else if let Some(gone_ns) = seen.and_then(|s| s.gone_ns) {
            gone_ns
        } else if let Some(end_ns) = end_ns {
            collected.running += u32::from(!this.life.ended && procfs::is_running(pid));
            end_ns
        } else {
            if !this.life.ended && procfs::is_running(pid) {
                collected.notes.push(format!(
                    "process {pid} may still run: this is what it had written so far"
                ));
            }
            arena::latest_ns(&bytes, u64::MAX).unwrap_or(this.life.start_ns)
        };
        // What was polled is of the last image of a pid.
        let polled = seen.filter(|_| next.is_none());
        let polled = polled.map(Seen::threads_by_own_number).unwrap_or_default();
        let context = Context {
            seen_end_ns,
            polled: &polled,
        };
        let start_ns = this.life.start_ns;
        match arena::read_with(&bytes, context, &stacks(pid, start_ns)) {
            Ok((mut process, late)) => {
                if let Some(seen) = seen {
                    seen.renumber(pid, &mut process);
                }
                collected.late.insert((process.pid, start_ns), late);
                collected.processes.push(process);
            }
            Err(_) => not_ready += 1,
        }
    }
    collected.processes.sort_by_key(|p| (p.start_ns, p.pid));
    if not_ready > 0 {
        collected.notes.push(format!(
            "{not_ready} process(es) ended before their agent was ready"
        ));
    }
    collected
}
