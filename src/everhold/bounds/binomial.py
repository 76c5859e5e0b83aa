"""Yes/no rows counted exactly: the binomial tail, its inversion, and verdicts from the rows on which two models differ.

Chernoff's `e^{-n kl}` wastes a factor of about `z·sqrt(2π)` on a count of coins. The functions here sum the tail instead,
by a continued fraction. They need values that are 0 or 1 for every draw: means over units, weights and fractions need
`concentration.kl_interval` or `fan`. See `docs/theory/exact_tail.md` and `docs/theory/verdicts.md`.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, log, log1p, sqrt

from everhold.bounds.concentration import SHARE_GRID, smallest_inside
from everhold.bounds.elementary import ln, ln_gamma
from everhold.errors import SettingError

__all__ = [
    "BET_STEPS",
    "bet_rate",
    "bet_refutes",
    "binomial_interval",
    "mcnemar_refutes",
    "paired_interval",
    "tail_refutes",
]

BET_STEPS = 2**10
"""A public bet L is a multiple of 1/BET_STEPS."""

_STEPS = 2**32
_MOST_RATE = 2**20  # with this, 1 + L(φ - l) is exact in floating point for every l on the grid
_ROUNDING = 2e-15  # relative error of a term n·ln x, with room to spare (ln is within 4 units in the last place)


def tail_refutes(k: int, n: int, p: float, nats: float) -> bool:
    """Whether `Pr[Bin(n, p) ≥ k] ≤ e^{-nats}` is certain: at least k of n rows say yes, so the share is not p or less.

    The probability is over n coins whose biases average to at most p (they may differ), or n rows drawn without replacement
    from a population with a share of at most p. The tail is bounded by its first term over a convergent of Gauss's continued
    fraction, and by Chernoff. Hoeffding (1956, theorem 4) asks for `k ≥ np + 1`. Floating-point error counts against a
    refutation; the allowance is enough up to n = 2^33.

    >>> tail_refutes(9, 10, 0.5, 4.5), tail_refutes(9, 10, 0.5, 4.6)  # the tail is 11/1024 = e^-4.53
    (True, False)
    >>> tail_refutes(1, 10, 0.0, 50.0), tail_refutes(1, 10, 1e-9, 1.0)
    (True, False)
    """
    _check(n, nats)
    if not 0.0 <= p <= 1.0:
        raise SettingError(f"a share lies between 0 and 1, not at {p!r}")
    if k > n:
        return True
    if k < 1:
        return False
    return _Tail(k, n, nats).refutes(*p.as_integer_ratio())


def binomial_interval(k_low: int, k_high: int, n: int, nats: float) -> tuple[float, float]:
    """All population shares that are possible if the private count of n rows is only known to be in [k_low, k_high].

    Each end fails with probability at most `e^{-nats}`, under the conditions of `tail_refutes`. Ends lie on `SHARE_GRID` and
    are rounded outwards by two steps.

    >>> low, high = binomial_interval(50, 50, 100, 3.6889)  # exact (Clopper and Pearson): the same three digits
    >>> round(low, 3), round(high, 3)
    (0.398, 0.602)
    >>> binomial_interval(0, 10, 10, 3.0)
    (0.0, 1.0)
    """
    _check(n, nats)
    k_low, k_high = max(k_low, 0), min(k_high, n)
    if k_low > k_high:
        raise SettingError(f"a count of {n} rows needs 0 ≤ low ≤ high ≤ {n}, not [{k_low}, {k_high}]")
    return _lower_end(k_low, n, nats), 1.0 - _lower_end(n - k_high, n, nats)


def mcnemar_refutes(first: int, second: int, nats: float) -> bool:
    """Whether the rows that only one of two models gets right refute "the second is at least as good" (McNemar 1947).

    `first` rows are right by the first model only, `second` by the second only. If p10 ≤ p01, this happens with probability
    at most `e^{-nats}`, for identically distributed rows and for rows drawn without replacement. Rows of different
    distributions need `bet_refutes`, unless the rows on which the models differ are public.

    >>> mcnemar_refutes(40, 15, 6.0), mcnemar_refutes(30, 25, 6.0), mcnemar_refutes(0, 0, 0.0)
    (True, False, False)
    """
    _check_counts(first, second)
    return tail_refutes(first, first + second, 0.5, nats)


def bet_refutes(first: int, second: int, theta: float, nats: float) -> bool:
    """Whether the public bet on counts refutes "p10 ≤ p01": `first·ln(2θ) + second·ln(2(1-θ)) ≥ nats`.

    θ in (1/2, 1) is the foreseen share of `first` among the rows that differ, fixed in advance. Valid for independent rows
    that need not be identically distributed, and without replacement; weaker than `mcnemar_refutes`.

    >>> bet_refutes(40, 15, 0.7, 6.0), bet_refutes(40, 15, 0.7, 6.1)
    (False, False)
    >>> bet_refutes(40, 15, 0.7, 5.7)
    True
    """
    _check_counts(first, second)
    _check(first + second, nats)
    if not 0.5 < theta < 1.0:
        raise SettingError(f"a bet's share lies strictly between 1/2 and 1, not at {theta!r}")
    gain, loss = first * ln(2.0 * theta), second * ln(2.0 * (1.0 - theta))  # 2(1-θ) is exact for θ ≥ 1/2
    return gain + loss >= nats + _ROUNDING * (gain - loss)


def bet_rate(first: float, second: float, rows: float, nats: float) -> int:
    """The public bet L, in steps of 1/BET_STEPS, that brings the lower end of `paired_interval` foreseeably highest.

    From the foreseen p10 = `first` and p01 = `second`; swap the two for the upper end. The same on every machine. A share
    foreseen as less than half a row counts as half a row.

    >>> bet_rate(0.03, 0.02, 1_000, 6.0), bet_rate(0.02, 0.03, 1_000, 6.0), bet_rate(0.03, 0.02, 10_000, 6.0)
    (457, 427, 159)
    """
    _check(1, nats)
    if not rows > 0.0:
        raise SettingError(f"the number of rows is positive, not {rows!r}")
    if not (0.0 <= first <= 1.0 and 0.0 <= second <= 1.0 and first + second <= 1.0 + 1e-9):
        raise SettingError(f"foreseen shares lie between 0 and 1, their sum too, not {first!r} and {second!r}")
    p10, p01 = max(first, 0.5 / rows), max(second, 0.5 / rows)
    total = max(1.0, p10 + p01)
    p10, p01 = p10 / total, p01 / total
    target, low, high = nats / rows, -1.0, p10 - p01
    rate = 1
    for _ in range(24):  # the l at which the best bet just reaches the price
        middle = 0.5 * (low + high)
        rate = _best_rate(p10, p01, middle)
        bet = rate / BET_STEPS
        growth = p10 * ln(1.0 + bet * (1.0 - middle)) + p01 * ln(1.0 - bet * (1.0 + middle))
        growth += (1.0 - p10 - p01) * ln(1.0 - bet * middle)
        if growth >= target:
            low = middle
        else:
            high = middle
    return rate


def paired_interval(first: int, second: int, rows: int, rates: tuple[int, int], nats: float) -> tuple[float, float]:
    """An interval for p10 - p01 in [-1, 1] from the counts of rows that only one of two models gets right.

    `rates` are the public bets for the lower and the upper end, fixed in advance (`bet_rate`). Each end fails with
    probability at most `e^{-nats}`, for independent rows (identical or not: then the average of p10 - p01) and for rows
    drawn without replacement. The lower end is the largest l < 1/L - 1 whose wealth `Π(1 + L(φ_i - l))` reaches e^nats.

    >>> rates = bet_rate(0.03, 0.02, 1_000, 6.0), bet_rate(0.02, 0.03, 1_000, 6.0)
    >>> low, high = paired_interval(30, 20, 1_000, rates, 6.0)
    >>> round(low, 3), round(high, 3)
    (-0.015, 0.036)
    """
    _check_counts(first, second)
    _check(rows, nats)
    if first + second > rows:
        raise SettingError(f"{first} and {second} rows differ, of {rows}")
    for rate in rates:
        if not 1 <= rate <= _MOST_RATE:
            raise SettingError(f"a bet's rate lies between 1 and {_MOST_RATE}, not at {rate!r}")
    if rows == 0:
        return -1.0, 1.0
    return _Bet(first, second, rows, rates[0], nats).end(), -_Bet(second, first, rows, rates[1], nats).end()


@lru_cache(maxsize=16)
def _ln_factorial(n: int) -> float:
    return ln_gamma(n + 1)


class _Tail:
    """Upper bounds of ln Pr[Bin(n, p) ≥ k] for one k and many p, 1 ≤ k ≤ n."""

    def __init__(self, k: int, n: int, nats: float) -> None:
        self.k, self.n, self.nats = k, n, nats
        everything = _ln_factorial(n)
        self.ln_choose = everything - ln_gamma(k + 1) - ln_gamma(n - k + 1)
        self.size = 4.0 * everything
        # The numerators of the continued fraction, over p². It ends where no rows are left.
        self.outer = (n + 1.0) * (n - k) * ((k + 3) / (k + 2))
        self.inner = (n + 2.0) * max(n - k - 1, 0) * (k + 1) * (2 * (k + 1) / (k + 2)) * ((k + 5) / (k + 4))

    def refutes(self, above: int, below: int) -> bool:
        """Whether p = above/below is refuted. `below` is a power of two and p a float, so that the division is exact."""
        k, n = self.k, self.n
        if (k - 1) * below < n * above:  # Hoeffding's condition k ≥ np + 1
            return False
        if above == 0:
            return True
        p = above / below
        yes, no = ln(p), ln(1.0 - p)
        gap = ((k + 1) * below - (n + 1) * above) / below
        first = self._first(gap, p)
        factor = self.ln_choose - ln(first)
        if first * first * k * (n - k) < n:  # elsewhere Chernoff's bound, with n times the entropy of k/n, is larger
            factor = min(factor, self._entropy())
        return factor + (k * yes + (n - k) * no) <= -self.nats - _ROUNDING * (self.size - n * (yes + no))

    def _first(self, gap: float, p: float) -> float:
        """At most Pr[Bin = k] / Pr[Bin ≥ k], by theorem 1. `gap` is k + 1 - (n+1)p. Sums of positive numbers only."""
        k, q = self.k, 1.0 - p
        square, twice, shared = p * p, 2.0 + 2.0 * q, (k - 1) * gap
        third = shared + 2 * (k + 2) * twice
        second = shared + (k + 1) * twice + self.inner * square / third
        return (gap + self.outer * square / second) / ((k + 1) * q)

    def _entropy(self) -> float:
        k, n = self.k, self.n
        return 0.0 if k == n else -k * ln(k / n) - (n - k) * ln((n - k) / n)

    def guess(self) -> float:
        """The secant method in ln p for the closed form, with the machine's own functions."""
        k, n, nats = self.k, self.n, min(self.nats, 1e15)
        x, limit = k / n, (k - 1) / n
        z2 = max(2.0 * nats - log(12.6 * nats - 6.2 * sqrt(nats) + 1.0), 0.01)  # the square of the normal quantile
        x -= (0.5 + (1.0 - 2.0 * x) * (z2 - 1.0) / 6.0) / n  # continuity and skewness
        x, z2 = min(max(x, 0.0), 1.0), z2 / n
        p = (x + 0.5 * z2 - sqrt(z2 * (x * (1.0 - x) + 0.25 * z2))) / (1.0 + z2)  # Wilson's end
        p = min(max(p, 1e-12), limit)
        before = slope = yes = 0.0
        for _ in range(40):
            gap = k + 1 - (n + 1) * p
            last, yes, no = yes, log(p), log1p(-p)
            value = self.ln_choose + k * yes + (n - k) * no - log(self._first(gap, p)) + nats
            value += _ROUNDING * (self.size - n * (yes + no))
            if slope == 0.0:
                slope = k - (n - k + 1) * p / (1.0 - p) + (n + 1) * p / gap
            elif yes != last and value != before:
                slope = (value - before) / (yes - last)
            before = value
            following = min(p * exp(min(max(-value / slope, -40.0), 40.0)), limit)
            if abs(following - p) < 1e-8:  # what is left is far smaller
                return following
            p = following
            if p < 1e-12:
                break
        return p


