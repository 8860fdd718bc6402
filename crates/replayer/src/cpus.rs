//! Processors that this process may use: affinity mask and CPU quota of its control groups.

use std::fs;
use std::path::Path;

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

/// Numbers of the processors in the calling thread's affinity mask; processor 0 if there is no
/// telling.
pub fn allowed() -> Vec<usize> {
    let cpus: Vec<usize> = sched_getaffinity(None).map_or_else(
        |_| Vec::new(),
        |set| {
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect()
        },
    );
    if cpus.is_empty() {
        vec![0]
    } else {
        cpus
    }
}

/// Processors that can be used at the same time, at least 1.
pub fn usable() -> u32 {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let allowed = allowed().len() as u32;
    quota(&own, Path::new("/sys/fs/cgroup")).map_or(allowed, |cpus| {
        allowed.min(cpus.ceil().clamp(1.0, f64::from(u32::MAX)) as u32)
    })
}

/// Binds the calling thread to one processor. False if that is refused.
pub fn pin(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).is_ok()
}

/// Two of these processors, on different cores where possible: hardware threads of one core share
/// what the costs of a hand-over depend on.
pub fn pair(cpus: &[usize]) -> Option<(usize, usize)> {
    let (&first, others) = cpus.split_first()?;
    let siblings = siblings(first);
    let other = others.iter().find(|cpu| !siblings.contains(cpu));
    Some((first, *other.or(others.first())?))
}

fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

/// "0-3,5"
fn parse_list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (last < CpuSet::MAX_CPU).then_some(first..=last)
    });
    ranges.flatten().collect()
}

/// The smallest CPU quota on the way from our control group to the root, in processors.
fn quota(own: &str, root: &Path) -> Option<f64> {
    let quotas = own.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let base = match controllers {
            "" => root.to_owned(),
            named if named.split(',').any(|name| name == "cpu") => root.join(named),
            _ => return None,
        };
        // In a container the path may not exist below its own root; its own quota is at the root
        // then.
        let group = base.join(path.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|dir| dir.starts_with(&base));
        groups.filter_map(quota_of).min_by(f64::total_cmp)
    });
    quotas.min_by(f64::total_cmp)
}

fn quota_of(group: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(group.join(file));
    let (quota, period) = match read("cpu.max") {
        Ok(both) => {
            let (quota, period) = both.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        Err(_) => (
            read("cpu.cfs_quota_us").ok()?,
            read("cpu.cfs_period_us").ok()?,
        ),
    };
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_quota_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        let leaf = root.path().join("a/b");
        fs::create_dir_all(&leaf).unwrap();
        fs::write(leaf.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(quota("0::/a/b\n", root.path()), None);
        fs::write(root.path().join("a/cpu.max"), "150000 100000\n").unwrap();
        assert_eq!(quota("0::/a/b\n", root.path()), Some(1.5));
        fs::write(leaf.join("cpu.max"), "50000 100000\n").unwrap();
        assert_eq!(quota("0::/a/b\n", root.path()), Some(0.5));
    }

    #[test]
    fn reads_quotas_of_the_first_version() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("cpu,cpuacct/a");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        fs::write(group.join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(quota("4:cpu,cpuacct:/a\n", root.path()), None);
        fs::write(group.join("cpu.cfs_quota_us"), "200000\n").unwrap();
        assert_eq!(quota("4:cpu,cpuacct:/a\n", root.path()), Some(2.0));
    }

    #[test]
    fn reads_lists_of_processors() {
        assert_eq!(parse_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list("1-99999999"), [0usize; 0]);
        assert_eq!(parse_list(""), [0usize; 0]);
    }

    #[test]
    fn one_processor_has_no_pair() {
        assert_eq!(pair(&[3]), None);
        let own = allowed();
        assert_eq!(pair(&own).is_some(), own.len() > 1);
    }
}
