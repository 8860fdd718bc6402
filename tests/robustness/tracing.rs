//! Sections: of programs that are over at once, of programs without the agent, where there is no room, and of a
//! convoy that was killed.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::missing;
use convoy_harness::run::{run, End, Outcome};
use convoy_harness::{check, convoy, turn, Result};
use convoy_profile::{Profile, Sections};
use libtest_mimic::Trial;

use crate::files::setuid_copy;
use crate::table::program;

const TIMEOUT: Duration = Duration::from_secs(60);

/// One test per claim.
pub fn trials() -> Vec<Trial> {
    let needs = |what: &[&str]| missing(&what.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    vec![
        trial("tracing/over-at-once", None, over_at_once),
        trial("tracing/setuid", needs(&["root", "kernel"]), setuid),
        trial("tracing/full-session", needs(&["mount"]), full_session),
        trial("tracing/many-processes", needs(&["mount"]), many_processes),
        trial("tracing/namespace", needs(&["root"]), namespace),
        trial("tracing/recovered", None, recovered),
    ]
}

fn sections(profile: &Profile) -> Result<&Sections> {
    let sections = profile.sections.as_ref();
    Ok(sections.ok_or("the profile has no sections")?)
}

/// The program ends before convoy has looked at it even once: still it is known what the allocator did, and no thread
/// has all of the traced sections.
fn over_at_once(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let file = scratch.path("run.convoy");
    let program = program("local_strings.c")?;
    for _ in 0..5 {
        let mut command = convoy::diagnose(&["--scheduler", "off"], &file)?;
        let outcome = run(
            command.arg(&program).args(["rounds", "100"]),
            scratch.dir(),
            "convoy",
            TIMEOUT,
        )?;
        went_on(&outcome)?;
        let profile = convoy::read(&file)?;
        let sections = sections(&profile)?;
        let [site] = &sections.sites[..] else {
            return Err(format!("{} sites", sections.sites.len()));
        };
        let (all, allocator) = (site.whole.instructions, site.whole.allocator_instructions);
        check!(
            2 * allocator > all,
            "{allocator} of {all} instructions are the allocator's"
        );
        let threads: BTreeSet<_> = sections.samples.iter().map(|s| s.thread).collect();
        let of = |thread| {
            sections
                .samples
                .iter()
                .filter(|s| s.thread == thread)
                .count()
        };
        let fewest = threads.iter().map(|t| of(*t)).min().unwrap_or(0);
        check!(
            threads.len() == 2 && fewest >= 8,
            "{} threads were traced, one of them {fewest} times",
            threads.len()
        );
    }
    Ok(())
}

/// What a script did that gets convoy as its first argument and the program as its second.
fn scripted(scratch: &Scratch, shell: &[&str], script: &str) -> Result<Outcome> {
    let mut command = Command::new(shell[0]);
    command
        .args(&shell[1..])
        .args(["-c", script, "sh"])
        .args([convoy::binary()?, program("local_strings.c")?]);
    run(&mut command, scratch.dir(), "convoy", TIMEOUT)
}

fn went_on(outcome: &Outcome) -> Result {
    check!(
        outcome.stdout == "done\n" && outcome.end == End::Status(0),
        "{:?}, {:?}: {}",
        outcome.end,
        outcome.stdout,
        outcome.stderr
    );
    Ok(())
}

/// What the scheduler sees is recorded all the same; that no section could be is told as what it is.
fn setuid(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let copy = setuid_copy(scratch, "local_strings.c")?;
    let mut command = Command::new(convoy::binary()?);
    let outcome = run(
        command
            .args(["diagnose", "--report-to", "/dev/null", "--"])
            .arg(copy)
            .args(["rounds", "100"]),
        scratch.dir(),
        "convoy",
        TIMEOUT,
    )?;
    went_on(&outcome)?;
    let told = "no process of the command had loaded the agent";
    check!(
        outcome.stderr.contains(told),
        "not told: {}",
        outcome.stderr
    );
    Ok(())
}

/// The tables fit in, what is traced does not.
fn full_session(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let script = "mkdir full && mount -t tmpfs -o size=3m none full && \
                  exec \"$1\" diagnose --report-to /dev/null --session-dir full -- \"$2\" rounds 1000";
    let outcome = scripted(scratch, &["unshare", "-m", "sh"], script)?;
    went_on(&outcome)?;
    let told = "the file system of the session was full";
    check!(
        outcome.stderr.contains(told),
        "not told: {}",
        outcome.stderr
    );
    Ok(())
}

/// One after another, so many that their sections together have no room: those that have ended need none.
fn many_processes(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    let script = "mkdir small && mount -t tmpfs -o size=300m none small && \
                  exec \"$1\" diagnose --quiet -o run.convoy --report-to /dev/null --session-dir small -- \
                  sh -c 'for i in $(seq 20); do \"$0\" ms 100 > /dev/null; done' \"$2\"";
    let outcome = scripted(scratch, &["unshare", "-m", "sh"], script)?;
    check!(
        outcome.end == End::Status(0) && outcome.stderr.is_empty(),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let profile = convoy::read(&scratch.path("run.convoy"))?;
    let sections = sections(&profile)?;
    // Where all processors are taken convoy may free the room of some too late for the next ones.
    check!(
        sections.sites.len() >= 12,
        "sections of {} processes",
        sections.sites.len()
    );
    Ok(())
}

/// Another number than the one that the program knows itself by: it is traced for as long as it runs.
fn namespace(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program("local_strings.c")?;
    let traced = |inside: &[&str]| -> Result<u64> {
        let file = scratch.path("run.convoy");
        let mut command = convoy::diagnose(&[], &file)?;
        command.args(inside).arg(&program).args(["ms", "1000"]);
        went_on(&run(&mut command, scratch.dir(), "convoy", TIMEOUT)?)?;
        let profile = convoy::read(&file)?;
        Ok(sections(&profile)?.sites.iter().flat_map(|s| s.ends).sum())
    };
    let script = "echo 30000 > /proc/sys/kernel/ns_last_pid; \"$0\" \"$@\"; exit $?";
    let own_numbers = ["unshare", "-pf", "--mount-proc", "sh", "-c", script];
    let (outside, inside) = (traced(&[])?, traced(&own_numbers)?);
    check!(
        2 * inside > outside,
        "{inside} sections traced, {outside} without a namespace"
    );
    Ok(())
}

/// The program goes on without convoy, and what it had traced is there.
fn recovered(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let script = "mkdir session; \
                  \"$1\" diagnose --every --quiet --scheduler off --session-dir session -- \"$2\" ms 3000 & \
                  sleep 1; kill -9 $!; \
                  exec \"$1\" recover -o run.convoy session/*";
    let outcome = scripted(scratch, &["sh"], script)?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let profile = convoy::read(&scratch.path("run.convoy"))?;
    let sections = sections(&profile)?;
    check!(sections.sampling.every, "{:?}", sections.sampling);
    let traced: u64 = sections.sites.iter().flat_map(|s| s.ends).sum();
    check!(traced > 0, "no section was recovered: {:?}", sections.drops);
    Ok(())
}
