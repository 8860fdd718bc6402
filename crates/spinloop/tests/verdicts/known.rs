//! Functions known by name.

use convoy_profile::SpinKind;
use convoy_spinloop::{known, only_helps, works};

#[test]
fn pollers_are_known_by_name() {
    for (name, kind) in [
        ("gomp_team_barrier_wait_end", SpinKind::Pause),
        (
            "_ZN13kmp_flag_64ILb0ELb1EE4waitEP8kmp_infoiPv",
            SpinKind::Pause,
        ),
        ("opal_progress", SpinKind::KnownFunction),
        ("mca_btl_vader_component_progress", SpinKind::KnownFunction),
        ("MPIDI_CH3I_Progress", SpinKind::KnownFunction),
        ("ucp_worker_progress", SpinKind::KnownFunction),
        ("uct_mm_iface_progress", SpinKind::KnownFunction),
        ("PMPI_Allreduce", SpinKind::KnownFunction),
        ("MPI_Waitall", SpinKind::KnownFunction),
        ("pthread_spin_lock@@GLIBC_2.34", SpinKind::Lock),
        ("_ZN13ObjectMonitor7TrySpinEP10JavaThread", SpinKind::Pause),
        (
            "ObjectMonitor::TrySpin_VaryDuration(Thread*)",
            SpinKind::Pause,
        ),
        ("runtime.procyield.abi0", SpinKind::Pause),
        (
            "_ZN16parking_lot_core8spinwait8SpinWait4spin17h0123456789abcdefE",
            SpinKind::Yield,
        ),
        (
            "_ZN15crossbeam_utils7backoff7Backoff6snooze17h0123456789abcdefE",
            SpinKind::Yield,
        ),
        ("std::sys::sync::mutex::futex::Mutex::spin", SpinKind::Pause),
        ("_ZN14srw_mutex_implILb1EE13wait_and_lockEv", SpinKind::Lock),
        ("s_lock", SpinKind::Lock),
    ] {
        assert_eq!(known(name).map(|k| k.kind), Some(kind), "{name}");
    }
}

#[test]
fn functions_that_work_are_not_known() {
    for name in [
        "",
        "main",
        "memcpy",
        "read",
        "s_lock_test",
        "do_spinning_cube",
        "put_delayed",
        "MPI_Send",
        "MPI_Comm_rank",
        "MPIR_Allreduce",
        "pthread_mutex_lock",
        "uct_mm_ep_am_short",
        "ompi_request_free",
        "runtime.mallocgc",
        "opal_datatype_pack",
        "mca_btl_vader_send",
        "ObjectMonitor::exit",
    ] {
        assert_eq!(known(name), None, "{name}");
    }
}

#[test]
fn parts_of_a_name_count_in_their_order() {
    assert!(known("tbb::detail::spin_wait_until_eq").is_some());
    assert_eq!(known("spin_wait::of_tbb"), None);
    assert!(known("uct_mm_iface_progress").is_some());
    assert_eq!(known("uct_mm_progress_enable"), None);
}

/// OpenBLAS's threads compute in what the functions call in which they poll, and MPI calls operations of the program.
#[test]
fn some_wait_only_while_they_call_nothing() {
    for name in [
        "blas_thread_server",
        "exec_blas",
        "exec_blas_async_wait",
        "PMPI_Reduce",
    ] {
        assert!(known(name).is_some_and(|of| of.alone), "{name}");
    }
    assert_eq!(known("exec_blas_async"), None);
    assert!(known("opal_progress").is_some_and(|of| !of.alone));
}

#[test]
fn what_has_come_is_work() {
    for name in [
        "memcpy",
        "__memmove_avx_unaligned_erms",
        "opal_convertor_pack",
        "gomp_barrier_handle_tasks",
        "PMPI_Reduce_local",
    ] {
        assert!(works(name), "{name}");
    }
    assert!(!works("opal_progress") && !works("main"));
}

#[test]
fn helpers_of_waiting_loops_are_known() {
    for name in [
        "sched_yield",
        "__vdso_clock_gettime",
        "pthread_mutex_trylock",
    ] {
        assert!(only_helps(name), "{name}");
    }
    assert!(!only_helps("pthread_mutex_lock") && !only_helps("main"));
}
