"""The hidden labels of a contest: a file for its owner alone, and which of its rows are sealed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import DataError, LedgerError, SettingError
from everhold.ledger.safe_files import read_json
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HiddenLabels", "checked_rows", "sealed_digest", "sealed_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class HiddenLabels:
    """Where the labels are, and what they must fit.

    Attributes:
        path: of the file.
        sealed: which rows are sealed.
        digest: of the sealed rows' labels when the contest was made; None where no row is sealed.
    """

    path: Path
    sealed: NDArray[np.bool_]
    digest: str | None

    def read(self) -> NDArray[Any]:
        """The labels; sealed ones are those that the contest was made with."""
        try:
            kept = read_json(self.path)
            labels = np.array(kept["labels"])
        except (ValueError, KeyError, TypeError):
            raise LedgerError(f"{self.path} cannot be read as this contest's labels.") from None
        except FileNotFoundError:
            raise LedgerError(
                f"{self.path} is missing: only the owner of the contest can score. The board can be read without it."
            ) from None
        fits = len(labels) == len(self.sealed)
        if self.digest is not None and fits:
            fits = sealed_digest(kept.get("salt", ""), labels[self.sealed]) == self.digest
        if not fits:
            raise LedgerError(f"{self.path} has other labels than the contest was made with. Restore it from a backup.")
        return labels


def checked_rows(y: Any, ids: Any, sealed: float) -> tuple[NDArray[Any], list[str]]:
    """Labels, and what their rows are called, if a part of them can be sealed."""
    if not 0.0 <= sealed <= 0.9:
        raise SettingError(f"sealed is {sealed!r}. Expected a part of the rows between 0 and 0.9, for example 0.5.")
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise DataError(f"the labels have shape {labels.shape}. Expected one label for each row: shape (rows,).")
    if sealed and not 0 < round(sealed * len(labels)) < len(labels):
        raise SettingError(
            f"sealed={sealed:g} of {len(labels):,} rows leaves no row on one side. Expected more rows, "
            "or sealed=0 (--sealed 0)."
        )
    names = [str(one) for one in (range(len(labels)) if ids is None else ids)]
    if len(names) != len(labels):
        raise DataError(
            f"there are {len(labels):,} labels and {len(names):,} ids. Expected as many ids as labels, each once."
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"the id {name!r} is there twice. Expected as many ids as labels, each once.")
        seen.add(name)
    return labels, names


def sealed_rows(count: int, sealed: float, seed: int) -> NDArray[np.bool_]:
    """Which rows are sealed: drawn at random, whatever their labels are."""
    rows = np.zeros(count, dtype=bool)
    rows[stream_rng(seed, "sealed").permutation(count)[: round(sealed * count)]] = True
    return rows


def sealed_digest(salt: str, labels: NDArray[Any]) -> str:
    """A digest of sealed labels; the salt is kept with them."""
    return hashlib.sha256(json.dumps([salt, labels.tolist()]).encode()).hexdigest()
