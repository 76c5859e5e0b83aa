"""Everhold's own sample size for asks, in both directions: rows needed for a precision, precision reached with rows.

Worst case over analysts and populations: a quiet answer is off by at most τ from the sample and the sample by at most
w from the population, so τ + w = ε; a surprise needs `γ = τ - w = ε - 2w` and there are at most k(γ) of them
(`surprises`). k surprises in T asks cost at most `worst_nats`, and n = 2C/w². It remains to choose w.
Readings and other acts have exact prices of their own: `bounds.plan`. See `docs/theory/sample_size.md`.
"""

from __future__ import annotations

from math import ceil, inf, sqrt
from typing import TYPE_CHECKING, Literal

from everhold.bounds.code import Code, automatic_price
from everhold.bounds.concentration import hoeffding_rows
from everhold.bounds.elementary import ln
from everhold.bounds.surprises import chi_square_at_most, entropic_surprises, gradient_surprises
from everhold.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "NOISE",
    "SHARE",
    "Rule",
    "deviations_of",
    "precision_reached",
    "precision_with_surprises",
    "rows_needed",
    "rows_with_surprises",
    "smallest_width",
    "worst_nats",
]

Rule = Literal["gradient", "corrective", "entropic"]

NOISE = 4.0
"""A promised precision keeps the tolerance above this many standard deviations of a mean of n rows."""
SHARE = 0.6
"""The default tolerance as a share of the sampling half-width (`docs/theory/tolerance.md`)."""

_MARGIN = 2.0**-15  # twice the rounding error of the grid of values
_SPLITS = 400  # grid of the search for the split of ε: every split is valid, a finer grid is only a little better


def deviations_of(ask: int, declared: int | None = None) -> float:
    """How many standard deviations the default tolerance of an ask is at least: as `mechanism.tolerance.Anytime`.

    >>> round(deviations_of(1), 2), round(deviations_of(1000), 2), round(deviations_of(1000, 1000), 2)
    (2.49, 3.9, 3.53)
    """
    if declared is not None and ask <= declared:
        return min(max(sqrt(1.8 * ln(float(declared))), 1.5), NOISE)
    return min(sqrt(2.0 * ln(2.0 * ask + 20.0)), NOISE)


def worst_nats(rounds: float, surprises: int, failure_probability: float, *, declared: bool = False, cell: int = 1) -> float:
    """The largest price of the interval of any of T asks, after at most k surprises that each lie `cell` cells out.

    The automatic price (`code.automatic_price`) at ask T. Of *when* the surprises came, only the number counts here: the
    parts F and B of the code are functions of it, and A, by gaps, is left out, which can only raise the price. A cell
    costs at most `ln(4 j(j+1))`, the part of its code that falls with the distance. For `cell` = 1 and cells of half a
    tolerance this is the worst case: a surprise further out reduces χ² by more than it adds in nats.

    Args:
        rounds: T.
        surprises: k; of T asks at most T - 1 come before the last.
        failure_probability: δ.
        declared: whether the session declared `rounds=T`.
        cell: j.
    """
    t = _whole(rounds, "rounds")
    k = min(surprises, t - 1)
    cells = k * ln(4.0 * cell * (cell + 1.0))
    worst = Code(t if declared else None, t - 1, k, t - 1 if k else 0, inf if k else 0.0, cells)
    return automatic_price(failure_probability, worst)


