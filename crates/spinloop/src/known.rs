//! Functions of runtimes that poll.

use convoy_profile::SpinKind;

/// A function that is known to poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownPoller {
    /// How.
    pub kind: SpinKind,
    /// What it is, for people.
    pub why: &'static str,
    /// Only while it calls nothing: what it calls is work.
    pub alone: bool,
}

/// How a pattern is held against a name.
#[derive(Debug, Clone, Copy)]
enum Is {
    /// The whole name.
    Name(&'static str),
    /// Its beginning.
    Start(&'static str),
    /// Its beginning and its end.
    Ends(&'static str, &'static str),
    /// Two pieces of it, in this order: C++ and Rust, mangled or demangled.
    Has(&'static str, &'static str),
    /// The beginning of a function of MPI's, by either of its names.
    Mpi(&'static str),
}
use Is::{Ends, Has, Mpi, Name, Start};

const OMP: &str = "OpenMP threads spin for a while before they sleep (OMP_WAIT_POLICY)";
const OMPI: &str = "Open MPI polls its transports until a message has come (mpi_yield_when_idle)";
const MPICH: &str = "MPICH polls its transports until a message has come";
const MPI: &str = "MPI polls until the other ranks have come";
const UCX: &str = "UCX polls the network";
const PSM: &str = "the fabric's library polls the network";
const SPIN: &str = "waits for a spin lock";
const JVM: &str = "the JVM spins before it blocks on a lock";
const GO: &str = "Go's runtime spins before it parks a goroutine";
const GOSCHED: &str = "a goroutine gives way again and again (runtime.Gosched)";
const RUST: &str = "spins before it blocks on a lock";
const INNODB: &str = "InnoDB spins before it blocks (innodb_sync_spin_loops)";
const POSTGRES: &str = "PostgreSQL waits for a spin lock";
const REDIS: &str = "Redis polls for work of its I/O threads";
const TBB: &str = "oneTBB spins before a thread goes to sleep";
const DPDK: &str = "DPDK polls";
const BLAS: &str =
    "OpenBLAS's threads spin for work and for one another: fewer of them, OPENBLAS_NUM_THREADS";

/// Pattern, kind, why; by source project.
#[rustfmt::skip]
const KNOWN: [(Is, SpinKind, &str); 82] = [
    // GCC libgomp: config/linux/wait.h, bar.c, mutex.c
    (Name("do_spin"), SpinKind::Pause, OMP),
    (Start("gomp_team_barrier_wait"), SpinKind::Pause, OMP),
    (Start("gomp_barrier_wait"), SpinKind::Pause, OMP),
    (Start("gomp_team_end_wait"), SpinKind::Pause, OMP),
    // LLVM libomp: kmp_wait_release.h, kmp_lock.cpp, kmp_barrier.cpp
    (Start("__kmp_wait_"), SpinKind::Pause, OMP),
    (Start("_Z11__kmp_wait_"), SpinKind::Pause, OMP),
    (Has("kmp_flag", "wait"), SpinKind::Pause, OMP),
    (Has("__kmp_wait_template", ""), SpinKind::Pause, OMP),
    (Has("__kmp_acquire_tas_lock", ""), SpinKind::Lock, OMP),
    (Has("__kmp_acquire_ticket_lock", ""), SpinKind::Lock, OMP),
    (Has("__kmp_acquire_queuing_lock", ""), SpinKind::Lock, OMP),
    // Open MPI: opal/runtime/opal_progress.c, ompi/request/req_wait.c, opal/mca/btl
    (Start("opal_progress"), SpinKind::KnownFunction, OMPI),
    (Ends("opal_libevent", "event_base_loop"), SpinKind::KnownFunction, OMPI),
    (Start("ompi_request_default_wait"), SpinKind::KnownFunction, OMPI),
    (Start("ompi_request_wait_completion"), SpinKind::KnownFunction, OMPI),
    (Ends("mca_btl_", "progress"), SpinKind::KnownFunction, OMPI),
    (Ends("mca_pml_", "progress"), SpinKind::KnownFunction, OMPI),
    (Ends("mca_mtl_", "progress"), SpinKind::KnownFunction, OMPI),
    (Ends("ompi_mtl_", "progress"), SpinKind::KnownFunction, OMPI),
    (Start("ompi_sync_wait_mt"), SpinKind::KnownFunction, OMPI),
    // MPICH: ch3 and ch4 progress engines, mpir_wait
    (Start("MPIDI_CH3I_Progress"), SpinKind::KnownFunction, MPICH),
    (Start("MPIDI_CH3i_Progress"), SpinKind::KnownFunction, MPICH),
    (Start("MPIDI_Progress"), SpinKind::KnownFunction, MPICH),
    (Start("MPIDI_progress_test"), SpinKind::KnownFunction, MPICH),
    (Start("MPIDI_POSIX_progress"), SpinKind::KnownFunction, MPICH),
    (Start("MPIDI_OFI_progress"), SpinKind::KnownFunction, MPICH),
    (Start("MPID_Progress_wait"), SpinKind::KnownFunction, MPICH),
    (Start("MPID_Progress_test"), SpinKind::KnownFunction, MPICH),
    (Start("MPID_nem_mpich_blocking_recv"), SpinKind::KnownFunction, MPICH),
    (Start("MPIR_Wait"), SpinKind::KnownFunction, MPICH),
    // UCX: src/ucp/core, src/uct
    (Name("ucp_worker_progress"), SpinKind::KnownFunction, UCX),
    (Start("uct_worker_progress"), SpinKind::KnownFunction, UCX),
    (Ends("uct_", "_progress"), SpinKind::KnownFunction, UCX),
    (Start("ucs_callbackq_"), SpinKind::KnownFunction, UCX),
    // PSM2, libfabric
    (Start("psm2_mq_wait"), SpinKind::KnownFunction, PSM),
    (Start("psm2_mq_ipeek"), SpinKind::KnownFunction, PSM),
    (Start("psmi_poll"), SpinKind::KnownFunction, PSM),
    (Start("ofi_cq_progress"), SpinKind::KnownFunction, PSM),
    // glibc
    (Name("pthread_spin_lock"), SpinKind::Lock, SPIN),
    (Name("__pthread_spin_lock"), SpinKind::Lock, SPIN),
    // OpenJDK HotSpot: objectMonitor.cpp, spinYield.cpp, synchronizer.cpp
    (Name("SpinPause"), SpinKind::Pause, JVM),
    (Has("Thread", "SpinAcquire"), SpinKind::Lock, JVM),
    (Has("ObjectMonitor", "TrySpin"), SpinKind::Pause, JVM),
    (Has("ObjectMonitor", "try_spin"), SpinKind::Pause, JVM),
    (Has("ObjectMonitor", "short_fixed_spin"), SpinKind::Pause, JVM),
    (Has("SpinYield", "yield_or_sleep"), SpinKind::Yield, JVM),
    // Go: runtime/asm_amd64.s, lock_futex.go
    (Name("runtime.procyield"), SpinKind::Pause, GO),
    (Name("runtime.procyield.abi0"), SpinKind::Pause, GO),
    (Name("runtime.procyieldAsm"), SpinKind::Pause, GO),
    (Start("runtime.osyield"), SpinKind::Yield, GO),
    (Name("runtime.gosched_m"), SpinKind::Yield, GOSCHED),
    // Rust: parking_lot_core, crossbeam-utils, std::sys::sync
    (Has("SpinWait", "spin"), SpinKind::Yield, RUST),
    (Has("crossbeam_utils", "Backoff", ), SpinKind::Yield, RUST),
    (Has("3sys4sync5mutex5futex5Mutex", "spin"), SpinKind::Pause, RUST),
    (Has("std::sys::sync::mutex::futex::Mutex::spin", ""), SpinKind::Pause, RUST),
    (Has("3sys4sync6rwlock5futex6RwLock", "spin_"), SpinKind::Pause, RUST),
    (Has("std::sys::sync::rwlock::futex::RwLock::spin_", ""), SpinKind::Pause, RUST),
    // Abseil, folly
    (Start("AbslInternalSpinLockDelay"), SpinKind::Yield, SPIN),
    (Has("SpinLock", "SpinLoop"), SpinKind::Lock, SPIN),
    (Has("folly", "MicroSpinLock"), SpinKind::Lock, SPIN),
    (Has("folly", "Sleeper4wait"), SpinKind::Pause, SPIN),
    (Has("folly::", "Sleeper::wait"), SpinKind::Pause, SPIN),
    // oneTBB: _machine.h, _utils.h
    (Has("tbb", "atomic_backoff"), SpinKind::Pause, TBB),
    (Has("tbb", "prolonged_pause"), SpinKind::Pause, TBB),
    (Has("tbb", "spin_wait"), SpinKind::Pause, TBB),
    (Has("tbb", "stealing_loop_backoff"), SpinKind::Pause, TBB),
    // jemalloc: spin.h
    (Name("spin_adaptive"), SpinKind::Pause, SPIN),
    (Name("je_spin_adaptive"), SpinKind::Pause, SPIN),
    // MariaDB and MySQL, InnoDB: ut0ut.cc, sync0rw.cc, srw_lock.cc
    (Name("ut_delay"), SpinKind::Pause, INNODB),
    (Start("_Z8ut_delay"), SpinKind::Pause, INNODB),
    (Has("rw_lock_", "_spin"), SpinKind::Lock, INNODB),
    (Has("srw_mutex_impl", "wait_and_lock"), SpinKind::Lock, INNODB),
    (Has("ssux_lock_impl", "_wait"), SpinKind::Lock, INNODB),
    (Has("TTASEventMutex", "spin"), SpinKind::Lock, INNODB),
    // PostgreSQL: s_lock.c
    (Name("s_lock"), SpinKind::Lock, POSTGRES),
    (Name("perform_spin_delay"), SpinKind::Pause, POSTGRES),
    // Redis: networking.c
    (Name("getIOPendingCount"), SpinKind::Polling, REDIS),
    // DPDK: rte_spinlock.h, rte_ring
    (Name("rte_spinlock_lock"), SpinKind::Lock, DPDK),
    (Start("rte_wait_until_equal_"), SpinKind::Pause, DPDK),
    (Name("rte_delay_us_block"), SpinKind::Pause, DPDK),
    (Name("rte_eal_mp_wait_lcore"), SpinKind::Polling, DPDK),
    // MPI progress of Intel MPI and MVAPICH keeps MPICH's names; Cray's is MPIDI_Cray_
    (Start("MPIDI_Cray_progress"), SpinKind::KnownFunction, MPICH),
];

/// The same of functions that also call those that work. OpenBLAS: driver/others/blas_server.c. MPI: what waits for other ranks, whose
/// insides have no names in stripped libraries; but it also calls operations of the program's own.
#[rustfmt::skip]
const KNOWN_ALONE: [(Is, SpinKind, &str); 24] = [
    (Name("blas_thread_server"), SpinKind::KnownFunction, BLAS),
    (Name("exec_blas"), SpinKind::KnownFunction, BLAS),
    (Name("exec_blas_async_wait"), SpinKind::KnownFunction, BLAS),
    (Mpi("Allgather"), SpinKind::KnownFunction, MPI),
    (Mpi("Allreduce"), SpinKind::KnownFunction, MPI),
    (Mpi("Alltoall"), SpinKind::KnownFunction, MPI),
    (Mpi("Barrier"), SpinKind::KnownFunction, MPI),
    (Mpi("Bcast"), SpinKind::KnownFunction, MPI),
    (Mpi("Exscan"), SpinKind::KnownFunction, MPI),
    (Mpi("Finalize"), SpinKind::KnownFunction, MPI),
    (Mpi("Gather"), SpinKind::KnownFunction, MPI),
    (Mpi("Iprobe"), SpinKind::KnownFunction, MPI),
    (Mpi("Mprobe"), SpinKind::KnownFunction, MPI),
    (Mpi("Mrecv"), SpinKind::KnownFunction, MPI),
    (Mpi("Neighbor_"), SpinKind::KnownFunction, MPI),
    (Mpi("Probe"), SpinKind::KnownFunction, MPI),
    (Mpi("Recv"), SpinKind::KnownFunction, MPI),
    (Mpi("Reduce"), SpinKind::KnownFunction, MPI),
    (Mpi("Scan"), SpinKind::KnownFunction, MPI),
    (Mpi("Scatter"), SpinKind::KnownFunction, MPI),
    (Mpi("Sendrecv"), SpinKind::KnownFunction, MPI),
    (Mpi("Ssend"), SpinKind::KnownFunction, MPI),
    (Mpi("Test"), SpinKind::KnownFunction, MPI),
    (Mpi("Wait"), SpinKind::KnownFunction, MPI),
];

/// Functions of runtimes that poll, by name (mangled or not): evidence for loops that span calls. A function
/// that spins only briefly before it blocks waits while it is there.
pub fn known(function: &str) -> Option<KnownPoller> {
    let name = function.split('@').next().unwrap_or(function);
    let is = |pattern: &Is| match *pattern {
        Name(n) => name == n,
        Start(s) => name.starts_with(s),
        Mpi(s) => {
            let own = name.strip_prefix('P').unwrap_or(name).strip_prefix("MPI_");
            own.is_some_and(|own| own.starts_with(s))
        }
        Ends(s, e) => name.starts_with(s) && name.ends_with(e),
        Has(a, b) => name
            .find(a)
            .and_then(|at| name.get(at + a.len()..))
            .is_some_and(|rest| rest.contains(b)),
    };
    let find = |known: &'static [(Is, SpinKind, &str)], alone| {
        let (_, kind, why) = known.iter().find(|(pattern, _, _)| is(pattern))?;
        let kind = *kind;
        Some(KnownPoller { kind, why, alone })
    };
    find(&KNOWN, false).or_else(|| find(&KNOWN_ALONE, true))
}

/// Beginnings of the names of functions that polling functions call once there is something to do.
const WORK: [&str; 24] = [
    "MPI_Reduce_local",
    "PMPI_Reduce_local",
    // Tasks of OpenMP, in its barriers.
    "gomp_barrier_handle_tasks",
    "__kmp_invoke_",
    "memcpy",
    "__memcpy",
    "memmove",
    "__memmove",
    "memset",
    "__memset",
    "MPIR_Localcopy",
    "MPIR_Typerep_",
    "MPL_memcpy",
    "yaksa",
    "MPIR_Reduce_local",
    "MPIR_SUM",
    "opal_convertor_",
    "opal_datatype_copy",
    "opal_generic_simple_pack",
    "opal_generic_simple_unpack",
    "ompi_op_",
    "ucp_dt_",
    "ucs_memcpy",
    "process_vm_",
];

/// Whether a polling function that is found in this function has stopped polling: it copies what has come, or
/// computes with it.
pub fn works(function: &str) -> bool {
    WORK.iter().any(|start| function.starts_with(start))
}
