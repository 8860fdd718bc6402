//! The whole of attaching to a process and of leaving it.

use std::fs;
use std::hash::Hasher;
use std::time::{Duration, Instant};

use convoy_abi::{Attachment, CV_ATTACHMENT_ACTIVE, CV_ATTACHMENT_MAGIC};

use crate::call::Borrowed;
use crate::hooks::{self, area_bytes, Plan};
use crate::image::Image;
use crate::memory::{regions, Memory, Region};
use crate::outcome::{Attached, Detached};
use crate::process::{AgentCopy, Process, AGENT_PREFIX};
use crate::refusal;
use crate::safe_point;
use crate::tracee::{has_ended, stat_fields, AllStopped, Fault};
use convoy_probes::Refusal;

/// How long threads that are at the beginning of a function are given to go on.
const INSTALL_LIMIT: Duration = Duration::from_secs(3);
/// How long a process is tried to be stopped for taking the hooks out: it must not stay behind with
/// them.
const DETACH_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(2);

/// Stack of a thread that is searched for return addresses into the agent, bytes. A deeper one may
/// have them.
const DEEPEST_STACK: u64 = 1 << 20;

/// A process of convoy that holds attachments: its number, and its start in clock ticks since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its start, clock ticks since boot: with the number, names one process.
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_ticks: start_ticks(pid).unwrap_or(0),
        }
    }

    fn of(journal: &Attachment) -> Self {
        Self {
            pid: journal.owner_pid,
            start_ticks: journal.owner_start,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// `starttime` in [`stat_fields`].
const START_TIME: usize = 19;

/// `None` = there is no such process, or it has ended and nobody has asked for its status yet.
fn start_ticks(pid: u32) -> Option<u64> {
    let fields = stat_fields(pid)?;
    let start = fields.get(START_TIME).filter(|_| !has_ended(&fields));
    start?.parse().ok()
}

/// Puts the agent into a process: its library is `agent`, its session's directory `session_dir` as
/// the process sees it.
///
/// # Errors
/// Says why not; the process goes on as before.
pub fn attach(
    pid: u32,
    agent: &[u8],
    session_dir: &str,
    owner: Owner,
) -> Result<Attached, Refusal> {
    refusal::check(pid)?;
    let process = Process::look(pid).map_err(|r| permitted(pid, r))?;
    refusal::check_libraries(pid, &process.regions)?;
    let memory = open(pid)?;
    let copies = take_over(&process, &memory, owner)?;
    let image = Image::parse(agent)
        .ok_or_else(|| Refusal::new("this convoy has no agent for this processor", ""))?;
    let path = format!("{AGENT_PREFIX}{:016x}.so", digest(agent));
    let unused = unused_copy(&process, copies.iter().filter(|c| c.path == path), &memory)?;

    let tracee = safe_point::find(&process, &memory).map_err(|r| permitted(pid, r))?;
    let mut borrowed = borrow(&process, tracee)?;
    let begun = (|| {
        let at = match unused {
            Some(copy) => Place {
                base: copy.base,
                journal_at: copy.journal_at,
            },
            None => load(&process, &mut borrowed, &image, agent, &path, copies.len())?,
        };
        begin(&process, &mut borrowed, &memory, &image, &at, session_dir)?;
        let area = match trampolines(pid, &memory, &at)? {
            Some(area) => area,
            None => map_area(&process, &mut borrowed, &memory, &at)?,
        };
        Ok((at, area))
    })();
    let back = borrowed.give_back();
    let (at, area) = begun?;
    back.map_err(|fault| safe_point::refused(pid, fault))?;

    let journal = memory.get(at.journal_at).map_err(|_| Refusal::gone(pid))?;
    let plan = Plan::prepare(&process, (&image, at.base), &journal, area, &memory)
        .map_err(|e| hooks::unwritable(pid, &e))?;
    let stopped = install(pid, &plan, &at, owner)?;
    Ok(Attached {
        hooks: plan.len(),
        left_out: plan.left_out,
        stopped,
    })
}

/// Where a copy of the agent is.
#[derive(Debug)]
struct Place {
    base: u64,
    journal_at: u64,
}

/// Takes the hooks out. The agent's library stays, for threads that sleep in it.
///
/// # Errors
/// A thread sleeps where it cannot be stopped, for a minute: the hooks are still in.
pub fn detach(pid: u32, owner: Owner) -> Result<Detached, Refusal> {
    let until = Instant::now() + DETACH_LIMIT;
    loop {
        let Ok(process) = Process::look(pid) else {
            return Ok(Detached::Gone);
        };
        let Ok(memory) = Memory::open(pid) else {
            return Ok(Detached::Gone);
        };
        let copies = process.copies(&memory);
        let is_ours = |copy: &&AgentCopy| {
            let of = Owner::of(&copy.journal);
            copy.journal.state == CV_ATTACHMENT_ACTIVE && (of == owner || !of.is_alive())
        };
        let ours: Vec<_> = copies.iter().filter(is_ours).collect();
        if ours.is_empty() {
            return Ok(Detached::Nothing);
        }
        match AllStopped::of(pid) {
            Ok(stopped) => {
                // The image may be another one now, which has none of this.
                let removed = ours
                    .iter()
                    .all(|copy| hooks::remove(&memory, copy.journal_at).is_ok());
                let is_unused = ours.iter().all(|copy| {
                    let left = leave_if_unused(pid, &stopped, &memory, copy);
                    left.unwrap_or(false)
                });
                return Ok(match removed {
                    true => Detached::Removed { is_unused },
                    false => Detached::Gone,
                });
            }
            Err(Fault::Ended) => return Ok(Detached::Gone),
            Err(fault) if Instant::now() > until => return Err(safe_point::refused(pid, fault)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn open(pid: u32) -> Result<Memory, Refusal> {
    Memory::open(pid).map_err(|_| refusal::not_permitted(pid))
}

/// A reason that is a lack of rights, said as such.
fn permitted(pid: u32, refusal: Refusal) -> Refusal {
    match refusal.found.contains("not permitted") || refusal.found.contains("denied") {
        true => refusal::not_permitted(pid),
        false => refusal,
    }
}

/// The copies of the agent in the process, none of which is in use: what a dead convoy has left is
/// taken out.
fn take_over(process: &Process, memory: &Memory, owner: Owner) -> Result<Vec<AgentCopy>, Refusal> {
    let pid = process.pid;
    let copies = process.copies(memory);
    for copy in copies
        .iter()
        .filter(|c| c.journal.state == CV_ATTACHMENT_ACTIVE)
    {
        let of = Owner::of(&copy.journal);
        if of.is_alive() {
            return Err(Refusal::new(
                format!(
                    "another convoy (process {}) counts the locks of process {pid}",
                    of.pid
                ),
                "wait until it has ended",
            ));
        }
        detach(pid, owner)?;
    }
    Ok(copies)
}

/// A copy that no thread is inside: it can be used once more. A thread may sleep in one for ever,
/// in a wait that began while it was in use.
fn unused_copy<'a>(
    process: &Process,
    copies: impl Iterator<Item = &'a AgentCopy>,
    memory: &Memory,
) -> Result<Option<&'a AgentCopy>, Refusal> {
    let copies: Vec<_> = copies.collect();
    if copies.is_empty() {
        return Ok(None);
    }
    let refused = |fault| safe_point::refused(process.pid, fault);
    let stopped = AllStopped::of(process.pid).map_err(refused)?;
    for copy in copies {
        if leave_if_unused(process.pid, &stopped, memory, copy).map_err(refused)? {
            return Ok(Some(copy));
        }
    }
    Ok(None)
}

/// Whether no thread is inside a copy, whose tables nobody uses then.
fn leave_if_unused(
    pid: u32,
    stopped: &AllStopped,
    memory: &Memory,
    copy: &AgentCopy,
) -> Result<bool, Fault> {
    // Stacks grow: as they are now.
    let regions = regions(pid)?;
    if is_inside(stopped, memory, &regions, copy.text)? {
        return Ok(false);
    }
    hooks::forget_threads(stopped, memory, &copy.journal)?;
    Ok(true)
}

/// Whether any thread may return into this code.
fn is_inside(
    stopped: &AllStopped,
    memory: &Memory,
    regions: &[Region],
    (lo, hi): (u64, u64),
) -> Result<bool, Fault> {
    for thread in &stopped.threads {
        let registers = thread.registers()?;
        let rsp = registers.rsp;
        let of_stack = regions.iter().find(|r| (r.lo..r.hi).contains(&rsp));
        let bytes = of_stack.map_or(u64::MAX, |r| r.hi - rsp);
        if (lo..hi).contains(&registers.rip) || bytes > DEEPEST_STACK {
            return Ok(true);
        }
        let stack = memory.words(rsp, (bytes / 8) as usize);
        if stack.iter().any(|word| (lo..hi).contains(word)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn borrow(process: &Process, tracee: crate::tracee::Tracee) -> Result<Borrowed, Refusal> {
    let pid = process.pid;
    // If it has run another program meanwhile, so does the thread.
    let memory = open(pid)?;
    if !process.is_unchanged() {
        return Err(Refusal::gone(pid));
    }
    let gadgets = process
        .gadgets()
        .ok_or_else(|| Refusal::new("the C library is not as known", ""))?;
    Borrowed::new(tracee, memory, gadgets).map_err(|fault| safe_point::refused(pid, fault))
}

/// Loads the library from memory: what the process can see of the file system does not matter.
fn load(
    process: &Process,
    thread: &mut Borrowed,
    image: &Image,
    agent: &[u8],
    path: &str,
    copies: usize,
) -> Result<Place, Refusal> {
    let pid = process.pid;
    let fault = |fault| safe_point::refused(pid, fault);
    let failed = |why: String| Refusal::new(why, "start it under convoy: convoy -- COMMAND");
    let dlopen = ["dlopen", "__libc_dlopen_mode"]
        .iter()
        .find_map(|n| process.libc.address(n));
    let dlopen = dlopen.ok_or_else(|| failed("the C library has no dlopen".into()))?;
    let name = path.trim_start_matches("/memfd:");
    let name = thread.text(name).map_err(fault)?;
    let close_on_exec = u64::from(libc::MFD_CLOEXEC);
    let fd = thread
        .system_call(libc::SYS_memfd_create, [name, close_on_exec, 0, 0, 0, 0])
        .map_err(fault)?;
    let written = fs::write(format!("/proc/{pid}/fd/{fd}"), agent);
    // The loader takes two files of one name for one file.
    let file = format!("/proc/self/fd/{}{fd}", "./".repeat(copies));
    let called = written
        .map_err(|e| failed(format!("the agent's file cannot be written: {e}")))
        .and_then(|()| {
            let file = thread.text(&file).map_err(fault)?;
            const NO_DELETE: i32 = 0x1000;
            thread
                .call(dlopen, file, (libc::RTLD_NOW | NO_DELETE) as u64)
                .map_err(fault)
        });
    // The descriptor was ours only for this; of a thread that is gone it is gone as well.
    let _ = thread.system_call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    called?;
    let known = |base: u64| {
        process
            .regions
            .iter()
            .any(|r| r.lo == base && r.path == path)
    };
    let now = regions(pid).map_err(|_| Refusal::gone(pid))?;
    let new = now
        .iter()
        .find(|r| r.path == path && r.offset == 0 && !known(r.lo));
    let new = new.ok_or_else(|| failed(format!("process {pid} cannot load the agent (dlopen)")))?;
    let base = new.lo.wrapping_sub(image.first);
    let journal = image.symbols.get("convoy_attachment");
    let journal = journal.ok_or_else(|| failed("the agent has no journal".into()))?;
    Ok(Place {
        base,
        journal_at: journal.address + base,
    })
}

/// The agent makes its tables.
fn begin(
    process: &Process,
    thread: &mut Borrowed,
    memory: &Memory,
    image: &Image,
    at: &Place,
    session_dir: &str,
) -> Result<(), Refusal> {
    let fault = |fault| safe_point::refused(process.pid, fault);
    let function = image.symbols.get("convoy_attach");
    let function = function.ok_or_else(|| Refusal::new("the agent cannot be attached", ""))?;
    let dir = thread.text(session_dir).map_err(fault)?;
    thread
        .call(function.address + at.base, dir, 0)
        .map_err(fault)?;
    let journal: Attachment = memory
        .get(at.journal_at)
        .map_err(|e| hooks::unwritable(process.pid, &e))?;
    match (journal.magic, journal.is_ready) {
        (CV_ATTACHMENT_MAGIC, 1) => Ok(()),
        _ => Err(Refusal::new(
            format!("process {} cannot write to {session_dir}", process.pid),
            "name a directory on a tmpfs that it sees and may write to: --session-dir",
        )),
    }
}

/// Where the trampolines of a copy are that was used before.
fn trampolines(pid: u32, memory: &Memory, at: &Place) -> Result<Option<u64>, Refusal> {
    let journal: Attachment = memory
        .get(at.journal_at)
        .map_err(|e| hooks::unwritable(pid, &e))?;
    if journal.magic != CV_ATTACHMENT_MAGIC {
        return Err(Refusal::new("the agent's journal is damaged", ""));
    }
    Ok((journal.trampolines != 0).then_some(journal.trampolines))
}

/// Room for the trampolines, so near to the C library that a short jump reaches it.
fn map_area(
    process: &Process,
    thread: &mut Borrowed,
    memory: &Memory,
    at: &Place,
) -> Result<u64, Refusal> {
    let pid = process.pid;
    let near = process.libc.bias + process.libc.image.first;
    let now = regions(pid).map_err(|_| Refusal::gone(pid))?;
    let area = thread
        .map_code(&now, near, area_bytes())
        .map_err(|fault| safe_point::refused(pid, fault))?
        .ok_or_else(|| Refusal::new("there is no room near the C library", ""))?;
    let field = std::mem::offset_of!(Attachment, trampolines) as u64;
    let noted = memory.put(at.journal_at + field, &area);
    noted.map(|()| area).map_err(|e| hooks::unwritable(pid, &e))
}

/// Stops everybody and patches; how long that took.
fn install(pid: u32, plan: &Plan, at: &Place, owner: Owner) -> Result<Duration, Refusal> {
    let fault = |fault| safe_point::refused(pid, fault);
    let until = Instant::now() + INSTALL_LIMIT;
    loop {
        let began = Instant::now();
        let stopped = AllStopped::of(pid).map_err(fault)?;
        // Of the image that it runs now.
        let memory = open(pid)?;
        let journal: Result<Attachment, _> = memory.get(at.journal_at);
        if !journal.is_ok_and(|j| j.magic == CV_ATTACHMENT_MAGIC) {
            return Err(Refusal::gone(pid));
        }
        let owner = (owner.pid, owner.start_ticks);
        let is_in = plan.install(&stopped, &memory, at.journal_at, owner);
        if is_in.is_err() {
            // Half of the hooks may be in.
            let _ = hooks::remove(&memory, at.journal_at);
        }
        drop(stopped);
        match is_in.map_err(fault)? {
            true => return Ok(began.elapsed()),
            false if Instant::now() > until => {
                return Err(Refusal::new(
                    format!(
                        "threads of process {pid} do not leave the beginnings of its functions"
                    ),
                    "try again",
                ));
            }
            false => std::thread::sleep(PAUSE),
        }
    }
}

/// Names a build of the agent.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
