//! Processes that have limits, and threads that cannot be stopped.

use std::fs;
use std::time::Duration;

use convoy_inject::{Measure, Owner, Probes};

use super::target::{all_whole, calls, compile, wait_for_calls, Target};

/// A figure of `/proc/PID/status`, KiB.
fn kib(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let word = line.unwrap().split_whitespace().next().unwrap();
    word.parse().unwrap()
}

fn traced_threads(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.unwrap().path().join("status")).unwrap()
    };
    let is_traced = |text: &String| !text.contains("TracerPid:\t0\n");
    tasks.map(status).filter(is_traced).count()
}

#[test]
fn thread_that_cannot_be_stopped_keeps_no_other_stopped() {
    let mut target = Target::start(&compile("probed.c", &[]), "sleeps");
    let before = target.code();
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    let all = [target.probe(0, "leaf", Measure::Time)];
    all_whole(&probes.insert(&all).unwrap());
    target.go_on();
    assert_eq!(target.line(), "asleep");
    let refusal = probes.remove(&[0]).unwrap_err();
    assert!(refusal.found.contains("cannot be stopped"), "{refusal}");
    assert_eq!(traced_threads(target.pid()), 0);
    // It works, and its row is still known.
    let so_far = calls(&probes.read().unwrap().cells, 0);
    let mut looks = 0;
    while calls(&probes.read().unwrap().cells, 0) == so_far {
        looks += 1;
        assert!(looks < 1000, "its threads stand still");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_ne!(target.code(), before);
    target.go_on();
    assert_eq!(target.line(), "awake");
    probes.remove(&[0]).unwrap();
    assert!(target.code() == before);
    probes.end().unwrap();
    target.go_on();
    target.finish();
}

#[test]
fn memory_is_mapped_with_the_first_probe_and_freed_at_the_end() {
    let target = Target::start(&compile("probed.c", &[]), "counts");
    let size = || kib(target.pid(), "VmSize:");
    let before = size();
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    assert_eq!(size(), before);
    all_whole(
        &probes
            .insert(&[target.probe(0, "leaf", Measure::Time)])
            .unwrap(),
    );
    assert!(size() > before + 1024);
    probes.end().unwrap();
    // The page of the CPU clock is never unmapped.
    assert!(size() <= before + 4, "{} of {before} KiB", size());
}

fn limit_addresses(pid: u32, more: u64) {
    let bytes = (kib(pid, "VmSize:") << 10) + more;
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a live local; nothing is returned.
    let r = unsafe { libc::prlimit(pid as i32, libc::RLIMIT_AS, &limit, std::ptr::null_mut()) };
    assert_eq!(r, 0);
}

#[test]
fn table_leaves_most_of_a_limited_address_space() {
    const MIB: u64 = 1 << 20;
    let target = Target::start(&compile("probed.c", &[]), "counts");
    let all = [target.probe(0, "leaf", Measure::Calls)];
    let before = kib(target.pid(), "VmSize:") << 10;
    limit_addresses(target.pid(), 400 * MIB);
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    all_whole(&probes.insert(&all).unwrap());
    let taken = (kib(target.pid(), "VmSize:") << 10) - before;
    assert!(taken < 100 * MIB, "{taken}");
    probes.end().unwrap();
    limit_addresses(target.pid(), 8 * MIB);
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    let refusal = probes.insert(&all).unwrap_err();
    assert!(refusal.found.contains("RLIMIT_AS"), "{refusal}");
}

#[test]
fn table_is_not_filled_in_a_process_that_locks_its_memory() {
    let program = compile("probed.c", &[]);
    let Some(target) = Target::start_if_ready(&program, "locks") else {
        eprintln!("skipped: memory cannot be locked here");
        return;
    };
    let before = kib(target.pid(), "VmRSS:");
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    all_whole(
        &probes
            .insert(&[target.probe(0, "leaf", Measure::Calls)])
            .unwrap(),
    );
    let filled = kib(target.pid(), "VmRSS:") - before;
    assert!(filled < 16 << 10, "{filled} KiB");
    probes.end().unwrap();
}

#[test]
fn filter_for_system_calls_that_comes_later_ends_nothing() {
    let mut target = Target::start(&compile("probed.c", &[]), "filters");
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    let all = [target.probe(0, "outer", Measure::Time)];
    all_whole(&probes.insert(&all).unwrap());
    target.go_on();
    assert_eq!(target.line(), "calls 16");
    let cells = probes.read().unwrap().cells;
    assert_eq!(calls(&cells, 0), 4);
    assert!(cells.iter().all(|cell| cell.cpu_ns.is_none()), "{cells:?}");
    let more = [target.probe(1, "leaf", Measure::Calls)];
    let refusal = probes.insert(&more).unwrap_err();
    assert!(refusal.found.contains("seccomp"), "{refusal}");
    probes.remove(&[0]).unwrap();
    probes.end().unwrap();
    target.finish();
}

#[test]
fn leftovers_are_taken_out_without_new_probes() {
    let mut target = Target::start(&compile("probed.c", &[]), "threads");
    let before = target.code();
    let owner = Owner {
        start_ticks: 1,
        ..Owner::this()
    };
    let mut probes = Probes::begin(target.pid(), owner).unwrap();
    all_whole(
        &probes
            .insert(&[target.probe(0, "leaf", Measure::Calls)])
            .unwrap(),
    );
    wait_for_calls(&mut probes);
    // It is never told to end, as after SIGKILL.
    std::mem::forget(probes);
    let size = kib(target.pid(), "VmSize:");
    Probes::clean_up(target.pid()).unwrap();
    assert!(target.code() == before);
    assert!(kib(target.pid(), "VmSize:") + 1024 < size);
    target.go_on();
    target.line();
    target.finish();
}
