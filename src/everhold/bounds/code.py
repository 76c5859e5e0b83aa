"""The price of everything disclosed about the private rows, in nats, and what claims spend.

A session is a walk in a tree. At a node, public facts fix the next act and a *forecast* of its outcome: weights q(o) of
all outcomes o that sum to at most 1. P is the product of the forecasts of what happened. A claim (an interval, a verdict)
spends ω, with Σω ≤ 1 on every path, and may fail with probability δ·ω·P. Then all claims of a session are
simultaneously valid with probability 1 - δ (`docs/theory/validity.md`), and a two-sided claim has the price

    C = ln(2/δ) + ln(1/ω) + ln(1/P).

This file has the forecasts (`docs/theory/code.md` lists each one with its sum), `Code` for ln 1/P and `Spending` for ω.
A price is always rounded up: rounding never makes an interval too narrow.

Letters: t asks completed, k surprises among them, g = t - (the last surprise) + 1, L the length of an integer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf, isinf
from typing import Literal

from everhold.bounds.elementary import exp, ln
from everhold.errors import SettingError

__all__ = [
    "ANSWERED_NATS",
    "AUTOMATIC",
    "LAST_SPEND",
    "NATS_GRID",
    "NOTHING_NATS",
    "CheckOutcome",
    "Code",
    "Spending",
    "automatic_price",
    "automatic_weight_nats",
    "beyond_nats",
    "choice_nats",
    "claim_price",
    "integer_nats",
    "reading_nats",
    "step_nats",
    "succession_nats",
    "tail_nats",
    "verdict_nats",
]

NATS_GRID = 2.0**-20
"""Prices are rounded up to a multiple of this."""

AUTOMATIC = Fraction(1, 10)
"""The part of δ for the intervals that every ask prints. Claims share the rest."""

LAST_SPEND = Fraction(7, 8)
"""Of what is left of δ, what a last act spends. The rest is for one that was interrupted and is made again."""

NOTHING_NATS = ln(128.0)
"""An act that may end without a value and did: q = 1/128 for "there is none", the same again for "interrupted"."""

ANSWERED_NATS = ln(64.0) - ln(63.0)
"""Every other outcome of such an act: q = 63/64, before the code of the outcome itself."""

CheckOutcome = Literal["promoted", "kept", "interrupted"]
"""How a check of a gate ends."""

_LN2 = ln(2.0)
_LN4 = _LN2 + _LN2
_ALLOWANCE = 1e-14  # more than floating point loses in one logarithm, exponential or product, in parts of its size
_SUM_GRID = 2.0**-28  # lengths are rounded up to this before they are added: sums are exact below 2^25 nats
_NEGLIGIBLE = -32.0  # terms smaller than e^-32 of the largest are left out, which makes P smaller: the safe side
_SHARE_GRID = 2**64  # what is left of δ is a multiple of 1/this, once its denominator exceeds this

_RATES = 40  # B mixes the rates 2^-1 … 2^-40
_RATE_WEIGHTS = (*(-ln(float(i * (i + 1))) for i in range(1, _RATES)), -ln(float(_RATES)))
_RATE_YES = tuple(-i * _LN2 for i in range(1, _RATES + 1))
_RATE_NO = tuple(ln(1.0 - 2.0**-i) for i in range(1, _RATES + 1))
_RATE_TABLE = tuple(zip(_RATE_WEIGHTS, _RATE_YES, _RATE_NO, strict=True))
_QUIET_TABLE = tuple(zip((*(1.0 / (i * (i + 1)) for i in range(1, _RATES)), 1.0 / _RATES), _RATE_NO, strict=True))
_DEFAULT_ONE_IN = 2**12  # F without a horizon: a surprise in 4096 asks; an interruption in 4096 checks of a gate

_VERDICTS = {"first": _LN4, "second": _LN4, "neither": _LN2}


# The forecasts: every function returns ln 1/q of one outcome.


def integer_nats(g: int) -> float:
    """Length in nats of the universal integer code: `L(g) = ln(2^m (m+1)(m+2))`, `m = ⌊log₂ g⌋`.

    `Σ exp(-L(g)) = 1` over g = 1, 2, …: octave m has 2^m integers and weight 1/((m+1)(m+2)).

    >>> integer_nats(1) == ln(2.0)
    True
    """
    if g < 1:
        raise SettingError(f"the integer code starts at 1, not {g}")
    m = g.bit_length() - 1
    return m * _LN2 + ln(float((m + 1) * (m + 2)))


def tail_nats(g: int) -> float:
    """`ln 1/Pr[gap ≥ g]` under the integer code: what a gap that has not ended yet costs.

    `tail(g) = 1/(m+2) + (1 - r/2^m)/((m+1)(m+2))` with `g = 2^m + r`; `tail(g) - tail(g+1) = exp(-L(g))`, tail(1) = 1.

    >>> tail_nats(1), round(tail_nats(1000), 2), round(integer_nats(1000), 2)
    (0.0, 2.39, 10.94)
    """
    if g < 1:
        raise SettingError(f"a gap has at least 1 ask, not {g}")
    m = g.bit_length() - 1
    r = g - (1 << m)
    return ln(float((m + 1) * (m + 2))) - ln((m + 2) - r / (1 << m))


def beyond_nats(cell: int, up: int, down: int) -> float:
    """A surprise's cell beyond the tolerance: `q(±j) = ½/(up + down) + ½·½/(j(j+1))`.

    Half is even over the cells that fit, half falls with the distance. If only one side has room, its distance part
    is 1/(j(j+1)) instead of half of it.

    Args:
        cell: +j above the forecast's tolerance, -j below; never 0. A cell beyond the last that fits counts as the last:
            disclose it as such.
        up: How many cells fit above, a part of a cell included.
        down: How many fit below.

    Raises:
        SettingError: If the cell lies on a side without room.

    >>> round(beyond_nats(25, 30, 5), 2), round(beyond_nats(1, 30, 5), 2)
    (4.22, 1.97)
    """
    if up < 0 or down < 0:
        raise SettingError(f"the number of cells must be at least 0, not {up} above and {down} below")
    room = up if cell > 0 else down
    if cell == 0 or room == 0:
        raise SettingError(f"a surprise cannot lie in cell {cell} with {up} cells above and {down} below")
    j = min(abs(cell), room)
    side = 0.5 if up and down else 1.0
    return -ln(0.5 / (up + down) + 0.5 * side / (float(j) * (j + 1.0)))


def reading_nats(cell: int, scale: int, cells: int) -> float:
    """A reading's cell: `-ln(31/32 q(j) + 1/32/cells)`, `q(0) = 1/(1+a)`, `q(±j) = a/((2j-1+a)(2j+1+a))`.

    Both parts sum to at most 1: `q(±j) = ½[a/(2j-1+a) - a/(2j+1+a)]` telescopes.

    Args:
        cell: j, signed; 0 is the cell around the forecast.
        scale: a in multiples of 2^-10, at least 1. About 1.35 standard deviations of (value - forecast) in cells.
        cells: How many different cells can occur at most.

    >>> [round(reading_nats(j, 1382, 2001), 2) for j in (0, 1, -1, 10, 1000)]
    [0.89, 2.06, 2.06, 5.85, 11.05]
    """
    if scale < 1 or cells < 1:
        raise SettingError(f"a reading needs a scale and a number of cells of at least 1, not {scale} and {cells}")
    a = scale / 1024.0
    j2 = 2.0 * abs(cell)
    q = 1.0 / (1.0 + a) if cell == 0 else a / ((j2 - 1.0 + a) * (j2 + 1.0 + a))
    return -ln(0.96875 * q + 0.03125 / cells)


def step_nats(step: int) -> float:
    """The step i of a printed half-width: `q(0) = 15/16`, `q(i) = 1/16/(i(i+1))`; the sum telescopes to 1.

    >>> [round(step_nats(i), 2) for i in (0, 1, 2)]
    [0.06, 3.47, 4.56]
    """
    if step < 0:
        raise SettingError(f"a step is at least 0, not {step}")
    if step == 0:
        return ln(16.0) - ln(15.0)
    return ln(16.0) + ln(float(step) * (step + 1.0))


def choice_nats(weight: Fraction) -> float:
    """A selection of the candidate with public weight π: `ln 1/π`. The weights of all candidates sum to at most 1.

    Every candidate needs a positive weight, checked before the selection.

    >>> round(choice_nats(Fraction(1, 1000)), 2)
    6.91
    """
    if not 0 < weight <= 1:
        raise SettingError(f"a candidate's weight lies above 0 and is at most 1, not {weight}")
    return -ln(weight.numerator / weight.denominator)


def succession_nats(earlier_choices: int, weight: Fraction | None) -> float:
    """The outcome of choice g (the first is 0): replaced by a candidate, `ln((g+1)/π)`, or not, `ln((g+1)/g)`.

    The law of records: the best of g+1 equal generations is the last with probability 1/(g+1).

    Args:
        earlier_choices: g, how many choices came before. Count a champion who is there from the start as one.
        weight: π of the new champion, or None if the old one stays.

    >>> round(succession_nats(4, None), 3), round(succession_nats(4, Fraction(1, 200)), 3)
    (0.223, 6.908)
    """
    if earlier_choices < 0:
        raise SettingError(f"before the first choice there were 0, not {earlier_choices}")
    if weight is not None:
        return ln(earlier_choices + 1.0) + choice_nats(weight)
    if earlier_choices == 0:
        raise SettingError("in the first choice no champion can stay: count a champion from the start as a choice")
    return ln(earlier_choices + 1.0) - ln(float(earlier_choices))


def verdict_nats(outcome: Literal["first", "second", "neither"]) -> float:
    """A comparison's verdict: q = 1/4 for each direction, 1/2 for neither.

    >>> round(verdict_nats("first"), 3), round(verdict_nats("neither"), 3)
    (1.386, 0.693)
    """
    if outcome not in _VERDICTS:
        raise SettingError(f"a verdict is 'first', 'second' or 'neither', not {outcome!r}")
    return _VERDICTS[outcome]


# P of a whole transcript.


@dataclass(frozen=True, slots=True)
class Code:
    """`ln 1/P` of everything disclosed so far, as a frozen value.

    Guarantee: over the nodes at any one depth of any analyst's tree, `Σ exp(-nats) ≤ 1`, if every outcome outside the
    asks is passed to `disclosed` (or `bit`) with a length from a forecast that sums to at most 1.

    >>> code = Code().quiet(1000)
    >>> round(code.nats, 2)             # a thousand quiet asks: less than one nat
    0.83
    >>> code = code.surprised(beyond_nats(+1, 30, 5)).quiet(500)
    >>> code.asks, code.surprises, code.last, round(code.nats, 1)
    (1501, 1, 1001, 11.3)
    """

    horizon: int | None = None
    """A declared number of asks T, fixed before the first: F expects 1/(4T) surprises an ask instead of 2^-12."""
    asks: int = 0
    """Asks completed (t). Readings, selections, verdicts and bits are not asks."""
    surprises: int = 0
    """Surprises among them (k)."""
    last: int = 0
    """The last surprise among them; 0 before the first."""
    gap_nats: float = 0.0
    """Σ L(gap) over the gaps that ended in a surprise."""
    other_nats: float = 0.0
    """Σ of the lengths of surprises' cells, readings, selections, verdicts."""
    bits: tuple[int, int] = (0, 0)
    """Yes/no acts: how many, and how many of them yes. They have a measure of their own."""
    check_counts: tuple[int, int, int] = (0, 0, 0)
    """Checks of a gate: how many, how many promoted a candidate, how many were interrupted. Measures of their own."""

    def __post_init__(self) -> None:
        if self.horizon is not None and self.horizon < 1:
            raise SettingError(f"a horizon is at least 1 ask, not {self.horizon}")
        checks, promoted, interrupted = self.check_counts
        fits = min(promoted, interrupted) >= 0 and promoted + interrupted <= checks
        if not (fits and 0 <= self.surprises <= self.last <= self.asks and 0 <= self.bits[1] <= self.bits[0]):
            raise SettingError(f"no session has such a record: {self}")

    def quiet(self, asks: int = 1) -> Code:
        """The code after one more quiet ask, or several."""
        if asks < 0:
            raise SettingError(f"a number of asks is at least 0, not {asks}")
        return Code(
            self.horizon,
            self.asks + asks,
            self.surprises,
            self.last,
            self.gap_nats,
            self.other_nats,
            self.bits,
            self.check_counts,
        )

    def surprised(self, nats: float) -> Code:
        """The code after one more ask, a surprise whose content (its cell) has length `nats`."""
        t = self.asks + 1
        return replace(
            self,
            asks=t,
            surprises=self.surprises + 1,
            last=t,
            gap_nats=self.gap_nats + _length(integer_nats(t - self.last)),
            other_nats=self.other_nats + _length(nats),
        )

    def disclosed(self, nats: float) -> Code:
        """The code after an outcome of length `nats` outside the asks: a reading, a selection, a verdict."""
        return replace(self, other_nats=self.other_nats + _length(nats))

    def bit(self, yes: bool) -> Code:
        """The code after one more yes/no act."""
        return replace(self, bits=(self.bits[0] + 1, self.bits[1] + yes))

    def checked(self, outcome: CheckOutcome, candidates: int = 1) -> Code:
        """The code after one more check of a gate, which may promote one of so many candidates.

        Whether it is interrupted is a bit that was foreseen with 2^-12; if not, whether it promotes has an unknown rate.
        Which candidate is promoted was foreseen evenly.
        """
        if outcome not in ("promoted", "kept", "interrupted") or candidates < 1:
            raise SettingError(f"a check of {candidates} candidates cannot end as {outcome!r}")
        checks, promoted, interrupted = self.check_counts
        counted = checks + 1, promoted + (outcome == "promoted"), interrupted + (outcome == "interrupted")
        nats = ln(float(candidates)) if outcome == "promoted" else 0.0
        return replace(self, check_counts=counted, other_nats=self.other_nats + _length(nats))

    @property
    def nats(self) -> float:
        """`ln 1/P`, rounded up to `NATS_GRID`. It never falls when something more is disclosed."""
        total = self.other_nats - _ln_unknown_rate(*self.bits)
        if self.check_counts[0]:
            total -= self._ln_checks()
        if self.asks:
            total -= self._ln_when()
        return _rounded_up(total)

    def _ln_checks(self) -> float:
        """ln P of which checks were interrupted, and which of the others promoted, rounded down."""
        checks, promoted, interrupted = self.check_counts
        ln_yes, ln_no = _constant_rate(_DEFAULT_ONE_IN)
        rare = interrupted * ln_yes + (checks - interrupted) * ln_no
        return rare + _ALLOWANCE * rare + _ln_unknown_rate(checks - interrupted, promoted)

    def _ln_when(self) -> float:
        """`ln(½F + ¼A + ¼B)`, rounded down: when the surprises came, by a small constant rate, by gaps, by unknown rate."""
        t, k = self.asks, self.surprises
        ln_yes, ln_no = _constant_rate(_DEFAULT_ONE_IN if self.horizon is None else 4 * self.horizon)
        f = k * ln_yes + (t - k) * ln_no
        a = -self.gap_nats - tail_nats(t - self.last + 1)
        b = _ln_unknown_rate(t, k)
        return _ln_sum((f + _ALLOWANCE * f - _LN2, a + _ALLOWANCE * a - _LN4, b - _LN4)) - _ALLOWANCE


