//! The cases of cases.toml.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::run::{run, Outcome};
use convoy_harness::{check, compile, convoy, needs, profile, root, turn, Result};
use convoy_profile::{Op, Profile, SectionEnd};
use libtest_mimic::Trial;
use serde::Deserialize;

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Table {
    case: Vec<Case>,
}

/// See the head of cases.toml.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    program: String,
    why: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    inside: Vec<String>,
    #[serde(default)]
    outside: Vec<String>,
    #[serde(default)]
    needs: Vec<String>,
    plugin: Option<String>,
    #[serde(default)]
    plugin_flags: Vec<String>,
    counted: Option<u64>,
    function: Option<String>,
    processes: Option<usize>,
    threads: Option<usize>,
    objects: Option<usize>,
    waits: Option<u64>,
    samples: Option<u64>,
    #[serde(default)]
    lost: Vec<String>,
    #[serde(default)]
    may_lose: Vec<String>,
    #[serde(default)]
    ends: Vec<String>,
    untraceable: Option<String>,
}

/// What convoy does with the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Record,
    /// Every section of every lock.
    Diagnose,
}

/// One test per case, and one that every program has a case.
pub fn trials() -> Result<Vec<Trial>> {
    let text = std::fs::read_to_string(folder().join("cases.toml")).map_err(|e| e.to_string())?;
    let table: Table = toml::from_str(&text).map_err(|e| e.to_string())?;
    let used: BTreeSet<String> = table
        .case
        .iter()
        .flat_map(|c| [Some(c.program.clone()), c.plugin.clone()])
        .flatten()
        .collect();
    let traced = table.case.iter().filter(|c| c.untraceable.is_none());
    let mut trials: Vec<Trial> = traced.cloned().map(|c| c.trial(Verb::Diagnose)).collect();
    let all = table.case.into_iter();
    trials.extend(all.map(|case| case.trial(Verb::Record)));
    trials.push(trial("table/complete", None, move |_| {
        every_program_is_used(&used)
    }));
    Ok(trials)
}

/// Programs of the tests that are written in Rust.
const USED_ELSEWHERE: [&str; 13] = [
    "attach_hazards.c",
    "attached.c",
    "bystander.c",
    "environment.c",
    "forbids.c",
    "go_threads.go",
    "local_strings.c",
    "own_allocator.c",
    "racy.c",
    "script.sh",
    "starter.c",
    "thread_goes_on.c",
    "waits_for_signal.c",
];

fn every_program_is_used(used: &BTreeSet<String>) -> Result {
    let entries = std::fs::read_dir(programs()).map_err(|e| e.to_string())?;
    for name in entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
    {
        let header = name.ends_with(".h");
        check!(
            header || used.contains(&name) || USED_ELSEWHERE.contains(&name.as_str()),
            "{name}: no case runs it"
        );
    }
    Ok(())
}

fn folder() -> PathBuf {
    root().join("tests/robustness")
}

/// Where the programs are.
pub fn programs() -> PathBuf {
    folder().join("programs")
}

impl Case {
    fn trial(self, verb: Verb) -> Trial {
        let name = match verb {
            Verb::Record => self.name.clone(),
            Verb::Diagnose => format!("diagnose/{}", self.name),
        };
        trial(name, needs::missing(&self.needs), move |scratch| {
            self.compare(verb, scratch)
                .map_err(|message| format!("{} ({})", message, self.why))
        })
    }

    fn compare(&self, verb: Verb, scratch: &Scratch) -> Result {
        let line = self.line()?;
        let _turn = turn::shared();
        let bare = run(&mut self.command(&line), scratch.dir(), "bare", TIMEOUT)?;
        let file = scratch.path("run.convoy");
        let recorder = match verb {
            Verb::Record => convoy::record(&file)?,
            Verb::Diagnose => convoy::diagnose(&["--every"], &file)?,
        };
        let words = std::iter::once(recorder.get_program()).chain(recorder.get_args());
        let mut recorded: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
        recorded.extend(line);
        let recorded = run(
            &mut self.command(&recorded),
            scratch.dir(),
            "convoy",
            TIMEOUT,
        )?;
        same(&bare, &recorded)?;
        let profile = convoy::read(&file)?;
        if verb == Verb::Diagnose {
            self.sections_are_traced(&profile)?;
        }
        self.nothing_is_lost(&profile)
    }

    /// Those that the program counts itself are among them.
    fn sections_are_traced(&self, recorded: &Profile) -> Result {
        let sections = recorded.sections.as_ref().ok_or("no sections")?;
        let traced: u64 = sections.sites.iter().flat_map(|s| s.ends).sum();
        check!(
            traced > 0 || self.counted.is_none(),
            "no section was traced: {:?}",
            sections.drops
        );
        for expected in &self.ends {
            let how = SectionEnd::ALL.iter().position(|e| id(*e) == expected);
            let how = how.ok_or_else(|| format!("{expected}: no such end"))?;
            let n: u64 = sections.sites.iter().map(|s| s.ends[how]).sum();
            check!(n > 0, "no section's record ends with {expected}");
        }
        Ok(())
    }

