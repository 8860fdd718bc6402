//! Scheduling policy of the event listener: SCHED_IDLE where CPUs are idle now and then, real-time
//! where none is.
//!
//! The listener takes CPU time from the program that it listens to. On a busy machine that costs
//! more than the time itself, in two ways.
//!
//! A thread that is preempted may hold a lock that all others want. Where CPUs are idle now and
//! then, the listener works under `SCHED_IDLE` and gives way to every thread that wakes up. If it
//! gets no CPU, the rings would fill: a second thread, which sleeps until that happens, gives it
//! the normal policy.
//!
//! If all CPUs are busy, one runnable thread more makes the kernel balance their loads: threads
//! that hand work to each other are moved to different CPUs, and each of their wake-ups needs an
//! interrupt from then on. A thread of real-time priority is not balanced against others. So the
//! listener takes the CPU that it is on, for a few milliseconds at most: the second thread sees to
//! that. (What both cost: docs/design/0003.)

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{timerfd_create, timerfd_settime, Itimerspec, Timespec};
use rustix::time::{TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use super::load::Load;

/// Work that takes longer has found no gaps.
const PATIENCE: Duration = Duration::from_millis(20);
/// Work at once goes on like any other after that.
const BRIEF: Duration = Duration::from_millis(5);
/// Who works at once sleeps for less before the next time: what is done from the one to the other is watched, too.
const ASLEEP: Duration = Duration::from_millis(100);
/// The least of real time, before all threads that have none; and of who ends that.
const REAL_TIME_PRIORITY: i32 = 1;
const WATCH_PRIORITY: i32 = 2;
/// Who may give a thread back what it had given up.
const CAP_SYS_NICE: u32 = 23;

thread_local! {
    /// Whether the thread works in the gaps of others.
    static IS_IDLE_CLASS: Cell<bool> = const { Cell::new(false) };
}

/// Scheduling class in which the listener works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchedClass {
    /// SCHED_OTHER, as other threads have it.
    Normal,
    /// When no other thread wants the processor.
    Idle,
    /// Before any other thread.
    RealTime,
}

/// What the two threads know.
#[derive(Debug)]
struct Shared {
    /// Rings when work takes too long.
    alarm: OwnedFd,
    over: AtomicBool,
}

/// Changes the policy of the thread that made it.
#[derive(Debug)]
pub(super) struct ListenerPriority {
    shared: Arc<Shared>,
    watch: Option<JoinHandle<()>>,
    /// By which it is told whether to work at once, if it can.
    load: Option<Load>,
}

impl ListenerPriority {
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
        let may_be_real_time = may_be_real_time();
        let (says, outranks) = mpsc::channel();
        let watch = std::thread::Builder::new()
            .name("convoy-watch".into())
            .spawn(move || {
                let _ = says.send(may_be_real_time && set_real_time(WATCH_PRIORITY));
                watched.watch(tid);
            })
            .ok()?;
        // Control groups may have no such priorities. Never without somebody who can end it.
        let has_real_time = outranks.recv() == Ok(true) && set_real_time(REAL_TIME_PRIORITY);
        set_policy(0, libc::SCHED_OTHER);
        Some(Self {
            shared,
            watch: Some(watch),
            load: has_real_time.then(Load::new),
        })
    }

    /// How to do what does not press: all that `is_due`, or else little.
    pub fn class(&mut self, is_due: bool) -> SchedClass {
        let is_full = self.load.as_mut().is_some_and(Load::is_full);
        match is_due {
            _ if is_full => SchedClass::RealTime,
            true => SchedClass::Idle,
            false => SchedClass::Normal,
        }
    }

    fn in_real_time<T>(&self, work: impl FnOnce() -> T) -> T {
        set_real_time(REAL_TIME_PRIORITY);
        self.shared.alarm_after(BRIEF);
        let done = work();
        // If it took too long it is not any more. What wakes up like any other is balanced like any other.
        set_real_time(REAL_TIME_PRIORITY);
        self.shared.alarm_after(ASLEEP);
        done
    }

    fn in_idle_class<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.alarm_every(PATIENCE);
        set_policy(0, libc::SCHED_IDLE);
        IS_IDLE_CLASS.set(true);
        let done = work();
        IS_IDLE_CLASS.set(false);
        set_policy(0, libc::SCHED_OTHER);
        self.shared.alarm_after(Duration::ZERO);
        done
    }
}

