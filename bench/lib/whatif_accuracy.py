"""Predictions of what-ifs against their truth: errors, coverage and width of the intervals."""

import statistics
from dataclasses import dataclass
from typing import Iterable, Iterator

from lib.whatif_truth import Truth

# An error counts as small up to this, or up to the truth's own spread.
POINTS = 10.0
# A fix whose truth is noise must not be promised more.
MID_OF_NOTHING = 5.0
# All methods together, as convoy combines them.
COMBINED = "combined"


@dataclass(frozen=True)
class Predicted:
    """One method's answer, in percent of the run's wall time. All `None`: refused."""

    program: str
    what_if: str
    method: str
    low: float | None
    mid: float | None
    # `None` with a middle: nothing bounds it.
    high: float | None


@dataclass(frozen=True)
class Fidelity:
    """A recorded run, and the same replayed unchanged."""

    program: str
    method: str
    recorded_ns: float
    replayed_ns: float

    @property
    def error(self) -> float:
        """As a ratio: 0.05 is 5 % too long."""
        return self.replayed_ns / max(self.recorded_ns, 1) - 1


def combined(rows: list[Predicted]) -> Predicted | None:
    """The widest interval and the mean middle of one what-if, if convoy did not combine them."""
    if any(row.method == COMBINED for row in rows):
        return None
    given = [row for row in rows if row.mid is not None]
    if not given:
        return None
    highs = [row.high for row in given]
    return Predicted(
        given[0].program,
        given[0].what_if,
        COMBINED,
        min(row.low for row in given),
        statistics.mean(row.mid for row in given),
        None if None in highs else max(highs),
    )


def is_other_cpus(truth: Truth) -> bool:
    """The program on another number of CPUs: a ratio of speeds, judged apart."""
    return truth.what_if.startswith("cpus ")


def _by_method(
    truths: list[Truth], predicted: list[Predicted]
) -> dict[str, list[tuple[Truth, Predicted]]]:
    pairs: dict[str, list[tuple[Truth, Predicted]]] = {}
    for truth in truths:
        rows = [p for p in predicted if (p.program, p.what_if) == (truth.program, truth.what_if)]
        together = combined(rows)
        for row in [*rows, *([together] if together else [])]:
            if row.mid is not None:
                pairs.setdefault(row.method, []).append((truth, row))
    return pairs


def _high(row: Predicted) -> float:
    return 100.0 if row.high is None else row.high


def _errors(pairs: Iterable[tuple[Truth, Predicted]]) -> list[float]:
    return [abs(row.mid - truth.saved) for truth, row in pairs]


def _binary(truth: Truth) -> str:
    """The program without its arguments."""
    words = truth.base.removeprefix("taskset -c 0 ").split()
    return words[0] if words else truth.program


def _medians_of_programs(pairs: list[tuple[Truth, Predicted]]) -> list[float]:
    """Programs with many what-ifs must not outvote the others."""
    errors: dict[str, list[float]] = {}
    for truth, row in pairs:
        errors.setdefault(_binary(truth), []).append(abs(row.mid - truth.saved))
    return [statistics.median(of) for of in errors.values()]


def rows(truths: list[Truth], predicted: list[Predicted]) -> Iterator[str]:
    """One line for each what-if."""
    yield "| program | what-if | truth | min–max | spread | predicted | error | method |"
    yield "|---" * 8 + "|"
    for truth in truths:
        mine = [p for p in predicted if (p.program, p.what_if) == (truth.program, truth.what_if)]
        together = combined(mine)
        head = f"| {truth.program} | {truth.what_if} | {truth.saved:.1f} | "
        head += f"{truth.saved_min:.0f}–{truth.saved_max:.0f} | {truth.spread:.1f} | "
        for row in [*mine, *([together] if together and len(mine) > 1 else [])]:
            if row.mid is None:
                yield f"{head}refused | | {row.method} |"
            else:
                answer = f"{row.mid:.1f} ({row.low:.0f}–{_high(row):.0f})"
                yield f"{head}{answer} | {row.mid - truth.saved:+.1f} | {row.method} |"
        if not mine:
            yield f"{head}no answer | | |"


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def figures(
    truths: list[Truth], predicted: list[Predicted], fidelity: list[Fidelity]
) -> Iterator[str]:
    """The tables of figures of all what-ifs, by method."""
    asked = [truth for truth in truths if not is_other_cpus(truth)]
    others = [truth for truth in truths if is_other_cpus(truth)]
    if asked:
        yield from _of_what_ifs(asked, predicted)
    yield ""
    yield _row("method", "what", "answered", "error, median", "at most")
    yield "|---" * 5 + "|"
    for method, pairs in sorted(_by_method(others, predicted).items()):
        # The speed on the other CPUs, as a ratio of what it is and what was predicted.
        errors = [abs((100 - t.saved) / max(100 - p.mid, 1e-9) - 1) for t, p in pairs]
        yield _row(method, "other CPU counts", f"{len(pairs)} of {len(others)}", *_percent(errors))
    for method in sorted({f.method for f in fidelity}):
        errors = [abs(f.error) for f in fidelity if f.method == method]
        yield _row(method, "run unchanged", len(errors), *_percent(errors))


def _of_what_ifs(asked: list[Truth], predicted: list[Predicted]) -> Iterator[str]:
    spreads = [truth.spread for truth in asked]
    programs = len({_binary(truth) for truth in asked})
    yield f"{len(asked)} what-ifs on {programs} programs. Errors and widths are in points of the"
    yield f"base's wall time; the truth's own spread is {statistics.median(spreads):.1f} in the median and"
    yield f"{max(spreads):.1f} at most."
    yield ""
    heads = ["method", "answered", "error, median", "of programs' medians", "at most", "small"]
    heads += ["interval holds truth", "or its spread", "width, median", "fixes worth nothing"]
    yield _row(*heads)
    yield "|---" * len(heads) + "|"
    for method, pairs in sorted(_by_method(asked, predicted).items()):
        errors = _errors(pairs)
        small = [e <= max(POINTS, truth.spread) for e, (truth, _) in zip(errors, pairs)]
        held = [p.low <= t.saved <= _high(p) for t, p in pairs]
        nearly = [p.low - t.spread <= t.saved <= _high(p) + t.spread for t, p in pairs]
        noise = [p for t, p in pairs if abs(t.saved) <= t.noise]
        right = [p.low <= 0 and p.mid <= MID_OF_NOTHING for p in noise]
        yield _row(
            method,
            f"{len(pairs)} of {len(asked)}",
            f"{statistics.median(errors):.1f}",
            f"{statistics.median(_medians_of_programs(pairs)):.1f}",
            f"{max(errors):.1f}",
            _share(small),
            _share(held),
            _share(nearly),
            f"{statistics.median(_high(p) - p.low for _, p in pairs):.0f}",
            f"{sum(right)} of {len(right)}",
        )


def _percent(ratios: list[float]) -> tuple[str, str]:
    return f"{100 * statistics.median(ratios):.1f} %", f"{100 * max(ratios):.1f} %"


def _share(of: list[bool]) -> str:
    return f"{100 * sum(of) / len(of):.0f} %" if of else ""
