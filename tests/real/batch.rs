//! Programs that do a piece of work and end: recorded from their start, and from their middle.

use std::path::Path;
use std::process::Command;

use convoy_harness::case::Scratch;
use convoy_harness::compile::compile;
use convoy_harness::run::{start, End};
use convoy_harness::{check, root, Result};
use libtest_mimic::Trial;

use crate::machine::{as_is, command, lacks, succeed};
use crate::twice::{attached, beside, kernel, twice, TIMEOUT};
use crate::verdict::Verdict;

pub fn trials() -> Vec<Trial> {
    vec![
        beside("make", lacks(&["make", "gcc"]), make),
        beside(
            "make-attached",
            kernel(lacks(&["make", "gcc"])),
            |scratch| {
                sources(scratch.dir())?;
                let verdict = attached_to(scratch, &make_command(scratch.dir()))?;
                check!(
                    verdict.processes.len() > 2,
                    "{} processes were seen",
                    verdict.processes.len()
                );
                Ok(())
            },
        ),
        beside("x264", lacks(&["x264"]), x264),
        beside("x264-attached", kernel(lacks(&["x264"])), |scratch| {
            film(&scratch.path("film.yuv"), 4 * FRAMES)?;
            let bare = encode(scratch, "bare.264");
            succeed(&mut as_is(&bare))?;
            let verdict = attached_to(scratch, &encode(scratch, "attached.264"))?;
            same_file(scratch, "bare.264", "attached.264")?;
            verdict.expect_gain_below(2.0)
        }),
        beside("java-attached", kernel(lacks(&["java", "javac"])), java),
    ]
}

/// Many short processes: a compiler, an assembler and a shell for each file.
fn make(scratch: &Scratch) -> Result {
    let (bare, recorded, verdict) = twice(scratch, |mode| {
        let dir = scratch.path(mode.tag());
        std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
        sources(&dir)?;
        let mut command = mode.wrap(&make_command(&dir))?;
        let outcome =
            start(command.env("LC_ALL", "C"), scratch.dir(), mode.tag())?.finish(TIMEOUT)?;
        check!(outcome.end == End::Status(0), "{outcome:?}");
        succeed(&mut Command::new(dir.join("sum")))
    })?;
    check!(bare == SUM, "bare: {bare}");
    check!(recorded == bare, "bare {bare}, recorded {recorded}");
    let compilers = verdict
        .processes
        .iter()
        .filter(|p| p.exe.ends_with("/cc1"))
        .count();
    check!(
        compilers >= FILES,
        "{compilers} compilers of {FILES} were seen"
    );
    Ok(())
}

/// Files of the program that is built.
const FILES: usize = 24;
/// What it says.
const SUM: &str = "276\n";

fn make_command(dir: &Path) -> Command {
    let mut make = command("make");
    make.args(["-s", "-j2", "-C"]).arg(dir);
    make
}

/// A program of many files, and how to build it.
fn sources(dir: &Path) -> Result {
    let write = |name: &str, text: String| {
        let file = dir.join(name);
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))
    };
    for i in 0..FILES {
        // The library's headers give the compiler something to do.
        let text = format!(
            "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <pthread.h>\n\
             int part_{i}(void);\nint part_{i}(void)\n{{\n\treturn {i};\n}}\n"
        );
        write(&format!("part_{i}.c"), text)?;
    }
    let declared: String = (0..FILES)
        .map(|i| format!("int part_{i}(void);\n"))
        .collect();
    let sum: Vec<String> = (0..FILES).map(|i| format!("part_{i}()")).collect();
    write(
        "sum.c",
        format!(
            "#include <stdio.h>\n{declared}int main(void)\n{{\n\tprintf(\"%d\\n\", {});\n}}\n",
            sum.join(" + ")
        ),
    )?;
    write(
        "Makefile",
        "sum: $(patsubst %.c,%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n\
         %.o: %.c\n\tgcc -O2 -c -o $@ $<\n"
            .to_owned(),
    )
}

