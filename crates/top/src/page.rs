//! All about one object: its sites, its waits, and who waits for whom.

use std::collections::BTreeMap;

use convoy_model::{GroupId, Model, ObjectId, Pair, SiteId, ThreadId, Use};
use convoy_profile::ObjectKind;
use convoy_report::{human, names};
use rustc_hash::FxHashMap;

use crate::grid::{column, Cell, Column, Grid, Key, Least, Row, Sort};
use crate::span::{find_object, object_key, pid, thread_key, uses_of, Span, Sums};
use crate::tables::objects::{rate, share, sums};

/// A page: what is known in sentences, then tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// Sentences.
    pub facts: Vec<String>,
    /// Tables with their headings, rows in order.
    pub tables: Vec<(&'static str, Grid)>,
}

const SITES: &[Column] = &[
    column("now", "wait_now_share", 8),
    column("all", "wait_share", 8),
    column("waits/s", "waits_per_s", 10),
    column("mean", "wait_mean_ns", 9),
    column("taken/s", "taken_per_s", 11),
    column("longest", "wait_max_ns", 10),
];

const PAIRS: &[Column] = &[
    column("now", "wait_now_share", 8),
    column("all", "wait_share", 8),
    column("waits/s", "waits_per_s", 10),
    column("mean", "wait_mean_ns", 9),
];

const THREADS: &[Column] = &[
    column("now", "wait_now_share", 8),
    column("all", "wait_share", 8),
    column("waits/s", "waits_per_s", 10),
    column("taken/s", "taken_per_s", 11),
    column("longest", "wait_max_ns", 10),
];

/// The page of an object; `None` if the later reading has none with this key.
pub fn object(span: Span<'_>, key: &Key) -> Option<Page> {
    let id = find_object(span.now, key)?;
    let object = span.now.objects.get(id.0 as usize)?;
    let uses = uses_of(span.now, id);
    let earlier = span
        .before
        .and_then(|model| Some((model, find_object(model, key)?)));
    let uses_before = earlier.map_or(&[][..], |(model, id)| uses_of(model, id));
    let all = sums(uses);
    let now = all.since(sums(uses_before));
    let whole = Whole {
        span,
        now_ns: now.wait_ns,
        all_ns: all.wait_ns,
    };
    let before = earlier.map(|(model, _)| model);
    Some(Page {
        title: names::object(object),
        facts: facts(span, id, uses, now, all),
        tables: vec![
            ("Sites", whole.sites(uses, before, uses_before)),
            (
                "Who waits for whom",
                whole.pairs(pairs_of(span.now, id), earlier),
            ),
            ("Threads", whole.threads(uses, before, uses_before)),
        ],
    })
}

fn facts(span: Span<'_>, id: ObjectId, uses: &[Use], now: Sums, all: Sums) -> Vec<String> {
    let Some(object) = span.now.objects.get(id.0 as usize) else {
        return Vec::new();
    };
    let process = span.now.processes.get(object.process.0 as usize);
    let process = process.map_or_else(String::new, |p| format!(" in {} ({})", p.name, p.pid));
    let mut identity = format!(
        "{} at 0x{:x}{process}",
        names::kind(object.kind),
        object.addr
    );
    if let Some(site) = object.init_site {
        identity += &format!(", initialised at {}", names::site_of(span.now, site));
    }
    let mut facts = vec![identity];
    let shares = share(span, uses, now.wait_ns, all.wait_ns);
    let told = |share: Cell, sums: Sums, rate: Cell| {
        let mut text = format!(
            "{} of its threads' time waited, {} of {}",
            share.text(),
            human::count_of(sums.waits, "wait", "waits"),
            Cell::mean(sums.wait_ns, sums.waits).text(),
        );
        if object.kind != ObjectKind::Futex {
            text += &format!(", {} calls ({})", human::count(sums.calls), rate.text());
        }
        if sums.holds > 0 {
            text += &format!(
                ", held {} (timed)",
                Cell::mean(sums.hold_ns, sums.holds).text()
            );
        }
        text
    };
    if span.before.is_some() {
        let rate = rate(span, now.calls, all.calls);
        facts.push(format!("now: {}", told(shares.0, now, rate)));
    }
    let age = span.age_seconds();
    let per_second = if age > 0.0 {
        Cell::Rate(all.calls as f64 / age)
    } else {
        Cell::None
    };
    facts.push(format!(
        "since the start: {}, longest {}",
        told(shares.1, all, per_second),
        human::duration(all.wait_max_ns as f64)
    ));
    facts.push(waiting(span.now, uses));
    facts
}

