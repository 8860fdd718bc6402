//! What threads did when, for tools that draw it.

use convoy_model::{
    Doing, Interval, Lane, Model, OffCpu, Sched, SiteId, ThreadId, Timeline, Wake, Waker,
};

use crate::waits::off_frame;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// On a processor.
    Running,
    /// On a processor, in a loop that waits.
    Spinning,
    /// Could run and has no processor: woken, or taken off one.
    Ready,
    /// Waits for something that other threads give.
    Waiting,
    /// Waits for a device, a time, another process.
    Blocked,
}

/// A time in which a thread did one thing, or mainly one thing.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Begin, monotonic.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// What it did.
    pub state: State,
    /// It was taken off a processor, and not woken.
    pub preempted: bool,
    /// Where; `None` = unknown.
    pub site: Option<SiteId>,
    /// The row of a wait.
    pub off: Option<&'a OffCpu>,
    /// Who ended the wait, and where that one was.
    pub wake: Option<&'a Wake>,
    /// It stands for several short ones.
    pub mixed: bool,
}

impl Moment<'_> {
    /// Its length.
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The thread that ended the wait, and where it was.
    pub fn waker(&self) -> Option<(ThreadId, Option<SiteId>)> {
        match self.wake?.waker {
            Waker::Thread(thread, site) => Some((thread, site)),
            _ => None,
        }
    }

    /// Who ended the wait, in words.
    pub fn waker_name(&self, model: &Model) -> String {
        match self.wake.map(|wake| wake.waker) {
            Some(Waker::Thread(thread, _)) => crate::stacks::thread_name(model, thread),
            Some(Waker::Interrupt) => "an interrupt: a timer or a device".into(),
            Some(Waker::Outside(tid)) => format!("thread {tid}, not recorded"),
            Some(Waker::Unknown) | None => "not known".into(),
        }
    }

    /// What is waited for: `mutex cache_lock`, `file data.db`, `sleep`; empty for what is no wait.
    pub fn object(&self, model: &Model) -> String {
        let waits = matches!(self.state, State::Waiting | State::Blocked);
        match self.off {
            Some(off) if waits => {
                let frame = off_frame(model, off);
                frame.trim_matches(['[', ']']).to_owned()
            }
            None if waits => "something".into(),
            _ => String::new(),
        }
    }
}

/// The timeline, if there is one with lanes in it.
pub fn timeline(model: &Model) -> Option<(&Sched, &Timeline)> {
    let sched = model.sched.as_ref()?;
    let timeline = sched.timeline.as_ref()?;
    (!timeline.lanes.is_empty()).then_some((sched, timeline))
}

/// The moments of one lane, in order.
pub fn moments<'a>(sched: &'a Sched, lane: &'a Lane) -> impl Iterator<Item = Moment<'a>> {
    lane.intervals
        .iter()
        .map(|interval| moment(sched, interval))
}

fn moment<'a>(sched: &'a Sched, interval: &Interval) -> Moment<'a> {
    let slice_site = |row: Option<u32>| sched.slices.get(row? as usize)?.site;
    let off = |row: Option<u32>| sched.offs.get(row? as usize);
    let (state, site, row) = match interval.doing {
        Doing::Running(row) => (State::Running, slice_site(row), None),
        Doing::Spinning(row) => (State::Spinning, slice_site(row), None),
        Doing::Woken => (State::Ready, None, None),
        Doing::Preempted(row) => (State::Ready, off(row).and_then(|o| o.site), off(row)),
        Doing::Waiting(row) => {
            let row = off(row);
            let futex = convoy_model::OffReason::Futex;
            let for_others = row.is_some_and(|o| o.reason == futex || o.object.is_some());
            let state = if for_others {
                State::Waiting
            } else {
                State::Blocked
            };
            (state, row.and_then(|o| o.site), row)
        }
    };
    Moment {
        start_ns: interval.start_ns,
        end_ns: interval.end_ns.max(interval.start_ns),
        state,
        preempted: matches!(interval.doing, Doing::Preempted(_)),
        site,
        off: row,
        wake: interval.wake.and_then(|ix| sched.wakes.get(ix as usize)),
        mixed: interval.mix.is_some(),
    }
}

/// Why there is nothing to write: this, or what was not recorded.
pub fn nothing(model: &Model, otherwise: &str) -> Vec<String> {
    let missing = model.meta.collectors.iter().filter(|c| !c.active);
    let mut remarks = vec![otherwise.to_owned()];
    remarks.extend(missing.map(|c| match c.enable.is_empty() {
        true => format!("not recorded, for want of the {}: {}", c.name, c.lost),
        false => format!(
            "not recorded, for want of the {}: {}; to enable: {}",
            c.name, c.lost, c.enable
        ),
    }));
    remarks
}

/// What to say when there is no timeline, or not all of one.
pub fn remarks(model: &Model) -> Vec<String> {
    let Some((_, timeline)) = timeline(model) else {
        return vec![
            "the profile has no timeline (recorded without scheduler events, or with --timeline-events 0): \
             written is what there is, threads with sums and counters over time"
                .into(),
        ];
    };
    let mut remarks = Vec::new();
    if timeline.merged_below_ns > 0 {
        remarks.push(format!(
            "what lasted less than {} was joined with its neighbours when it was recorded; record with more \
             --timeline-events to keep it",
            convoy_report::human::duration(timeline.merged_below_ns as f64)
        ));
    }
    if timeline.threads_left_out > 0 {
        remarks.push(format!(
            "{} threads have no lane: there were more than --timeline-events",
            timeline.threads_left_out
        ));
    }
    remarks
}
