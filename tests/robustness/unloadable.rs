//! Programs that cannot load the agent, started by convoy and by recorded programs: same output, same status, and
//! the profile says that they were not seen.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::{missing, Missing};
use convoy_harness::run::run;
use convoy_harness::{check, compile, convoy, turn, Result};
use libtest_mimic::Trial;

use crate::files::setuid_copy;
use crate::table::{program, programs, same};

const TIMEOUT: Duration = Duration::from_secs(60);

/// What the agent calls the start of such a program.
const LOSS: &str = "exec-unloadable";

/// A kind of program that cannot load the agent.
#[derive(Clone, Copy)]
enum Kind {
    Musl,
    Bits32,
    Static,
    StaticMusl,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Musl, Self::Bits32, Self::Static, Self::StaticMusl];

    fn name(self) -> &'static str {
        match self {
            Self::Musl => "musl",
            Self::Bits32 => "32-bit",
            Self::Static => "static",
            Self::StaticMusl => "static-musl",
        }
    }

    fn needs(self) -> Option<Missing> {
        match self {
            Self::Musl | Self::StaticMusl => needs("musl"),
            Self::Bits32 => needs("32-bit"),
            Self::Static => None,
        }
    }

    fn build(self, source: &str) -> Result<PathBuf> {
        let source = programs().join(source);
        let (compiler, flags): (_, &[&str]) = match self {
            Self::Musl => (Some("musl-gcc"), &[]),
            Self::Bits32 => (None, &["-m32"]),
            Self::Static => (None, &["-static"]),
            Self::StaticMusl => (Some("musl-gcc"), &["-static"]),
        };
        let flags: Vec<String> = flags.iter().map(|&f| f.to_owned()).collect();
        compile::compile_with(compiler, &source, &flags)
    }
}

/// One test per kind and way of starting it.
pub fn trials() -> Vec<Trial> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let name = |how: &str| format!("unloadable/{}/{how}", kind.name());
        all.extend([
            trial(name("command"), kind.needs(), move |s| command(s, kind)),
            trial(name("child"), kind.needs(), move |s| child(s, kind)),
            trial(name("parent"), kind.needs(), move |s| parent(s, kind)),
            trial(name("interpreter"), kind.needs(), move |s| {
                interpreter(s, kind)
            }),
        ]);
    }
    all.extend([
        trial("unloadable/uclibc", None, uclibc),
        trial("unloadable/foreign", None, foreign),
        trial("unloadable/chroot", needs("root"), chroot),
        trial("unrecorded/static", None, |s| {
            unrecorded(s, &Kind::Static.build("bystander.c")?, "statically linked")
        }),
        trial("unrecorded/musl", needs("musl"), |s| {
            unrecorded(s, &Kind::Musl.build("bystander.c")?, "another C library")
        }),
        trial("unrecorded/32-bit", needs("32-bit"), |s| {
            unrecorded(s, &Kind::Bits32.build("bystander.c")?, "32-bit")
        }),
        trial("unrecorded/setuid", needs("root"), |s| {
            unrecorded(s, &setuid_copy(s, "bystander.c")?, "setuid")
        }),
    ]);
    all
}

fn needs(what: &str) -> Option<Missing> {
    missing(&[what.to_owned()])
}

/// Runs a command bare and recorded, without scheduler events and with those that are to be had: nothing that it
/// prints may differ. The losses that the first of the profiles names.
fn same_under_convoy(scratch: &Scratch, command: &[&Path]) -> Result<Vec<(String, u64)>> {
    let _turn = turn::shared();
    let bare = run(
        Command::new(command[0]).args(&command[1..]),
        scratch.dir(),
        "bare",
        TIMEOUT,
    )?;
    let file = scratch.path("run.convoy");
    for options in [&[][..], &["--scheduler", "off"]] {
        let mut recorder = convoy::record_with(options, &file)?;
        let recorded = run(recorder.args(command), scratch.dir(), "convoy", TIMEOUT)?;
        same(&bare, &recorded)?;
    }
    let profile = convoy::read(&file)?;
    let drops = profile.processes.into_iter().flat_map(|p| p.drops);
    Ok(drops.collect())
}

fn count(losses: &[(String, u64)], reason: &str) -> u64 {
    let of_it = losses.iter().filter(|(r, _)| r == reason);
    of_it.map(|(_, n)| n).sum()
}

fn command(scratch: &Scratch, kind: Kind) -> Result {
    let losses = same_under_convoy(scratch, &[&kind.build("bystander.c")?])?;
    check!(losses.is_empty(), "of no agent: {losses:?}");
    Ok(())
}

/// However it is started, it is named once.
fn child(scratch: &Scratch, kind: Kind) -> Result {
    let (starter, bystander) = (program("starter.c")?, kind.build("bystander.c")?);
    for way in ["execv", "execvp", "vfork", "fexecve", "spawn", "spawnp"] {
        let losses = same_under_convoy(scratch, &[&starter, Path::new(way), &bystander])?;
        check!(count(&losses, LOSS) == 1, "{way}: {losses:?}");
    }
    let losses = same_under_convoy(scratch, &[Path::new("sh"), Path::new("-c"), &bystander])?;
    check!(count(&losses, LOSS) == 1, "sh: {losses:?}");
    Ok(())
}