/// Who waits at this moment.
fn waiting(model: &Model, uses: &[Use]) -> String {
    const NAMED: usize = 4;
    let mut waiting: Vec<(u64, String)> = uses
        .iter()
        .filter(|row| row.unfinished_ns > 0)
        .map(|row| (row.unfinished_ns, names::thread_of(model, row.thread)))
        .collect();
    if waiting.is_empty() {
        return "at this moment nobody waits".into();
    }
    waiting.sort_by(|a, b| b.cmp(a));
    let named: Vec<String> = waiting
        .iter()
        .take(NAMED)
        .map(|(ns, name)| format!("{name} for {}", human::duration(*ns as f64)))
        .collect();
    let more = match waiting.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("at this moment waits: {}{more}", named.join(", "))
}

fn pairs_of(model: &Model, id: ObjectId) -> impl Iterator<Item = &Pair> {
    model.pairs.iter().filter(move |pair| pair.object == id)
}

/// An object's waits in all, of which every row is a part.
struct Whole<'a> {
    span: Span<'a>,
    now_ns: u64,
    all_ns: u64,
}

impl Whole<'_> {
    fn shares(&self, now_ns: u64, all_ns: u64) -> [Cell; 2] {
        let ratio = |part: u64, whole: u64| match whole {
            0 => Cell::None,
            whole => Cell::Share((part as f64 / whole as f64).min(1.0)),
        };
        let now = match self.span.before {
            Some(_) => ratio(now_ns, self.now_ns),
            None => Cell::None,
        };
        [now, ratio(all_ns, self.all_ns)]
    }

    fn latest(&self, now: Sums, all: Sums) -> Sums {
        match self.span.before {
            Some(_) => now,
            None => all,
        }
    }

    fn sites(&self, uses: &[Use], before: Option<&Model>, uses_before: &[Use]) -> Grid {
        let all = summed(uses, called(self.span.now));
        let earlier = before.map_or_else(BTreeMap::new, |m| summed(uses_before, called(m)));
        let rows = all.into_iter().map(|(name, all)| {
            let now = all.since(earlier.get(&name).copied().unwrap_or_default());
            let latest = self.latest(now, all);
            let mut cells = self.shares(now.wait_ns, all.wait_ns).to_vec();
            cells.extend([
                rate(self.span, now.waits, all.waits),
                Cell::mean(latest.wait_ns, latest.waits),
                rate(self.span, now.calls, all.calls),
                Cell::Time(all.wait_max_ns as f64),
            ]);
            line(name, cells)
        });
        sorted("call", SITES, "", rows.collect(), self.span)
    }

    fn threads(&self, uses: &[Use], before: Option<&Model>, uses_before: &[Use]) -> Grid {
        let all = summed(uses, |row| who(self.span.now, row));
        let earlier = before.map_or_else(BTreeMap::new, |m| summed(uses_before, |row| who(m, row)));
        let rows = all.into_iter().filter_map(|(who, all)| {
            let now = all.since(earlier.get(&who).copied().unwrap_or_default());
            let mut cells = self.shares(now.wait_ns, all.wait_ns).to_vec();
            cells.extend([
                rate(self.span, now.waits, all.waits),
                rate(self.span, now.calls, all.calls),
                Cell::Time(all.wait_max_ns as f64),
            ]);
            Some(line(who?.0, cells))
        });
        sorted("thread", THREADS, "", rows.collect(), self.span)
    }

    fn pairs<'p>(
        &self,
        pairs: impl Iterator<Item = &'p Pair>,
        earlier: Option<(&Model, ObjectId)>,
    ) -> Grid {
        let all = ends(self.span.now, pairs);
        let earlier = earlier.map_or_else(BTreeMap::new, |(model, id)| {
            ends(model, pairs_of(model, id))
        });
        let rows = all.into_iter().map(|(ends, all)| {
            let now = all.since(earlier.get(&ends).copied().unwrap_or_default());
            let latest = self.latest(now, all);
            let mut cells = self.shares(now.wait_ns, all.wait_ns).to_vec();
            cells.extend([
                rate(self.span, now.waits, all.waits),
                Cell::mean(latest.wait_ns, latest.waits),
            ]);
            Row {
                remark: ends.1,
                ..line(ends.0, cells)
            }
        });
        sorted("waits", PAIRS, "for", rows.collect(), self.span)
    }
}