/// Does something in this class, if the calling thread can be priority: only the thread of which that is may call this. It sleeps afterwards
/// as it has worked, if that was [`SchedClass::RealTime`], and as usual otherwise.
pub(super) fn work<T>(
    priority: Option<&ListenerPriority>,
    class: SchedClass,
    work: impl FnOnce() -> T,
) -> T {
    match (priority, class) {
        (None, _) => work(),
        (Some(priority), SchedClass::RealTime) => priority.in_real_time(work),
        (Some(priority), SchedClass::Idle) => priority.in_idle_class(work),
        (Some(_), SchedClass::Normal) => {
            set_policy(0, libc::SCHED_OTHER);
            work()
        }
    }
}

/// Does something as a thread like any other, also in the gaps of others: what locks something that they need. Reads of a process's
/// memory and map do, for who maps memory. Who works at once goes on to: the lock is free again the sooner.
pub(super) fn with_normal_priority<T>(work: impl FnOnce() -> T) -> T {
    if !IS_IDLE_CLASS.replace(false) {
        return work();
    }
    set_policy(0, libc::SCHED_OTHER);
    let done = work();
    // If the gaps were not enough it will be told so once more.
    set_policy(0, libc::SCHED_IDLE);
    IS_IDLE_CLASS.set(true);
    done
}

impl Drop for ListenerPriority {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.alarm_after(Duration::from_nanos(1));
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
        set_policy(0, libc::SCHED_OTHER);
    }
}

impl Shared {
    /// After this time. Zero: not at all.
    fn alarm_after(&self, time: Duration) {
        self.alarm(time, Duration::ZERO);
    }

    /// After this time, and again and again until it is set anew: [`with_normal_priority`] may have gone back into the gaps. Zero: not at all.
    fn alarm_every(&self, time: Duration) {
        self.alarm(time, time);
    }

    fn alarm(&self, after: Duration, again: Duration) {
        let times = Itimerspec {
            it_interval: Timespec::try_from(again).unwrap_or_default(),
            it_value: Timespec::try_from(after).unwrap_or_default(),
        };
        // A timer that is there can be set.
        let _ = timerfd_settime(&self.alarm, TimerfdTimerFlags::empty(), &times);
    }

