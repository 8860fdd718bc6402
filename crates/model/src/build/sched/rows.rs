//! Row by row: a row whose thread leads nowhere is left out, and those that refer to it with it.

use convoy_profile as profile;

use super::objects::ByAddress;
use super::spun;
use super::timeline::Places;
use super::Names;
use crate::build::shown_loop;
use crate::{
    CallSamples, GoPlace, GoProgram, GoWait, LineUse, LoopId, Model, NameId, OffCpu, OffId,
    OffReason, ProcessId, Sched, SchedThread, SharedLine, SharedLines, Slice, SpinLoop, Wake,
    Waker,
};

/// No recording has more samples of one place: a damaged file may say so, and sums are made of them.
const SAMPLES_MAX: u64 = 1 << 40;

/// The scheduler's rows, joined with a model that is complete otherwise.
pub(in crate::build) fn join(model: &Model, from: profile::Sched, names: &mut Names) -> Sched {
    let mut joiner = Joiner {
        model,
        objects: ByAddress::of(model),
        loops: from.loops.len(),
        files: from.names.len(),
        dropped: 0,
        names,
    };
    let mut threads = joiner.keep(from.threads, Joiner::thread).0;
    let (mut slices, slice_ids) = joiner.keep(from.slices, Joiner::slice);
    spun::by_samples(&mut threads, &mut slices, from.sample_period_ns);
    let (offs, off_ids) = joiner.keep(from.offs, Joiner::off);
    let (wakes, wake_ids) = joiner.keep(from.wakes, |this, row| this.wake(row, &off_ids));
    let writes = joiner.keep(from.writes, Joiner::write).0;
    let loops = from.loops.into_iter().enumerate();
    let loops = loops.map(|(ix, row)| joiner.spin_loop(ix, row)).collect();
    let goroutines = from.goroutines.into_iter();
    let goroutines = goroutines.map(|row| joiner.go_program(row)).collect();
    let places = Places {
        slices: &slice_ids,
        offs: &off_ids,
        wakes: &wake_ids,
    };
    let timeline = from
        .timeline
        .map(|timeline| places.timeline(timeline, joiner.names));
    // What comes after the end of all threads is no part of the run: nobody was there, and nobody waited.
    let last = threads.iter().map(|th: &SchedThread| th.end_ns).max();
    let end_ns = last
        .unwrap_or(from.end_ns)
        .clamp(from.start_ns.min(from.end_ns), from.end_ns);
    let after = from.end_ns.saturating_sub(end_ns);
    let within = |mut levels: Vec<u64>| {
        if let Some(none) = levels.first_mut() {
            *none = none.saturating_sub(after);
        }
        levels
    };
    let width = from.bins.width_ns.max(1);
    let pieces = match after {
        0 => u64::MAX,
        _ => end_ns.saturating_sub(from.start_ns).div_ceil(width),
    };
    let bin = |bin: &profile::Bin| profile::Bin {
        top: bin.top.and_then(|ix| *slice_ids.get(ix as usize)?),
        ..*bin
    };
    Sched {
        source: from.source,
        start_ns: from.start_ns,
        end_ns,
        events: from.events,
        sample_period_ns: from.sample_period_ns,
        active: within(from.active),
        working: within(from.working),
        running: within(from.running),
        bin_width_ns: from.bins.width_ns,
        bins: from
            .bins
            .bins
            .iter()
            .take(usize::try_from(pieces).unwrap_or(usize::MAX))
            .map(bin)
            .collect(),
        threads,
        slices,
        offs,
        wakes,
        loops,
        names: from.names,
        lost: from.lost,
        contradictions: from.contradictions,
        dropped_rows: joiner.dropped,
        timeline,
        lines: from.lines.map(|lines| joiner.lines(lines)),
        writes,
        goroutines,
    }
}

struct Joiner<'a> {
    model: &'a Model,
    names: &'a mut Names,
    objects: ByAddress,
    loops: usize,
    files: usize,
    dropped: u64,
}

