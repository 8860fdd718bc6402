"""What listening to the scheduler costs: per event, in memory, in time after the program's end, and in what is lost."""

import argparse
import json
import statistics
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Iterator

from lib import machine, measure, real, synthetic, tools, turns

HEAD = "| scheduler events | tool | median (min-max) | CPU | beside the program | pairs, quiet | at most | others |"
OTHERS = "naive design (a wake-up of the profiler for each event): 12,500 ns"


class Watched:
    """A run of convoy with its report, seen from outside."""

    def __init__(self, convoy: Path, command: list[str], scratch: Path) -> None:
        everything = [str(convoy), "--", *command]
        with open(scratch / "report", "wb") as report:
            self._process = subprocess.Popen(
                everything, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=report, text=True
            )
        self.peak_bytes = 0
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        line = next((line for line in self._process.stdout if measure.LINE.match(line)), "")
        ended = time.monotonic()
        self._process.stdout.read()
        if self._process.wait() != 0:
            raise measure.Failed(f"exit status {self._process.returncode}: {(scratch / 'report').read_text()[-200:]}")
        watcher.join()
        self.report_s = time.monotonic() - ended
        self.figures = measure.Figures.parse(line)

    def _watch(self) -> None:
        """The most that was in memory, mapped rings included. Convoy's alone: the program is another process."""
        status = Path(f"/proc/{self._process.pid}/status")
        while self._process.poll() is None:
            try:
                lines = status.read_text().splitlines()
            except OSError:
                return
            kb = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
            self.peak_bytes = max(self.peak_bytes, kb * 1024)
            time.sleep(0.01)


def _spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def _line(
    what: str, tool: str, value: str, ratio: str = "", beside: str = "", pairs: str = "",
    most: str = "", others: str = "",
) -> str:  # fmt: skip
    return f"| {what} | {tool} | {value} | {ratio} | {beside} | {pairs} | {most} | {others} |"


def _per_event(convoy: Path, scratch: Path, options: argparse.Namespace) -> Iterator[str]:
    """Two threads on one processor that only hand a byte to each other."""
    what = "a pinned pipe, nothing but switches"
    program = [str(synthetic.SWITCHES.build(scratch.parent)), str(200_000 if options.quick else 400_000)]
    ours = [
        tools.convoy(convoy),
        tools.convoy(convoy, "off", "convoy, agent alone"),
        tools.convoy(convoy, "perf", "convoy, perf events"),
        tools.convoy_elsewhere(convoy),
    ]
    others = [] if options.no_peers else tools.switch_peers()

    def once(tool: tools.Tool) -> Callable[[], measure.Figures]:
        def run() -> measure.Figures:
            with tool.beside(0, scratch):
                return measure.run(tool.command(program, scratch), scratch, options.limit)

        return run

    for tool in [tools.BARE, *ours, *others]:
        name = "bare again" if tool is tools.BARE else tool.name
        ratios = measure.Ratios(failure=tool.absent)
        if not tool.absent:
            ratios = measure.pairs(once(tools.BARE), once(tool), options.pairs, options.patience, 90)
        if not ratios.pairs:
            yield _line(what, name, ratios.failure)
            continue
        beside = f"{statistics.median(ratios.beside_ns):.0f} ns an event" if tool in ours[:3] else ""
        yield _line(
            what, name, _spread(ratios.added_ns, ".0f") + " ns an event", _spread(ratios.cpu, ".2f"), beside,
            f"{ratios.pairs}, {ratios.quiet}", "200 ns" if tool is ours[0] else "", OTHERS if tool is ours[0] else "",
        )  # fmt: skip


def _quality(convoy: Path, profile: Path) -> dict:
    report = subprocess.run([str(convoy), "report", "--format", "json", str(profile)], check=True, capture_output=True)
    return json.loads(report.stdout)["critical"]["quality"]


def _storm(convoy: Path, scratch: Path, options: argparse.Namespace) -> Iterator[str]:
    """The same on two processors at once: more switches a second than the machine has for anybody else."""
    program, profile = str(synthetic.SWITCHES.build(scratch.parent)), scratch / "profile.convoy"
    command = [program, str(200_000 if options.quick else 1_000_000), "2"]
    rates, lost, wrong, rest = [], [], [], []
    for _ in range(options.pairs):
        machine.wait_until_quiet(options.patience)
        tool = tools.convoy(convoy)
        figures = measure.run(tool.command(command, scratch), scratch, options.limit)
        quality = _quality(convoy, profile)
        rates.append(figures.ops / figures.elapsed_ns * 1e9)
        lost.append(quality["lost_events_count"])
        wrong.append(quality["contradictions_count"])
        rest.append((figures.all_cpu_ns - figures.cpu_ns) / max(figures.ops, 1))
    what = "the same on two processors"
    beside = f"{statistics.median(rest):.0f} ns an event"
    yield _line(what, "convoy", _spread(rates, ",.0f") + " events a second", "", beside, str(len(rates)), ">= 200,000")
    yield _line(what, "convoy", _spread(lost, ",.0f") + " events lost", most="0, or it is shown")
    yield _line(what, "convoy", _spread(wrong, ",.0f") + " contradictions")


