//! The accounting done the slow and obvious way: all periods of all threads are written down, and every
//! figure is a sum over all elementary intervals of time.

use std::collections::BTreeMap;

use convoy_profile::{CodeFrom, OffReason};
use convoy_sched::{Event, Out, Place, State, WakerIs};

#[derive(Debug, Clone, PartialEq)]
enum Does {
    Off(Place),
    Ready(Option<Place>),
    Running,
    Nothing,
}

#[derive(Debug, Clone)]
struct Period {
    from: u64,
    to: u64,
    does: Does,
}

/// By thread, stack, origin and loop.
pub type SliceKey = (usize, u32, CodeFrom, Option<u32>);
/// By thread, stack and reason.
pub type OffKey = (usize, u32, OffReason);

#[derive(Debug, Default, Clone, PartialEq)]
pub struct SliceSum {
    pub n: u64,
    pub active_ns: u64,
    pub running_ns: u64,
    pub cm_ns: f64,
    pub cm_working_ns: f64,
    pub by_active: BTreeMap<usize, u64>,
    pub by_working: BTreeMap<usize, u64>,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub struct OffSum {
    pub n: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub unfinished_ns: u64,
    pub by_active: BTreeMap<usize, u64>,
    pub by_working: BTreeMap<usize, u64>,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub struct WakeSum {
    pub n: u64,
    pub wait_ns: u64,
    pub max_ns: u64,
    pub running_ns: u64,
    pub delayed_ns: u64,
    pub off: BTreeMap<OffKey, u64>,
}

/// Who woke: index of the life, and its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Unknown,
    Interrupt,
    Life(usize, u32),
    Outside(u32),
}

#[derive(Debug, Default)]
pub struct Truth {
    pub slices: BTreeMap<SliceKey, SliceSum>,
    pub offs: BTreeMap<OffKey, OffSum>,
    pub wakes: BTreeMap<(OffKey, By), WakeSum>,
    /// Per life.
    pub spinning_ns: Vec<u64>,
}

/// A piece of a slice.
struct Part {
    life: usize,
    from: u64,
    to: u64,
    /// Known when it ends.
    key: SliceKey,
    /// It is the last of its slice, and its code that of an earlier sample.
    tail: bool,
}

struct Wakeup {
    life: usize,
    place: Place,
    from: u64,
    to: u64,
    by: By,
    /// Periods of the waker that had begun.
    known: usize,
}

#[derive(Default)]
struct Life {
    periods: Vec<Period>,
    /// From, to.
    spins: Vec<(u64, u64)>,
    part_from: u64,
    sampled: Option<(u32, Option<u32>)>,
}

impl Life {
    fn turn(&mut self, ts: u64, does: Does) {
        if let Some(last) = self.periods.last_mut() {
            last.to = ts;
        }
        self.periods.push(Period {
            from: ts,
            to: ts,
            does,
        });
    }

    fn does(&self) -> Does {
        self.periods
            .last()
            .map_or(Does::Nothing, |p| p.does.clone())
    }

    fn spinning(&self) -> bool {
        self.spins.last().is_some_and(|s| s.1 == u64::MAX)
    }

    fn stop_spinning(&mut self, ts: u64) {
        if let Some(spin) = self.spins.last_mut().filter(|s| s.1 == u64::MAX) {
            spin.1 = ts;
        }
    }
}

/// How many of `0..n` hold, per elementary interval.
struct Elementary {
    times: Vec<u64>,
    active: Vec<usize>,
    working: Vec<usize>,
}

pub fn truth(events: &[Event], end: u64, sample_period_ns: u64) -> Truth {
    let mut lives: Vec<Life> = Vec::new();
    let mut tids: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut parts, mut wakeups) = (Vec::new(), Vec::new());
    for event in events {
        tell(event, &mut lives, &mut tids, &mut parts, &mut wakeups);
    }
    let mut times: Vec<u64> = events.iter().map(Event::ts).chain([end]).collect();
    times.dedup();
    let mut unfinished = Vec::new();
    for (i, life) in lives.iter_mut().enumerate() {
        match life.does() {
            Does::Nothing => continue,
            Does::Off(place) => unfinished.push((i, place)),
            Does::Ready(place) => {
                unfinished.extend(place.map(|p| (i, p)));
                close(i, life, end, 0, &mut parts);
            }
            Does::Running => close(i, life, end, 0, &mut parts),
        }
        life.turn(end, Does::Nothing);
    }
    let e = count(times, &lives);
    let mut t = Truth {
        spinning_ns: vec![0; lives.len()],
        ..Truth::default()
    };
    for part in &parts {
        sum_part(part, &lives[part.life], &e, sample_period_ns, &mut t);
    }
    for (i, life) in lives.iter().enumerate() {
        sum_offs(i, life, end, &unfinished, &e, &mut t);
    }
    for w in &wakeups {
        sum_wakeup(w, &lives, &mut t);
    }
    t
}