@lru_cache(maxsize=64)
def _constant_rate(one_in: int) -> tuple[float, float]:
    """ln θ and ln(1-θ) for θ = 1/N, N ≥ 4, to the last places: `ln(1 - 1/N) = -2 artanh(1/(2N-1))`."""
    z = 1.0 / (2 * one_in - 1)
    series = 0.0
    for odd in range(21, 0, -2):
        series = series * (z * z) + 1.0 / odd
    return -ln(float(one_in)), -2.0 * z * series


def _ln_unknown_rate(n: int, yes: int) -> float:
    """`ln B`, rounded down: one sequence of n bits with so many yes, the rate 2^-i having weight 1/(i(i+1)).

    The last rate has the weight 1/40 of all that are left out, so that the weights sum to 1 and nothing costs nothing.
    B falls with the number of no. That number is rounded up, so that most asks need no new sum: at most 1/64 nat.
    """
    if n == 0:
        return 0.0
    no = n - yes
    step = max(no.bit_length() - 7 - yes.bit_length(), 0)
    return _ln_mixed_rates(yes, -(-no >> step) << step)


@lru_cache(maxsize=256)
def _ln_mixed_rates(yes: int, no: int) -> float:
    k, m = float(yes), float(no)
    if yes == 0:
        b = _ln_all_quiet(m)
    else:
        b = _ln_sum([w + k * ln_yes + m * ln_no for w, ln_yes, ln_no in _RATE_TABLE])
    return b - _ALLOWANCE * (1.0 - b)


