"""What looking into critical sections costs: `convoy diagnose` against the bare program."""

import argparse
from pathlib import Path
from typing import Callable, Iterator

from lib import measure, real, synthetic, tools

CASES = ("diagnose",)
# Programs that do little but lock: what sampling must hold in bounds.
LOCKING = ("own-mutex-work", "contended", "many", "rwlock", "pipeline")
# A program that is in its sections for less than a fifth of its time.
RARELY_INSIDE = "pipeline"

Row = Callable[..., str]


def _synthetic(tool: tools.Tool, case: synthetic.Case, scratch: Path, options: argparse.Namespace) -> measure.Ratios:
    program = str(case.build(scratch.parent))
    ops = case.ops // (4 if options.quick else 1)

    def once(tool: tools.Tool) -> measure.Figures:
        return measure.run(tool.command([program, str(ops)], scratch), scratch, options.limit)

    budget = 20 if options.quick else 60
    return measure.pairs(lambda: once(tools.BARE), lambda: once(tool), options.pairs, options.patience, budget)


def _real(tool: tools.Tool, program: real.Program, scratch: Path, options: argparse.Namespace) -> measure.Ratios:
    if program.absent():
        return measure.Ratios(failure=program.absent())
    timed = synthetic.TIMED.build(scratch.parent)

    def once(tool: tools.Tool) -> measure.Figures:
        return program.measure(tool, timed, scratch)

    count = 2 if options.quick else 5
    return measure.pairs(lambda: once(tools.BARE), lambda: once(tool), count, options.patience, 90)


def rows(binary: Path, scratch: Path, options: argparse.Namespace, row: Row) -> Iterator[str]:
    """Lines of the table."""
    sampled, every = tools.convoy_diagnose(binary), tools.convoy_diagnose(binary, every=True)
    for case in (case for case in synthetic.ALL if case.name in LOCKING):
        yield row(case.what, sampled.name, _synthetic(sampled, case, scratch, options), "1.50x")
        if case.name == RARELY_INSIDE:
            yield row(case.what, every.name, _synthetic(every, case, scratch, options), "3.00x", "SyncPerf 3.5x-11.7x")
    for program in real.ALL:
        yield row(program.name, sampled.name, _real(sampled, program, scratch, options), "1.50x")
