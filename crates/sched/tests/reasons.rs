//! Why threads wait and who wakes them, by system call: what `unistd.h` and measured runs say.

use convoy_profile::OffReason;
use convoy_sched::reason::{call_name, can_wake, classify, takes_fd, Arch, BlockState, Left};
use Arch::{Aarch64, X86_64};
use BlockState::{Interruptible, Uninterruptible};
use OffReason::{
    AsyncIo, Child, Disk, File, Futex, Ipc, Memory, OtherCall, PageFault, Pipe, Poll, Preempted,
    Signal, Sleep, Socket, Stopped, Sync, Unknown,
};

fn left(nr: i16) -> Left<'static> {
    Left {
        nr,
        arg1: 0,
        iowait: false,
        state: Interruptible,
        name: None,
    }
}

#[test]
fn calls_have_reasons_on_both_architectures() {
    let cases = [
        // x86-64, AArch64
        (202, 98, Futex),
        (7, 73, Poll),       // poll, ppoll
        (270, 72, Poll),     // pselect6
        (232, 22, Poll),     // epoll_wait, epoll_pwait
        (230, 115, Sleep),   // clock_nanosleep
        (45, 207, Socket),   // recvfrom
        (288, 242, Socket),  // accept4
        (74, 82, Sync),      // fsync
        (11, 215, Memory),   // munmap
        (61, 260, Child),    // wait4
        (128, 137, Signal),  // rt_sigtimedwait
        (73, 32, Ipc),       // flock
        (208, 4, AsyncIo),   // io_getevents
        (426, 426, AsyncIo), // io_uring_enter
        (500, 500, OtherCall),
    ];
    for (x86, arm, reason) in cases {
        assert_eq!(classify(&left(x86), X86_64), reason, "x86-64 {x86}");
        assert_eq!(classify(&left(arm), Aarch64), reason, "AArch64 {arm}");
    }
}

#[test]
fn the_descriptor_decides_what_a_read_waits_for() {
    let cases = [
        ("socket:[4711]", Socket),
        ("pipe:[4711]", Pipe),
        ("anon_inode:[eventfd]", Pipe),
        ("anon_inode:[timerfd]", Sleep),
        ("anon_inode:[signalfd]", Signal),
        ("/dev/pts/3", Pipe),
        ("/dev/nvme0n1", File),
        ("/dev/shm/segment", File),
        ("/var/lib/data", File),
        ("/tmp/gone (deleted)", File),
        ("net:[4026531840]", OtherCall),
        ("", OtherCall),
    ];
    for (name, reason) in cases {
        for nr in [0, 1, 17, 20, 40] {
            let l = Left {
                name: Some(name),
                ..left(nr)
            };
            assert_eq!(classify(&l, X86_64), reason, "{name} in call {nr}");
        }
    }
    let disk = Left {
        state: Uninterruptible,
        iowait: true,
        ..left(0)
    };
    assert_eq!(classify(&disk, X86_64), File);
    assert_eq!(classify(&left(0), X86_64), OtherCall, "a pipe or a socket");
}

#[test]
fn who_polls_one_descriptor_waits_for_that() {
    let cases = [
        ("socket: tcp to port 80", Socket),
        ("pipe: unnamed", Pipe),
        ("anon_inode:[eventfd]", Pipe),
        ("anon_inode:[timerfd]", Sleep),
        ("anon_inode:[eventpoll]", Poll),
        ("/var/lib/data", Poll),
        ("net:[4026531840]", Poll),
    ];
    for (name, reason) in cases {
        let polls = |nr| Left {
            name: Some(name),
            ..left(nr)
        };
        assert_eq!(classify(&polls(7), X86_64), reason, "{name}");
        assert_eq!(classify(&polls(73), Aarch64), reason, "{name}");
        assert_eq!(classify(&polls(232), X86_64), Poll, "{name} by epoll");
    }
}

#[test]
fn the_state_decides_first() {
    let state = |state, nr| Left { state, ..left(nr) };
    for nr in [-1, 24, 202] {
        assert_eq!(
            classify(&state(BlockState::Runnable, nr), X86_64),
            Preempted
        );
        assert_eq!(classify(&state(BlockState::Stopped, nr), X86_64), Stopped);
        assert_eq!(classify(&state(BlockState::Dead, nr), X86_64), Unknown);
    }
    assert_eq!(classify(&state(Uninterruptible, -1), X86_64), PageFault);
    assert_eq!(classify(&state(BlockState::Unknown, -1), X86_64), Unknown);
    assert_eq!(classify(&state(Uninterruptible, 257), X86_64), Disk); // openat
    assert_eq!(classify(&state(Interruptible, 257), X86_64), OtherCall);
}

