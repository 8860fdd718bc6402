//! What looks at the goroutines of one program add up to.

use convoy_profile::{
    bucket, only_waits, GoDoing, GoPlace, GoProgram, GoState, GoWait, GoroutineState, StackIx,
    GO_IN_CALL,
};
use convoy_sched::Map;
use convoy_unwind::Unwinder;

use super::calls;

/// Rows that are kept. A program that waits at more places waits everywhere.
const ROWS: usize = 4096;
const PLACES: usize = 512;
const STATES: usize = 4096;
/// Of one place, what its users do elsewhere.
const DOING: usize = 64;
/// Goroutines that are known from one look to the next.
const GOROUTINES: usize = 32_768;
/// Those that were not seen at so many looks have ended.
const FORGOTTEN: u64 = 16;
/// Places that one goroutine is known to use.
const USES: usize = 3;
const NONE: u32 = u32::MAX;
/// Capacities of channels that are told apart at one place, and the share of the looks that one has to be found at.
const CAPACITIES: usize = 16;
const NEARLY_ALL: f64 = 0.8;
/// One in so many waits at a known place is looked at again.
const AGAIN: u8 = 8;
/// Users of a place that are counted.
const USERS: u32 = 65_535;
/// Functions of a wait that may be those of a place: of the place the one that waits and who called it, of others the innermost.
const OF_PLACE: usize = 2;
const OF_WAIT: usize = 8;

/// Stands for a reason where a goroutine waits for none that the runtime knows, but is in a call.
pub(super) const IN_CALL: u8 = u8::MAX;

/// Reasons to wait for what others of the program let go or hand over, without those of timers, the network and the runtime.
const FOR_OTHERS: [&str; 5] = ["chan send", "chan receive", "select", "sync.", "semacquire"];

/// A goroutine at one look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub id: u64,
    pub state: GoroutineState,
    /// The program's, not the runtime's.
    pub own: bool,
    /// Times that it has given up its processor, modulo 256.
    pub turns: u8,
    /// Stack pointer and instruction where it goes on.
    pub at: (u64, u64),
    /// Where it waits, or what call it is in.
    pub row: Option<u32>,
    /// This wait was not seen before.
    pub fresh: bool,
}

/// A goroutine from one look to the next.
#[derive(Debug, Clone, Copy)]
struct Goroutine {
    at: (u64, u64),
    turns: u8,
    state: GoroutineState,
    row: Option<u32>,
    uses: [u32; USES],
    /// Looks at which it ran.
    ran: u64,
    look: u64,
}

impl Goroutine {
    /// It uses a place, as it waits there or has what is to be had there: whether that is news.
    fn comes_to_use(&mut self, place: u32, waits: bool) -> bool {
        if self.uses.contains(&place) {
            return false;
        }
        if waits {
            self.uses.rotate_right(1);
            self.uses[0] = place;
            return true;
        }
        // What it was seen to wait for is known better.
        let free = self.uses.iter_mut().find(|ix| **ix == NONE);
        free.map(|free| *free = place).is_some()
    }
}

/// Goroutines that began in one function, wait for one reason at one instruction and have as much on their stacks were called in the same
/// way: nearly always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub start: u64,
    pub reason: u8,
    pub pc: u64,
    pub stack_bytes: u64,
}

#[derive(Debug)]
struct Place {
    row: GoPlace,
    reason: u8,
    /// Looks at its channel, by capacity: a goroutine may have gone on before its channel is read, and be at another one.
    capacities: Map<u64, u32>,
    doing: Map<(GoroutineState, Option<u32>), u64>,
    /// Where the program's functions begin that wait there.
    functions: Vec<u64>,
    /// At the present look.
    waiting: u64,
    away: u64,
}

/// Where goroutines wait.
#[derive(Debug)]
struct Row {
    reason: u8,
    row: GoWait,
    /// Where the program's functions begin that wait there.
    functions: Vec<u64>,
    /// Other places of these functions: who waits here has what it got there, so that it uses it, although it may be that nobody ever
    /// saw it wait for it.
    beside: Vec<u32>,
}

