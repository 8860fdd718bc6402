//! Scheduler events of a synthetic profile: what each thread does when, and from that every row with its
//! histograms, exactly.

mod timeline;

use std::collections::BTreeMap;

use convoy_profile::{
    bucket, Bin, Bins, ByThreads, CodeFrom, LoopIx, NameIx, OffCpu, OffIx, OffReason, Profile,
    Sched, SchedSource, SchedThread, Slice, SpinKind, SpinLoop, StackIx, ThreadIx, ThreadRef, Wake,
    Waker,
};

/// A sample is taken every 3 ms of CPU time.
const SAMPLE_NS: u64 = 3_000_000;
/// Pieces of the run.
const BINS: u64 = 20;

/// The timelines of threads. Every call appends to one of them; all begin at 0, the start of the run.
#[derive(Debug, Default)]
pub struct Schedule {
    lanes: BTreeMap<ThreadRef, Lane>,
    loops: Vec<SpinLoop>,
    names: Vec<String>,
    process: u32,
}

#[derive(Debug, Default)]
struct Lane {
    now: u64,
    start: u64,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    from: u64,
    to: u64,
    doing: Doing,
}

#[derive(Debug, Clone, Copy)]
enum Doing {
    Run(Code),
    Ready(Code),
    Off(Wait),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Code {
    stack: StackIx,
    from: CodeFrom,
    spin: Option<LoopIx>,
}

impl Code {
    fn new(stack: StackIx, from: CodeFrom, spin: Option<LoopIx>) -> Self {
        Self { stack, from, spin }
    }
}

/// A wait: why, where, for what, and who ends it.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    reason: OffReason,
    stack: StackIx,
    address: u64,
    name: Option<NameIx>,
    waker: Waker,
}

impl Wait {
    /// For this reason, at this place.
    pub fn new(reason: OffReason, stack: StackIx) -> Self {
        Self {
            reason,
            stack,
            address: 0,
            name: None,
            waker: Waker::Interrupt,
        }
    }

    /// On a futex word.
    pub fn futex(stack: StackIx, address: u64) -> Self {
        Self {
            address,
            waker: Waker::Unknown,
            ..Self::new(OffReason::Futex, stack)
        }
    }

    /// For this file.
    pub fn named(self, name: NameIx) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    /// Ended by this thread of the same process, at this place.
    pub fn woken_by(self, thread: ThreadIx, stack: StackIx) -> Self {
        self.woken_from(0, thread, stack)
    }

    /// Ended by a thread of that process.
    pub fn woken_from(self, process: u32, thread: ThreadIx, stack: StackIx) -> Self {
        Self {
            waker: Waker::Thread(ThreadRef { process, thread }, stack),
            ..self
        }
    }
}

impl Schedule {
    /// Nothing happens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What follows is in this process. The first one has number 0.
    pub fn process(&mut self, process: u32) -> &mut Self {
        self.process = process;
        self
    }

    /// A loop that waits.
    pub fn spin_loop(&mut self, kind: SpinKind, frame: Option<u32>) -> LoopIx {
        self.loops.push(SpinLoop {
            process: self.process,
            frame,
            lo: 0x1000,
            hi: 0x1010,
            kind,
            evidence: "mov, cmp, jne".into(),
            samples: 0,
        });
        self.loops.len() as LoopIx - 1
    }

    /// A file, pipe or socket.
    pub fn name(&mut self, name: &str) -> NameIx {
        self.names.push(name.into());
        self.names.len() as NameIx - 1
    }

    /// The thread is first seen at this time.
    pub fn starts(&mut self, thread: ThreadIx, at_ns: u64) -> &mut Self {
        let lane = self.lane(thread);
        lane.now = at_ns;
        lane.start = at_ns;
        self
    }

