//! The machine that a program runs on.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use convoy_profile::Machine;
use rustix::process::Pid;
use rustix::thread::CpuSet;

/// Everything that a profile says of the machine.
pub fn machine() -> Machine {
    let uname = rustix::system::uname();
    Machine {
        kernel: uname.release().to_string_lossy().into_owned(),
        arch: uname.machine().to_string_lossy().into_owned(),
        cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        cpus_online: cpus_online(),
        cpus_allowed: cpus_allowed(None),
        memory_bytes: memory_bytes(),
        libc: libc_version(),
        mutex_pair_ns: mutex_pair_ns(),
    }
}

/// Version of the C library, e.g. "glibc 2.36".
pub(crate) fn libc_version() -> String {
    // SAFETY: returns a pointer to a constant NUL-terminated string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

fn cpu_model(cpu_info: &str) -> String {
    // x86 has a model name; others name the implementer at best.
    let value = |key: &str| {
        let line = cpu_info.lines().find(|line| line.starts_with(key))?;
        line.split_once(':')
            .map(|(_, value)| value.trim().to_owned())
    };
    value("model name")
        .or_else(|| value("CPU implementer"))
        .unwrap_or_default()
}

/// What is to be known if processors came or went since there were `before`.
pub(crate) fn processors_note(before: u32) -> Option<String> {
    came_or_went(before, cpus_online())
}

fn came_or_went(before: u32, after: u32) -> Option<String> {
    (before != after).then(|| {
        format!(
            "{before} CPUs were online when the recording began, and {after} at its end: what is idle, and what a fix can gain, is told for \
             {before}; CPUs that came later were not sampled"
        )
    })
}

fn cpus_online() -> u32 {
    // "0-3,5"
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u32>()
            .ok()?
            .checked_sub(first.parse().ok()?)?
            .checked_add(1)
    });
    match ranges.sum() {
        0 => cpus_in_affinity(None),
        n => n,
    }
}

fn cpus_in_affinity(of: Option<Pid>) -> u32 {
    rustix::thread::sched_getaffinity(of).map_or(1, |set| set.count().max(1))
}

/// Processors that a process, or a child of ours, may use.
pub(crate) fn cpus_allowed(of: Option<Pid>) -> u32 {
    cpus_in_affinity(of).min(cpus_in_quota(of))
}

/// Processors that some thread of a process may use: threads may be bound to different ones.
pub(crate) fn cpus_of_threads(pid: u32) -> u32 {
    let mut cpus = HashSet::new();
    for tid in crate::procfs::threads(pid) {
        let of = i32::try_from(tid).ok().and_then(Pid::from_raw);
        let mask = of.and_then(|tid| rustix::thread::sched_getaffinity(Some(tid)).ok());
        let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| mask.is_some_and(|mask| mask.is_set(*cpu)));
        cpus.extend(numbers);
    }
    let of = i32::try_from(pid).ok().and_then(Pid::from_raw);
    (cpus.len() as u32).clamp(1, cpus_in_quota(of))
}

fn cpus_in_quota(of: Option<Pid>) -> u32 {
    let cgroup = of.map_or("/proc/self/cgroup".into(), |pid| {
        format!("/proc/{}/cgroup", pid.as_raw_nonzero())
    });
    let own = fs::read_to_string(cgroup).unwrap_or_default();
    let quota = quota_cpus(&own, Path::new("/sys/fs/cgroup"));
    quota.map_or(u32::MAX, |cpus| {
        cpus.ceil().clamp(1.0, f64::from(u32::MAX)) as u32
    })
}

/// The smallest CPU quota of our control groups, in processors; `None` = no limit.
fn quota_cpus(own: &str, root: &Path) -> Option<f64> {
    let mut quotas = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (base, version_2) = if controllers.is_empty() {
            (root.to_owned(), true)
        } else if controllers.split(',').any(|c| c == "cpu") {
            (root.join(controllers), false)
        } else {
            continue;
        };
        // Every group on the way up limits us; in a container the path may not exist: then the root is ours.
        let mut dir = base.join(path.trim_start_matches('/'));
        loop {
            quotas.extend(if version_2 {
                quota_v2(&dir)
            } else {
                quota_v1(&dir)
            });
            if dir == base || !dir.pop() {
                break;
            }
        }
    }
    quotas.into_iter().min_by(f64::total_cmp)
}

