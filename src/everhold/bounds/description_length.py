"""The price of a transcript, in nats: the description length of when the surprises occurred and of their cells.

A transcript records in which rounds the sketch was off and by which cell. Every state of a session (a *node*: a prefix of
the transcript) gets a weight, and all weights sum to at most 1 for any analyst. The price of being at a node is
`ln 1/weight`; the width of every interval follows from it (`docs/theory/validity.md`). Nothing has to be fixed in advance:
neither the number of rounds nor the number of surprises.

Two descriptions of *when* are mixed half and half, so the price is that of the cheaper one plus at most ln 2:

* A, by gaps: one integer code for every gap. Cheap if surprises occur early and quiet rounds follow.
* B, by count: one integer code for the round, then which k of the rounds. Cheap if surprises are spread out.

Letters: t round (the first is 1), k surprises so far, g rounds since the last surprise, including this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from everhold.bounds.elementary import exp, ln, ln_binomial, ln_gamma
from everhold.errors import SettingError

__all__ = [
    "NATS_GRID",
    "Code",
    "cell_nats",
    "integer_nats",
    "krichevsky_trofimov_nats",
]

NATS_GRID = 2.0**-20
"""Prices are rounded up to a multiple of this: rounding never makes an interval too narrow."""

_LN2 = ln(2.0)
_ROUNDING = 1e-15  # the relative floating-point error of ln Γ(t), covered by rounding up


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


def cell_nats(cell: int) -> float:
    """Length in nats of a surprise's cell: its side, then the j-th cell beyond the tolerance, `ln 2 + ln(j(j+1))`.

    Args:
        cell: +j above the sketch's answer, -j below; never 0.
    """
    j = abs(cell)
    if j == 0:
        raise SettingError("a surprise lies in cell ±1, ±2, …; cell 0 is a quiet round")
    return _LN2 + ln(float(j) * (j + 1.0))


def _count_nats(k: int) -> float:
    """Code for the number of surprises: weight 1/((k+1)(k+2)), which sums to 1 over k = 0, 1, …."""
    return ln(float((k + 1) * (k + 2)))


@dataclass(frozen=True, slots=True)
class Code:
    """The price of a transcript so far: the state of the sequential code, as a frozen value.

    >>> code = Code()
    >>> round(code.nats(1), 4)          # before the first round: only the code's own overhead
    1.3863
    >>> code = code.after(round=5, cell=+1)
    >>> code.surprises, code.last, round(code.nats(6), 3)
    (1, 5, 8.099)
    """

    surprises: int = 0
    last: int = 0
    gap_nats: float = 0.0
    """Σ L(g_i) over the gaps that ended in a surprise."""
    surprise_nats: float = 0.0
    """Σ of the lengths of the surprises' cells."""

    def nats(self, round: int) -> float:  # noqa: A002 - the domain's word
        """`ln 1/W` of the node before a round: add it to `ln 2/δ` for the interval of that round.

        Guarantee: summed over every possible transcript of an analyst, `Σ exp(-nats) ≤ 1`. Rounded up.
        """
        k, t, g = self.surprises, round, round - self.last
        if g < 1:
            raise SettingError(f"round {t} does not come after the last surprise, at round {self.last}")
        a = self.gap_nats + integer_nats(g) + _count_nats(k)
        b = integer_nats(t) + ln_binomial(t - 1, k) + _count_nats(k)
        # -ln(½ e^-A + ½ e^-B)
        when = min(a, b) + _LN2 - ln(1.0 + exp(-abs(a - b)))
        total = when + self.surprise_nats
        return ceil((total + _ROUNDING * (1.0 + ln_gamma(t + 1) + total)) / NATS_GRID) * NATS_GRID

    def after(self, *, round: int, cell: int) -> Code:  # noqa: A002
        """The code after a surprise in `cell` at `round`."""
        return self.surprised(round, cell_nats(cell))

    def surprised(self, round: int, nats: float) -> Code:  # noqa: A002
        """The code after a surprise at `round` whose content has length `nats` in its own code."""
        gap = integer_nats(round - self.last)
        return Code(self.surprises + 1, round, self.gap_nats + gap, self.surprise_nats + nats)


def krichevsky_trofimov_nats(rounds: int, surprises: int) -> float:
    """The plain alternative, for comparison: Krichevsky and Trofimov's estimator for quiet / surprise, 1/(t(t+1)) for t.

    Length of one particular sequence of `rounds - 1` outcomes with `surprises` ones, and of the round. It is also valid,
    but more expensive for typical sessions; the tests compare both.
    """
    t, k = rounds, surprises
    n = t - 1
    if not 0 <= k <= n:
        raise SettingError(f"{k} surprises cannot have happened in {n} rounds")

    def ln_half_gamma(m: int) -> float:
        """Γ(m + ½)/√π = (2m)! / (4^m m!)."""
        return ln_gamma(2 * m + 1) - 2 * m * _LN2 - ln_gamma(m + 1)

    return ln_gamma(n + 1) - ln_half_gamma(k) - ln_half_gamma(n - k) + ln(float(t)) + ln(t + 1.0)
