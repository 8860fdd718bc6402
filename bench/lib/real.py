"""Programs of the distribution: commands with a fixed amount of work, and servers under a fixed load. Each takes
four seconds or more: what it costs to begin is measured by itself (`--case short`)."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

from lib.measure import Failed, Figures, kill_group, run
from lib.tools import Tool

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "tests" / "real" / "programs"
WORDS = "a wait is shorter than its lock thread the barrier holder of queue empty and busy".split()


@dataclass(frozen=True)
class Program:
    """A program of the distribution. `measure` runs it under a tool and returns its figures."""

    name: str
    needs: tuple[str, ...]
    measure: Callable[[Tool, Path, Path], Figures]

    def absent(self) -> str:
        """What keeps it from running here."""
        missing = [program for program in self.needs if not shutil.which(program)]
        return f"{missing[0]} is not installed" if missing else ""


def measure_command(arguments: Callable[[Path], list[str]]) -> Callable[[Tool, Path, Path], Figures]:
    def measure(tool: Tool, timed: Path, scratch: Path) -> Figures:
        figures = scratch / "figures"
        command = tool.command([str(timed), str(figures), *arguments(scratch)], scratch)
        return run(command, scratch, limit_s=120, figures_file=figures)

    return measure


def text(scratch: Path) -> str:
    """260 MB that compress as text does."""
    path = scratch.parent / "text"
    if not path.exists():
        state, lines = 1, []
        for _ in range(60_000):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            lines.append(" ".join(WORDS[(state >> shift) % 16] for shift in range(0, 60, 5)))
        path.write_text("\n".join(lines * 70))
    return str(path)


def built(source: str, command: list[str], *more: str) -> Callable[[Path], list[str]]:
    def arguments(scratch: Path) -> list[str]:
        program = scratch.parent / Path(source).stem
        if not program.exists():
            subprocess.run([*command, "-o", program, PROGRAMS / source], check=True)
        return [str(program), *more]

    return arguments


RUSTC = ["rustc", "--edition=2021", "-Copt-level=2", "-g"]


def sqlite(scratch: Path) -> list[str]:
    del scratch
    target = ROOT / "target" / "examples"
    manifest = ROOT / "examples" / "sqlite" / "Cargo.toml"
    build = ["cargo", "build", "-q", "--release", "--locked", "--manifest-path", manifest, "--target-dir", target]
    subprocess.run(build, check=True)
    return [str(target / "release" / "sqlite-threads"), "--no-memstatus", "--operations", "3000000"]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def quietly(command: list[str]) -> None:
    """Runs a command whose output only matters if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Failed(f"{command[0]}: {(done.stdout + done.stderr)[-300:].strip()}")


