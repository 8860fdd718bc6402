//! Trace of a profile, with what its profile knows for replaying it.

use convoy_profile::{Process, Profile};
use convoy_replay::caveat::Caveat;
use convoy_replay::extract::{slice_windows, Empty};
use convoy_replay::machine::Machine;
use convoy_replay::study::{Names, Study, MOST_EVENTS_WHOLE};
use convoy_replayer::calibrate;
use convoy_trace::Recording;

use crate::message::Message;

/// The trace of the process of most lock waits.
#[derive(Debug)]
pub struct Traced {
    pub recording: Recording,
    /// The machine of the recording; this one, if its costs are not in the profile.
    pub machine: Machine,
    switches: Option<(f64, f64)>,
    empty: Option<Empty>,
}

impl Traced {
    /// # Errors
    ///
    /// The profile has no trace.
    pub fn of(profile: &Profile) -> Result<Self, Message> {
        let recording = most_contended(profile)?;
        let machine = calibrate::from_text(&profile.meta.costs);
        let machine = machine.unwrap_or_else(|_| calibrate::calibrate().machine);
        Ok(Self::on(machine, recording, profile))
    }

    /// `None` = there is no trace, or the profile lacks its machine's costs.
    pub fn with_costs(profile: &Profile) -> Option<Self> {
        let machine = calibrate::from_text(&profile.meta.costs).ok()?;
        let recording = most_contended(profile).ok()?;
        Some(Self::on(machine, recording, profile))
    }

    fn on(machine: Machine, mut recording: Recording, profile: &Profile) -> Self {
        slice_windows(&mut recording, MOST_EVENTS_WHOLE);
        Self {
            switches: switches(profile, &recording),
            empty: calibrate::empty_from_text(&profile.meta.costs),
            recording,
            machine,
        }
    }

    /// Its process, in the same profile.
    pub fn process<'p>(&self, profile: &'p Profile) -> &'p Process {
        &profile.processes[self.recording.process as usize]
    }

    /// Takes it apart.
    pub fn study<'a>(&'a self, names: &'a Names) -> Study<'a> {
        let (switches, empty) = (self.switches, self.empty);
        Study::new(&self.recording, names, &self.machine, switches, empty)
    }
}

/// The recording of the process whose threads waited most for locks.
fn most_contended(profile: &Profile) -> Result<Recording, Message> {
    let how = "record one: convoy record --trace -o FILE -- COMMAND, or do all at once: \
               convoy replay -- COMMAND";
    let processes = 0..profile.processes.len() as u32;
    let recordings = processes.map(|ix| convoy_trace::decode(profile, ix));
    let decoded: Vec<Recording> = recordings.filter_map(Result::ok).collect();
    let waited = |recording: &Recording| {
        let sections = convoy_replay::sections::Sections::of(recording);
        let waited: u64 = sections.all.iter().map(|s| s.wait_ns()).sum();
        (waited, sections.all.len())
    };
    decoded.into_iter().max_by_key(waited).ok_or_else(|| {
        Message::new(
            "the profile has no trace: it says how often, but not in which order",
            "nothing can be replayed",
            how,
        )
    })
}

/// What the reader has to know of a recording from another machine.
pub fn other_machine(profile: &Profile) -> Option<Caveat> {
    let there = || format!("recorded on {}", profile.meta.machine.cpu_model);
    (!is_this_machine(profile)).then(|| Caveat::OtherMachine(there()))
}

/// Others' share of the CPUs from which on the reader has to know, and the least time that the
/// kernel's ticks can tell, nanoseconds: as of the note in the profile's report.
const BUSY: (f64, u64) = (0.15, 100_000_000);

/// Other programs had much of the CPUs' time meanwhile: the recorded threads waited for CPUs, and
/// so may those of the replays.
pub fn busy(profile: &Profile, cpus: u32) -> Option<Caveat> {
    let meta = &profile.meta;
    let wall_ns = meta.end_ns.saturating_sub(meta.start_ns);
    let share = meta.others_ns as f64 / (wall_ns as f64 * f64::from(cpus)).max(1.0);
    (share >= BUSY.0 && meta.others_ns >= BUSY.1).then(|| Caveat::Busy(share.min(1.0)))
}

/// Whether the profile is of a machine like this one, so that a native replay means something.
pub fn is_this_machine(profile: &Profile) -> bool {
    let here = convoy_capture::machine();
    let there = &profile.meta.machine;
    (&here.cpu_model, here.cpus_online) == (&there.cpu_model, there.cpus_online)
}

/// Context switches of the process's threads.
fn switches(profile: &Profile, recording: &Recording) -> Option<(f64, f64)> {
    let process = profile.processes.get(recording.process as usize)?;
    let sum = |of: fn(&convoy_profile::Thread) -> u64| {
        process.threads.iter().map(of).fold(0, u64::saturating_add) as f64
    };
    Some((
        sum(|t| t.voluntary_switches),
        sum(|t| t.involuntary_switches),
    ))
}
