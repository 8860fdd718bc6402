//! What is on the screen: everything that keys and samples change.

use std::collections::BTreeSet;

use convoy_live::{hierarchy, Changes, Code, CurveId, Focus, LockChanges, Resource, Roster};

use super::rows::{visible, Path, TreeRow};
use super::Measurement;
use crate::filter::Filter;

/// What the right side shows of each curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One curve.
    Whole,
    /// A curve per thread.
    Threads,
    /// The histogram of durations.
    Histogram,
}

/// Where keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The tree.
    Tree,
    /// The curves.
    Curves,
}

/// Something that happened, shown as a mark in the curves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Milliseconds since the start.
    pub t_ms: u64,
    /// `+` for births and insertions, `-` for deaths and removals.
    pub sign: char,
}

/// The menu of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Menu {
    /// Of which part of the program.
    pub focus: Focus,
    /// The row that is chosen.
    pub at: usize,
}

/// Everything that is on the screen.
#[derive(Debug)]
pub struct State {
    pub(super) subject: String,
    pub(super) tree: Vec<Resource>,
    pub(super) code: Option<Code>,
    pub(super) open: BTreeSet<Path>,
    pub(super) rows: Vec<TreeRow>,
    /// The row under the cursor.
    pub(super) at: usize,
    pub(super) top: usize,
    /// The curve under the cursor.
    pub(super) curve: usize,
    pub(super) side: Side,
    pub(super) detail: Detail,
    pub(super) filter: Filter,
    pub(super) typing: Option<String>,
    pub(super) menu: Option<Menu>,
    /// A focus that the next one is joined with.
    pub(super) marked: Option<Focus>,
    pub(super) help: bool,
    /// Nothing changes but what is measured.
    pub(super) frozen: bool,
    pub(super) has_ended: bool,
    /// The last thing to say.
    pub(super) message: String,
    pub(super) markers: Vec<Marker>,
    /// Command lines to write after the end.
    pub(super) written: Vec<String>,
    /// Rows that there is room for.
    pub(super) room: usize,
}

/// Markers that are kept.
const MOST_MARKERS: usize = 1_000;

impl State {
    /// Before the first sample.
    pub fn new(subject: String) -> Self {
        let mut state = Self {
            subject,
            tree: Vec::new(),
            code: None,
            open: BTreeSet::new(),
            rows: Vec::new(),
            at: 0,
            top: 0,
            curve: 0,
            side: Side::Tree,
            detail: Detail::Whole,
            filter: Filter::default(),
            typing: None,
            menu: None,
            marked: None,
            help: false,
            frozen: false,
            has_ended: false,
            message: String::new(),
            markers: Vec::new(),
            written: Vec::new(),
            room: 20,
        };
        state.open.insert(vec!["Threads".into()]);
        let (threads, locks) = (Roster::default(), LockChanges::default());
        state.tree = hierarchy(&Vec::new(), &threads, &locks, &[], 0.0);
        state.arrange();
        state
    }

    /// Takes the latest values.
    pub(super) fn sampled(&mut self, measurement: &mut impl Measurement, changes: &Changes) {
        let session = measurement.session();
        let t_ms = session.sampled_ms();
        let signs = [(changes.born.len(), '+'), (changes.ended.len(), '-')];
        for (n, sign) in signs {
            self.markers
                .extend((n > 0).then_some(Marker { t_ms, sign }));
        }
        let too_many = self.markers.len().saturating_sub(MOST_MARKERS);
        self.markers.drain(..too_many);
        if !self.frozen {
            self.grow(measurement);
        }
    }

    /// Makes the tree anew.
    pub(super) fn grow(&mut self, measurement: &mut impl Measurement) {
        let files = match self.open.contains(&vec!["Files".to_owned()]) {
            true => measurement.files(),
            false => Vec::new(),
        };
        let session = measurement.session();
        let code = self.code.take().unwrap_or_default();
        let interval = session.interval();
        self.tree = hierarchy(&code, session.threads(), session.locks(), &files, interval);
        self.code = Some(code).filter(|code| !code.is_empty());
        self.arrange();
    }

    /// Says what the session has to say; whether there is anything.
    pub(super) fn notice(&mut self, measurement: &mut impl Measurement) -> bool {
        let notices = measurement.take_notices();
        if let Some(notice) = notices.last() {
            self.message = format!("{}: {}", notice.found, notice.effect);
        }
        !notices.is_empty()
    }

    /// The process has ended; whether that is new.
    pub(super) fn ended(&mut self) -> bool {
        !std::mem::replace(&mut self.has_ended, true)
    }

    /// Makes the rows anew; the cursor stays on its resource.
    pub(super) fn arrange(&mut self) {
        let selected = self.rows.get(self.at).map(|row| row.path.clone());
        self.rows = visible(&self.tree, &self.open, &self.filter);
        let found = self
            .rows
            .iter()
            .position(|row| Some(&row.path) == selected.as_ref());
        self.select(found.unwrap_or(self.at));
    }

    /// Moves the cursor.
    pub(super) fn select(&mut self, at: usize) {
        self.at = at.min(self.rows.len().saturating_sub(1));
        let lowest = self.at.saturating_sub(self.room.saturating_sub(1));
        self.top = self.top.clamp(lowest, self.at.max(lowest));
    }

    /// The row under the cursor.
    pub(super) fn selected(&self) -> Option<&TreeRow> {
        self.rows.get(self.at)
    }

    /// The curve under the cursor.
    pub(super) fn selected_curve(&self, measurement: &impl Measurement) -> Option<CurveId> {
        let ids = measurement.session().curves().map(|(id, _)| id);
        ids.collect::<Vec<_>>().get(self.curve).copied()
    }
}
