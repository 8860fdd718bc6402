//! Database servers under the benchmark of their trade.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::Scratch;
use convoy_harness::run::End;
use convoy_harness::{check, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::machine::{as_user, command, data_dir, free_port, is_root, lacks, succeed};
use crate::server::Server;
use crate::twice::{attached, beside, kernel, twice, Mode};
use crate::verdict::Verdict;

/// How long a database may look through its log before it answers.
const STARTS: Duration = Duration::from_secs(30);

pub fn trials() -> Vec<Trial> {
    let mariadb = lacks(&["mariadbd", "mariadb-install-db", "mariadb", "sysbench"]);
    let slap = lacks(&["mariadbd", "mariadb-install-db", "mariadb", "mariadb-slap"]);
    let postgres = lacks(&["postgres", "initdb", "pgbench", "createdb", "psql"]);
    vec![
        beside("mariadb-sysbench", mariadb.clone(), mariadb_case),
        beside("postgres-pgbench", postgres.clone(), postgres_case),
        beside("mariadb-commits-attached", kernel(mariadb), mariadb_commits),
        beside("mariadb-row-attached", kernel(slap), mariadb_row),
        beside(
            "postgres-commits-attached",
            kernel(postgres.clone()),
            postgres_commits,
        ),
        beside("postgres-row-attached", kernel(postgres), postgres_row),
    ]
}

/// Threads and transactions of the loads.
const MIXED: (&str, [&str; 2]) = ("oltp_read_write", ["--threads=8", "--events=600"]);
const COMMITS: (&str, [&str; 2]) = ("oltp_update_index", ["--threads=2", "--events=2000"]);

/// One process with a thread for each connection. It starts as root and becomes mysql.
fn mariadb_case(scratch: &Scratch) -> Result {
    let dir = mariadb_data()?;
    let (bare, recorded, verdict) = twice(scratch, |mode| sysbench(scratch, mode, dir.path()))?;
    check!(bare == recorded, "bare {bare}, recorded {recorded}");
    let acquisitions = verdict.acquisitions("mariadbd");
    check!(
        acquisitions > 10_000,
        "{acquisitions} acquisitions: {}",
        verdict.describe()
    );
    verdict.expect_top_lock(5, "mariadbd")?;
    // Some thirty threads of a server wait for work all the time.
    verdict.expect_gain_below(2.0)
}

/// Each transaction waits until the log is on the disk.
fn mariadb_commits(scratch: &Scratch) -> Result {
    let dir = mariadb_data()?;
    let (server, port) = mariadb_server(scratch, &Mode::Bare, dir.path(), "1")?;
    sysbench_step(port, COMMITS, "prepare")?;
    let (said, verdict) = attached(scratch, server.id()?, || {
        sysbench_step(port, COMMITS, "run")
    })?;
    let end = server.stop(Signal::TERM)?;
    check!(end == End::Status(0), "{end:?}");
    check!(said.contains("2000"), "{said}");
    verdict.expect_wait("sync", "ib_logfile0")
}

/// As in PostgreSQL, below.
fn mariadb_row(scratch: &Scratch) -> Result {
    let dir = mariadb_data()?;
    let (server, port) = mariadb_server(scratch, &Mode::Bare, dir.path(), "0")?;
    let create = "CREATE TABLE sbtest.total (n BIGINT) ENGINE=InnoDB// INSERT INTO sbtest.total VALUES (0)// \
                  CREATE PROCEDURE sbtest.step() BEGIN START TRANSACTION; UPDATE sbtest.total SET n = n + 1; \
                  DO BENCHMARK(20000, MD5('')); COMMIT; END//";
    mariadb_client(port, "mariadb", &["--delimiter=//", "-e", create])?;
    let load = [
        "--concurrency=4",
        "--number-of-queries=400",
        "--create-schema=sbtest",
        "--query=CALL step()",
    ];
    let (_, verdict) = attached(scratch, server.id()?, || {
        mariadb_client(port, "mariadb-slap", &load)
    })?;
    let sum = ["--skip-column-names", "-e", "SELECT n FROM sbtest.total"];
    let sum = mariadb_client(port, "mariadb", &sum)?;
    let end = server.stop(Signal::TERM)?;
    check!(end == End::Status(0), "{end:?}");
    check!(sum.trim() == "400", "{sum}");
    verdict.expect_finding("contended-futex", &["a row that transactions change"])
}

/// A directory with the server's own tables.
fn mariadb_data() -> Result<TempDir> {
    let dir = data_dir("mysql")?;
    let data = dir.path().join("data");
    let mut install = command("mariadb-install-db");
    install
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    if is_root() {
        install.arg("--user=mysql");
    }
    succeed(&mut install)?;
    Ok(dir)
}

/// Runs the server on the data there and a load on it; returns the line of the load that counts.
fn sysbench(scratch: &Scratch, mode: &Mode, dir: &Path) -> Result<String> {
    let (server, port) = mariadb_server(scratch, mode, dir, "0")?;
    sysbench_step(port, MIXED, "prepare")?;
    let total = sysbench_step(port, MIXED, "run")?;
    server.stop(Signal::TERM)?;
    Ok(total)
}

/// The server on its port, with a user and a database for the load.
fn mariadb_server<'a>(
    scratch: &'a Scratch,
    mode: &Mode,
    dir: &Path,
    flush: &str,
) -> Result<(Server<'a>, u16)> {
    let port = free_port()?;
    let mut server = command("mariadbd");
    server
        .arg("--no-defaults")
        .arg(format!("--datadir={}/data", dir.display()));
    server
        .arg(format!("--socket={}/socket", dir.display()))
        .arg(format!("--pid-file={}/pid", dir.display()));
    server
        .arg(format!("--port={port}"))
        .args(["--bind-address=127.0.0.1", "--skip-log-bin"]);
    server.arg("--innodb-buffer-pool-size=64M");
    server.arg(format!("--innodb-flush-log-at-trx-commit={flush}"));
    if is_root() {
        server.arg("--user=mysql");
    }
    let server = Server::start(scratch, mode, &server, port)?;
    let create = "CREATE OR REPLACE DATABASE sbtest; CREATE OR REPLACE USER bench@'127.0.0.1'; \
                  GRANT ALL ON sbtest.* TO bench@'127.0.0.1'; CREATE OR REPLACE USER bench@localhost; \
                  GRANT ALL ON sbtest.* TO bench@localhost";
    mariadb_client(port, "mariadb", &["-e", create])?;
    Ok((server, port))
}

