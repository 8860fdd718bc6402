//! System calls that end with EINTR when their thread is stopped, though no signal has come.
//!
//! Linux restarts most calls after a stop (ERESTARTSYS, ERESTARTNOHAND and their like, which no
//! program sees). Those here return EINTR itself: signal(7), "Interruption of system calls and
//! library functions by stop signals", and the kernel's source, as of 6.12. Each returns it only if
//! it has done nothing yet (otherwise a count), so that it can be made once more. Relative time
//! limits begin anew.
//!
//! Not here, though they wait: futex (all kinds), msgrcv, msgsnd, mq_timedreceive, nanosleep, poll,
//! select, pause, wait4, flock, fcntl and io_pgetevents, which the kernel restarts by itself since
//! 2.6.22 at the latest; close, which has closed when it says EINTR; and ioctl, whose effects are
//! those of a driver (KVM_RUN says EINTR, and is made to be called again).

/// Of any descriptor or none.
const ALWAYS: [i64; 8] = [
    // fs/eventpoll.c, ep_poll(): "if (signal_pending(current)) return -EINTR".
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    // kernel/signal.c, do_sigtimedwait(): EINTR whatever has woken it. Also sigwaitinfo, sigwait.
    libc::SYS_rt_sigtimedwait,
    // ipc/sem.c, __do_semtimedop(): EINTR, with or without a time limit.
    libc::SYS_semop,
    libc::SYS_semtimedop,
    // fs/aio.c, io_getevents: "if (!ret && signal_pending(current)) ret = -EINTR".
    libc::SYS_io_getevents,
    // io_uring/io_uring.c, io_run_task_work_sig(): EINTR from waiting for completions; the number
    // of requests instead, if it has submitted any.
    libc::SYS_io_uring_enter,
];

/// Of a socket with a time limit (SO_RCVTIMEO, SO_SNDTIMEO): include/net/sock.h, sock_intr_errno().
/// Without one the kernel restarts them. A connection that is being made goes on by itself, and the
/// second connect waits for it.
const WITH_TIME_LIMIT: [i64; 15] = [
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendfile,
    libc::SYS_splice,
];

/// Whether a stop may end this system call with EINTR, before it has done anything.
pub(crate) fn ends_with_a_stop(call: i64) -> bool {
    ALWAYS.contains(&call) || WITH_TIME_LIMIT.contains(&call)
}
