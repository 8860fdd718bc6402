//! The agent's library in a process: how it gets there, and how it begins.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use convoy_abi::{Attachment, CV_ATTACHMENT_MAGIC};

use crate::call::Borrowed;
use crate::hooks::{self, area_bytes, gate_page};
use crate::image::Image;
use crate::memory::{regions, Memory, Region};
use crate::owner::{claim, Owner};
use crate::process::{Process, AGENT_PREFIX};
use crate::safe_point;
use crate::session_dir::duplicate;
use convoy_probes::Refusal;

/// Where a copy of the agent is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub base: u64,
    pub journal_at: u64,
}

/// Loads the library from memory: what the process can see of the file system does not matter.
pub(crate) fn load(
    process: &Process,
    thread: &mut Borrowed,
    (image, agent): (&Image, &[u8]),
    path: &str,
    owner: Owner,
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
    let written = write(pid, fd, agent);
    // The loader takes two files of one name for one file.
    let is_agent = |r: &&Region| r.path.starts_with(AGENT_PREFIX) && r.offset == 0;
    let copies = process.regions.iter().filter(is_agent).count();
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
    let journal_at = journal.address + base;
    // Nobody else knows it before it has begun.
    Memory::open(pid)
        .and_then(|memory| claim(&memory, journal_at, owner))
        .map_err(|e| hooks::unwritable(pid, &e))?;
    Ok(Place { base, journal_at })
}

/// Fills the memory file at a descriptor of the process. Another thread of it may have put another
/// file there, which we might be allowed to write and it is not: only the file itself is written, and
/// only if it is in memory.
fn write(pid: u32, descriptor: u64, bytes: &[u8]) -> io::Result<()> {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let mut file = match duplicate(pid, descriptor) {
        Ok(own) => File::from(own),
        // Linux before 5.6.
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => {
            OpenOptions::new().write(true).open(path)?
        }
        Err(e) => return Err(e),
    };
    // SAFETY: a descriptor of ours.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) } < 0 {
        return Err(io::Error::other(
            "the process has put another file in its place",
        ));
    }
    file.write_all(bytes)
}

/// The agent makes its tables, in files that are named by the process's number here: it may know
/// itself by another one. Whether it could.
pub(crate) fn begin(
    process: &Process,
    thread: &mut Borrowed,
    memory: &Memory,
    image: &Image,
    at: Place,
    session_dir: &str,
) -> Result<bool, Refusal> {
    let fault = |fault| safe_point::refused(process.pid, fault);
    let function = image.symbols.get("convoy_attach");
    let function = function.ok_or_else(|| Refusal::new("the agent cannot be attached", ""))?;
    let dir = thread.text(session_dir).map_err(fault)?;
    thread
        .call(function.address + at.base, dir, process.pid.into())
        .map_err(fault)?;
    let journal: Attachment = memory
        .get(at.journal_at)
        .map_err(|e| hooks::unwritable(process.pid, &e))?;
    Ok(journal.magic == CV_ATTACHMENT_MAGIC && journal.is_ready == 1)
}

/// Where the trampolines are: those of the copy's earlier use, or new ones.
pub(crate) fn area(
    process: &Process,
    thread: &mut Borrowed,
    memory: &Memory,
    at: Place,
) -> Result<u64, Refusal> {
    let journal: Attachment = memory
        .get(at.journal_at)
        .map_err(|e| hooks::unwritable(process.pid, &e))?;
    match journal.trampolines {
        _ if journal.magic != CV_ATTACHMENT_MAGIC => {
            Err(Refusal::new("the agent's journal is damaged", ""))
        }
        0 => map_area(process, thread, memory, at),
        area => Ok(area),
    }
}

/// Room for the trampolines, so near to the C library that a short jump reaches it.
fn map_area(
    process: &Process,
    thread: &mut Borrowed,
    memory: &Memory,
    at: Place,
) -> Result<u64, Refusal> {
    let pid = process.pid;
    let near = process.libc.bias + process.libc.image.first;
    let area = thread
        .map_code(pid, near, area_bytes())
        .map_err(|fault| safe_point::refused(pid, fault))?
        .ok_or_else(|| Refusal::new("there is no room near the C library", ""))?;
    let (gate, bytes) = gate_page(area);
    let wipe = libc::MADV_WIPEONFORK as u64;
    thread
        .system_call(libc::SYS_madvise, [gate, bytes, wipe, 0, 0, 0])
        .map_err(|_| Refusal::new("this kernel cannot keep child processes out", ""))?;
    let put = |field: usize, value| memory.put(at.journal_at + field as u64, &value);
    put(std::mem::offset_of!(Attachment, gate), gate)
        .and_then(|()| put(std::mem::offset_of!(Attachment, trampolines), area))
        .map(|()| area)
        .map_err(|e| hooks::unwritable(pid, &e))
}
