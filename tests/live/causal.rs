//! `convoy causal`: the slow stage of a pipeline comes first, hot code that others wait for anyway
//! is worth nothing, and the program stays what it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::{measured, trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End, Outcome, Running};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;

use crate::metrics::code_of;

const TIMEOUT: Duration = Duration::from_secs(120);
/// What the agent does by itself it does within this.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tests.
pub fn trials() -> Vec<Trial> {
    let root = || missing(&["root".to_owned()]);
    vec![
        measured("causal/pipeline", None, slow_stage_comes_first),
        measured(
            "causal/decoy",
            None,
            code_off_the_critical_path_is_worth_nothing,
        ),
        measured("causal/factorial", None, one_run_gives_every_target_its_own),
        measured(
            "causal/path",
            None,
            a_function_is_worth_what_its_caller_asks_of_it,
        ),
        measured(
            "causal/no-path",
            None,
            a_path_that_nobody_takes_is_no_gain_of_zero,
        ),
        measured("causal/threads", None, threads_are_worth_what_they_run),
        measured(
            "causal/short",
            None,
            a_short_program_is_told_how_long_it_must_run,
        ),
        measured("causal/kept", None, a_profile_keeps_what_the_report_says),
        measured(
            "causal/latency",
            None,
            a_latency_is_that_of_what_lies_between,
        ),
        measured(
            "causal/calls",
            root(),
            without_locks_the_calls_of_a_function_are_progress,
        ),
        trial("causal/point", None, a_point_that_is_not_there_is_named),
        measured("causal/repeat", None, short_runs_have_a_number_together),
        measured(
            "causal/repeat-short",
            None,
            runs_that_end_before_experiments_begin_teach_what_to_try,
        ),
        measured(
            "causal/futex-lock",
            None,
            wake_ups_of_a_lock_of_futexes_are_no_progress,
        ),
        trial("causal/status", None, output_and_status_are_the_program_s),
        trial("causal/attached", root(), a_process_goes_on_as_it_was),
        trial("causal/hooks", root(), a_killed_convoy_leaves_no_hook),
        trial("causal/killed", None, a_killed_convoy_leaves_no_window),
    ]
}

fn program(name: &str) -> Result<PathBuf> {
    compile(&root().join("bench/programs").join(name), &[])
}

/// Runs a program under experiments; its end and the report.
fn experiment(
    scratch: &Scratch,
    options: &[&str],
    program: &PathBuf,
    arguments: &[&str],
) -> Result<(Outcome, Value)> {
    let file = scratch.path("report.json");
    let mut command = convoy::causal(options, &file)?;
    command.arg(program).args(arguments);
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    let text = std::fs::read_to_string(&file)
        .map_err(|e| format!("{}: {e}; {}", file.display(), outcome.stderr))?;
    let report = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    Ok((outcome, report))
}

fn targets(report: &Value) -> &[Value] {
    report["targets"].as_array().map_or(&[], Vec::as_slice)
}

/// What a target that is half as fast again saves: bounds of the share of the run.
fn saved(report: &Value, name: &str) -> Result<(f64, f64)> {
    let row = targets(report).iter().find(|row| row["name"] == name);
    let row = row.ok_or_else(|| format!("no target {name}: {report}"))?;
    let bound = |bound: &str| row["at"][1]["saved_share"][bound].as_f64();
    match (bound("low"), bound("high")) {
        (Some(low), Some(high)) => Ok((low, high)),
        _ => Err(format!("no number for {name}: {report}")),
    }
}

fn slow_stage_comes_first(scratch: &Scratch) -> Result {
    let program = program("stages.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = ["--budget", "4s", "--target", "fn:read_item"];
        let options = [&options[..], &["--target", "fn:transform_item"]].concat();
        let (outcome, report) = experiment(scratch, &options, &program, &["items=60000"])?;
        check!(outcome.end == End::Status(0), "{:?}", outcome.end);
        let (low, _) = saved(&report, "transform_item")?;
        check!(low > 0.1, "it decides the pace: {report}");
        check!(
            targets(&report)[0]["name"] == "transform_item",
            "not the first: {report}"
        );
        Ok(())
    })
}

