"""A certified verdict from two noisy counts: which of two yes/no questions is true more often in the population.

Rows on which both questions agree say nothing; let k be the number of rows for which only the first is true, l the number
for which only the second is. Both are released with Gaussian noise, and the test is an exponential inequality for a linear
function of both, with the noise integrated. `docs/theory/privacy.md#verdicts` has the proof.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

__all__ = ["favours_first", "verdict_rate"]

_GRID = 2**20


def verdict_rate(nats: float, rows: int, foreseen: float, deviation: float) -> Fraction:
    """λ, the rate of the test, from public facts: the best one if the foreseen share of rows differs. On a grid, above 0.

    Args:
        nats: C, the price of the verdict.
        rows: n.
        foreseen: the share of rows on which the two questions are foreseen to differ.
        deviation: σ of the noise on each count, in rows.

    >>> float(verdict_rate(8.0, 10_000, 0.2, 80.0))
    0.03287982940673828
    """
    variance = max(rows * foreseen, 1.0) + 2.0 * deviation * deviation
    return Fraction(max(round(min(sqrt(2.0 * nats / variance), 1.0) * _GRID), 1), _GRID)


def favours_first(
    only_first: Fraction, only_second: Fraction, *, rate: Fraction, deviation: Fraction, known_rows: int, nats: float
) -> bool:
    """Whether two noisy counts refute "the first is true at most as often as the second", with failure probability e^(-C).

    With κ = λ²/2: (λ-κ)k - (λ+κ)l - λ·known - σ²(λ²+κ²) ≥ C. In whole numbers and fractions throughout.

    Args:
        only_first, only_second: k and l, with noise.
        rate: λ, fixed before the counts.
        deviation: σ of the noise on each.
        known_rows: how many rows the analyst may know: all of them may favour the first.
        nats: C.

    >>> noise = {"rate": Fraction(1, 30), "deviation": Fraction(80), "known_rows": 0, "nats": 8.0}
    >>> [favours_first(Fraction(1_000 + more), Fraction(1_000), **noise) for more in (480, 500)]
    [False, True]
    """
    squared = rate * rate / 2
    evidence = (rate - squared) * only_first - (rate + squared) * only_second - rate * known_rows
    return evidence - deviation * deviation * (rate * rate + squared * squared) >= Fraction(nats)
