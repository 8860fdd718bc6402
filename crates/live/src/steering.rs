//! Changes of a session's probes: counters go in, timers follow, what is too expensive goes out.

use crate::curve::Notice;
use crate::governor::{Change, Load};
use crate::probe::Probes;
use crate::row::{NoTimer, Row, RowId, State};
use crate::session::{Session, TRIAL_MS};
use convoy_probes::{Inserted, Measure, Probe, Refusal, ROWS};

impl Session {
    /// A number in the table that no row has. They are used in turn: a thread may still be on its
    /// way through a probe that was taken out.
    fn fresh_number(&mut self) -> Option<u32> {
        let used: Vec<u32> = self
            .rows
            .values()
            .filter(|row| row.is_in())
            .map(|row| row.number)
            .collect();
        let start = self.next_number;
        let free = (0..ROWS)
            .map(|n| (start + n) % ROWS)
            .find(|n| !used.contains(n))?;
        self.next_number = (free + 1) % ROWS;
        Some(free)
    }

    /// Puts counters in for rows that have none.
    pub(crate) fn insert_new(&mut self, probes: &mut dyn Probes) -> Result<(), Refusal> {
        let new = self.rows.iter().filter(|(_, row)| row.state == State::New);
        let new: Vec<(RowId, Measure)> = new.map(|(id, _)| (*id, Measure::Calls)).collect();
        self.insert(probes, &new)
    }

    /// Puts probes in, all at once.
    fn insert(
        &mut self,
        probes: &mut dyn Probes,
        wanted: &[(RowId, Measure)],
    ) -> Result<(), Refusal> {
        let mut asked: Vec<(RowId, Measure)> = Vec::new();
        let mut requests: Vec<Probe> = Vec::new();
        for (id, measure) in wanted {
            let outer = self.rows.get(id).and_then(|row| row.gate.within);
            let outer = outer.and_then(|id| self.rows.get(&id));
            let within = outer.filter(|row| row.state == State::Timing);
            let within = within.map(|row| row.number);
            let Some(number) = self.fresh_number() else {
                return Err(Refusal::new(
                    format!("all {ROWS} rows of the table of probes are in use"),
                    "remove some metrics first",
                ));
            };
            if let Some(row) = self.rows.get_mut(id) {
                requests.push(row.probe(number, *measure, within));
                row.state = State::Counting; // its number is taken
                asked.push((*id, *measure));
            }
        }
        if requests.is_empty() {
            return Ok(());
        }
        let answers = probes.insert(&requests).inspect_err(|refusal| {
            let ids = asked.iter().map(|(id, _)| *id).collect();
            self.lose(ids, &refusal.found);
        })?;
        let now_ms = probes.now_ms();
        for ((id, measure), answer) in asked.into_iter().zip(answers) {
            self.answered(id, measure, answer, now_ms);
        }
        Ok(())
    }

    fn lose(&mut self, ids: Vec<RowId>, why: &str) {
        for id in ids {
            if let Some(row) = self.rows.get_mut(&id) {
                row.state = State::Out { why: why.into() };
            }
        }
    }

    fn answered(&mut self, id: RowId, measure: Measure, answer: Inserted, now_ms: u64) {
        let Some(row) = self.rows.get_mut(&id) else {
            return;
        };
        let name = row.function.name.clone();
        match answer {
            Inserted::Whole => {
                let state = match measure {
                    Measure::Calls => State::Counting,
                    Measure::Time => State::Timing,
                };
                row.began(state, now_ms);
            }
            Inserted::CallsOnly { why } => {
                row.began(State::Counting, now_ms);
                row.no_timer = Some(NoTimer::Impossible(why.clone()));
                self.notices.push(Notice {
                    found: format!("{name} cannot be timed: {why}"),
                    effect: "only its calls are counted".into(),
                    is_fatal: false,
                });
            }
            Inserted::Uprobe { why, call_ns } => {
                row.began(State::Counting, now_ms);
                row.uprobe_ns = Some(call_ns as f64);
                row.no_timer = Some(NoTimer::Impossible(why.clone()));
                let us = call_ns as f64 / 1e3;
                self.notices.push(Notice {
                    found: format!("{name} cannot be probed by a jump: {why}"),
                    effect: format!("a uprobe of the kernel counts its calls, {us} us each"),
                    is_fatal: false,
                });
            }
            Inserted::No { why } => {
                row.state = State::Out { why: why.clone() };
                self.notices.push(Notice {
                    found: format!("{name} cannot be probed: {why}"),
                    effect: "nothing is known of its calls".into(),
                    is_fatal: true,
                });
            }
        }
    }

