"""Targets of `bench/causal`: each with the work that becomes less."""

from dataclasses import dataclass, field
from pathlib import Path

from lib import causal_programs as programs
from lib.causal_programs import Command, Convoy, Program, Work

# Each target is measured alone: the shortest run is the least disturbed.
ALONE_RUNS = 3


@dataclass(frozen=True)
class Case:
    """A target in a program, and the work that is the target's."""

    name: str
    program: Program
    target: str
    work: Work
    # Work of the others, which stays.
    rest: Work = field(default_factory=dict)
    # Options of `convoy causal`: progress where the program's locks do not follow its work.
    options: tuple[str, ...] = ()
    # The same program with nothing but the target, where that is more than the work: its time
    # without the work is the target's rest.
    alone: Program | None = None
    # Usual budgets that it takes: its progress is slow.
    budgets: int = 1
    # It is worth nothing, whatever it costs.
    is_decoy: bool = False

    def share(self, scratch: Path) -> float:
        """The work's share of the target's time."""
        if self.alone is None:
            return 1.0
        rest, whole = (
            min(self.alone.run(self._work(less), scratch) for _ in range(ALONE_RUNS))
            for less in (1.0, 0.0)
        )
        return 1 - rest / whole

    def _work(self, less: float) -> Work:
        left = {name: round(base * (1 - less)) for name, base in self.work.items()}
        return {**self.rest, **left}

    def run(self, less: float, scratch: Path) -> float:
        """With so much less work, 0 to 1."""
        return self.program.run(self._work(less), scratch)

    def experiment(self, convoy: Convoy, scratch: Path) -> dict:
        budget = f"--budget={self.budgets * convoy.budget_s:g}s"
        options = [budget, "--target", self.target, *self.options]
        return self.program.experiment(convoy, options, self._work(0), scratch)


def _synthetic(source: str, short: str, long: str, prints: bool = False) -> Command:
    build = programs.synthetic(source)
    return Command(build, tuple(short.split()), tuple(long.split()), prints=prints)


def _critical(threads: int, target: str, work: Work) -> Case:
    program = _synthetic(
        "critical_section.c",
        f"threads={threads} rounds=2000000",
        f"threads={threads} rounds=60000000",
    )
    return Case(f"critical_section {threads} threads, {target}", program, target, work)


STAGES = _synthetic("stages.c", "items=14000", "items=400000")
REQUESTS = _synthetic("requests.c", "turns=3000", "turns=4000000", prints=True)

SYNTHETIC = [
    _critical(2, "lock:shared_lock", {"inside": 177}),
    _critical(2, "fn:work_outside", {"outside": 885}),
    _critical(4, "lock:shared_lock", {"inside": 177}),
    _critical(16, "lock:shared_lock", {"inside": 177}),
    Case("stages read_item", STAGES, "fn:read_item", {"read": 17700}, is_decoy=True),
    Case("stages transform_item", STAGES, "fn:transform_item", {"transform": 88500}),
    Case("stages write_item", STAGES, "fn:write_item", {"write": 26500}, is_decoy=True),
    Case(
        "sleep_under_lock sleep",
        _synthetic("sleep_under_lock.c", "rounds=600", "rounds=60000"),
        "wait:sleep",
        {"sleep_us": 1000},
    ),
    Case(
        "decoy light_work",
        _synthetic("decoy.c", "rounds=3000", "rounds=200000"),
        "fn:light_work",
        {"light": 120000},
        is_decoy=True,
    ),
    # The straggler is as fast as the other thread when it is a quarter faster.
    Case(
        "phases straggler",
        _synthetic(
            "phases.c", "phases=1000 work=1200000 skew=1", "phases=1000000 work=1200000 skew=1"
        ),
        "threads:phase-0",
        {"straggler": 800000},
    ),
    Case(
        "two_phases parse_item",
        _synthetic("two_phases.c", "rounds=4", "rounds=4000"),
        "fn:parse_item",
        {"parse": 30000},
    ),
    Case(
        "journal encode_record",
        _synthetic("journal.c", "records=300", "records=100000"),
        "fn:encode_record",
        {"encode": 2000000},
    ),
    Case(
        "requests lookup",
        REQUESTS,
        "fn:lookup",
        {"lookup": 30000},
        options=("--latency", "fn:request_begin..fn:request_end"),
    ),
    Case(
        "connections sleep",
        _synthetic("connections.c", "turns=700", "turns=200000"),
        "wait:sleep",
        {"answer_us": 250},
        # A sleep is longer than was asked for.
        alone=_synthetic("connections.c", "threads=1 turns=2000 gap=0", ""),
    ),
    Case(
        "rust_cache work",
        _synthetic("rust_cache.rs", "turns=200000", "turns=100000000"),
        "fn:rust_cache::work",
        {"gap": 1000},
    ),
    # Its lock is released each time somebody looks whether it is free: no progress.
    Case(
        "poll_reference work",
        _synthetic("poll_reference.c", "turns=4000", "turns=1000000"),
        "fn:work",
        {"use": 20000, "gap": 20000},
        options=("--progress", "fn:reference_release"),
    ),
    Case(
        "free_list work",
        _synthetic("free_list.c", "turns=12000", "turns=6000000"),
        "fn:work",
        {"gap": 4000},
    ),
]

REAL = [
    Case("sqlite query_work", programs.SQLITE, "fn:query_work", {"query_work_links": 5000}),
    Case(
        "sqlite lock of the connection",
        programs.SQLITE,
        "lock:sqlite3_step",
        {"query_work_links": 5000},
        alone=programs.SQLITE_ALONE,
    ),
    Case(
        "pbzip2 -p4 sort_once and below",
        programs.pbzip2(4),
        "path:sort_once",
        {"sort_times": 4},
        budgets=2,
    ),
    # The writer takes longer for a block than both compressing threads. The queue between them is
    # longer than a run: what the writer gets done is the progress, not what they do.
    Case(
        "pbzip2 -p2 write_work",
        programs.pbzip2(2),
        "fn:write_work",
        {"write_work_links": 40_000_000},
        rest={"sort_times": 2},
        options=("--progress", "syscall:write"),
        budgets=4,
    ),
    Case(
        "pbzip2 -p2 sort_once behind write_work",
        programs.pbzip2(2),
        "path:sort_once",
        {"sort_times": 2},
        rest={"write_work_links": 40_000_000},
        options=("--progress", "syscall:write"),
        budgets=4,
        is_decoy=True,
    ),
    Case(
        "memcached MurmurHash3_x86_32_once",
        programs.MEMCACHED,
        "fn:MurmurHash3_x86_32_once",
        {"MurmurHash3_x86_32_times": 400},
        options=("--progress", "syscall:sendmsg"),
    ),
    Case(
        "memcached link_work",
        programs.MEMCACHED,
        "fn:link_work",
        {"link_work_links": 10000},
        options=("--progress", "syscall:sendmsg"),
    ),
    Case(
        "redis siphash_once",
        programs.REDIS,
        "fn:siphash_once",
        {"siphash_times": 200},
        options=("--progress", "syscall:write"),
    ),
]

ALL = SYNTHETIC + REAL