def _memory_and_report(convoy: Path, scratch: Path, options: argparse.Namespace) -> Iterator[str]:
    switches, threads = (str(case.build(scratch.parent)) for case in (synthetic.SWITCHES, synthetic.THREADS))
    # An event is a switch or a wake-up; some 1.6 of them a handoff.
    many = 600_000 if options.quick else 6_400_000
    times = 1 if options.quick else 3
    for what, command, most_s in (
        ("a pinned pipe, some 10 million events", [switches, str(many)], 2),
        ("the same on two processors", [switches, str(many // 8), "2"], None),
        ("10,000 threads", [threads, "10000"], None),
    ):
        machine.wait_until_quiet(options.patience)
        runs = [Watched(convoy, command, scratch) for _ in range(times)]
        peaks = [run.peak_bytes / 1e6 for run in runs]
        value, others = _spread(peaks, ".0f") + " MB", "GAPP 109-784 MB"
        yield _line(f"memory: {what}", "convoy", value, pairs=str(times), most="120 MB", others=others)
        if most_s:
            waits, events = [run.report_s for run in runs], runs[0].figures.ops / 1e6
            value = f"{_spread(waits, '.2f')} s after {events:.1f} million events"
            what, others = "from the program's end to the report's", "GAPP 3.3 s, wPerf 272 s"
            yield _line(what, "convoy", value, pairs=str(times), most=f"{most_s} s", others=others)


def _attached(convoy: Path, scratch: Path, options: argparse.Namespace) -> Iterator[str]:
    timed, tool = synthetic.TIMED.build(scratch.parent), tools.convoy_attached(convoy)
    for program in real.SERVERS:
        ratios = measure.Ratios(failure=program.absent())
        if not ratios.failure:
            once = lambda tool: lambda: program.measure(tool, timed, scratch)  # noqa: B023, E731
            count = 2 if options.quick else 5
            ratios = measure.pairs(once(tools.BARE), once(tool), count, options.patience, 90)
        if not ratios.pairs:
            yield _line(f"attached: {program.name}", tool.name, ratios.failure)
            continue
        elapsed = _spread(ratios.elapsed, ".2f") + " x elapsed"
        pairs = f"{ratios.pairs}, {ratios.quiet}"
        yield _line(f"attached: {program.name}", tool.name, elapsed, _spread(ratios.cpu, ".2f"), "", pairs, "1.03x")


def _in_turns(convoy: Path, scratch: Path, options: argparse.Namespace) -> Iterator[str]:
    what, tool = f"attached and not, in turns within one run: {real.MARIADB.name}", tools.convoy_attached(convoy)
    idle = tools.Tool("nothing recorded", tool.wrap, attach=lambda pid, scratch: ["sleep", "600"])
    for tool, most in ((idle, ""), (tool, "1.03x")):
        if real.MARIADB.absent():
            yield _line(what, tool.name, real.MARIADB.absent())
            continue
        try:
            found = turns.attached(tool, scratch, options.pairs * (1 if options.quick else 2))
        except (measure.Failed, RuntimeError) as failure:
            yield _line(what, tool.name, str(failure))
            continue
        value = f"{found.ratio:.3f}x, mean (standard error {found.standard_error:.3f})"
        yield _line(what, tool.name, value, pairs=str(found.pairs), most=most)


def rows(convoy: Path, scratch: Path, options: argparse.Namespace) -> Iterator[str]:
    """All rows, under their own heading."""
    yield ""
    yield HEAD
    yield "|---" * 8 + "|"
    for name, part in (
        ("switches", _per_event), ("storm", _storm), ("memory", _memory_and_report), ("attach", _attached),
        ("turns", _in_turns),
    ):  # fmt: skip
        if options.case in (None, "kernel", name):
            yield from part(convoy, scratch, options)


CASES = ("kernel", "switches", "storm", "memory", "attach", "turns")
