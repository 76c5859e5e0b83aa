"""What looking at a score many times costs, in nats, and what the score says about the population at that price.

A search looks at candidates on the same rows, one after the other, and one score is reported at its end. The number of
looks matters less than what each of them disclosed to those who chose the next candidate. `docs/theory/price.md` has the
proofs; they follow from the theorem of `docs/theory/validity.md`, with a single claim.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, isfinite

from everhold.bounds.binomial import binomial_interval
from everhold.bounds.code import Code
from everhold.bounds.concentration import confidence_nats, kl_interval
from everhold.bounds.elementary import ln
from everhold.errors import SettingError, require_number, require_whole

__all__ = [
    "check_score",
    "count_range",
    "decimals",
    "fixed_nats",
    "kept_nats",
    "look_price",
    "mean_interval",
    "possible_scores",
    "scores_nats",
    "share_interval",
    "worth_rows",
]


def look_price(confidence: float, nats: float) -> float:
    """C of the one interval that is reported after so many nats were disclosed: `ln(2/δ) + ln(1/P)`.

    >>> round(look_price(0.95, 0.0), 2), round(look_price(0.95, 40.0), 2)
    (3.69, 43.69)
    """
    if not 0.0 < confidence < 1.0:
        raise SettingError(f"confidence lies strictly between 0 and 1, not at {confidence!r}")
    # 1 - confidence is exact for floats of at least one half; as decimals, 0.95 is meant, not its binary neighbour.
    return confidence_nats(float(1 - Fraction(repr(float(confidence))))) + nats


def fixed_nats(looks: int) -> float:
    """One of so many candidates is reported, all of which were fixed before the first look: `ln looks`.

    >>> round(fixed_nats(100), 2)
    4.61
    """
    _check_looks(looks, None)
    return ln(float(looks))


def kept_nats(looks: int, kept: int | None) -> float:
    """Of every look it was seen whether the candidate was kept, and nothing else: a sequence of bits of an unknown rate.

    With None it is not known how many were kept. Then every bit costs ln 2.

    >>> round(kept_nats(100, 15), 1), round(kept_nats(100, None), 1), round(kept_nats(100, 0), 1)
    (44.9, 69.3, 2.0)
    """
    _check_looks(looks, kept)
    return looks * ln(2.0) if kept is None else Code(bits=(looks, kept)).nats


def scores_nats(looks: int, values: int) -> float:
    """Every score was seen, each being one of so many values: `looks · ln values`.

    >>> round(scores_nats(100, 501), 1)
    621.7
    """
    _check_looks(looks, None)
    if values < 1:
        raise SettingError(f"a score has at least 1 possible value, not {values}")
    return looks * ln(float(values))


def count_range(score: float, rows: int) -> tuple[int, int]:
    """The counts of right rows that a reported share may stand for.

    A multiple of 1/rows stands for itself. Any other share was rounded: to the digits that it is written with.

    >>> count_range(0.83, 500), count_range(0.83, 517), count_range(1 / 3, 3)
    ((415, 415), (427, 431), (1, 1))
    """
    exact = Fraction(repr(score))
    count = round(exact * rows)
    if abs(exact - Fraction(count, rows)) <= Fraction(1, 10**15):
        return count, count
    half = Fraction(1, 2 * 10 ** decimals(score))
    low, high = max(ceil((exact - half) * rows), 0), min(floor((exact + half) * rows), rows)
    if low > high:
        raise SettingError(
            f"no count of {rows:,} rows gives a share of {score:g}. Expected a multiple of 1/{rows}, or that rounded. "
            "A mean of numbers needs low and high."
        )
    return low, high


def share_interval(score: float, rows: int, nats: float) -> tuple[float, float]:
    """All population shares that are possible at this price, where `score` is the share of right rows.

    Each end fails with probability at most e^-nats, under the conditions of `binomial.tail_refutes`.

    >>> low, high = share_interval(0.83, 500, 3.6889)  # Clopper and Pearson: 0.7941 to 0.8619
    >>> round(low, 4), round(high, 4)
    (0.7941, 0.8619)
    """
    return binomial_interval(*count_range(score, rows), rows, nats)


def mean_interval(score: float, rows: int, nats: float, *, low: float, high: float) -> tuple[float, float]:
    """The same for the mean of numbers between `low` and `high`, by Chernoff's bound; `score` is not rounded.

    >>> a, b = mean_interval(1.2, 500, 3.6889, low=0.0, high=4.0)
    >>> round(a, 2), round(b, 2)
    (0.99, 1.43)
    """
    width = Fraction(high) - Fraction(low)
    share = float((Fraction(score) - Fraction(low)) / width)
    below, above = kl_interval(max(share - 1e-15, 0.0), min(share + 1e-15, 1.0), nats / rows)
    size = 1e-15 * (abs(low) + abs(high))
    return max(low + below * float(width) - size, low), min(low + above * float(width) + size, high)


def decimals(number: float) -> int:
    """How many digits a number is written with after the decimal point.

    >>> decimals(0.83), decimals(1.0), decimals(1e-7)
    (2, 0, 7)
    """
    exponent = Decimal(repr(float(number))).normalize().as_tuple().exponent
    return max(-int(exponent), 0)


def worth_rows(rows: int, one_look: float, width: float) -> float:
    """About how many rows, looked at once, give an interval of this width, if all rows give one of `one_look`.

    >>> round(worth_rows(500, 0.1, 0.5))
    20
    """
    return rows if width <= 0.0 else rows * (one_look / width) ** 2


def check_score(score: float, rows: int, low: float | None, high: float | None) -> None:
    """Raise SettingError unless rows could have given this score."""
    require_number(score, "score")
    require_whole(rows, "rows")
    if not 1 <= rows <= 2**33:
        raise SettingError(f"rows is {rows!r}. Expected a whole number between 1 and {2**33}.")
    if (low is None) != (high is None):
        raise SettingError("low and high belong together: the ends of the range of a mean of numbers.")
    if low is None or high is None:
        if not 0.0 <= score <= 1.0:
            raise SettingError(
                f"score is {score!r}. Expected the share of right rows, between 0 and 1. For a mean of numbers say low and "
                "high: the ends of what a single row's number can be, from public facts."
            )
        return
    for value, name in ((low, "low"), (high, "high")):
        require_number(value, name)
        if not isfinite(value):
            raise SettingError(f"{name} is {value!r}. Expected a finite number.")
    if not low < high:
        raise SettingError(f"low is {low!r} and high is {high!r}. Expected low < high.")
    if not low <= score <= high:
        raise SettingError(f"score is {score!r}. Expected a number between low = {low!r} and high = {high!r}.")


def possible_scores(rows: int, digits: int | None, low: float | None, high: float | None) -> float:
    """How many different scores can be shown; infinite for a mean of numbers shown to no stated number of digits.

    >>> possible_scores(500, None, None, None), possible_scores(500, 2, None, None), possible_scores(500, 2, 0.0, 4.0)
    (501, 101, 402)
    """
    if digits is not None:
        require_whole(digits, "digits")
        if not 0 <= digits <= 15:
            raise SettingError(f"digits is {digits!r}. Expected a number of digits between 0 and 15.")
    if low is None or high is None:
        return rows + 1 if digits is None else min(rows + 1, 10**digits + 1)
    return inf if digits is None else floor((Fraction(high) - Fraction(low)) * 10**digits) + 2


def _check_looks(looks: int, kept: int | None) -> None:
    require_whole(looks, "looks")
    if not 1 <= looks <= 10**12:
        raise SettingError(f"looks is {looks!r}. Expected a whole number of at least 1.")
    if kept is not None:
        require_whole(kept, "kept")
        if not 0 <= kept <= looks:
            raise SettingError(f"kept is {kept!r}. Expected a number between 0 and looks = {looks}.")
