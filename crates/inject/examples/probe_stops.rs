//! How long a process stands still when probes go in, and when they go out: `bench/live` runs it.
//!
//! Arguments: the process, the number of probes, rounds. Prints a line for each round: microseconds
//! of the stop for putting in, and for taking out.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "../tests/probes/all_functions.rs"]
#[allow(dead_code)] // it has more than is needed here
mod all_functions;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::time::Duration;

    use convoy_inject::{Inserted, Measure, Owner, Probes, ROWS};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pid, wanted, rounds] = arguments.as_slice() else {
        return Err("usage: probe_stops PID PROBES ROUNDS".into());
    };
    let (pid, wanted): (u32, usize) = (pid.parse()?, wanted.parse()?);
    let program = std::fs::read_link(format!("/proc/{pid}/exe"))?;
    let functions = all_functions::functions(&program, pid);
    let all = all_functions::probes(functions, Measure::Calls);
    let rows: Vec<u32> = (0..ROWS).collect();
    let mut probes = Probes::begin(pid, Owner::this())?;
    let answers = probes.insert(&all)?.into_iter();
    let mut all: Vec<_> = all
        .into_iter()
        .zip(answers)
        .filter(|(_, answer)| *answer == Inserted::Whole)
        .map(|(probe, _)| probe)
        .collect();
    probes.remove(&rows)?;
    if all.len() < wanted {
        return Err(format!("{} functions can be probed", all.len()).into());
    }
    all.truncate(wanted);
    for _ in 0..rounds.parse()? {
        probes.insert(&all)?;
        let into = probes.last_stop();
        std::thread::sleep(Duration::from_millis(20));
        probes.remove(&rows)?;
        println!("{} {}", into.as_micros(), probes.last_stop().as_micros());
        std::thread::sleep(Duration::from_millis(20));
    }
    probes.end()?;
    Ok(())
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() {}
