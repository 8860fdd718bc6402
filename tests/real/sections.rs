//! `convoy diagnose` on programs as a distribution ships them: they do the same work, and what is said of their sections
//! is what their sources say.

use std::path::Path;
use std::process::Command;

use convoy_harness::case::Scratch;
use convoy_harness::compile::compile;
use convoy_harness::needs::Missing;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;

use crate::machine::{lacks, succeed};
use crate::servers::{memcached_server, CACHE_ANSWERS, CACHE_REQUESTS};
use crate::twice::{alone, beside, Mode, TIMEOUT};

pub fn trials() -> Vec<Trial> {
    let there = Path::new("/usr/include/rocksdb/cache.h").is_file();
    let needed = || Missing("needs librocksdb-dev: scripts/setup.sh test".into());
    let rocksdb = (!there).then(needed);
    vec![
        beside("memcached-sections", lacks(&["memcached"]), memcached),
        alone("rocksdb-cache-sections", rocksdb, |scratch| {
            turn::retry(|| rocksdb_cache(scratch))
        }),
    ]
}

/// Each worker has statistics of its own, behind a lock that only the command `stats` takes as well, which nobody gives. Nothing is
/// only read: a hit moves its item, and counts.
fn memcached(scratch: &Scratch) -> Result {
    let load = compile(&root().join("tests/real/programs/cache_load.rs"), &[])?;
    let profile = scratch.path("sections.convoy");
    let (server, port) = memcached_server(scratch, &Mode::Diagnosed(profile.clone()))?;
    let answers = succeed(Command::new(&load).args([port.as_str(), "50", "60", "32"]))?;
    server.stop(Signal::TERM)?;
    check!(answers == CACHE_ANSWERS, "{answers}");
    let report = convoy::report(&profile, scratch.dir())?;
    let said = verdicts(&report, "memcached");
    let each = of_each_request(&said);
    check!(!each.is_empty(), "{said:?}");
    check!(each.iter().all(|id| *id == "local-data"), "{said:?}");
    check!(
        said.iter().all(|(_, id)| *id != "read-only-section"),
        "{said:?}"
    );
    Ok(())
}

/// A cache of one part: look-ups change the list of the least recently used objects, each at another one.
fn rocksdb_cache(scratch: &Scratch) -> Result {
    let source = root().join("examples/rocksdb/object_cache.cpp");
    // The library stands behind what needs it.
    let flags = ["-Wl,--no-as-needed", "-lrocksdb"].map(str::to_owned);
    let program = compile(&source, &flags)?;
    let profile = scratch.path("sections.convoy");
    let mut command = convoy::diagnose(&[], &profile)?;
    command.arg(program).args(["0", "200000"]);
    let outcome = run(&mut command, scratch.dir(), "diagnose", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let report = convoy::report(&profile, scratch.dir())?;
    let said = verdicts(&report, "LRUCacheShard");
    let first = said.first().map(|(_, id)| *id);
    check!(first == Some("too-many-data-under-one-lock"), "{said:?}");
    Ok(())
}

/// What is decided of the sections that every request runs once, as nothing else does.
fn of_each_request<'a>(said: &[(u64, &'a str)]) -> Vec<&'a str> {
    let each = said.iter().filter(|(runs, _)| *runs == CACHE_REQUESTS);
    each.map(|(_, id)| *id).collect()
}

/// What is decided of the sections of the functions or modules of this name, and how many ran, most first.
fn verdicts<'a>(report: &'a Value, of: &str) -> Vec<(u64, &'a str)> {
    let places = report["sections"]["places"].as_array();
    let named = |place: &&Value| {
        let stack = place["stack"].as_u64().unwrap_or(u64::MAX) as usize;
        let stack = &report["stacks"][stack];
        let frame = &stack["frames"][stack["shown"].as_u64().unwrap_or(0) as usize];
        [&frame["function"], &frame["module"]]
            .iter()
            .any(|name| name.as_str().is_some_and(|name| name.contains(of)))
    };
    let decided = places
        .into_iter()
        .flatten()
        .filter(named)
        .filter_map(|place| {
            let verdict = &place["verdict"];
            let id = verdict["causes"][0]["id"].as_str()?;
            let runs = place["run_count"].as_u64()?;
            verdict["decided"].as_bool()?.then_some((runs, id))
        });
    decided.collect()
}
