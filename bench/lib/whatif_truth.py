"""Measured truth of what-ifs: base and fixes in interleaved rounds, with the truth's own spread."""

import csv
import random
import statistics
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Callable, Iterable, Iterator

from lib import machine, measure, synthetic
from lib.whatif_cases import Case

BASE, AGAIN = "base", "base again"


@dataclass(frozen=True)
class Truth:
    """What a fix saves: percent of the base's wall time, and points of that."""

    program: str
    what_if: str
    lock: str
    # Without the directory that holds the program.
    base: str
    fixed: str
    rounds: int
    # Rounds that began on an idle machine.
    quiet: int
    base_ms: float
    fixed_ms: float
    saved: float
    # Of single rounds.
    saved_min: float
    saved_max: float
    # Between the saved share of even rounds and that of odd ones.
    spread: float
    # The base against itself: half of its runs against the other half.
    null: float

    @property
    def noise(self) -> float:
        """A saved share that is not larger than this may be none."""
        return max(self.spread, abs(self.null))


def _saved(base: Iterable[float], fixed: Iterable[float]) -> float:
    return 100 * (1 - statistics.median(fixed) / statistics.median(base))


def _shown(command: list[str], directory: Path) -> str:
    return " ".join(
        word.removeprefix(f"{directory}/").removeprefix(f"{_targets()}/") for word in command
    )


def _targets() -> Path:
    return synthetic.CASES.parent.parent


def _rounds(names: list[str], count: int) -> Iterator[list[str]]:
    """Orders of the runs: every second round is the one before in reverse."""
    shuffled = random.Random(1)
    for i in range(count):
        if i % 2 == 0:
            shuffled.shuffle(names)
        yield names if i % 2 == 0 else names[::-1]


def measure_case(
    case: Case, scratch: Path, rounds: int, patience_s: float, limit_s: float
) -> list[Truth]:
    """Runs the base twice and each fix once a round. Raises `measure.Failed` if a run fails."""
    directory, timed = scratch.parent, synthetic.TIMED.build(scratch.parent)
    base = case.base(directory)
    commands = {BASE: base, AGAIN: base}
    commands |= {what_if.query: case.fixed(what_if, directory) for what_if in case.what_ifs}
    ms: dict[str, list[float]] = {name: [] for name in commands}
    quiet = 0

    def run(name: str) -> float:
        figures = scratch / "figures"
        command = [str(timed), str(figures), *commands[name]]
        return measure.run(command, scratch, limit_s, figures_file=figures).elapsed_ns / 1e6

    for name in commands:
        run(name)  # pages and files that every later run finds
    for order in _rounds(list(commands), rounds):
        quiet += machine.wait_until_quiet(patience_s)
        for name in order:
            ms[name].append(run(name))

    def truth(query: str) -> Truth:
        fixed, bases = ms[query], [*ms[BASE], *ms[AGAIN]]

        def half(of: int) -> float:
            return _saved([*ms[BASE][of::2], *ms[AGAIN][of::2]], fixed[of::2])

        single = [
            100 * (1 - f / statistics.mean(b)) for f, b in zip(fixed, zip(ms[BASE], ms[AGAIN]))
        ]
        return Truth(
            program=case.name,
            what_if=query,
            lock=case.lock,
            base=_shown(base, directory),
            fixed=_shown(commands[query], directory),
            rounds=rounds,
            quiet=quiet,
            base_ms=round(statistics.median(bases), 1),
            fixed_ms=round(statistics.median(fixed), 1),
            saved=round(_saved(bases, fixed), 2),
            saved_min=round(min(single), 2),
            saved_max=round(max(single), 2),
            spread=round(abs(half(0) - half(1)), 2),
            null=round(_saved(ms[BASE], ms[AGAIN]), 2),
        )

    return [truth(what_if.query) for what_if in case.what_ifs]


def read(file: Path) -> tuple[str, list[Truth]]:
    """The machine that a file was measured on, and its rows."""
    with open(file, encoding="utf-8") as text:
        about = text.readline().removeprefix("#").strip()
        kinds = {field.name: field.type for field in fields(Truth)}
        rows = [
            Truth(**{name: kinds[name](value) for name, value in row.items()})
            for row in csv.DictReader(text, delimiter="\t")
        ]
    return about, rows


def write(file: Path, about: str, rows: list[Truth]) -> None:
    """Tab-separated, after a line about the machine."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", encoding="utf-8", newline="") as text:
        text.write(f"# {about}\n")
        names = [field.name for field in fields(Truth)]
        table = csv.DictWriter(text, names, delimiter="\t", lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


def merged(old: list[Truth], new: list[Truth], order: Callable[[Truth], int]) -> list[Truth]:
    """The new rows, and the old ones of other programs."""
    programs = {row.program for row in new}
    return sorted([*(row for row in old if row.program not in programs), *new], key=order)
