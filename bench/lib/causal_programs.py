"""How `bench/causal` runs a program: once for the truth, and once under experiments."""

import contextlib
import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Protocol

from lib import causal_sources, real
from lib.measure import Failed, kill_group

PROGRAMS = real.ROOT / "bench" / "programs"
COMPILERS = {
    ".c": ["gcc", "-O2", "-g", "-pthread"],
    ".cpp": ["g++", "-O2", "-g", "-pthread"],
    ".rs": real.RUSTC,
}
# Experiments are done within this, or something is wrong.
EXPERIMENT_MOST_S = 90
# Amounts of work by name.
Work = dict[str, int]


@dataclass(frozen=True)
class Convoy:
    """`convoy causal` with its options."""

    exe: Path
    # The time that a usual target needs.
    budget_s: float
    options: tuple[str, ...]

    def command(self, scratch: Path, *more: str) -> list[str]:
        report = ["--format", "json", "--report-to", str(scratch / "report.json")]
        return [str(self.exe), "causal", *report, *self.options, *more]

    @staticmethod
    def report(scratch: Path) -> dict:
        return json.loads((scratch / "report.json").read_text())


class Program(Protocol):
    """What a case can be of."""

    def run(self, work: Work, scratch: Path) -> float:
        """Runs it with this work; returns seconds, or a latency."""

    def experiment(self, convoy: Convoy, options: list[str], work: Work, scratch: Path) -> dict:
        """Runs it under experiments; returns their report."""


@dataclass(frozen=True)
class Command:
    """A program that ends when its work is done."""

    build: Callable[[Path], Path]
    # Arguments of a run of about a second, and of one that outlasts experiments.
    short: tuple[str, ...]
    long: tuple[str, ...]
    # Work is told by the environment, not by name=value words.
    by_environment: bool = False
    # It prints what counts; else that is the time of a run.
    prints: bool = False
    # Files that it reads: made in the scratch directory.
    prepare: Callable[[Path], object] = lambda _: None

    def _start(
        self, scratch: Path, words: tuple[str, ...], work: Work
    ) -> tuple[list[str], dict[str, str]]:
        told = {name: str(value) for name, value in work.items()}
        command = [str(self.build(scratch)), *words]
        if self.by_environment:
            return command, {**os.environ, **told}
        return [*command, *(f"{name}={value}" for name, value in told.items())], dict(os.environ)

    def run(self, work: Work, scratch: Path) -> float:
        self.prepare(scratch)
        command, environment = self._start(scratch, self.short, work)
        start = time.monotonic()
        done = subprocess.run(
            command, env=environment, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        elapsed = time.monotonic() - start
        if done.returncode != 0:
            raise Failed(f"{command[0]}: {done.stderr.decode(errors='replace')[-300:]}")
        return float(done.stdout) if self.prints else elapsed

    def experiment(self, convoy: Convoy, options: list[str], work: Work, scratch: Path) -> dict:
        """The program is ended when the experiments are done."""
        self.prepare(scratch)
        command, environment = self._start(scratch, self.long, work)
        whole = convoy.command(scratch, *options, "--", *command)
        with subprocess.Popen(
            whole,
            env=environment,
            cwd=scratch,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            limit = threading.Timer(EXPERIMENT_MOST_S, running.terminate)
            limit.start()
            for line in running.stderr or ():
                if "experiments ended" in line or "no experiment" in line:
                    running.terminate()
            limit.cancel()
        return convoy.report(scratch)


@dataclass(frozen=True)
class Server:
    """A server under the load of another process: what counts is how long that takes."""

    build: Callable[[Path], Path]
    arguments: Callable[[int, Path], list[str]]
    # The load of a second, and one that outlasts experiments.
    short: Callable[[int, Path], list[str]]
    long: Callable[[int, Path], list[str]]

    @contextlib.contextmanager
    def _started(self, work: Work, scratch: Path) -> Iterator[tuple[int, int]]:
        """The server's port and process id."""
        port = real.free_port()
        told = [f"{name}={value}" for name, value in work.items()]
        command = ["env", *told, str(self.build(scratch)), *self.arguments(port, scratch)]
        with real.listening(command, scratch, port) as pid:
            yield port, pid

    def run(self, work: Work, scratch: Path) -> float:
        with self._started(work, scratch) as (port, _):
            load = self.short(port, scratch)
            start = time.monotonic()
            real.quietly(load)
            return time.monotonic() - start

    def experiment(self, convoy: Convoy, options: list[str], work: Work, scratch: Path) -> dict:
        """Goes into the running server, as one would."""
        with self._started(work, scratch) as (port, pid):
            load = subprocess.Popen(
                self.long(port, scratch),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                real.quietly(convoy.command(scratch, *options, "-p", str(pid)))
            finally:
                kill_group(load)
        return convoy.report(scratch)


def synthetic(source: str) -> Callable[[Path], Path]:
    """A program of `bench/programs`."""

    def build(scratch: Path) -> Path:
        path = PROGRAMS / source
        exe = scratch / path.stem
        if not exe.exists():
            subprocess.run([*COMPILERS[path.suffix], "-o", exe, path], check=True)
        return exe

    return build


def fetched(build: Callable[[], Path]) -> Callable[[Path], Path]:
    """A real program of `lib.causal_sources`."""
    return lambda _: build()


def text(scratch: Path) -> None:
    """Words in random order, as `text-short` (2 MB) and `text-long` (60 MB)."""
    long = scratch / "text-long"
    if long.exists():
        return
    state, words = 1, []
    for _ in range(400_000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(real.WORDS[state >> 60])
    short = " ".join(words)[:2_000_000]
    (scratch / "text-short").write_text(short)
    long.write_text(short * 30)


def _memcached(port: int, _: Path) -> list[str]:
    return real.memcached(port, _)[1:]


def _cache_load(rounds: int) -> Callable[[int, Path], list[str]]:
    def load(port: int, scratch: Path) -> list[str]:
        generator = real.built("cache_load.rs", real.RUSTC)(causal_sources.BUILDS / "load")
        return [*generator, str(port), "16", str(rounds), "16"]

    return load


def _redis_load(requests: int) -> Callable[[int, Path], list[str]]:
    def load(port: int, _: Path) -> list[str]:
        name = "redis-benchmark"
        return [
            name,
            "-p",
            str(port),
            "-n",
            str(requests),
            "-c",
            "20",
            "-P",
            "16",
            "-t",
            "set",
            "-q",
            "-r",
            "10000",
        ]

    return load


def _redis(port: int, _: Path) -> list[str]:
    return real.redis(port, _)[1:]


MEMCACHED = Server(
    fetched(causal_sources.memcached), _memcached, _cache_load(300), _cache_load(10**7)
)
REDIS = Server(fetched(causal_sources.redis), _redis, _redis_load(100_000), _redis_load(10**9))


def pbzip2(threads: int) -> Command:
    def words(file: str) -> tuple[str, ...]:
        return f"-p{threads}", "-1", "-b1", "-k", "-f", "-c", file

    return Command(
        fetched(causal_sources.pbzip2),
        words("text-short"),
        words("text-long"),
        by_environment=True,
        prepare=text,
    )


SQLITE = Command(
    fetched(causal_sources.sqlite), ("queries=60000",), ("queries=60000000",), by_environment=True
)
SQLITE_ALONE = Command(
    fetched(causal_sources.sqlite),
    ("queries=100000", "threads=1", "outside=0"),
    (),
    by_environment=True,
)
