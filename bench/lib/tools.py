"""Convoy and its peers: how each runs a command."""

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

# Counts futex waits by address, as one would by hand.
FUTEX_SCRIPT = (
    "tracepoint:syscalls:sys_enter_futex /(args->op & 0x7f) == 0 || (args->op & 0x7f) == 9/"
    " { @start[tid] = nsecs; @word[tid] = args->uaddr; }"
    " tracepoint:syscalls:sys_exit_futex /@start[tid]/"
    " { @wait_ns[@word[tid]] = sum(nsecs - @start[tid]); delete(@start[tid]); delete(@word[tid]); }"
)


@dataclass(frozen=True)
class Tool:
    """Something that runs a command and watches it."""

    name: str
    wrap: Callable[[list[str], Path], list[str]]
    absent: str = ""

    def command(self, command: list[str], scratch: Path) -> list[str]:
        """The command under this tool."""
        return self.wrap(command, scratch)


BARE = Tool("bare", lambda command, _: command)


def convoy(binary: Path) -> Tool:
    """Only recording: the report is measured by itself."""

    def wrap(command: list[str], scratch: Path) -> list[str]:
        return [str(binary), "record", "--quiet", "-o", str(scratch / "profile.convoy"), "--", *command]

    return Tool("convoy", wrap)


def peers() -> list[Tool]:
    """What distributions have for the same purpose; those that cannot run here say why."""

    def need(program: str, root: bool = False) -> str:
        if not shutil.which(program):
            return f"{program} is not installed"
        return "needs root" if root and os.geteuid() != 0 else ""

    return [
        Tool(
            "coz",
            lambda command, scratch: ["coz", "run", "-o", str(scratch / "profile.coz"), "---", *command],
            need("coz"),
        ),
        Tool(
            "bpftrace futex",
            lambda command, _: ["bpftrace", "-q", "-e", FUTEX_SCRIPT, "-c", shlex.join(command)],
            need("bpftrace", root=True),
        ),
        Tool(
            "valgrind drd",
            lambda command, scratch: ["valgrind", "-q", "--tool=drd", f"--log-file={scratch}/drd.log", *command],
            need("valgrind"),
        ),
    ]
