//! What a run would be if threads that wait in loops left their CPUs to those that wait for one.
//!
//! Piece by piece of the run. Where nobody waits for a CPU, threads that spin take nothing from anybody, and the
//! piece stays as it is. Where CPUs are short, its threads had `running` CPUs, and only what was no busy waiting of
//! that was work. The same work needs `work / rate`, where the rate is how many of those CPUs work can use: all of
//! them at most, one at least, and as many as threads were at work (with a CPU or waiting for one) in between.
//!
//! Threads that give way in their loops (`sched_yield()`) leave CPUs to other programs, too, so that who is waited for gets his
//! when those have had their turn. What the threads had is then less than what work would get, which does not give way.

use convoy_model::{Bin, OffCpu, OffReason};

use crate::facts::concurrency::levels;
use crate::facts::run_view::RunView;

/// Part of the CPUs that were left to others by giving way which work is expected to get: they share them then.
const GIVEN_BACK: f64 = 0.5;

/// Wall time that a run loses to threads that spin while CPUs are short, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Loss {
    /// If what is at work at each time can go on, one after the other.
    pub(crate) least: f64,
    /// If the threads at work go on together.
    pub(crate) expected: f64,
    /// If all CPUs that the run had do work.
    pub(crate) most: f64,
    /// Thread time that waited for a CPU, whether there was work to do or not.
    pub(crate) delayed: f64,
    /// Mean number of threads without a CPU while CPUs were short.
    pub(crate) without: f64,
    /// Wall time in which CPUs were short.
    pub(crate) short: f64,
    /// CPU time that may be taken for work by bad luck, as it is sampled.
    pub(crate) luck: f64,
}

/// The loss of all loops together.
pub(crate) fn loss(view: &RunView) -> Loss {
    let width = view.sched.bin_width_ns as f64;
    let given = given_way(view);
    let bins = || {
        let bins = view.sched.bins.iter();
        bins.map(|bin| Piece::of(bin, width, view.cpus))
    };
    let raw: f64 = bins().map(|p| p.work).sum();
    let work = view.cpu_work;
    // What of the CPU time was work is known for the whole run only; sampled, so that a little of it is luck.
    let luck = (work * view.sched.sample_period_ns as f64).sqrt();
    let scaled = |work: f64| if raw > 0.0 { work / raw } else { 0.0 };
    let (few, mid, many) = (
        scaled((work - 2.0 * luck).max(0.0)),
        scaled(work + luck),
        scaled(work + 2.0 * luck),
    );
    let mut loss = Loss {
        luck: 2.0 * luck,
        ..Loss::default()
    };
    for piece in bins() {
        loss.least += piece.lost(many, 1.0, 0.0);
        loss.expected += piece.lost(mid, piece.working.max(1.0), GIVEN_BACK * given);
        loss.most += piece.lost(few, f64::INFINITY, given);
        loss.delayed += piece.without * width;
        loss.short += piece.short * width;
    }
    loss.without = loss.delayed / loss.short.max(1.0);
    let own = own_share(view, loss.delayed);
    loss.least *= own;
    loss.expected *= own.max(given);
    loss
}

/// Share of the time that threads were without a CPU that there were more of them than CPUs. Otherwise other programs had
/// theirs: whether these have anything to do with the program (the clients of a server), or will be there again, nobody knows.
fn own_share(view: &RunView, delayed: f64) -> f64 {
    if !view.cpus.is_finite() {
        return 1.0;
    }
    let beyond = |(n, ns): (f64, f64)| (n - view.cpus).max(0.0) * ns;
    let by_level: f64 = levels(&view.sched.active).map(beyond).sum();
    // Of many threads the histogram knows no exact number; the pieces do, in the mean.
    let width = view.sched.bin_width_ns as f64;
    let bins = view.sched.bins.iter();
    let by_piece: f64 = bins
        .map(|bin| beyond((bin.active_ns as f64 / width.max(1.0), width)))
        .sum();
    (by_level.max(by_piece) / delayed.max(1.0)).min(1.0)
}

/// Share of the time that threads were without a CPU that they gave it away themselves: of those that spin, who would otherwise be
/// waited for.
fn given_way(view: &RunView) -> f64 {
    /// sched_yield() on x86-64 and on aarch64.
    const YIELDS: [i16; 2] = [24, 124];
    if !view.cpus.is_finite() {
        return 0.0;
    }
    let ready =
        |off: &&OffCpu| off.reason == OffReason::Preempted && view.spun.contains_key(&off.thread);
    let ready = view.sched.offs.iter().filter(ready);
    let (all, given) = ready.fold((0.0, 0.0), |(all, given), off| {
        let ns = off.sum_ns as f64;
        let yields = YIELDS.contains(&off.nr);
        (all + ns, given + if yields { ns } else { 0.0 })
    });
    given / f64::max(all, 1.0)
}

/// A piece of the run: means over its width.
#[derive(Debug, Clone, Copy)]
struct Piece {
    width: f64,
    /// CPUs that it had.
    running: f64,
    /// CPUs that its threads could have had, if no other program wanted them.
    could: f64,
    /// Threads at work, with a CPU or without.
    working: f64,
    /// Threads without a CPU.
    without: f64,
    /// Share of its time in which CPUs were short.
    short: f64,
    /// CPU time that was work, if those at work and those that spin got the same share of it.
    work: f64,
}

impl Piece {
    fn of(bin: &Bin, width: f64, cpus: f64) -> Self {
        let mean = |ns: u64| ns as f64 / width.max(1.0);
        let (active, running) = (mean(bin.active_ns), mean(bin.running_ns));
        let working = mean(bin.working_ns).min(active);
        let without = (active - running).max(0.0);
        let at_work = if active > 0.0 { working / active } else { 0.0 };
        Self {
            width,
            running,
            could: active.min(cpus).max(running),
            working,
            without,
            short: without.min(1.0),
            work: running * at_work * width,
        }
    }

    /// Wall time that goes if its work, so many times what it seems, goes on at `rate` CPUs: of those that it had, and this share of
    /// those that were given away.
    fn lost(&self, times: f64, rate: f64, back: f64) -> f64 {
        let rate = rate.min(self.running + back * (self.could - self.running));
        if self.short <= 0.0 || rate <= 0.0 {
            return 0.0;
        }
        let needs = self.work * times / rate;
        self.short * (self.width - needs).max(0.0)
    }
}
