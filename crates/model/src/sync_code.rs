//! Which samples fell where threads exclude one another, or wait for and wake one another.

use crate::languages::{is_agent, is_language};
use crate::syscall_wrappers::bare;
use crate::{path, SiteFrame};

/// What code does for the sake of other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncCode {
    /// Takes a lock, waits for it on the processor, or lets it go.
    Lock,
    /// Waits for something to come, or says that it is there: conditions, semaphores, barriers, channels.
    HandOver,
}

/// Names of functions with which C programs and compilers lock, without leading underscores.
const LOCKS: [&str; 13] = [
    "pthread_mutex_",
    "pthread_rwlock_",
    "pthread_spin_",
    "lll_lock_",
    "GOMP_critical_",
    "GOMP_atomic_",
    "omp_set_lock",
    "omp_set_nest_lock",
    "omp_unset_",
    "omp_test_",
    "kmpc_critical",
    "kmpc_end_critical",
    "kmpc_set_lock",
];
/// The same of those with which they wait and wake.
const HAND_OVERS: [&str; 9] = [
    "pthread_cond_",
    "pthread_barrier_",
    "condvar_",
    "cnd_",
    "sem_",
    "new_sem_",
    "futex_",
    "g_cond_",
    "g_async_queue_",
];
/// Parts of the names in which the C++ library's semaphores, latches and barriers wait and wake.
const ATOMIC_WAITS: [&str; 3] = [
    "__atomic_wait_address",
    "__platform_wait",
    "__platform_notify",
];

/// Modules of languages and libraries that do nothing else.
const LOCK_PATHS: [&[&str]; 9] = [
    &["std", "sys", "sync", "mutex"],
    &["std", "sys", "sync", "rwlock"],
    &["std", "sync", "mutex"],
    &["std", "sync", "rwlock"],
    &["std", "sync", "poison", "mutex"],
    &["std", "sync", "poison", "rwlock"],
    &["lock_api"],
    &["parking_lot", "raw_mutex"],
    &["parking_lot", "raw_rwlock"],
];
const HAND_OVER_PATHS: [&[&str]; 9] = [
    &["std", "sync", "mpsc"],
    &["std", "sync", "mpmc"],
    &["std", "sync", "barrier"],
    &["std", "sync", "condvar"],
    &["std", "sync", "poison", "condvar"],
    &["std", "sys", "sync", "condvar"],
    &["std", "sys", "sync", "thread_parking"],
    &["parking_lot", "condvar"],
    &["crossbeam_channel"],
];
/// Of the locks' functions, those that are called where one is fought for...
const FIGHTS: [&str; 5] = ["contended", "spin", "wake", "_slow", "park"];
/// ... and those of the fast path, which is everywhere where a lock is taken.
const FAST_PATH: [&str; 11] = [
    "lock",
    "unlock",
    "try_lock",
    "read",
    "write",
    "read_unlock",
    "write_unlock",
    "lock_exclusive",
    "unlock_exclusive",
    "lock_shared",
    "unlock_shared",
];

/// Share of a lock's functions that fights for it, up to which its fast path is as fast as that of any lock, and from which on what
/// that takes is the way of the lock's word from processor to processor. (Rust's mutex, two threads on two processors: 0.3 where locks
/// of their own made them 6 times as fast, 0.01 where they made no difference.)
const FOUGHT_FOR: (f64, f64) = (0.05, 0.2);

impl SyncCode {
    /// What it costs that a lock is fought for, of so many samples (or nanoseconds) in the functions for that, and in its
    /// [fast path](crate::Site::fast_path).
    pub fn price_of_fights(fights: f64, fast: f64) -> f64 {
        let share = fights / (fights + fast).max(f64::MIN_POSITIVE);
        let (least, most) = FOUGHT_FOR;
        fights + fast * ((share - least) / (most - least)).clamp(0.0, 1.0)
    }

    /// The same with what is run right [beside](crate::BesideSync) the lock's calls: as much as the word's way from processor to
    /// processor is of what the lock costs, the way of what it guards is of that.
    pub fn price_with_guarded(fights: f64, fast: f64, beside: f64) -> f64 {
        let price = Self::price_of_fights(fights, fast);
        price + beside * price / (fights + fast).max(f64::MIN_POSITIVE)
    }

    /// What the code of a call path, leaf first, does so: by the language, or by the agent in its stead.
    pub(crate) fn of(frames: &[SiteFrame]) -> Option<Self> {
        if frames.first().is_some_and(|leaf| is_agent(&leaf.module)) {
            return Some(Self::Lock);
        }
        let called = frames.iter().take_while(|frame| is_language(frame));
        let codes = called.filter_map(Self::of_function);
        // Who waits for a condition takes a lock within.
        codes.max_by_key(|code| *code == Self::Lock)
    }

    /// What a function of a language or library does so, but for the fast path of a lock. How often
    /// it is called depends on who meets whom.
    pub fn of_library_function(frame: &SiteFrame) -> Option<Self> {
        is_language(frame).then(|| Self::of_function(frame))?
    }

    fn of_function(frame: &SiteFrame) -> Option<Self> {
        let name = bare(&frame.function);
        let is_one_of = |known: &[&str]| known.iter().any(|begin| name.starts_with(begin));
        if is_one_of(&LOCKS) {
            return Some(Self::Lock);
        }
        let waits = |part: &&str| frame.function.contains(part);
        if is_one_of(&HAND_OVERS) || ATOMIC_WAITS.iter().any(waits) {
            return Some(Self::HandOver);
        }
        let path = path::components(&frame.function);
        let is_in = |modules: &[&[&str]]| modules.iter().any(|module| is_below(&path, module));
        let fights = |name: &String| FIGHTS.iter().any(|part| name.contains(part));
        if is_in(&LOCK_PATHS) && path.last().is_some_and(fights) {
            return Some(Self::Lock);
        }
        is_in(&HAND_OVER_PATHS).then_some(Self::HandOver)
    }
}

