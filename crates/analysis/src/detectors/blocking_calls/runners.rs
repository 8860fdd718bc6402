//! Whose code calls a program's tasks: loops of events and asynchronous runtimes, the threads of which must not block, and pools
//! of threads that may. Where a thread blocks inside such a task, more work is at hand whenever the thread does not wait for
//! some afterwards.

use convoy_model::{bare, OffCpu, OffReason, Site};

use crate::facts::run_view::RunView;
use crate::facts::task_cost::{is_one, TAKES};

/// Who called the task in which a thread blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// One that must not wait: all other tasks of the thread wait as well.
    Loop,
    /// A pool of threads.
    Pool,
}

/// Asynchronous runtimes: their schedulers, and what is between those and a task.
const SCHEDULERS: [(&str, &str); 2] = [
    ("tokio::runtime::scheduler::", "tokio::runtime::task::"),
    ("async_executor::", "async_task::"),
];
/// Where a thread of theirs waits for tasks.
const PARKS: [&str; 3] = ["tokio::runtime::park", "::park_internal", "::driver::"];
/// Functions that call back for events: libuv (Node.js), libevent, libev, GLib, Asio, Netty.
const LOOPS: [&str; 8] = [
    "uv_run",
    "event_base_loop",
    "ev_run",
    "g_main_context_dispatch",
    "boost::asio::detail::scheduler::run",
    "asio::detail::scheduler::run",
    "io.netty.channel.nio.NioEventLoop.run",
    "io.netty.channel.epoll.EpollEventLoop.run",
];
/// Java's pools.
const POOLS: [&str; 2] = [
    "java.util.concurrent.ThreadPoolExecutor.runWorker",
    "java.util.concurrent.ForkJoinWorkerThread.run",
];
/// Where somebody waits for the result of a task of Java's.
const RESULTS: [&str; 3] = [
    "java.util.concurrent.CompletableFuture",
    "java.util.concurrent.FutureTask.",
    "java.util.concurrent.ForkJoinTask.",
];
/// How a virtual machine sleeps: with a condition and a time limit.
const SLEEPS: [&str; 2] = ["java.lang.Thread.sleep", "JVM_Sleep"];
/// Frames within which a call is that of the function looked for, and what it calls.
const INNERMOST: usize = 4;

/// The innermost runner of the frames, the innermost of which is first; none if the thread waits there for a task.
pub(super) fn runner(site: &Site) -> Option<Runner> {
    let mut task_of = None;
    for frame in &site.frames {
        let waits = PARKS.iter().any(|park| frame.function.contains(park));
        let takes = TAKES.iter().any(|take| frame.function.ends_with(take));
        if waits || (takes && is_one(frame, &["java.util.concurrent."])) {
            return None;
        }
        for (at, (scheduler, task)) in SCHEDULERS.iter().enumerate() {
            if is_one(frame, &[task]) {
                task_of = Some(at);
            }
            if task_of == Some(at) && is_one(frame, &[scheduler]) {
                return Some(Runner::Loop);
            }
        }
        if LOOPS.contains(&frame.function.as_str()) {
            return Some(Runner::Loop);
        }
        if is_one(frame, &POOLS) {
            return Some(Runner::Pool);
        }
    }
    None
}

/// Whether a thread passes time there, or waits for another process, and not for a thread of its own program.
pub(super) fn blocks(view: &RunView, off: &OffCpu) -> bool {
    match off.reason {
        OffReason::Sleep | OffReason::Child => true,
        OffReason::Futex => {
            let site = off.site.and_then(|site| view.model.site(site));
            site.is_some_and(|site| site.frames.iter().any(|frame| is_one(frame, &SLEEPS)))
        }
        _ => false,
    }
}

/// Whether somebody waits there for the result of a task.
pub(super) fn awaits_result(site: &Site) -> bool {
    site.frames.iter().any(|frame| is_one(frame, &RESULTS))
}

/// Whether a thread looks there what has come of several things that it waits for: between two tasks of a loop, which has others
/// meanwhile. Who only wants to know of one connection asks with poll().
pub(super) fn looks_for_events(site: &Site) -> bool {
    /// The C library's, and CPython's way there.
    const LOOKS: [&str; 4] = [
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "select_epoll_poll",
    ];
    let mut innermost = site.frames.iter().take(INNERMOST);
    innermost.any(|frame| LOOKS.contains(&bare(&frame.function)))
}
