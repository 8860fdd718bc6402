//! The whole of attaching to a process and of leaving it.

use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_abi::Attachment;

use crate::all_stopped::AllStopped;
use crate::call::Borrowed;
use crate::gadgets::signal_returns;
use crate::hooks::{self, leave_if_unused, Plan};
use crate::image::Image;
use crate::load::{area, begin, load, Place};
use crate::memory::Memory;
use crate::outcome::{Attached, Detached};
use crate::owner::{self, Owner};
use crate::process::{AgentCopy, Process, AGENT_PREFIX};
use crate::refusal;
use crate::safe_point;
use crate::session_dir::SessionDir;
use crate::stacks::Stacks;
use crate::tracer::{attempt, retry};
use crate::turn::Turn;
use convoy_probes::Refusal;

/// How long attaching is tried again while a thread cannot be stopped, or is traced by another
/// convoy.
const ATTACH_LIMIT: Duration = Duration::from_secs(5);
/// The same for taking the hooks out: the process must not stay behind with them.
const DETACH_LIMIT: Duration = Duration::from_secs(60);
/// How long threads that are at the beginning of a function are given to go on.
const INSTALL_LIMIT: Duration = Duration::from_secs(3);
/// How long a moment is waited for in which no thread is inside fork.
const FORK_LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);
/// How often it is looked whether a copy of the agent can be used again: a return address that is
/// left on the stack of a working thread is overwritten sooner or later.
const CLAIM_LOOKS: usize = 5;
const CLAIM_PAUSE: Duration = Duration::from_millis(5);

/// What is to be put into a process.
#[derive(Debug)]
struct Request {
    /// The library, as a file.
    agent: Vec<u8>,
    session_dir: PathBuf,
    owner: Owner,
}

/// Puts the agent into a process: its library is `agent`, its session's directory `session_dir`,
/// which the process need not see.
///
/// # Errors
/// Says why not; the process goes on as before.
pub fn attach(
    pid: u32,
    agent: &[u8],
    session_dir: &Path,
    owner: Owner,
) -> Result<Attached, Refusal> {
    let request = Arc::new(Request {
        agent: agent.to_vec(),
        session_dir: session_dir.to_owned(),
        owner,
    });
    let attached = retry(ATTACH_LIMIT, || {
        let request = Arc::clone(&request);
        attempt(pid, move || attach_once(pid, &request))
    });
    attached.map_err(|refusal| permitted(pid, refusal))
}

/// Takes the hooks out. The agent's library stays, for threads that sleep in it.
///
/// # Errors
/// A thread sleeps where it cannot be stopped, for a minute: the hooks are still in.
pub fn detach(pid: u32, owner: Owner) -> Result<Detached, Refusal> {
    let detached = retry(DETACH_LIMIT, || {
        attempt(pid, move || detach_once(pid, owner))
    });
    match detached {
        Err(refusal) if refusal.is_gone => Ok(Detached::Gone),
        result => result,
    }
}

fn attach_once(pid: u32, request: &Request) -> Result<Attached, Refusal> {
    let _turn = Turn::take(pid)?;
    refusal::check(pid)?;
    let process = Process::look(pid).map_err(|r| permitted(pid, r))?;
    refusal::check_libraries(pid, &process.regions)?;
    let memory = open(pid)?;
    let copies = take_over(&process, &memory, request.owner)?;
    let image = Image::parse(&request.agent)
        .ok_or_else(|| Refusal::new("this convoy has no agent for this processor", ""))?;
    let path = format!("{AGENT_PREFIX}{:016x}.so", digest(&request.agent));
    let same = copies.iter().filter(|copy| copy.path == path);
    let unused = claim_unused(&process, same, &memory, request.owner)?;
    let claimed = unused.map(|copy| copy.journal_at);

    let attached = enter(&process, &memory, request, (&image, &path), unused);
    if let (Err(_), Some(journal_at)) = (&attached, claimed) {
        owner::disclaim(&memory, journal_at, request.owner);
    }
    attached
}

