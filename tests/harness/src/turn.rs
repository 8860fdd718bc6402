//! Two cases at a time, but one alone where times are compared: the machine may have two processors.

use std::cell::Cell;
use std::fs;
use std::num::NonZero;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

static TURN: RwLock<()> = RwLock::new(());

thread_local! {
    /// Whether this thread's case wants no other beside it, whatever it asks for.
    static BY_ITSELF: Cell<bool> = const { Cell::new(false) };
}

/// A case's turn, until it is dropped.
#[derive(Debug)]
pub enum Turn {
    /// Others may run beside it.
    Shared(RwLockReadGuard<'static, ()>),
    /// No other runs.
    Alone(RwLockWriteGuard<'static, ()>),
}

/// For cases that others may run beside.
pub fn shared() -> Turn {
    if BY_ITSELF.get() {
        return alone();
    }
    Turn::Shared(TURN.read().unwrap_or_else(PoisonError::into_inner))
}

/// For cases that compare times.
pub fn alone() -> Turn {
    Turn::Alone(TURN.write().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a case with no other beside it, once the machine has its processors.
pub(crate) fn by_itself<T>(case: impl FnOnce() -> T) -> T {
    /// Also where a case panics.
    struct Until;
    impl Drop for Until {
        fn drop(&mut self) {
            BY_ITSELF.set(false);
        }
    }
    wait_for_processors();
    BY_ITSELF.set(true);
    let _until = Until;
    case()
}

/// Schedules that a case may meet before it has failed.
const TRIES: usize = 3;
/// Tries that do not count, because the machine did not have its processors: so many more.
const DISTURBED: usize = 6;

/// Share of the processors' busy time that a hypervisor may take during a try.
const STOLEN: f64 = 0.05;
/// How often its host is asked again before the next try: a minute altogether.
const PATIENCE: usize = 60;

/// Tries again: what a schedule decides must hold most of the time, on a machine that has its processors. Says so when
/// it did not at once.
pub fn retry(mut once: impl FnMut() -> Result) -> Result {
    let (mut counted, mut disturbed) = (0, 0);
    loop {
        let before = Ticks::now();
        let Err(message) = once() else {
            return Ok(());
        };
        let stolen = Ticks::now().stolen_since(&before);
        let which = if stolen > STOLEN && disturbed < DISTURBED {
            disturbed += 1;
            "does not count".to_owned()
        } else {
            counted += 1;
            format!("{counted} of {TRIES}")
        };
        let percent = stolen * 100.0;
        eprintln!("try {which} ({percent:.0} % of the processors were taken): {message}");
        if counted == TRIES {
            return Err(message);
        }
        wait_for_processors();
    }
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
    let before = Ticks::now();
    let until = Instant::now() + during;
    let n = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..n {
            scope.spawn(|| while Instant::now() < until {});
        }
    });
    Ticks::now().stolen_since(&before)
}

/// Ticks of all processors since the machine began, from the first line of `/proc/stat`.
struct Ticks {
    stolen: f64,
    /// Those in which a processor was wanted, whether it was there or not.
    wanted: f64,
}

impl Ticks {
    fn now() -> Self {
        const IDLE: usize = 3;
        const IOWAIT: usize = 4;
        const STEAL: usize = 7;
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        let ticks = line.split_ascii_whitespace().skip(1).take(STEAL + 1);
        let ticks: Vec<f64> = ticks.filter_map(|n| n.parse().ok()).collect();
        let at = |ix: usize| ticks.get(ix).copied().unwrap_or(0.0);
        Self {
            stolen: at(STEAL),
            wanted: ticks.iter().sum::<f64>() - at(IDLE) - at(IOWAIT),
        }
    }

    fn stolen_since(&self, before: &Self) -> f64 {
        (self.stolen - before.stolen) / (self.wanted - before.wanted).max(1.0)
    }
}
