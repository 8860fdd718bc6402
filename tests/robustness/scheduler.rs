//! Where scheduler events come from, and what takes them away: rights, sandboxes, namespaces, limits. The
//! program must not notice, all that can be recorded is, and where the user insisted on a source the
//! reason is told and nothing is started.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::missing;
use convoy_harness::run::{run, End, Outcome};
use convoy_harness::{check, compile, convoy, profile, turn, Result};
use convoy_profile::{Op, Profile, SchedSource};
use libtest_mimic::Trial;

use crate::table::{program, programs, same};

const TIMEOUT: Duration = Duration::from_secs(60);

/// No capability, and none to be had, but still the owner of all files.
const NO_RIGHTS: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

/// Hides what the kernel says of its types.
const NO_TYPES: [&str; 6] = [
    "unshare",
    "-m",
    "sh",
    "-c",
    "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"",
    "sh",
];

/// What comes of a recording.
#[derive(Debug, Clone, Copy)]
enum Expect {
    /// The program runs, with events of this source or of none.
    From(Option<SchedSource>),
    /// Not started, for this reason.
    Refused(&'static str),
}

use Expect::{From, Refused};

const BPF: Expect = From(Some(SchedSource::Bpf));
const PERF: Expect = From(Some(SchedSource::Perf));

/// What the kernel gives to those who have no rights. Above 2, as some distributions have it, nothing.
fn for_everybody() -> Expect {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    match level
        .ok()
        .and_then(|level| level.trim().parse::<i64>().ok())
    {
        Some(..=2) => PERF,
        _ => From(None),
    }
}

/// One test per way to lose a source.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add =
        |name: &str, needs: &'static str, around: &[&str], choice: &'static str, expect| {
            let around: Vec<String> = around.iter().map(|word| (*word).to_owned()).collect();
            let body = move |s: &Scratch| recorded(s, &around, choice, expect);
            let name = format!("scheduler/{name}-{choice}");
            trials.push(trial(name, missing(&[needs.to_owned()]), body));
        };
    add("all-rights", "kernel", &[], "auto", BPF);
    add("all-rights", "kernel", &[], "bpf", BPF);
    add("all-rights", "kernel", &[], "perf", PERF);
    add("all-rights", "kernel", &[], "off", From(None));
    add("no-rights", "kernel", &NO_RIGHTS, "auto", for_everybody());
    add("no-rights", "kernel", &NO_RIGHTS, "bpf", Refused("CAP_BPF"));
    add("no-types", "kernel", &NO_TYPES, "auto", PERF);
    add("no-types", "kernel", &NO_TYPES, "bpf", Refused("BTF"));
    let own_pids = ["unshare", "-pf", "--mount-proc"];
    add("own-pids", "kernel", &own_pids, "auto", PERF);
    add(
        "own-pids",
        "kernel",
        &own_pids,
        "bpf",
        Refused("pid namespace"),
    );
    let own_users = ["unshare", "-Ur"];
    add("own-users", "kernel", &own_users, "auto", for_everybody());
    for (what, errno, choice, expect) in [
        ("bpf", "1", "auto", PERF),
        ("bpf", "38", "bpf", Refused("Function not implemented")),
        ("perf", "1", "auto", BPF),
        ("perf", "1", "perf", Refused("seccomp")),
        ("both", "1", "auto", From(None)),
        ("both", "1", "bpf", Refused("Operation not permitted")),
    ] {
        let body = move |s: &Scratch| {
            let sandbox = program("forbids.c")?.to_string_lossy().into_owned();
            recorded(s, &[sandbox, what.into(), errno.into()], choice, expect)
        };
        let name = format!("scheduler/sandbox-{what}-{choice}");
        trials.push(trial(name, missing(&["kernel".to_owned()]), body));
    }
    trials.push(trial(
        "scheduler/static",
        missing(&["kernel".to_owned()]),
        without_agent,
    ));
    trials.push(trial(
        "scheduler/what-is-inherited",
        missing(&["kernel".to_owned()]),
        inherited,
    ));
    for processes in 2..=4 {
        trials.push(trial(
            format!("scheduler/limit-of-{processes}-threads"),
            missing(&["root".to_owned()]),
            move |s| few_threads(s, processes),
        ));
    }
    trials
}

/// Runs the program bare and recorded, each behind `around`.
fn recorded(scratch: &Scratch, around: &[String], choice: &str, expect: Expect) -> Result {
    let _turn = turn::shared();
    let sections = program("sections.c")?;
    let file = scratch.path("run.convoy");
    let recorder = convoy::record_with(&["--scheduler", choice], &file)?;
    let recorder = std::iter::once(recorder.get_program()).chain(recorder.get_args());
    let recorder: Vec<String> = recorder.map(|w| w.to_string_lossy().into_owned()).collect();
    let outcome = behind(around, &recorder, &sections, scratch, "convoy")?;
    let from = match expect {
        From(from) => from,
        Refused(why) => {
            check!(
                outcome.end == End::Status(125),
                "{:?}: {}",
                outcome.end,
                outcome.stderr
            );
            check!(outcome.stdout.is_empty(), "it ran: {}", outcome.stdout);
            check!(
                outcome.stderr.contains(why),
                "no word of {why}: {}",
                outcome.stderr
            );
            check!(
                outcome.stderr.contains("fix: "),
                "no way out: {}",
                outcome.stderr
            );
            return no_panic(&outcome);
        }
    };
    let bare = behind(around, &[], &sections, scratch, "bare")?;
    same(&bare, &outcome)?;
    let data = convoy::read(&file)?;
    let calls = profile::calls(&data, "counted_section", Op::MutexLock).n;
    check!(calls == 401, "{calls} of 401 acquisitions recorded");
    came_from(&data, from)
}

