//! What functions do that waiting loops call.

/// What a function that a loop calls does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callee {
    /// Loads an atomic: what compilers make of it without optimisation.
    Load,
    /// Computes its result from its arguments: the small change of unoptimised C++. Or takes or gives back the lock of what
    /// the loop looks at.
    Nothing,
    /// A pause instruction in a function of its own.
    Pause,
    /// Gives way or sleeps.
    Yield,
    /// Asks the time.
    Time,
    /// Tries to take a lock.
    TryLock,
}

/// Exact names, without version.
const NAMES: [(&str, Callee); 41] = [
    ("sched_yield", Callee::Yield),
    ("__sched_yield", Callee::Yield),
    ("pthread_yield", Callee::Yield),
    ("thrd_yield", Callee::Yield),
    ("thrd_sleep", Callee::Yield),
    ("nanosleep", Callee::Yield),
    ("__nanosleep", Callee::Yield),
    ("clock_nanosleep", Callee::Yield),
    ("usleep", Callee::Yield),
    ("g_thread_yield", Callee::Yield),
    ("clock_gettime", Callee::Time),
    ("__clock_gettime", Callee::Time),
    ("gettimeofday", Callee::Time),
    ("time", Callee::Time),
    ("_rdtsc", Callee::Time),
    ("__rdtsc", Callee::Time),
    ("rte_rdtsc", Callee::Time),
    ("MPI_Wtime", Callee::Time),
    ("pthread_mutex_lock", Callee::Nothing),
    ("pthread_mutex_unlock", Callee::Nothing),
    ("__pthread_mutex_lock", Callee::Nothing),
    ("__pthread_mutex_unlock", Callee::Nothing),
    ("pthread_mutex_trylock", Callee::TryLock),
    ("__pthread_mutex_trylock", Callee::TryLock),
    ("pthread_spin_trylock", Callee::TryLock),
    ("pthread_rwlock_tryrdlock", Callee::TryLock),
    ("pthread_rwlock_trywrlock", Callee::TryLock),
    ("sem_trywait", Callee::TryLock),
    ("mtx_trylock", Callee::TryLock),
    ("omp_test_lock", Callee::TryLock),
    ("_mm_pause", Callee::Pause),
    ("__builtin_ia32_pause", Callee::Pause),
    ("cpu_relax", Callee::Pause),
    ("rte_pause", Callee::Pause),
    ("spin_loop_hint", Callee::Pause),
    ("pg_spin_delay", Callee::Pause),
    ("SpinPause", Callee::Pause),
    ("getIOPendingCount", Callee::Load), // redis
    ("__atomic_load_4", Callee::Load),   // libatomic
    ("__atomic_load_8", Callee::Load),
    ("atomic_load", Callee::Load),
];

/// Two pieces that a name of C++ or Rust must have, mangled or demangled.
const PIECES: [(&str, &str, Callee); 28] = [
    ("_ZStanSt12memory_order", "", Callee::Nothing),
    ("_ZStorSt12memory_order", "", Callee::Nothing),
    ("23__cmpexch_failure_order", "", Callee::Nothing),
    ("32__is_valid_cmpexch_failure_order", "", Callee::Nothing),
    ("23__is_constant_evaluated", "", Callee::Nothing),
    ("21__glibcxx_assert_fail", "", Callee::Nothing),
    ("NSt11this_thread5yield", "", Callee::Yield),
    ("NSt11this_thread9sleep_for", "", Callee::Yield),
    ("std::this_thread::yield", "", Callee::Yield),
    ("std::this_thread::sleep_for", "", Callee::Yield),
    ("3std6thread", "9yield_now", Callee::Yield),
    ("thread::yield_now", "", Callee::Yield),
    ("6chrono3_V212", "clock3now", Callee::Time),
    ("std::chrono::", "clock::now", Callee::Time),
    ("4core4hint9spin_loop", "", Callee::Pause),
    ("core::hint::spin_loop", "", Callee::Pause),
    ("4core4hint", "9spin_loop", Callee::Pause),
    ("NKSt6atomic", "4load", Callee::Load),
    ("NKSt6atomic", "cv", Callee::Load),
    ("NKSt13__atomic_base", "4load", Callee::Load),
    ("NKSt13__atomic_base", "cv", Callee::Load),
    ("NKSt11atomic_flag4test", "", Callee::Load),
    ("NVKSt", "4load", Callee::Load),
    ("std::atomic<", "::load", Callee::Load),
    ("std::__atomic_base<", "::load", Callee::Load),
    ("4core4sync6atomic", "4load", Callee::Load),
    ("core::sync::atomic::", "::load", Callee::Load),
    ("NSt5mutex8try_lock", "", Callee::TryLock),
];

/// What a function does, by its name.
pub(crate) fn callee(name: &str) -> Option<Callee> {
    let bare = name.split('@').next().unwrap_or(name);
    let exact = NAMES.iter().find(|(n, _)| *n == bare).map(|(_, c)| *c);
    exact.or_else(|| {
        let has = |piece: &str| name.contains(piece);
        let found = PIECES.iter().find(|(a, b, _)| has(a) && has(b));
        found.map(|(_, _, c)| *c)
    })
}

/// Whether a function does nothing for its caller but help it to wait: gives way, asks the time, pauses, tries
/// a lock. Whoever is found in it waits if its caller does.
pub fn only_helps(function: &str) -> bool {
    let vdso = function.strip_prefix("__vdso_").unwrap_or(function);
    callee(vdso).is_some_and(|c| c != Callee::Nothing)
}
