//! Puts probes into all functions of a running process's files, and takes them out again: a program
//! under its own load must not notice. `bench/live` runs it.
//!
//! Arguments: the process, `calls` or `time`, seconds, and files (a part of their paths is enough;
//! without one, the program itself). Prints a line of JSON: functions, shares that have a probe of
//! their entry and of entry and exits, calls counted, milliseconds that putting in took, whether
//! each byte is as before; to standard error, why functions have none. Exits with 1 if a byte is
//! not as before.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "../tests/probes/all_functions.rs"]
mod all_functions;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use convoy_inject::{Measure, Owner, Probes};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pid, measure, seconds, wanted @ ..] = arguments.as_slice() else {
        return Err("usage: probe_everything PID calls|time SECONDS [FILE]...".into());
    };
    let (pid, seconds): (u32, f64) = (pid.parse()?, seconds.parse()?);
    let measure = match measure.as_str() {
        "calls" => Measure::Calls,
        "time" => Measure::Time,
        other => return Err(format!("{other} is neither calls nor time").into()),
    };
    let program = std::fs::read_link(format!("/proc/{pid}/exe"))?;
    let files: Vec<PathBuf> = match wanted {
        [] => vec![program],
        wanted => {
            let mapped = mapped(pid)?.into_iter();
            let is_wanted = |file: &PathBuf| {
                let path = file.to_string_lossy();
                wanted.iter().any(|part| path.contains(part.as_str()))
            };
            mapped.filter(is_wanted).collect()
        }
    };
    let before = all_functions::code(pid);
    let functions = files
        .iter()
        .flat_map(|file| all_functions::functions(file, pid));
    let all = all_functions::probes(functions, measure);
    let mut probes = Probes::begin(pid, Owner::this())?;
    let began = Instant::now();
    let inserted = probes.insert(&all)?;
    let took = began.elapsed();
    let inserted = all_functions::without_parts(inserted);
    let (entries, whole) = all_functions::shares(&inserted);
    for (why, n) in all_functions::reasons(&inserted) {
        eprintln!("{n} x {why}");
    }
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let calls: u64 = probes.read()?.cells.iter().map(|cell| cell.calls).sum();
    probes.end()?;
    let is_same = all_functions::code(pid) == before;
    println!(
        "{{\"functions\": {}, \"entries\": {entries:.4}, \"whole\": {whole:.4}, \"calls\": {calls}, \
         \"insertion_ms\": {:.1}, \"same_bytes\": {is_same}}}",
        inserted.len(),
        1e3 * took.as_secs_f64(),
    );
    match is_same {
        true => Ok(()),
        false => Err("some bytes are not as before".into()),
    }
}

/// Files that a process has mapped as code.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn mapped(pid: u32) -> std::io::Result<Vec<std::path::PathBuf>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let code = maps.lines().filter(|line| line.contains(" r-xp "));
    let mut files: Vec<_> = code
        .filter_map(|line| line.find('/').map(|at| line[at..].into()))
        .collect();
    files.dedup();
    Ok(files)
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() {}
