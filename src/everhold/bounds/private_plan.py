"""What privacy costs: half-widths with and without it, and what noise on every question would give instead.

Assumes that forecasts fit, as `bounds.widths` does; validity and privacy do not depend on that. Tolerances and noise are
those of `mechanism.private`, near a share of one half; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, inf, log, sqrt
from typing import TYPE_CHECKING, Any

from everhold.bounds.binomial import binomial_interval
from everhold.bounds.budget import Budget
from everhold.bounds.code import ANSWERED_NATS
from everhold.bounds.noisy_tail import noisy_interval
from everhold.bounds.privacy import ROW_PARTS, chance_nats
from everhold.bounds.sample_size import SHARE, deviations_of
from everhold.errors import SettingError
from everhold.results import PlainResult, counted

if TYPE_CHECKING:
    from everhold.bounds.privacy import Privacy, PrivacyTerms

__all__ = ["PrivateCost", "PrivatePlan", "break_even", "gaussian_deviation", "private_plan"]

_PRIVATE_SHARE = 0.3  # as `mechanism.private`
_CELL_NATS = ANSWERED_NATS + log(8.0)  # of a surprise in the first cell beyond the tolerance


@dataclass(frozen=True, slots=True)
class PrivateCost:
    """One act with and without privacy.

    Attributes:
        name: in words.
        plain, private: half-widths of a share of one half; infinite if they say nothing.
    """

    name: str
    plain: float
    private: float

    @property
    def factor(self) -> float:
        """How many times wider it is with privacy."""
        return self.private / self.plain if self.plain < inf else inf


@dataclass(frozen=True, slots=True)
class PrivatePlan(PlainResult):
    """What a promise costs for so many rows and questions; print it.

    Attributes:
        privacy: the promise.
        costs: acts with and without it.
        gaussian: the largest noise among all questions if each had Gaussian noise of its own, at the same promise, on the
            share scale. It is about the sample: no interval for the population follows.
        gaussian_width: the half-width of intervals for the population with that noise, for questions that are all fixed
            before the first answer.
        break_even: from so many questions on, everhold's noise is smaller than that.
        advice: what follows, in words.
    """

    privacy: Privacy
    costs: tuple[PrivateCost, ...]
    gaussian: float
    gaussian_width: float
    break_even: int
    advice: str

    def __str__(self) -> str:
        terms = self.privacy.terms
        lines = [
            f"With privacy ε = {self.privacy.epsilon:g}, δ = {self.privacy.delta:g}, "
            f"{counted(self.privacy.surprises, 'surprise')} (tests with noise of {terms.test_scale:.1f} rows, releases with "
            f"{terms.deviation:.1f}):",
            "",
            f"{'  act, if forecasts fit':<44}{'plain':>10}{'private':>10}{'wider':>9}",
        ]
        for cost in self.costs:
            plain, private = (
                f"±{half_width:.3g}" if half_width < 0.5 else "none" for half_width in (cost.plain, cost.private)
            )
            factor = f"×{cost.factor:.2f}" if cost.private < 0.5 else ""
            lines.append(f"  {cost.name:<42}{plain:>10}{private:>10}{factor:>9}")
        noise = f"±{self.gaussian_width:.3g}" if self.gaussian_width < 0.5 else "none"
        lines.append(f"  {'Gaussian noise on each, all fixed before':<42}{'–':>10}{noise:>10}")
        lines += [
            "",
            "All are half-widths of intervals for the population. Those of everhold also hold for questions that follow "
            "from answers; the last line does not.",
            self.advice,
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each act."""
        return [{**line, "factor": cost.factor} for line, cost in zip(self.to_dict()["costs"], self.costs, strict=True)]


def private_plan(
    *, rows: int, reference: int, asks: int, privacy: Privacy, failure_probability: float = 0.05
) -> PrivatePlan:
    """What a promise costs.

    Args:
        rows: n, the private rows.
        reference: public rows.
        asks: T adaptive asks; widths are those of the last.
        privacy: the promise.
        failure_probability: δ of the intervals.

    >>> from everhold.bounds.privacy import Privacy
    >>> found = private_plan(rows=100_000, reference=100_000, asks=1_000_000, privacy=Privacy())
    >>> for cost in found.costs:
    ...     print(f"{cost.name}: ±{cost.plain:.4f} and ±{cost.private:.4f}")
    ask 1,000,000, no surprise before: ±0.0203 and ±0.0271
    ask 1,000,000, after 19 surprises: ±0.0321 and ±0.0368
    the first reading: ±0.0042 and ±0.0060
    >>> found.break_even, round(found.gaussian, 2)
    (253, 0.33)
    """
    if rows < 1 or reference < 1 or asks < 1:
        raise SettingError(f"rows, reference and asks are at least 1, not {rows}, {reference} and {asks}")
    terms, many = privacy.terms, privacy.surprises
    budgets = [Budget.first(failure_probability, None, terms_of) for terms_of in (None, terms)]
    costs = []
    for before, name in ((0, "no surprise before"), (many - 1, f"after {many - 1} surprise{'s' * (many != 2)}")):
        widths = []
        for budget, terms_of in zip(budgets, (None, terms), strict=True):
            after = budget
            for _ in range(before):
                after = after.surprised(_CELL_NATS)
            widths.append(
                _asked(rows, reference, asks, after.quiet(max(asks - 1 - before, 0)), terms_of, failure_probability)
            )
        costs.append(PrivateCost(f"ask {asks:,}, {name}", *widths))
    read = [
        _read(rows, reference, budget, terms_of, failure_probability)
        for budget, terms_of in zip(budgets, (None, terms), strict=True)
    ]
    costs.append(PrivateCost("the first reading", *read))
    noise = gaussian_deviation(privacy, asks) * sqrt(2.0 * log(2.0 * asks / failure_probability)) / rows
    even = break_even(privacy, failure_probability)
    fixed = _fixed_width(rows, asks, privacy, failure_probability)
    return PrivatePlan(privacy, tuple(costs), noise, fixed, even, _advice(costs, fixed, even, asks, rows, privacy))


