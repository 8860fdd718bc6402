//! Which system calls end which waits.
//!
//! A wake-up happens in the context of whatever ran on that processor: a timer, a disk and a network card wake
//! from within threads that have nothing to do with it. The call that this thread is in tells the two apart,
//! most of the time: nobody wakes a reader of a pipe from within nanosleep().

use convoy_profile::OffReason;

use super::calls::{self, Kind};
use super::Arch;

/// Whether a thread in system call `waker_nr` (-1 = in none) can by itself have ended such a wait.
///
/// In doubt yes where the call does what such waits wait for: a packet that arrives from outside while
/// a thread of the program is in send() looks like that thread's own.
pub fn can_wake(waker_nr: i16, waiter: OffReason, waiter_nr: i16, arch: Arch) -> bool {
    // Of a call without a reason of its own we know only that its like may end it.
    if waiter == OffReason::OtherCall && waker_nr == waiter_nr {
        return waker_nr >= 0;
    }
    let Some(call) = calls::find(waker_nr, arch) else {
        // Without a call a thread wakes nobody, but for the lock of the address space after a page fault.
        return waker_nr < 0 && waiter == OffReason::Memory;
    };
    if ends(call.kind).contains(&waiter) {
        return true;
    }
    let like = || calls::find(waiter_nr, arch).map(|c| c.kind) == Some(call.kind);
    waiter == OffReason::OtherCall && (like() || moves_data(call.kind))
}

/// Reads make room, writes make data: with an unknown descriptor either may be what was waited for.
fn moves_data(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Read
            | Kind::Write
            | Kind::Transfer
            | Kind::Receive
            | Kind::Send
            | Kind::Close
            | Kind::Connection
            | Kind::Exit
            | Kind::SignalSend
            | Kind::FileSystem
            | Kind::Device
    )
}

fn ends(kind: Kind) -> &'static [OffReason] {
    use OffReason::{
        AsyncIo, Child, Disk, File, Futex, Ipc, Memory, PageFault, Pipe, Poll, Signal, Sleep,
        Socket, Stopped, Sync,
    };
    match kind {
        Kind::Futex => &[Futex],
        // Data for the other end, room for it, and the locks of files.
        Kind::Read | Kind::Write | Kind::Transfer => {
            &[Pipe, Socket, Poll, File, Disk, Sync, AsyncIo]
        }
        Kind::Receive | Kind::Send | Kind::Connection => &[Socket, Poll, AsyncIo],
        // A close also gives back the locks of the file.
        Kind::Close => &[Pipe, Socket, Poll, Ipc, AsyncIo],
        // A thread that takes some of the events wakes the next one for the rest.
        Kind::Epoll => &[Poll],
        Kind::Timer => &[Poll, Sleep],
        // Any wait that a signal ends.
        Kind::SignalSend => &[
            Signal, Sleep, Poll, Futex, Pipe, Socket, Child, Ipc, AsyncIo, Stopped,
        ],
        // clear_child_tid and robust locks, the parent's wait, all descriptors, the address space.
        Kind::Exit => &[
            Futex, Child, Signal, Pipe, Socket, Poll, Ipc, Memory, PageFault, AsyncIo,
        ],
        // The same, and vfork()'s parent goes on.
        Kind::Exec => &[Child, Futex, Pipe, Socket, Poll, Ipc],
        Kind::Sync => &[Sync, File, Disk],
        Kind::FileSystem => &[File, Disk, Sync],
        Kind::Memory => &[Memory, PageFault],
        Kind::Fork => &[Memory, PageFault],
        Kind::MessageQueue => &[Ipc, Poll, Signal],
        Kind::Ipc | Kind::Fcntl => &[Ipc],
        Kind::AsyncIo => &[AsyncIo, Poll, Pipe, Socket],
        Kind::Device => &[Pipe, Poll, Socket],
        Kind::Trace => &[Stopped, Child],
        Kind::Poll | Kind::Sleep | Kind::SignalWait | Kind::Child | Kind::Yield => &[],
    }
}
