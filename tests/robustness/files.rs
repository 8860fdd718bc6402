//! Commands that cannot run or cannot be recorded, places that cannot be written, files that are no
//! profiles, and what a program can see of being recorded.

use std::fs;
use std::os::unix::fs::{chown, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::{missing, Missing};
use convoy_harness::run::{run, End, Outcome};
use convoy_harness::{check, compile, convoy, turn, Result};
use libtest_mimic::Trial;

use crate::table::{program, programs, same};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Exit statuses of shells, and of env(1), for a command that they could not run; 125 is our own failure.
const NOT_FOUND: End = End::Status(127);
const NOT_EXECUTABLE: End = End::Status(126);
const OWN_FAILURE: End = End::Status(125);

/// How what Convoy adds to the environment begins.
const ADDED: [&str; 3] = ["LD_PRELOAD=", "_CONVOY_", "ASAN_OPTIONS="];

/// One test per claim.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("command/missing", None, |s| {
            cannot_run(s, Path::new("no-such-command-anywhere"), NOT_FOUND)
        }),
        trial("command/directory", None, |s| {
            cannot_run(s, s.dir(), NOT_EXECUTABLE)
        }),
        trial("command/no-permission", None, no_permission),
        trial("unrecorded/go", needs("go"), go_runs),
        trial("output/full-disk", needs("mount"), full_disk),
        trial("output/no-directory", None, no_directory),
        trial("output/with-report", None, with_report),
        trial("report/open", None, page_is_opened),
        trial("report/truncated", None, truncated),
        trial("report/foreign", None, foreign),
        trial("report/damaged", None, damaged),
        trial("sanitizer/race-is-found", needs("tsan"), race_is_found),
        trial("seen/environment", None, environment),
        trial("seen/working-directory", None, working_directory),
    ]
}

fn needs(what: &str) -> Option<Missing> {
    missing(&[what.to_owned()])
}

fn record(scratch: &Scratch, command: &[&Path], tag: &str) -> Result<Outcome> {
    let mut recorder = convoy::record(&scratch.path("run.convoy"))?;
    run(recorder.args(command), scratch.dir(), tag, TIMEOUT)
}

/// Says why in a line of its own, prints nothing to stdout, and ends as a shell would.
fn cannot_run(scratch: &Scratch, command: &Path, expected: End) -> Result {
    let _turn = turn::shared();
    let outcome = record(scratch, &[command], "convoy")?;
    let name = command.to_string_lossy();
    check!(
        outcome.end == expected,
        "ended with {:?}, not {expected:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(outcome.stdout.is_empty(), "on stdout: {}", outcome.stdout);
    check!(
        outcome.stderr.starts_with("convoy: ") && outcome.stderr.contains(&*name),
        "no word about {name}: {}",
        outcome.stderr
    );
    no_panic(&outcome)
}

fn no_permission(scratch: &Scratch) -> Result {
    let file = scratch.path("data");
    fs::write(&file, "not a program").map_err(|e| e.to_string())?;
    cannot_run(scratch, &file, NOT_EXECUTABLE)
}

/// Convoy's own failure, with its reason, before the program has said anything.
fn not_started(outcome: &Outcome, reason: &str) -> Result {
    check!(
        outcome.end == OWN_FAILURE,
        "ended with {:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(
        outcome.stdout.is_empty(),
        "the program ran all the same: {}",
        outcome.stdout
    );
    check!(
        outcome.stderr.contains(reason),
        "the reason is not {reason}: {}",
        outcome.stderr
    );
    Ok(())
}

/// Nothing of it can be recorded without scheduler events, and it runs.
fn go_runs(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program("go_threads.go")?;
    let bare = run(&mut Command::new(&program), scratch.dir(), "bare", TIMEOUT)?;
    let mut recorder = convoy::record_with(&["--scheduler", "off"], &scratch.path("run.convoy"))?;
    let outcome = run(recorder.arg(&program), scratch.dir(), "convoy", TIMEOUT)?;
    same(&bare, &outcome)
}

/// Owned by another user, so that even root runs it with other rights than its own.
pub fn setuid_copy(scratch: &Scratch, of: &str) -> Result<PathBuf> {
    let copy = scratch.path("setuid");
    let make = || {
        fs::copy(program(of).map_err(std::io::Error::other)?, &copy)?;
        chown(&copy, Some(65534), Some(65534))?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o6755))
    };
    make().map_err(|e| format!("{}: {e}", copy.display()))?;
    Ok(copy)
}

/// The program is not to suffer: it runs to its end, and the loss is told. So is what there is to report.
fn full_disk(scratch: &Scratch) -> Result {
    for (verb, report) in [("record", ""), ("", "Verdict"), ("diagnose", "time held")] {
        full_disk_after(scratch, verb, report)?;
    }
    Ok(())
}

