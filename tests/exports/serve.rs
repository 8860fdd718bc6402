//! `convoy serve`, scraped by programs that nobody here wrote: Prometheus' parsers, `go tool
//! pprof`, OpenTelemetry's messages.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::{trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::{missing, Missing};
use convoy_harness::run::{run, start, End, Running};
use convoy_harness::{check, convoy, root, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;

use crate::formats::{interpreter, python, read};

const TIMEOUT: Duration = Duration::from_secs(240);

/// The cases.
pub fn trials() -> Vec<Trial> {
    let go = || python().or_else(|| missing(&["go".to_owned()]));
    let go_as_root = || go().or_else(|| missing(&["root".to_owned()]));
    vec![
        trial("serve/command", go(), a_command_is_served_with_its_locks),
        trial("serve/process", go_as_root(), a_process_is_served_and_left),
        trial(
            "serve/always-on",
            python().or_else(|| missing(&["root".to_owned()])),
            all_processes_are_served_as_they_come_and_go,
        ),
        trial("serve/collector", python(), a_collector_gets_metrics),
        trial("serve/examples", python(), examples_are_valid),
        trial(
            "serve/refusals",
            None::<Missing>,
            bad_requests_touch_nothing,
        ),
    ]
}

fn program() -> Result<PathBuf> {
    compile(
        &root().join("tests/exports/programs/shared_cache.c"),
        &["-g".to_owned()],
    )
}

fn serve(arguments: &[&str]) -> Result<Command> {
    // As from a terminal: tests that run in the background ignore SIGINT, and convoy would, too.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT");
    command.arg(convoy::binary()?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--every", "200ms"]);
    command.args(arguments);
    Ok(command)
}

/// The address that convoy says it listens at.
fn base(scratch: &Scratch, serving: &mut Running<'_>, tag: &str) -> Result<String> {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT && serving.is_running() {
        let words = std::fs::read_to_string(scratch.path(&format!("{tag}.err")));
        let words = words.map_err(|e| e.to_string())?;
        if let Some((_, rest)) = words.split_once("http://") {
            if let Some((address, _)) = rest.split_once("/metrics") {
                return Ok(format!("http://{address}"));
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("{tag} listens nowhere"))
}

/// The sum of all series of a name whose labels have this text.
fn sum(found: &Value, name: &str, label: &str) -> Option<f64> {
    let series = found["series"].as_array()?.iter();
    let values = series.filter(|s| s[0] == name && s[1].to_string().contains(label));
    values.filter_map(|s| s[2].as_f64()).reduce(|a, b| a + b)
}

/// What `go tool pprof` makes of a URL.
fn pprof(scratch: &Scratch, url: &str) -> Result<String> {
    let mut command = Command::new("go");
    command.args(["tool", "pprof", "-raw", url]);
    command.env("PPROF_TMPDIR", scratch.dir());
    let outcome = run(&mut command, scratch.dir(), "pprof", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{url}: {}", outcome.stderr);
    Ok(outcome.stdout)
}

fn a_command_is_served_with_its_locks(scratch: &Scratch) -> Result {
    let program = program()?;
    let mut command = serve(&["--"])?;
    command.arg(&program);
    let mut serving = start(&mut command, scratch.dir(), "serve")?;
    let base = base(scratch, &mut serving, "serve")?;
    let found = read(scratch, "scrape.py", Path::new(&base))?;
    for (name, label) in [
        ("process_cpu_seconds_total", ""),
        ("convoy_thread_cpu_seconds_total", "computer"),
        ("convoy_thread_blocked_seconds_total", "user-#"),
        ("convoy_lock_acquisitions_total", "cache_lock"),
        ("convoy_lock_contentions_total", "cache_lock"),
        ("convoy_lock_wait_seconds_total", "cache_lock"),
    ] {
        let value = sum(&found, name, label);
        check!(value.is_some_and(|v| v > 0.0), "{name} {label}: {value:?}");
    }
    let mutex = pprof(scratch, &format!("{base}/debug/pprof/mutex"))?;
    check!(
        mutex.contains("contentions/count delay/nanoseconds"),
        "{mutex}"
    );
    check!(
        mutex.contains("use_cache") && mutex.contains("cache_lock"),
        "{mutex}"
    );
    serving.signal(Signal::TERM)?;
    let outcome = serving.finish(TIMEOUT)?;
    check!(outcome.end == End::Status(7), "{outcome:?}");
    check!(outcome.stdout == "ready\n", "{outcome:?}");
    Ok(())
}

fn a_process_is_served_and_left(scratch: &Scratch) -> Result {
    let mut target = start(&mut Command::new(program()?), scratch.dir(), "program")?;
    target.wait_for("ready", TIMEOUT)?;
    let pid = target.id().to_string();
    let calls = r#"calls{function="use_cache"}"#;
    let durations = r#"duration_p99{function="use_cache"}"#;
    let arguments = [
        "--budget",
        "100%",
        "-m",
        calls,
        "-m",
        durations,
        pid.as_str(),
    ];
    let mut serving = start(&mut serve(&arguments)?, scratch.dir(), "serve")?;
    let base = base(scratch, &mut serving, "serve")?;
    let found = read(scratch, "scrape.py", Path::new(&base))?;
    let of = |name: &str| sum(&found, name, "use_cache");
    check!(of("convoy_function_calls_total") > Some(0.0), "{found}");
    let count = of("convoy_function_duration_seconds_count");
    check!(count > Some(0.0), "{found}");
    let shorter = sum(
        &found,
        "convoy_function_duration_seconds_bucket",
        "0.000262144",
    );
    check!(shorter == Some(0.0), "it sleeps for 2 ms: {shorter:?}");
    let cpu = pprof(scratch, &format!("{base}/debug/pprof/profile?seconds=2"))?;
    check!(cpu.contains("samples/count cpu/nanoseconds"), "{cpu}");
    check!(cpu.contains("compute"), "{cpu}");
    let block = pprof(scratch, &format!("{base}/debug/pprof/block?seconds=1"))?;
    check!(block.contains("use_cache"), "{block}");
    let mutex = pprof(scratch, &format!("{base}/debug/pprof/mutex"))?;
    check!(mutex.contains("use_cache"), "{mutex}");
    serving.signal(Signal::TERM)?;
    let outcome = serving.finish(TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    target.signal(Signal::TERM)?;
    let outcome = target.finish(TIMEOUT)?;
    check!(outcome.end == End::Status(7), "{outcome:?}");
    Ok(())
}

/// The processes of this test only: others run on the machine.
fn all_processes_are_served_as_they_come_and_go(scratch: &Scratch) -> Result {
    // A name of its own: it is what processes are told apart by.
    let name = format!("always-{}", std::process::id());
    let program_path = scratch.path(&name);
    std::fs::copy(program()?, &program_path).map_err(|e| e.to_string())?;
    let mut first = start(&mut Command::new(&program_path), scratch.dir(), "first")?;
    first.wait_for("ready", TIMEOUT)?;
    let mut command = serve(&["--always-on", "--match", &name])?;
    let mut serving = start(&mut command, scratch.dir(), "serve")?;
    let base = base(scratch, &mut serving, "serve")?;
    let scrape = || read(scratch, "scrape.py", Path::new(&base));
    let acquisitions = |found: &Value| sum(found, "convoy_lock_acquisitions_total", &name);
    let more_than = |least: f64| -> Result<Value> {
        let began = Instant::now();
        loop {
            let found = scrape()?;
            if acquisitions(&found).is_some_and(|n| n > least) || began.elapsed() > TIMEOUT {
                return Ok(found);
            }
        }
    };
    let found = more_than(0.0)?;
    for metric in [
        "convoy_process_count",
        "convoy_thread_cpu_seconds_total",
        "convoy_thread_blocked_seconds_total",
        "convoy_lock_wait_seconds_total",
    ] {
        let value = sum(&found, metric, &name);
        check!(
            value.is_some_and(|v| v > 0.0),
            "{metric}: {value:?}: {found}"
        );
    }
    let names = found.to_string();
    check!(
        names.contains("cache_lock") && names.contains("user-#"),
        "{found}"
    );
    let series = found["series"].as_array().ok_or("no series")?.iter();
    let mut of_others = series.filter(|s| !s[1].to_string().contains(&name));
    let told_apart = of_others.find(|s| !s[1]["thread_group"].is_null());
    check!(told_apart.is_none(), "groups of others: {told_apart:?}");

    first.signal(Signal::TERM)?;
    let ended = first.finish(TIMEOUT)?;
    check!(ended.end == End::Status(7), "{ended:?}");
    let before = acquisitions(&scrape()?).unwrap_or_default();
    let mut second = start(&mut Command::new(&program_path), scratch.dir(), "second")?;
    second.wait_for("ready", TIMEOUT)?;
    let now = acquisitions(&more_than(before)?);
    check!(
        now > Some(before),
        "{before} before the restart, {now:?} after"
    );

    serving.signal(Signal::TERM)?;
    let outcome = serving.finish(TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    second.signal(Signal::TERM)?;
    let outcome = second.finish(TIMEOUT)?;
    check!(outcome.end == End::Status(7), "{outcome:?}");
    Ok(())
}

fn a_collector_gets_metrics(scratch: &Scratch) -> Result {
    let mut command = Command::new(interpreter());
    command.arg(root().join("tests/exports/readers/collect.py"));
    let mut collector = start(&mut command, scratch.dir(), "collector")?;
    collector.wait_for("port ", TIMEOUT)?;
    let words = std::fs::read_to_string(scratch.path("collector.out"));
    let words = words.map_err(|e| e.to_string())?;
    let port = words.trim().strip_prefix("port ").ok_or("no port")?;
    let url = format!("http://127.0.0.1:{port}");
    let mut command = serve(&["--otlp", &url, "--otlp-every", "300ms", "--"])?;
    command.arg(program()?);
    let serving = start(&mut command, scratch.dir(), "serve")?;
    let outcome = collector.finish(TIMEOUT)?;
    serving.signal(Signal::TERM)?;
    let served = serving.finish(TIMEOUT)?;
    check!(served.end == End::Status(7), "{served:?}");
    check!(served.stderr.contains("status 503"), "{served:?}");
    check!(served.stderr.contains("takes metrics again"), "{served:?}");
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let found = outcome.stdout.lines().last().unwrap_or_default();
    let found: Value = serde_json::from_str(found).map_err(|e| e.to_string())?;
    check!(found["problems"] == Value::Array(Vec::new()), "{found}");
    let last = &found["requests"][2];
    check!(last["process.cpu.time"][0] == "sum", "{last}");
    check!(last["convoy.lock.wait"][0] == "sum", "{last}");
    Ok(())
}

fn bad_requests_touch_nothing(scratch: &Scratch) -> Result {
    let taken = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let taken = taken.local_addr().map_err(|e| e.to_string())?.to_string();
    let own = std::process::id().to_string();
    for (arguments, part) in [
        (
            vec!["--listen", taken.as_str(), own.as_str()],
            "choose another port",
        ),
        (vec!["--otlp", "https://h", own.as_str()], "TLS"),
        (vec!["--metric", "cals", own.as_str()], "did you mean calls"),
        (vec!["--metric", "wait", own.as_str()], "--agent=auto"),
        (vec!["4294967295"], "4294967295"),
        (vec!["--always-on", own.as_str()], "--always-on"),
        (vec!["--match", "x", own.as_str()], "--always-on"),
        (
            vec!["--always-on", "--cgroup", "no-such.slice"],
            "no control group no-such.slice",
        ),
    ] {
        let mut command = Command::new(convoy::binary()?);
        command.arg("serve").args(&arguments);
        if arguments[0] != "--listen" {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let outcome = run(&mut command, scratch.dir(), "serve", TIMEOUT)?;
        check!(outcome.end == End::Status(2), "{arguments:?}: {outcome:?}");
        check!(outcome.stderr.contains(part), "{arguments:?}: {outcome:?}");
    }
    Ok(())
}

fn examples_are_valid(scratch: &Scratch) -> Result {
    let examples = root().join("examples/serve");
    read(
        scratch,
        "read_manifest.py",
        &examples.join("daemonset.yaml"),
    )?;
    let unit = |name: &str| -> Result<String> {
        let unit = std::fs::read_to_string(examples.join(name)).map_err(|e| e.to_string())?;
        check!(unit.contains("/usr/bin/convoy serve "), "{unit}");
        Ok(unit)
    };
    let (of_one, of_all) = (
        unit("convoy-serve@.service")?,
        unit("convoy-always-on.service")?,
    );
    let units = [
        ("a.service", "[Service]\nExecStart=/bin/true\n"),
        ("convoy-serve@a.service", &of_one),
        // Where convoy is not installed, systemd would say so.
        (
            "convoy-always-on.service",
            &of_all.replace("/usr/bin/convoy", "/bin/true"),
        ),
    ];
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify");
    for (name, text) in units {
        let path = scratch.path(name);
        std::fs::write(&path, text).map_err(|e| e.to_string())?;
        verify.arg(path);
    }
    // A machine without systemd has nobody to verify it.
    if let Ok(outcome) = run(&mut verify, scratch.dir(), "verify", TIMEOUT) {
        check!(
            outcome.end == End::Status(0) && outcome.stderr.is_empty(),
            "{outcome:?}"
        );
    }
    Ok(())
}
