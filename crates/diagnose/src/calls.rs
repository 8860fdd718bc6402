//! What is called inside sections, and what of it may block.

use convoy_model::{is_blocking_acquire, Called, Model, Sections};
use convoy_profile::Op;

use crate::groups::Group;
use crate::lines::line_of;
use crate::rows::CallRow;

/// System calls that wait for a device, a peer or the time. x86-64's numbers; others have none here and are shown
/// without judgement.
const BLOCKING: &[u32] = &[
    0, 1, 7, 17, 18, 19, 20, 23, 34, 35, 40, 42, 43, 44, 45, 46, 47, 61, 69, 70, 73, 74, 75, 82,
    128, 162, 202, 230, 232, 240, 242, 243, 247, 257, 270, 271, 281, 285, 288, 295, 296, 299, 306,
    307, 326, 327, 328, 426, 437, 441, 449,
];

/// Whether threads may be off the processors in it.
pub(crate) fn may_block(what: Called) -> bool {
    match what {
        Called::Syscall(nr) => BLOCKING.binary_search(&nr).is_ok(),
        Called::Op(op, _) => matches!(
            op,
            Op::BarrierWait
                | Op::SemWait
                | Op::SemTimedwait
                | Op::Join
                | Op::FutexWait
                | Op::OmpBarrier
                | Op::CondWait
                | Op::CondTimedwait
                | Op::OmpRegion
        ),
        Called::Agent | Called::Release => false,
    }
}

/// A lock that is waited for inside is a matter of that lock.
fn is_lock(what: Called) -> bool {
    matches!(what, Called::Op(op, _) if is_blocking_acquire(op))
}

/// By kind and line, most frequent first.
pub(crate) fn calls(model: &Model, sections: &Sections, group: &Group) -> Vec<CallRow> {
    let traced: u64 = group.rows(sections).map(|site| site.traced()).sum();
    let traced = traced.max(1) as f64;
    let mut rows: Vec<CallRow> = Vec::new();
    for call in sections
        .calls
        .iter()
        .filter(|call| group.sites.contains(&call.site))
    {
        if call.what == Called::Release {
            continue;
        }
        let frame = line_of(model, sections, group, call.place).cloned();
        let row = CallRow {
            what: call.what,
            per_section: call.n as f64 / traced,
            sections: call.sections as f64 / traced,
            waits: call.waits,
            wait_ns: call.wait_ns,
            blocking: may_block(call.what) || (call.waits * 2 > call.n && !is_lock(call.what)),
            frame,
        };
        let same = |other: &&mut CallRow| (other.what, &other.frame) == (row.what, &row.frame);
        match rows.iter_mut().find(same) {
            Some(other) => {
                other.per_section += row.per_section;
                other.sections = (other.sections + row.sections).min(1.0);
                other.waits += row.waits;
                other.wait_ns += row.wait_ns;
                other.blocking |= row.blocking;
            }
            None => rows.push(row),
        }
    }
    rows.sort_by(|a, b| {
        b.per_section
            .total_cmp(&a.per_section)
            .then(a.what.cmp(&b.what))
    });
    rows
}

/// What is called, for people: "fsync()", "pthread_mutex_lock of cache_lock".
pub fn called_name(model: &Model, what: Called) -> String {
    match what {
        Called::Syscall(nr) => match syscall_name(nr) {
            Some(name) => format!("{name}()"),
            None => format!("system call {nr}"),
        },
        Called::Op(op, object) => {
            let object = object.and_then(|id| model.objects.get(id.0 as usize));
            let object = object.map_or(String::new(), |object| format!(" on {}", object.name));
            format!("{}{object}", op_name(op))
        }
        Called::Agent => "a thread function".into(),
        Called::Release => "the release".into(),
    }
}

fn op_name(op: Op) -> &'static str {
    match op {
        Op::CondWait | Op::CondTimedwait => "a condition variable's wait",
        Op::CondSignal => "signal",
        Op::CondBroadcast => "broadcast",
        Op::BarrierWait | Op::OmpBarrier => "a barrier",
        Op::SemWait | Op::SemTimedwait => "a semaphore's wait",
        Op::SemPost => "post",
        Op::Join => "join",
        Op::Once => "once",
        Op::FutexWait => "a futex wait",
        Op::FutexWake => "a futex wake",
        Op::OmpRegion => "a parallel region",
        Op::MutexTrylock
        | Op::RwlockTryrd
        | Op::RwlockTrywr
        | Op::SpinTrylock
        | Op::SemTrywait
        | Op::OmpTrylock => "try lock",
        Op::RwlockRd | Op::RwlockTimedrd => "read lock",
        _ => "lock",
    }
}

/// The name of a system call, as far as one is likely inside a section; x86-64.
pub fn syscall_name(nr: u32) -> Option<&'static str> {
    Some(match nr {
        0 => "read",
        1 => "write",
        3 => "close",
        5 => "fstat",
        7 => "poll",
        8 => "lseek",
        9 => "mmap",
        10 => "mprotect",
        11 => "munmap",
        12 => "brk",
        16 => "ioctl",
        17 => "pread64",
        18 => "pwrite64",
        19 => "readv",
        20 => "writev",
        23 => "select",
        24 => "sched_yield",
        25 => "mremap",
        28 => "madvise",
        34 => "pause",
        35 => "nanosleep",
        39 => "getpid",
        42 => "connect",
        43 => "accept",
        44 => "sendto",
        45 => "recvfrom",
        46 => "sendmsg",
        47 => "recvmsg",
        61 => "wait4",
        72 => "fcntl",
        73 => "flock",
        74 => "fsync",
        75 => "fdatasync",
        82 => "rename",
        87 => "unlink",
        96 => "gettimeofday",
        186 => "gettid",
        202 => "futex",
        228 => "clock_gettime",
        230 => "clock_nanosleep",
        232 => "epoll_wait",
        247 => "waitid",
        257 => "openat",
        262 => "newfstatat",
        263 => "unlinkat",
        270 => "pselect6",
        271 => "ppoll",
        281 => "epoll_pwait",
        288 => "accept4",
        295 => "preadv",
        296 => "pwritev",
        318 => "getrandom",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_searched() {
        assert!(BLOCKING.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(may_block(Called::Syscall(74)) && !may_block(Called::Syscall(39)));
        assert_eq!(syscall_name(74), Some("fsync"));
    }
}
