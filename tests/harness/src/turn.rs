//! Two cases at a time, but one alone where times are compared: the machine may have two processors.

use std::fs;
use std::num::NonZero;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

static TURN: RwLock<()> = RwLock::new(());

/// For cases that others may run beside.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

/// For cases that compare times.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Schedules that a case may meet before it has failed.
const TRIES: usize = 3;

/// Share of the processors' time that a hypervisor may take during a try.
const STOLEN: f64 = 0.1;
/// How often its host is asked again before the next try: a minute altogether.
const PATIENCE: usize = 60;

/// Tries again: what a schedule decides must hold most of the time, on a machine that has its processors. Says so when
/// it did not at once.
pub fn retry(mut once: impl FnMut() -> Result) -> Result {
    let mut last = Ok(());
    for attempt in 1..=TRIES {
        last = once();
        match &last {
            Ok(()) => return Ok(()),
            Err(message) => eprintln!("try {attempt} of {TRIES}: {message}"),
        }
        if attempt < TRIES {
            wait_for_processors();
        }
    }
    last
}

/// Waits while the host of a virtual machine has given its processors to others.
fn wait_for_processors() {
    for _ in 0..PATIENCE {
        if stolen(Duration::from_millis(200)) <= STOLEN {
            return;
        }
        thread::sleep(Duration::from_millis(800));
    }
}

/// The share of the time that is taken while all processors are wanted: what nobody wants, nobody takes.
fn stolen(during: Duration) -> f64 {
    let before = steal_and_all();
    let until = Instant::now() + during;
    let n = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..n {
            scope.spawn(|| while Instant::now() < until {});
        }
    });
    let after = steal_and_all();
    (after.0 - before.0) / (after.1 - before.1).max(1.0)
}

/// Ticks of all processors since the machine began, from the first line of `/proc/stat`: taken, and all.
fn steal_and_all() -> (f64, f64) {
    const STEAL: usize = 7;
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks = line.split_ascii_whitespace().skip(1).take(STEAL + 1);
    let ticks: Vec<f64> = ticks.filter_map(|n| n.parse().ok()).collect();
    (ticks.get(STEAL).copied().unwrap_or(0.0), ticks.iter().sum())
}
