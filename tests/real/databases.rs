//! Database servers under the benchmark of their trade.

use std::path::Path;
use std::process::Command;

use convoy_harness::case::Scratch;
use convoy_harness::{check, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;

use crate::machine::{as_user, command, data_dir, free_port, is_root, lacks, succeed};
use crate::server::Server;
use crate::twice::{beside, twice, Mode};

pub fn trials() -> Vec<Trial> {
    let mariadb = lacks(&["mariadbd", "mariadb-install-db", "mariadb", "sysbench"]);
    let postgres = lacks(&["postgres", "initdb", "pgbench", "createdb"]);
    vec![
        beside("mariadb-sysbench", mariadb, mariadb_case),
        beside("postgres-pgbench", postgres, postgres_case),
    ]
}

const TRANSACTIONS: &str = "--events=600";

/// One process with a thread for each connection. It starts as root and becomes mysql.
fn mariadb_case(scratch: &Scratch) -> Result {
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

/// Runs the server on the data there and a load on it; returns the line of the load that counts.
fn sysbench(scratch: &Scratch, mode: &Mode, dir: &Path) -> Result<String> {
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
    server.args([
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
    ]);
    if is_root() {
        server.arg("--user=mysql");
    }
    let server = Server::start(scratch, mode, &server, port)?;
    let address = [
        "--protocol=tcp".into(),
        "--host=127.0.0.1".into(),
        format!("--port={port}"),
    ];
    let create = "CREATE OR REPLACE DATABASE sbtest; CREATE OR REPLACE USER bench@'127.0.0.1'; \
                  GRANT ALL ON sbtest.* TO bench@'127.0.0.1'; CREATE OR REPLACE USER bench@localhost; \
                  GRANT ALL ON sbtest.* TO bench@localhost";
    succeed(
        command("mariadb")
            .arg("--no-defaults")
            .args(&address)
            .args(["--user=root", "-e", create]),
    )?;
    let load = |step: &str| {
        let mut load = command("sysbench");
        load.args([
            "oltp_read_write",
            "--db-driver=mysql",
            "--mysql-host=127.0.0.1",
            "--mysql-user=bench",
        ]);
        load.arg(format!("--mysql-port={port}")).args([
            "--tables=2",
            "--table-size=2000",
            "--threads=8",
        ]);
        load.args(["--time=0", TRANSACTIONS, step]);
        succeed(&mut load)
    };
    load("prepare")?;
    let said = load("run")?;
    server.stop(Signal::TERM)?;
    let total = said
        .lines()
        .find(|line| line.contains("total number of events"));
    total
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .ok_or(said)
}

/// Processes that share memory and semaphores; the server refuses to be root.
fn postgres_case(scratch: &Scratch) -> Result {
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

fn pgbench(scratch: &Scratch, mode: &Mode, dir: &Path) -> Result<String> {
    let port = free_port()?;
    let mut server = command("postgres");
    server
        .arg("-D")
        .arg(dir.join("data"))
        .arg("-k")
        .arg(dir)
        .arg("-p")
        .arg(port.to_string());
    server.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]);
    let server = Server::start(scratch, mode, &as_user("postgres", &server), port)?;
    let client = |program: &str, arguments: &[&str]| {
        let mut client = command(program);
        client
            .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()])
            .args(arguments);
        succeed(client.current_dir(dir))
    };
    if matches!(mode, Mode::Bare) {
        client("createdb", &["bench"])?;
    }
    client("pgbench", &["-q", "-i", "-s", "1", "bench"])?;
    let said = client("pgbench", &["-c", "8", "-j", "2", "-t", "100", "bench"])?;
    server.stop(Signal::INT)?;
    let processed = said
        .lines()
        .find(|line| line.contains("actually processed"));
    processed.map(str::to_owned).ok_or(said)
}
