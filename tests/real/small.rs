//! Programs in compiled languages whose locks are not those of the C library's symbols.

use std::process::Command;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::{check, root, turn, Result};
use libtest_mimic::Trial;

use crate::twice::{beside, same_output};
use crate::verdict::Verdict;

pub fn trials() -> Vec<Trial> {
    vec![
        beside("rust-std-mutex", missing(&["rustc".into()]), |scratch| {
            let verdict = compiled(scratch, "std_mutex.rs", &[])?;
            verdict.expect_top_lock(2, "post_to_ledger")
        }),
        // Uneven work costs nothing where others take the processors that even work would use.
        measured("openmp", None, |scratch| {
            let _turn = turn::alone();
            turn::retry(|| openmp(scratch))
        }),
    ]
}

fn openmp(scratch: &Scratch) -> Result {
    let verdict = compiled(scratch, "omp_histogram.c", &["-fopenmp"])?;
    let counted = verdict.acquisitions("count");
    check!(
        counted == 240_000,
        "{counted} turns of the critical section: {}",
        verdict.describe()
    );
    // Half of the rows have a quarter of the work.
    let found = verdict
        .findings
        .iter()
        .any(|f| verdict.is_about(f, "triangle"));
    check!(
        found,
        "the triangle's imbalance was not found: {}",
        verdict.describe()
    );
    Ok(())
}

fn compiled(scratch: &Scratch, source: &str, flags: &[&str]) -> Result<Verdict> {
    let flags: Vec<String> = flags.iter().map(|&flag| flag.into()).collect();
    let program = compile(&root().join("tests/real/programs").join(source), &flags)?;
    same_output(scratch, &Command::new(program))
}