def _ln_all_quiet(m: float) -> float:
    """The same sum where nothing was yes: terms are at most 1, and most of them so near to 1 that a series will do."""
    total = 0.0
    for weight, ln_no in _QUIET_TABLE:
        d = m * ln_no
        if d > -0.00390625:  # d^6/720 is below the last place
            total += weight * (1.0 + d * (1.0 + d * (0.5 + d * (1 / 6 + d * (1 / 24 + d * (1 / 120))))))
        elif d > _NEGLIGIBLE:
            total += weight * exp(d)
    return ln(total)


def _ln_sum(exponents: Iterable[float]) -> float:
    """`ln Σ exp(x)`, without terms that are negligible beside the largest."""
    exponents = tuple(exponents)
    top = max(exponents)
    total = 0.0
    for x in exponents:
        d = x - top
        if d > -0.00390625:  # d^6/720 is below the last place
            total += 1.0 + d * (1.0 + d * (0.5 + d * (1 / 6 + d * (1 / 24 + d * (1 / 120)))))
        elif d > _NEGLIGIBLE:
            total += exp(d)
    return top + ln(total)


def _length(nats: float) -> float:
    """A length as it is added up: never below the true one, on a grid on which sums are exact."""
    if not nats >= 0.0 or isinf(nats):
        raise SettingError(f"a length in nats is finite and at least 0, not {nats!r}")
    return ceil((nats + _ALLOWANCE * (1.0 + nats)) / _SUM_GRID) * _SUM_GRID


