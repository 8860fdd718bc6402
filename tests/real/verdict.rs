//! Questions to the report of one run.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::Scratch;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, Result};
use serde::Deserialize;

/// More than one screen of text is no report for a person.
const SCREEN_LINES: usize = 70;

/// What convoy says of a run, as far as the cases ask.
#[derive(Debug, Deserialize)]
pub struct Verdict {
    /// What it advises, best first.
    pub findings: Vec<Finding>,
    /// Locks by wait.
    pub locks: Vec<Lock>,
    /// Waits for something to happen.
    pub events: Vec<Event>,
    /// Processes that carried the agent, or that the kernel told of.
    pub processes: Vec<Process>,
    objects: Vec<Object>,
    stacks: Vec<Stack>,
    quality: Quality,
    /// What the scheduler said, null without it.
    #[serde(default)]
    critical: serde_json::Value,
}

#[derive(Debug, Deserialize)]
pub struct Finding {
    pub id: String,
    pub title: String,
    subject: Subject,
    pub gain: Gain,
    evidence: Vec<Evidence>,
    causes: Vec<Cause>,
}

#[derive(Debug, Deserialize)]
struct Evidence {
    text: String,
}

#[derive(Debug, Deserialize)]
struct Cause {
    text: String,
    fix: String,
}

#[derive(Debug, Deserialize)]
struct Subject {
    objects: Vec<usize>,
    stacks: Vec<usize>,
}

#[derive(Debug, Deserialize)]
pub struct Gain {
    pub low_ratio: f64,
    pub mid_ratio: f64,
    #[serde(deserialize_with = "convoy_harness::convoy::bound")]
    pub high_ratio: f64,
}

#[derive(Debug, Deserialize)]
pub struct Lock {
    object: usize,
    pub stats: Stats,
    sites: Vec<Share>,
}

#[derive(Debug, Deserialize)]
pub struct Stats {
    pub acquisitions_count: u64,
}

#[derive(Debug, Deserialize)]
struct Share {
    stack: usize,
}

#[derive(Debug, Deserialize)]
pub struct Event {
    object: usize,
    sites: Vec<Share>,
    pub waits_count: u64,
}

#[derive(Debug, Deserialize)]
pub struct Process {
    pub exe: String,
}

#[derive(Debug, Deserialize)]
struct Object {
    kind: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Stack {
    frames: Vec<Frame>,
}

#[derive(Debug, Deserialize)]
struct Frame {
    function: String,
    module: String,
}

#[derive(Debug, Deserialize)]
struct Quality {
    losses: Vec<Loss>,
}

#[derive(Debug, Deserialize)]
struct Loss {
    reason: String,
    count: u64,
    numbers_are_missing: bool,
}

impl Verdict {
    /// Reads a profile through both of convoy's reports, and checks what must be true of every report.
    pub fn of(scratch: &Scratch, profile: &Path) -> Result<Self> {
        let report = convoy::report(profile, scratch.dir())?;
        let verdict: Self =
            serde_json::from_value(report).map_err(|e| format!("report as JSON: {e}"))?;
        let mut command = Command::new(convoy::binary()?);
        command.arg("report").arg(profile);
        let text = run(&mut command, scratch.dir(), "text", Duration::from_secs(60))?;
        check!(
            text.end == End::Status(0),
            "{command:?}: {:?}: {}",
            text.end,
            text.stderr
        );
        let lines = text.stdout.lines().count();
        check!(
            (3..=SCREEN_LINES).contains(&lines),
            "the report for a person has {lines} lines"
        );
        verdict.is_sound()?;
        Ok(verdict)
    }

    fn is_sound(&self) -> Result {
        check!(!self.processes.is_empty(), "no process was recorded");
        for loss in &self.quality.losses {
            check!(
                !loss.numbers_are_missing,
                "lost: {} x {}",
                loss.count,
                loss.reason
            );
        }
        for Finding { gain, title, .. } in &self.findings {
            let ordered = 1.0 <= gain.low_ratio
                && gain.low_ratio <= gain.mid_ratio
                && gain.mid_ratio.is_finite()
                && gain.mid_ratio <= gain.high_ratio;
            check!(ordered, "{title}: gain {gain:?}");
        }
        Ok(())
    }

    /// Acquisitions of locks that are taken in a function or module of this name.
    pub fn acquisitions(&self, place: &str) -> u64 {
        let there = self
            .locks
            .iter()
            .filter(|lock| self.is_used_in(&lock.sites, place));
        there.map(|lock| lock.stats.acquisitions_count).sum()
    }

    /// Waits for events in a function or module of this name.
    pub fn event_waits(&self, place: &str) -> u64 {
        let there = self
            .events
            .iter()
            .filter(|event| self.is_used_in(&event.sites, place));
        there.map(|event| event.waits_count).sum()
    }