fn line(name: String, cells: Vec<Cell>) -> Row {
    Row {
        key: Key::Line,
        name,
        cells,
        remark: String::new(),
    }
}

fn sorted(
    noun: &'static str,
    columns: &'static [Column],
    remark: &'static str,
    rows: Vec<Row>,
    span: Span<'_>,
) -> Grid {
    let mut grid = Grid {
        noun,
        columns,
        remark,
        least: Least::OF_PLACES,
        rows,
    };
    let sort = Sort::by(usize::from(span.before.is_none()));
    let order = grid.order(sort, &crate::filter::Filter::default());
    grid.rows = order.into_iter().map(|ix| grid.rows[ix].clone()).collect();
    grid
}

/// Sums of rows that have the same key.
fn summed<K: Ord>(uses: &[Use], mut key: impl FnMut(&Use) -> K) -> BTreeMap<K, Sums> {
    let mut sums: BTreeMap<K, Sums> = BTreeMap::new();
    for row in uses {
        sums.entry(key(row)).or_default().add(row);
    }
    sums
}

/// What a call is named, each made once: of thousands of threads' rows there are few.
fn called(model: &Model) -> impl FnMut(&Use) -> String + '_ {
    let mut names = Names::new(model);
    move |row| match row.op {
        Some(op) => format!("{} {}", names::op(op), names.site(row.site)),
        None => names.site(row.site).to_owned(),
    }
}

/// Names that were made.
struct Names<'m> {
    model: &'m Model,
    sites: FxHashMap<SiteId, String>,
    groups: FxHashMap<Option<GroupId>, String>,
}

impl<'m> Names<'m> {
    fn new(model: &'m Model) -> Self {
        Self {
            model,
            sites: FxHashMap::default(),
            groups: FxHashMap::default(),
        }
    }

    fn site(&mut self, id: SiteId) -> &str {
        let name = self.sites.entry(id);
        name.or_insert_with(|| names::site_of(self.model, id))
    }

    /// Of the group of a thread.
    fn group(&mut self, thread: Option<ThreadId>) -> &str {
        let thread = thread.and_then(|id| crate::span::thread(self.model, id));
        let id = thread.map(|t| t.group);
        let group = id.and_then(|id| self.model.groups.get(id.0 as usize));
        let name = self.groups.entry(id);
        name.or_insert_with(|| group.map_or_else(|| "unknown thread".into(), names::group))
    }
}

/// A thread's name, which may be that of others; with its start it is one.
fn who(model: &Model, row: &Use) -> Option<(String, Option<(u32, u64)>)> {
    let thread = crate::span::thread(model, row.thread)?;
    Some((names::thread(thread), thread_number(model, row.thread)))
}

fn thread_number(model: &Model, id: ThreadId) -> Option<(u32, u64)> {
    match thread_key(model, crate::span::thread(model, id)?) {
        Key::Thread(_, tid, start_ns) => Some((tid, start_ns)),
        _ => None,
    }
}

