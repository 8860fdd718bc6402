"""Real programs for `bench/causal`: their sources, changed, and their builds.

Sources come from Debian and crates.io by their own tools. A function is repeated, or gets
additional work, as often as an environment variable says: less is a program that really has less
to do.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from lib import real
from lib.measure import Failed

PROGRAMS = real.ROOT / "bench" / "programs"
# Builds take minutes: they are kept from one run to the next.
BUILDS = real.ROOT / "target" / "bench-causal"
EXTRA = f"\n#include \"{PROGRAMS / 'extra_work.h'}\"\n"


@dataclass(frozen=True)
class Change:
    """Text of a file that is replaced: it must be there just once."""

    file: str
    old: str
    new: str

    def apply(self, source: Path) -> None:
        path = source / self.file
        text = path.read_text(errors="surrogateescape")
        if text.count(self.old) != 1:
            raise Failed(f"{self.file} of {source.name} has another version: {self.old!r}")
        path.write_text(text.replace(self.old, self.new), errors="surrogateescape")


def run(command: list[str], where: Path) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{command[0]}: {(done.stdout + done.stderr)[-400:].strip()}")
    return done.stdout


def debian(package: str, where: Path) -> Path:
    """Debian's source of a package, by apt with a state of its own: that of the machine stays."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-source"):
        raise Failed("apt-get and dpkg-source are needed: apt-get install dpkg-dev")
    release = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    (BUILDS / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    sources = BUILDS / "sources.list"
    sources.write_text(f"deb-src http://deb.debian.org/debian {release['VERSION_CODENAME']} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": BUILDS / "lists",
        "Dir::Cache": BUILDS / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    where.mkdir()
    run([*apt, "update"], where)
    run([*apt, "source", "--download-only", package], where)
    description = next(where.glob("*.dsc"))
    run(["dpkg-source", "--no-check", "-x", description.name, "source"], where)
    return where / "source"


def amalgamation(where: Path) -> Path:
    """SQLite's source in one file, from the crate that the worked example uses."""
    manifest = real.ROOT / "examples" / "sqlite" / "Cargo.toml"
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--manifest-path={manifest}"]
    packages = json.loads(run(command, real.ROOT))["packages"]
    crate = next(package for package in packages if package["name"] == "libsqlite3-sys")
    source = where / "source"
    shutil.copytree(Path(crate["manifest_path"]).parent / "sqlite3", source)
    return source


def changed(
    name: str, fetch: Callable[[Path], Path], changes: tuple[Change, ...]
) -> tuple[Path, bool]:
    """The changed source of a program, and whether it must still be built."""
    where = BUILDS / name
    mark = where / "built"
    stamp = "".join(map(repr, changes)) + (PROGRAMS / "extra_work.h").read_text()
    if mark.exists() and mark.read_text() == stamp:
        return where / "source", False
    shutil.rmtree(where, ignore_errors=True)
    BUILDS.mkdir(parents=True, exist_ok=True)
    source = fetch(where)
    for change in changes:
        change.apply(source)
    (where / "stamp").write_text(stamp)
    return source, True


def built(
    name: str, fetch: Callable[[Path], Path], changes: tuple[Change, ...], *commands: str
) -> Path:
    """The directory of a program that is built by these commands of a shell."""
    source, is_new = changed(name, fetch, changes)
    if is_new:
        for command in commands:
            run(["sh", "-c", command], source)
        (source.parent / "stamp").rename(source.parent / "built")
    return source


def repeated(file: str, own: str, parameters: str, head: str) -> tuple[Change, ...]:
    """A function `own` that calls `own`_once, which it was, `own`_times. `head`: how its
    definition begins."""
    once = f"{own}_once"
    call = f"{once}({', '.join(p.split()[-1].strip('*') for p in parameters.split(','))})"
    result = head[: head.index(own)].split()[-1]
    wrapper = (
        f"{EXTRA}FROM_ENVIRONMENT({own}_times, 1)\n"
        f"__attribute__((noipa)) static {result} {once}({parameters});\n"
        f"{result} {own}({parameters})\n"
        f"{{ for (unsigned long n = {own}_times; n > 1; n--) {call}; return {call}; }}\n"
    )
    return (
        Change(file, head, f"{wrapper}__attribute__((noipa)) static {head.replace(own, once)}"),
    )


def memcached() -> Path:
    murmur = repeated(
        "murmur3_hash.c",
        "MurmurHash3_x86_32",
        "const void *key, size_t length",
        "uint32_t MurmurHash3_x86_32 ( const void * key, size_t length)",
    )
    link = "static void do_item_link_q(item *it) { /* item is the new head */\n"
    changes = (
        *murmur,
        Change("items.c", link, f"{EXTRA}EXTRA_WORK(link_work)\n{link}link_work();\n"),
    )

    def fetch(where: Path) -> Path:
        return debian("memcached", where)

    commands = "./configure --disable-docs", "make -j2 memcached"
    return built("memcached", fetch, changes, *commands) / "memcached"


def redis() -> Path:
    siphash = repeated(
        "src/siphash.c",
        "siphash",
        "const uint8_t *in, const size_t inlen, const uint8_t *k",
        "uint64_t siphash(const uint8_t *in, const size_t inlen, const uint8_t *k) {",
    )

    def fetch(where: Path) -> Path:
        return debian("redis", where)

    command = "make -C src -j2 MALLOC=libc redis-server"
    return built("redis", fetch, siphash, command) / "src" / "redis-server"


def pbzip2() -> Path:
    """With its own library, whose sorting is repeated: it writes what it reads to other places."""

    def fetch(where: Path) -> Path:
        where.mkdir()
        source = debian("pbzip2", where / "pbzip2")
        debian("bzip2", where / "bzip2").rename(source / "bzip2")
        return source.rename(where / "source")

    sort = "void BZ2_blockSort ( EState* s )\n{"
    times = "sort_once(s); for (unsigned long n = sort_times; n > 1; n--) sort_once(s);"
    sorts = (
        f"{EXTRA}FROM_ENVIRONMENT(sort_times, 1)\n"
        f"__attribute__((noipa)) static void sort_once(EState *s);\n"
        f"void BZ2_blockSort(EState *s) {{ {times} }}\n"
        f"__attribute__((noipa)) static void sort_once(EState *s)\n{{"
    )
    write = "void *fileWriter(void *outname)\n{"
    written = "\t\tret = do_write(hOutfile, outBlock->buf, outBlock->bufSize);\n"
    changes = (
        Change("bzip2/blocksort.c", sort, sorts),
        Change("pbzip2.cpp", write, f"{EXTRA}EXTRA_WORK(write_work)\n{write}"),
        Change("pbzip2.cpp", written, f"\t\twrite_work();\n{written}"),
    )
    library = "blocksort crctable huffman randtable compress decompress bzlib".split()
    objects = " ".join(f"bzip2/{name}.c" for name in library)
    flags = "-O2 -g -D_LARGEFILE64_SOURCE -D_FILE_OFFSET_BITS=64 -D_POSIX_PTHREAD_SEMANTICS"
    commands = (
        f"gcc {flags} -c {objects}",
        f"g++ {flags} -DUSE_STACKSIZE_CUSTOMIZATION -Ibzip2 pbzip2.cpp BZ2StreamScanner.cpp "
        "ErrorContext.cpp *.o -o pbzip2 -pthread",
    )
    return built("pbzip2", fetch, changes, *commands) / "pbzip2"


def sqlite() -> Path:
    """SQLite under threads that share a connection: queries have additional work, under its lock."""
    step = "Value to return */\n  sqlite3 *db = p->db;       /* The database */\n  u8 resetSchema"
    head = "SQLITE_PRIVATE int sqlite3VdbeExec(\n"
    changes = (
        Change("sqlite3.c", head, f"{EXTRA}EXTRA_WORK(query_work)\n{head}"),
        Change("sqlite3.c", step, step.replace("p->db;", "(query_work(), p->db);")),
    )
    load = PROGRAMS / "sqlite_load.c"
    command = f"gcc -O2 -g -DSQLITE_THREADSAFE=1 -I. {load} sqlite3.c -o sqlite_load -pthread -lm"
    return built("sqlite", amalgamation, changes, command) / "sqlite_load"
