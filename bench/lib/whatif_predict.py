"""Predictions of `convoy replay` for what-ifs."""

import csv
import json
import subprocess
from dataclasses import asdict, fields
from pathlib import Path

from lib.measure import Failed
from lib.whatif_accuracy import Fidelity, Predicted
from lib.whatif_cases import Case


def has_verb(convoy: Path) -> bool:
    """This convoy can replay."""
    done = subprocess.run([str(convoy), "replay", "--help"], capture_output=True, check=False)
    return done.returncode == 0


def predict(
    case: Case, convoy: Path, scratch: Path, limit_s: float
) -> tuple[list[Predicted], list[Fidelity], list[str]]:
    """Records the base and asks all what-ifs of it; each by itself if there is no answer to all of
    them at once. Also returns why there is none to some."""
    queries = [what_if.query for what_if in case.what_ifs]
    try:
        return *_ask(case, queries, convoy, scratch, limit_s), []
    except Failed as failure:
        if len(queries) == 1:
            return [], [], [f"{case.name}: {queries[0]}: {failure}"]
    predicted, fidelity, failures = [], [], []
    for query in queries:
        try:
            more, fidelity = _ask(case, [query], convoy, scratch, limit_s)
            predicted += more
        except Failed as failure:
            failures.append(f"{case.name}: {query}: {failure}")
    return predicted, fidelity, failures


def _ask(
    case: Case, queries: list[str], convoy: Path, scratch: Path, limit_s: float
) -> tuple[list[Predicted], list[Fidelity]]:
    report = scratch / "replay.json"
    report.unlink(missing_ok=True)
    command = [str(convoy), "replay", "--quiet", "--format", "json", "--report-to", str(report)]
    for query in queries:
        command += ["--what-if", query]
    command += ["--", *case.base(scratch.parent)]
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"> {limit_s:.0f} s") from None
    if done.returncode != 0 or not report.exists():
        raise Failed(f"exit status {done.returncode}: {done.stderr[-300:].strip()}")
    predicted, fidelity = parse(case.name, report.read_text())
    return [row for row in predicted if row.what_if in queries], fidelity


def parse(program: str, text: str) -> tuple[list[Predicted], list[Fidelity]]:
    """Reads what `--format json` wrote: `fidelity` and `what_ifs`."""
    answer = json.loads(text)

    def percent(share: dict | None, bound: str) -> float | None:
        value = share and share[bound]
        return None if value is None else round(100 * value, 2)

    predicted = [
        Predicted(
            program,
            row["query"],
            row["method"],
            *(percent(row["saved_share"], b) for b in ("low", "mid", "high")),
        )
        for row in answer["what_ifs"]
    ]
    fidelity = [
        Fidelity(program, row["method"], row["recorded_ns"], row["replayed_ns"])
        for row in answer["fidelity"]
        if row["replayed_ns"] is not None
    ]
    return predicted, fidelity


def write(file: Path, about: str, rows: list[Predicted]) -> None:
    """Tab-separated; an empty cell is no number."""
    with open(file, "w", encoding="utf-8", newline="") as text:
        text.write(f"# {about}\n")
        table = csv.DictWriter(
            text, [f.name for f in fields(Predicted)], delimiter="\t", lineterminator="\n"
        )
        table.writeheader()
        table.writerows({k: "" if v is None else v for k, v in asdict(row).items()} for row in rows)