fn behind(
    around: &[String],
    recorder: &[String],
    program: &Path,
    scratch: &Scratch,
    tag: &str,
) -> Result<Outcome> {
    let program = program.to_string_lossy().into_owned();
    let mut words = around.iter().chain(recorder).chain([&program]);
    let mut command = Command::new(words.next().map_or("", String::as_str));
    run(
        command.args(words).arg("status"),
        scratch.dir(),
        tag,
        TIMEOUT,
    )
}

/// There are events of this source, and a source that is not the best one is told with a way to more.
fn came_from(data: &Profile, source: Option<SchedSource>) -> Result {
    let found = data.sched.as_ref().map(|sched| sched.source);
    check!(found == source, "events of {found:?}, expected {source:?}");
    if let Some(sched) = &data.sched {
        check!(sched.events > 0, "no events");
        check!(!sched.threads.is_empty(), "no threads");
    }
    let collector = data.meta.collectors.iter().find(|c| c.name == "scheduler");
    let collector = collector.ok_or("the profile does not say whether there was a scheduler")?;
    check!(collector.active == source.is_some(), "{collector:?}");
    check!(
        (source == Some(SchedSource::Bpf)) == collector.lost.is_empty(),
        "{collector:?}"
    );
    Ok(())
}

/// A static program is recorded by its scheduler events, and told about once.
fn without_agent(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let sections = compile::compile(&programs().join("sections.c"), &["-static".into()])?;
    let bare = run(
        Command::new(&sections).arg("status"),
        scratch.dir(),
        "bare",
        TIMEOUT,
    )?;
    let file = scratch.path("run.convoy");
    let mut recorder = convoy::record(&file)?;
    let outcome = run(
        recorder.arg(&sections).arg("status"),
        scratch.dir(),
        "convoy",
        TIMEOUT,
    )?;
    same(&bare, &outcome)?;
    let data = convoy::read(&file)?;
    came_from(&data, Some(SchedSource::Bpf))?;
    let threads: usize = data.processes.iter().map(|p| p.threads.len()).sum();
    check!(threads == 5, "{threads} of 5 threads");
    Ok(())
}

/// Limits, signals, rights, priority, processors and descriptors are those of a bare run.
fn inherited(scratch: &Scratch) -> Result {
    // Signals 32 and 33 are the C library's own, and nobody can set them but by ignoring them before an exec.
    const SHOW: &str = "cat /proc/self/limits; ulimit -a; nice; umask; ls -l /proc/self/fd | wc -l; \
                        grep -E '^(Sig[PBC]|Shd|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Groups)' /proc/self/status; \
                        ignored=$(sed -n 's/^SigIgn:.//p' /proc/self/status); \
                        echo $((0x$ignored & ~0x180000000)); cat /proc/self/oom_score_adj /proc/self/timerslack_ns";
    let _turn = turn::shared();
    let words = ["sh", "-c", SHOW];
    let mut bare = Command::new(words[0]);
    let bare = run(bare.args(&words[1..]), scratch.dir(), "bare", TIMEOUT)?;
    let file = scratch.path("run.convoy");
    let outcome = run(
        convoy::record(&file)?.args(words),
        scratch.dir(),
        "convoy",
        TIMEOUT,
    )?;
    check!(
        bare.stdout.lines().count() > 20,
        "nothing shown: {}",
        bare.stderr
    );
    same(&bare, &outcome)
}

/// The user may have so many threads and no more: the program has one, and comes first.
fn few_threads(scratch: &Scratch, processes: u32) -> Result {
    let _turn = turn::shared();
    // Somebody else's, because root has no limit; where that user can reach it.
    let public = tempfile::tempdir().map_err(|e| e.to_string())?;
    let binary = copy(&convoy::binary()?, public.path())?;
    open_to_all(public.path())?;
    let script = format!("ulimit -u {processes}; cd \"$1\"; shift; exec \"$@\"");
    let user = format!("{}", 3_000_000_000u32 + std::process::id() * 8 + processes);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
        .args([
            "env",
            "-u",
            "XDG_RUNTIME_DIR",
            "bash",
            "-c",
            &script,
            "bash",
        ])
        .arg(public.path())
        .arg(binary)
        .args(["record", "-q", "-o", "run.convoy", "--", "sleep", "0.1"]);
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    no_panic(&outcome)?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let data = convoy::read(&public.path().join("run.convoy"))?;
    check!(
        data.meta.collectors.len() == 2,
        "{:?}",
        data.meta.collectors
    );
    Ok(())
}

fn copy(file: &Path, dir: &Path) -> Result<PathBuf> {
    let copy = dir.join("convoy");
    std::fs::copy(file, &copy).map_err(|e| e.to_string())?;
    open_to_all(&copy)?;
    Ok(copy)
}

fn open_to_all(path: &Path) -> Result {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))
        .map_err(|e| e.to_string())
}

fn no_panic(outcome: &Outcome) -> Result {
    check!(
        !outcome.stderr.contains("panicked"),
        "convoy panicked: {}",
        outcome.stderr
    );
    Ok(())
}