/// An encoder whose threads each have a frame and wait for rows of the one before. Its output does not
/// depend on their schedule.
fn x264(scratch: &Scratch) -> Result {
    film(&scratch.path("film.yuv"), FRAMES)?;
    let verdict = {
        let ((), (), verdict) = twice(scratch, |mode| {
            let command = encode(scratch, &format!("{}.264", mode.tag()));
            let outcome =
                start(&mut mode.wrap(&command)?, scratch.dir(), mode.tag())?.finish(TIMEOUT)?;
            check!(outcome.end == End::Status(0), "{outcome:?}");
            Ok(())
        })?;
        verdict
    };
    same_file(scratch, "bare.264", "recorded.264")?;
    verdict.expect_gain_below(2.0)
}

const FRAMES: usize = 100;
const WIDTH: usize = 320;
const HEIGHT: usize = 240;

fn encode(scratch: &Scratch, output: &str) -> Command {
    let mut x264 = command("x264");
    x264.args([
        "--quiet",
        "--no-progress",
        "--threads",
        "4",
        "--demuxer",
        "raw",
    ])
    .arg("--input-res")
    .arg(format!("{WIDTH}x{HEIGHT}"))
    .arg("-o")
    .arg(scratch.path(output))
    .arg(scratch.path("film.yuv"));
    x264
}

/// Patterns that move: brightness and two colours of each frame (YUV 4:2:0).
fn film(file: &Path, frames: usize) -> Result {
    let mut bytes = Vec::with_capacity(frames * WIDTH * HEIGHT * 3 / 2);
    for frame in 0..frames {
        for y in 0..HEIGHT {
            bytes.extend((0..WIDTH).map(|x| ((x * x / 7 + y * 3) ^ (y + frame * 5)) as u8));
        }
        let colours = WIDTH * HEIGHT / 2;
        bytes.extend((0..colours).map(|i| ((i / WIDTH) + frame) as u8));
    }
    std::fs::write(file, bytes).map_err(|e| format!("{}: {e}", file.display()))
}

fn same_file(scratch: &Scratch, a: &str, b: &str) -> Result {
    let read = |name: &str| std::fs::read(scratch.path(name)).map_err(|e| format!("{name}: {e}"));
    let (a, b) = (read(a)?, read(b)?);
    check!(
        !a.is_empty() && a == b,
        "{} and {} bytes differ",
        a.len(),
        b.len()
    );
    Ok(())
}

/// A monitor that is held nearly all the time, in methods that the virtual machine has compiled by then, and that only it
/// knows the names of.
fn java(scratch: &Scratch) -> Result {
    let classes = compile(&root().join("fixtures/java-monitor/java_monitor.java"), &[])?;
    let mut java = command("java");
    java.arg("-cp").arg(&classes).arg("JavaMonitor");
    java.env("CONVOY_FX_SCALE", "12");
    let running = start(&mut java, scratch.dir(), "java")?;
    let recorded = attached(scratch, running.id(), || Ok(()));
    let outcome = running.finish(TIMEOUT)?;
    let ((), verdict) = recorded?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    check!(outcome.stdout.ends_with("EXIT-SUCCESS\n"), "{outcome:?}");
    verdict.expect_finding("contended-futex", &["Ledger"])
}

/// Attaches to a command while it runs. It must not notice, and may end before its recording does.
fn attached_to(scratch: &Scratch, command: &Command) -> Result<Verdict> {
    let running = start(&mut as_is(command), scratch.dir(), "program")?;
    let recorded = attached(scratch, running.id(), || Ok(()));
    let outcome = running.finish(TIMEOUT)?;
    let ((), verdict) = recorded?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    // x264 says there how fast it was.
    check!(!outcome.stderr.contains("convoy"), "{outcome:?}");
    Ok(verdict)
}