fn full_disk_after(scratch: &Scratch, verb: &str, report: &str) -> Result {
    let _turn = turn::shared();
    let (sections, binary) = (program("sections.c")?, convoy::binary()?);
    let mut command = Command::new("unshare");
    let script = "mkdir -p full && mount -t tmpfs -o size=4k none full && head -c 4096 /dev/zero > full/all; \
                  exec \"$1\" $3 -o full/run.convoy -- \"$2\" status";
    command
        .args(["-m", "sh", "-c", script, "sh"])
        .args([&binary, &sections])
        .arg(verb)
        .env("TMPDIR", scratch.dir()); // where the profile is put instead
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        outcome.stdout == "total 4036\n",
        "the program's output became {:?}",
        outcome.stdout
    );
    check!(
        outcome.stderr.contains("convoy: ") && outcome.stderr.contains("run.convoy"),
        "no word about the profile: {}",
        outcome.stderr
    );
    check!(
        outcome.stderr.contains(report),
        "{verb}: no {report:?} in {}",
        outcome.stderr
    );
    check!(
        outcome.end == OWN_FAILURE,
        "a recording that was lost is a failure of ours; ended with {:?}: {}",
        outcome.end,
        outcome.stderr
    );
    no_panic(&outcome)
}

/// Found out before the program runs: a recording of an hour is not to be lost for a typing error.
fn no_directory(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let mut recorder = convoy::record(&scratch.path("no/such/directory/run.convoy"))?;
    let outcome = run(
        recorder.arg(program("sections.c")?),
        scratch.dir(),
        "convoy",
        TIMEOUT,
    )?;
    not_started(&outcome, "no/such/directory")?;
    no_panic(&outcome)
}

/// A run that is reported at once is kept, too, where that was asked for.
fn with_report(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let mut both = Command::new(convoy::binary()?);
    both.args(["-o", "kept.convoy", "--"])
        .arg(program("sections.c")?);
    let outcome = run(&mut both, scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0) && outcome.stderr.contains("convoy report kept.convoy"),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let report = convoy::report(&scratch.path("kept.convoy"), scratch.dir())?;
    check!(report.is_object(), "{report}");
    no_panic(&outcome)?;
    for (to, reason) in [
        ("no/such/directory/kept.convoy", "no/such/directory"),
        ("same", "same file"),
    ] {
        for verb in [&[][..], &["diagnose"]] {
            let mut refused = Command::new(convoy::binary()?);
            refused.args(verb);
            refused.args(["-o", to, "--report-to", "same", "--"]);
            refused.arg(program("sections.c")?);
            let outcome = run(&mut refused, scratch.dir(), "convoy", TIMEOUT)?;
            not_started(&outcome, reason)?;
        }
    }
    Ok(())
}

/// The page is shown by xdg-open where there is a display; elsewhere its path is told.
fn page_is_opened(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    recorded(scratch)?;
    let opener = scratch.path("xdg-open");
    fs::write(&opener, "#!/bin/sh\ncat \"$1\" >shown.html\n").map_err(|e| e.to_string())?;
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
    let path = std::env::var("PATH").unwrap_or_default();
    let report = |display: &str, tag: &str| -> Result<Outcome> {
        let mut command = Command::new(convoy::binary()?);
        command
            .args(["report", "--open", "run.convoy"])
            .env("PATH", format!("{}:{path}", scratch.dir().display()))
            .env("TMPDIR", scratch.dir())
            .env_remove("WAYLAND_DISPLAY")
            .env("DISPLAY", display);
        run(&mut command, scratch.dir(), tag, TIMEOUT)
    };
    let shown = report(":9", "shown")?;
    check!(
        shown.end == End::Status(0) && shown.stderr.contains("opened it with xdg-open"),
        "{:?}: {}",
        shown.end,
        shown.stderr
    );
    let page = fs::read_to_string(scratch.path("shown.html")).map_err(|e| e.to_string())?;
    check!(page.contains("id=\"verdict\""), "no page was opened");
    let alone = report("", "alone")?;
    let line = alone.stderr.lines().last().unwrap_or_default();
    check!(line.contains("there is no display"), "{}", alone.stderr);
    let name = line.split(' ').nth(2).unwrap_or_default();
    check!(
        fs::read_to_string(name).is_ok_and(|kept| kept == page),
        "{name} is not the page: {line}"
    );
    Ok(())
}

fn recorded(scratch: &Scratch) -> Result<Vec<u8>> {
    let outcome = record(scratch, &[&program("sections.c")?], "record")?;
    check!(
        outcome.end == End::Status(0),
        "cannot record: {}",
        outcome.stderr
    );
    fs::read(scratch.path("run.convoy")).map_err(|e| e.to_string())
}