/// Makes the agent ready in a borrowed thread, and puts the hooks in.
fn enter(
    process: &Process,
    memory: &Memory,
    request: &Request,
    (image, path): (&Image, &str),
    unused: Option<&AgentCopy>,
) -> Result<Attached, Refusal> {
    let pid = process.pid;
    let mut borrowed = borrow(process, memory)?;
    let begun = (|| {
        let at = match unused {
            Some(copy) => Place {
                base: copy.base,
                journal_at: copy.journal_at,
            },
            None => load(
                process,
                &mut borrowed,
                (image, &request.agent),
                path,
                request.owner,
            )?,
        };
        let dir = SessionDir::reach(pid, &mut borrowed, memory, &request.session_dir)?;
        let begun = begin(process, &mut borrowed, memory, image, at, &dir.path);
        dir.close(&mut borrowed);
        if !begun? {
            return Err(unwritable_dir(pid, &request.session_dir));
        }
        let area = area(process, &mut borrowed, memory, at)?;
        Ok((at, area))
    })();
    let back = borrowed.give_back();
    let (at, area) = begun?;
    let installed = (|| {
        back.map_err(|fault| safe_point::refused(pid, fault))?;
        let journal = memory.get(at.journal_at).map_err(|_| Refusal::gone(pid))?;
        let plan = Plan::prepare(process, (image, at.base), &journal, area, memory)
            .map_err(|e| hooks::unwritable(pid, &e))?;
        if plan.len() == 0 {
            return Err(Refusal::new(
                format!(
                    "no function of the C library of process {pid} can be hooked ({})",
                    plan.left_out.first().map_or("it has none", String::as_str)
                ),
                "start it under convoy: convoy -- COMMAND",
            ));
        }
        let returns = signal_returns(memory, &process.regions);
        let stopped = install(process, &plan, at, request.owner, &returns)?;
        Ok(Attached {
            hooks: plan.len(),
            left_out: plan.left_out,
            stopped,
        })
    })();
    if installed.is_err() {
        owner::disclaim(memory, at.journal_at, request.owner);
    }
    installed
}

/// Takes out the hooks of `owner`, and those that nobody answers for.
fn detach_once(pid: u32, owner: Owner) -> Result<Detached, Refusal> {
    let process = Process::look(pid).map_err(|_| Refusal::gone(pid))?;
    let memory = Memory::open(pid).map_err(|_| Refusal::gone(pid))?;
    let copies = process.copies(&memory);
    let ours: Vec<_> = copies
        .iter()
        .filter(|copy| owner::has_hooks_to_remove(copy, &memory, owner))
        .collect();
    if ours.is_empty() {
        return Ok(Detached::Nothing);
    }
    let refused = |fault| safe_point::refused(pid, fault);
    let returns = signal_returns(&memory, &process.regions);
    let stopped = AllStopped::of(pid).map_err(refused)?;
    // The image may be another one now, which has none of this.
    let removed = ours
        .iter()
        .all(|copy| hooks::remove(&memory, copy.journal_at).is_ok());
    let is_unused = Stacks::of(pid, &memory, &returns).is_ok_and(|stacks| {
        let is_left = |copy| leave_if_unused(&stopped, (&memory, &stacks), copy);
        ours.iter().all(|copy| is_left(copy).unwrap_or(false))
    });
    Ok(match removed {
        true => Detached::Removed { is_unused },
        false => Detached::Gone,
    })
}

fn open(pid: u32) -> Result<Memory, Refusal> {
    Memory::open(pid).map_err(|_| refusal::not_permitted(pid))
}

fn unwritable_dir(pid: u32, dir: &Path) -> Refusal {
    Refusal::new(
        format!("process {pid} cannot write to {}", dir.display()),
        "name a directory on a tmpfs that it may write to: --session-dir",
    )
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
    let mut is_left_behind = false;
    for copy in &copies {
        if owner::has_hooks_to_remove(copy, memory, owner) {
            is_left_behind = true;
        } else if let Some(other) = owner.other_of(&copy.journal) {
            return Err(another_convoy(pid, other));
        }
    }
    if is_left_behind {
        detach_once(pid, owner)?;
    }
    Ok(copies)
}