/// The slow stage of a pipeline by F, as by D, and nothing for the other one or for no target.
fn one_run_gives_every_target_its_own(scratch: &Scratch) -> Result {
    let program = program("stages.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let mut found = Vec::new();
        for estimator in ["factorial", "dilate"] {
            let options = ["--budget", "4s", "--estimator", estimator];
            let targets = ["--target", "fn:read_item", "--target", "fn:transform_item"];
            let options = [&options[..], &targets].concat();
            let (_, report) = experiment(scratch, &options, &program, &["items=60000"])?;
            let (low, high) = saved(&report, "transform_item")?;
            check!(low > 0.1, "it decides the pace: {report}");
            let (low_of_other, high_of_other) = saved(&report, "read_item")?;
            let of_other = (low_of_other + high_of_other) / 2.0;
            check!(of_other.abs() < 0.12, "nobody waits for it: {report}");
            let null = report["null"].as_array().map_or(0, Vec::len);
            check!(null > 0, "no null experiment: {report}");
            found.push((low, high));
        }
        let (factorial, dilate) = (found[0], found[1]);
        // Slower code is worth at least what faster code is, and not twice as much in a pipeline.
        let middle = |(low, high): (f64, f64)| (low + high) / 2.0;
        let ratio = middle(factorial) / middle(dilate);
        check!((0.7..2.0).contains(&ratio), "{found:?}");
        Ok(())
    })
}

/// `inner` runs for 60 of 80 on behalf of `often`, for 20 on that of `seldom`.
fn a_function_is_worth_what_its_caller_asks_of_it(scratch: &Scratch) -> Result {
    let program = compile(&root().join("tests/live/programs/paths.c"), &[])?;
    let _turn = turn::alone();
    turn::retry(|| {
        let paths = ["often>inner", "seldom>inner"];
        let mut saved_by = Vec::new();
        // Both in one run would share the code of inner.
        for path in [paths[0], paths[1], "work"] {
            let target = format!("path:{path}");
            let options = ["--budget", "3s", "--target", &target];
            let (_, report) = experiment(scratch, &options, &program, &["20000"])?;
            let (low, high) = saved(&report, path)?;
            saved_by.push((low + high) / 2.0);
        }
        let [often, seldom, all] = saved_by[..] else {
            return Err("three runs".into());
        };
        check!((0.25..0.50).contains(&often), "3/8: {saved_by:?}");
        check!((0.04..0.25).contains(&seldom), "1/8: {saved_by:?}");
        check!(all > 0.35, "half of all that it calls: {saved_by:?}");
        Ok(())
    })
}

/// `inner` calls nobody: no stack has it outside of `often`.
fn a_path_that_nobody_takes_is_no_gain_of_zero(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = compile(&root().join("tests/live/programs/paths.c"), &[])?;
    let options = ["--budget", "3s", "--target", "path:inner>often"];
    let (_, report) = experiment(scratch, &options, &program, &["20000"])?;
    let row = &targets(&report)[0];
    let reason = row["reason"].as_str().unwrap_or_default();
    check!(reason.contains("no data"), "{report}");
    check!(row["at"].as_array().is_some_and(Vec::is_empty), "{report}");
    Ok(())
}

fn threads_are_worth_what_they_run(scratch: &Scratch) -> Result {
    let program = compile(&root().join("tests/live/programs/paths.c"), &[])?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = ["--budget", "4s", "--target", "threads:busy-1"];
        let more = ["--target", "threads:idle-#", "--target", "threads:none"];
        let options = [&options[..], &more].concat();
        let (_, report) = experiment(scratch, &options, &program, &["20000"])?;
        let (low, _) = saved(&report, "busy-1")?;
        check!(low > 0.3, "it runs all the time: {report}");
        let (low, _) = saved(&report, "idle-#")?;
        check!(low < 0.05, "they only wait: {report}");
        let row = targets(&report).iter().find(|row| row["name"] == "none");
        let reason = row.and_then(|row| row["reason"].as_str());
        check!(
            reason.is_some_and(|reason| reason.contains("busy-#")),
            "{report}"
        );
        Ok(())
    })
}

