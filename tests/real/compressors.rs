//! Compressors: a few waits for blocks of work, and nothing to repair.

use std::process::Command;

use convoy_harness::case::Scratch;
use convoy_harness::{check, Result};
use libtest_mimic::Trial;

use crate::machine::{command, lacks, write_text};
use crate::twice::{beside, same_output};
use crate::verdict::Verdict;

pub fn trials() -> Vec<Trial> {
    vec![
        beside("pbzip2", lacks(&["pbzip2"]), |scratch| {
            let verdict = compress(
                scratch,
                command("pbzip2").args(["-c", "-k", "-p4", "-1"]),
                8 << 20,
            )?;
            check!(
                verdict.acquisitions("pbzip2") > 0,
                "no locks of pbzip2: {}",
                verdict.describe()
            );
            Ok(())
        }),
        beside("pigz", lacks(&["pigz"]), |scratch| {
            let verdict = compress(
                scratch,
                command("pigz").args(["-c", "-n", "-p", "4"]),
                24 << 20,
            )?;
            check!(
                verdict.acquisitions("pigz") > 1000,
                "no locks of pigz: {}",
                verdict.describe()
            );
            Ok(())
        }),
        beside("xz", lacks(&["xz"]), |scratch| {
            let blocks = ["-c", "-1", "-T4", "--block-size=1MiB"];
            let verdict = compress(scratch, command("xz").args(blocks), 12 << 20)?;
            check!(
                verdict.acquisitions("liblzma") > 0,
                "no locks of liblzma: {}",
                verdict.describe()
            );
            Ok(())
        }),
    ]
}

/// Compresses a file to the standard output. The threads have work all the time, so that no fix of a
/// lock can buy much.
fn compress(scratch: &Scratch, command: &mut Command, bytes: usize) -> Result<Verdict> {
    let file = scratch.path("text");
    write_text(&file, bytes)?;
    let verdict = same_output(scratch, command.arg(&file))?;
    verdict.expect_gain_below(1.25)?;
    Ok(verdict)
}
