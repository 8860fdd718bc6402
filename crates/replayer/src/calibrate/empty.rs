//! Empty critical sections, for whoever records them.

use std::cell::UnsafeCell;
use std::thread;

/// Runs so many, in a thread of its own: the C library has cheaper locks while there is one.
/// `false` = the thread could not be made.
pub fn run_empty_sections(count: usize) -> bool {
    let run = move || {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        for _ in 0..count {
            // SAFETY: an initialized mutex that does not move; no reference into it exists.
            unsafe {
                libc::pthread_mutex_lock(mutex.get());
                libc::pthread_mutex_unlock(mutex.get());
            }
        }
    };
    let started = thread::Builder::new().spawn(run);
    started.is_ok_and(|thread| thread.join().is_ok())
}
