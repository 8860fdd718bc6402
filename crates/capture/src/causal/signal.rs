//! The signal of a sample: whether the program really handles it, and what it costs.

use std::fs;
use std::mem::MaybeUninit;

/// Signals below this are not queued twice. A real-time signal that cannot be queued would
/// become SIGIO (fcntl(2), `F_SETSIG`), which ends a program that does not handle it.
const REAL_TIME: u32 = 32;

/// The signal that an experiment file names, if the kernel says that the process handles it: the
/// program can write anything there. Else why there are no samples.
pub(super) fn usable(pid: u32, signal: u32) -> Result<u32, String> {
    match signal {
        0 => Err("the program handles SIGURG, SIGSTKFLT and SIGPWR itself".into()),
        1..REAL_TIME if is_caught(pid, signal) => Ok(signal),
        _ => Err(format!(
            "signal {signal}, which the experiment file names, has no handler of the agent"
        )),
    }
}

/// Whether a process handles a signal.
pub(super) fn is_caught(pid: u32, signal: u32) -> bool {
    mask(&format!("/proc/{pid}/status"), "SigCgt:").is_some_and(|mask| has(mask, signal))
}

/// Whether a thread blocks a signal. One that is gone gets none either: the number may be somebody
/// else's by now.
pub(super) fn is_blocked(pid: u32, tid: u32, signal: u32) -> bool {
    let mask = mask(&format!("/proc/{pid}/task/{tid}/status"), "SigBlk:");
    mask.is_none_or(|mask| has(mask, signal)) || awaits_signals(pid, tid)
}

/// Whether a thread is in `sigwait`, where the kernel takes what it awaits out of its mask: it
/// blocks that again when it returns, and would be handed a sample by its next call.
fn awaits_signals(pid: u32, tid: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"));
    let number = call
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    number == Some(libc::SYS_rt_sigtimedwait)
}

fn mask(file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let mask = text.lines().find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

fn has(mask: u64, signal: u32) -> bool {
    mask & 1u64 << signal.saturating_sub(1).min(63) != 0
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// CPU time of a signal whose handler does nothing, nanoseconds; 0 = it cannot be measured.
pub(super) fn cost_ns() -> u32 {
    const TRIES: usize = 5;
    let signal = libc::SIGURG;
    // SAFETY: zeroed sigactions are valid values of this plain C structure; the handler does
    // nothing; both pointers are to live locals. The signal goes to this thread.
    let least = unsafe {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, &mut before);
        let cost = |_| {
            let began = thread_cpu_ns();
            libc::syscall(
                libc::SYS_tgkill,
                libc::getpid(),
                libc::syscall(libc::SYS_gettid),
                signal,
            );
            thread_cpu_ns().saturating_sub(began)
        };
        let least = (0..TRIES).map(cost).min();
        libc::sigaction(signal, &before, std::ptr::null_mut());
        least
    };
    least.and_then(|ns| ns.try_into().ok()).unwrap_or(0)
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_numbered_from_1_in_masks() {
        assert!(has(u64::MAX, 64) && has(1 << 63, 64));
        assert!(!has(0x7fff_ffff, 64));
    }

    #[test]
    fn signals_that_no_handler_waits_for_are_refused() {
        let own = std::process::id();
        for signal in [libc::SIGKILL as u32, 34, 64, 1 << 20, u32::MAX] {
            let refused = usable(own, signal).unwrap_err();
            assert!(refused.contains(&signal.to_string()), "{refused}");
        }
        assert!(usable(own, 0).is_err());
    }

    #[test]
    fn a_signal_costs_some_cpu_time() {
        assert!(cost_ns() > 0);
    }
}