def _rounded_up(nats: float) -> float:
    """A price on the grid, at least the true one. 0 stays 0: then nothing was computed."""
    if nats == 0.0 or isinf(nats):
        return nats
    return ceil((nats + _ALLOWANCE * (1.0 + nats)) / NATS_GRID) * NATS_GRID


# What claims spend.


@dataclass(frozen=True, slots=True)
class Spending:
    """What is left of the claims' part of δ, exactly.

    A claim takes a share of what is left: by default a half, then a third of the rest, a quarter, …, so that claim m
    spends 1/(m(m+1)). The share is fixed before the outcome, and is spent also if the claim is then not made.

    Fractions stay small: once the denominator of what is left exceeds 2^64, it is rounded down to a multiple of 2^-64,
    and so is ω. Both roundings are to the safe side: ω plus the new rest is never more than the old rest.

    >>> spending = Spending()
    >>> for _ in range(3):
    ...     print(spending.next(), end=" ")
    ...     spending = spending.spend()
    1/2 1/6 1/12
    >>> spending.left, spending.next(Fraction(1)), spending.spend(Fraction(1)).left
    (Fraction(1, 4), Fraction(1, 4), Fraction(0, 1))
    """

    left: Fraction = Fraction(1)
    claims: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.left <= 1 or self.claims < 0:
            raise SettingError(f"what is left lies between 0 and 1, not at {self.left} after {self.claims} claims")

    def next(self, share: Fraction | None = None) -> Fraction:
        """ω of the next claim, if it takes this share of what is left."""
        return _rounded_down(self.left * self._share(share))

    def spend(self, share: Fraction | None = None) -> Spending:
        """What is left after the next claim."""
        return Spending(_rounded_down(self.left * (1 - self._share(share))), self.claims + 1)

    def _share(self, share: Fraction | None) -> Fraction:
        if share is None:
            return Fraction(1, self.claims + 2)
        if not 0 < share <= 1:
            raise SettingError(f"a claim's share of what is left lies above 0 and is at most 1, not {share}")
        return share


