"""The files of a gate: its cases and the outcomes of its candidates, for the owner alone; digests under the owner's key."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.gain import SCORE_ONE
from everhold.data.schema import ColumnSchema, Schema
from everhold.data.table import RowTable
from everhold.errors import InvalidOutcomes, LedgerError
from everhold.ledger.safe_files import read_json, to_json, write_atomic
from everhold.priors.pool import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.ledger.registry import Registry

__all__ = [
    "SCHEMA",
    "Cases",
    "artifact_digest",
    "beside",
    "blinded",
    "nothing_known",
    "outcomes_digest",
    "private_table",
    "unblinded",
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
    return Pool(RowTable({"case": np.array([0.0]), "outcome": np.array([0.5])}), None, float(cases))


def private_table(cases: Sequence[str], steps: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """The private rows of a gate's study: the ids as numbers, and the first incumbent's outcomes."""
    numbers = [int.from_bytes(hashlib.sha256(case.encode("utf-8", "surrogatepass")).digest()[:6], "big") for case in cases]
    return {"case": np.array(numbers, dtype=np.float64), "outcome": steps[: len(cases)] / SCORE_ONE}


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a gate, for the owner alone.

    Attributes:
        sealed, visible: their ids, in the order in which outcomes are kept.
        expected: what is expected of each, where that was given; it tells sets with the same ids apart.
    """

    sealed: list[str]
    visible: list[str]
    expected: dict[str, Any] | None

    @property
    def everything(self) -> list[str]:
        """All ids, sealed cases first."""
        return [*self.sealed, *self.visible]

    def digests(self, registry: Registry) -> dict[str, NDArray[np.uint64]]:
        """How a registry knows them: with what is expected, where that was given, and by their ids."""
        plain = {case: unicodedata.normalize("NFC", case).strip().casefold() for case in self.everything}
        by_id = {"ids": registry.digests(f"case\n{name}" for name in plain.values())}
        if self.expected is None:
            return by_id
        results = {case: json.dumps(self.expected.get(case), sort_keys=True, default=str) for case in plain}
        by_result = registry.digests(f"case\n{name}\n{results[case]}" for case, name in plain.items())
        return {"expected": by_result, **by_id}

    def save(self, path: Path) -> None:
        """Write them."""
        content = {"cases": self.everything, "sealed": len(self.sealed), "expected": self.expected}
        write_atomic(beside(path, "cases"), to_json(content), private=True)

    @classmethod
    def load(cls, path: Path) -> Cases:
        """Read them again."""
        place = beside(path, "cases")
        try:
            kept = read_json(place)
            cases = [str(case) for case in kept["cases"]]
            return cls(cases[: kept["sealed"]], cases[kept["sealed"] :], kept["expected"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LedgerError(
                f"{place} cannot be read ({type(error).__name__}). It holds the ids of the cases: restore it from a backup."
            ) from None


def outcomes_digest(key: bytes, values: NDArray[Any]) -> str:
    """What outcomes are known by. Without the key nobody can test a guess about them.

    `blinded` outcomes begin with random numbers, so that equal ones have different digests: the record must not show which
    candidates do the same on the sealed cases.
    """
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


def blinded(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Outcomes behind two random numbers."""
    return np.concatenate([np.frombuffer(secrets.token_bytes(16), dtype=np.int64), steps])


def unblinded(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The outcomes again."""
    return values[2:]
