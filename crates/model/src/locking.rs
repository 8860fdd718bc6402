//! Which samples fell where a lock is taken, waited for on the processor, or let go.

use crate::languages::{is_agent, is_language};
use crate::stubs::bare;
use crate::{path, SiteFrame};

/// Names of functions with which C programs and compilers lock, without leading underscores.
const FUNCTIONS: [&str; 13] = [
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

/// Modules of languages and libraries that do nothing else.
const PATHS: [&[&str]; 9] = [
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
/// Of their functions, those that are called where a lock is fought for. The fast path is inlined, and tells nothing: it is
/// everywhere where a lock is taken.
const FIGHTS: [&str; 5] = ["contended", "spin", "wake", "_slow", "park"];

/// Whether a lock is taken or let go here, by the language or by the agent in its stead.
pub(crate) fn is_locking(frames: &[SiteFrame]) -> bool {
    let in_agent = frames.first().is_some_and(|leaf| is_agent(&leaf.module));
    let mut called = frames.iter().take_while(|frame| is_language(frame));
    in_agent || called.any(takes_or_lets_go)
}

fn takes_or_lets_go(frame: &SiteFrame) -> bool {
    let name = bare(&frame.function);
    if FUNCTIONS.iter().any(|lock| name.starts_with(lock)) {
        return true;
    }
    let path = path::components(&frame.function);
    let fights = |name: &String| FIGHTS.iter().any(|part| name.contains(part));
    path.last().is_some_and(fights)
        && PATHS
            .iter()
            .any(|lock| path.len() > lock.len() && path.iter().zip(*lock).all(|(a, b)| a == b))
}

#[cfg(test)]
mod tests {
    use super::is_locking;
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
    fn locks_of_c_openmp_and_rust_are_told() {
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
            assert!(is_locking(&frames(locking)), "{locking:?}");
        }
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
            &[
                ("app", "std::sync::mpsc::Receiver<u64>::recv"),
                ("app", "app::count"),
            ],
            &[],
        ] {
            assert!(!is_locking(&frames(other)), "{other:?}");
        }
    }
}