    /// The thread is on a processor, and samples found it here.
    pub fn runs(&mut self, thread: ThreadIx, stack: StackIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::Sample, None);
        self.add(thread, ns, Doing::Run(code))
    }

    /// The thread is on a processor, too short for a sample: it blocks here at the end.
    pub fn runs_until(&mut self, thread: ThreadIx, stack: StackIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::StackTop, None);
        self.add(thread, ns, Doing::Run(code))
    }

    /// The thread waits on a processor.
    pub fn spins(&mut self, thread: ThreadIx, stack: StackIx, spin: LoopIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::Sample, Some(spin));
        self.add(thread, ns, Doing::Run(code))
    }

    /// The thread could run, and waits for a processor.
    pub fn queues(&mut self, thread: ThreadIx, stack: StackIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::Sample, None);
        self.add(thread, ns, Doing::Ready(code))
    }

    /// The thread waits.
    pub fn waits(&mut self, thread: ThreadIx, wait: Wait, ns: u64) -> &mut Self {
        self.add(thread, ns, Doing::Off(wait))
    }

    fn add(&mut self, thread: ThreadIx, ns: u64, doing: Doing) -> &mut Self {
        let lane = self.lane(thread);
        let from = lane.now;
        lane.now += ns;
        lane.pieces.push(Piece {
            from,
            to: from + ns,
            doing,
        });
        self
    }

    fn lane(&mut self, thread: ThreadIx) -> &mut Lane {
        let process = self.process;
        self.lanes.entry(ThreadRef { process, thread }).or_default()
    }

    /// Adds what happened to a profile.
    pub fn put_into(self, profile: &mut Profile) {
        profile.sched = Some(self.build(profile.meta.start_ns));
    }

    /// The rows of a run that began at this time and ended with the last piece of any thread.
    pub fn build(self, start_ns: u64) -> Sched {
        let end = self.lanes.values().map(|lane| lane.now).max().unwrap_or(0);
        let mut sweep = Sweep::new(&self, start_ns, end);
        let mut times: Vec<u64> = self
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
struct Sweep<'a> {
    lanes: Vec<(ThreadRef, &'a Lane, usize)>,
    sched: Sched,
    slices: BTreeMap<(ThreadRef, Code), usize>,
    offs: BTreeMap<(ThreadRef, StackIx, OffReason, u64, Option<NameIx>), usize>,
    wakes: BTreeMap<(OffIx, Option<ThreadRef>, StackIx), usize>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ms, ProfileBuilder};

    #[test]
    fn rows_follow_from_the_timelines() {
        let mut p = ProfileBuilder::new("app");
        let worker = p.thread("w").id();
        let work = p.site("work", "a.c", 1);
        let join = p.site("join", "a.c", 2);
        let mut s = Schedule::new();
        s.runs(0, work, ms(10));
        s.waits(0, Wait::futex(join, 0x100).woken_by(worker, work), ms(30));
        s.starts(worker, ms(10)).runs(worker, work, ms(30));
        let mut profile = p.build();
        s.put_into(&mut profile);
        let sched = profile.sched.unwrap();
        assert_eq!(sched.active, [0, ms(40)]);
        assert_eq!(sched.threads[0].cm_ns, ms(10) as f64);
        assert_eq!(sched.threads[1].cm_ns, ms(30) as f64);
        assert_eq!(sched.offs[0].by_active[..], [0, ms(30)]);
        assert_eq!(sched.wakes[0].waker_running_ns, ms(30));
        let lanes = sched.timeline.unwrap().lanes;
        let waits = convoy_profile::Doing::Waiting(Some(0));
        assert_eq!(lanes[0].intervals[1].doing, waits);
        assert_eq!(lanes[0].intervals[1].wake, Some(0));
        assert_eq!(
            sched.bins.bins.iter().map(|b| b.active_ns).sum::<u64>(),
            ms(40)
        );
    }

    #[test]
    fn threads_that_spin_are_active_and_do_not_work() {
        let mut s = Schedule::new();
        let spin = s.spin_loop(SpinKind::Pause, None);
        s.runs(0, 1, ms(10));
        s.spins(1, 2, spin, ms(10));
        let sched = s.build(5);
        assert_eq!(sched.active, [0, 0, ms(10)]);
        assert_eq!(sched.working, [0, ms(10)]);
        assert_eq!(sched.threads[0].cm_working_ns, ms(10) as f64);
        assert_eq!(sched.threads[1].cm_working_ns, 0.0);
        assert_eq!(sched.threads[1].spinning_ns, ms(10));
    }
}