/// `convoy report` of these bytes says what is wrong with them, and does not panic. A damaged profile
/// may still be reported, with what is intact of it; a foreign file may not.
fn told(scratch: &Scratch, bytes: &[u8], what: &str) -> Result<Outcome> {
    let outcome = report_of(scratch, bytes)?;
    check!(
        matches!(outcome.end, End::Status(_)),
        "{what}: ended with {:?}",
        outcome.end
    );
    check!(
        outcome.stderr.starts_with("convoy: "),
        "{what}: stderr is {:?}",
        outcome.stderr
    );
    no_panic(&outcome).map_err(|e| format!("{what}: {e}"))?;
    Ok(outcome)
}

fn report_of(scratch: &Scratch, bytes: &[u8]) -> Result<Outcome> {
    let file = scratch.path("bad.convoy");
    fs::write(&file, bytes).map_err(|e| e.to_string())?;
    let mut command = Command::new(convoy::binary()?);
    run(
        command.arg("report").arg(&file),
        scratch.dir(),
        "report",
        TIMEOUT,
    )
}

fn truncated(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let whole = recorded(scratch)?;
    for sixteenth in 0..16 {
        let length = whole.len() * sixteenth / 16;
        told(
            scratch,
            &whole[..length],
            &format!("first {length} of {} bytes", whole.len()),
        )?;
    }
    Ok(())
}

fn foreign(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let elf = fs::read(program("sections.c")?).map_err(|e| e.to_string())?;
    let files: [(&str, &[u8]); 5] = [
        ("an ELF file", &elf),
        ("text", b"this is not a profile\n"),
        ("zeroes", &[0; 65536]),
        ("perf data", b"PERFILE2\x68\0\0\0\0\0\0\0"),
        ("nothing", b""),
    ];
    for (what, bytes) in files {
        let outcome = told(scratch, bytes, what)?;
        check!(
            outcome.end != End::Status(0),
            "{what}: reported as if it were a profile: {}",
            outcome.stdout
        );
        check!(
            outcome.stderr.contains("bad.convoy"),
            "{what}: which file? {}",
            outcome.stderr
        );
    }
    Ok(())
}

/// A flipped bit anywhere is found by a checksum, and told.
fn damaged(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let whole = recorded(scratch)?;
    for at in (0..whole.len()).step_by((whole.len() / 24).max(1)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        told(
            scratch,
            &bytes,
            &format!("bit {} of byte {at} flipped", at % 8),
        )?;
    }
    Ok(())
}

/// ThreadSanitizer reports the race that there is, and takes the counted lock for what it is.
fn race_is_found(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let racy = compile::compile(
        &programs().join("racy.c"),
        &["-fsanitize=thread".into(), "-O0".into()],
    )?;
    let bare = run(&mut Command::new(&racy), scratch.dir(), "bare", TIMEOUT)?;
    let outcome = record(scratch, &[&racy], "convoy")?;
    check!(
        bare.end == End::Status(66),
        "bare, it ended with {:?}",
        bare.end
    );
    check!(
        outcome.end == bare.end,
        "recorded, it ended with {:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let warnings = |o: &Outcome| o.stderr.matches("WARNING: ThreadSanitizer").count();
    check!(
        warnings(&bare) == warnings(&outcome),
        "{} warnings became {}",
        warnings(&bare),
        warnings(&outcome)
    );
    Ok(())
}

/// What Convoy adds to the environment: LD_PRELOAD, its own _CONVOY_*, and an option without which
/// AddressSanitizer refuses to start behind another library.
fn environment(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let printer = program("environment.c")?;
    let bare = run(&mut Command::new(&printer), scratch.dir(), "bare", TIMEOUT)?;
    let outcome = record(scratch, &[&printer], "convoy")?;
    let theirs = |o: &Outcome| -> Vec<String> {
        let ours = |line: &&str| ADDED.iter().any(|name| line.starts_with(name));
        o.stdout
            .lines()
            .filter(|line| !ours(line))
            .map(str::to_owned)
            .collect()
    };
    check!(
        theirs(&bare) == theirs(&outcome),
        "{}\n---\n{}",
        bare.stdout,
        outcome.stdout
    );
    Ok(())
}

/// Nothing appears in the program's directory but the profile that was asked for.
fn working_directory(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    recorded(scratch)?;
    let mut names: Vec<String> = fs::read_dir(scratch.dir())
        .map_err(|e| e.to_string())?
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    check!(
        names == ["record.err", "record.out", "run.convoy"],
        "in the directory: {names:?}"
    );
    Ok(())
}

fn no_panic(outcome: &Outcome) -> Result {
    check!(
        !outcome.stderr.contains("panicked"),
        "convoy panicked: {}",
        outcome.stderr
    );
    Ok(())
}
