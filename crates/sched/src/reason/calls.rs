//! The system calls in which threads wait or wake others, with their numbers.

use super::Arch;

/// What a system call waits for, and so whom it may wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word in memory.
    Futex,
    /// read() of any descriptor.
    Read,
    /// write() of any descriptor.
    Write,
    /// From one descriptor to another.
    Transfer,
    /// From a socket.
    Receive,
    /// To a socket.
    Send,
    /// A socket's beginning and end.
    Connection,
    /// The end of a descriptor.
    Close,
    /// Many descriptors.
    Poll,
    /// The same, kept in the kernel.
    Epoll,
    /// A time.
    Sleep,
    /// A signal to come.
    SignalWait,
    /// A signal to others.
    SignalSend,
    /// A child process's end.
    Child,
    /// A new process or thread; vfork() waits for its exec or exit.
    Fork,
    /// Another program.
    Exec,
    /// The end.
    Exit,
    /// Data on the disk.
    Sync,
    /// Names, sizes and attributes of files.
    FileSystem,
    /// The address space.
    Memory,
    /// A POSIX message queue, which is a descriptor, too.
    MessageQueue,
    /// System V IPC and file locks.
    Ipc,
    /// File locks, among other things.
    Fcntl,
    /// Requests to the kernel that it carries out meanwhile.
    AsyncIo,
    /// A device's own.
    Device,
    /// A debugger's.
    Trace,
    /// A timer that is a descriptor.
    Timer,
    /// Gives way to others.
    Yield,
}

use Kind::{
    AsyncIo, Child, Close, Connection, Device, Epoll, Exec, Exit, Fcntl, FileSystem, Fork, Futex,
    Ipc, Memory, MessageQueue, Poll, Read, Receive, Send, SignalSend, SignalWait, Sleep, Sync,
    Timer, Trace, Transfer, Write, Yield,
};

/// A system call.
#[derive(Debug)]
pub(super) struct Call {
    pub name: &'static str,
    pub kind: Kind,
    /// Its first argument is the descriptor that it waits for.
    pub fd: bool,
    /// On x86-64 and AArch64; -1 = does not exist there.
    numbers: [i16; 2],
}

const FD: bool = true;
const NONE: bool = false;

const fn call(name: &'static str, x86_64: i16, aarch64: i16, kind: Kind, fd: bool) -> Call {
    Call {
        name,
        kind,
        fd,
        numbers: [x86_64, aarch64],
    }
}

/// System calls have numbers below this, so far.
const NUMBERS: usize = 512;

/// Position in [`CALLS`] by number, plus 1.
const fn by_number(arch: usize) -> [u8; NUMBERS] {
    let mut index = [0; NUMBERS];
    let mut i = 0;
    while i < CALLS.len() {
        let nr = CALLS[i].numbers[arch];
        if nr >= 0 {
            index[nr as usize] = i as u8 + 1;
        }
        i += 1;
    }
    index
}

static X86_64: [u8; NUMBERS] = by_number(0);
static AARCH64: [u8; NUMBERS] = by_number(1);

/// The call with this number, if it is one of those in which threads wait or wake.
pub(super) fn find(nr: i16, arch: Arch) -> Option<&'static Call> {
    let index = match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    };
    let position = index.get(usize::try_from(nr).ok()?)?;
    CALLS.get(usize::from(*position).checked_sub(1)?)
}