impl Row {
    fn is_beside(&self, place: &Place) -> bool {
        let mut own = place.functions.iter();
        own.any(|function| self.functions.contains(function))
    }
}

/// Of one program.
#[derive(Debug, Default)]
pub(super) struct Tally {
    looks: u64,
    goroutines: u64,
    turns: u64,
    longest: u64,
    states: Map<GoState, u64>,
    rows: Vec<Row>,
    row_of: Map<(u8, StackIx), u32>,
    places: Vec<Place>,
    place_of: Map<(u8, u64), u32>,
    known: Map<u64, Goroutine>,
    /// Rows by how goroutines look that wait there.
    shapes: Map<Shape, u32>,
    /// By their first function.
    own: Map<u64, bool>,
}

impl Tally {
    /// Whether a goroutine that began in this function is the program's.
    pub fn is_own(&mut self, start: u64, unwinder: &mut Unwinder) -> bool {
        if let Some(&known) = self.own.get(&start) {
            return known;
        }
        let function = unwinder.function(start);
        let own =
            function.is_none_or(|f| !f.name.starts_with("runtime.") || f.name == "runtime.main");
        if self.own.len() < ROWS {
            self.own.insert(start, own);
        }
        own
    }

    /// Where it waits, if it went on and stopped as it did at the last look; and whether it has run since. Then it may have been
    /// called from elsewhere, which is looked at again at times.
    pub fn same_place(&self, seen: &Seen, reason: u8) -> Option<(u32, bool)> {
        let known = self.known.get(&seen.id)?;
        let row = known
            .row
            .filter(|_| known.state == seen.state && known.at == seen.at)?;
        let of = self.rows.get(row as usize)?.reason;
        let ran = known.turns != seen.turns;
        let doubt = ran && seen.turns % AGAIN == 0;
        (of == reason && !doubt).then_some((row, ran))
    }

    /// Whether it was somewhere else at the last look.
    pub fn is_news(&self, seen: &Seen) -> bool {
        let known = self.known.get(&seen.id);
        known.is_none_or(|known| (known.state, known.row) != (seen.state, seen.row))
    }

    /// Where goroutines wait that look like this one: for those of which there is no time to walk the stack.
    pub fn alike(&self, shape: &Shape) -> Option<u32> {
        self.shapes.get(shape).copied()
    }

    /// That is where a goroutine waits that looks like this.
    pub fn looks_like(&mut self, shape: Shape, row: u32) {
        if self.shapes.len() < ROWS || self.shapes.contains_key(&shape) {
            self.shapes.insert(shape, row);
        }
    }

    /// The row of a reason and a stack. `capacity`: of the channel, if it is one.
    pub fn row(
        &mut self,
        reason: u8,
        stack: StackIx,
        capacity: Option<u64>,
        reasons: &[String],
        unwinder: &mut Unwinder,
    ) -> Option<u32> {
        if let Some(&row) = self.row_of.get(&(reason, stack)) {
            let place = self.rows.get(row as usize).and_then(|of| of.row.place);
            let place = place.and_then(|place| self.places.get_mut(place as usize));
            if let (Some(place), Some(room)) = (place, capacity) {
                let full = place.capacities.len() >= CAPACITIES;
                if !full || place.capacities.contains_key(&room) {
                    *place.capacities.entry(room).or_default() += 1;
                }
            }
            return Some(row);
        }
        if self.rows.len() >= ROWS {
            return None;
        }
        let text = reasons.get(usize::from(reason)).map_or("", String::as_str);
        let for_others = FOR_OTHERS.iter().any(|prefix| text.starts_with(prefix));
        let place = match for_others && stack != 0 {
            true => self.place(reason, text, stack, capacity, unwinder),
            false => None,
        };
        let ix = self.rows.len() as u32;
        let mut row = Row {
            reason,
            row: GoWait {
                stack,
                place,
                ..GoWait::default()
            },
            functions: functions(stack, OF_WAIT, unwinder),
            beside: Vec::new(),
        };
        let others = (0u32..).zip(&self.places);
        let others = others.filter(|(ix, other)| place != Some(*ix) && row.is_beside(other));
        row.beside = others.map(|(ix, _)| ix).collect();
        self.rows.push(row);
        self.row_of.insert((reason, stack), ix);
        Some(ix)
    }

