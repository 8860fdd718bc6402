//! SQLite: the worked example (docs/worked-example-sqlite.md).

use std::path::PathBuf;
use std::process::Command;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::{check, root, target, turn, Result};
use libtest_mimic::Trial;

use crate::machine::succeed;
use crate::twice::same_lines;
use crate::verdict::Verdict;

/// Every allocation passes here, behind the lock of the memory statistics.
const ALLOCATORS: [&str; 3] = ["sqlite3Malloc", "sqlite3_free", "sqlite3_malloc"];
/// What takes the lock of the page cache.
const PAGE_CACHE: [&str; 4] = [
    "pcache1FetchWithMutex",
    "pcache1Fetch",
    "pcache1Unpin",
    "pcache1Truncate",
];

pub fn trials() -> Vec<Trial> {
    vec![
        trial("sqlite/memory-statistics-are-found", None, |scratch| {
            let _turn = turn::alone();
            turn::retry(|| statistics_are_found(scratch))
        }),
        trial("sqlite/next-is-the-page-cache", None, |scratch| {
            let _turn = turn::alone();
            turn::retry(|| page_cache_is_next(scratch))
        }),
    ]
}

fn statistics_are_found(scratch: &Scratch) -> Result {
    let verdict = same_lines(
        scratch,
        Command::new(program()?).args(["--operations", "400000"]),
        1,
    )?;
    let first = verdict
        .findings
        .first()
        .ok_or_else(|| format!("nothing found: {}", verdict.describe()))?;
    check!(
        is_statistics(&verdict, 0),
        "found first: {}: {}",
        first.title,
        verdict.describe()
    );
    // The fix, measured: 1.9 to 2.0.
    check!(
        first.gain.mid_ratio >= 1.3,
        "{}: {:?}",
        first.title,
        first.gain
    );
    check!(
        first.gain.high_ratio >= 1.6,
        "{}: {:?}",
        first.title,
        first.gain
    );
    Ok(())
}

/// With the statistics off the next lock shows: libsqlite3-sys compiles SQLite with
/// SQLITE_ENABLE_MEMORY_MANAGEMENT, so that all databases share one page cache and its lock. Compiled
/// without, the program gained 1.1 to 1.9 times in five pairs of runs, 1.36 in the median.
fn page_cache_is_next(scratch: &Scratch) -> Result {
    let arguments = ["--operations", "400000", "--no-memstatus"];
    let verdict = same_lines(scratch, Command::new(program()?).args(arguments), 1)?;
    for i in 0..verdict.findings.len() {
        check!(
            !is_statistics(&verdict, i),
            "the lock is gone, but: {}",
            verdict.describe()
        );
    }
    let first = verdict
        .findings
        .first()
        .ok_or_else(|| format!("nothing found: {}", verdict.describe()))?;
    check!(
        is_about(&verdict, 0, &PAGE_CACHE),
        "found first: {}: {}",
        first.title,
        verdict.describe()
    );
    check!(
        first.gain.low_ratio <= 1.36 && first.gain.high_ratio >= 1.36,
        "{}: {:?}",
        first.title,
        first.gain
    );
    Ok(())
}

fn is_statistics(verdict: &Verdict, finding: usize) -> bool {
    is_about(verdict, finding, &ALLOCATORS)
}

fn is_about(verdict: &Verdict, finding: usize, functions: &[&str]) -> bool {
    functions
        .iter()
        .any(|function| verdict.is_about(&verdict.findings[finding], function))
}

/// Cargo knows when there is nothing to do.
fn program() -> Result<PathBuf> {
    let dir = target().join("examples");
    let mut cargo = Command::new("cargo");
    cargo.args([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        "examples/sqlite/Cargo.toml",
        "--target-dir",
    ]);
    succeed(cargo.arg(&dir).current_dir(root()))?;
    Ok(dir.join("release/sqlite-threads"))
}