impl Joiner<'_> {
    /// The rows that lead somewhere, and where each of the old ones went.
    fn keep<T, U>(
        &mut self,
        rows: Vec<T>,
        translate: impl Fn(&Self, T) -> Option<U>,
    ) -> (Vec<U>, Vec<Option<u32>>) {
        let mut kept = Vec::with_capacity(rows.len());
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            let row = translate(self, row);
            ids.push(row.is_some().then_some(kept.len() as u32));
            self.dropped += u64::from(row.is_none());
            kept.extend(row);
        }
        (kept, ids)
    }

    fn thread(&self, row: profile::SchedThread) -> Option<SchedThread> {
        Some(SchedThread {
            thread: self.names.thread(row.thread)?,
            start_ns: row.start_ns,
            end_ns: row.end_ns,
            running_ns: row.running_ns,
            delayed_ns: row.delayed_ns,
            preempted_ns: row.preempted_ns,
            spinning_ns: row.spinning_ns,
            blocked_ns: row.blocked_ns,
            cm_ns: finite(row.cm_ns),
            cm_working_ns: finite(row.cm_working_ns),
            slices: row.slices,
            preemptions: row.preemptions,
        })
    }

    fn slice(&self, row: profile::Slice) -> Option<Slice> {
        Some(Slice {
            thread: self.names.thread(row.thread)?,
            site: self.names.site(row.thread.process, row.stack),
            from: row.from,
            spin: self.spin(row.spin),
            n: row.n.min(SAMPLES_MAX),
            faults: row.faults.min(row.n).min(SAMPLES_MAX),
            active_ns: row.active_ns,
            running_ns: row.running_ns,
            cm_ns: finite(row.cm_ns),
            cm_working_ns: finite(row.cm_working_ns),
            by_active: row.by_active,
            by_working: row.by_working,
        })
    }

    fn spin(&self, ix: Option<profile::LoopIx>) -> Option<LoopId> {
        ix.filter(|&ix| (ix as usize) < self.loops).map(LoopId)
    }

    fn off(&self, row: profile::OffCpu) -> Option<OffCpu> {
        let process = ProcessId(row.thread.process);
        let object = (row.reason == OffReason::Futex && row.address != 0)
            .then(|| self.objects.holds(self.model, process, row.address));
        Some(OffCpu {
            thread: self.names.thread(row.thread)?,
            site: self.names.site(row.thread.process, row.stack),
            kernel_stack: row.kernel_stack,
            reason: row.reason,
            nr: row.nr,
            address: row.address,
            object: object.flatten(),
            name: self.file(row.name),
            n: row.n,
            sum_ns: row.sum_ns,
            max_ns: row.max_ns,
            unfinished_ns: row.unfinished_ns,
            by_active: row.by_active,
            by_working: row.by_working,
        })
    }

    fn wake(&self, row: profile::Wake, offs: &[Option<u32>]) -> Option<Wake> {
        let off = |ix: profile::OffIx| offs.get(ix as usize).copied().flatten().map(OffId);
        let waker = match row.waker {
            profile::Waker::Unknown => Waker::Unknown,
            profile::Waker::Interrupt => Waker::Interrupt,
            profile::Waker::Outside(tid) => Waker::Outside(tid),
            profile::Waker::Thread(thread, stack) => {
                self.names.thread(thread).map_or(Waker::Unknown, |id| {
                    Waker::Thread(id, self.names.site(thread.process, stack))
                })
            }
        };
        let waker_off = row.waker_off.into_iter();
        Some(Wake {
            off: off(row.off)?,
            waker,
            n: row.n,
            wait_ns: row.wait_ns,
            max_ns: row.max_ns,
            waker_running_ns: row.waker_running_ns,
            waker_delayed_ns: row.waker_delayed_ns,
            waker_off: waker_off
                .filter_map(|(ix, ns)| Some((off(ix)?, ns)))
                .collect(),
        })
    }

    fn write(&self, row: profile::CallSamples) -> Option<CallSamples> {
        Some(CallSamples {
            thread: self.names.thread(row.thread)?,
            site: self.names.site(row.thread.process, row.stack),
            name: self.file(row.name),
            size_class: row.size_class,
            reads: row.reads,
            n: row.n.min(SAMPLES_MAX),
        })
    }

    fn go_program(&self, from: profile::GoProgram) -> GoProgram {
        let site = |stack| self.names.site(from.process, stack);
        let names = self.names.processes.get(from.process as usize);
        let waits = from.waits.into_iter().map(|row| GoWait {
            reason: row.reason,
            site: site(row.stack),
            n: row.n.min(SAMPLES_MAX),
            waits: row.waits.min(SAMPLES_MAX),
            place: row.place,
        });
        let doing = |row: profile::GoDoing| profile::GoDoing {
            n: row.n.min(SAMPLES_MAX),
            ..row
        };
        let places = from.places.into_iter().map(|row| GoPlace {
            reason: row.reason,
            site: site(row.stack),
            gives_back: names.and_then(|of| of.giving.get(&(row.stack, row.gives_back)).cloned()),
            capacity: row.capacity,
            users: row.users,
            most: row.most.min(SAMPLES_MAX),
            present: row.present.min(SAMPLES_MAX),
            looks: row.looks.min(SAMPLES_MAX),
            waiting: row.waiting.min(SAMPLES_MAX),
            away: row.away.min(SAMPLES_MAX),
            away_squares: row.away_squares.min(SAMPLES_MAX),
            doing: row.doing.into_iter().map(doing).collect(),
        });
        let states = from.states.into_iter().map(|row| profile::GoState {
            n: row.n.min(SAMPLES_MAX),
            ..row
        });
        GoProgram {
            process: ProcessId(from.process),
            version: from.version,
            unknown: from.unknown,
            looks: from.looks.min(SAMPLES_MAX),
            cost_ns: from.cost_ns,
            goroutines: from.goroutines.min(SAMPLES_MAX),
            turns: from.turns.min(SAMPLES_MAX),
            longest: from.longest.min(SAMPLES_MAX),
            states: states.collect(),
            waits: waits.collect(),
            places: places.collect(),
        }
    }

    fn file(&self, ix: Option<profile::NameIx>) -> Option<NameId> {
        ix.filter(|&ix| (ix as usize) < self.files).map(NameId)
    }

    fn lines(&self, from: profile::SharedLines) -> SharedLines {
        let mut lines: Vec<SharedLine> = from
            .lines
            .into_iter()
            .map(|row| SharedLine {
                process: ProcessId(row.process),
                address: row.address,
                symbol: row.symbol.unwrap_or_default(),
                samples: row.samples,
                waits: row.waits,
                turns: row.turns,
                uses: Vec::new(),
            })
            .collect();
        for row in from.uses {
            let Some(line) = lines.get_mut(row.line as usize) else {
                continue;
            };
            let process = line.process.0;
            let thread = profile::ThreadRef {
                process,
                thread: row.thread,
            };
            // What a thread did that never ran says nothing.
            line.uses
                .extend(self.names.thread(thread).map(|thread| LineUse {
                    thread,
                    site: self.names.site(process, row.stack),
                    offset: row.offset,
                    size: row.size,
                    locked: row.locked,
                    reads: row.reads,
                    writes: row.writes,
                    n: row.n,
                }));
        }
        SharedLines {
            samples: from.samples,
            unread: from.unread,
            lines,
        }
    }

    fn spin_loop(&mut self, ix: usize, row: profile::SpinLoop) -> SpinLoop {
        let process = self.names.processes.get_mut(row.process as usize);
        let frames = process
            .and_then(|process| process.loops.remove(&ix))
            .unwrap_or_default();
        SpinLoop {
            process: ProcessId(row.process),
            shown: shown_loop(&frames),
            frames,
            lo: row.lo,
            hi: row.hi,
            kind: row.kind,
            evidence: row.evidence,
            samples: row.samples,
        }
    }
}

/// A sum of quotients that a damaged file may hold as anything.
fn finite(ns: f64) -> f64 {
    if ns.is_finite() && ns > 0.0 {
        ns
    } else {
        0.0
    }
}
