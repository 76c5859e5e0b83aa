"""Gaussian noise on every answer: differential privacy's way to adaptive questions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from everhold.baselines.rival import (
    ANSWER_ONE,
    BaselineContext,
    IntervalAnswer,
    Turn,
    around,
    on_answer_grid,
    public_mean,
    refuse,
)
from everhold.bounds.rivals import Noise, Transfer, gaussian_noise
from everhold.errors import SettingError, require_whole
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from fractions import Fraction

    from everhold.queries.grid import GridValues

__all__ = ["GaussianNoise"]

_noise = lru_cache(maxsize=64)(gaussian_noise)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """The mean of all rows plus Gaussian noise, its size chosen for the narrowest guarantee over T questions.

    Args:
        rounds: T, fixed in advance.
        transfer: by which theorem privacy on the sample becomes accuracy on the population.
        deviation: the noise's standard deviation on the [-1, 1] scale, instead of the chosen one; nothing is guaranteed
            then.
        seed: of the noise. Whoever knows it sees through the noise.
    """

    rounds: int
    transfer: Transfer = "jung"
    deviation: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole(self.rounds, "rounds")
        if self.rounds < 1:
            raise SettingError(f"the number of rounds is at least 1, not {self.rounds!r}")

    name = "Gaussian noise"

    @property
    def guarantee(self) -> str:
        """What its intervals rest on."""
        if self.deviation is not None:
            return "none"
        by = "Jung et al. 2020" if self.transfer == "jung" else "Rogers et al. 2020"
        return f"differential privacy, transferred ({by})"

    def setting(self, site: BaselineContext) -> Noise:
        """The noise, and the half-width that it guarantees."""
        if self.deviation is not None:
            return Noise(self.deviation, inf)
        return _noise(
            site.rows, rounds=self.rounds, failure_probability=site.failure_probability, transfer=self.transfer
        )

    def begin(self, site: BaselineContext) -> None:
        """Nothing to remember."""

    def allow(self, memory: None, t: int, site: BaselineContext) -> None:
        """Refuse beyond T."""
        if t > self.rounds:
            raise refuse(f"the noise was made for {self.rounds:,} questions.", asked=min(self.setting(site).width, 2.0))

    def guess(self, memory: None, values: GridValues, t: int, site: BaselineContext) -> Fraction:
        """The public rows' own mean; it plays no part in the answer."""
        return public_mean(values, site)

    def part(self, t: int, site: BaselineContext) -> None:
        """All rows."""

    def decide(self, turn: Turn, mean: Fraction) -> int:
        """Mean plus noise."""
        noise = stream_rng(self.seed, "gaussian", turn.round).normal(0.0, self.setting(turn.site).deviation)
        return on_answer_grid(float(mean) + noise)

    def tell(self, turn: Turn, cell: int | None) -> IntervalAnswer:
        """The noisy answer, and the one half-width of them all."""
        return around((cell or 0) / ANSWER_ONE, self.setting(turn.site).width, turn)

    def learn(self, turn: Turn, cell: int | None) -> None:
        """Nothing is learnt."""

    def nats(self, memory: None, t: int, site: BaselineContext) -> float:
        """The guarantee is not made of nats."""
        return 0.0

    def tolerance(self, memory: None, site: BaselineContext) -> float:
        """The rows speak every time."""
        return 0.0