fn tell(
    event: &Event,
    lives: &mut Vec<Life>,
    tids: &mut BTreeMap<u32, usize>,
    parts: &mut Vec<Part>,
    wakeups: &mut Vec<Wakeup>,
) {
    let ts = event.ts();
    match event {
        Event::Init { tid, state, .. } => {
            tids.insert(*tid, lives.len());
            let mut life = Life {
                part_from: ts,
                ..Life::default()
            };
            match state {
                State::Running => {
                    life.turn(ts, Does::Ready(None));
                    life.turn(ts, Does::Running);
                }
                State::Ready => life.turn(ts, Does::Ready(None)),
                State::Blocked(place) => life.turn(ts, Does::Off(place.clone())),
            }
            lives.push(life);
        }
        Event::Fork { tid, .. } => {
            tids.insert(*tid, lives.len());
            lives.push(Life::default());
        }
        Event::Exit { tid, .. } => {
            let i = tids[tid];
            close(i, &mut lives[i], ts, 0, parts);
            lives[i].turn(ts, Does::Nothing);
        }
        Event::Wakeup { tid, waker, .. } => {
            let i = tids[tid];
            if let Does::Off(place) = lives[i].does() {
                let by = match waker {
                    WakerIs::Unknown => By::Unknown,
                    WakerIs::Interrupt => By::Interrupt,
                    WakerIs::Thread(by, _) if by == tid => By::Interrupt,
                    WakerIs::Thread(by, stack) => match tids.get(by) {
                        Some(&by) => By::Life(by, *stack),
                        None => By::Outside(*by),
                    },
                };
                wakeups.push(Wakeup {
                    life: i,
                    place,
                    from: lives[i].periods.last().unwrap().from,
                    to: ts,
                    by,
                    known: match by {
                        By::Life(by, _) => lives[by].periods.len(),
                        _ => 0,
                    },
                });
            }
            lives[i].part_from = ts;
            lives[i].turn(ts, Does::Ready(None));
        }
        Event::In { tid, .. } => {
            let life = &mut lives[tids[tid]];
            if !matches!(life.does(), Does::Ready(_)) {
                life.part_from = ts;
                life.turn(ts, Does::Ready(None));
            }
            life.turn(ts, Does::Running);
        }
        Event::Out { tid, how, .. } => {
            let i = tids[tid];
            match how {
                Out::Preempted(place) => lives[i].turn(ts, Does::Ready(Some(place.clone()))),
                Out::Blocked(place) => {
                    close(i, &mut lives[i], ts, place.stack, parts);
                    lives[i].turn(ts, Does::Off(place.clone()));
                }
                Out::Dead => unreachable!("not drawn"),
            }
        }
        Event::Sample {
            tid, stack, spin, ..
        } => {
            let i = tids[tid];
            let life = &mut lives[i];
            parts.push(Part {
                life: i,
                from: life.part_from,
                to: ts,
                key: (i, *stack, CodeFrom::Sample, *spin),
                tail: false,
            });
            life.part_from = ts;
            life.sampled = Some((*stack, *spin));
            if spin.is_none() {
                life.stop_spinning(ts);
            } else if !life.spinning() {
                life.spins.push((ts, u64::MAX));
            }
        }
        Event::Exec { .. } | Event::Lost { .. } => unreachable!("not drawn"),
    }
}

fn close(i: usize, life: &mut Life, ts: u64, stack: u32, parts: &mut Vec<Part>) {
    let sampled = life.sampled.take();
    let from = match stack {
        0 => CodeFrom::Unknown,
        _ => CodeFrom::StackTop,
    };
    parts.push(Part {
        life: i,
        from: life.part_from,
        to: ts,
        key: sampled.map_or((i, stack, from, None), |(stack, spin)| {
            (i, stack, CodeFrom::Sample, spin)
        }),
        tail: sampled.is_some(),
    });
    life.stop_spinning(ts);
}

