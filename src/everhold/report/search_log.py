"""The log of a search that keeps or discards its candidates: how many looks it was, and what was reported.

Read are files with a line for each candidate: tab-separated, as loops in the style of autoresearch write them (commit,
metric, memory, status, description), comma-separated, or JSON, one object a line.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from everhold.bounds.looks import decimals
from everhold.errors import DataError, did_you_mean

__all__ = ["SearchLog", "read_search_log"]

_MOST_BYTES = 64 * 2**20
_METRICS = (
    *("accuracy", "acc", "val_accuracy", "val_acc", "test_accuracy", "score", "val_score", "pass_rate", "metric", "value"),
    *("val_bpb", "bpb", "val_loss", "loss", "error", "reward", "result"),
)
_STATUSES = ("status", "decision", "verdict", "outcome", "action", "kept", "keep", "accepted", "promoted")
_KEPT = {"keep", "kept", "accept", "accepted", "promote", "promoted", "improved", "best", "new_best", "yes", "true", "1"}
_DISCARDED = {"discard", "discarded", "reject", "rejected", "revert", "reverted", "no", "false", "0", "worse", "baseline"}
_CRASHED = {"crash", "crashed", "error", "failed", "fail", "timeout", "oom", ""}
_NOT_SHARES = ("bpb", "loss", "perplexity", "ppl", "bits", "rmse", "mae", "mse")


@dataclass(frozen=True, slots=True)
class SearchLog:
    """What a log says.

    Attributes:
        looks: how many candidates it has, those that crashed included.
        kept: how many were kept; None without a column that says so.
        crashed: how many crashed. They count as looks at which nothing was kept.
        score: the metric of the candidate that was kept last; None if there is none.
        digits: how many digits after the decimal point the scores are written with at most.
        metric, status: the names of the columns that were read.
    """

    looks: int
    kept: int | None
    crashed: int
    score: float | None
    digits: int
    metric: str
    status: str | None

    @property
    def is_share(self) -> bool:
        """Whether the metric's name allows it to be a share of right rows."""
        return not any(word in self.metric.lower() for word in _NOT_SHARES)

    def __str__(self) -> str:
        if self.kept is None:
            return f"{self.looks:,} looks; no column says which were kept; scores from column {self.metric!r}"
        counts = f"{self.looks:,} looks, {self.kept:,} kept, {self.crashed:,} crashed (column {self.status!r})"
        return f"{counts}; the last one kept has {self.metric!r} = {self.score if self.score is not None else 'none'}"


def read_search_log(path: str | Path, *, metric: str | None = None, status: str | None = None) -> SearchLog:
    """Read a log.

    Args:
        path: the file.
        metric: the column with the score; found by its name if left out.
        status: the column that says keep, discard or crash; found by its name if left out.

    Raises:
        DataError: the file cannot be read as a log.
    """
    records = _records(Path(path))
    if not records:
        raise DataError(f"{path} has no candidates. Expected a line for each, below a line with the names of the columns.")
    names = list(dict.fromkeys(name for record in records for name in record))
    scores = _column(names, metric, _METRICS, "metric", path)
    if scores is None:
        raise DataError(
            f"{path} has no column that looks like a score ({', '.join(names)}). Say which: metric=..., --metric."
        )
    statuses = _column([name for name in names if name != scores], status, _STATUSES, "status", path)
    kept = crashed = digits = 0
    last: float | None = None
    for number, record in enumerate(records, start=1):
        value = _number(record.get(scores))
        digits = max(digits, 0 if value is None else _written(record[scores]))
        if statuses is None:
            continue
        word = str(record.get(statuses, "")).strip().lower()
        if word in _KEPT:
            kept, last = kept + 1, value if value is not None else last
        elif word in _CRASHED:
            crashed += 1
        elif word not in _DISCARDED:
            raise DataError(f"{path}: candidate {number} has the {statuses} {word!r}. Expected keep, discard or crash.")
    return SearchLog(len(records), None if statuses is None else kept, crashed, last, digits, scores, statuses)


def _records(path: Path) -> list[dict[str, Any]]:
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path} is larger than {_MOST_BYTES // 2**20} MB. Expected the log of a search.")
    text = path.read_text(encoding="utf-8-sig")
    if text.lstrip()[:1] in ("{", "["):
        return _json_records(path, text)
    head = text.lstrip("\r\n").partition("\n")[0]
    separator = max("\t,;|", key=head.count)
    if not head.count(separator):
        raise DataError(f"{path} has a first line without tabs or commas. Expected the names of the columns.")
    try:
        lines = io.StringIO(text.lstrip("\r\n"))
        if separator == "\t":  # a description may hold a lone quotation mark
            rows = csv.DictReader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
        else:
            rows = csv.DictReader(lines, delimiter=separator)
        return [{str(name).strip(): value for name, value in row.items() if name} for row in rows]
    except csv.Error as error:
        raise DataError(
            f"{path} cannot be read as a table ({error}). Expected tab-separated lines, CSV or JSON lines."
        ) from None


def _json_records(path: Path, text: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
        records = content if isinstance(content, list) else [content]
    except ValueError:
        try:
            records = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise DataError(f"{path} begins like JSON and cannot be read as such. Expected one object a line.") from None
    if not all(isinstance(record, dict) for record in records):
        raise DataError(f"{path} has JSON other than objects. Expected one object for each candidate.")
    return records


def _column(names: list[str], given: str | None, known: tuple[str, ...], what: str, path: str | Path) -> str | None:
    if given is not None:
        if given not in names:
            near = did_you_mean(given, names)
            raise DataError(f"{path} has no column {given!r} for the {what}: it has {', '.join(names)}.{near}")
        return given
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in known if name in lower), None)


def _number(given: object) -> float | None:
    if given is None or isinstance(given, bool):
        return None
    try:
        value = float(str(given).strip().rstrip("%"))
    except ValueError:
        return None
    if str(given).strip().endswith("%"):
        value /= 100.0
    return value if isfinite(value) else None


def _written(given: object) -> int:
    """Digits after the decimal point, as written: 0.970 has three."""
    text = str(given).strip()
    if text.endswith("%"):
        return 2 + _written(text[:-1])
    if isinstance(given, float) or "e" in text.lower():
        return decimals(float(text))
    return len(text.partition(".")[2])
