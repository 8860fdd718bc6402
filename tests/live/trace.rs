//! Traces: every primitive leaves its events, laws hold, nothing that happens to the program or to convoy
//! makes a trace unreadable.

mod laws;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{measured, trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::run::{run, start, End, Outcome};
use convoy_harness::{check, convoy, root, turn, Result};
use convoy_profile::Profile;
use convoy_trace::{decode, Kind, Mode, Recording};
use libtest_mimic::Trial;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Programs whose every primitive is called in a function of its own.
const COVERAGE: [(&str, &[&str]); 5] = [
    ("locks.c", &[]),
    ("events.c", &[]),
    ("threads.c", &[]),
    ("cxx.cpp", &[]),
    ("omp.c", &["-fopenmp"]),
];

/// Fixtures with contention of different kinds.
const CONTENDED: [&str; 9] = [
    "hot-mutex/hot_mutex.c",
    "short-hot-mutex/short_hot_mutex.c",
    "cond-queue-starved/cond_queue_starved.c",
    "barrier-straggler/barrier_straggler.c",
    "rwlock-writer/rwlock_writer.c",
    "semaphore-pool/semaphore_pool.c",
    "spin-lock/spin_lock.c",
    "trylock-spin/trylock_spin.c",
    "many-locks/many_locks.c",
];

/// One test per program and per claim.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (file, flags) in COVERAGE {
        let name = format!("trace/coverage/{file}");
        trials.push(measured(name, None, move |scratch| {
            complete(&format!("coverage/{file}"), flags, scratch)
        }));
    }
    for file in CONTENDED {
        let name = file.split('/').next().unwrap_or(file);
        trials.push(measured(format!("trace/{name}"), None, move |scratch| {
            complete(file, &[], scratch)
        }));
    }
    trials.push(measured("trace/windows", None, windows));
    trials.push(measured("trace/last", None, last));
    trials.push(trial("trace/killed", None, killed));
    trials.push(trial("trace/recovered", None, recovered));
    trials.push(trial("trace/children", None, children));
    trials.push(trial("trace/signal-handlers", None, signal_handlers));
    trials.push(measured("trace/5000-threads", None, many_threads));
    trials.push(measured("trace/size", None, bounded));
    trials.push(trial("trace/static", None, without_agent));
    trials.push(trial("trace/attach", None, running));
    trials
}

fn program(file: &str, flags: &[&str]) -> Result<PathBuf> {
    let flags: Vec<String> = flags.iter().map(|f| (*f).to_owned()).collect();
    compile(&root().join(file), &flags)
}

/// The program of these tests, by mode; see its head.
fn tracee() -> Result<PathBuf> {
    program("tests/live/programs/tracee.c", &[])
}

/// Records a run, which must be a success.
fn record(
    options: &[&str],
    program: &PathBuf,
    args: &[&str],
    scratch: &Scratch,
) -> Result<Profile> {
    let output = scratch.path("run.convoy");
    let mut command = convoy::record_with(options, &output)?;
    let command = command.arg(program).args(args);
    let outcome = run(command, scratch.dir(), "convoy", TIMEOUT)?;
    let ok = outcome.end == End::Status(0);
    check!(ok, "{:?}: {}", outcome.end, outcome.stderr);
    convoy::read(&output)
}

fn recording(profile: &Profile, process: u32) -> Result<Recording> {
    decode(profile, process).map_err(|e| e.to_string())
}

/// Events of a kind, of all threads.
fn count(recording: &Recording, kind: Kind) -> u64 {
    let events = recording.threads.iter().flat_map(|t| &t.events);
    events.filter(|e| e.kind == kind).count() as u64
}

/// All events of a run are there, and obey the laws.
fn complete(file: &str, flags: &[&str], scratch: &Scratch) -> Result {
    let program = program(&format!("fixtures/{file}"), flags)?;
    let _turn = turn::shared();
    let profile = record(&["--trace=full", "--scheduler=off"], &program, &[], scratch)?;
    let recording = recording(&profile, 0)?;
    let whole = recording.windows.len() == 1 && recording.mode == Mode::Full;
    check!(whole, "{:?}: {:?}", recording.mode, recording.windows);
    laws::hold(&profile.processes[0], &recording, true)
}