/// What it starts is recorded where that can be, and runs where not: there is no agent in between that
/// could decide.
fn parent(scratch: &Scratch, kind: Kind) -> Result {
    let starter = kind.build("starter.c")?;
    for other in Kind::ALL
        .into_iter()
        .filter(|other| other.needs().is_none())
    {
        let bystander = other.build("bystander.c")?;
        same_under_convoy(scratch, &[&starter, Path::new("execv"), &bystander])?;
    }
    let bystander = program("bystander.c")?;
    same_under_convoy(scratch, &[&starter, Path::new("execv"), &bystander])?;
    let profile = convoy::read(&scratch.path("run.convoy"))?;
    let names = |p: &convoy_profile::Process| p.exe.contains("bystander");
    check!(
        profile.processes.iter().any(names),
        "the child was not recorded: {} processes",
        profile.processes.len()
    );
    Ok(())
}

/// Behind `#!`, twice.
fn interpreter(scratch: &Scratch, kind: Kind) -> Result {
    let bystander = kind.build("bystander.c")?;
    let inner = script(scratch, "inner", &format!("#! {} x\n", bystander.display()))?;
    let outer = script(scratch, "outer", &format!("#!{}\n", inner.display()))?;
    let starter = program("starter.c")?;
    let losses = same_under_convoy(scratch, &[&starter, Path::new("execv"), &outer])?;
    check!(count(&losses, LOSS) == 1, "{losses:?}");
    same_under_convoy(scratch, &[&outer]).map(drop)
}

fn script(scratch: &Scratch, name: &str, text: &str) -> Result<PathBuf> {
    let path = scratch.path(name);
    fs::write(&path, text).map_err(|e| e.to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
    Ok(path)
}

/// A loader that may end a program because of a preload gets none. By its name: what stands there is
/// glibc's, so that the program can say what it got.
fn uclibc(scratch: &Scratch) -> Result {
    let loader = scratch.path("ld64-uClibc.so.1");
    let glibc = fs::read_dir("/lib64").map_err(|e| e.to_string())?;
    let mut found = glibc.flatten().map(|entry| entry.path());
    let glibc = found.find(|p| p.to_string_lossy().contains("/ld-linux"));
    symlink(glibc.ok_or("no loader in /lib64")?, &loader).map_err(|e| e.to_string())?;
    let flag = format!("-Wl,--dynamic-linker={}", loader.display());
    let bystander = compile::compile(&programs().join("bystander.c"), &[flag])?;
    let (way, what) = (Path::new("execv"), Path::new("preload"));
    same_under_convoy(scratch, &[&bystander, what])?;
    let losses = same_under_convoy(scratch, &[&program("starter.c")?, way, &bystander, what])?;
    check!(count(&losses, LOSS) == 1, "{losses:?}");
    Ok(())
}

/// A program for another processor: the kernel refuses it, so that nothing was lost.
fn foreign(scratch: &Scratch) -> Result {
    let mut bytes = fs::read(program("bystander.c")?).map_err(|e| e.to_string())?;
    const MACHINE_AT: usize = 18;
    const EM_S390: u8 = 22;
    bytes[MACHINE_AT..MACHINE_AT + 2].copy_from_slice(&[EM_S390, 0]);
    let path = scratch.path("foreign");
    fs::write(&path, bytes).map_err(|e| e.to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
    for way in ["execv", "spawn"] {
        let losses = same_under_convoy(scratch, &[&program("starter.c")?, Path::new(way), &path])?;
        check!(losses.is_empty(), "{way}: {losses:?}");
    }
    Ok(())
}

/// Where the agent's file is not, the loader would complain.
fn chroot(scratch: &Scratch) -> Result {
    let root = scratch.path("root");
    let bystander = program("bystander.c")?;
    let needed = Command::new("ldd").arg(&bystander).output();
    let needed = String::from_utf8(needed.map_err(|e| e.to_string())?.stdout);
    let needed = needed.map_err(|e| e.to_string())?;
    let files = needed
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for file in files.map(Path::new).chain([bystander.as_path()]) {
        let to = root.join(file.strip_prefix("/").map_err(|e| e.to_string())?);
        fs::create_dir_all(to.parent().ok_or("no folder")?).map_err(|e| e.to_string())?;
        fs::copy(file, &to).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let losses = same_under_convoy(scratch, &[Path::new("chroot"), &root, &bystander])?;
    check!(count(&losses, "exec-without-agent") == 1, "{losses:?}");
    Ok(())
}

/// Without scheduler events there is nothing to record: it runs to its end, and that is said once, before it prints
/// anything.
fn unrecorded(scratch: &Scratch, program: &Path, reason: &str) -> Result {
    let _turn = turn::shared();
    let bare = run(&mut Command::new(program), scratch.dir(), "bare", TIMEOUT)?;
    let file = scratch.path("run.convoy");
    let mut recorder = Command::new(convoy::binary()?);
    recorder.args(["record", "--scheduler", "off", "-o"]);
    recorder.arg(&file).arg("--").arg(program);
    let recorded = run(&mut recorder, scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        recorded.end == bare.end && recorded.stdout == bare.stdout,
        "{:?} {} became {:?} {}",
        bare.end,
        bare.stdout,
        recorded.end,
        recorded.stdout
    );
    // Both write to one stream at once: which comes first is nobody's promise.
    let stderr = &recorded.stderr;
    check!(stderr.contains(&bare.stderr), "stderr differs: {stderr}");
    let said = stderr.replacen(&bare.stderr, "", 1);
    check!(
        said.contains(reason) && said.contains("it runs unrecorded"),
        "the reason is not {reason}: {said}"
    );
    check!(
        said.matches("convoy: ").count() == 2 && said.contains("wrote"),
        "said twice: {said}"
    );
    Ok(())
}