/// Whether the code of a call path, leaf first, that is no [`SyncCode`] is the first steps of taking a lock or letting it go,
/// inlined where that is done: all locks run them, fought for or not.
pub(crate) fn is_fast_path(frames: &[SiteFrame]) -> bool {
    let takes = |frame: &SiteFrame| {
        let path = path::components(&frame.function);
        let of_a_lock = LOCK_PATHS.iter().any(|module| is_below(&path, module));
        of_a_lock
            && path
                .last()
                .is_some_and(|name| FAST_PATH.contains(&name.as_str()))
    };
    let mut called = frames.iter().take_while(|frame| is_language(frame));
    called.any(takes)
}

fn is_below(path: &[String], module: &[&str]) -> bool {
    path.len() > module.len() && path.iter().zip(module).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::{is_fast_path, SyncCode};
    use crate::SiteFrame;

    fn frames(functions: &[(&str, &str)]) -> Vec<SiteFrame> {
        let frame = |&(module, function): &(&str, &str)| SiteFrame {
            module: module.into(),
            function: function.into(),
            ..SiteFrame::default()
        };
        functions.iter().map(frame).collect()
    }

    #[test]
    fn the_fast_path_of_a_lock_costs_what_fights_make_of_it() {
        let price = SyncCode::price_of_fights;
        assert_eq!(price(0.0, 50.0), 0.0);
        assert_eq!(price(0.0, 0.0), 0.0);
        assert_eq!(price(1.0, 49.0), 1.0, "hardly ever fought for");
        assert!((price(10.0, 70.0) - (10.0 + 70.0 * 0.5)).abs() < 1e-9);
        assert_eq!(price(20.0, 60.0), 80.0);
        let with_guarded = SyncCode::price_with_guarded;
        assert_eq!(with_guarded(0.0, 0.0, 10.0), 0.0);
        assert_eq!(with_guarded(20.0, 60.0, 10.0), 90.0);
        assert!((with_guarded(10.0, 70.0, 8.0) - (45.0 + 4.5)).abs() < 1e-9);
    }

    #[test]
    fn locks_and_hand_overs_of_c_openmp_and_rust_are_told() {
        let libc = "libc.so.6";
        let gomp = "libgomp.so.1.0.0";
        for locking in [
            &[(libc, "___pthread_mutex_lock"), ("app", "work")][..],
            &[
                (libc, "__GI___lll_lock_wait"),
                (libc, "pthread_mutex_lock"),
                ("app", "work"),
            ],
            &[("libconvoy-1.so", ""), ("app", "work")],
            &[
                (gomp, ""),
                (gomp, "GOMP_critical_start"),
                ("app", "main._omp_fn.0"),
            ],
            &[(gomp, "GOMP_critical_end"), ("app", "main._omp_fn.0")],
            &[
                ("app", "core::sync::atomic::atomic_load<u32>"),
                ("app", "std::sys::sync::mutex::futex::Mutex::spin"),
                (
                    "app",
                    "std::sync::poison::mutex::Mutex<alloc::vec::Vec<u64>>::lock<u64>",
                ),
                ("app", "app::count"),
            ],
            &[
                ("app", "parking_lot::raw_mutex::RawMutex::lock_slow"),
                ("app", "app::count"),
            ],
        ] {
            assert_eq!(
                SyncCode::of(&frames(locking)),
                Some(SyncCode::Lock),
                "{locking:?}"
            );
        }
        for handing_over in [
            &[(libc, "pthread_cond_signal@@GLIBC_2.3.2"), ("app", "put")][..],
            &[
                (libc, "__futex_abstimed_wait_common"),
                (libc, "__new_sem_wait_slow64"),
                ("app", "take"),
            ],
            &[
                ("app", "std::sync::mpsc::Receiver<u64>::recv"),
                ("app", "app::count"),
            ],
            &[
                (libc, "syscall"),
                (
                    "app",
                    "std::__detail::__platform_wait<int>(int const*, int)",
                ),
                ("app", "take"),
            ],
        ] {
            assert_eq!(
                SyncCode::of(&frames(handing_over)),
                Some(SyncCode::HandOver),
                "{handing_over:?}"
            );
        }
        let fast = [
            ("app", "core::sync::atomic::atomic_compare_exchange<u32>"),
            ("app", "<std::sys::sync::mutex::futex::Mutex>::lock"),
            ("app", "std::sync::poison::mutex::Mutex<u64>::lock"),
            ("app", "app::count"),
        ];
        assert!(is_fast_path(&frames(&fast)));
        assert_eq!(SyncCode::of(&frames(&fast)), None);
        for other in [
            &[
                (libc, "memcpy"),
                ("app", "work"),
                (libc, "pthread_mutex_lock"),
            ][..],
            &[
                (
                    "app",
                    "<std::sync::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop",
                ),
                (
                    "app",
                    "core::ptr::drop_in_place<std::sync::mutex::MutexGuard<u64>>",
                ),
                ("app", "app::count"),
            ],
            &[(gomp, ""), (gomp, "GOMP_parallel"), ("app", "main")],
            &[
                (
                    "app",
                    "alloc::sync::Arc<std::sync::mutex::Mutex<u64>>::drop_slow",
                ),
                ("app", "app::count"),
            ],
            &[],
        ] {
            assert_eq!(SyncCode::of(&frames(other)), None, "{other:?}");
            assert!(!is_fast_path(&frames(other)), "{other:?}");
        }
    }
}