#[test]
fn a_wait_for_a_disk_in_a_call_that_has_none_is_a_page_fault() {
    let iowait = |nr| Left {
        iowait: true,
        state: Uninterruptible,
        ..left(nr)
    };
    assert_eq!(classify(&iowait(202), X86_64), PageFault);
    assert_eq!(classify(&iowait(-1), X86_64), PageFault);
    assert_eq!(classify(&iowait(9), X86_64), Disk); // mmap
    assert_eq!(classify(&iowait(500), X86_64), Disk);
}

#[test]
fn only_some_commands_of_fcntl_wait_for_locks() {
    let fcntl = |arg1| Left { arg1, ..left(72) };
    assert_eq!(classify(&fcntl(7), X86_64), Ipc);
    assert_eq!(classify(&fcntl(38), X86_64), Ipc);
    assert_eq!(classify(&fcntl(1), X86_64), OtherCall);
}

#[test]
fn task_states_of_the_kernel() {
    let cases = [
        (0, BlockState::Runnable),
        (1, Interruptible),
        (0x2001, Interruptible), // freezable
        (2, Uninterruptible),
        (0x102, Uninterruptible), // killable
        (0x402, Uninterruptible), // idle
        (4, BlockState::Stopped),
        (8, BlockState::Stopped),
        (0x10, BlockState::Dead),
        (0x20, BlockState::Dead),
        (0x80, BlockState::Dead),
    ];
    for (state, told) in cases {
        assert_eq!(BlockState::of_task_state(state), told, "{state:#x}");
    }
}

#[test]
fn descriptors_and_names() {
    for nr in [0, 1, 45, 74, 232, 40] {
        assert!(takes_fd(nr, X86_64), "{nr}");
    }
    for nr in [-1, 7, 202, 230, 9, 500] {
        assert!(!takes_fd(nr, X86_64), "{nr}");
    }
    assert_eq!(call_name(202, X86_64), Some("futex"));
    assert_eq!(call_name(98, Aarch64), Some("futex"));
    assert_eq!(call_name(-1, X86_64), None);
}

#[test]
fn wakers_are_told_from_bystanders() {
    let (futex, write, read, sendto, exit, tgkill) = (202, 1, 0, 44, 60, 234);
    let can = [
        (futex, Futex, futex),
        (exit, Futex, futex), // join
        (exit, Child, 61),
        (write, Pipe, read),
        (write, Poll, 7),
        (write, Socket, 45),
        (read, Pipe, write), // room in the pipe
        (sendto, Socket, 45),
        (sendto, Poll, 232),
        (3, Socket, 45), // close
        (48, Poll, 232), // shutdown
        (tgkill, Signal, 128),
        (tgkill, Sleep, 230),
        (tgkill, Futex, futex),
        (65, Ipc, 65),   // semop
        (73, Ipc, 73),   // flock
        (11, Memory, 9), // munmap
        (11, PageFault, -1),
        (-1, Memory, 9),  // a fault gives the lock back
        (74, Sync, 74),   // a commit for all
        (286, Poll, 232), // timerfd_settime
        (write, OtherCall, read),
        (16, OtherCall, 16), // ioctl
        (500, OtherCall, 500),
    ];
    let cannot = [
        (230, Futex, futex), // interrupted in nanosleep
        (7, Socket, 45),
        (-1, Futex, futex),
        (-1, Pipe, read),
        (-1, PageFault, -1), // the disk's interrupt
        (futex, Poll, 7),
        (futex, Sleep, 230),
        (write, Futex, futex),
        (write, Sleep, 230),
        (sendto, Pipe, read),
        (sendto, Child, 61),
        (tgkill, Disk, 257),
        (tgkill, PageFault, -1),
        (exit, Sleep, 230),
        (39, Futex, futex), // getpid
        (futex, Preempted, -1),
        (500, OtherCall, 501),
        (230, OtherCall, read),
    ];
    for (waker, reason, waiter) in can {
        assert!(
            can_wake(waker, reason, waiter, X86_64),
            "{waker} {reason:?}"
        );
    }
    for (waker, reason, waiter) in cannot {
        assert!(
            !can_wake(waker, reason, waiter, X86_64),
            "{waker} {reason:?}"
        );
    }
}