/// CPU time that windows add even where others have the CPUs, seconds; without an effect it is 0.
const ADDED_LEAST: f64 = 0.01;

/// CPU time by which experiments have lengthened code, seconds.
fn added(report: &Value) -> f64 {
    report["added_cpu_seconds"].as_f64().unwrap_or_default()
}

fn code_off_the_critical_path_is_worth_nothing(scratch: &Scratch) -> Result {
    let program = program("decoy.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = ["--budget", "5s", "--target", "fn:light_work"];
        let options = [&options[..], &["--target", "fn:heavy_work"]].concat();
        let (_, report) = experiment(scratch, &options, &program, &["rounds=25000"])?;
        let (light, _) = saved(&report, "light_work")?;
        let (heavy, _) = saved(&report, "heavy_work")?;
        // Where others take a CPU both threads share one, and each is worth something.
        let is_alone = report["foreign_cpu_share"].as_f64() < Some(0.15);
        check!(light <= 0.05 || !is_alone, "promised for nothing: {report}");
        // Were nothing lengthened, the other one would be worth nothing, too.
        check!(
            heavy > 0.05 && heavy > light,
            "it decides the pace: {report}"
        );
        check!(
            added(&report) > ADDED_LEAST,
            "nothing was lengthened: {report}"
        );
        Ok(())
    })
}

/// By calls of a function, which probes count: what the report says is in the profile, and in what
/// is made of that.
fn a_profile_keeps_what_the_report_says(scratch: &Scratch) -> Result {
    let program = program("stages.c")?;
    let _turn = turn::alone();
    let file = scratch.path("run.convoy");
    let name = file.to_string_lossy().into_owned();
    let options = [
        "--budget",
        "3s",
        "--target",
        "fn:transform_item",
        "-o",
        &name,
    ];
    let options = [&options[..], &["--progress", "fn:write_item"]].concat();
    let (outcome, report) = experiment(scratch, &options, &program, &["items=60000"])?;
    check!(outcome.end == End::Status(0), "{:?}", outcome.end);
    saved(&report, "transform_item")?;
    let progress = report["progress"][0]["name"].as_str();
    check!(progress == Some("calls of write_item"), "{report}");
    let whole = convoy::report(&file, scratch.dir())?;
    check!(whole["experiments"] == report, "{}", whole["experiments"]);
    check!(
        whole["locks"]
            .as_array()
            .is_some_and(|locks| !locks.is_empty()),
        "nothing else was recorded"
    );
    let coz = scratch.path("profile.coz");
    let mut command = Command::new(convoy::binary()?);
    command
        .args(["export", "--format", "coz", "-o"])
        .arg(&coz)
        .arg(&file);
    let outcome = run(&mut command, scratch.dir(), "export", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let text = std::fs::read_to_string(&coz).map_err(|e| e.to_string())?;
    check!(
        text.starts_with("startup") && text.contains("selected=fn:transform_item"),
        "{text}"
    );
    Ok(())
}

/// From the call of a function to that of the next one, and between the points of coz.h: all of it
/// is the first function.
fn a_latency_is_that_of_what_lies_between(scratch: &Scratch) -> Result {
    let program = compile(&root().join("tests/live/programs/requests.c"), &[])?;
    let _turn = turn::alone();
    turn::retry(|| {
        for points in ["fn:answer..fn:prepare", "coz:request"] {
            let options = ["--budget", "4s", "--target", "fn:answer"];
            let options = [&options[..], &["--latency", points]].concat();
            let (_, report) = experiment(scratch, &options, &program, &[])?;
            check!(report["progress"][0]["is_latency"] == true, "{report}");
            let (low, high) = saved(&report, "answer")?;
            check!(low > 0.25 && high < 0.75, "half of it goes away: {report}");
        }
        Ok(())
    })
}

/// Its threads take no lock, wake nobody and end never.
fn without_locks_the_calls_of_a_function_are_progress(scratch: &Scratch) -> Result {
    let program = compile(&root().join("tests/live/programs/slow_server.c"), &[])?;
    let _turn = turn::alone();
    turn::retry(|| {
        let mut server = Command::new(&program);
        let mut running = start(server.arg("compute"), scratch.dir(), "program")?;
        running.wait_for("ready", TIMEOUT)?;
        let file = scratch.path("report.json");
        let options = ["--for", "6s", "--target", "fn:slow"];
        let mut command = experiment_with(running.id(), &options, &file)?;
        let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT);
        stop(running)?;
        let outcome = outcome?;
        check!(outcome.end == End::Status(0), "{outcome:?}");
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let report: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        let progress = report["progress"][0]["name"].as_str().unwrap_or_default();
        check!(progress.starts_with("calls of "), "{progress}: {report}");
        // Nine tenths of the work of each call, half as long.
        let (low, high) = saved(&report, "slow")?;
        check!(low > 0.25 && high > 0.4, "{low} to {high}: {report}");
        Ok(())
    })
}

