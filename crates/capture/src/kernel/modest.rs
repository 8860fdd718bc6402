//! A thread that works when the processors have nothing better to do, but not for ever.
//!
//! What listens takes processors from whom it listens to. On a busy machine that costs more than the time itself: a thread that
//! waits for a moment may hold what all others want. Under `SCHED_IDLE` the listener gives way to whoever wakes up, and finds its time
//! in the gaps that every program has which waits for something. One that leaves no gap would fill the rings
//! meanwhile: then a second thread, which sleeps until that happens, makes the first one as good as the others.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{timerfd_create, timerfd_settime, Itimerspec, Timespec};
use rustix::time::{TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

/// Work that takes longer has found no gaps.
const PATIENCE: Duration = Duration::from_millis(20);
/// Who may give a thread back what it had given up.
const CAP_SYS_NICE: u32 = 23;

thread_local! {
    /// Whether the thread works in the gaps of others.
    static IN_GAPS: Cell<bool> = const { Cell::new(false) };
}

/// What the two threads know.
#[derive(Debug)]
struct Shared {
    /// Rings when work takes too long.
    alarm: OwnedFd,
    over: AtomicBool,
}

/// Of the thread that made it.
#[derive(Debug)]
pub(super) struct Modest {
    shared: Arc<Shared>,
    watch: Option<JoinHandle<()>>,
}

impl Modest {
    /// For the calling thread. `None` where it would have to stay what it becomes, or where somebody has said how it is to be scheduled.
    pub fn of_this_thread() -> Option<Self> {
        if policy() != libc::SCHED_OTHER {
            return None;
        }
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        if !super::bpf::has_capability(&status, CAP_SYS_NICE) {
            return None;
        }
        let shared = Arc::new(Shared {
            alarm: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok()?,
            over: AtomicBool::new(false),
        });
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let watched = Arc::clone(&shared);
        let watch = std::thread::Builder::new()
            .name("convoy-watch".into())
            .spawn(move || watched.watch(tid))
            .ok()?;
        Some(Self {
            shared,
            watch: Some(watch),
        })
    }

    /// Does something in the gaps of others. Only the thread of which this is may call it.
    pub fn in_gaps<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.alarm_every(PATIENCE);
        set_policy(0, libc::SCHED_IDLE);
        IN_GAPS.set(true);
        let done = work();
        IN_GAPS.set(false);
        set_policy(0, libc::SCHED_OTHER);
        self.shared.alarm_every(Duration::ZERO);
        done
    }
}

/// Does something as a thread like any other, also in the gaps of others: what locks something that they need. Reads of a process's
/// memory and map do, for who maps memory.
pub(super) fn as_usual<T>(work: impl FnOnce() -> T) -> T {
    if !IN_GAPS.replace(false) {
        return work();
    }
    set_policy(0, libc::SCHED_OTHER);
    let done = work();
    // If the gaps were not enough it will be told so once more.
    set_policy(0, libc::SCHED_IDLE);
    IN_GAPS.set(true);
    done
}

impl Drop for Modest {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.alarm_every(Duration::from_nanos(1));
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

impl Shared {
    /// After this time, and again and again until it is set anew: [`as_usual`] may have gone back into the gaps. Zero: not at all.
    fn alarm_every(&self, time: Duration) {
        let time = Timespec::try_from(time).unwrap_or_default();
        let times = Itimerspec {
            it_interval: time,
            it_value: time,
        };
        // A timer that is there can be set.
        let _ = timerfd_settime(&self.alarm, TimerfdTimerFlags::empty(), &times);
    }

    /// If the work ends at this very moment, the next one is done like any other: no harm.
    fn watch(&self, tid: i32) {
        let rings = || rustix::io::read(&self.alarm, &mut [0; 8]);
        while rustix::io::retry_on_intr(rings).is_ok() {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            set_policy(tid, libc::SCHED_OTHER);
        }
    }
}

/// Of the calling thread.
fn policy() -> i32 {
    // SAFETY: no memory is involved.
    unsafe { libc::sched_getscheduler(0) }
}

/// Of a thread of this process; 0 = the calling one. Where it is refused all stays as it is.
fn set_policy(tid: i32, policy: i32) {
    // SAFETY: all zeroes is a value of that structure, which is only read, and outlives the call.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(tid, policy, &parameters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_long_is_not_modest_for_ever() {
        // Without the privilege there is nothing to test.
        let Some(modest) = Modest::of_this_thread() else {
            eprintln!("skipped: no CAP_SYS_NICE");
            return;
        };
        let (before, during, late) = modest.in_gaps(|| {
            let before = policy();
            let begun = std::time::Instant::now();
            let mut late = before;
            while late == libc::SCHED_IDLE && begun.elapsed() < Duration::from_secs(20) {
                late = policy();
            }
            (before, begun.elapsed(), late)
        });
        assert_eq!(before, libc::SCHED_IDLE);
        assert_eq!(late, libc::SCHED_OTHER, "after {during:?}");
        assert!(during >= PATIENCE);
        modest.in_gaps(|| assert_eq!(policy(), libc::SCHED_IDLE));
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    #[test]
    fn who_goes_back_into_the_gaps_is_helped_once_more() {
        let Some(modest) = Modest::of_this_thread() else {
            eprintln!("skipped: no CAP_SYS_NICE");
            return;
        };
        let is_helped = || {
            let begun = std::time::Instant::now();
            while policy() == libc::SCHED_IDLE && begun.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
            policy() == libc::SCHED_OTHER
        };
        modest.in_gaps(|| {
            assert!(is_helped());
            as_usual(|| ());
            assert_eq!(policy(), libc::SCHED_IDLE);
            assert!(is_helped());
        });
    }

    #[test]
    fn what_others_need_is_locked_by_no_modest_thread() {
        let Some(modest) = Modest::of_this_thread() else {
            eprintln!("skipped: no CAP_SYS_NICE");
            return;
        };
        let is = |wanted| assert_eq!(policy(), wanted);
        modest.in_gaps(|| {
            as_usual(|| {
                is(libc::SCHED_OTHER);
                as_usual(|| is(libc::SCHED_OTHER));
                is(libc::SCHED_OTHER);
            });
            is(libc::SCHED_IDLE);
        });
        as_usual(|| is(libc::SCHED_OTHER));
        is(libc::SCHED_OTHER);
    }
}
