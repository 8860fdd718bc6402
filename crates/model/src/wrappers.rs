//! Which functions only pass a call on: the C and C++ runtimes, language libraries and lock wrappers.
//!
//! A line of the report is to name the function that *decided* to lock. `pthread_mutex_lock` was
//! called in `sqlite3_mutex_enter()`, but so are all of SQLite's; the caller is what tells.
//! A function's size is not known here, so a wrapper is told by its name: all of its words are words
//! of locking, but for a prefix (`uv_mutex_lock`, `PyThread_acquire_lock`). `update_lock_table` has a
//! word that is not, so it does more.

use crate::languages::is_language;
use crate::{path, SiteFrame};

/// Whether the frame says nothing about why a lock was taken.
pub(crate) fn passes_on(frame: &SiteFrame) -> bool {
    is_language(frame) || is_wrapper(&path::components(&frame.function))
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

/// What sleeps for a while: who calls it decides that, and for how long.
const SLEEPS: [&str; 7] = [
    "sleep",
    "usleep",
    "msleep",
    "nanosleep",
    "delay",
    "nap",
    "snooze",
];
/// How long that is.
const UNITS: [&str; 11] = [
    "us", "ms", "ns", "sec", "secs", "seconds", "millis", "micros", "nanos", "usec", "msec",
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
            || is(&SLEEPS, word)
            || is(&UNITS, word)
    };
    let thing = |word: &String| is(&LOCKS, word) || is(&NOUNS, word) || is(&SLEEPS, word);
    let Some(first) = words.iter().position(thing) else {
        return words.iter().all(known) && words.iter().any(|word| is(&WAITS, word));
    };
    let (before, rest) = words.split_at(first);
    let prefix: Vec<&String> = before.iter().filter(|word| !known(word)).collect();
    let letters: usize = prefix.iter().map(|word| word.len()).sum();
    if prefix.len() > PREFIX_WORDS || (prefix.len() == PREFIX_WORDS && letters > PREFIX_LETTERS) {
        return false;
    }
    rest.iter().all(known)
        && words
            .iter()
            .any(|word| is(&LOCKS, word) || is(&VERBS, word) || is(&SLEEPS, word))
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

#[cfg(test)]
mod tests {
    use super::passes_on;
    use crate::SiteFrame;

    fn in_module(function: &str, module: &str) -> SiteFrame {
        SiteFrame {
            function: function.into(),
            module: module.into(),
            ..SiteFrame::default()
        }
    }

    #[test]
    fn what_compilers_inline_passes_on_whatever_its_name() {
        let at = |function: &str, file: &str| SiteFrame {
            function: function.into(),
            file: file.into(),
            module: "app".into(),
            ..SiteFrame::default()
        };
        for (function, file) in [
            (
                "_mm_pause",
                "/rustc/9fc6/library/core/src/../../stdarch/crates/core_arch/src/x86/sse2.rs",
            ),
            (
                "compare_exchange_weak",
                "/usr/lib/rustlib/src/rust/library/core/src/sync/atomic.rs",
            ),
            ("load", "/usr/include/c++/12/bits/atomic_base.h"),
            (
                "_mm_load_si128",
                "/usr/lib/gcc/x86_64-linux-gnu/12/include/emmintrin.h",
            ),
        ] {
            assert!(passes_on(&at(function, file)), "{function}");
        }
        assert!(!passes_on(&at("library_load", "/src/library/load.c")));
    }

    #[test]
    fn wrappers_of_real_programs_pass_on() {
        for name in [
            // SQLite, libuv, CPython, APR, Traffic Server, OpenLDAP, nginx, jemalloc, memcached
            "pthreadMutexEnter",
            "pthreadMutexTry",
            "sqlite3_mutex_enter",
            "sqlite3_mutex_leave",
            "uv_mutex_lock",
            "uv_cond_wait",
            "uv_cond_timedwait",
            "uv_sem_post",
            "uv_barrier_wait",
            "uv_rwlock_rdlock",
            "PyThread_acquire_lock",
            "PyThread_acquire_lock_timed",
            "_PyMutex_LockTimed",
            "apr_thread_mutex_lock",
            "apr_thread_rwlock_wrlock",
            "apr_thread_cond_timedwait",
            "ink_mutex_acquire",
            "ldap_pvt_thread_mutex_lock",
            "ngx_thread_mutex_lock",
            "ngx_shmtx_lock",
            "je_malloc_mutex_lock_slow",
            "malloc_mutex_lock",
            "mutex_lock",
            "item_trylock_unlock",
            // MariaDB and PostgreSQL
            "inline_mysql_mutex_lock",
            "inline_mysql_cond_wait(st_mysql_cond*, st_mysql_mutex*, char const*, unsigned int)",
            "os_event_wait_low",
            "rw_lock_s_lock_func",
            "pfs_mutex_enter_func",
            "TTASEventMutex<GenericPolicy>::enter(unsigned int, unsigned int)",
            "PolicyMutex<TTASEventMutex<GenericPolicy> >::enter(unsigned int, unsigned int)",
            "ssux_lock_impl<true>::wr_wait(unsigned int)",
            "LWLockAcquire",
            "PGSemaphoreLock",
            // C++ programs and their libraries
            "Mutex::Lock",
            "leveldb::port::Mutex::Lock()",
            "rocksdb::InstrumentedMutex::Lock()",
            "rocksdb::port::CondVar::Wait()",
            "v8::base::Mutex::Lock()",
            "v8::base::ConditionVariable::Wait(v8::base::Mutex*)",
            "node::MutexBase<node::LibuvMutexTraits>::Lock()",
            "node::LibuvMutexTraits::mutex_lock(uv_mutex_t*)",
            "absl::Mutex::LockSlow(absl::MuHow const*, absl::SynchWaitParams const*, int)",
            "absl::MutexLock::MutexLock(absl::Mutex*)",
            "absl::CondVar::WaitCommon(absl::Mutex*, absl::KernelTimeout)",
            "absl::base_internal::SpinLock::SlowLock()",
            "folly::MicroLock::lock()",
            "QMutex::lock()",
            "QWaitCondition::wait(QMutex*, QDeadlineTimer)",
            "MutexLocker::MutexLocker(Mutex*)",
            "Monitor::wait_without_safepoint_check(long)",
            "ObjectMonitor::enter(JavaThread*)",
            "os::PlatformMonitor::wait(long)",
            "EnterCriticalSection",
            "my_lock",
            "do_lock",
            "take_lock",
            "try_lock",
            "Semaphore::acquire()",
            "spin_lock",
            "sleep_ms",
            "fx_sleep_us",
            "CRYPTO_THREAD_write_lock",
            // Language libraries, wherever they were inlined
            "std::mutex::lock()",
            "std::lock_guard<std::mutex>::lock_guard(std::mutex&)",
            "void std::condition_variable::wait<Queue::pop()::{lambda()#1}>(std::unique_lock<std::mutex>&, Queue::pop()::{lambda()#1})",
            "__gthread_mutex_lock(pthread_mutex_t*)",
            "__gnu_cxx::__mutex::lock()",
            "boost::mutex::lock()",
            "boost::unique_lock<boost::mutex>::lock()",
            "boost::condition_variable::wait(boost::unique_lock<boost::mutex>&)",
            "std::sync::poison::mutex::Mutex<T>::lock",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "<std::sync::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop",
            "core::ptr::drop_in_place<std::sync::mutex::MutexGuard<u64>>",
            "lock_api::mutex::Mutex<R,T>::lock",
            "parking_lot::raw_mutex::RawMutex::lock_slow",
            "crossbeam_channel::channel::Receiver<T>::recv",
        ] {
            assert!(passes_on(&in_module(name, "prog")), "{name} is a wrapper");
        }
    }

    #[test]
    fn functions_that_do_more_are_shown() {
        for name in [
            "main",
            "update_lock_table",
            "hot_lock_region",
            "lock_contention_worker",
            "lock_and_increment",
            "increment_locked",
            "sqlite3MemMalloc",
            "sqlite3_malloc64",
            "sqlite3BtreeEnter",
            "item_get",
            "cache_manager_lock",
            "process_command",
            "take_gil",
            "queue_pop",
            "Queue<int>::pop()",
            "Queue::wait_for_work()",
            "ThreadPool::wait_idle()",
            "worker_wait_for_job",
            "pool_acquire",
            "connection_acquire",
            "log_flush",
            "signal_handler",
            "wait_for_commit",
            "spin_work",
            "barrier_phase",
            "event_loop",
            "lock_rec_lock(bool, unsigned int)",
            "lock_page",
            "trx_commit",
            "boost::asio::io_context::run()",
            "prog::with_lock::{{closure}}",
            "main::{lambda()#1}::operator()() const",
            "<prog::Shard as prog::Store>::insert",
            "start_thread_pool",
            "enter",
            "post",
            "",
        ] {
            assert!(!passes_on(&in_module(name, "prog")), "{name} is no wrapper");
        }
    }

    #[test]
    fn some_libraries_never_are_the_culprit() {
        for module in [
            "libc.so.6",
            "libc-2.31.so",
            "libpthread.so.0",
            "libpthread-2.31.so",
            "libstdc++.so.6.0.30",
            "libc++.so.1",
            "libc++abi.so.1",
            "libgcc_s.so.1",
            "libgomp.so.1",
            "ld-linux-x86-64.so.2",
            "ld-2.31.so",
            "libglib-2.0.so.0",
            "libglib-2.0.so.0.7400.6",
            "libconvoy.so",
            "memfd:convoy-agent",
            "[vdso]",
        ] {
            assert!(passes_on(&in_module("anything", module)), "{module}");
            assert!(passes_on(&in_module("", module)), "{module}");
        }
        for module in [
            "libcurl.so.4",
            "libcrypto.so.3",
            "libglibmm-2.4.so.1",
            "prog",
            "",
            "ld",
        ] {
            assert!(!passes_on(&in_module("anything", module)), "{module}");
        }
    }
}
