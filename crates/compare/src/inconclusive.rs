//! What a comparison cannot know. A limit on it is not judged: it must neither pass in silence nor be called a
//! regression.

use convoy_profile::Exit;

use crate::compare::{Comparison, RunFacts};
use crate::notes::{self, PARTLY_LOCKED, RUNNING};

/// Why something is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// What was found, and what follows from it.
    pub why: String,
    /// What to do.
    pub fix: String,
}

/// What a limit is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matter {
    /// From start to end.
    RunTime,
    /// A sum over the run.
    CpuTime,
    /// Waits for locks over life spans.
    LockShare,
    /// Sums and counts of locks.
    LockSum,
    /// Findings and their gains.
    Findings,
}

/// Runs whose values are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// Those after the change.
    After,
    /// All: what is looked at is a change.
    Both,
}

impl Doubt {
    /// From its two parts.
    pub fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            fix: fix.into(),
        }
    }
}

/// Why these values of these runs cannot be judged; `None`: they can.
pub fn of(c: &Comparison, matter: Matter, sides: Sides) -> Option<Doubt> {
    let runs: Vec<&RunFacts> = match sides {
        Sides::After => c.after.iter().collect(),
        Sides::Both => c.runs().collect(),
    };
    let different = match sides {
        Sides::Both => c.different.as_ref().map(of_different),
        Sides::After => None,
    };
    let known = different.or_else(|| not_whole(&runs, matter));
    known.or_else(|| match matter {
        Matter::RunTime | Matter::CpuTime => part_of_a_run(&runs, matter),
        Matter::LockShare => without_locks(&runs),
        Matter::LockSum => without_locks(&runs).or_else(|| part_of_a_run(&runs, matter)),
        Matter::Findings => recorded_differently(&runs),
    })
}

fn of_different([was, is]: &[String; 2]) -> Doubt {
    Doubt::new(
        format!("{was} and {is} are different programs: what differs between them is no change"),
        "compare runs of one program, or limit the value after: without a sign",
    )
}

/// Of a file that was cut or damaged. How long the run took stands at its head.
fn not_whole(runs: &[&RunFacts], matter: Matter) -> Option<Doubt> {
    let run = runs.iter().find(|run| {
        !run.lost.is_empty()
            && match matter {
                Matter::RunTime => !run.is_whole(),
                Matter::CpuTime => !run.is_whole() || run.cpu_summed,
                Matter::LockShare | Matter::LockSum | Matter::Findings => true,
            }
    })?;
    Some(Doubt::new(
        notes::not_whole(&run.name, &run.lost),
        "copy the file again, record again with room on the disk, or leave the run out",
    ))
}

/// Sums grow with the length of the recording, as the run time does.
fn part_of_a_run(runs: &[&RunFacts], matter: Matter) -> Option<Doubt> {
    const FIX: &str = "record whole runs: convoy record -- COMMAND";
    let run = runs.iter().find(|run| !run.is_whole())?;
    let why = match (run.exit, matter) {
        (Exit::Running, Matter::RunTime) => format!("{}: {RUNNING}", run.name),
        (Exit::Running, _) => format!(
            "{}: a running process was recorded for a while: its sums grow with the length of the recording",
            run.name
        ),
        (Exit::Unknown, Matter::RunTime) => notes::end_not_seen(&run.name),
        (Exit::Unknown, _) => format!(
            "{}: its end was not seen, its sums are those of the recording",
            run.name
        ),
        _ => format!("{}: its run time is not known", run.name),
    };
    Some(Doubt::new(why, FIX))
}

fn without_locks(runs: &[&RunFacts]) -> Option<Doubt> {
    let without = runs.iter().find(|run| !run.locks_seen)?;
    let why = if runs.iter().any(|run| run.locks_seen) {
        format!("{PARTLY_LOCKED} ({} has none)", without.name)
    } else {
        format!(
            "{}: no process carried the agent: its locks are not known",
            without.name
        )
    };
    Some(Doubt::new(
        why,
        "start the program with convoy record -- COMMAND; convoy doctor COMMAND says what keeps the agent out",
    ))
}

/// What one way of recording shows and another does not is neither new nor gone.
fn recorded_differently(runs: &[&RunFacts]) -> Option<Doubt> {
    let why = *notes::partly_recorded(runs).first()?;
    Some(Doubt::new(
        why,
        "record all runs in the same way, as the same user",
    ))
}
