"""The fixtures that are one C file: small programs with one fault each, most of which do little but synchronize."""

import functools
import os
import subprocess
import time
from pathlib import Path

from lib import measure, real

FIXTURES = real.ROOT / "fixtures"
FLAGS = ["-std=gnu11", "-O2", "-g", "-pthread", f"-I{FIXTURES}"]
# A start is measured by itself.
LEAST_S = 0.5
MOST_WORK = 3000


@functools.cache
def _work(program: Path) -> str:
    """So many times what a test gives it, that a run takes longer than a start."""
    times = 3
    while times < MOST_WORK:
        began = time.monotonic()
        subprocess.run([program], env={**os.environ, "CONVOY_FX_SCALE": str(times)}, capture_output=True, check=True)
        if time.monotonic() - began >= LEAST_S:
            break
        times *= 3
    return f"CONVOY_FX_SCALE={times}"


def _program(source: Path) -> real.Program:
    openmp = ["-fopenmp"] if source.stem.startswith("omp_") else []

    def command(scratch: Path) -> list[str]:
        program = scratch.parent / source.stem
        if not program.exists():
            subprocess.run(["gcc", *FLAGS, *openmp, "-o", program, source, "-lm"], check=True)
        return ["env", _work(program), str(program)]

    return real.Program(f"fixture {source.parent.name}", ("gcc",), real.measure_command(command))


def all_of_one_file() -> list[real.Program]:
    """In the order of their names, but for those that another compiler or a launcher is needed for."""
    sources = (sorted(folder.glob("*.c")) for folder in sorted(FIXTURES.iterdir()))
    alone = (files[0] for files in sources if len(files) == 1)
    return [_program(source) for source in alone if "mpi" not in source.stem]
