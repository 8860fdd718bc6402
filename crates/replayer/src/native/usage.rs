//! Resource usage of the calling thread.

/// Context switches of the calling thread since it began: voluntary, involuntary.
pub(crate) fn switches() -> (i64, i64) {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a whole `rusage` of ours.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
        return (0, 0);
    }
    (usage.ru_nvcsw, usage.ru_nivcsw)
}
