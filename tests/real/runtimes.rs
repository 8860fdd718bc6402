//! Languages with a virtual machine: their own locks are made of those of the C library.

use convoy_harness::{check, root};
use libtest_mimic::Trial;

use crate::machine::{command, lacks};
use crate::twice::{beside, same_output};

pub fn trials() -> Vec<Trial> {
    let source = |name: &str| root().join("tests/real/programs").join(name);
    let python = source("threads.py");
    let java = source("Monitors.java");
    let node = source("workers.mjs");
    vec![
        beside("python-threads", lacks(&["python3"]), move |scratch| {
            let verdict = same_output(scratch, command("python3").arg(&python))?;
            // The interpreter lock is a mutex and a condition variable; threading.Lock is a semaphore.
            let mutexes = verdict.acquisitions("python3");
            check!(
                mutexes > 1000,
                "{mutexes} acquisitions: {}",
                verdict.describe()
            );
            check!(
                verdict.event_waits("python3") > 0,
                "nobody waited: {}",
                verdict.describe()
            );
            Ok(())
        }),
        beside("java-monitors", lacks(&["java"]), move |scratch| {
            let verdict = same_output(scratch, command("java").arg(&java))?;
            let mutexes = verdict.acquisitions("libjvm.so");
            check!(
                mutexes > 1000,
                "{mutexes} acquisitions: {}",
                verdict.describe()
            );
            verdict.expect_top_lock(3, "libjvm.so")
        }),
        beside("node-workers", lacks(&["node"]), move |scratch| {
            let verdict = same_output(scratch, command("node").arg(&node))?;
            let mutexes = verdict.acquisitions("node");
            check!(
                mutexes > 1000,
                "{mutexes} acquisitions: {}",
                verdict.describe()
            );
            verdict.expect_top_lock(3, "node")
        }),
    ]
}