/// Waits by (who and where, for whom and where): threads by their groups, because thousands may do the same.
fn ends<'p>(
    model: &Model,
    pairs: impl Iterator<Item = &'p Pair>,
) -> BTreeMap<(String, String), Sums> {
    let mut ends: BTreeMap<(String, String), Sums> = BTreeMap::new();
    let mut made = Names::new(model);
    for pair in pairs {
        let mut waiter = made.group(Some(pair.thread)).to_owned();
        waiter += &format!(" at {}", made.site(pair.site));
        let mut holder = made.group(pair.peer).to_owned();
        if let Some(frame) = convoy_model::telling(&pair.peer_acquired_at) {
            holder += &format!(" since {}", names::frame(frame));
        } else if let Some(site) = pair.peer_site {
            holder += &format!(" at {}", made.site(site));
        }
        let sums = ends.entry((waiter, holder)).or_default();
        sums.waits = sums.waits.saturating_add(pair.waits);
        sums.wait_ns = sums.wait_ns.saturating_add(pair.wait_ns);
        sums.wait_max_ns = sums.wait_max_ns.max(pair.wait_max_ns);
    }
    ends
}

/// What threads wait for, as a page of a thread or a group.
pub fn threads(span: Span<'_>, key: &Key) -> Option<Page> {
    let (title, members) = members(span.now, key)?;
    let before = span
        .before
        .and_then(|model| Some((model, members_of(model, key)?)));
    let all = by_objects(span.now, &members);
    let earlier = before.map_or_else(BTreeMap::new, |(model, members)| {
        by_objects(model, &members)
    });
    let now_of = |key: &(u32, u64), all: Sums| {
        all.since(earlier.get(key).map(|(_, sums)| *sums).unwrap_or_default())
    };
    let whole = Whole {
        span,
        now_ns: all
            .iter()
            .map(|(key, (_, sums))| now_of(key, *sums).wait_ns)
            .sum(),
        all_ns: all.values().map(|(_, sums)| sums.wait_ns).sum(),
    };
    let rows = all.iter().map(|(key, (name, all))| {
        let now = now_of(key, *all);
        let mut cells = whole.shares(now.wait_ns, all.wait_ns).to_vec();
        cells.extend([
            rate(span, now.waits, all.waits),
            rate(span, now.calls, all.calls),
            Cell::Time(all.wait_max_ns as f64),
        ]);
        line(name.clone(), cells)
    });
    let rows: Vec<Row> = rows.collect();
    Some(Page {
        title,
        facts: vec![format!(
            "{} waited in all; shares are of that",
            human::duration(whole.all_ns as f64)
        )],
        tables: vec![("Waits for", sorted("object", THREADS, "", rows, span))],
    })
}

fn members(model: &Model, key: &Key) -> Option<(String, Vec<ThreadId>)> {
    let numbered = (0u32..).zip(&model.threads);
    match key {
        Key::Thread(..) => numbered
            .map(|(ix, thread)| (ThreadId(ix), thread))
            .find(|(_, thread)| thread_key(model, thread) == *key)
            .map(|(id, thread)| (names::thread(thread), vec![id])),
        Key::Group(pid, name) => {
            let its = |g: &&convoy_model::Group| {
                self::pid(model, g.process) == *pid && names::group(g) == *name
            };
            let group = model.groups.iter().find(its)?;
            Some((names::group(group), group.threads.clone()))
        }
        _ => None,
    }
}

fn members_of(model: &Model, key: &Key) -> Option<Vec<ThreadId>> {
    members(model, key).map(|(_, ids)| ids)
}

fn by_objects(model: &Model, members: &[ThreadId]) -> BTreeMap<(u32, u64), (String, Sums)> {
    let mut sums = BTreeMap::new();
    let members: std::collections::HashSet<&ThreadId> = members.iter().collect();
    for row in model
        .uses
        .iter()
        .filter(|row| members.contains(&row.thread))
    {
        let Some(object) = model.objects.get(row.object.0 as usize) else {
            continue;
        };
        if let Key::Object(pid, addr) = object_key(model, object) {
            let entry = sums
                .entry((pid, addr))
                .or_insert_with(|| (names::object(object), Sums::default()));
            entry.1.add(row);
        }
    }
    sums
}