def _fixed_width(rows: int, asks: int, privacy: Privacy, failure: float) -> float:
    """Noise on every question, and Hoeffding's sampling error: half of δ for each, a union over both tails of all questions.

    `docs/theory/privacy.md#fixed-questions`.
    """
    tail = log(4.0 * asks / failure)
    return gaussian_deviation(privacy, asks) * sqrt(2.0 * tail) / rows + sqrt(tail / (2.0 * rows))


def _asked(rows: int, reference: int, asks: int, budget: Budget, terms: PrivacyTerms | None, failure: float) -> float:
    """The half-width of a quiet ask."""
    price, spread = budget.ask_price, sqrt(0.25 * (1.0 / rows + 1.0 / reference))
    width = sqrt(price / (2.0 * rows))
    if budget.privacy is None or terms is None:
        return _half_width(rows, max(SHARE * width, deviations_of(asks) * spread), price)
    chance = chance_nats(asks, budget.privacy.surprises_left)
    tau = max(_PRIVATE_SHARE * width, min(max(sqrt(2.0 * chance), 1.0), 4.0) * spread)
    tau += (terms.test_scale * chance + terms.hidden_parts(failure) / ROW_PARTS) / rows
    return _half_width(rows, tau, price)


def _read(rows: int, reference: int, budget: Budget, terms: PrivacyTerms | None, failure: float) -> float:
    """The half-width of the first reading: half a cell, and the narrower of the two ways to count the noise."""
    spread = 0.25 * (1.0 / rows + 1.0 / reference)
    if terms is None:
        return _half_width(rows, 0.25 * sqrt(spread), budget.claim_price())
    half = 0.25 * sqrt(spread + (terms.deviation / rows) ** 2)
    price = budget.claim_price()
    low, high = noisy_interval((0.5 - half) * rows, (0.5 + half) * rows, rows, terms.deviation**2, price)
    integrated = (high - low) / 2.0 if high - low < 1.0 else inf
    return min(integrated, _half_width(rows, half + terms.shaken_parts(failure, 1) / ROW_PARTS / rows, price))


def _half_width(rows: int, slack: float, price: float) -> float:
    if slack >= 0.5:
        return inf
    least, most = round((0.5 - slack) * rows), round((0.5 + slack) * rows)
    low, high = binomial_interval(least, most, rows, price)
    return (high - low) / 2.0


def gaussian_deviation(privacy: Privacy, questions: int) -> float:
    """The deviation, in rows, of Gaussian noise on every one of so many questions, by the exact curve.

    Balle and Wang 2018, arXiv:1805.06530.

    >>> from everhold.bounds.privacy import Privacy
    >>> round(gaussian_deviation(Privacy(), 1_000))
    174
    """

    def delta(deviation: float) -> float:
        s = sqrt(questions) / deviation
        return _normal(s / 2.0 - privacy.epsilon / s) - exp(privacy.epsilon) * _normal(-s / 2.0 - privacy.epsilon / s)

    low, high = 1e-3, 1e12
    for _ in range(200):
        middle = sqrt(low * high)
        low, high = (low, middle) if delta(middle) <= privacy.delta else (middle, high)
    return high


def break_even(privacy: Privacy, failure_probability: float = 0.05) -> int:
    """From so many questions on, the largest Gaussian noise exceeds what privacy adds to a quiet answer.

    Both are in rows, so it depends neither on the number of rows nor on the forecasts. Half of the surprises are left.
    """
    terms, left = privacy.terms, (privacy.surprises + 1) // 2

    def better(questions: int) -> bool:
        mine = terms.test_scale * chance_nats(questions, left) + terms.hidden_parts(failure_probability) / ROW_PARTS
        theirs = gaussian_deviation(privacy, questions) * sqrt(2.0 * log(2.0 * questions / failure_probability))
        return mine < theirs

    high = 1
    while not better(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if better(middle) else (middle, high)
    return high


def _normal(x: float) -> float:
    return 0.5 * erfc(-x / sqrt(2.0))


def _advice(costs: list[PrivateCost], fixed: float, even: int, asks: int, rows: int, privacy: Privacy) -> str:
    worst = costs[1]
    sentences = []
    if worst.private >= 0.5:
        sentences.append(
            f"{rows:,} rows are too few for this promise: once its surprises are used, answers say nothing. More rows, a "
            "larger epsilon, or fewer surprises."
        )
    else:
        least, most = sorted((costs[0].factor, worst.factor))
        sentences.append(f"Privacy makes quiet answers {least:.2f} to {most:.2f} times as wide.")
    if fixed < min(cost.private for cost in costs[:2]):
        sentences.append(
            f"For {asks:,} questions that are all known in advance, Gaussian noise on each is narrower (±{fixed:.3g}). For "
            "questions that follow from answers, use everhold."
        )
    else:
        sentences.append(
            f"Gaussian noise on each of {asks:,} questions is no narrower (±{fixed:.3g}), even if all are known in advance."
        )
    sentences.append(f"everhold's noise alone is smaller than Gaussian noise from {even:,} questions on.")
    sentences.append(
        f"After {counted(privacy.surprises, 'surprise')} nothing more can be asked: this needs a prior near the population."
    )
    return " ".join(sentences)
