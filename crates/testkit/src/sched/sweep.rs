//! From the timelines of a schedule to the rows that a recorder would make, going from one change to the next.

use std::collections::BTreeMap;

use convoy_profile::{
    bucket, Bin, Bins, ByThreads, CodeFrom, NameIx, OffCpu, OffIx, OffReason, Sched, SchedSource,
    SchedThread, Slice, StackIx, ThreadRef, Wake, Waker,
};

use super::{Code, Doing, Lane, Piece, Schedule, Wait};

/// A sample is taken every 3 ms of CPU time.
const SAMPLE_NS: u64 = 3_000_000;
/// Pieces of the run.
const BINS: u64 = 20;

/// The rows of a run that began at this time and ended with the last piece of any thread.
pub(super) fn rows(schedule: &Schedule, start_ns: u64) -> Sched {
    let end = schedule
        .lanes
        .values()
        .map(|lane| lane.now)
        .max()
        .unwrap_or(0);
    let mut sweep = Sweep::new(schedule, start_ns, end);
    let mut times: Vec<u64> = schedule
        .lanes
        .values()
        .flat_map(|lane| &lane.pieces)
        .flat_map(|piece| [piece.from, piece.to])
        .chain((0..=BINS).map(|i| i * sweep.sched.bins.width_ns))
        .chain([0, end])
        .filter(|&t| t <= end)
        .collect();
    times.sort_unstable();
    times.dedup();
    for pair in times.windows(2) {
        sweep.step(pair[0], pair[1]);
    }
    sweep.finish()
}

/// From one change to the next: what is added to the rows of one thread.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: usize,
    thread: ThreadRef,
    ns: u64,
    active: usize,
    working: usize,
    /// Its piece begins with this step.
    begins: bool,
}

/// What all threads do.
pub(super) struct Sweep<'a> {
    pub(super) lanes: Vec<(ThreadRef, &'a Lane, usize)>,
    pub(super) sched: Sched,
    pub(super) slices: BTreeMap<(ThreadRef, Code), usize>,
    pub(super) offs: BTreeMap<(ThreadRef, StackIx, OffReason, u64, Option<NameIx>), usize>,
    pub(super) wakes: BTreeMap<(OffIx, Option<ThreadRef>, StackIx), usize>,
}

impl<'a> Sweep<'a> {
    fn new(schedule: &'a Schedule, start_ns: u64, end: u64) -> Self {
        let width_ns = end.div_ceil(BINS).max(1);
        let bins = (0..BINS).map(|_| Bin::default()).collect();
        let thread = |(&thread, lane): (&ThreadRef, &Lane)| SchedThread {
            thread,
            start_ns: start_ns + lane.start,
            end_ns: start_ns + lane.now,
            ..SchedThread::default()
        };
        Self {
            sched: Sched {
                source: SchedSource::Bpf,
                start_ns,
                end_ns: start_ns + end,
                events: schedule.lanes.values().map(|l| l.pieces.len() as u64).sum(),
                sample_period_ns: SAMPLE_NS,
                bins: Bins { width_ns, bins },
                threads: schedule.lanes.iter().map(thread).collect(),
                loops: schedule.loops.clone(),
                names: schedule.names.clone(),
                ..Sched::default()
            },
            lanes: schedule.lanes.iter().map(|(&t, l)| (t, l, 0)).collect(),
            slices: BTreeMap::new(),
            offs: BTreeMap::new(),
            wakes: BTreeMap::new(),
        }
    }

    fn step(&mut self, from: u64, to: u64) {
        let ns = to - from;
        let mut now: Vec<(usize, ThreadRef, Piece, bool)> = Vec::new();
        for (at, (thread, lane, next)) in self.lanes.iter_mut().enumerate() {
            while lane.pieces.get(*next).is_some_and(|p| p.to <= from) {
                *next += 1;
            }
            if let Some(&piece) = lane.pieces.get(*next).filter(|p| p.from <= from) {
                now.push((at, *thread, piece, piece.from == from));
            }
        }
        let code = |p: &Piece| match p.doing {
            Doing::Run(code) | Doing::Ready(code) => Some(code),
            Doing::Off(_) => None,
        };
        let count = |f: &dyn Fn(&Piece) -> bool| now.iter().filter(|(_, _, p, _)| f(p)).count();
        let active = count(&|p| code(p).is_some());
        let working = count(&|p| code(p).is_some_and(|c| c.spin.is_none()));
        let running = count(&|p| matches!(p.doing, Doing::Run(_)));
        add(&mut self.sched.active, active, ns);
        add(&mut self.sched.working, working, ns);
        add(&mut self.sched.running, running, ns);
        let width = self.sched.bins.width_ns;
        if let Some(bin) = self.sched.bins.bins.get_mut((from / width) as usize) {
            bin.active_ns += ns * active as u64;
            bin.working_ns += ns * working as u64;
            bin.running_ns += ns * running as u64;
            bin.idle_ns += if active == 0 { ns } else { 0 };
        }
        let state: BTreeMap<ThreadRef, Doing> =
            now.iter().map(|&(_, t, p, _)| (t, p.doing)).collect();
        let mut waits = Vec::new();
        for (at, thread, piece, begins) in now {
            let step = Step {
                at,
                thread,
                ns,
                active,
                working,
                begins,
            };
            match piece.doing {
                Doing::Run(code) => self.active(step, code, true),
                Doing::Ready(code) => self.active(step, code, false),
                Doing::Off(wait) => waits.push((self.off(step, &wait, piece), step, wait, piece)),
            }
        }
        // Once the rows of all that wait are there: wakers wait as well.
        for (off, step, wait, piece) in waits {
            self.wake(step, off, &wait, piece, &state);
        }
    }

