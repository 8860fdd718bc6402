//! A probed function: one row of the table that probes count into, and how it got there.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use crate::histogram::Histogram;
use convoy_probes::{Also, Cell, Holding, Measure, Probe};

/// A function, where it is in the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The file that it is in.
    pub module: String,
    /// Its addresses.
    pub addresses: Range<u64>,
}

/// Which calls of a function count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Those while the thread is inside the function of this row.
    pub within: Option<RowId>,
    /// Those that return to one of these addresses.
    pub caller: Option<Range<u64>>,
    /// Those while the thread holds such a lock.
    pub holding: Option<Holding>,
}

impl Gate {
    /// Whether some calls do not count.
    pub fn is_there(&self) -> bool {
        *self != Self::default()
    }
}

/// Names a row while its number in the table changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub(crate) usize);

/// What a probe does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not in yet.
    New,
    /// It counts.
    Counting,
    /// It times.
    Timing,
    /// It is out, or could not be put in.
    Out {
        /// The reason.
        why: String,
    },
}

/// A row.
#[derive(Debug, Clone)]
pub struct Row {
    pub(crate) function: Function,
    /// Which of its calls count.
    pub(crate) gate: Gate,
    /// What else they count.
    pub(crate) also: Also,
    /// Number in the table.
    pub(crate) number: u32,
    pub(crate) state: State,
    /// Requests that use it, and those of them that need a timer.
    pub(crate) users: usize,
    pub(crate) timer_users: usize,
    /// Moment of the insertion of the present probe, milliseconds.
    pub(crate) inserted_ms: u64,
    /// The present probe has the gate. Before the rate of all calls is known, which is what the
    /// probe costs, and the function that it is inside of is timed, it has not.
    pub(crate) is_confined: bool,
    /// The kernel counts its calls: what one of them costs, nanoseconds.
    pub(crate) uprobe_ns: Option<f64>,
    /// Why it cannot time, or may not.
    pub(crate) no_timer: Option<NoTimer>,
    /// Calls per second, whether they count or not.
    pub(crate) gross_rate: Option<f64>,
    /// By thread, at the latest reading and at the last sample.
    pub(crate) latest: HashMap<u32, Cell>,
    pub(crate) sampled: HashMap<u32, Cell>,
    /// What earlier probes of this function have counted: each replaces the one before.
    pub(crate) carried: HashMap<u32, Cell>,
}

/// Why a row has no timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoTimer {
    /// The function's exits cannot be patched.
    Impossible(String),
    /// It would cost too much.
    Expensive(String),
}

impl NoTimer {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Impossible(why) | Self::Expensive(why) => why,
        }
    }
}

impl Row {
    pub(crate) fn new(function: Function, gate: Gate, also: Also) -> Self {
        Self {
            function,
            gate,
            also,
            number: 0,
            state: State::New,
            users: 0,
            timer_users: 0,
            inserted_ms: 0,
            is_confined: false,
            uprobe_ns: None,
            no_timer: None,
            gross_rate: None,
            latest: HashMap::new(),
            sampled: HashMap::new(),
            carried: HashMap::new(),
        }
    }

    pub(crate) fn is_in(&self) -> bool {
        matches!(self.state, State::Counting | State::Timing)
    }

    pub(crate) fn measure(&self) -> Measure {
        match self.state {
            State::Timing => Measure::Time,
            _ => Measure::Calls,
        }
    }

    /// Whether the next probe may have the gate. `within`: the number of the row that it is inside
    /// of, if that is timed.
    pub(crate) fn can_confine(&self, within: Option<u32>) -> bool {
        let is_timed = self.gate.within.is_none() || within.is_some();
        let is_known = self.gate.within.is_some() || self.gross_rate.is_some();
        self.gate.is_there() && is_timed && is_known
    }

    /// The probe for it, with a new number.
    pub(crate) fn probe(&mut self, number: u32, measure: Measure, within: Option<u32>) -> Probe {
        self.number = number;
        let is_confined = self.can_confine(within);
        if is_confined != self.is_confined {
            // What was counted of other calls, too, is another sum.
            self.carried.clear();
            self.latest.clear();
        }
        self.is_confined = is_confined;
        let mut probe = Probe::new(number, self.function.addresses.clone(), measure);
        probe.also = self.also;
        if is_confined {
            probe.within = within;
            probe.caller = self.gate.caller.clone();
            probe.holding = self.gate.holding;
        }
        probe
    }

