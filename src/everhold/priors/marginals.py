"""A prior of independent columns with declared marginals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.errors import PriorError, require_number
from everhold.priors.sampler import Sampler

__all__ = ["Marginals", "Uniform", "uniform"]

Draw = Callable[[np.random.Generator, int], "NDArray[Any]"]


@dataclass(frozen=True, slots=True)
class Uniform:
    """The uniform distribution on [low, high]; on whole numbers if both ends are whole."""

    low: float
    high: float

    def __post_init__(self) -> None:
        require_number(self.low, "uniform's low end")
        require_number(self.high, "uniform's high end")
        if not self.low < self.high:
            raise PriorError(f"uniform(low, high) needs low < high, not {self.low!r} and {self.high!r}.")

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """`size` independent draws."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return rng.integers(self.low, self.high, size=size, endpoint=True)
        return rng.uniform(self.low, self.high, size=size)


def uniform(low: float, high: float) -> Uniform:
    """The uniform distribution from low to high; on whole numbers if both ends are written as whole numbers.

    >>> uniform(18, 99)
    Uniform(low=18, high=99)
    """
    return Uniform(low, high)


class Marginals(Sampler):
    """Independent columns, each with a declared distribution.

    Args:
        columns: name to `eh.uniform(low, high)`, a list of equally likely values, a mapping of value to probability,
            or a function `draw(rng, size)`.
        size: rows to draw once as the pool; None draws fresh rows every round.

    >>> prior = Marginals({"age": uniform(18, 99), "smoker": {True: 0.2, False: 0.8}}, size=1000)
    >>> prior.describe()
    '1,000 draws from declared marginals of age, smoker'
    """

    def __init__(self, columns: Mapping[str, object], *, size: int | None = 100_000) -> None:
        if not columns:
            raise PriorError("no columns are declared. Expected at least one, as in {'age': eh.uniform(18, 99)}.")
        self._names = list(columns)
        draws = {name: _as_draw(name, given) for name, given in columns.items()}
        super().__init__(lambda rng, count: {name: draw(rng, count) for name, draw in draws.items()}, size=size)

    def describe(self) -> str:
        """A one-line description."""
        return super().describe().replace("a sampler", "declared marginals") + f" of {', '.join(self._names)}"


def _as_draw(name: str, given: object) -> Draw:
    if isinstance(given, Uniform):
        return given.draw
    if isinstance(given, Mapping):
        values = np.array(list(given.keys()))
        try:
            chances = np.array(list(given.values()), dtype=np.float64)
        except (TypeError, ValueError):
            raise PriorError(f"the probabilities of column {name!r} must be numbers.") from None
        if not (len(values) and np.all(chances >= 0) and abs(chances.sum() - 1.0) < 1e-9):
            raise PriorError(f"the probabilities of column {name!r} must be at least 0 and sum to 1.")
        exact = chances / chances.sum()
        return lambda rng, size: values[rng.choice(len(values), size=size, p=exact)]
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) and len(given):
        array = np.array(given)
        return lambda rng, size: array[rng.integers(len(array), size=size)]
    if callable(given):
        return given
    raise PriorError(
        f"column {name!r} is declared by {type(given).__name__}. Expected eh.uniform(low, high), a list of values, a "
        "mapping of value to probability, or a function draw(rng, size)."
    )
