"""The cases in bench/cases: small programs with a clock of their own."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).resolve().parent.parent / "cases"
# Peers read DWARF 4 only.
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-gdwarf-4", "-Wall", "-Wextra", "-Werror", "-pthread"]


@dataclass(frozen=True)
class Case:
    """A program, how much it does, and what Convoy may cost on it."""

    name: str
    what: str
    source: str
    ops: int
    at_most: float
    others: str
    flags: tuple[str, ...] = ()
    at_most_mb: float | None = None
    # Peers that look at context switches have something to say about it.
    switches: bool = False
    # Of valgrind, which is slower by orders of magnitude.
    ops_of_slow_peers: int = 0

    def build(self, directory: Path) -> Path:
        """Compiles it, if it is not there."""
        program = directory / self.name
        sources = [CASES / self.source, CASES / "bench.h"]
        if not program.exists() or any(s.stat().st_mtime > program.stat().st_mtime for s in sources):
            subprocess.run(["gcc", *FLAGS, *self.flags, "-o", program, sources[0]], check=True)
        return program


ALL = [
    Case(
        "own-mutex", "two threads, own mutex, empty loop", "own_mutex.c", 20_000_000, 1.10,
        "SyncPerf 2.4x, mutrace 10.9x, coz 31x", ops_of_slow_peers=200_000,
    ),
    Case(
        "own-mutex-work", "the same with 20 ns of work a turn", "own_mutex.c", 10_000_000, 1.03, "",
        flags=("-DWORK=20",), ops_of_slow_peers=200_000,
    ),
    Case(
        "contended", "four threads, one contended mutex", "contended.c", 200_000, 1.03,
        "SyncPerf 1.05x, mutrace 2.0x", switches=True, ops_of_slow_peers=10_000,
    ),
    Case(
        "many", "90,000 mutexes, four threads, random", "many.c", 6_000_000, 1.5,
        "SyncPerf 20.7x, +528 MB; mutrace 267x", at_most_mb=40, ops_of_slow_peers=20_000,
    ),
    Case(
        "rwlock", "rwlock, 99 reads to a write, four threads", "rwlock.c", 1_500_000, 1.05, "mutrace 2.4x",
        ops_of_slow_peers=20_000,
    ),
    Case(
        "pipeline", "condition variable pipeline, three stages", "pipeline.c", 4_000, 1.02, "",
        switches=True, ops_of_slow_peers=200,
    ),
    Case(
        "single", "single-threaded locking (libc's fast path)", "single.c", 40_000_000, 1.10, "",
        ops_of_slow_peers=400_000,
    ),
]

TIMED = Case("timed", "", "timed.c", 0, 0, "")
SWITCHES = Case("switches", "", "switches.c", 0, 0, "")
THREADS = Case("threads", "", "threads.c", 0, 0, "")