    /// One of the `n` locks that are waited for longest must be of this function or module.
    pub fn expect_top_lock(&self, n: usize, place: &str) -> Result {
        let top = &self.locks[..n.min(self.locks.len())];
        let found = top.iter().any(|lock| self.is_used_in(&lock.sites, place));
        check!(
            found,
            "{place} takes none of the first {n} locks:\n{}",
            self.describe()
        );
        Ok(())
    }

    /// No finding may promise more than this.
    pub fn expect_gain_below(&self, mid_ratio: f64) -> Result {
        self.expect_gain_of_others_below("", mid_ratio)
    }

    /// The same of all but findings of one kind.
    pub fn expect_gain_of_others_below(&self, kind: &str, mid_ratio: f64) -> Result {
        for Finding { gain, title, .. } in self.findings.iter().filter(|f| f.id != kind) {
            check!(
                gain.mid_ratio < mid_ratio,
                "{title}: promises {gain:?}:\n{}",
                self.describe()
            );
        }
        Ok(())
    }

    /// Whether a finding is about something that is used in, or named after, `place`.
    pub fn is_about(&self, finding: &Finding, place: &str) -> bool {
        let Subject { objects, stacks } = &finding.subject;
        if finding.title.contains(place) {
            return true;
        }
        stacks.iter().any(|&stack| self.stack_has(stack, place))
            || objects.iter().any(|&object| {
                let named = self
                    .objects
                    .get(object)
                    .is_some_and(|o| o.name.contains(place));
                let of_it = |lock: &&Lock| lock.object == object;
                named
                    || self
                        .locks
                        .iter()
                        .filter(of_it)
                        .any(|lock| self.is_used_in(&lock.sites, place))
            })
    }

    /// There is a finding of this kind that names all of these places.
    pub fn expect_finding(&self, id: &str, places: &[&str]) -> Result {
        let names = |finding: &Finding, place: &str| {
            let evidence = finding.evidence.iter().map(|e| e.text.as_str());
            let causes = finding
                .causes
                .iter()
                .flat_map(|c| [c.text.as_str(), c.fix.as_str()]);
            self.is_about(finding, place) || evidence.chain(causes).any(|text| text.contains(place))
        };
        let found = self
            .findings
            .iter()
            .any(|f| f.id == id && places.iter().all(|place| names(f, place)));
        check!(found, "no {id} that names {places:?}: {}", self.describe());
        Ok(())
    }

    /// The path of a wait is found: its reason, and the file. Whether it is worth a finding depends on the disk: on some an
    /// fsync() takes 0.1 ms.
    pub fn expect_wait(&self, reason: &str, file: &str) -> Result {
        let waits = self.critical["waits"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let name = |wait: &serde_json::Value| match &wait["name"] {
            serde_json::Value::String(name) => name.clone(),
            index => index
                .as_u64()
                .and_then(|ix| self.critical["names"][ix as usize].as_str())
                .unwrap_or_default()
                .to_owned(),
        };
        let found = waits
            .iter()
            .any(|w| w["reason"] == reason && name(w).contains(file));
        check!(
            found,
            "no {reason} of {file} among the waits: {}",
            self.describe()
        );
        Ok(())
    }

    /// Objects of this kind that are waited for.
    pub fn events_of(&self, kind: &str) -> usize {
        let is = |event: &&Event| {
            self.objects
                .get(event.object)
                .is_some_and(|o| o.kind == kind)
        };
        self.events.iter().filter(is).count()
    }

    /// The findings and the first locks and events, for the message of a failed case.
    pub fn describe(&self) -> String {
        let findings = self
            .findings
            .iter()
            .map(|f| format!("  {} {}: {:?}\n", f.id, f.title, f.gain));
        let locks = self.locks.iter().take(8).map(|lock| {
            let n = lock.stats.acquisitions_count;
            format!(
                "  {} x {n} in {}\n",
                self.name(lock.object),
                self.places(&lock.sites)
            )
        });
        let events = self.events.iter().take(8).map(|event| {
            let n = event.waits_count;
            format!(
                "  {} x {n} in {}\n",
                self.name(event.object),
                self.places(&event.sites)
            )
        });
        let all: String = findings.chain(locks).chain(events).collect();
        format!("findings, locks, events:\n{all}")
    }

    fn name(&self, object: usize) -> &str {
        self.objects.get(object).map_or("?", |o| &o.name)
    }

    fn places(&self, sites: &[Share]) -> String {
        let frames = sites
            .iter()
            .take(3)
            .filter_map(|site| self.stacks.get(site.stack)?.frames.first());
        frames
            .map(|frame| format!("{}@{} ", frame.function, frame.module))
            .collect()
    }

    fn is_used_in(&self, sites: &[Share], place: &str) -> bool {
        sites.iter().any(|site| self.stack_has(site.stack, place))
    }

    fn stack_has(&self, stack: usize, place: &str) -> bool {
        let frames = self
            .stacks
            .get(stack)
            .map(|s| s.frames.as_slice())
            .unwrap_or_default();
        frames
            .iter()
            .any(|f| f.function.contains(place) || f.module.contains(place))
    }
}
