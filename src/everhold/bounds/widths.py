"""What each act gives: the half-width of a share, by the prices and bounds that a session uses.

Assumes that forecasts fit: asks are quiet, and a reading is as far from its forecast as chance makes it. Validity does not
depend on that; surprises make what comes later wider. The geometry of tolerances and cells is that of
`mechanism.tolerance` and `mechanism.measures`; a test compares the two. See `docs/howto/acts.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, erf, floor, inf, log, sqrt
from typing import Literal, NamedTuple

from everhold.bounds.binomial import binomial_interval
from everhold.bounds.budget import Budget
from everhold.bounds.code import ANSWERED_NATS, Code, reading_nats, step_nats
from everhold.bounds.sample_size import SHARE, deviations_of
from everhold.errors import SettingError

__all__ = ["RowCounts", "Way", "advice", "after_surprises", "ways"]

GROUP = 10
"""The second column is about a group of one row in so many."""

_FINEST, _BATCH = Fraction(1, 32), Fraction(1, 4)  # cells of the last act and of a large batch, in deviations
_LARGE_BATCH = 8
_WIDEST, _WIDEST_CHOSEN = 2.5, 0.4  # cells, and those of the first reading after a choice, in the private rows' deviations
_MARGIN, _START = 1.05, 1.03  # of the foreseen distance, of an ask and of a reading
_MOST_READS = 1000
_SAYS_NOTHING = 0.45
_SURPRISE_NATS = ANSWERED_NATS + log(8.0)  # of a surprise in the first cell beyond the tolerance


Purpose = Literal["each", "first", "read", "fixed", "best"]


class RowCounts(NamedTuple):
    """Public facts: n private rows, and the reference's rows; and the share that answers are supposed to be near."""

    rows: int
    reference: int
    share: float = 0.5

    @property
    def spread(self) -> float:
        """The standard deviation of one row, as a part of the largest, which a share of one half has."""
        return 2.0 * sqrt(self.share * (1.0 - self.share))

    def part(self, of: int) -> RowCounts:
        """One row in so many, of both."""
        return self._replace(rows=max(self.rows // of, 1), reference=max(self.reference // of, 1))


@dataclass(frozen=True, slots=True)
class Way:
    """One way to an interval.

    Attributes:
        name: in words.
        call: in Python; empty for what needs no everhold.
        nats: the price of the interval.
        half_width: of a share of all rows, near one half or as planned for; infinite if there are too few.
        group: the same within a group of a tenth of the rows.
        purpose: what it is for: 'each' of the adaptive questions, the 'first' reading after them, 'read' for readings one by
            one, 'fixed' for questions fixed together, 'best' for the best of several.
    """

    name: str
    call: str
    nats: float
    half_width: float
    group: float
    purpose: Purpose


def ways(
    table: RowCounts, *, asks: int, reads: int, candidates: int, generations: int, failure_probability: float
) -> tuple[Way, ...]:
    """Every act's width for these numbers, and that of splitting the rows.

    Args:
        table: the rows on both sides.
        asks: T adaptive asks; the width is that of the last.
        reads: how many questions are to be read; widths are those of the last.
        candidates: how many questions or models the best is chosen of; 1: nothing is chosen.
        generations: in how many rounds of choosing, each of which may depend on the one before.
        failure_probability: δ.

    >>> found = ways(RowCounts(20_000, 20_000), asks=1000, reads=1, candidates=1000, generations=1, failure_probability=0.05)
    >>> for way in found:
    ...     print(f"{way.name}: {way.nats:.1f} nats, ±{way.half_width:.4f}")
    ask, the last of 1,000: 17.8 nats, ±0.0389
    ask, the last of 1,000 declared: 14.4 nats, ±0.0348
    the first reading after 1,000 asks: 5.3 nats, ±0.0104
    reading number 1,000, one by one: 1462.8 nats, ±0.1876
    the last act, one question: 3.8 nats, ±0.0072
    the best of 1,000, then read: 11.4 nats, ±0.0157
    the best of 1,000, then close: 10.7 nats, ±0.0145
    choose on one half, one interval on the other: 3.7 nats, ±0.0099
    split into 1,000 parts, one for each question: 10.6 nats, ±0.3850
    """
    for value, name in ((asks, "rounds"), (reads, "reads"), (candidates, "candidates"), (generations, "generations")):
        if value < 1:
            raise SettingError(f"{name} is {value!r}. Expected at least 1.")
    if generations > candidates:
        raise SettingError(f"{generations} generations need at least as many candidates, not {candidates}.")
    start = Budget(failure_probability)
    listed = [_asked(table, asks, None, start)]
    listed.append(_asked(table, asks, asks, Budget(failure_probability, Code(asks))))
    after = start.quiet(asks)
    listed.append(_read(table, after, 1, f"the first reading after {asks:,} ask{'s' * (asks > 1)}", "first"))
    if asks <= _MOST_READS and asks != reads:
        listed.append(_one_by_one(table, start, asks, "each"))
    if asks == reads or 1 < reads <= _MOST_READS:
        listed.append(_one_by_one(table, start, reads, "each" if asks == reads else "read"))
    if reads > 1:
        fine = _BATCH if reads >= _LARGE_BATCH else _fine(1)
        listed.append(_batch(table, start, reads, None, fine, f"a batch of {reads:,}, fixed together", "read_many([...])"))
    last = "the last act, one question" if reads == 1 else f"the last act, {reads:,} questions fixed together"
    listed.append(_batch(table, start, reads, Fraction(1), _FINEST, last, "close([...])"))
    if candidates > 1:
        listed += _chosen(table, start, candidates, generations)
        listed.append(_plain(table, 2, 1, failure_probability, "choose on one half, one interval on the other", "best"))
    splits: tuple[tuple[int, Purpose], ...] = ((asks, "each"), (reads, "read"))
    for parts, purpose in splits:
        if parts > 1 and (purpose == "each" or parts != asks):
            name = f"split into {parts:,} parts, one for each question"
            listed.append(_plain(table, parts, parts, failure_probability, name, purpose))
    return tuple(listed)


def after_surprises(table: RowCounts, asks: int, surprises: int, failure_probability: float) -> float:
    """The half-width of the last of so many asks, a quiet one, if so many of those before were surprises.

    >>> [round(after_surprises(RowCounts(1000, 1000), 10, many, 0.05), 3) for many in (0, 3, 6)]
    [0.126, 0.158, 0.185]
    """
    budget = Budget(failure_probability)
    for _ in range(surprises):
        budget = budget.surprised(_SURPRISE_NATS)
    return _tolerated(table, budget.quiet(max(asks - 1 - surprises, 0)).ask_price, deviations_of(asks, None))


def advice(ways: tuple[Way, ...]) -> str:
    """Which of these is narrowest for each purpose, in words, one line each."""
    lines = []
    for purpose, text in _PURPOSES.items():
        ranked = sorted((way for way in ways if way.purpose == purpose), key=lambda way: way.half_width)
        if not ranked:
            continue
        first = ranked[0]
        if first.half_width > _SAYS_NOTHING:
            lines.append(f"{text}: no act says anything with so few rows.")
            continue
        line = f"{text}: {first.name}, ±{first.half_width:.3g}" + (f", by {first.call}" if first.call else "")
        if purpose == "best" and not first.call:
            others = "; ".join(f"{way.name}, ±{way.half_width:.3g}" for way in ranked[1:])
            line += f". With all rows in one holdout: {others}"
        lines.append(line + ".")
    return "\n".join(lines)


_PURPOSES: dict[Purpose, str] = {
    "each": "An interval with every adaptive question",
    "first": "One narrow interval after the asks",
    "read": "Narrow intervals one by one, each question chosen after the last answer",
    "fixed": "Questions that are fixed together, as the last act",
    "best": "The best of many candidates, with one interval for it",
}


def _asked(table: RowCounts, asks: int, horizon: int | None, start: Budget) -> Way:
    """The last of so many quiet asks."""
    nats = start.quiet(asks - 1).ask_price
    deviations = deviations_of(asks, horizon)
    whole = _tolerated(table, nats, deviations)
    name = f"ask, the last of {asks:,}" if asks > 1 else "one ask"
    call = "ask(q)" if horizon is None else f"Holdout(rounds={asks}); ask(q)"
    name += "" if horizon is None else " declared"
    return Way(name, call, nats, whole, _contained(table.part(GROUP), nats, deviations), "each")


def _tolerated(table: RowCounts, nats: float, deviations: float) -> float:
    """A quiet answer to a yes/no question about all rows: the tolerance, then the exact tail."""
    n, public, _ = table
    tau = table.spread * _radius(max(SHARE * SHARE * nats / n, 0.5 * deviations * deviations * (1.0 / n + 1.0 / public)))
    low, high = binomial_interval(max(ceil(n * (table.share - tau)), 0), min(floor(n * (table.share + tau)), n), n, nats)
    return 0.5 * (high - low)


def _contained(table: RowCounts, nats: float, deviations: float) -> float:
    """A quiet answer about a group: what the forecast may be off by, then the foreseen interval with a margin."""
    more = _MARGIN + 2.0 / sqrt(min(table.rows, table.reference))
    return min(deviations * _spread(table) + _exact(table, table.rows, nats) * more, 0.5)


def _read(table: RowCounts, before: Budget, number: int, name: str, purpose: Purpose = "read") -> Way:
    """A reading, the `number`-th of its session."""
    return _measured(table, before.claim_price(), _fine(number), name, "read(q)", purpose)


def _one_by_one(table: RowCounts, start: Budget, reads: int, purpose: Purpose) -> Way:
    """The last of several readings, each of which may depend on those before."""
    budget, costs = start, {number: _cost(table, _fine(number)) for number in range(1, 4)}
    for number in range(1, reads):
        budget = budget.disclosed(costs[min(number, 3)]).claimed()
    return _read(table, budget, reads, f"reading number {reads:,}, one by one", purpose)


def _batch(
    table: RowCounts, before: Budget, parts: int, share: Fraction | None, fine: Fraction, name: str, call: str
) -> Way:
    return _measured(table, before.claim_price(share, parts=parts), fine, name, call, "fixed")


def _chosen(table: RowCounts, start: Budget, candidates: int, generations: int) -> list[Way]:
    """The best of several, then its interval. From the second generation on, the champion is one of the candidates."""
    each = ceil(candidates / generations)
    budget = start
    for generation in range(generations):
        budget = budget.chosen(Fraction(1, each + (generation > 0)))
    best = f"the best of {candidates:,}" + (f" in {generations:,} generations" if generations > 1 else "")
    price, call = budget.claim_price(Fraction(1)), "best_of([...]); close([...])"
    last = _measured(table, price, _FINEST, f"{best}, then close", call, "best")
    price, call, name = budget.claim_price(), "best_of([...]); read(q)", f"{best}, then read"
    return [_measured(table, price, _fine(1), name, call, "best", _WIDEST_CHOSEN), last]


def _measured(
    table: RowCounts, nats: float, fine: Fraction, name: str, call: str, purpose: Purpose, widest: float = _WIDEST
) -> Way:
    """A private value to its cell, with the interval of the cell."""
    group = table.part(GROUP)
    n, cell = table.rows, _cell(table, fine, widest)
    first, last = ceil(n * (table.share - cell / 2)), ceil(n * (table.share + cell / 2)) - 1
    low, high = binomial_interval(max(first, 0), min(max(last, first, 0), n), n, nats)
    more = 2.0 ** (1 / 64) if fine == _FINEST else _START
    within = min(_cell(group, fine, widest) / 2 + more * _exact(group, group.rows, nats), 0.5)
    return Way(name, call, nats, 0.5 * (high - low), within, purpose)


def _plain(table: RowCounts, parts: int, intervals: int, failure_probability: float, name: str, purpose: Purpose) -> Way:
    """Intervals of rows that nobody has used before."""
    nats = log(2.0 * intervals / failure_probability)
    rows, group = table.rows // parts, table.rows // (parts * GROUP)
    half, within = (_exact(table, size, nats) if size else inf for size in (rows, group))
    return Way(name, "", nats, half, within, purpose)


def _cost(table: RowCounts, fine: Fraction) -> float:
    """What a reading adds to later prices on average, if it is as far from its forecast as chance makes it."""
    spread, cell = _spread(table), _cell(table, fine)
    scale, cells = max(round(1.35 * spread / cell * 1024), 1), ceil(1.0 / cell) + 2
    z = cell / (spread * sqrt(2.0))
    total = erf(z / 2) * reading_nats(0, scale, cells)
    for j in range(1, ceil(8.0 / z) + 2):
        total += (erf((j + 0.5) * z) - erf((j - 0.5) * z)) * reading_nats(j, scale, cells)
    return ANSWERED_NATS + total + step_nats(0)


def _fine(number: int) -> Fraction:
    """The cell of a session's `number`-th reading, in deviations."""
    return Fraction(min(number, 3), 2)


def _cell(table: RowCounts, fine: Fraction, widest: float = _WIDEST) -> float:
    return min(float(fine) * _spread(table), widest * table.spread * _radius(0.5 / table.rows))


def _spread(table: RowCounts) -> float:
    """What a forecast may be off by."""
    return table.spread * _radius(0.5 * (1.0 / table.rows + 1.0 / table.reference))


def _radius(nats_per_row: float) -> float:
    """The kl radius around one half, about."""
    return min(sqrt(0.5 * nats_per_row + 0.25 * nats_per_row * nats_per_row), 1.0)


def _exact(table: RowCounts, rows: int, nats: float) -> float:
    """The exact tail, at the count of the share that is planned for."""
    count = int(rows * table.share)
    low, high = binomial_interval(count, count, rows, nats)
    return 0.5 * (high - low)
