//! Puts probes into all functions of a running process's files, and takes them out again: a program
//! under its own load must not notice. `bench/live` runs it.
//!
//! Arguments: the process, `calls` or `time`, seconds, and files (a part of their paths is enough;
//! without one, the program itself). Prints a line of JSON: functions, shares that have a probe of
//! their entry and of entry and exits, calls counted, milliseconds that putting in took, whether
//! each byte is as before; to standard error, why functions have none. Exits with 1 if a byte is
//! not as before.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "../tests/probes/frames.rs"]
mod frames;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use convoy_inject::{Inserted, Measure, Owner, Probe, Probes, ROWS};

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
    let before = code(pid)?;
    let all = files.iter().flat_map(|file| frames::functions(file, pid));
    let all: Vec<Probe> = (0..)
        .zip(all)
        .map(|(i, function)| Probe {
            row: i % ROWS,
            function,
            measure,
            within: None,
        })
        .collect();
    let mut probes = Probes::begin(pid, Owner::this())?;
    let began = Instant::now();
    let mut inserted = probes.insert(&all)?;
    let took = began.elapsed();
    // Parts that the compiler moved elsewhere are no functions.
    inserted.retain(|i| !matches!(i, Inserted::No { why } if why.contains("a part of")));
    let share = |is_good: &dyn Fn(&Inserted) -> bool| {
        let good = inserted.iter().filter(|i| is_good(i)).count();
        good as f64 / inserted.len().max(1) as f64
    };
    tell_reasons(&inserted);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let calls: u64 = probes.read()?.cells.iter().map(|cell| cell.calls).sum();
    probes.end()?;
    let is_same = code(pid)? == before;
    println!(
        "{{\"functions\": {}, \"entries\": {:.4}, \"whole\": {:.4}, \"calls\": {calls}, \
         \"insertion_ms\": {:.1}, \"same_bytes\": {is_same}}}",
        inserted.len(),
        share(&|i| !matches!(i, Inserted::No { .. })),
        share(&|i| *i == Inserted::Whole),
        1e3 * took.as_secs_f64(),
    );
    match is_same {
        true => Ok(()),
        false => Err("some bytes are not as before".into()),
    }
}

/// Why functions have no probe, or none of their exits, most frequent first: to standard error.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn tell_reasons(inserted: &[convoy_inject::Inserted]) {
    use std::collections::BTreeMap;

    use convoy_inject::Inserted;

    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for one in inserted {
        if let Inserted::No { why } | Inserted::CallsOnly { why } = one {
            // In front of the last colon stands which function it is.
            *reasons
                .entry(why.rsplit(": ").next().unwrap_or(why))
                .or_default() += 1;
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (why, n) in reasons {
        eprintln!("{n} x {why}");
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

/// The code of all files that are mapped.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn code(pid: u32) -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;

    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"))?;
    let mut all = Vec::new();
    // Stubs, which are of no file, may stay mapped.
    let files = maps
        .lines()
        .filter(|line| line.contains(" r-xp ") && line.contains('/'));
    for line in files {
        let addresses = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = addresses.and_then(|(lo, hi)| Some(address(lo)?..address(hi)?));
        let Some(range) = range else { continue };
        let mut bytes = vec![0; (range.end - range.start) as usize];
        memory.read_exact_at(&mut bytes, range.start)?;
        all.extend(bytes);
    }
    Ok(all)
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() {}