def rows_needed(
    half_width: float,
    *,
    rounds: float,
    density: float,
    failure_probability: float = 0.05,
    rule: Rule = "corrective",
) -> int:
    """Rows that guarantee the half-width ε (on the [-1, 1] scale) for any T adaptive asks.

    With probability 1-δ over the rows. Assumes independent rows, a population that is λ-dense in the prior, a sketch whose
    estimates are exact over the prior, and a rule with a proved bound on surprises: `Gradient(step="gap")`,
    `Corrective(proved=True)` or `Entropic(proved=True)`, with exact projections.

    >>> f"{rows_needed(0.2, rounds=1e6, density=0.5):.2e}"
    '9.97e+05'
    """
    if not 0.0 < half_width <= 2.0:
        raise SettingError(f"a half-width on the [-1, 1] scale lies in (0, 2], not at {half_width!r}")
    best = inf
    for i in range(1, _SPLITS):
        w = 0.5 * half_width * i / _SPLITS
        tau = half_width - w - _MARGIN
        if tau <= w:
            continue
        k = _most_surprises(density, tau - w, rule)
        nats = worst_nats(rounds, int(min(k, 2**62)), failure_probability)
        best = min(best, max(hoeffding_rows(nats, w), ceil((NOISE / tau) ** 2)))
    if best == inf:
        raise SettingError(f"a half-width of {half_width!r} is below what the grid of values resolves")
    return int(best)


def precision_reached(
    rows: float,
    *,
    rounds: float,
    density: float,
    failure_probability: float = 0.05,
    rule: Rule = "corrective",
) -> float:
    """The inverse of `rows_needed`: the half-width guaranteed with n rows, rounded up; `inf` if there is none ≤ 2."""
    n = _whole(rows, "rows")

    def enough(width: float) -> bool:
        needed = rows_needed(width, rounds=rounds, density=density, failure_probability=failure_probability, rule=rule)
        return needed <= n

    return smallest_width(enough)


def rows_with_surprises(
    half_width: float, *, rounds: float, surprises: int, failure_probability: float = 0.05, cell: int = 4
) -> int:
    """Rows that are enough *if* there are only k surprises, as in a session with a fitting prior.

    For asks with the default tolerance, without a declared number of them, and a reference as large as the sample; assumes
    that every surprise is `cell` cells beyond the tolerance. There is no guarantee about k.

    >>> rows_with_surprises(0.2, rounds=1e6, surprises=8)
    21633
    """
    if not 0.0 < half_width <= 2.0:
        raise SettingError(f"a half-width on the [-1, 1] scale lies in (0, 2], not at {half_width!r}")
    times_root = _width_times_root_rows(rounds, surprises, failure_probability, cell)
    n = ceil((times_root / half_width) ** 2)
    while times_root / sqrt(n) > half_width:
        n += 1
    return n


def precision_with_surprises(
    rows: float, *, rounds: float, surprises: int, failure_probability: float = 0.05, cell: int = 4
) -> float:
    """The half-width (on the [-1, 1] scale) of n rows *if* there are only k surprises; see `rows_with_surprises`."""
    n = _whole(rows, "rows")
    return _width_times_root_rows(rounds, surprises, failure_probability, cell) / sqrt(n) * (1.0 + 1e-12)


def _width_times_root_rows(rounds: float, surprises: int, failure_probability: float, cell: int) -> float:
    """(τ + w)·√n: w·√n = sqrt(2C), and τ is the larger of its share of w and the noise of two means of n rows."""
    t = _whole(rounds, "rounds")
    w = sqrt(2.0 * worst_nats(rounds, surprises, failure_probability, cell=cell))
    return w + max(SHARE * w, deviations_of(t) * sqrt(2.0)) + _MARGIN


def smallest_width(enough: Callable[[float], bool]) -> float:
    """The smallest half-width in (0, 2] for which `enough(width)` is true, rounded up; `inf` if it is false at 2."""
    if not enough(2.0):
        return inf
    low, high = 0.0, 2.0
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        if enough(middle):
            high = middle
        else:
            low = middle
        if high < 1e-9:
            break
    return high


def _most_surprises(density: float, gap: float, rule: Rule) -> float:
    if rule == "entropic":
        return entropic_surprises(density, gap)
    if rule in ("gradient", "corrective"):
        return gradient_surprises(chi_square_at_most(density), gap)
    raise SettingError(f"the rule is 'gradient', 'corrective' or 'entropic', not {rule!r}")


def _whole(value: float, what: str) -> int:
    if not (value >= 1 and value == int(value)):
        raise SettingError(f"the number of {what} is a whole number of at least 1, not {value!r}")
    return int(value)
