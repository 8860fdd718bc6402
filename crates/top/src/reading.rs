//! A moment of a program, and where it comes from.

use std::time::Duration;

use convoy_capture::Watch;
use convoy_model::Model;
use convoy_profile::Profile;

use crate::symbols::Names;

/// What was read at one moment.
#[derive(Debug)]
pub struct Reading {
    /// Everything since the start.
    pub model: Model,
    /// Whether there is more to come.
    pub running: bool,
    /// CPU time that reading it took.
    pub cpu: Duration,
}

impl Reading {
    /// Of a profile: a run that has ended.
    pub fn of_profile(profile: Profile) -> Self {
        Self {
            model: Model::build(profile),
            running: false,
            cpu: Duration::ZERO,
        }
    }
}

/// Where readings come from.
pub trait Source: Send + 'static {
    /// Reads once. The last reading of a program says that it does not run any more.
    fn read(&mut self) -> Reading;
}

/// A running program.
#[derive(Debug)]
pub struct Live {
    watch: Watch,
    names: Names,
    began: bool,
}

impl Live {
    /// Of a program that was found.
    pub fn new(watch: Watch) -> Self {
        Self {
            watch,
            names: Names::default(),
            began: false,
        }
    }
}

impl Source for Live {
    fn read(&mut self) -> Reading {
        let before = cpu_time();
        let convoy_capture::Reading {
            mut profile,
            running,
        } = self.watch.read();
        let read = cpu_time();
        self.names.resolve(&mut profile);
        let named = cpu_time();
        let model = Model::build(profile);
        // The first time all symbols are read, and then hardly any: that says nothing of the next reading.
        let once = if self.began {
            Duration::ZERO
        } else {
            named.saturating_sub(read)
        };
        self.began = true;
        Reading {
            model,
            running,
            cpu: cpu_time().saturating_sub(before).saturating_sub(once),
        }
    }
}

/// Of all threads of this convoy.
pub(crate) fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Readings may take this share of one processor.
const SHARE_OF_CPU: u32 = 10;

/// From one reading to the next: what was asked for, or longer where a reading is dear.
pub fn pause(asked: Duration, cpu: Duration) -> Duration {
    asked.max(cpu.saturating_mul(SHARE_OF_CPU))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_readings_become_rare() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(second, Duration::from_millis(3)), second);
        assert_eq!(pause(second, Duration::from_millis(100)), second);
        assert_eq!(pause(second, Duration::from_millis(400)), 4 * second);
    }
}
