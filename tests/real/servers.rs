//! Servers of the network, each with its usual load generator.

use std::path::Path;
use std::process::Command;

use convoy_harness::case::Scratch;
use convoy_harness::compile::compile;
use convoy_harness::run::End;
use convoy_harness::{check, root, turn, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;

use crate::machine::{command, data_dir, free_port, is_root, lacks, succeed};
use crate::server::Server;
use crate::twice::{alone, attached, beside, kernel, twice, Mode};

pub fn trials() -> Vec<Trial> {
    vec![
        beside("memcached", lacks(&["memcached"]), memcached),
        beside(
            "redis-io-threads",
            lacks(&["redis-server", "redis-benchmark"]),
            redis,
        ),
        beside("apache-event", lacks(&["apache2", "ab"]), apache),
        beside("nginx", lacks(&["nginx", "ab"]), |scratch| {
            // Which worker gets how many of eight connections, the schedule decides.
            turn::retry(|| nginx(scratch))
        }),
        alone(
            "redis-io-threads-attached",
            kernel(lacks(&["redis-server", "redis-benchmark"])),
            redis_attached,
        ),
        beside(
            "memcached-attached",
            kernel(lacks(&["memcached"])),
            memcached_attached,
        ),
        beside(
            "nginx-attached",
            kernel(lacks(&["nginx", "ab"])),
            nginx_attached,
        ),
    ]
}

/// Every request locks its item and its worker's statistics, at least.
fn memcached(scratch: &Scratch) -> Result {
    let load = compile(&root().join("tests/real/programs/cache_load.rs"), &[])?;
    let (bare, recorded, verdict) = twice(scratch, |mode| {
        let (server, port) = memcached_server(scratch, mode)?;
        let answers = succeed(Command::new(&load).args([port.as_str(), "50", "60", "32"]))?;
        server.stop(Signal::TERM)?;
        Ok(answers)
    })?;
    check!(bare == CACHE_ANSWERS, "bare: {bare}");
    check!(recorded == bare, "bare {bare}, recorded {recorded}");
    let acquisitions = verdict.acquisitions("memcached");
    check!(
        acquisitions >= 2 * CACHE_REQUESTS,
        "{acquisitions} acquisitions: {}",
        verdict.describe()
    );
    verdict.expect_top_lock(3, "memcached")?;
    // Four idle workers wait for requests: that is no contention.
    verdict.expect_gain_below(1.5)
}

pub const CACHE_ANSWERS: &str = "96000 stored, 96000 hits\n";
/// Sets and gets.
pub const CACHE_REQUESTS: u64 = 192_000;

pub fn memcached_server<'a>(scratch: &'a Scratch, mode: &Mode) -> Result<(Server<'a>, String)> {
    let port = free_port()?;
    let text = port.to_string();
    let mut server = command("memcached");
    server.args(["-l", "127.0.0.1", "-U", "0", "-t", "4", "-p", &text]);
    if is_root() {
        server.args(["-u", "nobody"]);
    }
    Ok((Server::start(scratch, mode, &server, port)?, text))
}

/// Threads that are idle most of the time are no reason for anything.
fn memcached_attached(scratch: &Scratch) -> Result {
    let load = compile(&root().join("tests/real/programs/cache_load.rs"), &[])?;
    let (server, port) = memcached_server(scratch, &Mode::Bare)?;
    let (answers, verdict) = attached(scratch, server.id()?, || {
        succeed(Command::new(&load).args([port.as_str(), "50", "60", "32"]))
    })?;
    server.stop(Signal::TERM)?;
    check!(answers == CACHE_ANSWERS, "{answers}");
    verdict.expect_gain_below(1.5)
}

