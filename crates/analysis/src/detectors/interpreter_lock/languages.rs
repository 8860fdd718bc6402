//! How threads of a language wait for its interpreter. The function that waits has no name in most builds: those that call it tell.

use convoy_model::SiteFrame;

/// An interpreter with one lock for all of its threads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Language {
    pub(super) name: &'static str,
    /// What its people call the lock.
    pub(super) lock: &'static str,
    pub(super) why: &'static str,
    pub(super) fix: &'static str,
    pub(super) but: &'static str,
    /// It has a library by which threads hand out work to processes, and queues that all use.
    pub(super) hands_out: bool,
    /// A process may have several interpreters.
    pub(super) has_several: bool,
    /// What the interpreter's program, or its library behind "lib", begins with.
    module: &'static str,
    /// The functions that wait, in builds with names.
    take: &'static [&'static str],
    /// Calls in which a thread takes the lock.
    takers: &'static [&'static str],
    /// Calls of the interpreter between what waits and the C library.
    helpers: &'static [&'static str],
    /// Frames from the first one of the interpreter in which such a call is looked for.
    near: usize,
    /// Where a lock of the language's own is waited for.
    locks: &'static [&'static str],
}

const PYTHON: Language = Language {
    name: "Python",
    lock: "GIL",
    why: "one thread at a time runs Python's code, whatever locks it takes",
    fix: "processes instead of threads (ProcessPoolExecutor, multiprocessing), a build without the lock (3.13t), or the work in \
          an extension that lets the lock go",
    but: "processes copy what they pass on: pass large pieces (chunksize)",
    hands_out: true,
    has_several: false,
    module: "python",
    take: &["take_gil"],
    takers: &[
        "_PyEval_EvalFrameDefault",
        "PyEval_RestoreThread",
        "PyEval_AcquireThread",
        "PyEval_AcquireLock",
        "PyGILState_Ensure",
    ],
    helpers: &[],
    near: 2,
    locks: &["PyThread_acquire_lock_timed", "PyThread_acquire_lock"],
};

const RUBY: Language = Language {
    name: "Ruby",
    lock: "GVL",
    why: "one thread at a time runs Ruby's code, whatever locks it takes",
    fix: "processes instead of threads (puma --workers, unicorn, fork), or an interpreter without the lock (JRuby, TruffleRuby)",
    but: "processes do not share what they have in memory: what fork() copies is shared only until it is written",
    hands_out: false,
    has_several: true,
    module: "ruby",
    take: &[
        "gvl_acquire",
        "gvl_acquire_common",
        "thread_sched_to_running",
        "thread_sched_to_running_common",
    ],
    takers: &[
        "rb_io_wait",
        "rb_nogvl",
        "rb_thread_call_with_gvl",
        "rb_thread_call_without_gvl",
        "rb_thread_call_without_gvl2",
        "rb_thread_check_ints",
        "rb_thread_fd_select",
        "rb_thread_io_blocking_region",
        "rb_thread_schedule",
        "rb_thread_wait_fd",
        "rb_threadptr_execute_interrupts",
        "rb_wait_for_single_fd",
    ],
    helpers: &["rb_native_cond_wait", "rb_native_cond_timedwait"],
    near: 5,
    locks: &["rb_mutex_lock", "rb_mutex_synchronize"],
};

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The interpreter.
    Interpreter,
    /// A lock of the language's own.
    Lock,
}

/// Of a thread that waits with these frames, the innermost first.
pub(super) fn wait(frames: &[SiteFrame]) -> Option<(&'static Language, Wait)> {
    [&PYTHON, &RUBY]
        .into_iter()
        .find_map(|language| Some((language, language.wait(frames)?)))
}

impl Language {
    fn has(&self, frame: &SiteFrame) -> bool {
        let module = frame.module.strip_prefix("lib").unwrap_or(&frame.module);
        module.starts_with(self.module)
    }

    fn wait(&self, frames: &[SiteFrame]) -> Option<Wait> {
        let at = frames.iter().position(|frame| self.has(frame))?;
        let named = |frames: &[SiteFrame], names: &[&str]| {
            frames.iter().any(|f| names.contains(&f.function.as_str()))
        };
        let near = |n: usize| &frames[at..frames.len().min(at + n)];
        // What waits may be inlined, and has names of its own in builds that have any.
        if named(near(NAMED), self.take) || self.is_taken_back(near(self.near)) {
            return Some(Wait::Interpreter);
        }
        named(near(NAMED.max(self.near)), self.locks).then_some(Wait::Lock)
    }

    /// Whether what waits is called by something that takes the lock, through nothing but functions of the interpreter without names.
    fn is_taken_back(&self, near: &[SiteFrame]) -> bool {
        let is_helper = |frame: &&SiteFrame| self.helpers.contains(&frame.function.as_str());
        let waits = near.iter().skip_while(is_helper);
        let nameless = waits
            .clone()
            .take_while(|frame| frame.function.is_empty() && self.has(frame))
            .count();
        let caller = waits.clone().nth(nameless);
        nameless > 0 && caller.is_some_and(|f| self.takers.contains(&f.function.as_str()))
    }
}

/// Frames in which names are looked for that say it by themselves.
const NAMED: usize = 3;