/// A client of the server, as its root.
fn mariadb_client(port: u16, program: &str, arguments: &[&str]) -> Result<String> {
    let mut client = command(program);
    client
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
        .args([&format!("--port={port}"), "--user=root"])
        .args(arguments);
    succeed(&mut client)
}

/// A step of a load; of a run, the line that counts.
fn sysbench_step(port: u16, (workload, sizes): (&str, [&str; 2]), step: &str) -> Result<String> {
    let mut load = command("sysbench");
    load.args([
        workload,
        "--db-driver=mysql",
        "--mysql-host=127.0.0.1",
        "--mysql-user=bench",
    ]);
    load.arg(format!("--mysql-port={port}"))
        .args(["--tables=2", "--table-size=2000"])
        .args(sizes);
    let said = succeed(load.args(["--time=0", step]))?;
    let total = said
        .lines()
        .find(|line| line.contains("total number of events"));
    Ok(total.map_or(said.clone(), |line| {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }))
}

/// Processes that share memory and semaphores; the server refuses to be root.
fn postgres_case(scratch: &Scratch) -> Result {
    let dir = postgres_data()?;
    let (bare, recorded, verdict) = twice(scratch, |mode| pgbench(scratch, mode, dir.path()))?;
    check!(bare == recorded, "bare {bare}, recorded {recorded}");
    let servers = verdict
        .processes
        .iter()
        .filter(|p| p.exe.ends_with("/postgres"))
        .count();
    check!(
        servers >= 8,
        "{servers} processes of the server were recorded"
    );
    let waits = verdict.events_of("semaphore");
    check!(
        waits > 0,
        "backends wait for one another on semaphores: {}",
        verdict.describe()
    );
    verdict.expect_gain_below(2.0)
}

/// The same as in MariaDB, and each connection is a process, which is there only after the recording began.
fn postgres_commits(scratch: &Scratch) -> Result {
    let load = ["-N", "-c", "2", "-j", "1", "-t", "1000", "bench"];
    let (said, verdict) = pgbench_attached(scratch, "fsync=on", &load)?;
    check!(said.contains("2000/2000"), "{said}");
    verdict.expect_wait("sync", "pg_wal")
}

