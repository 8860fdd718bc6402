//! System calls in critical sections, by what they leave behind.
//!
//! What the kernel reads and writes for a call is in no read or write set: two sections that write
//! to one file look as if they only read. Calls that leave nothing behind which another section
//! could see are listed here; any other makes a section's sets incomplete.

/// x86-64's numbers; on other machines sections are not looked into.
const NO_EFFECT: &[u32] = &[
    4,   // stat
    5,   // fstat
    6,   // lstat
    7,   // poll
    9,   // mmap: memory, which the kernel hands out by itself
    10,  // mprotect
    11,  // munmap
    12,  // brk
    14,  // rt_sigprocmask
    21,  // access
    23,  // select
    24,  // sched_yield
    25,  // mremap
    35,  // nanosleep
    39,  // getpid
    63,  // uname
    79,  // getcwd
    89,  // readlink
    96,  // gettimeofday
    97,  // getrlimit
    98,  // getrusage
    99,  // sysinfo
    100, // times
    102, // getuid
    104, // getgid
    107, // geteuid
    108, // getegid
    110, // getppid
    186, // gettid
    201, // time
    202, // futex: the agent tells what waits
    204, // sched_getaffinity
    228, // clock_gettime
    229, // clock_getres
    230, // clock_nanosleep
    262, // newfstatat
    267, // readlinkat
    270, // pselect6
    271, // ppoll
    309, // getcpu
    324, // membarrier
    332, // statx
    334, // rseq
];

/// Whether another section may see what the call has done.
pub(super) fn has_effect(nr: u32) -> bool {
    NO_EFFECT.binary_search(&nr).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_to_files_and_sockets_are_effects_and_clocks_are_none() {
        assert!(NO_EFFECT.is_sorted());
        let (write, sendto, lseek, read) = (1, 44, 8, 0);
        assert!([write, sendto, lseek, read].into_iter().all(has_effect));
        assert!(!has_effect(228) && !has_effect(202));
        assert!(has_effect(u32::MAX), "of a call that is not known");
    }
}