fn count(times: Vec<u64>, lives: &[Life]) -> Elementary {
    let (mut active, mut working) = (Vec::new(), Vec::new());
    for pair in times.windows(2) {
        let inside = |from: u64, to: u64| from <= pair[0] && pair[1] <= to;
        let is_active = |l: &&Life| {
            l.periods
                .iter()
                .any(|p| inside(p.from, p.to) && matches!(p.does, Does::Running | Does::Ready(_)))
        };
        let spins = |l: &&Life| l.spins.iter().any(|s| inside(s.0, s.1));
        active.push(lives.iter().filter(is_active).count());
        let works = lives.iter().filter(is_active).filter(|l| !spins(l));
        working.push(works.count());
    }
    Elementary {
        times,
        active,
        working,
    }
}

impl Elementary {
    /// Length, active threads and working threads of the intervals within.
    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, usize, usize)> + '_ {
        let first = self.times.partition_point(|&t| t < from);
        let last = self.times.partition_point(|&t| t < to);
        (first..last).map(|k| {
            let ns = self.times[k + 1] - self.times[k];
            (ns, self.active[k], self.working[k])
        })
    }
}

fn covered(from: u64, to: u64, p: &Period) -> u64 {
    p.to.min(to).saturating_sub(p.from.max(from))
}

fn sum_part(part: &Part, life: &Life, e: &Elementary, period_ns: u64, t: &mut Truth) {
    let running = life.periods.iter().filter(|p| p.does == Does::Running);
    let running_ns: u64 = running.map(|p| covered(part.from, part.to, p)).sum();
    // Up to its end it is one or the other: only samples change it.
    let was_spinning = life
        .spins
        .iter()
        .any(|s| s.0 <= part.from && part.to <= s.1 && part.from < part.to);
    let row = t.slices.entry(part.key).or_default();
    row.n += u64::from(!part.tail);
    row.running_ns += running_ns;
    for (ns, active, working) in e.within(part.from, part.to) {
        row.active_ns += ns;
        row.cm_ns += ns as f64 / active as f64;
        *row.by_active.entry(active).or_default() += ns;
        if !was_spinning {
            row.cm_working_ns += ns as f64 / working as f64;
            *row.by_working.entry(working).or_default() += ns;
        }
    }
    t.spinning_ns[part.life] += match (part.key.3.is_some(), was_spinning) {
        (true, false) => running_ns.min(period_ns),
        (true, true) => running_ns,
        (false, _) => 0,
    };
}

fn sum_offs(
    i: usize,
    life: &Life,
    end: u64,
    unfinished: &[(usize, Place)],
    e: &Elementary,
    t: &mut Truth,
) {
    for p in &life.periods {
        let (Does::Off(place) | Does::Ready(Some(place))) = &p.does else {
            continue;
        };
        let row = t.offs.entry((i, place.stack, place.reason)).or_default();
        row.n += 1;
        row.sum_ns += p.to - p.from;
        row.max_ns = row.max_ns.max(p.to - p.from);
        if p.to == end && unfinished.iter().any(|u| u.0 == i) {
            row.unfinished_ns += p.to - p.from;
        }
        for (ns, active, working) in e.within(p.from, p.to) {
            *row.by_active.entry(active).or_default() += ns;
            *row.by_working.entry(working).or_default() += ns;
        }
    }
}

fn sum_wakeup(w: &Wakeup, lives: &[Life], t: &mut Truth) {
    let off = (w.life, w.place.stack, w.place.reason);
    let row = t.wakes.entry((off, w.by)).or_default();
    row.n += 1;
    row.wait_ns += w.to - w.from;
    row.max_ns = row.max_ns.max(w.to - w.from);
    let By::Life(by, _) = w.by else { return };
    for p in lives[by].periods[..w.known].iter().rev().take(64) {
        let ns = covered(w.from, w.to, p);
        match &p.does {
            Does::Running => row.running_ns += ns,
            Does::Ready(_) => row.delayed_ns += ns,
            Does::Off(place) if ns > 0 => {
                *row.off.entry((by, place.stack, place.reason)).or_default() += ns;
            }
            Does::Off(_) | Does::Nothing => {}
        }
    }
}