    /// A probe is in: its cells begin at zero.
    pub(crate) fn began(&mut self, state: State, now_ms: u64) {
        self.state = state;
        self.inserted_ms = now_ms;
        for (tid, mut cell) in self.latest.drain() {
            cell.inside = 0;
            if cell.wall_ns == 0 {
                // A counter: it has no time, whatever clock there is.
                cell.cpu_ns = cell.cpu_ns.or(Some(0));
                cell.own_cpu_ns = cell.own_cpu_ns.or(Some(0));
            }
            match self.carried.get_mut(&tid) {
                Some(sum) => sum.add(&cell),
                None => {
                    self.carried.insert(tid, cell);
                }
            }
        }
        self.sampled.clear();
    }

    /// Forgets threads that have ended, once their last values were sampled.
    pub(crate) fn forget_ended(&mut self, is_there: impl Fn(u32) -> bool) {
        let sampled = &self.sampled;
        self.latest
            .retain(|tid, cell| is_there(*tid) || sampled.get(tid) != Some(cell));
        let latest = &self.latest;
        self.sampled.retain(|tid, _| latest.contains_key(tid));
        self.carried
            .retain(|tid, _| is_there(*tid) || latest.contains_key(tid));
    }

    /// Sums by thread since the row is there, whatever probe has counted them.
    pub(crate) fn totals(&self) -> Vec<Cell> {
        let tids: BTreeSet<u32> = self
            .latest
            .keys()
            .chain(self.carried.keys())
            .copied()
            .collect();
        let total = |tid: u32| match (self.latest.get(&tid), self.carried.get(&tid)) {
            (Some(now), Some(before)) => {
                let mut sum = now.clone();
                sum.add(before);
                sum
            }
            (now, before) => now.or(before).cloned().unwrap_or_else(|| Cell::new(tid, 0)),
        };
        tids.into_iter().map(total).collect()
    }

    /// Calls per second since the probe was put in, of all threads.
    pub(crate) fn rate(&self, now_ms: u64) -> f64 {
        let seconds = now_ms.saturating_sub(self.inserted_ms).max(1) as f64 / 1e3;
        let calls = self.latest.values().map(|cell| cell.calls);
        let rate = calls.fold(0, u64::saturating_add) as f64 / seconds;
        match self.is_confined {
            true => rate.max(self.gross_rate.unwrap_or(0.0)),
            false => rate,
        }
    }

    /// Calls per second since the last sample.
    pub(crate) fn recent_rate(&self, seconds: f64) -> f64 {
        let calls = self.changes().map(|(_, change)| change.calls);
        let rate = calls.fold(0, u64::saturating_add) as f64 / seconds;
        match self.is_confined {
            true => rate.max(self.gross_rate.unwrap_or(0.0)),
            false => rate,
        }
    }

    /// What each thread did since the last sample.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (u32, Change)> + '_ {
        let cells = self.latest.iter();
        cells.map(|(tid, now)| (*tid, Change::between(self.sampled.get(tid), now)))
    }
}

/// What came between two readings of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Change {
    pub calls: u64,
    pub wall_ns: u64,
    pub own_wall_ns: u64,
    pub cpu_ns: Option<u64>,
    pub own_cpu_ns: Option<u64>,
    pub inside: u32,
    pub skipped: u64,
    pub returned_ns: u64,
    pub bytes: u64,
    pub histogram: Histogram,
}

impl Change {
    fn between(before: Option<&Cell>, now: &Cell) -> Self {
        let empty = Cell::new(now.tid, now.row);
        // A column that another thread has got begins anew.
        let before = before.filter(|b| b.calls <= now.calls).unwrap_or(&empty);
        let less = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        let mut histogram = Histogram::default();
        histogram.add(&now.histogram, &before.histogram);
        Self {
            calls: now.calls - before.calls,
            wall_ns: now.wall_ns.saturating_sub(before.wall_ns),
            own_wall_ns: now.own_wall_ns.saturating_sub(before.own_wall_ns),
            cpu_ns: less(now.cpu_ns, before.cpu_ns),
            own_cpu_ns: less(now.own_cpu_ns, before.own_cpu_ns),
            inside: now.inside,
            skipped: now.skipped.saturating_sub(before.skipped),
            returned_ns: now.returned_ns.saturating_sub(before.returned_ns),
            bytes: now.bytes.saturating_sub(before.bytes),
            histogram,
        }
    }
}
