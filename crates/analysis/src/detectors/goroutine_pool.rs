//! Goroutines that wait for what others of them have, who wait for something else meanwhile: a pool that is too small, or a lock
//! that is held over a call. No thread waits for either: who waits is told by looks at the goroutines.
//!
//! Who has nothing to do waits in the same way. What tells the two apart: who sends waits for room, and never for work;
//! of a channel with room for n, n goroutines have a token, no more and no less; and who waits for a condition to have something
//! calls, besides, what lets others go on.

use std::collections::BTreeMap;

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::{count, percent, plural};
use convoy_model::{
    FindingId, GoPlace, GoProgram, GoWait, GoroutineState, ProcessId, Site, SiteId,
};
use convoy_profile::{only_waits, GO_IN_CALL};

use crate::estimate::saving::Saving;
use crate::facts::run_facts::site;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::words::{cause, evidence};

/// Fewer looks at somebody who waits are a start.
const LOOKS: u64 = 10;
/// Share of the looks at which somebody waits from which on it is worth a word.
const OFTEN: f64 = 0.1;
/// What fewer goroutines share is hardly a pool; two can fight for a lock.
const USERS: (u32, u32) = (3, 2);
/// Those who do not wait there wait for something else, or are in a call, for this share of the time.
const ELSEWHERE: f64 = 0.5;
/// Of a lock, somebody who has it must: so at most at this share of the looks one of its users runs.
const RUNS: f64 = 0.3;
/// They do so in the function that got it or in one that called it, this often for each that has it. If about one of the users of a lock
/// waits there whenever others want it, that one has it, whatever they do at other times. Calls do not count: who is in one there may just as
/// well have let it go.
const INSIDE: f64 = 0.5;
const HELD: (f64, f64) = (0.7, 1.3);
/// As many have what a channel has room for nearly always when somebody waits: within half a goroutine, or this share of it or one
/// more, as who has given it back may be at something else.
const AWAY: f64 = 0.5;
const MORE: f64 = 0.3;
/// The standard deviation of how many do not wait, as a share of that, beside half a goroutine: a queue has now more at work
/// and now fewer, a pool that somebody waits for is always empty.
const STEADY: f64 = 0.25;
/// Looks at which no goroutine could run, of a program that has nothing to run.
const MOSTLY_IDLE: f64 = 0.8;
/// Callers of the call that waits which may be the ones that use what it got.
const CALLERS: usize = 4;
/// One at a time who waits for a condition is perhaps whose turn it is.
const SEVERAL: f64 = 1.5;
/// What the pool stands for may itself be limited: nothing is promised where those who have it wait for an answer, or where it is
/// concluded that they have it.
const EXPECTED: f64 = 0.7;
const SURE: f64 = 0.2;
const ANSWER: &str = "IO wait";
const CONDITION: &str = "sync.Cond.Wait";
/// How Go calls C.
const CALLS_C: &str = "runtime.cgocall";
const POOL: FindingId = FindingId::SmallPool;
const METHOD: &str = "goroutines that wait, working as those that do not";

/// Pools that are known: in these functions goroutines wait for nothing else.
const POOLS: [&str; 5] = [
    "database/sql.(*DB).conn",
    "golang.org/x/sync/semaphore.(*Weighted).Acquire",
    "github.com/jackc/puddle/v2.(*Pool[",
    "github.com/jackc/puddle.(*Pool).",
    "/internal/pool.(*ConnPool).waitTurn",
];
const LOCKS: [&str; 2] = ["sync.(*Mutex).", "sync.(*RWMutex)."];

/// What goroutines wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Lock,
    Pool,
}

