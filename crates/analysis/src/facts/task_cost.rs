//! What runtimes do to make a task, to have it run, and to take its result: tokio, rayon and those made of async-task, oneTBB,
//! futures of C++, and the calls of OpenMP that make one, or give a thread the next iterations of a loop.

use convoy_model::{passes_on, Site, SiteFrame};

/// Modules that do nothing else.
const MODULES: [&str; 12] = [
    "tokio::runtime::task::",
    "tokio::runtime::scheduler::",
    "tokio::task::",
    "tokio::sync::",
    "tokio::loom::",
    "tokio::util::",
    "async_executor::",
    "async_task::",
    "rayon_core::job::",
    "rayon_core::join::",
    "tbb::detail::d1::",
    "tbb::detail::r1::",
];
/// The same of C, in libraries that pass calls on.
const CALLS: [&str; 3] = ["GOMP_task", "__kmpc_omp_task", "__kmpc_omp_task_alloc"];
/// Of them, what looks for something to do, or waits for it: there may be nothing to do then, however large the tasks are.
const SEEKS: [&str; 9] = [
    "::park",
    "::steal",
    "::wait_until",
    "::search",
    "::driver::",
    "::idle::",
    "r1::wait",
    "r1::execute_and_wait",
    "receive_or_",
];

/// Of them, what calls the task: where the program has no line table, the task itself may be inlined there, unseen.
const BODIES: [&str; 9] = [
    "poll",
    "execute",
    "run_body",
    "call_once",
    "{closure}",
    "{lambda",
    "start_",
    "function_task",
    "join_context",
];

/// Of C++'s library: what a task and its result are handed over in (libstdc++ and libc++).
const FUTURES: [&str; 6] = [
    "__future_base::",
    "__basic_future",
    "__atomic_futex_unsigned",
    "__assoc_state",
    "packaged_task<",
    "promise<",
];
/// Of it, what calls the task.
const INVOKES: [&str; 4] = ["invoke", "_M_run", "_Task_setter", "operator()"];

/// Of Java's class library: what makes tasks, has threads run them, and what their results are taken from.
const EXECUTORS: [&str; 5] = [
    "java.util.concurrent.AbstractExecutorService.",
    "java.util.concurrent.ThreadPoolExecutor.",
    "java.util.concurrent.FutureTask.",
    "java.util.concurrent.ExecutorCompletionService.",
    "java.util.concurrent.ForkJoinPool.",
];
/// What they call for it. In all else of the library, a program's own code may be compiled into it, unseen.
const THEIRS: [&str; 7] = [
    "java.util.concurrent.locks.",
    "java.util.concurrent.atomic.",
    "java.util.concurrent.LinkedBlockingQueue.",
    "java.util.concurrent.ArrayBlockingQueue.",
    "java.util.concurrent.SynchronousQueue",
    "java.util.concurrent.ForkJoinTask.fork",
    "jdk.internal.misc.Unsafe.",
];
/// Of them, what calls the task: it may be compiled into that.
const RUNS: [&str; 3] = [".runWorker", "FutureTask.run", ".topLevelExec"];
/// And what looks for one.
pub(crate) const TAKES: [&str; 3] = [".getTask", ".awaitWork", ".scan"];

/// A sample in passing on a task.
pub(crate) enum Handing<'a> {
    /// The program's code called for it there.
    Call(&'a SiteFrame),
    /// The same for iterations of a loop.
    Iterations(&'a SiteFrame),
    /// The same for a future.
    Future(&'a SiteFrame),
    /// A thread of the runtime's does it.
    Scheduler,
    /// It looks for one.
    Seeking,
    /// It calls the task, which may be compiled into it.
    Running,
}

/// Whether these frames of the language's, the innermost first, make a future, its task or its result.
fn is_of_a_future(inner: &[SiteFrame]) -> bool {
    let is_part = |frame: &SiteFrame| frame.function.starts_with("std::") && says(frame, &FUTURES);
    let leaf = inner.first();
    leaf.is_some_and(|leaf| !may_be_the_task(leaf, &INVOKES)) && inner.iter().any(is_part)
}

/// If these frames of the class library's, the innermost first, make a task of Java's, find one, or take its result.
fn of_an_executor<'a>(inner: &[SiteFrame], outer: &'a [SiteFrame]) -> Option<Handing<'a>> {
    let is_part = |frame: &SiteFrame| is_one(frame, &EXECUTORS);
    let is_java = |frame: &&SiteFrame| frame.module.is_empty();
    let leaf = inner
        .iter()
        .find(is_java)
        .filter(|_| inner.iter().any(is_part))?;
    if is_part(leaf) && may_be_the_task(leaf, &RUNS) {
        return Some(Handing::Running);
    }
    if !is_part(leaf) && !is_one(leaf, &THEIRS) {
        return None;
    }
    if inner
        .iter()
        .any(|frame| is_part(frame) && says(frame, &TAKES))
    {
        return Some(Handing::Seeking);
    }
    // Behind the last of its own is the virtual machine's glue.
    let call = outer.first().filter(|frame| frame.function.contains('.'));
    Some(call.map_or(Handing::Scheduler, Handing::Call))
}