fn quota_v2(dir: &Path) -> Option<f64> {
    let text = fs::read_to_string(dir.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn quota_v1(dir: &Path) -> Option<f64> {
    let number = |file: &str| {
        fs::read_to_string(dir.join(file))
            .ok()?
            .trim()
            .parse::<f64>()
            .ok()
    };
    ratio(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// What an uncontended lock and unlock of a mutex in this thread's own cache costs here, nanoseconds.
/// Median of short batches, about 1 ms in all.
fn mutex_pair_ns() -> f64 {
    const BATCH: u32 = 1000;
    // With a single thread the C library takes a path without atomic instructions.
    static DONE: AtomicBool = AtomicBool::new(false);
    DONE.store(false, Ordering::Relaxed);
    let second = std::thread::Builder::new().spawn(|| {
        while !DONE.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(100));
        }
    });
    let Ok(second) = second else {
        return 0.0; // no threads here (ulimit -u): not known
    };
    let mut mutex = Box::new(libc::PTHREAD_MUTEX_INITIALIZER);
    let mutex: *mut libc::pthread_mutex_t = &mut *mutex;
    let began = Instant::now();
    let mut batches = Vec::new();
    while batches.len() < 9 || (began.elapsed() < Duration::from_millis(1) && batches.len() < 99) {
        let start = Instant::now();
        for _ in 0..BATCH {
            // SAFETY: the mutex is initialised, outlives the loop at a fixed address, and only this
            // thread knows it.
            unsafe {
                libc::pthread_mutex_lock(mutex);
                libc::pthread_mutex_unlock(mutex);
            }
        }
        batches.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH));
    }
    DONE.store(true, Ordering::Relaxed);
    second.thread().unpark();
    let _ = second.join();
    batches.sort_by(f64::total_cmp);
    batches[batches.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_come_or_go_are_noted() {
        assert_eq!(came_or_went(2, 2), None);
        let note = came_or_went(2, 1).expect("one went");
        assert!(note.starts_with("2 CPUs were online when the recording began, and 1 at its end"));
        assert_eq!(processors_note(cpus_online()), None);
    }

    #[test]
    fn this_machine_makes_sense() {
        let m = machine();
        assert!(!m.kernel.is_empty() && !m.arch.is_empty() && m.libc.starts_with("glibc 2."));
        assert!(m.cpus_online >= 1 && (1..=m.cpus_online).contains(&m.cpus_allowed));
        assert!(m.memory_bytes > 64 << 20);
        assert!(
            m.mutex_pair_ns > 0.5 && m.mutex_pair_ns < 10_000.0,
            "{}",
            m.mutex_pair_ns
        );
    }

    #[test]
    fn quota_is_the_smallest_on_the_way_up() {
        let root = tempfile::tempdir().unwrap();
        let leaf = root.path().join("a/b");
        fs::create_dir_all(&leaf).unwrap();
        fs::write(leaf.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(quota_cpus("0::/a/b\n", root.path()), None);
        fs::write(root.path().join("a/cpu.max"), "150000 100000\n").unwrap();
        assert_eq!(quota_cpus("0::/a/b\n", root.path()), Some(1.5));
        fs::write(leaf.join("cpu.max"), "50000 100000\n").unwrap();
        assert_eq!(quota_cpus("0::/a/b\n", root.path()), Some(0.5));
        assert_eq!(quota_cpus("garbage\n0::\n", root.path()), None);
    }

    #[test]
    fn quota_of_version_1_is_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("cpu,cpuacct/x");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        fs::write(dir.join("cpu.cfs_period_us"), "100000\n").unwrap();
        let own = "4:memory:/x\n3:cpu,cpuacct:/x\n";
        assert_eq!(quota_cpus(own, root.path()), None);
        fs::write(dir.join("cpu.cfs_quota_us"), "200000\n").unwrap();
        assert_eq!(quota_cpus(own, root.path()), Some(2.0));
    }
}
