"""What looking into critical sections costs: `convoy diagnose` against the bare program."""

import argparse
from pathlib import Path
from typing import Callable, Iterator

from lib import compared, fixtures, inside, real, synthetic, tools

CASES = ("diagnose",)
# Programs that do little but lock: what sampling must hold in bounds.
LOCKING = ("own-mutex-work", "contended", "many", "rwlock", "pipeline")
# A program that is in its sections for less than a fifth of its time.
RARELY_INSIDE = "pipeline"

Row = Callable[..., str]


def rows(binary: Path, scratch: Path, options: argparse.Namespace, row: Row) -> Iterator[str]:
    """Lines of the table."""
    sampled, every = tools.convoy_diagnose(binary), tools.convoy_diagnose(binary, every=True)
    for case in (case for case in synthetic.ALL if case.name in LOCKING):
        yield row(case.what, sampled.name, compared.case(sampled, case, scratch, options), "1.50x")
        if case.name == RARELY_INSIDE:
            yield row(case.what, every.name, compared.case(every, case, scratch, options), "3.00x", "SyncPerf 3.5x-11.7x")
    yield from inside.rows(binary, scratch, options)
    for program in [*real.ALL, *fixtures.all_of_one_file()]:
        ratios = compared.program([sampled], program, scratch, options, budget_s=90)[sampled.name]
        yield row(program.name, sampled.name, ratios, "1.50x")
