"""What a probe costs at each call, and how long a program stands still when probes go in."""

import json
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "bench" / "programs"
CONVOY = ROOT / "target" / "release" / "convoy"
# Windows of the loop without a probe, and seconds with one.
BARE, PROBED_S = 10, 4
# Asked prices, ns a call. Wall and CPU time have one timer.
PRICES = [
    ("counter", 'calls{function="probed"}', 1),
    ("wall timer", 'wall{function="probed"}', 20),
    ("CPU timer", 'cpu{function="probed"}', 22),
    ("counter of one caller", 'calls{function="probed", caller="main"}', None),
]
FUNCTIONS = 10_000
# Probes, rounds, and what is asked for: median and 99th percentile, ms.
STOPS = [(1, 100, 0.3, 1.0), (1_000, 100, 0.5, 1.5), (10_000, 50, 2.5, 4.0)]


def compiled(source: Path, scratch: Path) -> Path:
    program = scratch / source.stem
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, source], check=True)
    return program


class Loop:
    """The program that calls a function in a loop, and what it says."""

    def __init__(self, scratch: Path) -> None:
        program = compiled(PROGRAMS / "probed_loop.c", scratch)
        self.process = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
        self.windows: list[float] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.windows.append(float(line))

    def wait(self, windows: int) -> None:
        """Until that many are known, or for a second each."""
        for _ in range(10 * windows):
            if len(self.windows) >= windows:
                return
            self.reader.join(0.1)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def with_probe(loop: Loop, metric: str) -> float:
    """The fastest batch while the probe is in as it was asked for."""
    command = [CONVOY, "live", str(loop.process.pid), "--budget", "100%", "--metric", metric]
    command += ["--for", f"{PROBED_S}s", "--every", "500ms", "--format", "json", "-q"]
    begin = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as live:
        assert live.stdout
        for line in live.stdout:
            if begin is None and json.loads(line)["value"] is not None:
                # The window that is open then began before.
                begin = len(loop.windows) + 1
            end = len(loop.windows)
    if live.returncode or begin is None or end <= begin:
        raise RuntimeError(f"{metric} was not measured")
    return min(loop.windows[begin:end])


def prices() -> list[str]:
    """Rows: probe, ns a call above the bare one, asked."""
    with tempfile.TemporaryDirectory(prefix="convoy-bench-") as scratch:
        loop = Loop(Path(scratch))
        try:
            loop.wait(BARE)
            bare = min(loop.windows)
            rows = [f"| none | {bare:.2f} ns in all | |"]
            for name, metric, asked in PRICES:
                ns = with_probe(loop, metric) - bare
                rows.append(f"| {name} | +{ns:.2f} ns | {asked or ''} |")
            return rows
        finally:
            loop.end()


def many_functions(scratch: Path) -> Path:
    """A program with many functions, 256 bytes apart, that four threads call at random."""
    attributes = "__attribute__((noinline, noclone, aligned(256)))"
    body = "{ for (unsigned i = 0; i < (x & 7); i++) x = x * 1103515245u + %du; return x ^ 1; }"
    functions = [f"{attributes} unsigned f{i}(unsigned x) {body % (2 * i + 1)}" for i in range(FUNCTIONS)]
    names = ", ".join(f"f{i}" for i in range(FUNCTIONS))
    source = scratch / "many_functions.c"
    source.write_text(
        "#include <pthread.h>\n#include <unistd.h>\n"
        + "\n".join(functions)
        + f"\nstatic unsigned (*const all[])(unsigned) = {{ {names} }};\n"
        + "static void *work(void *x) { unsigned n = (unsigned long)x; volatile unsigned sink;\n"
        + f"for (;;) {{ n = n * 1664525u + 1013904223u; sink = all[(n >> 8) % {FUNCTIONS}](n); }}\n"
        + "return (void *)(unsigned long)sink; }\n"
        + "int main(void) { for (long i = 1; i <= 4; i++) { pthread_t t;\n"
        + "pthread_create(&t, 0, work, (void *)i); } pause(); }\n"
    )
    return compiled(source, scratch)


def stops() -> list[str]:
    """Rows: probes, median and 99th percentile for putting in and taking out, asked."""
    build = ["cargo", "build", "-q", "--release", "--locked", "-p", "convoy-inject", "--example", "probe_stops"]
    subprocess.run(build, cwd=ROOT, check=True)
    example = ROOT / "target" / "release" / "examples" / "probe_stops"
    rows = []
    with tempfile.TemporaryDirectory(prefix="convoy-bench-") as scratch:
        program = many_functions(Path(scratch))
        with subprocess.Popen([program]) as busy:
            try:
                wait_for_code(busy, program)
                for probes, rounds, median, p99 in STOPS:
                    command = [example, str(busy.pid), str(probes), str(rounds)]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                    if done.returncode:
                        raise RuntimeError(f"{probes} probes: {done.stderr.strip()}")
                    lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
                    cells = [cell([line[i] / 1e3 for line in lines]) for i in (0, 1)]
                    rows.append(f"| {probes:,} | {cells[0]} | {cells[1]} | {median} / {p99} ms |")
            finally:
                busy.kill()
    return rows


def wait_for_code(busy: subprocess.Popen, program: Path) -> None:
    """Popen returns when exec has begun: the new program is not mapped yet."""
    maps = Path(f"/proc/{busy.pid}/maps")
    while str(program.resolve()) not in maps.read_text():
        if busy.poll() is not None:
            raise RuntimeError(f"{program} has ended: exit status {busy.returncode}")
        time.sleep(0.01)


def cell(ms: list[float]) -> str:
    p99 = statistics.quantiles(ms, n=100, method="inclusive")[98]
    return f"{statistics.median(ms):.2f} / {p99:.2f} ms (at most {max(ms):.2f})"
