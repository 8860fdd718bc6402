//! A recording under study: its sections, its windows as programs, and what they are recognized by.

use std::collections::BTreeMap;

use convoy_trace::{ObjectIx, Recording};

use crate::analysis::{LockRow, Place, Recorded};
use crate::extract::{choose_windows, Empty, Extraction, Extractor, Opaque, RecorderCost};
use crate::fidelity::Fingerprint;
use crate::machine::Machine;
use crate::predict::{AsRecorded, Original, Predictor, Replayer};
use crate::program::Program;
use crate::sections::{Section, SectionIx, Sections};
use crate::simulated::Simulator;

/// Names of what a recording speaks of, from the profile that it is part of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Names {
    /// By index of the recording's objects.
    pub objects: Vec<String>,
    /// By index of its sites: the place to show.
    pub sites: Vec<Place>,
    /// By index of its threads.
    pub threads: Vec<String>,
    /// By index of its threads: the name of the group that it belongs to.
    pub groups: Vec<String>,
}

/// A recording, taken apart for replay.
#[derive(Debug)]
pub struct Study<'a> {
    /// What was recorded.
    pub recording: &'a Recording,
    /// Its names.
    pub names: &'a Names,
    /// All its critical sections.
    pub sections: Sections,
    /// Windows that are replayed, by their number in the recording.
    pub windows: Vec<u32>,
    /// Each of them as a program.
    pub extractions: Vec<Extraction>,
    /// What the replayed windows are recognized by.
    pub fingerprint: Fingerprint,
    /// Share of the threads' running time in the replayed windows that was the recorder's own,
    /// 0..1; 0 = not known.
    pub recorder_share: f64,
    /// The windows as programs with the recorder's time in them, and its share of the time that
    /// threads do not wait for locks; `None` = it is too little to matter, or not known.
    as_recorded: Option<(Vec<Program>, f64)>,
}

/// The recorder's share of the running time from which on it is left in the programs that must give
/// the recorded run back: it makes sections longer, and so more of them contended.
const RECORDER_MATTERS: f64 = 0.01;

/// Events of the windows that are replayed, at most: a second of simulation for each what-if.
const MOST_EVENTS: usize = 400_000;

/// Of a recording that is complete, slices are replayed from so many events on: it is replayed as a
/// whole, with its beginning and its end, as long as that takes no more than some seconds.
pub const MOST_EVENTS_WHOLE: usize = 1_000_000;

impl<'a> Study<'a> {
    /// Takes a recording apart. `switches`: voluntary and involuntary context switches of the whole
    /// run; `empty`: what the recorder made of nothing; `None` = not known.
    pub fn new(
        recording: &'a Recording,
        names: &'a Names,
        machine: &Machine,
        switches: Option<(f64, f64)>,
        empty: Option<Empty>,
    ) -> Self {
        let sections = Sections::of(recording);
        let windows = choose_windows(recording, MOST_EVENTS);
        // Two readings of the clock for each section: one when it is acquired, one when it is released.
        let recorder = RecorderCost {
            event_ns: machine.clock_ns,
            empty,
        };
        let extractor = Extractor::new(recording, &sections, machine, recorder);
        let extractions: Vec<Extraction> = windows
            .iter()
            .map(|ix| extractor.extract(recording.windows[*ix as usize]))
            .collect();
        let wall_ns = extractions.iter().map(Extraction::wall_ns).sum();
        let lifetime_ns = extractions.iter().map(|e| e.opaque.thread_ns).sum();
        let whole = windows.len() == recording.windows.len();
        let fingerprint = Fingerprint::of_recording(
            &sections,
            &windows,
            wall_ns,
            lifetime_ns,
            switches.filter(|_| whole && recording.windows.len() == 1),
        );
        let (recorder_share, share_of_wall) = empty.map_or((0.0, 0.0), |empty| {
            let own_ns = (empty.section_ns + empty.gap_ns - machine.lock_pair_ns).max(0.0);
            let of_windows = |s: &&Section| windows.contains(&s.window);
            let replayed = sections.all.iter().filter(of_windows);
            let (n, waited) = replayed.fold((0.0, 0.0), |(n, waited), section| {
                (n + 1.0, waited + section.wait_ns() as f64)
            });
            let asleep: f64 = extractions.iter().map(|e| e.opaque.asleep_ns()).sum();
            let of = |time: f64| (own_ns * n / time.max(1.0)).min(1.0);
            (of(lifetime_ns - waited - asleep), of(lifetime_ns - waited))
        });
        let as_recorded = (recorder_share >= RECORDER_MATTERS).then(|| {
            let recorder = recorder.left_in(machine.lock_pair_ns);
            let extractor = Extractor::new(recording, &sections, machine, recorder);
            let windows = windows.iter().map(|ix| recording.windows[*ix as usize]);
            let programs = windows.map(|of| extractor.extract(of).program);
            (programs.collect(), share_of_wall)
        });
        Self {
            recording,
            names,
            sections,
            windows,
            extractions,
            fingerprint,
            recorder_share,
            as_recorded,
        }
    }

