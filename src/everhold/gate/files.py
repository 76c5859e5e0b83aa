"""The files of a gate: its cases and the outcomes of its candidates, for the owner alone; digests under the owner's key."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.gain import STEPS
from everhold.data.schema import ColumnSchema, Schema
from everhold.data.table import Table
from everhold.errors import InvalidOutcomes, LedgerError
from everhold.ledger.files import write_atomic
from everhold.priors.pool import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "SCHEMA",
    "artifact_digest",
    "beside",
    "load_cases",
    "nothing_known",
    "outcomes_digest",
    "private_table",
    "save_cases",
]

SCHEMA = Schema(
    (ColumnSchema("case", "number", 0.0, 2.0**52, whole=True), ColumnSchema("outcome", "number", 0.0, 1.0, missing=False))
)
"""Of the table that a gate's study is made of."""


def beside(path: Path, what: str) -> Path:
    """A file of the gate beside its study."""
    return path.with_name(f"{path.name}.{what}")


def nothing_known(cases: int) -> Pool:
    """The public side: nothing is known of the cases. Gates ask nothing that uses it."""
    return Pool(Table({"case": np.array([0.0]), "outcome": np.array([0.5])}), None, float(cases))


def private_table(cases: Sequence[str], steps: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """The private rows of a gate's study: the ids as numbers, and the first incumbent's outcomes."""
    numbers = [int.from_bytes(hashlib.sha256(case.encode("utf-8", "surrogatepass")).digest()[:6], "big") for case in cases]
    return {"case": np.array(numbers, dtype=np.float64), "outcome": steps[: len(cases)] / STEPS}


def save_cases(path: Path, cases: Sequence[str], sealed: int) -> None:
    """Write the ids, the sealed cases first."""
    content = json.dumps({"format": 1, "cases": list(cases), "sealed": sealed}, ensure_ascii=False)
    write_atomic(beside(path, "cases"), content.encode(), private=True)


def load_cases(path: Path) -> tuple[list[str], list[str]]:
    """The sealed and the visible cases, in their order."""
    place = beside(path, "cases")
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
        if kept["format"] != 1:
            raise ValueError("another format")
        cases = [str(one) for one in kept["cases"]]
        return cases[: kept["sealed"]], cases[kept["sealed"] :]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"{place} cannot be read ({type(error).__name__}). It holds the ids of the cases: restore it from a backup."
        ) from None


def outcomes_digest(key: bytes, values: NDArray[Any]) -> str:
    """What outcomes are known by. Without the key nobody can test a guess about them."""
    return hmac.new(key, b"outcomes\n" + np.ascontiguousarray(values, dtype=">i8").tobytes(), hashlib.sha256).hexdigest()


def artifact_digest(key: bytes, artifact: bytes | str | Path | None) -> str | None:
    """What a candidate's file is known by."""
    if artifact is None:
        return None
    if isinstance(artifact, bytes):
        content = artifact
    else:
        try:
            content = Path(artifact).read_bytes()
        except OSError as error:
            raise InvalidOutcomes(f"{artifact} cannot be read ({error.strerror}). Expected the candidate's file.") from None
    return hmac.new(key, b"artifact\n" + content, hashlib.sha256).hexdigest()