fn short_runs_have_a_number_together(scratch: &Scratch) -> Result {
    let program = program("stages.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = [
            "--repeat",
            "--budget",
            "4s",
            "--target",
            "fn:transform_item",
        ];
        let (outcome, report) = experiment(scratch, &options, &program, &["items=10000"])?;
        check!(outcome.end == End::Status(0), "{:?}", outcome.end);
        let (low, _) = saved(&report, "transform_item")?;
        check!(low > 0.1, "it decides the pace: {report}");
        Ok(())
    })
}

fn a_point_that_is_not_there_is_named(scratch: &Scratch) -> Result {
    let program = program("stages.c")?;
    let _turn = turn::shared();
    let options = ["--progress", "fn:write_itme"];
    let (outcome, report) = experiment(scratch, &options, &program, &["items=10000"])?;
    check!(outcome.end == End::Status(0), "{:?}", outcome.end);
    let reason = report["reason"].as_str().unwrap_or_default();
    check!(
        reason.contains("no function write_itme") && reason.contains("did you mean write_item"),
        "{report}"
    );
    Ok(())
}

/// Half a second: as long as convoy looks at a program before it experiments.
fn runs_that_end_before_experiments_begin_teach_what_to_try(scratch: &Scratch) -> Result {
    let program = program("stages.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = ["--repeat", "--budget", "3s"];
        let (outcome, report) = experiment(scratch, &options, &program, &["items=5000"])?;
        check!(outcome.end == End::Status(0), "{:?}", outcome.end);
        let (low, _) = saved(&report, "transform_item")?;
        check!(low > 0.1, "it decides the pace: {report}");
        check!(report["reason"].is_null(), "{report}");
        // Too short for one block, however often it runs.
        let options = ["--repeat", "--target", "fn:transform_item"];
        let (outcome, report) = experiment(scratch, &options, &program, &["items=500"])?;
        check!(outcome.end == End::Status(0), "{:?}", outcome.end);
        let reason = report["reason"].as_str().unwrap_or_default();
        check!(reason.contains("Give it more work"), "{report}");
        Ok(())
    })
}

/// They depend on who waits: calls of a function count.
fn wake_ups_of_a_lock_of_futexes_are_no_progress(scratch: &Scratch) -> Result {
    let program = program("rust_cache.rs")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = ["--budget", "4s", "--target", "fn:rust_cache::work"];
        let arguments = ["turns=3000000", "gap=1000"];
        let (_, report) = experiment(scratch, &options, &program, &arguments)?;
        let progress = report["progress"][0]["name"].as_str().unwrap_or_default();
        check!(progress.starts_with("calls of "), "{report}");
        let (low, _) = saved(&report, "rust_cache::work")?;
        check!(low > 0.1, "most of the time: {report}");
        Ok(())
    })
}

