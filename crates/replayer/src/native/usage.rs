//! Resource usage of the calling thread, and of the machine.

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

/// What the machine's processors have done so far, in ticks of the kernel's statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MachineTime {
    busy: u64,
    all: u64,
}

impl MachineTime {
    /// Until now; zeros where it cannot be read.
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    /// Its first line: "cpu", then user, nice, system, idle, iowait, irq, softirq, steal, and guest
    /// times that user and nice contain.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields = line.split_ascii_whitespace().take(8);
        let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let all = fields.iter().sum();
        let idle = fields.get(3)? + fields.get(4)?;
        Some(Self {
            busy: all - idle,
            all,
        })
    }

    /// Share of all processors' time since a reading that others than we had, 0..1; `own_share` is
    /// our share of it.
    pub fn others_since(&self, before: &Self, own_share: f64) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let busy = self.busy.saturating_sub(before.busy);
        (busy as f64 / all.max(1) as f64 - own_share).clamp(0.0, 1.0)
    }
}

/// Processors that are online, at least 1.
pub(super) fn processors() -> usize {
    // SAFETY: reads a number of the system.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_and_not_ours_is_others() {
        let before = MachineTime::parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1").unwrap();
        assert_eq!((before.busy, before.all), (150, 1000));
        let after = MachineTime::parse("cpu  160 0 50 840 50 0 0 0 60 0\n").unwrap();
        assert!((after.others_since(&before, 0.25) - 0.35).abs() < 1e-9);
        assert_eq!(after.others_since(&before, 0.9), 0.0);
        assert_eq!(MachineTime::parse("cpu  1 2"), None);
        assert_eq!(MachineTime::parse(""), None);
    }
}
