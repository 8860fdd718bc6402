"""What code costs inside of sections that are looked into: the time of a traced section against that of a bare one."""

import argparse
import json
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Iterator

from lib import measure, synthetic, tools

# Of each body the bound on a traced section, in times of a bare one.
BODIES = [
    ("integers in a table, 3,000 instructions a section", 0, 5.0),
    ("a list of 16 nodes, allocated and freed, 2,700 instructions", 1, 15.0),
    ("qsort of 16 words, 2,500 instructions, calls through a pointer", 2, 15.0),
]
CASE = synthetic.Case("inside", "", "inside.c", 300_000, 0, "")
# With more of them there is no room for what sections did, and the rest runs as it is.
TRACED_OPS = 2_000


def _bare_ns(program: Path, scratch: Path, options: argparse.Namespace) -> float:
    figures = measure.run([str(program), str(CASE.ops)], scratch, options.limit)
    return figures.cpu_ns / figures.ops


def _traced_ns(binary: Path, program: Path, scratch: Path, options: argparse.Namespace) -> float:
    """The median section of the place with most of them: the first ones are translated."""
    command = tools.convoy_diagnose(binary, every=True).command([str(program), str(TRACED_OPS)], scratch)
    measure.run(command, scratch, options.limit)
    report = [str(binary), "report", "--format", "json", str(scratch / "profile.convoy")]
    said = subprocess.run(report, capture_output=True, check=True, text=True)
    places = json.loads(said.stdout)["sections"]["places"]
    return max(places, key=lambda place: place["traced_count"])["traced_ns"]["median"]


def rows(binary: Path, scratch: Path, options: argparse.Namespace) -> Iterator[str]:
    """Lines of the table. The bare time has the pair of lock and unlock in it."""
    for what, body, at_most in BODIES:
        program = replace(CASE, name=f"inside-{body}", flags=(f"-DBODY={body}",)).build(scratch.parent)
        times = []
        for _ in range(options.pairs):
            bare = _bare_ns(program, scratch, options)
            times.append(_traced_ns(binary, program, scratch, options) / bare)
        cell = f"{statistics.median(times):.2f}x ({min(times):.2f}-{max(times):.2f})"
        yield f"| inside: {what} | convoy diagnose, every section | {cell} | | | {len(times)} | {at_most:.2f}x | |"