fn a_short_program_is_told_how_long_it_must_run(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let (outcome, report) = experiment(
        scratch,
        &[],
        &program("critical_section.c")?,
        &["rounds=1000"],
    )?;
    check!(outcome.end == End::Status(0), "{:?}", outcome.end);
    let reason = report["reason"].as_str().unwrap_or_default();
    check!(
        reason.starts_with("the program ended after") && reason.contains("need about"),
        "{report}"
    );
    Ok(())
}

/// Samples, sleeps and spins reach a program that prints, fails and has a handler of its own.
fn output_and_status_are_the_program_s(scratch: &Scratch) -> Result {
    let program = compile(&root().join("tests/live/programs/interrupted.c"), &[])?;
    let _turn = turn::shared();
    let options = ["--budget", "2s", "--target", "fn:compute"];
    let (outcome, report) = experiment(scratch, &options, &program, &[])?;
    check!(
        outcome.end == End::Status(3),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(
        outcome.stdout == "interrupted 0\nsum ok\n",
        "{}",
        outcome.stdout
    );
    check!(
        report["windows"].as_u64() > Some(0),
        "no experiment was made: {report}"
    );
    check!(
        added(&report) > ADDED_LEAST,
        "nothing was lengthened: {report}"
    );
    Ok(())
}

/// A process that runs already: its code and its signals are what they were.
fn a_process_goes_on_as_it_was(scratch: &Scratch) -> Result {
    let program = program("decoy.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let mut running = begin(&program, scratch)?;
        let pid = running.id();
        let checked = (|| {
            let before = (code_of(pid, "/libc.so.6")?, caught(pid)?);
            let file = scratch.path("report.json");
            let options = ["--for", "4s", "--target", "fn:heavy_work"];
            let mut command = experiment_with(pid, &options, &file)?;
            let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
            check!(outcome.end == End::Status(0), "{outcome:?}");
            check!(
                (code_of(pid, "/libc.so.6")?, caught(pid)?) == before,
                "not as it was"
            );
            let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
            let report = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
            let (low, _) = saved(&report, "heavy_work")?;
            check!(low > 0.05, "it decides the pace: {report}");
            check!(
                added(&report) > ADDED_LEAST,
                "nothing was lengthened: {report}"
            );
            check!(running.is_running(), "it has ended");
            Ok(())
        })();
        stop(running)?;
        checked
    })
}

/// Whatever ends convoy, the hooks go out.
fn a_killed_convoy_leaves_no_hook(scratch: &Scratch) -> Result {
    let program = program("decoy.c")?;
    let _turn = turn::alone();
    let running = begin(&program, scratch)?;
    let pid = running.id();
    let checked = (|| {
        let before = code_of(pid, "/libc.so.6")?;
        let dir = scratch.dir().to_string_lossy().into_owned();
        let options = ["--for", "60s", "--target", "fn:heavy_work"];
        let options = [&options[..], &["--session-dir", &dir]].concat();
        let mut command = experiment_with(pid, &options, &scratch.path("none.json"))?;
        let convoy = start(&mut command, scratch.dir(), "convoy")?;
        until("there are windows", || window(scratch.dir(), pid) > Some(3))?;
        check!(
            code_of(pid, "/libc.so.6")? != before,
            "no hook is in it: the test sees nothing"
        );
        convoy.signal(Signal::KILL)?;
        convoy.finish(TIMEOUT)?;
        until("the hooks go out", || {
            code_of(pid, "/libc.so.6").is_ok_and(|now| now == before)
        })
    })();
    stop(running)?;
    checked
}