/// A program with more events than the budget is recorded in windows.
fn windows(scratch: &Scratch) -> Result {
    let program = tracee()?;
    let _turn = turn::shared();
    let profile = record(
        &["--trace", "--scheduler=off"],
        &program,
        &["fast", "1500"],
        scratch,
    )?;
    let recording = recording(&profile, 0)?;
    check!(recording.mode == Mode::Windows, "{:?}", recording.mode);
    check!(recording.windows.len() >= 3, "{:?}", recording.windows);
    let (covered, run) = (
        recording.covered_ns(),
        recording.end_ns - recording.start_ns,
    );
    check!(covered < run / 2, "{covered} of {run} ns");
    let pairs = (
        count(&recording, Kind::Acquired),
        count(&recording, Kind::Released),
    );
    check!(pairs.0 > 10_000 && pairs.1 > 10_000, "{pairs:?}");
    // Outside of windows uncontended operations leave nothing.
    let inside = |at: u64| {
        const SLACK_NS: u64 = 20_000_000; // a thread that was off its processor when the window closed
        let mut windows = recording.windows.iter();
        windows.any(|w| (w.start_ns.saturating_sub(SLACK_NS)..w.end_ns + SLACK_NS).contains(&at))
    };
    let events = recording.threads.iter().flat_map(|t| &t.events);
    let outside = events.filter(|e| e.kind == Kind::Acquired && !inside(e.at_ns));
    let outside = outside.count();
    check!(outside == 0, "{outside} events outside of windows");
    laws::hold(&profile.processes[0], &recording, false)
}

/// Only the end is kept.
fn last(scratch: &Scratch) -> Result {
    let program = tracee()?;
    let _turn = turn::shared();
    let options = ["--trace=last:200ms", "--scheduler=off"];
    let profile = record(&options, &program, &["steady", "1000"], scratch)?;
    let recording = recording(&profile, 0)?;
    check!(
        recording.mode == Mode::Last(200_000_000),
        "{:?}",
        recording.mode
    );
    let [window] = recording.windows[..] else {
        return Err(format!("{:?}", recording.windows));
    };
    let length = window.end_ns - window.start_ns;
    check!(length <= 200_000_000, "{length} ns");
    check!(count(&recording, Kind::Acquired) > 100, "no events");
    let events = recording.threads.iter().flat_map(|t| &t.events);
    let acquired = events.filter(|e| e.kind == Kind::Acquired);
    let first = acquired.map(|e| e.at_ns).min().unwrap_or(0);
    // Blocks are kept whole: the first one may have begun before.
    let before = window.start_ns.saturating_sub(first);
    check!(
        before < 500_000_000,
        "kept from {before} ns before the window"
    );
    Ok(())
}

/// What was written before a SIGKILL is there.
fn killed(scratch: &Scratch) -> Result {
    let program = tracee()?;
    let _turn = turn::shared();
    let output = scratch.path("run.convoy");
    let mut command = convoy::record_with(&["--trace=full", "--scheduler=off"], &output)?;
    let command = command.arg(program).arg("killed");
    let outcome = run(command, scratch.dir(), "convoy", TIMEOUT)?;
    check!(outcome.end.as_shell() == Some(137), "{:?}", outcome.end);
    let profile = convoy::read(&output)?;
    let recording = recording(&profile, 0)?;
    let pairs = (
        count(&recording, Kind::Acquired),
        count(&recording, Kind::Released),
    );
    check!(pairs == (1001, 1000), "{pairs:?}");
    laws::hold(&profile.processes[0], &recording, false)
}

/// Of a killed convoy what the agents had not handed over yet can be recovered.
fn recovered(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let script = "\"$1\" record -q --session-dir . --trace=full --scheduler off -o no.convoy -- \"$2\" sleeps & \
         sleep 1; kill -9 $!; for d in convoy-session-*; do \"$1\" recover -q --keep -o back.convoy \"$d\"; done; \
         kill $(cat pid)";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .args([convoy::binary()?, tracee()?]);
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let profile = convoy::read(&scratch.path("back.convoy"))?;
    let recording = recording(&profile, 0)?;
    check!(
        count(&recording, Kind::Acquired) >= 100,
        "nothing recovered"
    );
    Ok(())
}