def _rounded_down(share: Fraction) -> Fraction:
    return share if share.denominator <= _SHARE_GRID else Fraction(floor(share * _SHARE_GRID), _SHARE_GRID)


def automatic_weight_nats(ask: int, horizon: int | None) -> float:
    """`ln 1/ω_t` of the interval printed with ask t, without `AUTOMATIC`: L(t), or with a horizon T half of each.

    `ω_t = ½ exp(-L(t)) + ½ 1[t ≤ T]/T` sums to at most 1 over all t, also beyond the horizon.

    >>> round(automatic_weight_nats(1000, None), 1), round(automatic_weight_nats(1000, 1000), 1)
    (10.9, 7.6)
    """
    alone = integer_nats(ask)
    if horizon is None:
        return alone
    if horizon < 1:
        raise SettingError(f"a horizon is at least 1 ask, not {horizon}")
    if ask > horizon:
        return alone + _LN2
    return -_ln_sum((-alone - _LN2, -ln(float(horizon)) - _LN2))


def automatic_price(failure_probability: float, code: Code) -> float:
    """C of the interval printed with the next ask, two-sided: `ln(2/δ) + ln(1/AUTOMATIC) + ln(1/ω_t) + ln(1/P)`.

    P is that of the node before the ask: whether the ask is quiet is not in the price of its own interval.

    >>> round(automatic_price(0.05, Code()), 2), round(automatic_price(0.05, Code().quiet(999)), 2)
    (6.68, 17.76)
    """
    weight = automatic_weight_nats(code.asks + 1, code.horizon)
    return _rounded_up(_confidence_nats(failure_probability, 2) + _AUTOMATIC_NATS + weight + code.nats)