/// Whether OpenMP gives a thread iterations of a loop there (GCC's and LLVM's run time): `schedule(dynamic)` and its kin. It waits for
/// nobody.
fn gives_iterations(frame: &SiteFrame) -> bool {
    let gcc = frame.function.strip_prefix("GOMP_loop_");
    gcc.is_some_and(|rest| rest.ends_with("_next"))
        || frame.function.starts_with("__kmpc_dispatch_next_")
}

fn says(frame: &SiteFrame, parts: &[&str]) -> bool {
    parts.iter().any(|part| frame.function.contains(part))
}

/// Where there is no line table, what calls the task may have it inlined.
fn may_be_the_task(frame: &SiteFrame, callers: &[&str]) -> bool {
    frame.file.is_empty() && says(frame, callers)
}

pub(crate) fn is_one(frame: &SiteFrame, of: &[&str]) -> bool {
    let name = frame.function.trim_start_matches('<');
    of.iter().any(|module| name.starts_with(module))
}

/// If a sample is one: the innermost code that is not the language's is such a runtime's.
pub(crate) fn handing(site: &Site) -> Option<Handing<'_>> {
    let inside =
        |frame: &SiteFrame| frame.function.is_empty() && frame.module.starts_with("libtbb");
    let first = site
        .frames
        .iter()
        .position(|frame| !passes_on(frame) && !inside(frame));
    let (inner, outer) = site.frames.split_at(first?);
    if inner.iter().any(gives_iterations) {
        return outer.first().map(Handing::Iterations);
    }
    if is_of_a_future(inner) {
        return outer.first().map(Handing::Future);
    }
    if let Some(handing) = of_an_executor(inner, outer) {
        return Some(handing);
    }
    if inner
        .iter()
        .any(|frame| CALLS.contains(&frame.function.as_str()))
    {
        return outer.first().map(Handing::Call);
    }
    outer
        .first()
        .filter(|frame| is_one(frame, &MODULES) && !may_be_the_task(frame, &BODIES))?;
    let is_own = |frame: &SiteFrame| !passes_on(frame) && !is_of_a_runtime(frame);
    let call = outer.iter().position(is_own);
    let runtimes = outer.get(..call.unwrap_or(outer.len())).unwrap_or_default();
    if inner
        .iter()
        .chain(runtimes)
        .any(|frame| says(frame, &SEEKS))
    {
        return Some(Handing::Seeking);
    }
    let call = call.and_then(|at| outer.get(at));
    Some(call.map_or(Handing::Scheduler, Handing::Call))
}

/// Where the program calls for it.
pub(crate) fn place(site: &Site) -> Option<String> {
    match handing(site)? {
        Handing::Call(frame) | Handing::Iterations(frame) | Handing::Future(frame) => {
            Some(frame.label())
        }
        Handing::Scheduler | Handing::Seeking | Handing::Running => None,
    }
}

/// Whether a frame is of one of these runtimes, or of what they are made of.
fn is_of_a_runtime(frame: &SiteFrame) -> bool {
    const ROOTS: [&str; 9] = [
        "tokio::",
        "rayon::",
        "rayon_core::",
        "async_executor::",
        "async_task::",
        "futures_",
        "futures::",
        "crossbeam_",
        "tbb::",
    ];
    is_one(frame, &ROOTS)
}