/// Children of fork and exec have traces of their own.
fn children(scratch: &Scratch) -> Result {
    let program = tracee()?;
    let _turn = turn::shared();
    let profile = record(
        &["--trace=full", "--scheduler=off"],
        &program,
        &["children"],
        scratch,
    )?;
    let mut found = Vec::new();
    for (ix, process) in (0..).zip(&profile.processes) {
        let recording = recording(&profile, ix)?;
        laws::hold(process, &recording, true)?;
        found.push(count(&recording, Kind::Acquired));
    }
    found.sort_unstable();
    // The parent, the child of its fork, and that one's child after its exec.
    check!(found == [101, 203, 307], "{found:?}");
    Ok(())
}

/// A signal handler that uses locks, in a thread that does.
fn signal_handlers(scratch: &Scratch) -> Result {
    let program = tracee()?;
    let _turn = turn::shared();
    let options = ["--trace=full", "--scheduler=off"];
    let profile = record(&options, &program, &["signals", "600"], scratch)?;
    let recording = recording(&profile, 0)?;
    check!(count(&recording, Kind::Acquired) > 1000, "no events");
    laws::hold_with_handlers(&recording)
}

/// More threads than there are processors by far, all alive at once.
fn many_threads(scratch: &Scratch) -> Result {
    let program = tracee()?;
    let _turn = turn::alone();
    let options = ["--trace=full", "--scheduler=off", "--max-threads=6000"];
    let profile = record(&options, &program, &["threads", "5000"], scratch)?;
    let recording = recording(&profile, 0)?;
    let counts = [Kind::Create, Kind::Start, Kind::JoinEnd].map(|k| count(&recording, k));
    check!(counts == [5000, 5001, 5000], "{counts:?}");
    let joined = recording.threads[0].events.iter();
    let joined = joined.filter(|e| e.kind == Kind::JoinEnd).map(|e| e.arg);
    let mut joined: Vec<u64> = joined.collect();
    joined.sort_unstable();
    joined.dedup();
    check!(joined.len() == 5000, "{} threads were joined", joined.len());
    laws::hold(&profile.processes[0], &recording, true)
}

/// A trace that may take a megabyte keeps the begin and the end.
fn bounded(scratch: &Scratch) -> Result {
    let program = tracee()?;
    let _turn = turn::shared();
    let options = ["--trace=full", "--trace-size=1", "--scheduler=off"];
    let profile = record(&options, &program, &["steady", "4000"], scratch)?;
    let recording = recording(&profile, 0)?;
    let events = recording.event_count();
    check!(events < 1 << 20, "{events} events");
    check!(recording.losses.windows > 0, "{:?}", recording.losses);
    let (first, last) = (recording.windows.first(), recording.windows.last());
    check!(
        first.map(|w| w.start_ns) == Some(recording.start_ns)
            && last.map(|w| w.end_ns) == Some(recording.end_ns),
        "{:?}",
        recording.windows
    );
    Ok(())
}

fn told(outcome: &Outcome, text: &str) -> Result {
    check!(
        outcome.stderr.contains(text),
        "not told: {}",
        outcome.stderr
    );
    Ok(())
}

/// Where there can be no trace it is said why, and what to do.
fn without_agent(scratch: &Scratch) -> Result {
    let program = program("tests/live/programs/tracee.c", &["-static"])?;
    let _turn = turn::shared();
    let mut command = Command::new(convoy::binary()?);
    command
        .args(["record", "--force", "--trace", "--scheduler=off", "-o"])
        .arg(scratch.path("run.convoy"))
        .arg("--")
        .arg(program)
        .args(["steady", "10"]);
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    told(&outcome, "there is no trace")?;
    let mut command = Command::new(convoy::binary()?);
    command
        .args(["export", "-f", "events"])
        .arg(scratch.path("run.convoy"));
    let outcome = run(&mut command, scratch.dir(), "export", TIMEOUT)?;
    told(&outcome, "convoy record --trace")
}

/// A running program cannot be traced.
fn running(scratch: &Scratch) -> Result {
    let mut command = Command::new(convoy::binary()?);
    command.args(["record", "--trace", "-o", "x.convoy", "-p", "1"]);
    let running = start(&mut command, scratch.dir(), "convoy")?;
    let outcome = running.finish(TIMEOUT)?;
    check!(outcome.end != End::Status(0), "{:?}", outcome.end);
    told(&outcome, "start it under convoy")
}