/// Four threads wait for a word to change on the two processors that one of them needs: with them the
/// server is many times slower than without. Debian's program has no lines, but the name is exported.
fn redis_attached(scratch: &Scratch) -> Result {
    let port = free_port()?;
    let text = port.to_string();
    let mut server = command("redis-server");
    server
        .args(["--port", &text, "--bind", "127.0.0.1"])
        .args(["--io-threads", "4", "--io-threads-do-reads", "yes"])
        .args(["--save", "", "--appendonly", "no"]);
    let server = Server::start(scratch, &Mode::Bare, &server, port)?;
    let load = ["-p", &text, "-n", "1000", "-c", "20", "-t", "set", "--csv"];
    let (answers, verdict) = attached(scratch, server.id()?, || {
        succeed(command("redis-benchmark").args(load))
    })?;
    let end = server.stop(Signal::TERM)?;
    check!(end == End::Status(0), "{end:?}");
    check!(answers.contains("\"SET\""), "{answers}");
    verdict.expect_finding("busy-waiting", &["IOThreadMain"])
}

/// Two processes with an event loop each, as another user, under their parent.
fn nginx_server<'a>(scratch: &'a Scratch, mode: &Mode, dir: &Path) -> Result<(Server<'a>, String)> {
    let port = free_port()?;
    let root = dir.display();
    std::fs::write(dir.join("index.html"), "a page\n").map_err(|e| e.to_string())?;
    let user = if is_root() { "user www-data;\n" } else { "" };
    let configuration = format!(
        "{user}daemon off;\nworker_processes 2;\npid {root}/pid;\nerror_log {root}/error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 100000;\nclient_body_temp_path {root}/body;\n\
         proxy_temp_path {root}/proxy;\nfastcgi_temp_path {root}/fastcgi;\n\
         uwsgi_temp_path {root}/uwsgi;\nscgi_temp_path {root}/scgi;\n\
         server {{ listen 127.0.0.1:{port}; root {root}; }}\n}}\n"
    );
    let file = dir.join("nginx.conf");
    std::fs::write(&file, configuration).map_err(|e| e.to_string())?;
    let mut server = command("nginx");
    server.arg("-p").arg(dir).arg("-c").arg(&file);
    let server = Server::start(scratch, mode, &server, port)?;
    Ok((server, format!("http://127.0.0.1:{port}/index.html")))
}

/// Completed and failed requests.
fn apache_benchmark(url: &str) -> Result<Vec<String>> {
    let answers = succeed(command("ab").args(["-q", "-k", "-c", "8", "-n", "10000", url]))?;
    let counts =
        |line: &&str| line.starts_with("Complete requests") || line.starts_with("Failed requests");
    Ok(answers.lines().filter(counts).map(str::to_owned).collect())
}

fn all_answered(answers: &[String]) -> Result {
    let all = answers.len() == 2 && answers[0].ends_with(" 10000") && answers[1].ends_with(" 0");
    check!(all, "{answers:?}");
    Ok(())
}

fn nginx(scratch: &Scratch) -> Result {
    let (bare, recorded, verdict) = twice(scratch, |mode| {
        let dir = data_dir("www-data")?;
        let (server, url) = nginx_server(scratch, mode, dir.path())?;
        let answers = apache_benchmark(&url)?;
        Ok((answers, server.stop(Signal::TERM)?))
    })?;
    all_answered(&bare.0)?;
    check!(recorded == bare, "bare {bare:?}, recorded {recorded:?}");
    verdict.expect_gain_below(1.5)
}

fn nginx_attached(scratch: &Scratch) -> Result {
    let dir = data_dir("www-data")?;
    let (server, url) = nginx_server(scratch, &Mode::Bare, dir.path())?;
    let (answers, verdict) = attached(scratch, server.id()?, || apache_benchmark(&url))?;
    let end = server.stop(Signal::TERM)?;
    check!(end == End::Status(0), "{end:?}");
    all_answered(&answers)?;
    let workers = verdict
        .processes
        .iter()
        .filter(|p| p.exe.ends_with("/nginx"))
        .count();
    check!(workers >= 3, "{workers} processes of the server were seen");
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
    // What spinning costs depends on who else wants the two processors.
    verdict.expect_gain_of_others_below("busy-waiting", 1.5)
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
        let answers = apache_benchmark(&format!("http://127.0.0.1:{port}/index.html"))?;
        Ok((answers, server.stop(Signal::TERM)?))
    })?;
    all_answered(&bare.0)?;
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