/// Each transaction changes the same row and works for some milliseconds before it ends; the others wait until then.
fn postgres_row(scratch: &Scratch) -> Result {
    let script = scratch.path("row.sql");
    let steps = "BEGIN;\n\
                 UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n\
                 SELECT sum(i) FROM generate_series(1, 30000) i;\n\
                 COMMIT;\n";
    std::fs::write(&script, steps).map_err(|e| format!("{}: {e}", script.display()))?;
    let file = script.display().to_string();
    let load = [
        "-n", "-f", &file, "-c", "4", "-j", "1", "-t", "100", "bench",
    ];
    let (said, verdict) = pgbench_attached(scratch, "fsync=off", &load)?;
    check!(said.contains("400/400"), "{said}");
    verdict.expect_finding("contended-futex", &["a row that transactions change"])
}

/// What pgbench says, and the recording of a server that ran already.
fn pgbench_attached(scratch: &Scratch, fsync: &str, load: &[&str]) -> Result<(String, Verdict)> {
    let dir = postgres_data()?;
    let (server, port) = postgres_server(scratch, &Mode::Bare, dir.path(), fsync)?;
    postgres_client(dir.path(), port, "createdb", &["bench"])?;
    let fill = ["-q", "-i", "-s", "1", "bench"];
    postgres_client(dir.path(), port, "pgbench", &fill)?;
    let found = attached(scratch, server.id()?, || {
        postgres_client(dir.path(), port, "pgbench", load)
    })?;
    let end = server.stop(Signal::INT)?;
    check!(end == End::Status(0), "{end:?}");
    Ok(found)
}

fn postgres_data() -> Result<TempDir> {
    let dir = data_dir("postgres")?;
    let data = dir.path().join("data");
    let as_server = |command: &Command| as_user("postgres", command);
    let mut initdb = command("initdb");
    initdb.args([
        "--auth=trust",
        "--no-sync",
        "--no-instructions",
        "--encoding=UTF8",
        "--locale=C",
        "-D",
    ]);
    succeed(as_server(initdb.arg(&data)).current_dir(dir.path()))?;
    Ok(dir)
}

fn pgbench(scratch: &Scratch, mode: &Mode, dir: &Path) -> Result<String> {
    let (server, port) = postgres_server(scratch, mode, dir, "fsync=off")?;
    if matches!(mode, Mode::Bare) {
        postgres_client(dir, port, "createdb", &["bench"])?;
    }
    let fill = ["-q", "-i", "-s", "1", "bench"];
    postgres_client(dir, port, "pgbench", &fill)?;
    let load = ["-c", "8", "-j", "2", "-t", "100", "bench"];
    let said = postgres_client(dir, port, "pgbench", &load)?;
    server.stop(Signal::INT)?;
    let processed = said
        .lines()
        .find(|line| line.contains("actually processed"));
    processed.map(str::to_owned).ok_or(said)
}

fn postgres_server<'a>(
    scratch: &'a Scratch,
    mode: &Mode,
    dir: &Path,
    fsync: &str,
) -> Result<(Server<'a>, u16)> {
    let port = free_port()?;
    let mut server = command("postgres");
    server
        .arg("-D")
        .arg(dir.join("data"))
        .arg("-k")
        .arg(dir)
        .arg("-p")
        .arg(port.to_string());
    server.args(["-c", "listen_addresses=127.0.0.1", "-c", fsync]);
    let server = Server::start(scratch, mode, &as_user("postgres", &server), port)?;
    // It listens before it answers: it looks through its log first.
    let started = Instant::now();
    loop {
        match postgres_client(dir, port, "psql", &["-d", "postgres", "-c", "select 1"]) {
            Err(said) if said.contains("starting up") && started.elapsed() < STARTS => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(said) => return Err(said),
            Ok(_) => return Ok((server, port)),
        }
    }
}

fn postgres_client(dir: &Path, port: u16, program: &str, arguments: &[&str]) -> Result<String> {
    let mut client = command(program);
    client
        .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()])
        .args(arguments);
    succeed(client.current_dir(dir))
}
