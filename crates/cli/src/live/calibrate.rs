//! Prices of probes on this machine: a loop of convoy's own, in a child process, with and without
//! them.

use std::ffi::OsString;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use convoy_live::{Focus, Function, Inserted, Key, Measure, Prices, Probe, Probes};

use super::functions::Functions;
use super::probes::LazyProbes;

/// Argument of `convoy` that makes it run the loop.
pub const ARGUMENT: &str = "__probed-loop";

/// Calls of a batch: short, so that some batches are not interrupted on a busy machine.
const CALLS: u32 = 5_000;

/// Batches; the fastest counts.
const BATCHES: usize = 50;

/// The function that is probed. It does what most small functions do at least: it calls nothing,
/// and returns.
#[inline(never)]
fn probed(x: u64) -> u64 {
    black_box(x).wrapping_mul(31).rotate_left(7) ^ 5
}

/// The child: tells where the function is, then runs a batch for each line that it reads, and
/// tells nanoseconds per call.
pub fn run_loop() {
    let mut out = std::io::stdout();
    let told = writeln!(out, "{}", probed as fn(u64) -> u64 as usize);
    let mut lines = std::io::stdin().lines();
    if told.is_err() {
        return;
    }
    while let Some(Ok(_)) = lines.next() {
        let began = Instant::now();
        let mut x = 1;
        for _ in 0..CALLS {
            x = black_box(probed(x));
        }
        let ns = began.elapsed().as_nanos() as f64 / f64::from(CALLS);
        if writeln!(out, "{ns}").is_err() {
            return;
        }
    }
}

/// Measures both prices; where no probe can be put into a child, what the parts of one take here.
pub fn prices() -> Prices {
    with_probes().unwrap_or_else(without_probes)
}

struct Loop {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Loop {
    fn start() -> Option<(Self, u64)> {
        let mut child = Command::new("/proc/self/exe")
            .arg(OsString::from(ARGUMENT))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        let mut this = Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        };
        let address = this.line()?.parse().ok()?;
        Some((this, address))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    }

    /// Nanoseconds of a call: the fastest batch.
    fn call_ns(&mut self) -> Option<f64> {
        let mut best: Option<f64> = None;
        for _ in 0..BATCHES {
            writeln!(self.stdin).ok()?;
            let ns: f64 = self.line()?.parse().ok()?;
            best = Some(best.map_or(ns, |best| best.min(ns)));
        }
        best
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It waits for a line, and would find the end of its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_probes() -> Option<Prices> {
    let (mut running, address) = Loop::start()?;
    let pid = running.child.id();
    let focus = Focus::new().with(Key::Function, format!("{address:#x}"));
    let function: Function = Functions::of(pid)?.find(&focus).ok()?.pop()?;
    let mut probes = LazyProbes::new(pid, Instant::now());
    let bare = running.call_ns()?;
    let mut with = |row: u32, measure: Measure| {
        let probe = Probe::new(row, function.addresses.clone(), measure);
        let answers = probes.insert(&[probe]).ok()?;
        let ns = running.call_ns()?;
        probes.remove(&[row]).ok()?;
        (answers == [Inserted::Whole]).then_some(ns - bare)
    };
    let counter_ns = with(0, Measure::Calls)?;
    let timer_ns = with(1, Measure::Time)?;
    // A difference may drown in what else the machine does.
    let least = bare / 10.0;
    Some(Prices {
        counter_ns: counter_ns.max(least),
        timer_ns: timer_ns.max(counter_ns).max(least),
    })
}

/// A timer reads a clock twice, and little else; a counter adds to memory.
fn without_probes() -> Prices {
    let per_call = |act: &mut dyn FnMut()| {
        let mut best = f64::INFINITY;
        for _ in 0..BATCHES {
            let began = Instant::now();
            (0..CALLS).for_each(|_| act());
            best = best.min(began.elapsed().as_nanos() as f64 / f64::from(CALLS));
        }
        best
    };
    let mut count = 0_u64;
    let counter_ns = per_call(&mut || {
        count = black_box(count).wrapping_add(1);
    });
    let clock_ns = per_call(&mut || {
        black_box(Instant::now());
    });
    Prices {
        counter_ns,
        timer_ns: 2.0 * clock_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_without_probes_are_positive_and_in_order() {
        let prices = without_probes();
        assert!(prices.counter_ns > 0.0);
        assert!(prices.timer_ns > prices.counter_ns);
    }
}