    pub(crate) fn govern(&mut self, probes: &mut dyn Probes, now_ms: u64) -> Result<(), Refusal> {
        let is_ready = |row: &Row| row.is_in() && now_ms >= row.inserted_ms + TRIAL_MS;
        let rows = self.rows.iter().filter(|(_, row)| is_ready(row));
        let mut ids = Vec::new();
        let mut loads = Vec::new();
        for (number, (id, row)) in (0..).zip(rows) {
            let seconds = self.seconds(row, now_ms);
            // A decision is about what goes on now.
            let rate = match seconds * 1e3 >= TRIAL_MS as f64 {
                true => row.recent_rate(seconds),
                false => row.rate(now_ms),
            };
            ids.push(*id);
            loads.push(Load {
                row: number,
                rate,
                call_ns: row.uprobe_ns,
                measure: row.measure(),
                wants_timer: row.timer_users > 0
                    && !matches!(row.no_timer, Some(NoTimer::Impossible(_))),
                was_too_expensive: matches!(row.no_timer, Some(NoTimer::Expensive(_))),
            });
        }
        let changes = self.governor.decide(&loads, self.cpu);
        let of = |number: u32| ids.get(number as usize).copied();
        let mut again: Vec<(RowId, Measure)> = Vec::new();
        let mut out: Vec<RowId> = Vec::new();
        for change in changes {
            match change {
                Change::Time { row } => {
                    again.extend(of(row).map(|id| (id, Measure::Time)));
                }
                Change::Count { row, share } => {
                    let Some(id) = of(row) else { continue };
                    if self.is_now_too_expensive(id, share) {
                        again.push((id, Measure::Calls));
                    }
                }
                Change::Out { row, share } => {
                    let Some(id) = of(row) else { continue };
                    out.push(id);
                    self.goes_out(id, share);
                }
            }
        }
        for (id, load) in ids.iter().zip(&loads) {
            if let Some(row) = self.rows.get_mut(id).filter(|row| !row.is_confined) {
                row.gross_rate = Some(load.rate);
            }
        }
        self.take_out(probes, &out)?;
        self.change(probes, again)?;
        self.confine(probes)
    }

    /// Notes that a timer is too expensive; whether there is one.
    fn is_now_too_expensive(&mut self, id: RowId, share: f64) -> bool {
        let budget = percent(self.governor.budget);
        let Some(row) = self.rows.get_mut(&id) else {
            return false;
        };
        let (name, cost) = (&row.function.name, percent(share));
        let why = format!("a timer costs {cost}, more than the budget of {budget} allows");
        if row.no_timer.is_none() {
            self.notices.push(Notice {
                found: format!("timing {name} costs {cost} of the program's CPU time"),
                effect: format!("only its calls are counted: the budget is {budget}"),
                is_fatal: false,
            });
        }
        row.no_timer = Some(NoTimer::Expensive(why));
        row.state == State::Timing
    }

    fn goes_out(&mut self, id: RowId, share: f64) {
        let budget = percent(self.governor.budget);
        let Some(row) = self.rows.get(&id) else {
            return;
        };
        self.notices.push(Notice {
            found: format!(
                "counting the calls of {} costs {} of the program's CPU time",
                row.function.name,
                percent(share)
            ),
            effect: format!("the probe is out again: the budget is {budget}"),
            is_fatal: false,
        });
    }

    /// Takes rows out for good, and those that are confined to them.
    fn take_out(&mut self, probes: &mut dyn Probes, ids: &[RowId]) -> Result<(), Refusal> {
        let is_out = |id: &RowId, row: &Row| {
            ids.contains(id) || row.gate.within.is_some_and(|outer| ids.contains(&outer))
        };
        let rows = self.rows.iter_mut();
        let out = rows.filter(|(id, row)| row.is_in() && is_out(id, row));
        let out: Vec<&mut Row> = out.map(|(_, row)| row).collect();
        if out.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u32> = out.iter().map(|row| row.number).collect();
        probes.remove(&numbers)?;
        for row in out {
            row.state = State::Out {
                why: "counting its calls costs more than the budget allows".into(),
            };
        }
        Ok(())
    }

    /// Replaces probes by others of the same functions; rows that are confined to them follow.
    fn change(
        &mut self,
        probes: &mut dyn Probes,
        mut wanted: Vec<(RowId, Measure)>,
    ) -> Result<(), Refusal> {
        let inner = self.rows.iter().filter(|(id, row)| {
            let outer = row.gate.within;
            row.is_in()
                && wanted.iter().all(|(other, _)| other != *id)
                && wanted.iter().any(|(other, _)| Some(*other) == outer)
        });
        let inner: Vec<(RowId, Measure)> = inner.map(|(id, row)| (*id, row.measure())).collect();
        wanted.extend(inner);
        let numbers = wanted.iter().filter_map(|(id, _)| self.rows.get(id));
        let numbers: Vec<u32> = numbers.map(|row| row.number).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        probes.remove(&numbers)?;
        for (id, measure) in &wanted {
            if let (Some(row), Measure::Time) = (self.rows.get_mut(id), measure) {
                row.no_timer = None;
            }
        }
        // What is confined to another row goes in when that one times.
        let is_outer = |id: &RowId| {
            let row = self.rows.get(id);
            row.is_some_and(|row| row.gate.within.is_none())
        };
        let (outer, inner): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(id, _)| is_outer(id));
        self.insert(probes, &outer)?;
        self.insert(probes, &inner)
    }

    /// Gives rows their gates: those of which all calls were counted by now, and those inside of a
    /// function that is timed now.
    fn confine(&mut self, probes: &mut dyn Probes) -> Result<(), Refusal> {
        let timed = |row: &Row| {
            let outer = self.rows.get(&row.gate.within?)?;
            (outer.state == State::Timing).then_some(outer.number)
        };
        let waiting = self
            .rows
            .iter()
            .filter(|(_, row)| row.is_in() && !row.is_confined && row.can_confine(timed(row)));
        let waiting: Vec<(RowId, Measure)> =
            waiting.map(|(id, row)| (*id, row.measure())).collect();
        self.change(probes, waiting)
    }
}

/// A share in percent, two significant digits.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p >= 10.0 => format!("{p:.0} %"),
        p => format!("{p:.1} %"),
    }
}