    fn active(&mut self, step: Step, code: Code, on_cpu: bool) {
        let Step {
            at,
            thread,
            ns,
            active,
            working,
            begins,
        } = step;
        let slices = &mut self.sched.slices;
        let ix = *self.slices.entry((thread, code)).or_insert_with(|| {
            slices.push(Slice {
                thread,
                stack: code.stack,
                from: code.from,
                spin: code.spin,
                ..Slice::default()
            });
            slices.len() - 1
        });
        let (slice, row) = (&mut slices[ix], &mut self.sched.threads[at]);
        let cm = ns as f64 / active as f64;
        slice.active_ns += ns;
        slice.cm_ns += cm;
        row.cm_ns += cm;
        add_to(&mut slice.by_active, active, ns);
        if code.spin.is_none() {
            slice.cm_working_ns += ns as f64 / working as f64;
            row.cm_working_ns += ns as f64 / working as f64;
            add_to(&mut slice.by_working, working, ns);
        }
        row.slices += u64::from(begins);
        if on_cpu {
            slice.running_ns += ns;
            row.running_ns += ns;
            row.spinning_ns += if code.spin.is_some() { ns } else { 0 };
        } else {
            row.delayed_ns += ns;
        }
        slice.n = match code.from {
            CodeFrom::Sample => (slice.running_ns / SAMPLE_NS).max(1),
            _ => slice.n + u64::from(begins),
        };
    }

    fn off(&mut self, step: Step, wait: &Wait, piece: Piece) -> OffIx {
        let Step { thread, ns, .. } = step;
        self.sched.threads[step.at].blocked_ns += ns;
        let offs = &mut self.sched.offs;
        let key = (thread, wait.stack, wait.reason, wait.address, wait.name);
        let ix = *self.offs.entry(key).or_insert_with(|| {
            offs.push(OffCpu {
                thread,
                stack: wait.stack,
                reason: wait.reason,
                nr: -1,
                address: wait.address,
                name: wait.name,
                ..OffCpu::default()
            });
            offs.len() - 1
        });
        let row = &mut offs[ix];
        let length = piece.to - piece.from;
        row.sum_ns += ns;
        row.max_ns = row.max_ns.max(length);
        if step.begins {
            row.n += 1;
            row.hist.count(length);
        }
        add_to(&mut row.by_active, step.active, ns);
        add_to(&mut row.by_working, step.working, ns);
        ix as OffIx
    }

    fn wake(
        &mut self,
        step: Step,
        off: OffIx,
        wait: &Wait,
        piece: Piece,
        state: &BTreeMap<ThreadRef, Doing>,
    ) {
        let (who, stack) = match wait.waker {
            Waker::Thread(thread, stack) => (Some(thread), stack),
            _ => (None, 0),
        };
        let wakes = &mut self.sched.wakes;
        let ix = *self.wakes.entry((off, who, stack)).or_insert_with(|| {
            wakes.push(Wake {
                off,
                waker: wait.waker,
                ..Wake::default()
            });
            wakes.len() - 1
        });
        let row = &mut wakes[ix];
        let ns = step.ns;
        row.n += u64::from(step.begins);
        row.wait_ns += ns;
        row.max_ns = row.max_ns.max(piece.to - piece.from);
        match who.and_then(|who| Some((who, *state.get(&who)?))) {
            Some((_, Doing::Run(_))) => row.waker_running_ns += ns,
            Some((_, Doing::Ready(_))) => row.waker_delayed_ns += ns,
            Some((who, Doing::Off(of))) => {
                let key = (who, of.stack, of.reason, of.address, of.name);
                if let Some(&of) = self.offs.get(&key) {
                    match row.waker_off.iter_mut().find(|(ix, _)| *ix == of as OffIx) {
                        Some((_, sum)) => *sum += ns,
                        None => row.waker_off.push((of as OffIx, ns)),
                    }
                }
            }
            None => {}
        }
    }

    fn finish(mut self) -> Sched {
        for wake in &mut self.sched.wakes {
            wake.waker_off
                .sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        }
        for slice in self.sched.slices.iter().filter(|s| s.spin.is_some()) {
            if let Some(spin) = slice
                .spin
                .and_then(|ix| self.sched.loops.get_mut(ix as usize))
            {
                spin.samples += slice.n;
            }
        }
        let top = (0..self.sched.slices.len())
            .max_by(|&a, &b| {
                let cm = |ix: usize| self.sched.slices[ix].cm_ns;
                cm(a).total_cmp(&cm(b))
            })
            .map(|ix| ix as u32);
        for bin in &mut self.sched.bins.bins {
            bin.top = top.filter(|_| bin.active_ns > 0);
        }
        self.sched.timeline = Some(self.timeline());
        self.sched
    }
}

fn add_to(histogram: &mut ByThreads, threads: usize, ns: u64) {
    let mut longer = histogram.to_vec();
    add(&mut longer, threads, ns);
    *histogram = longer.into();
}

fn add(histogram: &mut Vec<u64>, threads: usize, ns: u64) {
    let at = bucket(threads);
    if histogram.len() <= at {
        histogram.resize(at + 1, 0);
    }
    histogram[at] += ns;
}
