"""A tool against the bare program or another tool, in rounds of runs: a synthetic case, a real program."""

import argparse
import functools
from pathlib import Path

from lib import measure, real, synthetic, tools


def case(
    tool: tools.Tool,
    of: synthetic.Case,
    scratch: Path,
    options: argparse.Namespace,
    ops: int | None = None,
    pairs: int | None = None,
) -> measure.Ratios:
    """Of a program of `bench/cases`, with its own number of operations and the usual number of pairs unless told."""
    return cases(tools.BARE, [tool], of, scratch, options, ops, pairs)[tool.name]


def cases(
    base: tools.Tool,
    those: list[tools.Tool],
    of: synthetic.Case,
    scratch: Path,
    options: argparse.Namespace,
    ops: int | None = None,
    pairs: int | None = None,
) -> dict[str, measure.Ratios]:
    """The same of several tools in each round, against `base`, by their names."""
    program = str(of.build(scratch.parent))
    ops = ops or of.ops // (4 if options.quick else 1)

    def once(tool: tools.Tool) -> measure.Figures:
        return measure.run(tool.command([program, str(ops)], scratch), scratch, options.limit)

    others = {tool.name: functools.partial(once, tool) for tool in those}
    budget = 20 if options.quick else 90
    return measure.rounds(lambda: once(base), others, pairs or options.pairs, options.patience, budget)


def program(
    those: list[tools.Tool],
    of: real.Program,
    scratch: Path,
    options: argparse.Namespace,
    budget_s: float | None = None,
    base: tools.Tool = tools.BARE,
) -> dict[str, measure.Ratios]:
    """Of a program as a distribution ships it: all these tools in each round, by their names."""
    if of.absent():
        return {tool.name: measure.Ratios(failure=of.absent()) for tool in those}
    timed = synthetic.TIMED.build(scratch.parent)

    def once(tool: tools.Tool) -> measure.Figures:
        return of.measure(tool, timed, scratch)

    others = {tool.name: functools.partial(once, tool) for tool in those}
    return measure.rounds(lambda: once(base), others, options.pairs, options.patience, budget_s or 60 * options.pairs)
