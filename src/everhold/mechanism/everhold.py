"""Everhold's own mechanism: asks are answered from the sketch, readings from the private rows, and both are paid for.

Validity (`docs/theory/validity.md`): for any prior, rule, tolerance and analyst, all intervals of a session are
simultaneously valid with probability 1-δ over the private rows. Everything returned is a function of public facts, coins
and the outcomes so far; outcomes are charged by the code, and every interval spends its part of δ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isinf, nan
from typing import TYPE_CHECKING, cast

from everhold.bounds.budget import Budget
from everhold.bounds.code import Code
from everhold.bounds.concentration import confidence_nats, hoeffding_width
from everhold.errors import HoldoutClosed, QuestionError, ReplayError, SettingError
from everhold.mechanism.composite_forecasts import composite_forecast, group_means, paired_shares, side_forecast
from everhold.mechanism.measures.counts import CountCells, count_interval
from everhold.mechanism.measures.groups import GroupMeanCells, GroupShareCells
from everhold.mechanism.measures.measure import Measure, MeasureInputs, Precision
from everhold.mechanism.measures.numbers import MeanCells
from everhold.mechanism.measures.pairs import DifferenceCells, PairedCells
from everhold.mechanism.measures.private import PrivateCells, PrivateTolerance
from everhold.mechanism.measures.quantiles import QuantileCells
from everhold.mechanism.measures.spreads import SpreadCells
from everhold.mechanism.measures.tolerances import CountTolerance, MeanTolerance, room_beyond
from everhold.mechanism.measures.unforeseen import UnforeseenCells, WithoutForecast
from everhold.mechanism.rules.rule import Constraint, check_fit
from everhold.mechanism.sketch import Sketch, unchanged
from everhold.mechanism.state import Batch, Lessons, State
from everhold.mechanism.tolerance import Anytime, ToleranceInputs
from everhold.queries.answer import Answer, Preview
from everhold.queries.expression.composites import (
    COMPOSITES,
    GroupDifference,
    GroupMean,
    GroupShare,
    PairedShares,
    QuantileOf,
    SpreadOf,
    of_everybody,
)
from everhold.queries.grid import VALUE_ONE, GridValues
from everhold.queries.protocol import QUIET, SketchValue
from everhold.queries.round_act import ASK, READ, RoundAct

if TYPE_CHECKING:
    from everhold.mechanism.estimator import Estimator, Look
    from everhold.mechanism.tolerance import TolerancePolicy
    from everhold.queries.expression.composites import Composite, OneGroup
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome
    from everhold.queries.query import Query

__all__ = ["REPLAYED", "Everhold", "EverholdProposal"]

_SURPRISE = Precision(Fraction(1))
_EXACT = Precision(Fraction(1, 32), 64, Fraction(1, 2))
_BATCH = Precision(Fraction(1, 4), 16, Fraction(103, 100))
_CHOSEN = Precision(Fraction(1, 2), 16, Fraction(103, 100), widest=Fraction(2, 5))
_LARGE_BATCH = 8
_MOST_TAUGHT = 32  # questions of one batch that the sketch learns
_FEW_PUBLIC_ROWS = 5.0  # with fewer, the size of a group is not foreseen
_UNFORESEEN_GROUP = 0.125  # the share of the rows that such a group is taken to have, where its size is not disclosed
_OF_A_GROUP = (GroupShare, GroupMean, QuantileOf, SpreadOf)
_UNFORESEEN_DRAWS = 4.0  # what is known of it, in rows: next to nothing


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EverholdProposal:
    """The public side's proposal for one round: everything that is fixed before the private rows are read."""

    round: int
    query: Query | None
    forecast: SketchValue
    measure: Measure
    price: float
    act: RoundAct = ASK
    values: GridValues | None = None
    tolerance: float = 0.0