def _lower_end(k: int, n: int, nats: float) -> float:
    if k <= 1 or nats == inf:
        return 0.0  # Hoeffding's condition leaves p = 0 alone
    tail = _Tail(k, n, nats)
    top = (k - 1) * _STEPS // n + 1  # beyond Hoeffding's condition, hence not refuted
    m = min(max(round(tail.guess() * _STEPS), 0), top)
    m = smallest_inside(lambda i: not tail.refutes(i, _STEPS), m, 0, top)
    return max(m - 2, 0) * SHARE_GRID


class _Bet:
    """The wealth of a fixed public bet L on p10 - p01 > l, for many l on the grid."""

    def __init__(self, first: int, second: int, rows: int, rate: int, nats: float) -> None:
        self.counts = first, second, rows - first - second
        self.rate, self.nats = rate, nats
        # The bet is admissible for l < 1/L - 1. `limit` is not.
        self.limit = min(-(-(BET_STEPS - rate) * _STEPS // rate), _STEPS)

    def refutes(self, i: int) -> bool:
        """Whether the wealth at l = i/2^32 reaches e^nats."""
        if i >= self.limit:
            return False
        wealth = size = 0.0
        for count, value in zip(self.counts, (1, -1, 0), strict=True):
            # 1 + L(φ - l), exactly: the numerator is below 2^53.
            term = count * ln((BET_STEPS * _STEPS + self.rate * (value * _STEPS - i)) / (BET_STEPS * _STEPS))
            wealth += term
            size += abs(term)
        return wealth >= self.nats + _ROUNDING * size

    def guess(self) -> float:
        """Newton's method, with the machine's own functions; from the mean, where the wealth is at most 1, downwards."""
        n10, n01, n0 = self.counts
        bet = self.rate / BET_STEPS
        x = min((n10 - n01) / max(n10 + n01 + n0, 1), 1.0 / bet - 1.0 - 1e-6)
        for _ in range(60):
            if x <= -1.0:
                return -1.0
            up, down, still = 1.0 + bet * (1.0 - x), 1.0 - bet * (1.0 + x), 1.0 - bet * x
            value = n10 * log(up) + n01 * log(down) + n0 * log(still) - self.nats
            slope = bet * (n10 / up + n01 / down + n0 / still)
            if slope == 0.0:
                return -1.0
            step = value / slope
            if abs(step) < 1e-11:
                break
            x = min(x + step, 1.0 / bet - 1.0 - 1e-9)
        return x

    def end(self) -> float:
        if self.limit <= -_STEPS or self.nats == inf:
            return -1.0
        m = min(max(round(self.guess() * _STEPS), -_STEPS), self.limit)
        m = smallest_inside(lambda i: not self.refutes(i), m, -_STEPS, self.limit)
        return max(m - 2, -_STEPS) * SHARE_GRID


def _best_rate(p10: float, p01: float, mean: float) -> int:
    """The admissible rate with the largest foreseen growth at `mean`: where the growth's slope in L changes sign."""
    p0 = 1.0 - p10 - p01
    low, high = 1, max(1, min(int(BET_STEPS / (1.0 + mean) * (1.0 - 1e-9)), _MOST_RATE))
    while high - low > 1:
        middle = (low + high) // 2
        bet = middle / BET_STEPS
        slope = p10 * (1.0 - mean) / (1.0 + bet * (1.0 - mean)) - p0 * mean / (1.0 - bet * mean)
        slope -= p01 * (1.0 + mean) / (1.0 - bet * (1.0 + mean))
        if slope > 0.0:
            low = middle
        else:
            high = middle
    return low


def _check(n: int, nats: float) -> None:
    if n < 0:
        raise SettingError(f"the number of rows is at least 0, not {n!r}")
    if not nats >= 0.0:
        raise SettingError(f"a price in nats is at least 0, not {nats!r}")


def _check_counts(first: int, second: int) -> None:
    if first < 0 or second < 0:
        raise SettingError(f"counts of rows are at least 0, not {first!r} and {second!r}")