    fn place(
        &mut self,
        reason: u8,
        text: &str,
        stack: StackIx,
        capacity: Option<u64>,
        unwinder: &mut Unwinder,
    ) -> Option<u32> {
        let pcs: Vec<u64> = unwinder.pcs(stack).collect();
        let depth = pcs.iter().position(|&pc| {
            let function = unwinder.function(pc.wrapping_sub(1));
            function.is_some_and(|f| !only_waits(f.name))
        })?;
        let pc = *pcs.get(depth)?;
        if let Some(&ix) = self.place_of.get(&(reason, pc)) {
            return Some(ix);
        }
        if self.places.len() >= PLACES {
            return None;
        }
        let ix = self.places.len() as u32;
        let place = Place {
            row: GoPlace {
                stack,
                depth: depth as u32,
                gives_back: calls::gives_back(text, &pcs, depth, unwinder),
                ..GoPlace::default()
            },
            reason,
            capacities: capacity.map(|room| (room, 1)).into_iter().collect(),
            doing: Map::default(),
            functions: functions(stack, OF_PLACE, unwinder),
            waiting: 0,
            away: 0,
        };
        for row in self.rows.iter_mut().filter(|row| row.is_beside(&place)) {
            row.beside.push(ix);
        }
        self.places.push(place);
        self.place_of.insert((reason, pc), ix);
        Some(ix)
    }

    /// Adds a look, at every `every`th goroutine.
    pub fn add(&mut self, seen: &[Seen], procs: u32, every: u64) {
        self.looks += 1;
        let mut state = GoState {
            procs,
            ..GoState::default()
        };
        let mut runnable = 0;
        for seen in seen {
            match seen.state {
                GoroutineState::Running => state.running += every as u32,
                GoroutineState::Runnable if seen.own => runnable += every,
                GoroutineState::InCall if seen.own => state.in_calls += every as u32,
                _ => {}
            }
            if seen.own {
                self.goroutines += every;
                self.one(seen, every);
            }
        }
        state.runnable = bucket(runnable as usize) as u32;
        // Of a part of them the few that run are there or not.
        let all = every == 1;
        if all && (self.states.len() < STATES || self.states.contains_key(&state)) {
            *self.states.entry(state).or_default() += 1;
        }
        self.users(every);
        if self.looks % FORGOTTEN == 0 {
            let from = self.looks - FORGOTTEN;
            self.known.retain(|_, known| known.look > from);
        }
    }

    fn one(&mut self, seen: &Seen, every: u64) {
        let row = seen.row.and_then(|ix| self.rows.get_mut(ix as usize));
        let (mut place, mut beside) = (None, &[][..]);
        if let Some(of) = row {
            of.row.n += every;
            of.row.waits += u64::from(seen.fresh) * every;
            (place, beside) = (of.row.place, &of.beside);
        }
        if self.known.len() >= GOROUTINES && !self.known.contains_key(&seen.id) {
            return;
        }
        let known = self.known.entry(seen.id).or_insert(Goroutine {
            at: seen.at,
            turns: seen.turns,
            state: seen.state,
            row: None,
            uses: [NONE; USES],
            ran: 0,
            look: 0,
        });
        self.turns += u64::from(seen.turns.wrapping_sub(known.turns)) * every;
        known.at = seen.at;
        known.turns = seen.turns;
        known.state = seen.state;
        known.row = seen.row;
        known.ran += u64::from(seen.state == GoroutineState::Running);
        self.longest = self.longest.max(known.ran);
        known.look = self.looks;
        let own = place.into_iter().map(|place| (place, true));
        for (place, waits) in own.chain(beside.iter().map(|&place| (place, false))) {
            if known.comes_to_use(place, waits) {
                if let Some(place) = self.places.get_mut(place as usize) {
                    place.row.users = (place.row.users + 1).min(USERS);
                }
            }
        }
    }

