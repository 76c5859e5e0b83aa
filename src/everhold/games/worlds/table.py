"""A finite real table as the population."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.data.source import as_table
from everhold.errors import SettingError
from everhold.games.world import World, atoms_of

__all__ = ["real_table"]


def real_table(table: object, *, label: str, above: float, name: str = "table", most: int = 20_000, seed: int = 0) -> World:
    """A real table as the population: its numeric columns scaled to [-1, 1], one of them as the label.

    Rows with a missing value are left out; they are not part of this population.

    Args:
        table: anything that `eh.Reference` accepts.
        label: the column for the label.
        above: the label is 1 if the column exceeds this, otherwise -1.
        name: its name in tables.
        most: the largest number of rows to keep, drawn at random; computing a truth takes a pass over all of them.
        seed: the seed of that draw.

    >>> shoes = {"size": np.arange(100), "price": np.arange(100) % 7}
    >>> world = real_table(shoes, label="price", above=3)
    >>> world.features, round(world.truth(lambda rows: rows["y"] > 0), 2)
    (1, 0.42)
    """
    rows = as_table(table, what="the table")
    numbers = _numbers(rows)
    if label not in numbers:
        raise SettingError(f"the table has no numeric column {label!r}. Expected one of {', '.join(numbers) or 'none'}.")
    whole = np.all([np.isfinite(column) for column in numbers.values()], axis=0)
    picked = np.flatnonzero(whole)
    if len(picked) > most:
        picked = np.sort(np.random.default_rng(seed).choice(picked, most, replace=False))
    others = [column[picked] for key, column in numbers.items() if key != label]
    if not others or not len(picked):
        raise SettingError("the table needs a numeric column besides the label, and rows without missing values.")
    x = np.stack([_scaled(column) for column in others], axis=1)
    return atoms_of(name, x, np.where(numbers[label][picked] > above, 1, -1), density=0.5)


def _numbers(rows: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float64]]:
    return {
        name: column.astype(np.float64) for name, column in rows.items() if column.ndim == 1 and column.dtype.kind in "buif"
    }


def _scaled(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks scaled to [-1, 1], so that one extreme value does not compress the others."""
    order = np.searchsorted(np.sort(column), column, side="left") / max(len(column) - 1, 1)
    return 2.0 * order - 1.0
