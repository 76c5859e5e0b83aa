"""What to expect of a holdout now: widths, and whether another prior would do better."""

from __future__ import annotations

from math import floor, log10, sqrt
from typing import TYPE_CHECKING, Any

from everhold.bounds.binomial import binomial_interval
from everhold.bounds.privacy import ROW_PARTS, chance_nats
from everhold.data.schema import is_identifier
from everhold.errors import EverholdError
from everhold.mechanism.tolerance import Anytime, share_radius
from everhold.queries.disclosed import width_factor, width_text
from everhold.statistics.means import Mean

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.session.holdout import Holdout

__all__ = ["SMALL_REFERENCE", "next_reading_text", "outlook", "small_reference"]

SMALL_REFERENCE = 8
"""A reference with so many times fewer rows than the private side is worth a warning."""

_COLUMNS = 2  # so many columns, at most, have the width of their mean foreseen


def small_reference(rows: int, draws: float) -> str | None:
    """What to do about a reference that is much smaller than the private side; None where it is not."""
    if draws * SMALL_REFERENCE >= rows:
        return None
    wider = (1.0 + rows / draws) ** 0.5
    return (
        f"the reference has about {draws:,.0f} rows and the private side {rows:,}: a forecast from it is {wider:.0f} times "
        "as noisy as the private rows themselves, and so wide are the intervals of asks. Use a larger reference, or "
        "eh.Split(0.3), or read what matters: holdout.read(...)."
    )


def next_reading_text(budget: Budget, rows: int, *, closed: bool) -> str:
    """How wide the next reading of a share near one half is, in words.

    >>> from everhold.bounds.budget import Budget
    >>> next_reading_text(Budget(0.05), 1_000, closed=False)
    'the next reading of a share: 1.2 times a plain 95 % interval; other answers are wider'
    """
    if closed:
        return "closed: nothing can be asked"
    if budget.privacy is None:
        return width_text(budget.claim_price())
    if budget.privacy.readings_left == 0:
        return "the privacy budget is used up: nothing more is read"
    plain = 1.959964 * 0.5 / sqrt(rows)
    shaken = budget.privacy.terms.shaken_parts(budget.failure_probability, budget.privacy.charges + 1) / ROW_PARTS / rows
    factor = width_factor(budget.claim_price()) + shaken / plain
    return f"the next reading of a share: {factor:.1f} times a plain 95 % interval, noise included; other answers are wider"


def _noise(holdout: Holdout) -> tuple[float, float]:
    """What the noise of a private study adds to an ask and to a reading, on either side, as shares."""
    if (account := holdout.privacy) is None:
        return 0.0, 0.0
    terms, n, failure = account.terms, holdout.size, 1.0 - holdout.settings.confidence
    margin = terms.test_scale * chance_nats(holdout.budget.code.asks + 1, account.surprises_left)
    hidden = terms.hidden_parts(failure) / ROW_PARTS
    return (margin + hidden) / n, terms.shaken_parts(failure, account.charges + 1) / ROW_PARTS / n


def _half_width(result: Any) -> str:
    """In the statistic's own units, two digits, never as a power of ten."""
    half = (result.high - result.low) / 2
    digits = 1 - floor(log10(half)) if half > 0.0 else 0
    return f"{round(half, digits):,.{max(digits, 0)}f}"


def outlook(holdout: Holdout) -> str:
    """Half-widths to expect now, in words. Public facts only; nothing is read or charged."""
    n, budget = holdout.size, holdout.budget
    if holdout.closed:
        return "Closed: nothing can be asked. What was recorded stays: holdout.findings()."
    pool = holdout.public.pool
    draws = float(n) if pool is None else pool.draws
    policy = holdout.settings.tolerance_policy()
    phrases = []
    if isinstance(policy, Anytime):
        deviations = policy.deviations_at(budget.code.asks + 1, budget.code.horizon)
        if (account := holdout.privacy) is not None and policy.deviations is None:
            deviations = min(max((2.0 * chance_nats(budget.code.asks + 1, account.surprises_left)) ** 0.5, 1.0), 4.0)
        off = share_radius(0.1, 0.5 * deviations * deviations * (1.0 / n + 1.0 / draws))
        hidden, shaken = _noise(holdout)
        off += hidden
        low, high = binomial_interval(round((0.1 - off) * n), round((0.1 + off) * n), n, budget.ask_price)
        cell = share_radius(0.1, 0.5 * (1.0 / n + 1.0 / draws)) / 4  # half of a first reading's cell
        cell += shaken
        first = binomial_interval(round((0.1 - cell) * n), round((0.1 + cell) * n), n, budget.claim_price())
        phrases.append(f"shares of about a tenth: ±{(high - low) / 2:.2g} asked, ±{(first[1] - first[0]) / 2:.2g} read")
        numbers = [
            column
            for column in holdout.schema.columns
            if column.kind == "number" and column.low is not None and not is_identifier(column.name)
        ]
        for column in numbers[:_COLUMNS]:
            try:
                trial = holdout.try_out(Mean(column.name))
            except EverholdError:
                continue
            phrases.append(f"mean of {column.name}: ±{_half_width(trial.ask)} asked, ±{_half_width(trial.read)} read")
    else:
        phrases.append(policy.describe())
    advice = small_reference(n, draws)
    if holdout.privacy is not None:
        phrases.append(holdout.privacy.text)
    return "To expect: " + "; ".join(phrases) + "." + ("" if advice is None else f" But {advice}")