/// In no order. Numbers of Linux's `unistd_64.h` and `asm-generic/unistd.h`.
#[rustfmt::skip]
const CALLS: &[Call] = &[
    call("futex", 202, 98, Futex, NONE),
    call("futex_waitv", 449, 449, Futex, NONE),
    call("futex_wake", 454, 454, Futex, NONE),
    call("futex_wait", 455, 455, Futex, NONE),
    call("futex_requeue", 456, 456, Futex, NONE),
    call("read", 0, 63, Read, FD),
    call("readv", 19, 65, Read, FD),
    call("pread64", 17, 67, Read, FD),
    call("preadv", 295, 69, Read, FD),
    call("preadv2", 327, 286, Read, FD),
    call("write", 1, 64, Write, FD),
    call("writev", 20, 66, Write, FD),
    call("pwrite64", 18, 68, Write, FD),
    call("pwritev", 296, 70, Write, FD),
    call("pwritev2", 328, 287, Write, FD),
    call("sendfile", 40, 71, Transfer, FD),
    call("splice", 275, 76, Transfer, FD),
    call("tee", 276, 77, Transfer, FD),
    call("vmsplice", 278, 75, Transfer, FD),
    call("copy_file_range", 326, 285, Transfer, FD),
    call("recvfrom", 45, 207, Receive, FD),
    call("recvmsg", 47, 212, Receive, FD),
    call("recvmmsg", 299, 243, Receive, FD),
    call("sendto", 44, 206, Send, FD),
    call("sendmsg", 46, 211, Send, FD),
    call("sendmmsg", 307, 269, Send, FD),
    call("accept", 43, 202, Connection, FD),
    call("accept4", 288, 242, Connection, FD),
    call("connect", 42, 203, Connection, FD),
    call("shutdown", 48, 210, Connection, FD),
    call("listen", 50, 201, Connection, FD),
    call("close", 3, 57, Close, FD),
    call("close_range", 436, 436, Close, NONE),
    call("dup2", 33, -1, Close, FD),
    call("dup3", 292, 24, Close, FD),
    call("poll", 7, -1, Poll, NONE),
    call("ppoll", 271, 73, Poll, NONE),
    call("select", 23, -1, Poll, NONE),
    call("pselect6", 270, 72, Poll, NONE),
    call("epoll_wait", 232, -1, Epoll, FD),
    call("epoll_pwait", 281, 22, Epoll, FD),
    call("epoll_pwait2", 441, 441, Epoll, FD),
    call("epoll_ctl", 233, 21, Epoll, FD),
    call("nanosleep", 35, 101, Sleep, NONE),
    call("clock_nanosleep", 230, 115, Sleep, NONE),
    call("pause", 34, -1, SignalWait, NONE),
    call("rt_sigsuspend", 130, 133, SignalWait, NONE),
    call("rt_sigtimedwait", 128, 137, SignalWait, NONE),
    call("kill", 62, 129, SignalSend, NONE),
    call("tkill", 200, 130, SignalSend, NONE),
    call("tgkill", 234, 131, SignalSend, NONE),
    call("rt_sigqueueinfo", 129, 138, SignalSend, NONE),
    call("rt_tgsigqueueinfo", 297, 240, SignalSend, NONE),
    call("pidfd_send_signal", 424, 424, SignalSend, NONE),
    call("wait4", 61, 260, Child, NONE),
    call("waitid", 247, 95, Child, NONE),
    call("fork", 57, -1, Fork, NONE),
    call("vfork", 58, -1, Fork, NONE),
    call("clone", 56, 220, Fork, NONE),
    call("clone3", 435, 435, Fork, NONE),
    call("execve", 59, 221, Exec, NONE),
    call("execveat", 322, 281, Exec, NONE),
    call("exit", 60, 93, Exit, NONE),
    call("exit_group", 231, 94, Exit, NONE),
    call("fsync", 74, 82, Sync, FD),
    call("fdatasync", 75, 83, Sync, FD),
    call("sync", 162, 81, Sync, NONE),
    call("syncfs", 306, 267, Sync, FD),
    call("sync_file_range", 277, 84, Sync, FD),
    call("msync", 26, 227, Sync, NONE),
    call("open", 2, -1, FileSystem, NONE),
    call("openat", 257, 56, FileSystem, NONE),
    call("openat2", 437, 437, FileSystem, NONE),
    call("creat", 85, -1, FileSystem, NONE),
    call("stat", 4, -1, FileSystem, NONE),
    call("fstat", 5, 80, FileSystem, FD),
    call("lstat", 6, -1, FileSystem, NONE),
    call("newfstatat", 262, 79, FileSystem, NONE),
    call("statx", 332, 291, FileSystem, NONE),
    call("access", 21, -1, FileSystem, NONE),
    call("faccessat", 269, 48, FileSystem, NONE),
    call("faccessat2", 439, 439, FileSystem, NONE),
    call("getdents", 78, -1, FileSystem, FD),
    call("getdents64", 217, 61, FileSystem, FD),
    call("rename", 82, -1, FileSystem, NONE),
    call("renameat", 264, 38, FileSystem, NONE),
    call("renameat2", 316, 276, FileSystem, NONE),
    call("mkdir", 83, -1, FileSystem, NONE),
    call("mkdirat", 258, 34, FileSystem, NONE),
    call("rmdir", 84, -1, FileSystem, NONE),
    call("unlink", 87, -1, FileSystem, NONE),
    call("unlinkat", 263, 35, FileSystem, NONE),
    call("link", 86, -1, FileSystem, NONE),
    call("linkat", 265, 37, FileSystem, NONE),
    call("symlink", 88, -1, FileSystem, NONE),
    call("symlinkat", 266, 36, FileSystem, NONE),
    call("readlink", 89, -1, FileSystem, NONE),
    call("readlinkat", 267, 78, FileSystem, NONE),
    call("truncate", 76, 45, FileSystem, NONE),
    call("ftruncate", 77, 46, FileSystem, FD),
    call("fallocate", 285, 47, FileSystem, FD),
    call("chmod", 90, -1, FileSystem, NONE),
    call("fchmod", 91, 52, FileSystem, FD),
    call("fchmodat", 268, 53, FileSystem, NONE),
    call("chown", 92, -1, FileSystem, NONE),
    call("fchown", 93, 55, FileSystem, FD),
    call("lchown", 94, -1, FileSystem, NONE),
    call("fchownat", 260, 54, FileSystem, NONE),
    call("utimensat", 280, 88, FileSystem, NONE),
    call("lseek", 8, 62, FileSystem, FD),
    call("readahead", 187, 213, FileSystem, FD),
    call("fadvise64", 221, 223, FileSystem, FD),
    call("statfs", 137, 43, FileSystem, NONE),
    call("fstatfs", 138, 44, FileSystem, FD),
    call("getxattr", 191, 8, FileSystem, NONE),
    call("setxattr", 188, 5, FileSystem, NONE),
    call("fsetxattr", 190, 7, FileSystem, FD),
    call("fgetxattr", 193, 10, FileSystem, FD),
    call("chdir", 80, 49, FileSystem, NONE),
    call("fchdir", 81, 50, FileSystem, FD),
    call("mount", 165, 40, FileSystem, NONE),
    call("umount2", 166, 39, FileSystem, NONE),
    call("mmap", 9, 222, Memory, NONE),
    call("munmap", 11, 215, Memory, NONE),
    call("mprotect", 10, 226, Memory, NONE),
    call("mremap", 25, 216, Memory, NONE),
    call("brk", 12, 214, Memory, NONE),
    call("madvise", 28, 233, Memory, NONE),
    call("mlock", 149, 228, Memory, NONE),
    call("mlock2", 325, 284, Memory, NONE),
    call("munlock", 150, 229, Memory, NONE),
    call("mlockall", 151, 230, Memory, NONE),
    call("munlockall", 152, 231, Memory, NONE),
    call("mincore", 27, 232, Memory, NONE),
    call("process_madvise", 440, 440, Memory, NONE),
    call("mq_timedsend", 242, 182, MessageQueue, FD),
    call("mq_timedreceive", 243, 183, MessageQueue, FD),
    call("mq_notify", 244, 184, MessageQueue, FD),
    call("msgsnd", 69, 189, Ipc, NONE),
    call("msgrcv", 70, 188, Ipc, NONE),
    call("msgctl", 71, 187, Ipc, NONE),
    call("semop", 65, 193, Ipc, NONE),
    call("semtimedop", 220, 192, Ipc, NONE),
    call("semctl", 66, 191, Ipc, NONE),
    call("flock", 73, 32, Ipc, FD),
    call("fcntl", 72, 25, Fcntl, FD),
    call("io_getevents", 208, 4, AsyncIo, NONE),
    call("io_pgetevents", 333, 292, AsyncIo, NONE),
    call("io_submit", 209, 2, AsyncIo, NONE),
    call("io_destroy", 207, 1, AsyncIo, NONE),
    call("io_cancel", 210, 3, AsyncIo, NONE),
    call("io_uring_enter", 426, 426, AsyncIo, FD),
    call("ioctl", 16, 29, Device, FD),
    call("ptrace", 101, 117, Trace, NONE),
    call("timerfd_settime", 286, 86, Timer, FD),
    call("sched_yield", 24, 124, Yield, NONE),
];

#[cfg(test)]
mod tests {
    use super::{find, Arch, CALLS};

    #[test]
    fn each_number_is_of_one_call_and_leads_to_it() {
        assert!(CALLS.len() < 256);
        for (i, arch) in [Arch::X86_64, Arch::Aarch64].into_iter().enumerate() {
            for call in CALLS {
                let nr = call.numbers[i];
                if nr >= 0 {
                    let found = find(nr, arch).map(|c| c.name);
                    assert_eq!(found, Some(call.name), "{nr}");
                }
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_of_no_call() {
        for nr in [i16::MIN, -1, 511, 512, i16::MAX] {
            assert!(find(nr, Arch::X86_64).is_none(), "{nr}");
        }
    }
}
