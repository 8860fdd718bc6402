//! Extraction of replayable programs from a recording: one program per window.
//!
//! Waits disappear: replay makes them anew. What remains of a thread is its work (wall time between
//! operations, minus the time off the CPU, minus the recorder's own cost) and its operations.
//!
//! A window begins and ends in the middle of things. A thread that waits at its start waits first; a
//! thread that holds locks at its start takes them before anybody else. Before its first event and
//! after its last one a thread works, while no other thread is seen on its CPU.

mod objects;
mod occupancy;
mod off_cpu;
mod permits;
mod slices;
mod thread;
mod tokens;
mod transfer;
mod work;

use convoy_trace::{Recording, Window};

use crate::machine::Machine;
use crate::program::{Op, Program, NO_SECTION};
use crate::sections::{SectionIx, Sections};

pub use objects::ObjectMap;
pub use slices::{choose_windows, slice_windows};

/// A window as a program, with what is known about how true it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extraction {
    /// What replay runs.
    pub program: Program,
    /// Which window it is.
    pub window: Window,
    /// From program indices to the recording's objects and back.
    pub objects: ObjectMap,
    /// Thread time that replay cannot answer for, and all of it.
    pub opaque: Opaque,
}

/// Thread time whose length replay takes as given although a change of the program may alter it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Opaque {
    /// Waits on raw futexes, whose protocol is not known: locks of Rust, C++20, other runtimes.
    pub futex_ns: f64,
    /// Waits on condition variables for which no rule of tokens fits what was recorded.
    pub timing_ns: f64,
    /// Time off the CPU outside of recorded operations: I/O, sleeping.
    pub sleep_ns: f64,
    /// Time of all threads in the window.
    pub thread_ns: f64,
}

impl Opaque {
    /// Share of the threads' time whose length replay takes as given, sleeping and I/O apart; 0..1.
    pub fn share(&self) -> f64 {
        (self.futex_ns + self.timing_ns) / self.thread_ns.max(1.0)
    }

    /// Time that threads were off the CPU for other reasons than the program's locks, nanoseconds.
    pub(crate) fn asleep_ns(&self) -> f64 {
        self.futex_ns + self.timing_ns + self.sleep_ns
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.futex_ns += other.futex_ns;
        self.timing_ns += other.timing_ns;
        self.sleep_ns += other.sleep_ns;
        self.thread_ns += other.thread_ns;
    }
}

/// Costs that are in the recorded times, but not the program's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RecorderCost {
    /// Of an event of an uncontended operation, nanoseconds.
    pub event_ns: f64,
    /// What an empty critical section and an empty gap between two of them last in a recording, the
    /// cost of the lock included, nanoseconds; `None` = not measured.
    pub empty: Option<Empty>,
}

impl RecorderCost {
    /// Leaves the recorder's own time in, so that only what replay adds again is taken off. Half of
    /// the recorder's is in a section, half in a gap, as each has one event. `pair_ns`: an uncontended lock and unlock.
    pub fn left_in(self, pair_ns: f64) -> Self {
        let empty = self.empty.map(|Empty { section_ns, gap_ns }| {
            let own_ns = (section_ns + gap_ns - pair_ns).max(0.0);
            let in_section_ns = (own_ns / 2.0).max(own_ns - gap_ns).min(section_ns);
            Empty {
                section_ns: section_ns - in_section_ns,
                gap_ns: (gap_ns - (own_ns - in_section_ns)).max(0.0),
            }
        });
        Self {
            event_ns: 0.0,
            empty,
        }
    }
}

/// Recorded lengths of nothing, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Empty {
    /// From the acquisition of an uncontended lock to its release.
    pub section_ns: f64,
    /// From a release to the next acquisition.
    pub gap_ns: f64,
}

/// Takes windows of a recording apart.
#[derive(Debug)]
pub struct Extractor<'r> {
    recording: &'r Recording,
    machine: &'r Machine,
    recorder: RecorderCost,
    section_ids: SectionIds,
}

impl<'r> Extractor<'r> {
    /// `sections`: those of the recording, whose numbers the programs' sections have. `machine`:
    /// the costs that replay adds to each operation are taken off the recorded gaps, so that they
    /// do not count twice.
    pub fn new(
        recording: &'r Recording,
        sections: &Sections,
        machine: &'r Machine,
        recorder: RecorderCost,
    ) -> Self {
        Self {
            recording,
            machine,
            recorder,
            section_ids: SectionIds::of(sections, recording.threads.len()),
        }
    }

    /// The program of one window.
    pub fn extract(&self, window: Window) -> Extraction {
        let (recording, machine, recorder) = (self.recording, self.machine, self.recorder);
        let objects = ObjectMap::of(recording);
        let tokens = tokens::infer(recording, window, &objects);
        let mut out = Extraction {
            program: objects.program(recording),
            window,
            ..Extraction::default()
        };
        out.program.channels.clone_from(&tokens.channels);
        let off_cpu = off_cpu::Policy::of(recording, window);
        let occupancy = occupancy::Occupancy::of(recording, window);
        let transfers = transfer::Transfers::of(recording, window, &objects);
        for (lock, of) in out.program.locks.iter_mut().zip(&transfers.of_lock) {
            lock.transfer = *of;
        }
        let builder = thread::Builder {
            recording,
            window,
            objects: &objects,
            sections: &self.section_ids,
            tokens: &tokens,
            off_cpu: &off_cpu,
            occupancy: &occupancy,
            pair_ns: machine.lock_pair_ns,
            switch_ns: machine.futex_block_ns + machine.switch_ns,
            recorder,
            transfers: &transfers,
            made_anew: permits::made_anew(recording, window),
        };
        // Creation needs the program's index of a thread before that thread is built.
        let present = builder.present();
        for &recorded in &present {
            let thread = builder.build(recorded, &present, &mut out.opaque);
            out.program.threads.push(thread);
        }
        permits::take_out(&mut out.program);
        // A thread that nobody of the program creates is there from the start.
        let spawned = spawned(&out.program);
        for (ix, thread) in out.program.threads.iter_mut().enumerate() {
            thread.at_start = !spawned.contains(&(ix as u32));
        }
        out.objects = objects;
        out
    }
}

/// The numbers of critical sections by thread and acquiring event.
#[derive(Debug)]
struct SectionIds {
    /// By thread: events, ascending, and the section that each begins.
    of_thread: Vec<Vec<(u32, SectionIx)>>,
}

impl SectionIds {
    fn of(sections: &Sections, threads: usize) -> Self {
        let mut of_thread = vec![Vec::new(); threads];
        for (ix, section) in sections.all.iter().enumerate() {
            if let Some(own) = of_thread.get_mut(section.thread as usize) {
                own.push((section.acquire_event, ix as SectionIx));
            }
        }
        for own in &mut of_thread {
            own.sort_unstable();
        }
        Self { of_thread }
    }

    fn get(&self, thread: u32, event: usize) -> SectionIx {
        let own = &self.of_thread[thread as usize];
        own.binary_search_by_key(&(event as u32), |(event, _)| *event)
            .map_or(NO_SECTION, |at| own[at].1)
    }
}

fn spawned(program: &Program) -> std::collections::BTreeSet<u32> {
    let ops = program.threads.iter().flat_map(|thread| &thread.ops);
    ops.filter_map(|op| match op {
        Op::Spawn { thread } => Some(*thread),
        _ => None,
    })
    .collect()
}

#[cfg(test)]
mod tests;