    /// The program with its arguments, behind the command that starts it.
    fn line(&self) -> Result<Vec<String>> {
        let program = compile::compile(&programs().join(&self.program), &self.flags)?;
        let plugin = match &self.plugin {
            Some(source) => {
                let mut flags = vec!["-shared".into(), "-fPIC".into()];
                flags.extend(self.plugin_flags.iter().cloned());
                compile::compile(&programs().join(source), &flags)?
            }
            None => PathBuf::new(),
        };
        let fill = |word: &String| {
            let word = word.replace("{plugin}", &plugin.to_string_lossy());
            word.replace("{programs}", &programs().to_string_lossy())
        };
        let own = std::iter::once(program.to_string_lossy().into_owned());
        Ok(self
            .inside
            .iter()
            .map(fill)
            .chain(own)
            .chain(self.args.iter().map(fill))
            .collect())
    }

    fn command(&self, line: &[String]) -> Command {
        let mut words = self.outside.iter().chain(line);
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words).envs(&self.env);
        command
    }

    fn nothing_is_lost(&self, recorded: &Profile) -> Result {
        if let Some(expected) = self.counted {
            let function = self.function.as_deref().unwrap_or("counted_section");
            let found = profile::calls(recorded, function, Op::MutexLock).n;
            check!(
                found == expected,
                "{function}: {found} of {expected} acquisitions recorded"
            );
        }
        let processes = recorded.processes.len();
        let expected = self.processes.unwrap_or(1);
        check!(
            processes >= expected,
            "{processes} of {expected} processes in the profile"
        );
        self.figures_hold(recorded)?;
        self.losses_are_named(recorded)
    }

    fn figures_hold(&self, recorded: &Profile) -> Result {
        let threads: usize = recorded.processes.iter().map(|p| p.threads.len()).sum();
        let expected = self.threads.unwrap_or(threads);
        check!(
            threads == expected,
            "{threads} threads in the profile, expected {expected}"
        );
        let objects: usize = recorded.processes.iter().map(|p| p.objects.len()).sum();
        let most = self.objects.unwrap_or(objects);
        check!(
            objects <= most,
            "{objects} objects in the profile, expected {most} at most"
        );
        let details = || recorded.processes.iter().flat_map(|p| &p.details);
        let locks = details().filter(|d| d.op.is_some_and(|op| LOCKS.contains(&op)));
        let waits: u64 = locks.filter_map(|d| d.wait.as_ref()).map(|w| w.n).sum();
        let expected = self.waits.unwrap_or(waits);
        check!(
            waits == expected,
            "{waits} waits for locks, expected {expected}"
        );
        let samples: u64 = details().map(|d| u64::from(d.samples)).sum();
        let expected = self.samples.unwrap_or(0);
        check!(
            samples >= expected,
            "{samples} samples, expected {expected} or more"
        );
        Ok(())
    }
}

/// As the table calls it.
fn id(end: SectionEnd) -> &'static str {
    match end {
        SectionEnd::Released => "released",
        SectionEnd::Waited => "waited",
        SectionEnd::TooLong => "too-long",
        SectionEnd::Signal => "signal",
        SectionEnd::Process => "process",
        SectionEnd::Code => "code",
        SectionEnd::Left => "left",
        SectionEnd::NoRoom => "no-room",
        SectionEnd::Thread => "thread",
    }
}

/// Blocking acquires of locks.
const LOCKS: [Op; 7] = [
    Op::MutexLock,
    Op::MutexTimedlock,
    Op::RwlockRd,
    Op::RwlockWr,
    Op::RwlockTimedrd,
    Op::RwlockTimedwr,
    Op::SpinLock,
];

/// Losses that shorten a call stack, and nothing else.
const STACKS_ONLY: [&str; 2] = ["stack-truncated", "stack-no-rule"];

impl Case {
    /// The losses are exactly those that the table knows about.
    fn losses_are_named(&self, recorded: &Profile) -> Result {
        let drops = recorded
            .processes
            .iter()
            .flat_map(|p| &p.drops)
            .map(|(reason, _)| reason.as_str());
        let designed = |reason: &&str| {
            STACKS_ONLY.contains(reason) || self.may_lose.iter().any(|r| r == reason)
        };
        let found: BTreeSet<&str> = drops.filter(|reason| !designed(reason)).collect();
        let expected: BTreeSet<&str> = self.lost.iter().map(String::as_str).collect();
        check!(found == expected, "lost: {found:?}, expected {expected:?}");
        Ok(())
    }
}

/// What the user would see must not differ.
pub fn same(bare: &Outcome, recorded: &Outcome) -> Result {
    let (expected, found) = (bare.end.as_shell(), recorded.end.as_shell());
    check!(
        expected == found && found.is_some(),
        "status {:?} became {:?}; stderr: {}",
        bare.end,
        recorded.end,
        recorded.stderr
    );
    check!(
        bare.stdout == recorded.stdout,
        "stdout differs:\n{}\n---\n{}",
        bare.stdout,
        recorded.stdout
    );
    check!(
        bare.stderr == recorded.stderr,
        "stderr differs:\n{}\n---\n{}",
        bare.stderr,
        recorded.stderr
    );
    Ok(())
}

/// Compiles one of the programs without flags.
pub fn program(name: &str) -> Result<PathBuf> {
    compile::compile(Path::new(&programs().join(name)), &[])
}