    /// Replays the recorded run, as far as this recording allows predictions. `programs`: its own.
    pub fn predictor<'p>(
        &self,
        replayers: Vec<Box<dyn Replayer + 'p>>,
        programs: &[Program],
    ) -> Predictor<'p> {
        let original = Original {
            programs,
            as_recorded: self
                .as_recorded
                .as_ref()
                .map(|(programs, share)| AsRecorded {
                    programs,
                    recorder_share: *share,
                }),
        };
        let mut predictor = Predictor::new(replayers, original, &self.fingerprint, None);
        predictor.widen(self.recorder_share);
        if let Some(why) = self.objection() {
            predictor.refuse(&why);
        }
        predictor
    }

    /// Why nothing can be predicted from this recording; `None` = nothing is known against it.
    ///
    /// Where the recorder takes much of the time, other threads contend in the recording than in
    /// the program: who wins a cache line within some tens of nanoseconds is decided by what runs
    /// in between.
    fn objection(&self) -> Option<String> {
        const MOST: f64 = 0.2;
        let percent = 100.0 * self.recorder_share;
        (self.recorder_share > MOST).then(|| {
            format!(
                "critical sections follow one another so fast that recording them is {percent:.0} % of \
                 the threads' running time"
            )
        })
    }

    /// A simulator with the scheduler's rules under which the recorded run comes out best. `times`:
    /// see [`Simulator::fitted`].
    pub fn simulator(&self, machine: &Machine, programs: &[Program], times: u32) -> Simulator {
        Simulator::fitted(
            machine,
            self.as_recorded(programs),
            &self.fingerprint,
            times,
        )
    }

    /// The programs that must give the recorded run back: with the recorder's time where it matters.
    /// `programs`: the study's own.
    pub fn as_recorded<'s>(&'s self, programs: &'s [Program]) -> &'s [Program] {
        match &self.as_recorded {
            Some((as_recorded, _)) => as_recorded,
            None => programs,
        }
    }

    /// The programs of the replayed windows.
    pub fn programs(&self) -> Vec<Program> {
        self.extractions.iter().map(|e| e.program.clone()).collect()
    }

    /// What was recorded, for the head of a report.
    pub fn recorded(&self) -> Recorded {
        let mut opaque = Opaque::default();
        self.extractions.iter().for_each(|e| opaque.add(&e.opaque));
        let replayed = |window: u32| self.windows.contains(&window);
        Recorded {
            wall_ns: self
                .recording
                .end_ns
                .saturating_sub(self.recording.start_ns) as f64,
            mode: self.recording.mode,
            windows: (self.windows.len(), self.recording.windows.len()),
            replayed_ns: self.fingerprint.wall_ns,
            events: self.recording.event_count(),
            sections: self
                .sections
                .all
                .iter()
                .filter(|s| replayed(s.window))
                .count(),
            threads: self
                .recording
                .threads
                .iter()
                .filter(|t| !t.events.is_empty())
                .count(),
            cpus: self.recording.cpus,
            opaque_share: opaque.share(),
        }
    }

    /// Locks of the replayed windows, most waited for first, with their objects.
    pub fn locks(&self) -> Vec<(ObjectIx, LockRow)> {
        let mut rows: BTreeMap<ObjectIx, (LockRow, Vec<u32>)> = BTreeMap::new();
        for section in &self.sections.all {
            if !self.windows.contains(&section.window) {
                continue;
            }
            let (row, threads) = rows.entry(section.lock).or_default();
            row.acquisitions += u64::from(!section.reacquired);
            row.contended += u64::from(section.contended && !section.reacquired);
            row.waited_ns += section.wait_ns() as f64;
            row.held_ns += section.hold_ns() as f64;
            if let Err(at) = threads.binary_search(&section.thread) {
                threads.insert(at, section.thread);
            }
        }
        let mut rows: Vec<(ObjectIx, LockRow)> = rows
            .into_iter()
            .map(|(object, (mut row, threads))| {
                row.threads = threads.len();
                row.name = self.object_name(object);
                let recorded = self.recording.objects.get(object as usize);
                row.addr = recorded.map_or(0, |o| o.addr);
                (object, row)
            })
            .collect();
        let key = |row: &LockRow| (row.waited_ns, row.held_ns);
        rows.sort_by(|(_, a), (_, b)| key(b).partial_cmp(&key(a)).unwrap_or(a.addr.cmp(&b.addr)));
        rows
    }

    /// The recorded order of acquisitions: by replayed window and lock of its program, sections.
    pub fn lock_orders(&self) -> Vec<Vec<Vec<SectionIx>>> {
        let windows = self.windows.iter().zip(&self.extractions);
        windows
            .map(|(window, extraction)| {
                let mut orders = vec![Vec::new(); extraction.program.locks.len()];
                for (ix, section) in self.sections.all.iter().enumerate() {
                    let lock = extraction.objects.lock(section.lock);
                    if let (Some(lock), true) = (lock, section.window == *window) {
                        orders[lock as usize].push(ix as SectionIx);
                    }
                }
                let acquired = |ix: &SectionIx| self.sections.all[*ix as usize].acquired_ns;
                for order in &mut orders {
                    order.sort_by_key(|ix| (acquired(ix), *ix));
                }
                orders
            })
            .collect()
    }

    /// The name of an object; its address where it has none.
    pub fn object_name(&self, object: ObjectIx) -> String {
        let named = self.names.objects.get(object as usize);
        named
            .filter(|name| !name.is_empty())
            .cloned()
            .unwrap_or_else(|| {
                let recorded = self.recording.objects.get(object as usize);
                format!("{:#x}", recorded.map_or(0, |o| o.addr))
            })
    }
}

impl Extraction {
    /// Length of the window, nanoseconds.
    pub fn wall_ns(&self) -> f64 {
        self.window.end_ns.saturating_sub(self.window.start_ns) as f64
    }
}
