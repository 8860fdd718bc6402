//! The code of the probed process: its modules, the functions that are or were probed, and their
//! stubs.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use convoy_probes::relocate::{near_jump, PATCH_BYTES};
use convoy_probes::sites::{choose, Site};
use convoy_probes::stub::Context;
use convoy_probes::{table, FastCount, Module, FAST_COUNT_BYTES};

use super::area::{bytes_for, stub_bytes, Area, Patch, Session};
use super::borrow::map_code;
use super::modules;
use super::patching::Changes;
use crate::gadgets::Found;
use crate::memory::REACH;
use crate::memory::{regions, Memory, Region};
use convoy_probes::Measure;
use convoy_probes::Refusal;

/// Least bytes of a new area.
const AREA_BYTES: u64 = 1 << 20;
/// Bytes of a stub, at most: of the calls, and of each displaced instruction.
const MAX_CALL_BYTES: u64 = 128;
const MAX_STEP_BYTES: u64 = 40;

/// A function that can be probed.
#[derive(Debug, Clone)]
pub(super) struct KnownFunction {
    pub number: u32,
    /// Its entry alone.
    calls: Option<Patch>,
    /// Its entry and its other exits; `Err` = why they cannot be patched.
    timed: Option<Result<(Patch, Vec<Patch>), String>>,
    /// What is in now.
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Out,
    Calls,
    Timed,
}

/// A function as a probe gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub start: u64,
    pub number: u32,
    pub is_timed: bool,
    /// Why its time is not measured, though that was asked for.
    pub why: Option<String>,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Code {
    pid: u32,
    modules: Vec<(Range<u64>, Module)>,
    functions: HashMap<u64, KnownFunction>,
    /// Starts by number.
    by_number: Vec<u64>,
    /// How calls of a function are counted that is not timed.
    fast: Option<FastCount>,
    areas: Vec<Area>,
    /// Modules that no more areas can be mapped for, and why: asking again would stop a thread for
    /// each function.
    no_room: HashMap<usize, String>,
    /// Patches of all known functions, and whose they are: two must not overlap.
    taken: BTreeMap<u64, u64>,
}

