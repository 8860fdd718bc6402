//! Which functions only pass a call on: the C and C++ runtimes, language libraries and lock wrappers.
//!
//! A line of the report is to name the function that *decided* to lock. `pthread_mutex_lock` was
//! called in `sqlite3_mutex_enter()`, but so are all of SQLite's; the caller is what tells.
//! A function's size is not known here, so a wrapper is told by its name: all of its words are words
//! of locking, but for a prefix (`uv_mutex_lock`, `PyThread_acquire_lock`). `update_lock_table` has a
//! word that is not, so it does more.

use crate::{path, SiteFrame};

/// Whether the frame says nothing about why a lock was taken.
pub(crate) fn passes_on(frame: &SiteFrame) -> bool {
    if is_runtime_module(&frame.module) {
        return true;
    }
    if frame.function.is_empty() {
        return false;
    }
    let path = path::components(&frame.function);
    is_runtime_path(&path) || is_wrapper(&path)
}

/// File names (up to the first `.` or `-` after them) of libraries that never are the culprit.
const RUNTIME_MODULES: [&str; 17] = [
    "libc",
    "libpthread",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libgcc_s",
    "libgomp",
    "libomp",
    "libiomp5",
    "ld",
    "libglib",
    "libgthread",
    "libconvoy",
    "librt",
    "libdl",
    "libatomic",
    "linux-vdso",
];

fn is_runtime_module(module: &str) -> bool {
    if module == "[vdso]" || module.starts_with("memfd:") || module.starts_with("ld-") {
        return true;
    }
    let Some((stem, _)) = module.split_once(".so") else {
        return false;
    };
    let stem = stem.split_once("-2.").map_or(stem, |(stem, _)| stem);
    RUNTIME_MODULES.contains(&stem)
}

/// Crates and C++ namespaces whose functions are a language's own, or made for waiting.
const RUNTIME_ROOTS: [&str; 13] = [
    "std",
    "core",
    "alloc",
    "parking_lot",
    "parking_lot_core",
    "lock_api",
    "once_cell",
    "crossbeam_channel",
    "crossbeam_utils",
    "__gnu_cxx",
    "__gnu_parallel",
    "__cxxabiv1",
    "__rust_begin_short_backtrace",
];

fn is_runtime_path(path: &[String]) -> bool {
    let Some(root) = path.first() else {
        return false;
    };
    if RUNTIME_ROOTS.contains(&root.as_str()) {
        return true;
    }
    if root == "boost" {
        let lockish = [
            "mutex",
            "lock",
            "condition",
            "thread",
            "detail",
            "sync",
            "barrier",
            "posix",
        ];
        return path
            .get(1)
            .is_some_and(|part| lockish.iter().any(|word| part.contains(word)));
    }
    ["__gthread_", "__gthrw_", "__cxa_", "__rust_", "__lll_"]
        .iter()
        .any(|prefix| root.starts_with(prefix))
}

/// Words that mean taking or releasing by themselves.
const LOCKS: [&str; 15] = [
    "lock",
    "unlock",
    "trylock",
    "rdlock",
    "wrlock",
    "timedlock",
    "clocklock",
    "relock",
    "locker",
    "unlocker",
    "spinlock",
    "guard",
    "lockguard",
    "autolock",
    "tryrdlock",
];
/// Things that are taken or waited for.
const NOUNS: [&str; 20] = [
    "mutex",
    "mutexes",
    "mtx",
    "sem",
    "sema",
    "semaphore",
    "cond",
    "condvar",
    "cv",
    "condition",
    "rwlock",
    "futex",
    "monitor",
    "critical",
    "crit",
    "latch",
    "spin",
    "barrier",
    "event",
    "lll",
];
/// What is done with them.
const VERBS: [&str; 36] = [
    "acquire",
    "enter",
    "leave",
    "exit",
    "wait",
    "timedwait",
    "clockwait",
    "trywait",
    "post",
    "signal",
    "broadcast",
    "release",
    "get",
    "take",
    "put",
    "down",
    "up",
    "notify",
    "wake",
    "grab",
    "try",
    "park",
    "arrive",
    "start",
    "begin",
    "end",
    "init",
    "initialize",
    "alloc",
    "create",
    "new",
    "make",
    "destroy",
    "free",
    "delete",
    "setup",
];
/// Of the verbs, those that need no thing: `wait_until()`.
const WAITS: [&str; 5] = ["wait", "timedwait", "clockwait", "acquire", "park"];
/// Words that change nothing.
const NEUTRAL: [&str; 66] = [
    "thread",
    "threads",
    "pthread",
    "rw",
    "read",
    "reader",
    "write",
    "writer",
    "rd",
    "wr",
    "shared",
    "exclusive",
    "recursive",
    "reentrant",
    "timed",
    "until",
    "for",
    "slow",
    "fast",
    "path",
    "slowpath",
    "fastpath",
    "low",
    "high",
    "impl",
    "base",
    "inner",
    "internal",
    "internals",
    "raw",
    "generic",
    "func",
    "function",
    "fn",
    "common",
    "contended",
    "uncontended",
    "section",
    "variable",
    "var",
    "private",
    "no",
    "without",
    "safepoint",
    "check",
    "do",
    "one",
    "all",
    "or",
    "and",
    "scoped",
    "unique",
    "auto",
    "policy",
    "traits",
    "inline",
    "static",
    "wrapper",
    "wrap",
    "real",
    "adaptive",
    "normal",
    "simple",
    "final",
    "set",
    "ptr",
];

/// Words of the project that may come first: `apr_`, `sqlite3_`, `ngx_thread_`.
const PREFIX_WORDS: usize = 2;
/// Two words of a prefix have at most this many letters together: `hot_region_lock` does more.
const PREFIX_LETTERS: usize = 8;

fn is_wrapper(path: &[String]) -> bool {
    // The class counts (`Mutex::Lock`), its namespaces do not.
    let names = &path[path.len().saturating_sub(2)..];
    if names
        .iter()
        .any(|name| name.starts_with('{') || name.starts_with("operator"))
    {
        return false;
    }
    let words: Vec<String> = names.iter().flat_map(|name| words(name)).collect();
    let is = |list: &[&str], word: &str| list.contains(&word);
    let known = |word: &String| {
        word.len() == 1
            || is(&LOCKS, word)
            || is(&NOUNS, word)
            || is(&VERBS, word)
            || is(&NEUTRAL, word)
    };
    let prefix = words.iter().take_while(|word| !known(word)).count();
    let (prefix, rest) = words.split_at(prefix);
    if !rest.iter().all(known) {
        return false;
    }
    let letters: usize = prefix.iter().map(String::len).sum();
    if prefix.len() > PREFIX_WORDS || (prefix.len() == PREFIX_WORDS && letters > PREFIX_LETTERS) {
        return false;
    }
    let has = |list: &[&str]| rest.iter().any(|word| is(list, word));
    has(&LOCKS) || (has(&NOUNS) && has(&VERBS)) || (prefix.is_empty() && has(&WAITS))
}

/// `pthreadMutexEnter`, `pthread_mutex_enter`, `PTHREADMutex_Enter2`: lower-case words, no digits.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, &c) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map_or('_', |i| letters[i]);
        let after = letters.get(at + 1).copied().unwrap_or('_');
        let starts = c.is_uppercase()
            && (before.is_lowercase()
                || before.is_ascii_digit()
                || (before.is_uppercase() && after.is_lowercase()));
        if starts || !c.is_alphabetic() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphabetic(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
