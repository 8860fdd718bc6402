"""Convoy and its peers: how each runs a command."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

# Counts futex waits by address, as one would by hand.
FUTEX_SCRIPT = (
    "tracepoint:syscalls:sys_enter_futex /(args->op & 0x7f) == 0 || (args->op & 0x7f) == 9/"
    " { @start[tid] = nsecs; @word[tid] = args->uaddr; }"
    " tracepoint:syscalls:sys_exit_futex /@start[tid]/"
    " { @wait_ns[@word[tid]] = sum(nsecs - @start[tid]); delete(@start[tid]); delete(@word[tid]); }"
)


# The same for switches.
SWITCH_SCRIPT = "tracepoint:sched:sched_switch { @[comm, ustack] = count(); }"

# Until a tool that runs beside a program has begun to listen.
BEGINS_S = 0.5


@dataclass(frozen=True)
class Tool:
    """Something that runs a command and watches it, or runs beside a process."""

    name: str
    wrap: Callable[[list[str], Path], list[str]]
    absent: str = ""
    attach: Callable[[int, Path], list[str]] | None = None

    def command(self, command: list[str], scratch: Path) -> list[str]:
        """The command under this tool."""
        return self.wrap(command, scratch)

    @contextlib.contextmanager
    def beside(self, pid: int, scratch: Path) -> Iterator[None]:
        """The tool, as long as the block takes, if it is one that attaches to a process."""
        if not self.attach:
            yield
            return
        command = self.attach(pid, scratch)
        with open(scratch / "beside.log", "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            time.sleep(BEGINS_S)
            if process.poll() is not None:
                raise RuntimeError((scratch / "beside.log").read_text(errors="replace")[-300:])
            yield
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
            process.kill()
            process.wait()


def _same(command: list[str], _: Path) -> list[str]:
    return command


BARE = Tool("bare", _same)


def convoy(binary: Path, scheduler: str = "auto", name: str = "convoy") -> Tool:
    """Only recording: the report is measured by itself."""

    def wrap(command: list[str], scratch: Path) -> list[str]:
        options = ["--quiet", "--scheduler", scheduler, "-o", str(scratch / "profile.convoy")]
        return [str(binary), "record", *options, "--", *command]

    return Tool(name, wrap)


def convoy_trace(binary: Path, mode: str) -> Tool:
    """Records a trace of events as well: `window` or `full`."""

    def wrap(command: list[str], scratch: Path) -> list[str]:
        options = ["--quiet", f"--trace={mode}", "-o", str(scratch / "profile.convoy")]
        return [str(binary), "record", *options, "--", *command]

    return Tool(f"convoy --trace={mode}", wrap)


def convoy_events_alone(binary: Path) -> Tool:
    """The scheduler's events of a program that does not load the agent: what `critical` costs by itself."""
    whole = convoy(binary)

    def wrap(command: list[str], scratch: Path) -> list[str]:
        return whole.command(["env", "-u", "LD_PRELOAD", *command], scratch)

    return Tool("convoy, events alone", wrap)


def convoy_diagnose(binary: Path, every: bool = False) -> Tool:
    """Looks into the sections of all locks: as many as the default budget allows, or every one."""
    options = ["--every"] if every else []

    def wrap(command: list[str], scratch: Path) -> list[str]:
        output = str(scratch / "profile.convoy")
        return [str(binary), "diagnose", "--quiet", *options, "-o", output, "--", *command]

    return Tool("convoy diagnose" + (", every section" if every else ""), wrap)


def convoy_attached(binary: Path) -> Tool:
    """Attached to a process that runs."""

    def attach(pid: int, scratch: Path) -> list[str]:
        return [str(binary), "record", "--quiet", "-o", str(scratch / "profile.convoy"), "-p", str(pid)]

    return Tool("convoy record -p", _same, attach=attach)


def convoy_elsewhere(binary: Path) -> Tool:
    """Records another process."""

    def attach(_: int, scratch: Path) -> list[str]:
        output = str(scratch / "profile.convoy")
        return [str(binary), "record", "--quiet", "-o", output, "--", "sleep", "600"]

    return Tool("convoy records another", _same, attach=attach)


def _need(program: str, root: bool = False) -> str:
    if not shutil.which(program):
        return f"{program} is not installed"
    return "needs root" if root and os.geteuid() != 0 else ""


def switch_peers() -> list[Tool]:
    """What distributions have for context switches."""
    # It takes a process id only: it gets the one that will become the program.
    off_cpu = 'offcputime -p $$ 600 > "$0" 2>&1 & sleep 1; exec "$@"'

    return [
        Tool(
            "offcputime (libbpf-tools)",
            lambda command, scratch: ["sh", "-c", off_cpu, str(scratch / "offcpu"), *command],
            _need("offcputime", root=True),
        ),
        Tool(
            "perf sched record",
            lambda command, scratch: ["perf", "sched", "record", "-o", str(scratch / "perf.data"), *command],
            _need("perf", root=True),
        ),
        Tool(
            "bpftrace sched_switch",
            lambda command, _: ["bpftrace", "-q", "-e", SWITCH_SCRIPT, "-c", shlex.join(command)],
            _need("bpftrace", root=True),
        ),
    ]


def peers() -> list[Tool]:
    """What distributions have for locks; those that cannot run here say why."""
    return [
        Tool(
            "coz",
            lambda command, scratch: ["coz", "run", "-o", str(scratch / "profile.coz"), "---", *command],
            _need("coz"),
        ),
        Tool(
            "bpftrace futex",
            lambda command, _: ["bpftrace", "-q", "-e", FUTEX_SCRIPT, "-c", shlex.join(command)],
            _need("bpftrace", root=True),
        ),
        Tool(
            "valgrind drd",
            lambda command, scratch: ["valgrind", "-q", "--tool=drd", f"--log-file={scratch}/drd.log", *command],
            _need("valgrind"),
        ),
    ]
