"""Acts beyond asking: read, choose the best, compare, certify, close. Each is fixed and recorded before rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from itertools import count
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everhold.acts import ACTS, AnyAct, BestOf, Certify, Close, CompareTwo, IsBetter, Read, ReadMany
from everhold.errors import DataError, EverholdError, QuestionError, SettingError, require_number
from everhold.ledger.act_prices import narrowed_answer
from everhold.ledger.rounds import ActStart
from everhold.progress import SHOWN_FROM, progress_bar
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Choice, Decision
from everhold.queries.expression import BoundedMean, Expression
from everhold.queries.grid import VALUE_ONE
from everhold.queries.interrupts import interrupts
from everhold.queries.round_act import RoundAct
from everhold.session.act_questions import checked_spend, described, require_single_values
from everhold.session.comparison import ComparisonActs
from everhold.session.readings import read_parts
from everhold.statistics import is_statistic, require_no_expect
from everhold.statistics.statistic import run_together

if TYPE_CHECKING:
    from everhold.mechanism.everhold import EverholdProposal
    from everhold.queries.request import AskedBy
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["SessionActs", "candidate_weights", "checked_by"]


class SessionActs(ComparisonActs):
    """The acts of one session: its comparisons, and all others."""

    def do(self, act: AnyAct, asked_by: AskedBy) -> Any:
        """Do an act: `Holdout` and a server come here with the same value."""
        match act:
            case Read(question, spend=spend, expect=expect):
                require_no_expect(question, expect)
                return self.read([question], spend, asked_by, None if expect is None else [expect])[0]
            case ReadMany(questions, spend=spend):
                return self.read(questions, spend, asked_by)
            case BestOf(questions, weights=weights):
                return self.best_of(questions, weights, asked_by)
            case IsBetter(first, second, by=by):
                return self.is_better(first, second, by, asked_by)
            case CompareTwo(first, second, low=low, high=high, given=given, spend=spend):
                return self.compare(first, second, {"low": low, "high": high, "given": given}, spend, asked_by)
            case Certify(number, spend=spend):
                return self.certify(number, spend, asked_by)
            case Close(questions):
                return self.close(questions, asked_by)
        raise QuestionError(f"there is no act {act!r} here. Expected one of {', '.join(ACTS)}.")

    # readings ------------------------------------------------------------------------------------------------------

    def read(
        self,
        asked: Iterable[object],
        spend: object,
        asked_by: AskedBy,
        expects: Sequence[float | None] | None = None,
    ) -> list[Any]:
        """The private rows' own values, at one price; statistics of several steps at one price a step."""
        spend, questions = checked_spend(spend), self.checked(asked)
        read = partial(read_parts, self._session, asked_by=asked_by, numbers=count(1), spend=spend, expects=expects)
        results = run_together(self._steps(questions), read)
        self._record_findings(questions, results, asked_by)
        return results

    def close(self, asked: Iterable[object], asked_by: AskedBy) -> list[Any]:
        """The last readings, with all of the failure probability that is left. What was read then is returned again."""
        questions = self.checked(asked)
        if not self._mechanism.closed:
            self.require_one_batch(questions)
        read = partial(read_parts, self._session, asked_by=asked_by, numbers=count(1), kind="close", spend=Fraction(1))
        results = run_together(self._steps(questions), read)
        if not self._mechanism.closed:
            begun = ActStart("close", (), {"spend": "1"})
            self._session.recorder.do_act(begun, lambda: None, asked_by)
        self._record_findings(questions, results, asked_by)
        return results

    def _record_findings(self, questions: Sequence[Any], results: Sequence[Any], asked_by: AskedBy) -> None:
        for question, result in zip(questions, results, strict=True):
            if is_statistic(question):
                self._session.record_finding(question, result, asked_by)

    # selections and bits -------------------------------------------------------------------------------------------

    def best_of(self, asked: Iterable[object], weights: Sequence[float] | None, asked_by: AskedBy) -> Choice:
        """Which of these has the largest value on the private rows."""
        questions = self.checked(asked)
        if not questions:
            raise QuestionError("best_of needs at least one question.")
        checked_weights = candidate_weights(weights, len(questions))
        self._check(questions, asked_by.request_id)
        begun = ActStart("best_of", described(questions), {"weights": [str(weight) for weight in checked_weights]})

        def decide() -> int:
            values = self._private_values(questions)
            return max(range(len(values)), key=lambda index: (values[index], -index))

        return Choice.from_dict(self._session.recorder.do_act(begun, decide, asked_by))

    def choose(
        self,
        names: Sequence[str],
        goodness: Callable[[int], float],
        weights: Sequence[Fraction],
        *,
        criterion: str,
        earlier_choices: int = 0,
        asked_by: AskedBy | None = None,
    ) -> Choice:
        """Which of several candidates is best on the private rows, by any criterion. Only the index is disclosed.

        Args:
            names: of the candidates, public. After the first choice the champion so far comes last.
            goodness: reads the private rows: the larger, the better. What it raises counts as the worst value. Of several
                with the same value the one with the largest weight is named, because that discloses least.
            weights: public weights of the candidates, without the champion's; they sum to at most 1.
            criterion: its name.
            earlier_choices: how many choices among other candidates came before, with the same champion.
            asked_by: for the record.
        """
        asked = tuple({"kind": "values", "name": name} for name in names)
        options = {"weights": [str(weight) for weight in weights], "generation": earlier_choices, "by": criterion}

        def decide() -> int:
            with progress_bar("Choosing", len(names), least=SHOWN_FROM) as bar:
                values = [_no_error(goodness, index) for index in bar.over(range(len(names)))]
            best = max(range(len(weights)), key=lambda index: (values[index], weights[index], -index))
            stays = bool(earlier_choices) and values[best] <= values[-1]  # the champion, unless a candidate is better
            return len(names) - 1 if stays else best

        by_whom = asked_by or self._session.stamp(None, None)
        return Choice.from_dict(self._session.recorder.do_act(ActStart("best_of", asked, options), decide, by_whom))

    def require_possible(self, act: AnyAct, parts: int, who: str | None) -> None:
        """Refuse an act that would be refused, by the record alone. `parts`: how many are not in it already."""
        if isinstance(act, CompareTwo):
            self.require_same_kind(act.first, act.second)

    def is_better(self, first: object, second: object, by: float, asked_by: AskedBy) -> Decision:
        """Whether the first is larger than the second by more than `by`, on the private rows."""
        checked_by(by)
        questions = self.checked([first, second])
        self._check(questions, asked_by.request_id)
        begun = ActStart("is_better", described(questions), {"by": float(by)})

        def decide() -> bool:
            first_value, second_value = self._private_values(questions)
            return first_value - second_value > by if first_value > -np.inf and second_value > -np.inf else False

        return Decision.from_dict(self._session.recorder.do_act(begun, decide, asked_by))

    def _check(self, questions: Sequence[Any], request_id: str | None) -> None:
        """Find what is wrong with questions on the public side, before anything is recorded."""
        if self._session.journal.act_of_request(request_id) is not None:
            return  # it was done: what is recorded is returned, also after the last act

        # Texts were checked.
        unsure = [question for question in questions if not isinstance(question, Expression | BoundedMean)]
        results, _ = self._try_out(unsure)
        require_single_values(results)

    def _private_values(self, questions: Sequence[Any]) -> list[float]:
        """Values on the private rows; a question without a value there counts as smaller than all others."""

        def exact(batch: QuestionBatch) -> list[Answer]:
            if (totals := self._linear_values(batch)) is not None:
                return totals
            proposals = [self._mechanism.propose(query, RoundAct("close")) for query in batch]
            return [self._exact(proposal, sums) for proposal, sums in zip(proposals, self._sums(proposals), strict=True)]

        try:
            results = run_together(self._steps(questions), exact)
        except DataError:  # the rows cannot be read at all: this says nothing about them
            raise
        except (ArithmeticError, EverholdError, ValueError):  # an error may depend on private rows, so it is not raised
            results = [None] * len(questions)
        values = [float("-inf") if result is None else float(result.value) for result in results]
        return [float("-inf") if isnan(value) else value for value in values]

    def _linear_values(self, batch: QuestionBatch) -> list[Answer] | None:
        """The means of linear questions given as text, in one scan; None where there are others."""
        if not all(isinstance(query, Expression | BoundedMean) for query in batch):
            return None
        n = self._session.size
        answers = []
        for query, sums in zip(batch, self._session.scanner.sums(batch, "mean"), strict=True):
            value = sums.first / (VALUE_ONE * n)
            answer = Answer(value, value, value, False, 0, 0.0, "mean")
            answers.append(answer.as_asked(query))
        return answers

    def _exact(self, proposal: EverholdProposal, sums: Any) -> Answer:
        position = proposal.measure.value(sums)
        scale = proposal.forecast.scale
        value = float("nan") if position is None else float(position) if scale == "share" else float(2 * position - 1)
        low = value if position is not None else (0.0 if scale == "share" else -1.0)
        answer = Answer(value, low, value if position is not None else 1.0, False, 0, 0.0, scale)
        return answer.as_asked(proposal.query)

    # certificates --------------------------------------------------------------------------------------------------

    def certify(self, number: int, spend: object, asked_by: AskedBy) -> Answer:
        """An earlier answer with an interval at the price of a claim now."""
        spend = checked_spend(spend)
        begun = ActStart("certify", ({"kind": "round", "round": number},), {"spend": None if spend is None else str(spend)})
        result = self._session.recorder.do_act(
            begun,
            lambda: None,
            asked_by,
            require=lambda: self.require_narrower(number, spend),  # at the price that this turn finds, after what others did
        )
        return Answer.from_dict(result)

    def require_narrower(self, number: int, spend: Fraction | None) -> None:
        """Refuse to certify a round that does not exist, or whose interval would not become narrower."""
        self._mechanism.require_open()
        journal, nats = self._session.journal, self._mechanism.budget.claim_price(spend)
        if not 1 <= number <= len(journal):
            raise QuestionError(f"there are rounds 1 to {len(journal)}, not {number}.")
        if journal[number].counts is None and nats < journal[number].answer.price:
            raise QuestionError(
                f"round {number} is not a share of all rows, and only such answers can be certified. Read the question "
                "instead. Nothing was charged."
            )
        if narrowed_answer(self._mechanism, journal[number], nats) is None:
            raise QuestionError(
                f"the interval of round {number} was computed at {journal[number].answer.price:.1f} nats, and a "
                f"claim now costs {nats:.1f}: it would not be narrower. Read the question instead. Nothing was charged."
            )