    /// If the work ends at this very moment, who sleeps or works next does so like any other once: no harm.
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

/// Not if convoy was started to be nice to others, nor where priorities of real time are what the machine is for.
fn may_be_real_time() -> bool {
    let is_nice = rustix::process::getpriority_process(None).is_ok_and(|nice| nice > 0);
    let kernel = rustix::system::uname();
    !is_nice && !is_for_real_time(&kernel.version().to_string_lossy())
}

/// By `uname -v`. The watching thread's timer would have to wait for the listener there.
fn is_for_real_time(version: &str) -> bool {
    version.contains("PREEMPT_RT") || version.contains("PREEMPT RT")
}

/// Of the calling thread.
fn policy() -> i32 {
    // SAFETY: no memory is involved.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
}

/// Of a thread of this process; 0 = the calling one. Where it is refused all stays as it is.
fn set_policy(tid: i32, policy: i32) {
    schedule(tid, policy, 0);
}

/// Of the calling thread, and not of those that it makes. Whether it was done.
fn set_real_time(priority: i32) -> bool {
    schedule(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

fn schedule(tid: i32, policy: i32, priority: i32) -> bool {
    // SAFETY: all zeroes is a value of that structure, which is only read, and outlives the call.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = priority;
        libc::sched_setscheduler(tid, policy, &parameters) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_long_is_not_modest_for_ever() {
        // Without the privilege there is nothing to test.
        let Some(priority) = ListenerPriority::of_this_thread() else {
            eprintln!("skipped: no CAP_SYS_NICE");
            return;
        };
        let begun = std::time::Instant::now();
        let (before, during, late) = work(Some(&priority), SchedClass::Idle, || {
            let before = policy();
            let mut late = before;
            while late == libc::SCHED_IDLE && begun.elapsed() < Duration::from_secs(20) {
                late = policy();
            }
            (before, begun.elapsed(), late)
        });
        assert_eq!(before, libc::SCHED_IDLE);
        assert_eq!(late, libc::SCHED_OTHER, "after {during:?}");
        assert!(during >= PATIENCE);
        work(Some(&priority), SchedClass::Idle, || {
            assert_eq!(policy(), libc::SCHED_IDLE)
        });
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    #[test]
    fn who_goes_back_into_the_gaps_is_helped_once_more() {
        let Some(priority) = ListenerPriority::of_this_thread() else {
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
        work(Some(&priority), SchedClass::Idle, || {
            assert!(is_helped());
            with_normal_priority(|| ());
            assert_eq!(policy(), libc::SCHED_IDLE);
            assert!(is_helped());
        });
    }

    #[test]
    fn who_works_at_once_does_so_for_a_moment_and_sleeps_ready_to() {
        let Some(priority) =
            ListenerPriority::of_this_thread().filter(|priority| priority.load.is_some())
        else {
            eprintln!("skipped: no CAP_SYS_NICE, or no real-time priorities");
            return;
        };
        let begun = std::time::Instant::now();
        let (before, during) = work(Some(&priority), SchedClass::RealTime, || {
            let before = policy();
            while policy() == libc::SCHED_FIFO && begun.elapsed() < Duration::from_secs(20) {}
            (before, begun.elapsed())
        });
        assert_eq!(before, libc::SCHED_FIFO);
        assert!(during >= BRIEF && during < Duration::from_secs(20));
        assert_eq!(policy(), libc::SCHED_FIFO);
        let made = std::thread::spawn(policy).join().unwrap();
        assert_eq!(made, libc::SCHED_OTHER, "what it makes is like any other");
        work(Some(&priority), SchedClass::Normal, || {
            assert_eq!(policy(), libc::SCHED_OTHER)
        });
        assert_eq!(policy(), libc::SCHED_OTHER);
        work(Some(&priority), SchedClass::RealTime, || ());
        drop(priority);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    #[test]
    fn without_real_time_what_is_due_is_done_in_gaps_and_a_look_as_usual() {
        let alarm = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
        let mut priority = ListenerPriority {
            shared: Arc::new(Shared {
                alarm,
                over: AtomicBool::new(false),
            }),
            watch: None,
            load: None,
        };
        assert_eq!(
            [true, false].map(|is_due| priority.class(is_due)),
            [SchedClass::Idle, SchedClass::Normal]
        );
    }

    #[test]
    fn a_kernel_for_real_time_is_known_by_its_version() {
        assert!(is_for_real_time(
            "#1 SMP PREEMPT_RT Debian 6.12.9-1 (2025-01-10)"
        ));
        assert!(is_for_real_time("#1 SMP PREEMPT RT Fri Nov 9 2018"));
        assert!(!is_for_real_time("#1 SMP PREEMPT_DYNAMIC @0"));
    }

    #[test]
    fn what_others_need_is_locked_by_no_modest_thread() {
        let Some(priority) = ListenerPriority::of_this_thread() else {
            eprintln!("skipped: no CAP_SYS_NICE");
            return;
        };
        let is = |wanted| assert_eq!(policy(), wanted);
        work(Some(&priority), SchedClass::Idle, || {
            with_normal_priority(|| {
                is(libc::SCHED_OTHER);
                with_normal_priority(|| is(libc::SCHED_OTHER));
                is(libc::SCHED_OTHER);
            });
            is(libc::SCHED_IDLE);
        });
        with_normal_priority(|| is(libc::SCHED_OTHER));
        is(libc::SCHED_OTHER);
    }
}