impl Code {
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            modules: Vec::new(),
            functions: HashMap::new(),
            by_number: Vec::new(),
            fast: None,
            areas: Vec::new(),
            no_room: HashMap::new(),
            taken: BTreeMap::new(),
        }
    }

    /// The table is there.
    pub fn counts_into(&mut self, columns: u64, tid_offset: i64) {
        self.fast = FastCount::of(columns, tid_offset);
    }

    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Writes the stubs of functions, which nobody uses yet.
    pub fn prepare<'a>(
        &mut self,
        memory: &Memory,
        (found, session): (&Found, &Session),
        functions: impl Iterator<Item = (&'a Range<u64>, Measure)>,
    ) -> Result<Vec<Result<Known, String>>, Refusal> {
        let regions = regions(self.pid).map_err(|_| Refusal::gone(self.pid))?;
        self.no_room.clear();
        let mut results = Vec::new();
        for (function, measure) in functions {
            let needs = (memory, found, session, &regions[..]);
            results.push(self.know(needs, function, measure)?);
        }
        Ok(results)
    }

    /// The outer error ends everything, the inner one is about this function.
    fn know(
        &mut self,
        needs: (&Memory, &Found, &Session, &[Region]),
        function: &Range<u64>,
        measure: Measure,
    ) -> Result<Result<Known, String>, Refusal> {
        let start = function.start;
        let module = match self.module(needs.0, needs.3, start) {
            Ok(module) => module,
            Err(why) => return Ok(Err(why)),
        };
        let is_known = self
            .functions
            .get(&start)
            .is_some_and(|known| match measure {
                Measure::Calls => known.calls.is_some() || matches!(known.timed, Some(Ok(_))),
                Measure::Time => known.timed.is_some(),
            });
        if !is_known {
            if let Err(why) = self.add(needs, module, start, measure)? {
                return Ok(Err(why));
            }
        }
        let Some(known) = self.functions.get(&start) else {
            return Ok(Err("it cannot be probed".into()));
        };
        let why = match (&known.timed, measure) {
            (Some(Err(why)), Measure::Time) => Some(why.clone()),
            _ => None,
        };
        Ok(Ok(Known {
            start,
            number: known.number,
            is_timed: measure == Measure::Time && why.is_none(),
            why,
        }))
    }

    fn module(&mut self, memory: &Memory, regions: &[Region], at: u64) -> Result<usize, String> {
        let known = self
            .modules
            .iter()
            .position(|(range, _)| range.contains(&at));
        if let Some(index) = known {
            return Ok(index);
        }
        self.modules
            .push(modules::read(self.pid, memory, regions, at)?);
        Ok(self.modules.len() - 1)
    }

    fn add(
        &mut self,
        (memory, found, session, _): (&Memory, &Found, &Session, &[Region]),
        module: usize,
        start: u64,
        measure: Measure,
    ) -> Result<Result<(), String>, Refusal> {
        let sites = match choose(&self.modules[module].1, start) {
            Ok(sites) => sites,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let number = match self.functions.get(&start) {
            Some(known) => known.number,
            None if self.by_number.len() >= table::FUNCTIONS => {
                return Ok(Err(format!("{} functions are probed", table::FUNCTIONS)));
            }
            None => self.by_number.len() as u32,
        };
        let mut timed = None;
        if measure == Measure::Time {
            timed = Some(match &sites.exits {
                Err(why) => Err(why.clone()),
                Ok(exits) => {
                    let all = std::iter::once(&exits.entry).chain(&exits.others);
                    let all: Vec<&Site> = all.collect();
                    match self.patches(
                        memory,
                        (found, session),
                        module,
                        &all,
                        (start, number, None),
                    )? {
                        Ok(mut patches) => {
                            let entry = patches.remove(0);
                            Ok((entry, patches))
                        }
                        Err(why) => Err(why),
                    }
                }
            });
        }
        let mut calls = None;
        if !matches!(timed, Some(Ok(_))) {
            let one = [&sites.entry];
            let about = (start, number, self.fast);
            match self.patches(memory, (found, session), module, &one, about)? {
                Ok(mut patches) => calls = patches.pop(),
                Err(why) => return Ok(Err(why)),
            }
        }
        for patch in calls.iter().chain(
            timed
                .iter()
                .flatten()
                .flat_map(|(e, x)| [e].into_iter().chain(x)),
        ) {
            self.taken.insert(patch.at, start);
        }
        if number as usize == self.by_number.len() {
            self.by_number.push(start);
        }
        let known = self.functions.entry(start).or_insert(KnownFunction {
            number,
            calls: None,
            timed: None,
            state: State::Out,
        });
        known.calls = calls.or(known.calls.take());
        known.timed = timed.or(known.timed.take());
        Ok(Ok(()))
    }

    /// Writes the stubs of these sites, all or none.
    fn patches(
        &mut self,
        memory: &Memory,
        (found, session): (&Found, &Session),
        module: usize,
        sites: &[&Site],
        (start, number, fast): (u64, u32, Option<FastCount>),
    ) -> Result<Result<Vec<Patch>, String>, Refusal> {
        let width = PATCH_BYTES as u64;
        for site in sites {
            let near = site.at.saturating_sub(width - 1)..site.at + width;
            if self.taken.range(near).any(|(_, owner)| *owner != start) {
                return Ok(Err(
                    "it shares code with another function that is probed".into()
                ));
            }
        }
        let needed: u64 = sites
            .iter()
            .map(|site| {
                let exits = site.steps.iter().filter(|s| s.is_exit).count() as u64 + 1;
                let count = fast.map_or(0, |_| FAST_COUNT_BYTES);
                let steps = site.steps.len() as u64 * MAX_STEP_BYTES;
                stub_bytes(count + exits * MAX_CALL_BYTES + steps)
            })
            .sum();
        let area = match self.area(memory, (found, session), module, needed)? {
            Ok(area) => area,
            Err(why) => return Ok(Err(why)),
        };
        let unwritable = |e: std::io::Error| crate::safe_point::refused(self.pid, e.into());
        let mut patches = Vec::new();
        for site in sites {
            let mut original = [0; PATCH_BYTES];
            memory.read(site.at, &mut original).map_err(unwritable)?;
            let expected = self.modules[module].1.bytes(site.at, PATCH_BYTES);
            let is_in = self
                .functions
                .get(&start)
                .is_some_and(|f| f.state != State::Out);
            match expected {
                // Its own patch may be in: of calls, while time is asked for.
                Some(expected) if is_in => original.copy_from_slice(expected),
                Some(expected) if expected == original => {}
                _ => return Ok(Err("something else has patched it".into())),
            }
            let area = &mut self.areas[area];
            let (at, room) = area.next_stub();
            let context = Context {
                runtime: area.runtime(),
                table: session.table,
                function: number,
                fast,
            };
            let stub = match context.stub(site, at) {
                Ok(stub) if stub.code.len() as u64 <= room => stub,
                Ok(_) => return Ok(Err("there is no room for its code".into())),
                Err(why) => return Ok(Err(why.to_string())),
            };
            let Some(patched) = near_jump(site.at, at) else {
                return Ok(Err("there is no room near its code".into()));
            };
            let patch = Patch {
                at: site.at,
                original,
                patched,
                moved: stub.moved,
            };
            area.add(memory, &patch, &stub.code).map_err(unwritable)?;
            patches.push(patch);
        }
        Ok(Ok(patches))
    }

    /// An area near a module with room, mapped if there is none.
    fn area(
        &mut self,
        memory: &Memory,
        (found, session): (&Found, &Session),
        module: usize,
        bytes: u64,
    ) -> Result<Result<usize, String>, Refusal> {
        let near = self.modules[module].0.clone();
        let is_near = |area: &Area| {
            let range = area.range();
            range.start.abs_diff(near.start) < REACH && range.end.abs_diff(near.end) < REACH
        };
        let fits = |a: &Area| is_near(a) && a.next_stub().1 >= bytes;
        if let Some(index) = self.areas.iter().position(fits) {
            return Ok(Ok(index));
        }
        if let Some(why) = self.no_room.get(&module) {
            return Ok(Err(why.clone()));
        }
        let size = bytes_for(bytes).max(AREA_BYTES);
        let at = match map_code(self.pid, found.gadgets, near.start, size) {
            Ok(at) => at,
            Err(refusal) if refusal.is_gone => return Err(refusal),
            Err(refusal) => {
                self.no_room.insert(module, refusal.found.clone());
                return Ok(Err(refusal.found));
            }
        };
        let area = Area::create(memory, at, size, session);
        let area = area.map_err(|e| crate::safe_point::refused(self.pid, e.into()))?;
        self.areas.push(area);
        Ok(Ok(self.areas.len() - 1))
    }

    /// What has to be written for these functions to be probed.
    pub fn changes_in<'a>(&self, functions: impl Iterator<Item = &'a Known>) -> Changes {
        let mut changes = Changes::default();
        let mut wanted: HashMap<u64, bool> = HashMap::new();
        for known in functions {
            *wanted.entry(known.start).or_default() |= known.is_timed;
        }
        for (start, is_timed) in wanted {
            if let Some(function) = self.functions.get(&start) {
                function.changes_in(is_timed, &mut changes);
            }
        }
        changes
    }

    /// The changes have been made.
    pub fn note_in<'a>(&mut self, functions: impl Iterator<Item = &'a Known>) {
        for known in functions {
            if let Some(function) = self.functions.get_mut(&known.start) {
                function.state = function.wanted(known.is_timed);
            }
        }
    }

    /// What has to be written for these functions, by number, not to be probed.
    pub fn changes_out(&self, numbers: &[u32]) -> Changes {
        let mut changes = Changes::default();
        for number in numbers {
            let start = self.by_number.get(*number as usize);
            if let Some(function) = start.and_then(|s| self.functions.get(s)) {
                function.present().for_each(|patch| changes.remove(patch));
            }
        }
        changes
    }

    /// The changes have been made.
    pub fn note_out(&mut self, numbers: &[u32]) {
        for number in numbers {
            let start = self.by_number.get(*number as usize);
            if let Some(function) = start.and_then(|s| self.functions.get_mut(s)) {
                function.state = State::Out;
            }
        }
    }
}

impl KnownFunction {
    /// What is in once this is asked for: never less than before.
    fn wanted(&self, is_timed: bool) -> State {
        match &self.timed {
            Some(Ok(_)) if is_timed || self.state == State::Timed || self.calls.is_none() => {
                State::Timed
            }
            _ => State::Calls,
        }
    }

    fn patches(&self, state: State) -> (Option<&Patch>, &[Patch]) {
        match (state, &self.timed) {
            (State::Out, _) => (None, &[]),
            (State::Timed, Some(Ok((entry, exits)))) => (Some(entry), exits),
            _ => (self.calls.as_ref(), &[]),
        }
    }

    fn present(&self) -> impl Iterator<Item = &Patch> {
        let (entry, exits) = self.patches(self.state);
        entry.into_iter().chain(exits)
    }

    fn changes_in(&self, is_timed: bool, changes: &mut Changes) {
        let next = self.wanted(is_timed);
        if next == self.state {
            return;
        }
        let (before, _) = self.patches(self.state);
        let (entry, exits) = self.patches(next);
        if let Some(entry) = entry {
            changes.insert(entry, before);
        }
        for exit in exits {
            changes.insert(exit, None);
        }
    }
}