    /// Who uses what, and waits there or not.
    fn users(&mut self, every: u64) {
        let (looks, rows) = (self.looks, &self.rows);
        let here = || self.known.values().filter(|known| known.look == looks);
        let at = |known: &Goroutine| {
            let row = known.row.and_then(|ix| rows.get(ix as usize));
            row.and_then(|of| of.row.place)
        };
        for known in here() {
            for &ix in known.uses.iter().filter(|&&ix| ix != NONE) {
                if let Some(place) = self.places.get_mut(ix as usize) {
                    match at(known) == Some(ix) {
                        true => place.waiting += every,
                        false => place.away += every,
                    }
                }
            }
        }
        for known in here() {
            for &ix in known.uses.iter().filter(|&&ix| ix != NONE) {
                let Some(place) = self.places.get_mut(ix as usize) else {
                    continue;
                };
                if place.waiting == 0 || at(known) == Some(ix) {
                    continue;
                }
                let key = (known.state, known.row);
                if place.doing.len() < DOING || place.doing.contains_key(&key) {
                    *place.doing.entry(key).or_default() += every;
                }
            }
        }
        for place in &mut self.places {
            place.row.present += u64::from(place.waiting + place.away > 0);
            place.row.most = place.row.most.max(place.waiting + place.away);
            if place.waiting > 0 {
                place.row.looks += 1;
                place.row.waiting += place.waiting;
                place.row.away += place.away;
                let squares = place.away.saturating_mul(place.away);
                place.row.away_squares = place.row.away_squares.saturating_add(squares);
            }
            (place.waiting, place.away) = (0, 0);
        }
    }

    /// Everything, in an order that does not depend on chance.
    pub fn into_row(self, reasons: &[String]) -> GoProgram {
        let text = |reason: u8| match reason {
            IN_CALL => GO_IN_CALL.to_owned(),
            known => reasons.get(usize::from(known)).cloned().unwrap_or_default(),
        };
        let mut states: Vec<GoState> = self
            .states
            .into_iter()
            .map(|(state, n)| GoState { n, ..state })
            .collect();
        states.sort_unstable();
        let place = |place: Place| {
            let mut doing: Vec<GoDoing> = place
                .doing
                .into_iter()
                .map(|((state, wait), n)| GoDoing { state, wait, n })
                .collect();
            doing.sort_unstable_by_key(|of| (std::cmp::Reverse(of.n), of.state, of.wait));
            GoPlace {
                reason: text(place.reason),
                capacity: usual(&place.capacities),
                doing,
                ..place.row
            }
        };
        GoProgram {
            looks: self.looks,
            goroutines: self.goroutines,
            turns: self.turns,
            longest: self.longest,
            states,
            waits: self
                .rows
                .into_iter()
                .map(|of| GoWait {
                    reason: text(of.reason),
                    ..of.row
                })
                .collect(),
            places: self.places.into_iter().map(place).collect(),
            ..GoProgram::default()
        }
    }
}

/// Where the first `n` functions of a stack begin that are the program's.
fn functions(stack: StackIx, n: usize, unwinder: &mut Unwinder) -> Vec<u64> {
    let pcs: Vec<u64> = unwinder.pcs(stack).collect();
    let own = pcs.into_iter().filter_map(|pc| {
        let function = unwinder.function(pc.wrapping_sub(1))?;
        (!only_waits(function.name)).then_some(function.lo)
    });
    own.take(n).collect()
}

/// The capacity that nearly all looks found; 0 without one.
fn usual(capacities: &Map<u64, u32>) -> u64 {
    let all: u32 = capacities.values().sum();
    let most = capacities.iter().max_by_key(|(_, n)| **n);
    most.filter(|(_, n)| f64::from(**n) >= NEARLY_ALL * f64::from(all))
        .map_or(0, |(room, _)| *room)
}