@contextlib.contextmanager
def listening(command: list[str], scratch: Path, port: int) -> Iterator[int]:
    """A server that answers on its port, by its process id; asked to end after the block, and killed if it does not."""
    with open(scratch / "server.log", "wb") as log:
        server = subprocess.Popen(
            command, cwd=scratch, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if server.poll() is not None or time.monotonic() > deadline:
                raise Failed((scratch / "server.log").read_text(errors="replace")[-300:])
            time.sleep(0.02)
        yield server.pid
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
    finally:
        kill_group(server)


def _server(
    server: Callable[[int, Path], list[str]],
    prepare: Callable[[int], list[list[str]]],
    load: Callable[[int, Path], list[str]],
) -> Callable[[Tool, Path, Path], Figures]:
    """Elapsed is the load's, CPU time and memory are the server's."""

    def measure(tool: Tool, timed: Path, scratch: Path) -> Figures:
        port, figures = free_port(), scratch / "figures"
        figures.unlink(missing_ok=True)
        command = tool.command([str(timed), str(figures), *server(port, scratch)], scratch)
        with listening(command, scratch, port) as pid:
            for step in prepare(port):
                quietly(step)
            generate = load(port, scratch)
            with tool.beside(pid, scratch):
                started = time.monotonic_ns()
                quietly(generate)
                elapsed_ns = time.monotonic_ns() - started
        said = Figures.parse(figures.read_text())
        return Figures(elapsed_ns, said.cpu_ns, said.maxrss_bytes)

    return measure


def _as(user: str, option: str) -> list[str]:
    """The option that makes a server give up root, if it is started as root."""
    return [f"{option}{user}"] if os.geteuid() == 0 else []


def memcached(port: int, _: Path) -> list[str]:
    return ["memcached", "-l", "127.0.0.1", "-U", "0", "-t", "4", "-p", str(port), *_as("nobody", "-u")]


def cache_load(port: int, scratch: Path) -> list[str]:
    return [*built("cache_load.rs", RUSTC)(scratch), str(port), "50", "1500", "32"]


def redis(port: int, _: Path) -> list[str]:
    threads = ["--io-threads", "2", "--io-threads-do-reads", "yes"]
    return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", *threads]


def redis_load(port: int, _: Path) -> list[str]:
    return ["redis-benchmark", "-p", str(port), "-n", "3000000", "-c", "20", "-P", "16", "-t", "set,get", "-q"]


def mariadb(port: int, scratch: Path) -> list[str]:
    """The server, with data of its own that outlive it."""
    data = scratch.parent / "mariadb"
    if not data.exists():
        user = _as("mysql", "--user=")
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db", *user]
        quietly([*install, "--auth-root-authentication-method=normal"])
    options = ["--skip-log-bin", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"]
    place = [f"--datadir={data}", f"--socket={data}/socket", f"--pid-file={data}/pid", f"--port={port}"]
    return ["mariadbd", "--no-defaults", "--bind-address=127.0.0.1", *place, *options, *_as("mysql", "--user=")]


def sysbench(port: int, step: str, events: int = 20_000) -> list[str]:
    """A step of the load; as many transactions as that, 0: until it is killed."""
    size = ["--tables=2", "--table-size=5000", "--threads=8", "--time=0", f"--events={events}"]
    account = ["--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={port}", "--mysql-user=bench"]
    return ["sysbench", "oltp_read_write", *account, *size, step]


def mariadb_client(port: int) -> list[str]:
    """A client of the server, as its root."""
    return ["mariadb", "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", f"--port={port}", "--user=root"]


def mariadb_prepare(port: int) -> list[list[str]]:
    """What the load needs there."""
    sql = "CREATE OR REPLACE DATABASE sbtest"
    for host in ("127.0.0.1", "localhost"):
        sql += f"; CREATE OR REPLACE USER bench@'{host}'; GRANT ALL ON sbtest.* TO bench@'{host}'"
    return [[*mariadb_client(port), "-e", sql], sysbench(port, "prepare")]


def nothing(_: int) -> list[list[str]]:
    return []


MARIADB = Program(
    "mariadb sysbench",
    ("mariadbd", "mariadb-install-db", "mariadb", "sysbench"),
    _server(mariadb, mariadb_prepare, lambda port, _: sysbench(port, "run")),
)

SERVERS = [
    Program("memcached", ("memcached", "rustc"), _server(memcached, nothing, cache_load)),
    Program("redis io-threads", ("redis-server", "redis-benchmark"), _server(redis, nothing, redis_load)),
    MARIADB,
]

ALL = [
    Program("sqlite, fixed", ("cargo",), measure_command(sqlite)),
    Program("pbzip2", ("pbzip2",), measure_command(lambda s: ["pbzip2", "-k", "-f", "-p4", "-1", text(s)])),
    Program("pigz", ("pigz",), measure_command(lambda s: ["pigz", "-k", "-f", "-p", "4", text(s)])),
    Program("xz", ("xz",), measure_command(lambda s: ["xz", "-k", "-f", "-0", "-T4", "--block-size=1MiB", text(s)])),
    Program("python threads", ("python3",), measure_command(lambda _: ["/usr/bin/python3", str(PROGRAMS / "threads.py"), "50"])),
    Program("java monitors", ("java",), measure_command(lambda _: ["java", str(PROGRAMS / "Monitors.java"), "30"])),
    Program("node workers", ("node",), measure_command(lambda _: ["node", str(PROGRAMS / "workers.mjs"), "48"])),
    Program("rust std::sync", ("rustc",), measure_command(built("std_mutex.rs", RUSTC, "75"))),
    Program("openmp", ("gcc",), measure_command(built("omp_histogram.c", ["gcc", "-O2", "-g", "-fopenmp"], "50"))),
    *SERVERS,
]
