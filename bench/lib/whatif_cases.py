"""What-ifs whose truth can be measured: a program, and the same program with the fix."""

import random
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

from lib import fixtures, real

PROGRAMS = real.ROOT / "bench" / "programs"
C = ("gcc", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")
CPP = ("g++", "-std=c++20", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")

ONE_CPU = ("taskset", "-c", "0")
# Width, height, frames.
FILM = (320, 240, 100)


@dataclass(frozen=True)
class Program:
    """Something that is built once and run with arguments."""

    name: str
    needs: tuple[str, ...]
    # Builds it into a directory, if it is not there, and returns the command.
    build: Callable[[Path], list[str]]

    def absent(self) -> str:
        """Why it cannot run here."""
        missing = [need for need in self.needs if not shutil.which(need)]
        return f"{missing[0]} is not installed" if missing else ""


@dataclass(frozen=True)
class WhatIf:
    """A question to replay, and the command that has the fix."""

    # As `convoy replay --what-if` takes it.
    query: str
    fixed: tuple[str, ...]
    # The program with the fix is another one.
    program: Program | None = None
    # In front of the command.
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A program with its arguments, and what is asked of it."""

    name: str
    program: Program
    arguments: tuple[str, ...]
    lock: str
    what_ifs: tuple[WhatIf, ...]
    # In front of the base's command.
    prefix: tuple[str, ...] = ()

    def base(self, directory: Path) -> list[str]:
        """The command as it is."""
        return [*self.prefix, *self.program.build(directory), *self.arguments]

    def fixed(self, what_if: WhatIf, directory: Path) -> list[str]:
        """The command with the fix."""
        program = what_if.program or self.program
        return [*what_if.prefix, *program.build(directory), *what_if.fixed]


def _compiled(source: Path, compiler: tuple[str, ...], name: str, *libraries: str) -> Program:
    def build(directory: Path) -> list[str]:
        program = directory / name
        if not program.exists():
            subprocess.run([*compiler, "-o", program, source, *libraries], check=True)
        return [str(program)]

    return Program(name, (compiler[0],), build)


def _of_bench(name: str, *more: str) -> Program:
    source = next(PROGRAMS.glob(f"{name}.*"))
    compiler = {".c": C, ".cpp": CPP, ".rs": real.RUSTC}[source.suffix]
    return _compiled(source, (*compiler, *more), name)


def _case(
    program: Program, arguments: str, lock: str, what_ifs: dict[str, str], name: str = ""
) -> Case:
    """Fixes as `option=value` words, which take the place of the option's value in the base."""
    base = dict(word.split("=") for word in arguments.split())

    def words(options: dict[str, str]) -> tuple[str, ...]:
        return tuple(f"{option}={value}" for option, value in options.items())

    def what_if(query: str, change: str) -> WhatIf:
        if change == "cpus=1":
            return WhatIf(query, words(base), prefix=ONE_CPU)
        return WhatIf(query, words(base | dict(word.split("=") for word in change.split())))

    threads = f" T{base['threads']}" if "threads" in base else ""
    fixes = tuple(what_if(*item) for item in what_ifs.items())
    return Case((name or program.name) + threads, program, words(base), lock, fixes)


def _loops() -> Iterator[Case]:
    """Sections and gaps of two lengths, contended a little and all the time."""
    program, lock = _of_bench("loop"), "loop_lock"
    for threads in (2, 4):
        for name, section, gap, turns in (
            ("loop", 200, 1000, 320_000),
            ("hot loop", 1000, 200, 200_000),
        ):
            arguments = f"threads={threads} turns={turns // threads} section={section} gap={gap}"
            fixes = {
                f"shorten {lock} {100 - left}%": f"section={section * left // 100}"
                for left in (75, 50, 25, 0)
            }
            fixes |= {
                f"shorten gap {lock} {100 - left}%": f"gap={gap * left // 100}"
                for left in (75, 50, 25)
            }
            fixes |= {
                f"remove {lock}": "lock=none",
                f"remove section {lock}": "lock=none section=0",
                f"{lock} / 8": "lock=sharded",
                f"adaptive {lock}": "lock=adaptive",
                f"spin {lock}": "lock=spin",
                "cpus 1": "cpus=1",
            }
            yield _case(program, arguments, lock, fixes, name)


def _data() -> Iterator[Case]:
    """Tables and lists under one lock."""
    table, look_up, null_lock = (
        _of_bench("hash_table"),
        _of_bench("map_lookup"),
        _of_bench("null_lock"),
    )
    for threads in (2, 4):
        read = f"threads={threads} turns={2_000_000 // threads}"
        fixes = {"table_lock / 8": "lock=sharded", "rwlock table_lock": "lock=rwlock"}
        yield _case(table, f"{read} writes=8 gap=50", "table_lock", fixes)
        yield _case(
            _of_bench("free_list"),
            f"threads={threads} turns={320_000 // threads} gap=20",
            "heap_lock",
            {"heap_lock / 4": "heap=arenas", "batch heap_lock 32": "heap=cached"},
        )
        yield _case(
            _of_bench("configuration"),
            f"threads={threads} turns={240_000 // threads}",
            "configuration_lock",
            {"rwlock configuration_lock": "lock=rwlock"},
        )
    for threads in (2, 4, 8):
        turns = 1_200_000 // threads
        fixes = {"remove map_lock": "lock=none", "rwlock map_lock": "lock=shared"}
        yield _case(look_up, f"threads={threads} turns={turns}", "map_lock", fixes)
        turns = 2_400_000 // threads
        yield _case(
            null_lock,
            f"threads={threads} turns={turns}",
            "flag_lock",
            {"remove flag_lock": "test=first"},
        )
    yield _case(
        _of_bench("rust_cache"),
        "threads=4 turns=250000 gap=50",
        "rust_cache::CACHE",
        {"rust_cache::CACHE / 16": "shards=16"},
    )
    yield _case(
        _of_bench("omp_sum", "-fopenmp"),
        "threads=4 turns=2000000 gap=100",
        "sum_lock",
        {"remove section sum_lock": "sum=reduction"},
    )


def _order() -> Iterator[Case]:
    """Programs whose threads wait for what others do, not only for locks."""
    pipeline, base = _of_bench("pipeline"), "items=4000 read=20000 transform=100000 write=30000"
    yield _case(
        pipeline,
        base,
        "to_write",
        {
            "shorten gap to_write 25%": "transform=75000 write=22500",
            "shorten gap to_write 50%": "transform=50000 write=15000",
            "shorten gap to_write 75%": "transform=25000 write=7500",
            "threads transform=2": "transformers=2",
            "cpus 1": "cpus=1",
        },
    )
    for threads in (2, 4, 8):
        yield _case(
            _of_bench("poll_reference"),
            f"threads={threads} turns={12_000 // threads}",
            "reference_lock",
            {"blocking reference_lock": "wait=condition"},
        )
    for threads in (2, 4):
        yield _case(
            _of_bench("try_loop"),
            f"threads={threads} turns={40_000 // threads}",
            "try_lock",
            {"blocking try_lock": "lock=block"},
        )
        yield _case(
            _of_bench("phases"),
            f"threads={threads} phases=1000 skew=3",
            "phase_end",
            {"balance phase_end": "skew=1"},
        )
    yield _case(
        _of_bench("connections"),
        "threads=4 turns=300",
        "connections",
        {"permits connections=2": "connections=2", "permits connections=4": "connections=4"},
    )
    yield _case(
        _of_bench("task_queue"),
        "threads=4 tasks=1200000 task=100",
        "tasks_lock",
        {
            "batch tasks_lock 16": "batch=16",
            "remove section tasks_lock": "batch=300000",
            "threads worker=2": "threads=2",
        },
    )


def _on_one_cpu(cases: Iterator[Case]) -> Iterator[Case]:
    """Recorded on one CPU, asked for two."""
    for case in cases:
        fixes = (WhatIf("cpus 2", case.arguments),)
        yield Case(
            f"{case.name}, one CPU", case.program, case.arguments, case.lock, fixes, prefix=ONE_CPU
        )


def _sqlite() -> Iterator[Case]:
    """The worked example: the lock of SQLite's memory statistics."""

    def build(_: Path) -> list[str]:
        target, manifest = (
            real.ROOT / "target" / "examples",
            real.ROOT / "examples" / "sqlite" / "Cargo.toml",
        )
        command = [
            "cargo",
            "build",
            "-q",
            "--release",
            "--locked",
            "--manifest-path",
            manifest,
            "--target-dir",
            target,
        ]
        subprocess.run(command, check=True)
        return [str(target / "release" / "sqlite-threads")]

    # The compiler puts a number of its own into the name: staticMutexes.112+0x30.
    program, lock = Program("sqlite", ("cargo",), build), "+0x30"
    for threads in (2, 4):
        base = ("--threads", str(threads), "--operations", str(400_000 // threads))
        fixes = (WhatIf(f"remove section {lock}", (*base, "--no-memstatus")),)
        yield Case(f"sqlite T{threads}", program, base, lock, fixes)
    # In one transaction SQLite allocates less from the heap, and so takes the lock less often.
    base = ("--threads", "4", "--operations", "200000", "--one-transaction")
    fixes = (WhatIf(f"remove section {lock}", (*base, "--no-memstatus")),)
    yield Case("sqlite, one transaction T4", program, base, lock, fixes)


def _rocksdb() -> Iterator[Case]:
    """The worked example of diagnose: RocksDB's cache with one part, or 16."""
    source = real.ROOT / "examples" / "rocksdb" / "object_cache.cpp"
    program = _compiled(
        source, ("g++", "-std=c++17", "-O2", "-g", "-pthread"), "object_cache", "-lrocksdb"
    )
    lock = "rocksdb::port::Mutex::Mutex() in librocksdb.so.7.8 #2"
    yield Case(
        "rocksdb cache", program, ("0", "150000"), lock, (WhatIf(f"{lock} / 16", ("4", "150000")),)
    )


def _text(directory: Path) -> str:
    path = directory / "text"
    if not path.exists():
        words = random.Random(1).choices(real.WORDS, k=500_000)
        path.write_text(
            "\n".join(" ".join(words[i : i + 12]) for i in range(0, len(words), 12)) * 4
        )
    return str(path)


def _film(directory: Path) -> str:
    """Frames of noise that moves."""
    path, (width, height, frames) = directory / "film.yuv", FILM
    if not path.exists():
        still = random.Random(1).randbytes(width // 8) * (8 * height * 3 // 2)
        path.write_bytes(b"".join(still[7 * n :] + still[: 7 * n] for n in range(frames)))
    return str(path)


def _distribution() -> Iterator[Case]:
    """Programs as Debian ships them: fewer threads, fewer CPUs."""
    size = f"{FILM[0]}x{FILM[1]}"
    programs = {
        "pbzip2": (("pbzip2", "-k", "-f", "-1", "-b1"), "-p{}", _text),
        "xz": (("xz", "-k", "-f", "-0", "--block-size=256KiB"), "-T{}", _text),
        "x264": (
            (
                "x264",
                "--quiet",
                "--no-progress",
                "--demuxer",
                "raw",
                "--input-res",
                size,
                "-o",
                "film.264",
            ),
            "--threads={}",
            _film,
        ),
    }
    for name, (command, threads, make) in programs.items():

        def build(
            directory: Path, command: tuple[str, ...] = command, make: Callable[[Path], str] = make
        ) -> list[str]:
            return [*command, make(directory)]

        four, two = (threads.format(n) for n in (4, 2))
        fixes = (WhatIf(f"threads {name}=2", (two,)), WhatIf("cpus 1", (four,), prefix=ONE_CPU))
        yield Case(name, Program(name, (name,), build), (four,), "", fixes)


def _fixtures() -> Iterator[Case]:
    """Fixtures with a table [replay]: the fixes are their twins."""
    for file in sorted(fixtures.FIXTURES.glob("*/expect.toml")):
        expect = tomllib.loads(file.read_text())
        replay = expect.get("replay")
        if not replay or replay.get("refused"):
            continue
        stem = file.parent.name.replace("-", "_")
        extension = expect.get("variants", ["c"])[0]
        source = file.parent / f"{stem}.{extension}"
        compiler = {"c": C, "cpp": CPP}[extension]

        def twin(flags: list[str]) -> Program:
            return _compiled(
                source, (*compiler, *flags), "-".join([stem, *(flag.strip("-D") for flag in flags)])
            )

        fixes = tuple(
            WhatIf(what_if["query"], (), program=twin(what_if.get("twin", ["-DFX_FIXED"])))
            for what_if in replay["what_if"]
        )
        yield Case(f"fixture {file.parent.name}", twin([]), (), replay["lock"], fixes)


def all_cases() -> list[Case]:
    """In the order in which they are measured."""
    all_of_two = [*_loops(), *_data(), *_order()]
    scaled = ("loop T4", "map_lookup T4", "free_list T4", "phases T2", "pipeline", "task_queue T4")
    one_cpu = _on_one_cpu(case for case in all_of_two if case.name in scaled)
    return [*all_of_two, *one_cpu, *_sqlite(), *_rocksdb(), *_distribution(), *_fixtures()]