/// Those who wait at a place, and those who use it and do not.
struct Crowd<'a> {
    place: &'a GoPlace,
    site: &'a Site,
    id: SiteId,
    /// Means over looks at which somebody waits.
    waiting: f64,
    away: f64,
    /// Of those who do not, the share that waits for something else, or is in a call that leaves Go...
    elsewhere: f64,
    /// ... and the share that is in such a call of which it is not known where.
    in_calls: f64,
    /// Of those, per look, how many do so where they may have it, those without calls, and most of them where.
    inside: f64,
    waits_inside: f64,
    /// None if more are in calls that are not known.
    most: Option<&'a GoWait>,
}

/// What is said of a program.
pub(crate) struct Found {
    pub(crate) process: ProcessId,
    pub(crate) finding: Finding,
    /// The call of the system in which who has it is mostly.
    pub(crate) call: Option<SiteId>,
}

impl Found {
    pub(crate) fn is_of_a_lock(&self) -> bool {
        self.finding.id != POOL
    }

    /// Whether it is the lock that a call is made under, of which something else is said that buys as much.
    pub(crate) fn is_told(&self, view: &RunView, of_call: &Finding) -> bool {
        let at = |site: Option<SiteId>| view.shown(site?).map(|frame| frame.key());
        let same = || at(self.call).is_some_and(|call| at(site(&of_call.subject)) == Some(call));
        self.is_of_a_lock() && of_call.gain.mid >= self.finding.gain.mid && same()
    }
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<Found> {
    let view = cx.view;
    let found = view.go_programs().filter_map(|program| {
        let places = program.places.iter();
        let found = places.filter_map(|place| of_place(view, program, place));
        // One call that waits is the way to the same pool from another place.
        found.max_by(|a, b| a.finding.gain.mid.total_cmp(&b.finding.gain.mid))
    });
    found.collect()
}

/// Whether hardly ever a goroutine of a process could run: what its threads wait for is not one another.
pub(crate) fn are_idle(view: &RunView, process: ProcessId) -> bool {
    let mut programs = view.go_programs();
    let of = programs.find(|program| program.process == process);
    of.is_some_and(|program| {
        let looks: u64 = program.states.iter().map(|s| s.n).sum();
        let none = program
            .states
            .iter()
            .filter(|s| s.running == 0 && s.runnable == 0);
        looks > 0 && none.map(|s| s.n).sum::<u64>() as f64 >= MOSTLY_IDLE * looks as f64
    })
}

fn of_place(view: &RunView, program: &GoProgram, place: &GoPlace) -> Option<Found> {
    let often = place.looks as f64 / program.looks as f64;
    if place.looks < LOOKS || often < OFTEN {
        return None;
    }
    let crowd = Crowd::of(view, program, place)?;
    let what = crowd.what()?;
    let is_held = match what {
        What::Lock => crowd.is_held_over_a_call(),
        What::Pool => place.users >= USERS.0 && crowd.elsewhere >= ELSEWHERE,
    };
    if !is_held {
        return None;
    }
    let (waiting, away) = (crowd.waiting, crowd.away.max(1.0));
    let life = view.life_of(program.process) / program.looks as f64;
    // Who has had it from the beginning on was perhaps never seen waiting for it. And where some get it again and again, the others
    // are left when those are done: the run would be shorter by what all of them could do at once.
    let all = (place.most as f64 + away).max(waiting + away);
    let saving = Saving {
        expected: EXPECTED * place.looks as f64 * life * waiting / (waiting + away),
        most: place.present.max(place.looks) as f64 * life * (1.0 - away / all),
        sure: if crowd.is_sure() { SURE } else { 0.0 },
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let call = crowd.most.filter(|wait| wait.reason == GO_IN_CALL);
    Some(Found {
        process: program.process,
        finding: crowd.finding(view, program, what, &saving),
        call: call.and_then(|wait| wait.site),
    })
}

impl<'a> Crowd<'a> {
    fn of(view: &RunView<'a>, program: &'a GoProgram, place: &'a GoPlace) -> Option<Self> {
        let id = place.site?;
        let site = view.model.site(id)?;
        let looks = place.looks as f64;
        let users: Vec<&str> = own_functions(site).take(CALLERS).collect();
        let (mut all, mut elsewhere, mut in_calls) = (0, 0, 0);
        let (mut inside, mut waits_inside) = (0, 0);
        let mut where_inside: BTreeMap<u32, u64> = BTreeMap::new();
        for doing in &place.doing {
            all += doing.n;
            let in_call = doing.state == GoroutineState::InCall;
            let waits = in_call || doing.state == GoroutineState::Waiting;
            elsewhere += if waits { doing.n } else { 0 };
            let unknown = in_call && doing.wait.is_none();
            in_calls += if unknown { doing.n } else { 0 };
            let wait = doing.wait.filter(|_| waits);
            let row = wait.and_then(|ix| program.waits.get(ix as usize));
            let at = row.and_then(|row| view.model.site(row.site?));
            let same = at.is_some_and(|at| own_functions(at).any(|f| users.contains(&f)));
            if let Some(ix) = wait.filter(|_| same) {
                inside += doing.n;
                waits_inside += if in_call { 0 } else { doing.n };
                *where_inside.entry(ix).or_default() += doing.n;
            }
        }
        let most = where_inside.into_iter().max_by_key(|(_, n)| *n);
        let most = most.filter(|(_, n)| *n >= in_calls);
        Some(Self {
            place,
            site,
            id,
            waiting: place.waiting as f64 / looks,
            away: place.away as f64 / looks,
            elsewhere: elsewhere as f64 / (all as f64).max(1.0),
            in_calls: in_calls as f64 / (all as f64).max(1.0),
            inside: inside as f64 / looks,
            waits_inside: waits_inside as f64 / looks,
            most: most.and_then(|(ix, _)| program.waits.get(ix as usize)),
        })
    }

    /// What they wait for; `None` where it may be work.
    fn what(&self) -> Option<What> {
        let place = self.place;
        let reason = place.reason.as_str();
        let is_in = |parts: &[&str]| {
            self.site
                .has_function(|name| parts.iter().any(|part| name.contains(part)))
        };
        if is_in(&LOCKS) && (reason.starts_with("sync.") || reason == "semacquire") {
            return (place.users >= USERS.1).then_some(What::Lock);
        }
        if is_in(&POOLS) {
            return Some(What::Pool);
        }
        let pool = match reason {
            "chan send" | "chan receive" => self.has_tokens(),
            CONDITION => self.away >= SEVERAL && self.gives_back() && self.is_steady(),
            _ => false,
        };
        pool.then_some(What::Pool)
    }

    fn is_sure(&self) -> bool {
        let may_be_limited = [ANSWER, GO_IN_CALL];
        let sure = |wait: &GoWait| !may_be_limited.contains(&wait.reason.as_str());
        self.place.reason != CONDITION && self.most.is_some_and(sure)
    }

    /// As many do not wait as the channel has room for.
    fn has_tokens(&self) -> bool {
        let room = self.place.capacity as f64;
        let most = room + (MORE * room).max(1.0);
        let exhausted = self.away >= room - AWAY && self.away <= most && self.is_steady();
        room >= 1.0 && exhausted && self.inside >= INSIDE * room
    }

    /// Those who do not wait are in the function that lets others go on.
    fn gives_back(&self) -> bool {
        let gives = self.place.gives_back.as_deref();
        let inside = self.inside >= INSIDE * self.away;
        gives.is_some_and(|gives| own_functions(self.site).take(CALLERS).any(|f| f == gives))
            && inside
    }

    fn is_steady(&self) -> bool {
        let looks = self.place.looks as f64;
        let variance = self.place.away_squares as f64 / looks - self.away * self.away;
        variance.max(0.0).sqrt() <= STEADY * self.away + 0.5
    }

    /// Nobody of those who could have it runs, and there is one where he may have got it.
    fn is_held_over_a_call(&self) -> bool {
        let runs = self.away * (1.0 - self.elsewhere);
        (runs <= RUNS && self.inside >= INSIDE) || (HELD.0..HELD.1).contains(&self.waits_inside)
    }

    /// Who has it mostly is in C, which works on a processor like anything else.
    fn is_in_c(&self, view: &RunView) -> bool {
        let site = self.most.and_then(|wait| view.model.site(wait.site?));
        site.is_some_and(|site| site.has_function(|name| name.starts_with(CALLS_C)))
    }

    fn finding(&self, view: &RunView, program: &GoProgram, what: What, saving: &Saving) -> Finding {
        let place = view.place(Some(self.id));
        let (waiting, away) = (self.waiting, self.away);
        let meanwhile = self.most.map(|wait| {
            let at = view.place(wait.site);
            format!("{} at {at}", wait.reason)
        });
        let at_what = meanwhile.unwrap_or_else(|| match 2.0 * self.in_calls >= self.elsewhere {
            true => "for a call of the system or of C".to_owned(),
            false => "for what is not known".to_owned(),
        });
        let in_call = self.most.is_some_and(|wait| wait.reason == GO_IN_CALL);
        let title = match what {
            What::Pool => {
                format!("{waiting:.1} goroutines wait in {place} for a pool whose members {away:.1} others hold")
            }
            What::Lock if in_call => {
                format!("goroutines wait for the lock of {place} while its holder is in {at_what}")
            }
            What::Lock => format!(
                "goroutines wait for the lock of {place} while its holder waits itself: {at_what}"
            ),
        };
        let mut seen: Vec<Evidence> = vec![
            evidence(
                "waiting_goroutines",
                waiting,
                format!(
                    "{waiting:.1} of {} wait there on average ({}), at {} of {} looks",
                    plural(self.place.most as usize, "goroutine"),
                    self.place.reason,
                    percent(self.place.looks as f64 / program.looks as f64),
                    count(program.looks as f64),
                ),
            ),
            evidence(
                "others_goroutines",
                away,
                format!(
                    "{away:.1} of them do not: {} of that time they wait for something else or are in a call, mostly: {at_what}",
                    percent(self.elsewhere),
                ),
            ),
        ];
        if self.place.capacity > 0 && what == What::Pool {
            let room = self.place.capacity as f64;
            seen.push(evidence(
                "capacity_count",
                room,
                format!("the channel has room for {}", count(room)),
            ));
        }
        let (id, why, fix) = match what {
            What::Pool => (
                POOL,
                "fewer of it than goroutines that want it, and those who have it keep it while they wait for something else",
                "more of it where it is made (the capacity of the channel, the connections of the pool, SetMaxOpenConns()), or give \
                 it back before the wait",
            ),
            What::Lock if self.is_in_c(view) => (
                FindingId::ContendedFutex,
                "a lock is kept during a call of C",
                "make that call outside of the lock, if what it uses may be used by several at once; or one lock per part of the data",
            ),
            What::Lock => (
                FindingId::HolderOffCpu,
                "a lock is kept during a call that waits",
                "make that call outside of the lock",
            ),
        };
        let caveat = match what {
            What::Pool => {
                "what the pool stands for (connections, memory, disks) may itself be limited"
            }
            What::Lock => {
                "whether what the holder waits for can be done several times at once is not known"
            }
        };
        Finding {
            id,
            subject: Subject::Code(self.id),
            title,
            evidence: seen,
            causes: vec![cause(id.as_str(), why, fix)],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "what the others wait for"),
            share_of_thread_time: (waiting / (waiting + away).max(1.0)).min(1.0),
            caveats: vec![
                caveat.into(),
                "holders are inferred: goroutines that waited earlier and no longer do".into(),
            ],
        }
    }
}

/// Functions of a stack that are the program's, from the innermost on.
fn own_functions(site: &Site) -> impl Iterator<Item = &str> {
    let names = site.frames.iter().map(|frame| frame.function.as_str());
    names.filter(|name| !only_waits(name))
}
