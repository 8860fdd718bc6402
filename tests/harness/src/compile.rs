//! Compiles the programs under test, once: an output newer than its sources is used again.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use crate::{check, root, target, Result};

/// Outputs being made: two cases may want the same program at once.
static UNDER_WAY: LazyLock<Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>> = LazyLock::new(Mutex::default);

/// Compiles `source` by its extension (c, cpp, rs, go, java) and returns the program; of Java, the folder
/// with its classes.
pub fn compile(source: &Path, flags: &[String]) -> Result<PathBuf> {
    compile_with(None, source, flags)
}

/// The same with another compiler, which takes the arguments of the usual one: `mpicc`.
pub fn compile_with(compiler: Option<&str>, source: &Path, flags: &[String]) -> Result<PathBuf> {
    let command = command(compiler, source, flags)?;
    let output = output(source, &command);
    let lock = {
        let mut under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(under_way.entry(output.clone()).or_default())
    };
    let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    if is_fresh(&output, source) {
        return Ok(output);
    }
    build(command, source, &output)?;
    Ok(output)
}

/// What both of gcc's compilers get.
const GNU: [&str; 6] = ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"];
const RUST: [&str; 5] = [
    "--edition=2021",
    "-Copt-level=2",
    "-g",
    "--check-cfg=cfg(fx_fixed)",
    "-Dwarnings",
];

fn command(compiler: Option<&str>, source: &Path, flags: &[String]) -> Result<Command> {
    let extension = source
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    let (line, more): (&[&str], &[&str]) = match extension {
        "c" => (&["gcc", "-std=gnu11"], &GNU),
        "cpp" => (&["g++", "-std=c++20"], &GNU),
        "rs" => (&["rustc"], &RUST),
        "go" => (&["go", "build"], &[]),
        "java" => (&["javac", "-g"], &[]),
        _ => {
            return Err(format!(
                "{}: no compiler for this kind of file",
                source.display()
            ))
        }
    };
    let mut command = Command::new(compiler.unwrap_or(line[0]));
    command
        .args(&line[1..])
        .args(more)
        .args(flags)
        .current_dir(root());
    Ok(command)
}

/// A name that differs when the command does.
fn output(source: &Path, command: &Command) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    format!("{command:?}").hash(&mut hasher);
    let stem = source
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or("program");
    target()
        .join("fixtures")
        .join(format!("{stem}-{:08x}", hasher.finish() as u32))
}

/// Newer than the source and every header that it could include: those beside it and in `fixtures`.
fn is_fresh(output: &Path, source: &Path) -> bool {
    let Some(made) = modified(output) else {
        return false;
    };
    let beside = source.parent().into_iter().flat_map(files);
    let shared = files(&root().join("fixtures")).into_iter();
    let headers = beside
        .chain(shared)
        .filter(|f| f.extension().is_some_and(|e| e == "h" || e == "rs"));
    headers
        .chain([source.to_path_buf()])
        .all(|f| modified(&f).is_some_and(|m| m < made))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .map(|entries| entries.flatten().map(|e| e.path()).collect())
        .unwrap_or_default()
}

fn build(mut command: Command, source: &Path, output: &Path) -> Result {
    // Renamed into place when it is whole: a test run that was stopped leaves nothing half made.
    let part = output.with_extension("part");
    fs::create_dir_all(target().join("fixtures")).map_err(|e| format!("target/fixtures: {e}"))?;
    let is_java = source.extension().is_some_and(|e| e == "java");
    command.arg(if is_java { "-d" } else { "-o" });
    command.arg(&part).arg(source);
    let done = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    check!(
        done.status.success(),
        "{command:?}:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    if output.is_dir() {
        fs::remove_dir_all(output).map_err(|e| format!("{}: {e}", output.display()))?;
    }
    fs::rename(&part, output).map_err(|e| format!("{}: {e}", output.display()))
}
