"""The ledger of gains: what Convoy told, and what the fix brought."""

import csv
import statistics
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Callable, Iterable

# A promise is kept by so many of all intervals (docs: an interval holds 19 of 20 times).
PROMISE = 0.95


@dataclass(frozen=True)
class Row:
    """Gains are ratios of throughput, after the fix over before."""

    date: str
    machine: str
    commit: str
    program: str
    # How it was recorded: events, agent, unprivileged.
    recorded: str
    # The finding that names the fault; the first one's id where no finding does, empty without any.
    finding: str
    # Its rank, from 1; 0 = the fault was not found.
    rank: int
    low: float | None
    mid: float | None
    # `None` beside a middle: nothing bounds it.
    high: float | None
    measured: float
    # The extremes of single pairs of runs.
    measured_min: float
    measured_max: float

    @property
    def is_told(self) -> bool:
        """Whether a gain was promised for this fault."""
        return self.rank > 0 and self.mid is not None

    @property
    def holds(self) -> bool:
        """Whether the interval reaches what single pairs of runs measured."""
        return self.low <= self.measured_max and (
            self.high is None or self.high >= self.measured_min
        )

    @property
    def holds_median(self) -> bool:
        """Whether the median lies within."""
        return self.low <= self.measured and (self.high is None or self.high >= self.measured)


def _value(field, text: str):
    if text == "" and field.type == float | None:
        return None
    kind = {str: str, int: int}.get(field.type, float)
    return kind(text)


def read(file: Path) -> list[Row]:
    """All rows of a ledger; none if there is no file."""
    if not file.exists():
        return []
    with open(file, encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t")
        return [Row(**{f.name: _value(f, row[f.name]) for f in fields(Row)}) for row in rows]


def append(file: Path, row: Row) -> None:
    """Adds a row; the file begins with the names of the columns."""
    is_new = not file.exists()
    with open(file, "a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(
            stream, [f.name for f in fields(Row)], delimiter="\t", lineterminator="\n"
        )
        if is_new:
            writer.writeheader()
        told = {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(row).items()
        }
        writer.writerow(told)


def latest(rows: Iterable[Row]) -> list[Row]:
    """Of each program and way of recording the last one."""
    return list({(row.program, row.recorded): row for row in rows}.values())


def _share(n: int, of: int) -> str:
    return f"{100 * n / of:.0f} %"


def _line(name: str, rows: list[Row]) -> str:
    told = [row for row in rows if row.is_told]
    if not told:
        return f"| {name} | {len(rows)} | 0 | | | | |"
    bounded = [row for row in told if row.high is not None]
    spread = f"{statistics.median(row.high / row.low for row in bounded):.1f}" if bounded else ""
    held = (sum(row.holds for row in told), sum(row.holds_median for row in told))
    shares = [_share(n, len(told)) for n in (*held, len(told) - len(bounded))]
    return f"| {name} | {len(rows)} | {len(told)} | {' | '.join(shares)} | {spread} |"


def _table(title: str, rows: list[Row], key: Callable[[Row], str]) -> list[str]:
    head = [
        "",
        f"| {title} | programs | told | interval reaches a pair | holds the median | no bound "
        "| high / low |",
        "|---|---|---|---|---|---|---|",
    ]
    names = sorted({key(row) for row in rows})
    return head + [_line(name, [row for row in rows if key(row) == name]) for name in names]


def summary(rows: list[Row]) -> str:
    """How many promises were kept, in Markdown, by way of recording and by finding; broken ones."""
    lines = _table("recorded", rows, lambda row: row.recorded)
    lines += _table("finding", rows, lambda row: row.finding or "none")
    broken = [row for row in rows if row.is_told and not row.holds]
    promise = f"Promised are intervals of which {PROMISE:.0%} hold."
    which = "These reach no pair of runs:" if broken else "All reach a pair of runs."
    lines += ["", f"{promise} {which}", ""]
    for row in broken:
        high = "" if row.high is None else f"{row.high:.2f}"
        lines.append(
            f"- {row.program}, {row.recorded}: {row.finding} told "
            f"{row.mid:.2f} ({row.low:.2f}-{high}), measured "
            f"{row.measured:.2f} ({row.measured_min:.2f}-{row.measured_max:.2f})"
        )
    return "\n".join(lines).strip() + "\n"
