//! What the number of a system call says about a wait: why the thread waits, and who may have ended it.

mod calls;
mod wakers;

use convoy_profile::OffReason;

use calls::Kind;
pub use wakers::can_wake;

/// Whose numbers system calls have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// AArch64, RISC-V and other recent ones: `asm-generic/unistd.h`.
    Aarch64,
}

/// The kernel's state of a task that left its processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BlockState {
    /// Could have gone on.
    Runnable,
    /// Waits; a signal ends it. Locks, sockets, pipes, timers.
    Interruptible,
    /// Waits whatever comes: for a disk, or for a lock of the kernel.
    Uninterruptible,
    /// By a signal or a debugger.
    Stopped,
    /// Ends.
    Dead,
    /// Not told.
    #[default]
    Unknown,
}

impl BlockState {
    /// Of `prev_state` as the tracepoint sched_switch has it. Modifiers (freezable, killable, idle) are ignored.
    pub fn of_task_state(state: u32) -> Self {
        match state {
            _ if state & 0x0c != 0 => Self::Stopped,
            _ if state & 0xb0 != 0 => Self::Dead,
            _ if state & 0x02 != 0 => Self::Uninterruptible,
            _ if state & 0x41 != 0 => Self::Interruptible,
            _ => Self::Runnable,
        }
    }
}

/// What the kernel says about a thread that left its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left<'a> {
    /// System call number, -1 = none: a page fault or an interrupt brought it there.
    pub nr: i16,
    /// The call's second argument.
    pub arg1: u64,
    /// It waits for a disk.
    pub iowait: bool,
    /// Its state.
    pub state: BlockState,
    /// What the descriptor is that it waits for ([`takes_fd`], and the one of a poll() that has no other), as /proc/PID/fd says: `socket:[1]`, `pipe:[2]`,
    /// `anon_inode:[eventfd]`, `/path`.
    pub name: Option<&'a str>,
}

/// fcntl() commands that wait for a lock of a file: F_SETLKW, F_OFD_SETLKW.
const LOCK_COMMANDS: [u64; 2] = [7, 38];

/// Why a thread left its processor.
pub fn classify(left: &Left<'_>, arch: Arch) -> OffReason {
    let uninterruptible = left.state == BlockState::Uninterruptible;
    match left.state {
        BlockState::Runnable => return OffReason::Preempted,
        BlockState::Stopped => return OffReason::Stopped,
        BlockState::Dead => return OffReason::Unknown,
        BlockState::Interruptible | BlockState::Uninterruptible | BlockState::Unknown => {}
    }
    if left.nr < 0 {
        return match left.state {
            BlockState::Unknown if !left.iowait => OffReason::Unknown,
            _ => OffReason::PageFault,
        };
    }
    let disk = left.iowait || uninterruptible;
    let Some(call) = calls::find(left.nr, arch) else {
        return if left.iowait {
            OffReason::Disk
        } else {
            OffReason::OtherCall
        };
    };
    match call.kind {
        Kind::Read | Kind::Write | Kind::Transfer => match left.name {
            Some(name) => of_file(name),
            None if disk => OffReason::File,
            // A pipe or a socket: not known which.
            None => OffReason::OtherCall,
        },
        Kind::Sync => OffReason::Sync,
        // Only a fault in memory that the call touches waits for a disk in one of those.
        Kind::Futex | Kind::Poll | Kind::Epoll | Kind::Sleep | Kind::SignalWait | Kind::Child
            if left.iowait =>
        {
            OffReason::PageFault
        }
        Kind::Futex => OffReason::Futex,
        Kind::Receive | Kind::Send | Kind::Connection => OffReason::Socket,
        Kind::Poll => left.name.map_or(OffReason::Poll, of_polled),
        Kind::Epoll => OffReason::Poll,
        Kind::Sleep => OffReason::Sleep,
        Kind::SignalWait => OffReason::Signal,
        // vfork() waits until its child calls exec, in a state that only a kill ends.
        Kind::Child | Kind::Fork => OffReason::Child,
        Kind::Memory if left.iowait => OffReason::Disk,
        Kind::Memory => OffReason::Memory,
        Kind::Ipc | Kind::MessageQueue => OffReason::Ipc,
        Kind::Fcntl if LOCK_COMMANDS.contains(&(left.arg1 & 0xffff_ffff)) => OffReason::Ipc,
        Kind::AsyncIo => OffReason::AsyncIo,
        Kind::FileSystem | Kind::Close | Kind::Exec if disk => OffReason::Disk,
        _ if left.iowait => OffReason::Disk,
        _ => OffReason::OtherCall,
    }
}

/// Why one reads or writes what /proc/PID/fd calls by this name.
fn of_file(name: &str) -> OffReason {
    const KINDS: [(&str, OffReason); 8] = [
        ("socket:", OffReason::Socket),
        ("pipe:", OffReason::Pipe),
        ("anon_inode:[timerfd]", OffReason::Sleep),
        ("anon_inode:[signalfd]", OffReason::Signal),
        ("anon_inode:", OffReason::Pipe),
        // In memory, and files all the same.
        ("/dev/shm/", OffReason::File),
        ("/dev/", OffReason::Pipe),
        ("/", OffReason::File),
    ];
    if let Some(device) = name.strip_prefix("/dev/") {
        const DISKS: [&str; 10] = [
            "sd", "nvme", "vd", "xvd", "hd", "dm-", "md", "mapper/", "loop", "mmcblk",
        ];
        if DISKS.iter().any(|disk| device.starts_with(disk)) {
            return OffReason::File;
        }
    }
    KINDS
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map_or(OffReason::OtherCall, |kind| kind.1)
}

/// Why one polls what /proc/PID/fd calls by this name, and nothing else: as one reads it, unless that is never waited for.
fn of_polled(name: &str) -> OffReason {
    const ANY_EVENT: &str = "anon_inode:[eventpoll]";
    match of_file(name) {
        OffReason::File | OffReason::OtherCall => OffReason::Poll,
        _ if name == ANY_EVENT => OffReason::Poll,
        reason => reason,
    }
}

/// Whether this call waits for the descriptor that its first argument is.
pub fn takes_fd(nr: i16, arch: Arch) -> bool {
    calls::find(nr, arch).is_some_and(|call| call.fd)
}

/// The name of a call, if it is one of those in which threads wait or wake.
pub fn call_name(nr: i16, arch: Arch) -> Option<&'static str> {
    calls::find(nr, arch).map(|call| call.name)
}
