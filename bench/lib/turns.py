"""What attaching costs a server that is busy all the time: it is recorded and left alone in turns, within one run.

From one run to the next, and from one second to the next, a virtual machine may be a fifth slower. Neighbours in time are alike, so
that the mean of many pairs is known to a percent where the median of five runs is known to five.
"""

import contextlib
import math
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from lib import real, tools
from lib.measure import Failed

# From the beginning of a turn until it counts: to begin and to end a recording takes processors, too, and in the first seconds
# more stacks are copied than later.
SETTLES_S = 3.0
COUNTS_S = 3.0


@dataclass(frozen=True)
class Turns:
    """How much less got done while it was recorded: the mean over pairs, of logarithms."""

    ratio: float
    standard_error: float
    pairs: int


class _Busy:
    """MariaDB under a load that does not end."""

    def __init__(self, pid: int, load: subprocess.Popen, client: subprocess.Popen) -> None:
        self.pid = pid
        self._load = load
        self._client = client

    def done(self) -> tuple[int, float]:
        """Transactions so far, and when."""
        self._client.stdin.write("SHOW GLOBAL STATUS LIKE 'Com_commit';\n")
        self._client.stdin.flush()
        said = self._client.stdout.readline().split()
        if len(said) != 2 or self._load.poll() is not None:
            raise Failed("the server or its load has ended")
        return int(said[1]), time.monotonic()

    def rate(self) -> float:
        """Transactions a second from now on."""
        time.sleep(SETTLES_S)
        before, started = self.done()
        time.sleep(COUNTS_S)
        after, ended = self.done()
        if after <= before:
            raise Failed("the server has stopped working")
        return (after - before) / (ended - started)


@contextlib.contextmanager
def _killed(process: subprocess.Popen) -> Iterator[subprocess.Popen]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _busy(scratch: Path) -> Iterator[_Busy]:
    port = real.free_port()
    with contextlib.ExitStack() as stack:
        pid = stack.enter_context(real.listening(real.mariadb(port, scratch), scratch, port))
        for step in real.mariadb_prepare(port):
            real.quietly(step)
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        load = subprocess.Popen(real.sysbench(port, "run", events=0), stdin=quiet, stdout=quiet)
        stack.enter_context(_killed(load))
        asks = [*real.mariadb_client(port), "--skip-column-names", "--unbuffered"]
        client = subprocess.Popen(asks, stdin=pipe, stdout=pipe, text=True)
        yield _Busy(pid, load, stack.enter_context(_killed(client)))


def attached(tool: tools.Tool, scratch: Path, pairs: int) -> Turns:
    """A tool that attaches to MariaDB, in turns with nothing, in changing order."""
    less = []
    with _busy(scratch) as busy:
        busy.rate()  # warms up
        for i in range(pairs):
            rates = {}
            for recorded in (i % 2 == 0, i % 2 != 0):
                with tool.beside(busy.pid, scratch) if recorded else contextlib.nullcontext():
                    rates[recorded] = busy.rate()
            less.append(math.log(rates[False] / rates[True]))
    error = statistics.stdev(less) / math.sqrt(len(less)) if len(less) > 1 else math.nan
    return Turns(math.exp(statistics.mean(less)), error, len(less))