class Everhold:
    """Everhold's mechanism: a sketch answers, and an answer uses the private data only if the sketch is off, or is asked to.

    Args:
        rows: n, the number of private rows.
        estimator: the public side: a pool or fresh draws, with the rule that updates the sketch.
        policy: the precision, and when to refuse.
        failure_probability: δ, for all intervals of the session together.
        known_rows: how many of the private rows the analyst may know.
        horizon: how many asks are planned, where that is declared.
        units: whether a draw is a unit of several rows, so that a yes/no question has values between 0 and 1.
    """

    def __init__(
        self,
        *,
        rows: int,
        estimator: Estimator,
        policy: TolerancePolicy | None = None,
        failure_probability: float = 0.05,
        known_rows: int = 0,
        horizon: int | None = None,
        units: bool = False,
    ) -> None:
        if rows < 1:
            raise SettingError(f"the number of private rows is {rows!r}. Expected at least 1.")
        if not 0 <= known_rows < rows:
            raise SettingError(
                f"known_rows is {known_rows!r}. Expected a number from 0 to {rows - 1} (one less than the rows)."
            )
        confidence_nats(failure_probability)  # refuses what is no failure probability
        self._n = rows
        self._known_rows = known_rows
        self._estimator = estimator
        self._policy: TolerancePolicy = policy or Anytime()
        self._quantum = 2.0**-16 if units else 2.0**-17  # rounding of a row, and of the mean of a unit's rows
        self._adaptive = isinstance(self._policy, Anytime)
        self._composites = self._adaptive and not units and not estimator.fresh
        self._state = State(estimator.start(), Budget(failure_probability, Code(horizon)))

    # where it stands -----------------------------------------------------------------------------------------------

    @property
    def fresh(self) -> bool:
        """Whether every round draws new public rows; the record then has to store every question in full."""
        return self._estimator.fresh

    @property
    def draws(self) -> float:
        """The number of independent public draws behind the prior."""
        return self._estimator.draws

    @property
    def known_rows(self) -> int:
        """How many of the private rows the analyst may know."""
        return self._known_rows

    @property
    def composites(self) -> bool:
        """Whether shares and means of groups, and quantiles, are measured in one round."""
        return self._composites

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return self._state.round

    @property
    def surprises(self) -> int:
        """How many asks were surprises."""
        return self._state.budget.code.surprises

    @property
    def price(self) -> float:
        """C in nats: the price used for the interval of the next ask."""
        return self._state.budget.ask_price

    @property
    def budget(self) -> Budget:
        """What has been disclosed, and what of δ has been spent."""
        return self._state.budget

    @property
    def closed(self) -> bool:
        """Whether the last act was made: nothing private is read again."""
        return self._state.closed

    @property
    def fit(self) -> tuple[int, ...]:
        """The sketch's coefficients, on their grid."""
        return self._state.sketch.fit

    def prepare(self, query: Query) -> Query:
        """The question, evaluated once where public rows are fixed."""
        return query if isinstance(query, COMPOSITES) else self._estimator.prepare(query)

    def identity(self, query: Query) -> str:
        """A digest of the question's values on public rows; it distinguishes unnamed questions."""
        return self._estimator.identity(query)

    def prior(self, query: Query) -> float:
        """The mean of a linear question under the prior itself, on the [-1, 1] scale. It never changes."""
        return self._estimator.prior(query)

    # one round -----------------------------------------------------------------------------------------------------

    def propose(self, query: Query | SketchValue, act: RoundAct = ASK) -> EverholdProposal:
        """The forecast, and everything else that is fixed before the private rows are read."""
        return self._propose(query, act, "fresh")

    def _propose(self, query: Query | SketchValue, act: RoundAct, purpose: str) -> EverholdProposal:
        state = self._state
        self.require_open()
        price, precision = self._price(act)
        deviations = None
        if act.kind == "ask":
            deviations = self._deviations(state.budget.code)
        inputs = MeasureInputs(price, self._n, self._known_rows, deviations, precision, state.misfit, self._quantum)
        if isinstance(query, COMPOSITES):
            if not self._composites or (look := self._estimator.look(state.sketch, query.parts)) is None:
                raise QuestionError(
                    "this holdout measures groups by linear questions. Ask for a statistic, such as eh.Mean(...)."
                )
            forecast = composite_forecast(look.values, look, query)
            if isinstance(query, _OF_A_GROUP) and query.given is not None and self._is_unforeseen(forecast):
                return self._unforeseen_proposal(query, forecast.group, inputs, act)
            forecast = _expected(forecast, act.expect)
            return self._proposal(query, forecast, self._group_measure(query, forecast, look, inputs), inputs, act)
        if isinstance(query, SketchValue):
            linear, forecast, values = None, query, None
        else:
            estimate = self._estimator.estimate(state.sketch, query, state.round + 1, purpose)
            linear, forecast, values = query, _expected(estimate.forecast, act.expect), estimate.values
        return self._linear_proposal(linear, forecast, values, inputs, act)

    def _deviations(self, code: Code) -> float:
        return self._policy.deviations_at(code.asks + 1, code.horizon) if isinstance(self._policy, Anytime) else 0.0

    def _linear_proposal(
        self, query: Query | None, forecast: SketchValue, values: GridValues | None, inputs: MeasureInputs, act: RoundAct
    ) -> EverholdProposal:
        asked = query if query is not None else REPLAYED
        if act.kind == "ask" and (forecast.scale == "share" or not self._adaptive):
            limits = self._policy.tolerance(self._tolerance_inputs(forecast, inputs))
            kind = CountTolerance if forecast.scale == "share" else MeanTolerance
            measure = kind(asked, forecast, limits, inputs)
            return self._proposal(query, forecast, measure, inputs, act, values=values, tolerance=limits.width)
        if forecast.scale == "share":
            return self._proposal(query, forecast, CountCells(asked, forecast, inputs), inputs, act, values=values)
        cells = MeanCells(asked, forecast, inputs)
        allowed = 2.0 * cells.laddered.allowed
        return self._proposal(query, forecast, cells, inputs, act, values=values, tolerance=allowed)

    def _proposal(
        self,
        query: Query | None,
        forecast: SketchValue,
        measure: Measure,
        inputs: MeasureInputs,
        act: RoundAct,
        *,
        values: GridValues | None = None,
        tolerance: float = 0.0,
    ) -> EverholdProposal:
        """A proposal for the next round."""
        return EverholdProposal(
            round=self._state.round + 1,
            query=query,
            forecast=forecast,
            measure=measure,
            price=inputs.price,
            act=act,
            values=values,
            tolerance=tolerance,
        )

    def _tolerance_inputs(self, forecast: SketchValue, inputs: MeasureInputs) -> ToleranceInputs:
        """What a policy may know of the next ask."""
        code, others = self._state.budget.code, self._n - self._known_rows
        return ToleranceInputs(
            sketch=forecast.value,
            price=inputs.price,
            rows=others,
            draws=forecast.draws,
            known_shift=2.0 * self._known_rows / others,
            ask=code.asks + 1,
            horizon=code.horizon,
        )

    def _is_unforeseen(self, forecast: SketchValue) -> bool:
        """Whether the public side has almost no row of the group."""
        return forecast.group * self._estimator.draws < _FEW_PUBLIC_ROWS

    def _unforeseen_proposal(
        self, query: OneGroup, foreseen: float, inputs: MeasureInputs, act: RoundAct
    ) -> EverholdProposal:
        """A group of unknown size: it is expected to be as everybody is, and a reading first says how large it is."""
        everybody = of_everybody(query)
        look = cast("Look", self._estimator.look(self._state.sketch, everybody.parts))
        size = foreseen if act.kind == "ask" else _UNFORESEEN_GROUP
        guess = replace(composite_forecast(look.values, look, everybody), group=size, draws=_UNFORESEEN_DRAWS)
        guess = _expected(guess, act.expect)

        def made_for(rows: float) -> GroupShareCells | GroupMeanCells:
            sized = replace(guess, group=min(rows / inputs.others, 1.0))
            if isinstance(query, GroupShare):
                return GroupShareCells(query, sized, None, inputs)
            return GroupMeanCells(cast(GroupMean, query), sized, None, inputs)

        measure: Measure
        if isinstance(query, GroupShare | GroupMean) and act.kind != "ask":
            measure = UnforeseenCells(inputs.others, made_for)
        else:
            measure = self._group_measure(query, guess, look, inputs)
            measure = WithoutForecast(measure, act.kind == "ask")
        return self._proposal(query, guess, measure, inputs, act)

    def _group_measure(self, query: Composite, forecast: SketchValue, look: Look, inputs: MeasureInputs) -> Measure:
        values = (look.values[0], look.values[1])
        if isinstance(query, GroupDifference):
            first, second = (side_forecast(look.values[i : i + 2], look, query.low is not None) for i in (0, 2))
            return DifferenceCells(query, forecast, (first, second), look.values, inputs)
        if isinstance(query, SpreadOf):
            return SpreadCells(query, forecast, group_means(look.values, look), inputs)
        if isinstance(query, PairedShares):
            return PairedCells(query, forecast, paired_shares(look), look.values, inputs)
        if isinstance(query, GroupShare):
            return GroupShareCells(query, forecast, values, inputs)
        if isinstance(query, GroupMean):
            return GroupMeanCells(query, forecast, values, inputs)
        return QuantileCells.foreseen(query, forecast, values, look.masses.values, inputs)

    def _price(self, act: RoundAct) -> tuple[float, Precision]:
        """The price of a round's interval, and how finely it discloses."""
        state = self._state
        if act.kind == "ask":
            if state.batch is not None:
                raise SettingError("readings of a batch are under way. End them first.")
            return self.price, _SURPRISE
        if state.batch is not None:
            return state.batch.price, state.batch.precision
        if act.part != 1:
            raise ReplayError(f"reading {act.part} of {act.parts} comes without the first.")
        price = state.budget.claim_price(act.spend, parts=act.parts)
        if act.kind == "close":
            return price, _EXACT
        if act.parts >= _LARGE_BATCH:
            return price, _BATCH
        claims, code = state.budget.spending.claims, state.budget.code
        if not claims and not code.surprises and code.other_nats > 0.0:  # after a choice: often the only reading
            return price, _CHOSEN
        fine = Fraction(min(claims + 1, 3), 2)
        return price, Precision(fine, start=Fraction(103 if state.misfit < 1.5 else 105, 100))

    def needs(self, proposal: EverholdProposal) -> tuple[Query, ...]:
        """The linear questions whose private sums are wanted."""
        return proposal.measure.needs

    def rows_read(self, proposal: EverholdProposal) -> None:
        """None: sums are over all rows."""

    def decide(self, proposal: EverholdProposal, sums: Sequence[Sums]) -> Outcome:
        """What the private rows disclose."""
        return proposal.measure.decide(sums)

    def absorb(self, proposal: EverholdProposal, outcome: Outcome, fit: tuple[int, ...] | None = None) -> None:
        """End the round: charge for what it disclosed, and teach the sketch, or take the recorded fit.

        An outcome is charged even if the refit fails; the sketch then does not change, and that is recorded. Otherwise a
        failed refit would leak, uncharged, that there was something to learn.
        """
        state, act = self._state, proposal.act
        if proposal.round != state.round + 1:
            raise SettingError(
                f"the proposal is for round {proposal.round}, but the next round is {state.round + 1}. Propose again."
            )
        if act.kind == "ask":
            if outcome is QUIET:
                self._state = state.after_quiet(1)
                return
            budget, batch = state.budget.surprised(proposal.measure.charge(outcome)), None
        else:
            if outcome is QUIET:
                raise ReplayError(f"round {proposal.round} is a reading, and a reading is never quiet.")
            budget = state.budget.read(proposal.measure.charge(outcome))
            budget = budget if act.part > 1 else budget.claimed(act.spend)
            left = act.parts - act.part
            _, precision = self._price(act)
            batch = Batch(proposal.price, left, precision, state.misfit) if left else None
        taught = self._taught(state.taught, proposal, outcome)
        errors = state.forecast_errors.after(proposal.measure.deviation(outcome))
        closed = act.kind == "close" and batch is None
        after = replace(
            state, round=proposal.round, budget=budget, batch=batch, taught=taught, closed=closed, forecast_errors=errors
        )
        ended = batch is None and not closed and bool(taught.queries)
        if not ended:
            if fit is not None:
                raise ReplayError(f"round {proposal.round} has coefficients, but taught nothing.")
            self._state = after if batch is not None else replace(after, taught=Lessons())
            return
        taught = taught.most_telling(_MOST_TAUGHT)
        constraints = (*state.constraints, *taught.constraints)
        sketch = self._refit(state.sketch, taught, constraints, fit, proposal.round)
        self._state = replace(after, sketch=sketch, constraints=constraints, taught=Lessons())

    def _refit(
        self,
        sketch: Sketch,
        taught: Lessons,
        constraints: tuple[Constraint, ...],
        fit: tuple[int, ...] | None,
        number: int,
    ) -> Sketch:
        queries, values = taught.queries, taught.values
        if fit is not None:
            check_fit(fit, len(constraints))
            return self._estimator.learn(sketch, queries, values, fit)
        try:
            fit = self._estimator.fit(sketch, queries, values, constraints, number)
            return self._estimator.learn(sketch, queries, values, fit)
        except Exception:
            return self._estimator.learn(sketch, queries, values, unchanged(sketch, len(queries)))

    def _taught(self, before: Lessons, proposal: EverholdProposal, outcome: Outcome) -> Lessons:
        """What the round adds to what the sketch is to learn."""
        lesson = proposal.measure.lesson(outcome)
        if lesson is None or proposal.act.kind == "close":
            return before
        values = proposal.values if lesson.values is None else lesson.values
        if proposal.query is None or values is None:
            raise ReplayError(f"round {proposal.round} was a surprise, but its question was not recorded.")
        w = hoeffding_width(proposal.price, self._n - self._known_rows)
        off = max(abs(lesson.sketch - lesson.target) - lesson.slack, 0.0)
        tolerance = proposal.tolerance or lesson.slack
        constraint = Constraint(lesson.target, lesson.slack, lesson.sketch, w, off - w, tolerance)
        return Lessons((*before.queries, proposal.query), (*before.values, values), (*before.constraints, constraint))

    def skip(self, rounds: int) -> None:
        """Count `rounds` quiet asks read from a record; they change nothing else."""
        state = self._state
        self._state = state.after_quiet(rounds)

    def answer(self, proposal: EverholdProposal, outcome: Outcome) -> Answer:
        """Value and interval: a function of the proposal and the outcome."""
        value, low, high = proposal.measure.ends(outcome)
        scale = proposal.forecast.scale
        if scale == "mean":
            value, low, high = 2.0 * value - 1.0, 2.0 * low - 1.0, 2.0 * high - 1.0
        return Answer(
            value=nan if isinf(value) else value,
            low=low,
            high=high,
            surprise=proposal.act.kind == "ask" and outcome is not QUIET,
            round=proposal.round,
            price=proposal.price,
            scale=scale,
            act=proposal.act.kind,
        )

    # other acts ----------------------------------------------------------------------------------------------------

    def require_open(self) -> None:
        """Refuse once the last act was made."""
        if self._state.closed:
            raise HoldoutClosed(
                "this holdout was closed by its last act, and its private rows are not read again. What was recorded "
                "stays: see holdout.findings()."
            )

    def pay(self, budget: Budget) -> None:
        """Take over the budget after an act that is not made of rounds."""
        self.require_open()
        self._state = replace(self._state, budget=budget)

    def charge(self, proposal: EverholdProposal, outcome: Outcome) -> float:
        """What an outcome costs, in nats; a quiet ask is charged by the code of when surprises occur."""
        return 0.0 if outcome is QUIET else proposal.measure.charge(outcome)

    def counts(self, proposal: EverholdProposal, outcome: Outcome) -> tuple[int, int] | None:
        """Of a yes/no question, the least and the largest number of yes with this outcome."""
        measure = proposal.measure
        if isinstance(measure, CountTolerance | CountCells | PrivateTolerance | PrivateCells):
            return measure.counts(outcome)
        return None

    def count_interval(self, least: int, most: int, nats: float) -> tuple[float, float]:
        """All population shares, at a price, if the number of yes lies in this range."""
        return count_interval(least, most, MeasureInputs(nats, self._n, self._known_rows, None, _SURPRISE))

    def close(self) -> None:
        """Make the last act: nothing private is read again."""
        self._state = replace(self._state, closed=True)

    # the public side -----------------------------------------------------------------------------------------------

    def preview(self, query: Query, *, read: RoundAct = READ) -> Preview:
        """What the public side alone predicts for a question, free of charge: of an ask, and of a reading.

        `read`: how it would be read: with how many others, for which part of δ, in the last act or before.
        """
        proposal = self._propose(query, ASK, "preview")
        quiet = self.answer(proposal, QUIET)
        composite = isinstance(query, COMPOSITES)
        prior = proposal.forecast.value if composite else self._estimator.prior(query)
        share = quiet.scale == "share"
        reading = self._propose(query, read, "preview")
        centre: Outcome = 0 if isinstance(reading.measure, CountCells | PrivateCells) else (0, 0)
        as_read = self.answer(reading, centre)
        code = self._state.budget.code
        costs = [
            code.surprised(proposal.measure.charge(cell)).nats - code.quiet().nats
            for cell in _nearest_cells(proposal.measure)
        ]
        return Preview(
            prior=0.5 * (1.0 + prior) if share else prior,
            sketch=quiet.value,
            low=quiet.low,
            high=quiet.high,
            tolerance=proposal.tolerance / 2.0 if share else proposal.tolerance,
            scale=quiet.scale,
            price=proposal.price,
            surprise_costs=min(costs, default=0.0),
            read_low=as_read.low,
            read_high=as_read.high,
            read_price=reading.price,
            read_costs=code.disclosed(reading.measure.charge(centre)).nats - code.nats,
        )


