"""What a trace of events costs beyond `convoy record`."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Callable, Iterator

from lib import compared, measure, real, synthetic, tools

CASES = ("trace",)
# The work between two acquisitions (ns), the turns of each of two threads, and what recording may
# cost.
WORK = [
    ("empty loop", 0, 20_000_000, {"window": 1.2}),
    ("100 ns an operation", 100, 5_000_000, {"window": 1.05}),
    ("1 us an operation", 1000, 1_000_000, {"window": 1.02, "full": 1.02}),
]
MODES = ("window", "full")
# The limit for the geometric mean of the real programs.
REAL_AT_MOST = 1.02

Row = Callable[..., str]


def rows(binary: Path, scratch: Path, options: argparse.Namespace, row: Row) -> Iterator[str]:
    """Lines of the table: each round has the program under `record`, and under `record --trace`."""
    record = tools.convoy(binary)
    traced = {mode: tools.convoy_trace(binary, mode) for mode in MODES}
    for what, work, turns, at_most in WORK:
        case = synthetic.Case(
            f"traced-{work}", what, "own_mutex.c", turns, 0, "", flags=(f"-DWORK={work}",)
        )
        found = compared.cases(record, list(traced.values()), case, scratch, options)
        for mode, tool in traced.items():
            limit = f"{at_most[mode]:.2f}x" if mode in at_most else ""
            yield row(f"trace, beyond record: {what}", tool.name, found[tool.name], limit)
    window = traced["window"]
    medians = []
    for program in real.ALL:
        budget = 30 * options.pairs
        found = compared.program([window], program, scratch, options, budget, base=record)
        ratios = found[window.name]
        if ratios.pairs:
            medians.append(ratios.median())
        yield row(f"trace, beyond record: {program.name}", window.name, ratios)
    if medians:
        value = f"{measure.geometric_mean(medians):.3f}x, worst {max(medians):.3f}x"
        what = f"**trace, beyond record: real programs, geometric mean of {len(medians)}**"
        yield f"| {what} | {window.name} | {value} | | | | {REAL_AT_MOST:.2f}x | |"
