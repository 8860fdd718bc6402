//! Servers of the network, each with its usual load generator.

use std::process::Command;

use convoy_harness::case::Scratch;
use convoy_harness::compile::compile;
use convoy_harness::run::End;
use convoy_harness::{check, root, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;

use crate::machine::{command, data_dir, free_port, is_root, lacks, succeed};
use crate::server::Server;
use crate::twice::{beside, twice};

pub fn trials() -> Vec<Trial> {
    vec![
        beside("memcached", lacks(&["memcached"]), memcached),
        beside(
            "redis-io-threads",
            lacks(&["redis-server", "redis-benchmark"]),
            redis,
        ),
        beside("apache-event", lacks(&["apache2", "ab"]), apache),
    ]
}

/// Every request locks its item and its worker's statistics, at least.
fn memcached(scratch: &Scratch) -> Result {
    let load = compile(&root().join("tests/real/programs/cache_load.rs"), &[])?;
    let (bare, recorded, verdict) = twice(scratch, |mode| {
        let port = free_port()?.to_string();
        let mut server = command("memcached");
        server.args(["-l", "127.0.0.1", "-U", "0", "-t", "4", "-p", &port]);
        if is_root() {
            server.args(["-u", "nobody"]);
        }
        let number = port.parse().map_err(|e| format!("{e}"))?;
        let server = Server::start(scratch, mode, &server, number)?;
        let answers = succeed(Command::new(&load).args([port.as_str(), "50", "60", "32"]))?;
        server.stop(Signal::TERM)?;
        Ok(answers)
    })?;
    check!(bare == "96000 stored, 96000 hits\n", "bare: {bare}");
    check!(recorded == bare, "bare {bare}, recorded {recorded}");
    let acquisitions = verdict.acquisitions("memcached");
    check!(
        acquisitions >= 2 * 192_000,
        "{acquisitions} acquisitions: {}",
        verdict.describe()
    );
    verdict.expect_top_lock(3, "memcached")?;
    // Four idle workers wait for requests: that is no contention.
    verdict.expect_gain_below(1.5)
}

/// Its threads wait by spinning, which no lock shows: a mutex each, to park them.
fn redis(scratch: &Scratch) -> Result {
    let (bare, recorded, verdict) = twice(scratch, |mode| {
        let port = free_port()?;
        let text = port.to_string();
        let mut server = command("redis-server");
        server.args([
            "--port",
            &text,
            "--bind",
            "127.0.0.1",
            "--io-threads",
            "2",
            "--io-threads-do-reads",
            "yes",
        ]);
        server.args(["--save", "", "--appendonly", "no"]);
        let server = Server::start(scratch, mode, &server, port)?;
        let load = [
            "-p", &text, "-n", "20000", "-c", "20", "-P", "16", "-t", "set,get", "--csv",
        ];
        let answers = succeed(command("redis-benchmark").args(load))?;
        let end = server.stop(Signal::TERM)?;
        Ok((
            answers.lines().filter(|line| line.contains("ET\"")).count(),
            end,
        ))
    })?;
    check!(bare == (2, End::Status(0)), "bare: {bare:?}");
    check!(recorded == bare, "bare {bare:?}, recorded {recorded:?}");
    let acquisitions = verdict.acquisitions("redis");
    check!(
        acquisitions > 0,
        "no locks of redis: {}",
        verdict.describe()
    );
    verdict.expect_gain_below(1.5)
}

/// A process with a pool of threads and a queue of connections between them, as another user.
fn apache(scratch: &Scratch) -> Result {
    let (bare, recorded, verdict) = twice(scratch, |mode| {
        let dir = data_dir("www-data")?;
        let port = free_port()?;
        let page = dir.path().join("index.html");
        std::fs::write(&page, "a page\n").map_err(|e| e.to_string())?;
        let root = dir.path().display();
        let user = if is_root() {
            "User www-data\nGroup www-data\n"
        } else {
            ""
        };
        let configuration = format!(
            "ServerRoot {root}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {root}/pid\n\
             LoadModule mpm_event_module {MODULES}/mod_mpm_event.so\n\
             LoadModule authz_core_module {MODULES}/mod_authz_core.so\n\
             {user}DocumentRoot {root}\nErrorLog {root}/error.log\nMutex pthread\n\
             StartServers 1\nServerLimit 1\nThreadsPerChild 16\nMaxRequestWorkers 16\n"
        );
        let file = dir.path().join("apache.conf");
        std::fs::write(&file, configuration).map_err(|e| e.to_string())?;
        let server = Server::start(
            scratch,
            mode,
            command("apache2").arg("-DFOREGROUND").arg("-f").arg(&file),
            port,
        )?;
        let url = format!("http://127.0.0.1:{port}/index.html");
        let answers = succeed(command("ab").args(["-q", "-k", "-c", "8", "-n", "10000", &url]))?;
        let end = server.stop(Signal::TERM)?;
        let counts = |line: &&str| {
            line.starts_with("Complete requests") || line.starts_with("Failed requests")
        };
        Ok((
            answers
                .lines()
                .filter(counts)
                .map(str::to_owned)
                .collect::<Vec<_>>(),
            end,
        ))
    })?;
    check!(
        bare.0.len() == 2 && bare.0[0].ends_with(" 10000") && bare.0[1].ends_with(" 0"),
        "bare: {bare:?}"
    );
    check!(recorded == bare, "bare {bare:?}, recorded {recorded:?}");
    // Each connection passes through the queue of mod_mpm_event.
    let acquisitions = verdict.acquisitions("mod_mpm_event.so");
    check!(
        acquisitions >= 10_000,
        "{acquisitions} acquisitions: {}",
        verdict.describe()
    );
    verdict.expect_gain_below(1.5)
}

const MODULES: &str = "/usr/lib/apache2/modules";
