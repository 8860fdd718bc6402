//! `convoy live` beyond single metrics: sessions that are kept, callees, functions without room for
//! a jump, processes in containers.

use std::fs;
use std::path::Path;
use std::process::Command;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;

use crate::metrics::{end, is_near, live, program, sums, INNER, TIMEOUT};

const LINES: [&str; 6] = ["--for", "4s", "--every", "500ms", "--format", "json"];

/// The tests.
pub fn trials() -> Vec<Trial> {
    let root = || missing(&["root".to_owned()]);
    vec![
        measured("live/kept", root(), a_session_is_kept),
        measured("live/callees", root(), a_function_opens_into_its_callees),
        measured("live/uprobe", root(), a_function_without_room_is_counted),
        measured(
            "live/container",
            root(),
            threads_of_a_container_are_told_apart,
        ),
    ]
}

fn a_session_is_kept(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program(scratch, None)?;
    let metrics = [r#"calls{function="inner"}"#, "cpu"];
    let file = scratch.dir().join("run.convoy");
    let path = file.to_string_lossy().into_owned();
    let rest = ["--for", "3s", "--every", "500ms", "-o", &path];
    let outcome = run(
        &mut live(program.id(), &metrics, &rest)?,
        scratch.dir(),
        "live",
        TIMEOUT,
    )?;
    end(program)?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let report = |format: &str| {
        let mut command = Command::new(convoy::binary()?);
        command.args(["report", "--format", format]).arg(&file);
        run(&mut command, scratch.dir(), "report", TIMEOUT)
    };
    let json: Value = serde_json::from_str(&report("json")?.stdout).map_err(|e| e.to_string())?;
    let curves = json["live_curves"]["curves"]
        .as_array()
        .ok_or("no curves")?;
    check!(curves.len() == 2, "{curves:?}");
    for curve in curves {
        let points = curve["points"].as_array().ok_or("no points")?;
        check!(points.len() >= 4, "{curve:?}");
        check!(
            points.iter().any(|p| p["value"].as_f64() > Some(0.0)),
            "{curve:?}"
        );
    }
    let names: Vec<&str> = curves
        .iter()
        .flat_map(|curve| curve["threads"].as_array().into_iter().flatten())
        .filter_map(|thread| thread["name"].as_str())
        .collect();
    check!(names.contains(&"pool-1"), "{names:?}");
    let text = report("text")?.stdout;
    check!(text.contains(r#"calls{function="inner"}"#), "{text}");
    write_page(scratch, &file)
}

fn write_page(scratch: &Scratch, file: &Path) -> Result {
    let page = scratch.dir().join("page.html");
    let mut command = Command::new(convoy::binary()?);
    command.arg("report").arg("--html").arg(&page).arg(file);
    let outcome = run(&mut command, scratch.dir(), "page", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let html = fs::read_to_string(&page).map_err(|e| e.to_string())?;
    check!(
        html.contains("<section id=\"curves\""),
        "no curves on the page"
    );
    Ok(())
}

fn a_function_opens_into_its_callees(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program(scratch, None)?;
    let metrics = [r#"calls{function="*", in="outer", group="pool-#"}"#];
    let outcome = run(
        &mut live(program.id(), &metrics, &LINES)?,
        scratch.dir(),
        "live",
        TIMEOUT,
    );
    end(program)?;
    let sums = sums(&outcome?)?;
    let value = |metric: &str| {
        sums.get(metric)
            .copied()
            .ok_or(format!("{metric}: {sums:?}"))
    };
    let outer = value(r#"calls{function="outer", group="pool-#"}"#)?;
    let inner = value(r#"calls{function="inner", in="outer", group="pool-#"}"#)?;
    check!(sums.len() == 2, "{sums:?}");
    is_near("calls of inner for one of outer", inner / outer, INNER)
}

fn a_function_without_room_is_counted(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let built = compile(&root().join("tests/live/programs/short_function.c"), &[])?;
    let mut program = start(&mut Command::new(built), scratch.dir(), "program")?;
    program.wait_for("ready", TIMEOUT)?;
    let metrics = [r#"calls{function="tiny"}"#, r#"calls{function="other"}"#];
    let outcome = run(
        &mut live(program.id(), &metrics, &LINES)?,
        scratch.dir(),
        "live",
        TIMEOUT,
    );
    end(program)?;
    let outcome = outcome?;
    let has_kind = |line: &&str| line.contains(r#""probe":"uprobe""#);
    let kinds: Vec<&str> = outcome.stdout.lines().filter(has_kind).collect();
    check!(kinds.iter().all(|line| line.contains("tiny")), "{kinds:?}");
    check!(!kinds.is_empty(), "{outcome:?}");
    let sums = sums(&outcome)?;
    let [tiny, other] = metrics.map(|metric| sums.get(metric).copied().unwrap_or(0.0));
    check!(other > 0.0, "{sums:?}");
    is_near("calls of tiny for one of other", tiny / other, 1.0)
}

fn threads_of_a_container_are_told_apart(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let built = compile(&root().join("tests/live/programs/steady_calls.c"), &[])?;
    let mut command = Command::new("unshare");
    command.args(["-pf", "--mount-proc"]).arg(built);
    let mut container = start(&mut command, scratch.dir(), "container")?;
    container.wait_for("ready", TIMEOUT)?;
    let outside = container.id();
    let children = fs::read_to_string(format!("/proc/{outside}/task/{outside}/children"));
    let children = children.map_err(|e| e.to_string())?;
    let pid: i32 = children
        .trim()
        .parse()
        .map_err(|_| format!("children: {children}"))?;
    let metrics = [
        r#"calls{function="inner"}"#,
        r#"calls{function="inner", group="pool-#"}"#,
        r#"calls{function="inner", thread="lone"}"#,
    ];
    let outcome = run(
        &mut live(pid as u32, &metrics, &LINES)?,
        scratch.dir(),
        "live",
        TIMEOUT,
    );
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, Signal::KILL).map_err(|e| e.to_string())?;
    }
    container.finish(TIMEOUT)?;
    let sums = sums(&outcome?)?;
    let [all, pool, lone] = metrics.map(|metric| sums.get(metric).copied().unwrap_or(0.0));
    check!(lone > 0.0 && pool > 0.0, "{sums:?}");
    is_near("pool and lone", pool + lone, all)
}