/// The hooks of a program that was started under convoy stay; the last window ends.
fn a_killed_convoy_leaves_no_window(scratch: &Scratch) -> Result {
    let program = program("decoy.c")?;
    let _turn = turn::alone();
    let dir = scratch.dir().to_string_lossy().into_owned();
    let options = ["--budget", "60s", "--session-dir", &dir];
    let options = [&options[..], &["--target", "fn:heavy_work"]].concat();
    let mut command = convoy::causal(&options, &scratch.path("none.json"))?;
    command.arg(program).arg("rounds=1000000000");
    let convoy = start(&mut command, scratch.dir(), "convoy")?;
    let mut pid = None;
    until("the program has the agent", || {
        pid = experiment_file(scratch.dir()).map(|(pid, _)| pid);
        pid.is_some()
    })?;
    let program = pid.and_then(|pid| Pid::from_raw(pid as i32));
    let (program, pid) = program.zip(pid).ok_or("no process")?;
    let checked =
        until("there are windows", || window(scratch.dir(), pid) > Some(3)).and_then(|()| {
            let convoy = Pid::from_raw(convoy.id() as i32).ok_or("no process")?;
            kill_process(convoy, Signal::KILL).map_err(|e| e.to_string())?;
            until("the last window ends", || {
                window(scratch.dir(), pid) == Some(0)
            })
        });
    kill_process(program, Signal::KILL).map_err(|e| e.to_string())?;
    convoy.finish(TIMEOUT)?;
    checked
}

/// Starts a program that works until it is stopped, and waits until it has its threads.
fn begin<'a>(program: &Path, scratch: &'a Scratch) -> Result<Running<'a>> {
    let mut command = Command::new(program);
    let running = start(command.arg("rounds=1000000000"), scratch.dir(), "program")?;
    let threads = format!("/proc/{}/task", running.id());
    until("the program has threads", || {
        std::fs::read_dir(&threads).is_ok_and(|all| all.count() > 2)
    })?;
    Ok(running)
}

/// `convoy causal` on a process.
fn experiment_with(pid: u32, options: &[&str], report: &Path) -> Result<Command> {
    let mut command = Command::new(convoy::binary()?);
    command.args(["causal", "--quiet", "--format", "json"]);
    command.args(["-p", &pid.to_string()]).args(options);
    command.arg("--report-to").arg(report);
    Ok(command)
}

fn stop(program: Running<'_>) -> Result {
    program.signal(Signal::TERM)?;
    let outcome = program.finish(TIMEOUT)?;
    check!(outcome.end == End::Signal(15), "{:?}", outcome.end);
    Ok(())
}

/// Signals that a process handles.
fn caught(pid: u32) -> Result<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.map_err(|e| e.to_string())?;
    let line = status.lines().find(|line| line.starts_with("SigCgt:"));
    Ok(line.ok_or("no SigCgt")?.to_owned())
}

/// Offset of the control page in an experiment file (abi/convoy_causal.h), and so of the window's
/// number.
const CONTROL_AT: u64 = 4096;

/// The window of a process in a session below this directory; 0 = none.
fn window(parent: &Path, pid: u32) -> Option<u32> {
    let (_, file) = experiment_file(parent).filter(|(of, _)| *of == pid)?;
    let mut number = [0; 4];
    file.read_exact_at(&mut number, CONTROL_AT).ok()?;
    Some(u32::from_ne_bytes(number))
}

/// The experiment file in a session below this directory, and its process.
fn experiment_file(parent: &Path) -> Option<(u32, File)> {
    let sessions = std::fs::read_dir(parent).ok()?.flatten();
    let files = sessions.filter_map(|entry| std::fs::read_dir(entry.path()).ok());
    let mut files = files.flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        let pid = name.to_str()?.strip_prefix('c')?.strip_suffix(".0")?;
        Some((pid.parse().ok()?, File::open(entry.path()).ok()?))
    });
    files.next()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result {
    let began = Instant::now();
    while !is_so() {
        check!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
