//! Why a thread left its processor: what the accounting needs to know of a raw event.

use convoy_abi::CV_BPF_POLLS_ONE;
use convoy_profile::OffReason;
use convoy_sched::reason::{classify, Arch, BlockState, Left as Facts};

use super::raw::{Call, Left};

/// Whose system call numbers the kernel reports.
pub(crate) const ARCH: Arch = if cfg!(target_arch = "x86_64") {
    Arch::X86_64
} else {
    Arch::Aarch64
};

/// What the kernel's task state says.
pub(crate) fn state_of(left: &Left) -> BlockState {
    BlockState::of_task_state(left.state.into())
}

/// Why it is off the processors; `name`: of the descriptor that its system call works on.
pub(crate) fn of(left: &Left, name: Option<&str>) -> OffReason {
    let facts = Facts {
        nr: left.call.nr,
        arg1: left.call.arg1.into(),
        iowait: left.iowait,
        state: state_of(left),
        name,
    };
    classify(&facts, ARCH)
}

/// The descriptor that a call works on.
pub(crate) fn descriptor(call: &Call) -> Option<i32> {
    let is_one = polls_one(call) || convoy_sched::reason::takes_fd(call.nr, ARCH);
    is_one.then_some(call.arg0 as i32)
}

/// Whether a sample is of a thread that is in the kernel without having called it: in a page fault, but for few interrupts.
pub(crate) fn is_fault(in_kernel: bool, call: &Call) -> bool {
    in_kernel && call.nr < 0
}

/// Whether the BPF program has read the one descriptor that a poll() waits for.
fn polls_one(call: &Call) -> bool {
    let name = || convoy_sched::reason::call_name(call.nr, ARCH);
    call.arg1 == CV_BPF_POLLS_ONE && matches!(name(), Some("poll" | "ppoll"))
}

/// What a call was to read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Bytes.
    pub(crate) length: u32,
    pub(crate) reads: bool,
}

/// What a sample in a call brings, if it reads or writes; see `cv_bpf_stack` in convoy_bpf.h.
pub(crate) fn moved(call: &Call) -> Option<Moved> {
    let reads = match (ARCH, call.nr) {
        (Arch::X86_64, 0 | 45) | (Arch::Aarch64, 63 | 207) => true,
        (Arch::X86_64, 1 | 18 | 44) | (Arch::Aarch64, 64 | 68 | 206) => false,
        _ => return None,
    };
    Some(Moved {
        length: call.arg1,
        reads,
    })
}

/// Whether a thread that could go on leaves its processor of its own will.
pub(crate) fn gives_way(call: &Call) -> bool {
    convoy_sched::reason::call_name(call.nr, ARCH) == Some("sched_yield")
}

/// Whether a thread in the kernel is there only to give way, to ask the time or to look whether something has
/// come: it may wait all the same.
pub(crate) fn only_looks(call: &Call) -> bool {
    const LOOK: [&str; 10] = [
        "sched_yield",
        "poll",
        "ppoll",
        "select",
        "pselect6",
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "clock_gettime",
        "gettimeofday",
    ];
    let name = convoy_sched::reason::call_name(call.nr, ARCH);
    name.is_some_and(|name| LOOK.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_move_bytes_are_known_by_what_the_recorder_reads_of_them() {
        let moves = |name: &str| {
            let mut all =
                (0..512).filter(|nr| convoy_sched::reason::call_name(*nr, ARCH) == Some(name));
            let nr = all.next().expect("known");
            let call = Call {
                nr,
                arg0: 5,
                arg1: 44,
            };
            moved(&call).map(|moved| (moved.length, moved.reads))
        };
        for name in ["read", "recvfrom"] {
            assert_eq!(moves(name), Some((44, true)), "{name}");
        }
        for name in ["write", "pwrite64", "sendto"] {
            assert_eq!(moves(name), Some((44, false)), "{name}");
        }
        for name in ["sendmsg", "pread64", "fsync"] {
            assert_eq!(moves(name), None, "{name}: no length");
        }
    }

    #[test]
    fn who_is_taken_off_in_another_call_does_not_give_way() {
        let call = |nr| Call {
            nr,
            arg0: 0,
            arg1: 0,
        };
        let (x86, others) = (call(24), call(124));
        assert!(gives_way(if ARCH == Arch::X86_64 { &x86 } else { &others }));
        assert!(!gives_way(&call(1)) && !gives_way(&call(-1)));
    }

    #[test]
    fn the_descriptor_of_a_poll_is_known_if_the_program_has_read_it() {
        let poll = if ARCH == Arch::X86_64 { 7 } else { 73 };
        let call = |nr, arg1| Call { nr, arg0: 5, arg1 };
        assert_eq!(descriptor(&call(poll, CV_BPF_POLLS_ONE)), Some(5));
        assert_eq!(descriptor(&call(poll, 1)), None, "the address of it");
        assert_eq!(descriptor(&call(-1, CV_BPF_POLLS_ONE)), None);
    }
}