def _nearest_cells(measure: Measure) -> list[Outcome]:
    """The nearest outcomes of an ask that are surprises."""
    if isinstance(measure, PrivateTolerance):
        first = max(measure.limits.tau // measure.limits.cell, 1)
        return [cell for cell, room in zip((first, -first), measure.room, strict=True) if first <= room]
    if not isinstance(measure, CountTolerance | MeanTolerance):
        return [(1, 0)]
    up, down = room_beyond(measure.forecast, measure.limits)
    return [cell for cell, room in ((1, up), (-1, down)) if room > 0]


def _expected(forecast: SketchValue, expect: float | None) -> SketchValue:
    """The forecast that somebody gives in place of the sketch's, on the answer's scale."""
    if expect is None:
        return forecast
    u = Fraction(expect) * 2 - 1 if forecast.scale == "share" else Fraction(expect)
    u = min(max(u, Fraction(-1)), Fraction(1))
    off = float(u) - forecast.value
    second = forecast.second + round(off * off * VALUE_ONE * VALUE_ONE)
    return replace(forecast, numerator=u.numerator, denominator=u.denominator, second=second)


class _Replayed:
    """Stands for a question whose text or values were not kept: a quiet round needs none."""

    name = None
    repeatable = text = yes_no = False

    def on_reference(self, *_: object, **__: object) -> GridValues:
        raise ReplayError("the question of a quiet round was not kept.")

    def on_sample(self, *_: object, **__: object) -> Sums:
        raise ReplayError("a replay has no private rows.")


REPLAYED = _Replayed()