def checked_by(by: object) -> None:
    """Refuse a margin that is not a finite number."""
    require_number(by, "by")
    if not isfinite(cast(float, by)):
        raise SettingError(f"by is {by!r}. Expected a finite number.")


def candidate_weights(given: Sequence[float] | None, count: int) -> list[Fraction]:
    """Public forecasts of which is best, on a grid and with a sum of at most 1; equal weights when left out."""
    if given is None:
        return [Fraction(1, count)] * count
    if len(given) != count:
        raise SettingError(f"weights has {len(given)} entries for {count} candidates. Expected one positive number each.")
    for weight in given:
        if not isinstance(weight, int | float) or not 0 < weight < float("inf"):
            raise SettingError(f"weights contains {weight!r}. Expected a positive number for each candidate.")
    total = sum(Fraction(weight) for weight in given)
    floor_ = Fraction(1, 8 * count)
    weights = [Fraction(7, 8) * Fraction(weight) / total + floor_ for weight in given]
    return [Fraction(int(weight * 2**32), 2**32) for weight in weights]


def _no_error(criterion: Callable[[int], float], index: int) -> float:
    """A criterion's value on the private rows; an error could disclose something, so it counts as the worst value."""
    try:
        with interrupts() as signals:
            value = float(criterion(index))
    except BaseException as error:
        if signals.seen and isinstance(error, KeyboardInterrupt):
            raise
        return float("-inf")
    return float("-inf") if isnan(value) else value