fn another_convoy(pid: u32, other: Owner) -> Refusal {
    Refusal::new(
        format!(
            "another convoy (process {}) counts the locks of process {pid}",
            other.pid
        ),
        "wait until it has ended",
    )
}

/// A copy that no thread is inside and that nobody has claimed: it can be used once more, and is
/// claimed. A thread may sleep in one for ever, in a wait that began while it was in use.
fn claim_unused<'a>(
    process: &Process,
    copies: impl Iterator<Item = &'a AgentCopy>,
    memory: &Memory,
    owner: Owner,
) -> Result<Option<&'a AgentCopy>, Refusal> {
    let copies: Vec<_> = copies.collect();
    if copies.is_empty() {
        return Ok(None);
    }
    let pid = process.pid;
    let refused = |fault| safe_point::refused(pid, fault);
    let returns = signal_returns(memory, &process.regions);
    for _ in 0..CLAIM_LOOKS {
        let stopped = AllStopped::of(pid).map_err(refused)?;
        let stacks = Stacks::of(pid, memory, &returns).map_err(|_| Refusal::gone(pid))?;
        for &copy in &copies {
            // While all threads are stopped no other convoy can do the same.
            let now: Attachment = memory
                .get(copy.journal_at)
                .map_err(|_| Refusal::gone(pid))?;
            if let Some(other) = owner.other_of(&now) {
                return Err(another_convoy(pid, other));
            }
            if leave_if_unused(&stopped, (memory, &stacks), copy).map_err(refused)? {
                let claimed = owner::claim(memory, copy.journal_at, owner);
                return claimed
                    .map(|()| Some(copy))
                    .map_err(|e| hooks::unwritable(pid, &e));
            }
        }
        drop(stopped);
        std::thread::sleep(CLAIM_PAUSE);
    }
    Ok(None)
}

fn borrow(process: &Process, memory: &Memory) -> Result<Borrowed, Refusal> {
    let pid = process.pid;
    let tracee = safe_point::find(process, memory).map_err(|r| permitted(pid, r))?;
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

/// Stops everybody and patches; how long that took.
fn install(
    process: &Process,
    plan: &Plan,
    at: Place,
    owner: Owner,
    signal_returns: &[u64],
) -> Result<Duration, Refusal> {
    let pid = process.pid;
    let fault = |fault| safe_point::refused(pid, fault);
    let forks = [process.libc.range("fork"), process.libc.range("_Fork")];
    let forks = forks.into_iter().flatten().map(|(lo, hi)| lo..hi);
    let forks: Vec<_> = forks.collect();
    let fork_until = Instant::now() + FORK_LIMIT;
    let until = Instant::now() + INSTALL_LIMIT;
    loop {
        let began = Instant::now();
        let stopped = AllStopped::of(pid).map_err(fault)?;
        // Of the image that it runs now.
        let memory = open(pid)?;
        let journal: Attachment = memory.get(at.journal_at).map_err(|_| Refusal::gone(pid))?;
        if !owner::is_claimed(&journal, owner) {
            return Err(match owner.other_of(&journal) {
                Some(other) => another_convoy(pid, other),
                None => Refusal::gone(pid),
            });
        }
        refusal::check_stopped(pid, &stopped)?;
        if !plan.is_current(&memory) {
            return Err(Refusal::new(
                format!("something else has just hooked functions of process {pid}"),
                "wait until that has ended",
            ));
        }
        let stacks = Stacks::of(pid, &memory, signal_returns).map_err(|_| Refusal::gone(pid))?;
        // A fork that is under way does not know the agent's handler, and its child would keep the
        // hooks, with the gate closed.
        if Instant::now() < fork_until && stacks.lead_into(&stopped, &forks).map_err(fault)? {
            drop(stopped);
            std::thread::sleep(PAUSE);
            continue;
        }
        let is_in = plan.install(&stopped, (&memory, &stacks), at.journal_at, &journal);
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
