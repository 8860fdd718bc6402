//! Why a thread left its processor: what the accounting needs to know of a raw event.

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
    match convoy_sched::reason::takes_fd(call.nr, ARCH)? {
        0 => Some(call.arg0 as i32),
        _ => Some(call.arg1 as i32),
    }
}

/// The length that a sample in a call brings, if it writes; see `cv_bpf_stack` in convoy_bpf.h.
pub(crate) fn written(call: &Call) -> Option<u32> {
    let writes = match ARCH {
        Arch::X86_64 => matches!(call.nr, 1 | 18),
        Arch::Aarch64 => matches!(call.nr, 64 | 68),
    };
    writes.then_some(call.arg1)
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
