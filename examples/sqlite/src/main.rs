//! Threads that should have nothing to do with one another: each inserts into and selects from an
//! in-memory SQLite database of its own. On two processors two of them run hardly faster than one;
//! `docs/worked-example-sqlite.md` finds out why, and `--no-memstatus` is the fix.

mod arguments;
mod database;

use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use arguments::Arguments;
use database::Database;

/// Turns between two looks at the clock.
const TURNS: u64 = 256;

/// What one thread did.
struct Work {
    operations: u64,
    checksum: u64,
    elapsed: Duration,
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("sqlite-threads: {message}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sqlite-threads: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    database::configure(arguments.memstatus)?;
    let gate = Barrier::new(arguments.threads);
    let works = thread::scope(|scope| {
        let start = |i| {
            let gate = &gate;
            let worker = thread::Builder::new().name(format!("worker-{i}"));
            worker
                .spawn_scoped(scope, move || work(arguments, gate))
                .map_err(|e| e.to_string())
        };
        let handles: Vec<_> = (0..arguments.threads)
            .map(start)
            .collect::<Result<_, _>>()?;
        let join = |handle: thread::ScopedJoinHandle<'_, _>| {
            handle.join().map_err(|_| "a worker panicked".to_string())?
        };
        handles
            .into_iter()
            .map(join)
            .collect::<Result<Vec<Work>, String>>()
    })?;

    let operations: u64 = works.iter().map(|w| w.operations).sum();
    let checksum = works
        .iter()
        .fold(0u64, |sum, w| sum.wrapping_add(w.checksum));
    let elapsed = works
        .iter()
        .map(|w| w.elapsed)
        .max()
        .unwrap_or_default()
        .as_secs_f64();
    println!(
        "{} threads, {operations} operations, checksum {checksum}",
        arguments.threads
    );
    println!(
        "{elapsed:.3} s, {:.0} operations/s",
        operations as f64 / elapsed
    );
    Ok(())
}

fn work(arguments: &Arguments, gate: &Barrier) -> Result<Work, String> {
    let database = Database::open().and_then(|mut database| {
        if arguments.one_transaction {
            database.begin()?;
        }
        Ok(database)
    });
    // Everyone comes to the gate, also a thread that failed: the others would wait for it for ever.
    gate.wait();
    let mut database = database?;
    let started = Instant::now();
    let mut work = Work {
        operations: 0,
        checksum: 0,
        elapsed: Duration::ZERO,
    };
    let mut key = 0;
    while !arguments.is_done(work.operations, started.elapsed()) {
        for _ in 0..TURNS {
            database.insert(key)?;
            work.checksum = work.checksum.wrapping_add(database.select(key / 2)?);
            key += 1;
        }
        work.operations += 2 * TURNS;
    }
    work.elapsed = started.elapsed();
    Ok(work)
}
