"""One run, and pairs of runs."""

import contextlib
import itertools
import math
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from lib import machine

LINE = re.compile(r"^elapsed_ns=(\d+) cpu_ns=(\d+) maxrss_bytes=(\d+) ops=(\d+)$", re.MULTILINE)


class Failed(Exception):
    """A run that did not give figures; the text says why."""


@dataclass
class Figures:
    """What a program said of itself."""

    elapsed_ns: int
    cpu_ns: int
    maxrss_bytes: int
    ops: int = 0
    shared_bytes: int = 0
    # Of everything that was started, the program included.
    all_cpu_ns: int = 0

    @staticmethod
    def parse(text: str) -> "Figures":
        """Reads the line that the cases print."""
        match = LINE.search(text)
        if not match:
            raise Failed(f"no figures in {text[-300:]!r}")
        return Figures(*(int(match[i]) for i in (1, 2, 3, 4)))


class SharedMemoryPeak:
    """The most that /dev/shm held more than before, while in the block."""

    def __enter__(self) -> "SharedMemoryPeak":
        self._before = machine.shared_memory_used_bytes()
        self.peak_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, machine.shared_memory_used_bytes() - self._before)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def kill_group(process: subprocess.Popen) -> None:
    """Ends a process and what it started, if any of it is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(command: list[str], scratch: Path, limit_s: float, figures_file: Path | None = None) -> Figures:
    """Runs a command that prints figures, or writes them into `figures_file`."""
    if figures_file:
        figures_file.unlink(missing_ok=True)
    out, before = scratch / "stdout", resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(out, "wb") as stdout, open(scratch / "stderr", "wb") as stderr, SharedMemoryPeak() as shared:
        process = subprocess.Popen(
            command, cwd=scratch, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            status = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"> {limit_s:.0f} s") from None
        finally:
            kill_group(process)
    said = (scratch / "stderr").read_text(errors="replace")
    if status != 0:
        raise Failed(f"exit status {status}: {said[-200:].strip()}")
    if figures_file and not figures_file.exists():
        raise Failed(f"no figures: {said[-200:].strip()}")
    figures = Figures.parse((figures_file or out).read_text(errors="replace"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures.shared_bytes, figures.all_cpu_ns = shared.peak_bytes, int(cpu_s * 1e9)
    return figures


def geometric_mean(ratios: list[float]) -> float:
    """Of at least one."""
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


# The name of the program by itself in a round.
BASE = ""


@dataclass
class Ratios:
    """Pairs of runs: the second of each over the first."""

    elapsed: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    resident_bytes: list[int] = field(default_factory=list)
    shared_bytes: list[int] = field(default_factory=list)
    base_elapsed_s: list[float] = field(default_factory=list)
    # By event of the program that does nothing else: added to its own CPU time, and spent beside it.
    added_ns: list[float] = field(default_factory=list)
    beside_ns: list[float] = field(default_factory=list)
    quiet: int = 0
    failure: str = ""

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return len(self.elapsed)

    def add(self, base: Figures, other: Figures, quiet: bool) -> None:
        """Adds one pair."""
        self.elapsed.append(other.elapsed_ns / max(base.elapsed_ns, 1))
        self.cpu.append(other.cpu_ns / max(base.cpu_ns, 1))
        self.resident_bytes.append(other.maxrss_bytes - base.maxrss_bytes)
        self.shared_bytes.append(other.shared_bytes - base.shared_bytes)
        self.base_elapsed_s.append(base.elapsed_ns / 1e9)
        self.added_ns.append(other.cpu_ns / max(other.ops, 1) - base.cpu_ns / max(base.ops, 1))
        self.beside_ns.append((other.all_cpu_ns - other.cpu_ns) / max(other.ops, 1))
        self.quiet += quiet

    def median(self) -> float:
        """Median elapsed ratio."""
        return statistics.median(self.elapsed)

    def mean(self) -> tuple[float, float]:
        """Geometric mean of the elapsed ratios and its standard error; that is infinite for fewer than two."""
        logarithms = [math.log(ratio) for ratio in self.elapsed]
        mean = geometric_mean(self.elapsed)
        if len(logarithms) < 2:
            return mean, math.inf
        return mean, mean * statistics.stdev(logarithms) / math.sqrt(len(logarithms))


def pairs(
    base: Callable[[], Figures], other: Callable[[], Figures], count: int, patience_s: float, budget_s: float
) -> Ratios:
    """Rounds of one program and another."""
    return rounds(base, {"other": other}, count, patience_s, budget_s)["other"]


def rounds(
    base: Callable[[], Figures], others: dict[str, Callable[[], Figures]], count: int, patience_s: float, budget_s: float
) -> dict[str, Ratios]:
    """In each round base and all others once, from an idle machine if it gets idle, each time in another order: what one
    leaves behind (caches, a disk that is still written to) is the next one's. Stops at `count` rounds, or after the
    one that ends past the budget. Who fails is left out from then on; if base fails, all end."""
    ratios = {name: Ratios() for name in others}
    runs = {BASE: base, **others}
    orders = list(itertools.permutations(runs))
    random.Random(1).shuffle(orders)
    started = time.monotonic()
    for _, order in zip(range(count), itertools.cycle(orders)):
        quiet = machine.wait_until_quiet(patience_s)
        figures: dict[str, Figures] = {}
        for name in order:
            if name in ratios and ratios[name].failure:
                continue
            try:
                figures[name] = runs[name]()
            except Failed as failure:
                for of in [name] if name in ratios else ratios:
                    ratios[of].failure = str(failure)
        if all(of.failure for of in ratios.values()):
            break
        for name in figures.keys() & ratios.keys():
            ratios[name].add(figures[BASE], figures[name], quiet)
        if time.monotonic() - started > budget_s:
            break
    return ratios
