"""Programs whose fix is known: the fixtures, broken and fixed, in each of their languages."""

import functools
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lib import real

FIXTURES = real.ROOT / "fixtures"
C_FLAGS = ("-O2", "-g", "-pthread", f"-I{FIXTURES}")
COMPILERS = {
    "c": "gcc",
    "cpp": "g++",
    "rs": "rustc",
    "go": "go",
    "java": "javac",
    "py": "/usr/bin/python3",
}


@dataclass(frozen=True)
class Program:
    """A broken program and its fixed twin."""

    name: str
    source: Path
    flags: tuple[str, ...]
    # The finding that names the fault.
    finding: str

    def absent(self) -> str:
        """What is missing to build it; empty = nothing."""
        compiler = COMPILERS[self.source.suffix[1:]]
        return "" if shutil.which(compiler) else f"{compiler} is not installed"

    def command(self, fixed: bool, scratch: Path) -> list[str]:
        """How to start it; built when it is first asked for."""
        return _command(self, fixed, scratch)


@functools.cache
def _command(program: Program, fixed: bool, scratch: Path) -> list[str]:
    source, language = program.source, program.source.suffix[1:]
    target = scratch / f"{source.stem}-{language}{'-fixed' if fixed else ''}"
    argument = ["fixed"] if fixed else []
    # Languages with a preprocessor are fixed when they are built, others are told.
    define = ["-DFX_FIXED"] if fixed else []
    match language:
        case "py":
            return ["/usr/bin/python3", str(source), *argument]
        case "java":
            subprocess.run(["javac", "-d", target, source], check=True, capture_output=True)
            name = "".join(word.capitalize() for word in source.stem.split("_"))
            return ["java", "-cp", str(target), name, *argument]
        case "go":
            subprocess.run(["go", "build", "-o", target, source], check=True, capture_output=True)
            return [str(target), *argument]
        case "rs":
            cfg = ["--cfg=fx_fixed"] if fixed else []
            flags = ["-O", "-g", *program.flags, *cfg]
            subprocess.run(["rustc", *flags, "-o", target, source], check=True, capture_output=True)
            return [str(target)]
    standard = "-std=gnu11" if language == "c" else "-std=c++20"
    flags = [standard, *C_FLAGS, *program.flags, *define]
    subprocess.run(
        [COMPILERS[language], *flags, "-o", target, source, "-lm"], check=True, capture_output=True
    )
    return [str(target)]


def all_programs() -> list[Program]:
    """One for each fixture with a finding and a twin, and each of its languages."""
    found = []
    for file in sorted(FIXTURES.glob("*/expect.toml")):
        expect = tomllib.loads(file.read_text(encoding="utf-8"))
        if "finding" not in expect or not expect.get("twin", True):
            continue
        name = file.parent.name
        for variant in expect.get("variants", ["c"]):
            source = file.parent / f"{name.replace('-', '_')}.{variant}"
            if variant in COMPILERS and source.exists():
                flags = tuple(expect.get("flags", []))
                found.append(Program(f"{name}/{variant}", source, flags, expect["finding"]))
    return found