def claim_price(
    failure_probability: float, code: Code, weight: Fraction, *, parts: int = 1, sides: Literal[1, 2] = 2
) -> float:
    """C of a claim at the present node: `ln(sides/δ) + ln(1/(1-AUTOMATIC)) + ln(parts/ω) + ln(1/P)`.

    Args:
        failure_probability: δ.
        code: Everything disclosed before, but not the outcome of the claim's own act.
        weight: ω, from `Spending.next`. With 0, nothing is left: the price is infinite, the interval the whole range.
        parts: How many intervals share ω evenly, for example the questions of a batch.
        sides: 2 for an interval, 1 for one end or one direction.

    >>> code = Code().quiet(1000)
    >>> round(claim_price(0.05, code, Spending().next()), 2)
    5.31
    """
    if not 0 <= weight <= 1:
        raise SettingError(f"a claim's weight lies between 0 and 1, not at {weight}")
    if parts < 1 or sides not in (1, 2):
        raise SettingError(f"a claim has at least 1 part and 1 or 2 sides, not {parts} and {sides}")
    confidence = _confidence_nats(failure_probability, sides) + _CLAIMED_NATS
    if weight == 0:
        return inf
    return _rounded_up(confidence + ln(float(parts)) - ln(weight.numerator / weight.denominator) + code.nats)


def _confidence_nats(failure_probability: float, sides: int) -> float:
    if not 0.0 < failure_probability < 1.0:
        raise SettingError(f"a failure probability lies between 0 and 1, not at {failure_probability!r}")
    return ln(sides / failure_probability)


_AUTOMATIC_NATS = -ln(AUTOMATIC.numerator / AUTOMATIC.denominator)
_CLAIMED_NATS = -ln((1 - AUTOMATIC).numerator / (1 - AUTOMATIC).denominator)
