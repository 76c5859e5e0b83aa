"""Acts beyond asking: read, choose the best, compare, certify, close. Each is fixed and recorded before rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import count
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everhold.acts import ACTS, AnyAct, BestOf, Certify, Close, CompareTwo, IsBetter, Read, ReadMany
from everhold.bounds.binomial import mcnemar_refutes
from everhold.errors import DataError, EverholdError, QuestionError, SettingError, require_number
from everhold.ledger.act_prices import narrowed_answer
from everhold.ledger.codec import question_to_dict
from everhold.ledger.rounds import ActStart
from everhold.mechanism.measures.measure import count_of
from everhold.progress import progress_bar
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.queries.expression import BoundedMean, Expression, conjunction, question_of
from everhold.queries.expression.question import without_values
from everhold.queries.grid import VALUE_ONE
from everhold.queries.protocol import QUIET
from everhold.queries.query import RowFunction, Values
from everhold.queries.round_act import RoundAct
from everhold.session.readings import read_parts
from everhold.statistics import checked_statistic, is_statistic, require_no_expect
from everhold.statistics.finding import Finding
from everhold.statistics.means import Compare
from everhold.statistics.parameters import arguments
from everhold.statistics.statistic import run_together

if TYPE_CHECKING:
    from everhold.mechanism.everhold import Everhold, EverholdProposal
    from everhold.queries.expression.tree import Node
    from everhold.queries.query import Query, Rows
    from everhold.queries.request import AskedBy
    from everhold.session.session import Session
    from everhold.statistics.declared import DeclaredColumns
    from everhold.statistics.statistic import QuestionBatch, Statistic, Steps

__all__ = ["Acts", "candidate_weights", "checked_by", "checked_spend", "described", "verdict_of"]

_MANY = 20  # candidates that may take seconds


def checked_spend(spend: object) -> Fraction | None:
    """Which part of what is left of δ a claim spends: between 0 and 1, or None."""
    if spend is None:
        return None
    if isinstance(spend, bool) or not isinstance(spend, int | float | Fraction) or not 0 < spend <= 1:
        raise SettingError(f"spend is {spend!r}. Expected a number above 0 and up to 1, or None.")
    return Fraction(spend).limit_denominator(2**20) or Fraction(1, 2**20)


def _alone(query: Any) -> Steps[Answer]:
    answers = yield [query]
    return answers[0]


class Acts:
    """The acts of one session.

    Args:
        session: private rows and record.
        mechanism: of the session.
        declared: the columns, and the public side of statistics.
    """

    def __init__(self, session: Session[EverholdProposal], mechanism: Everhold, declared: DeclaredColumns) -> None:
        self._session, self._mechanism, self._declared = session, mechanism, declared

    def checked(self, asked: Iterable[object]) -> list[Any]:
        """Questions and statistics, checked. Nothing is read."""
        if isinstance(asked, str) or callable(asked) or not isinstance(asked, Iterable):
            raise QuestionError("this act takes a list of questions or statistics.")
        return [
            checked_statistic(cast("Statistic[Any]", question)) if is_statistic(question) else self._session.query(question)
            for question in asked
        ]

    def _steps(self, questions: Sequence[Any]) -> list[Steps[Any]]:
        """The steps of questions and statistics, whose parts are answered together, batch by batch."""
        return [question.steps(self._declared) if is_statistic(question) else _alone(question) for question in questions]

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
            self._session.perform(begun, lambda: None, asked_by)
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

        return Choice.from_dict(self._session.perform(begun, decide, asked_by))

    def choose(
        self,
        names: Sequence[str],
        criterion: Callable[[int], float],
        weights: Sequence[Fraction],
        *,
        by: str,
        generation: int = 0,
        asked_by: AskedBy | None = None,
    ) -> Choice:
        """Which of several candidates is best on the private rows, by any criterion. Only the index is disclosed.

        Args:
            names: of the candidates, public. After the first generation the champion so far comes last.
            criterion: reads the private rows: the larger, the better. What it raises counts as the worst value. Of several
                with the same value the one with the largest weight is named, because that discloses least.
            weights: public weights of the candidates, without the champion's; they sum to at most 1.
            by: the criterion's name.
            generation: how many choices among other candidates came before, with the same champion.
            asked_by: for the record.
        """
        asked = tuple({"kind": "values", "name": name} for name in names)
        options = {"weights": [str(weight) for weight in weights], "generation": generation, "by": by}

        def decide() -> int:
            with progress_bar("Choosing", len(names), least=_MANY) as bar:
                values = [_no_error(criterion, index) for index in bar.over(range(len(names)))]
            best = max(range(len(weights)), key=lambda index: (values[index], weights[index], -index))
            stays = bool(generation) and values[best] <= values[-1]  # the champion, unless a candidate is better
            return len(names) - 1 if stays else best

        by_whom = asked_by or self._session.asked_by(None, None)
        return Choice.from_dict(self._session.perform(ActStart("best_of", asked, options), decide, by_whom))

    def is_better(self, first: object, second: object, by: float, asked_by: AskedBy) -> Decision:
        """Whether the first is larger than the second by more than `by`, on the private rows."""
        checked_by(by)
        questions = self.checked([first, second])
        self._check(questions, asked_by.request_id)
        begun = ActStart("is_better", described(questions), {"by": float(by)})

        def decide() -> bool:
            first_value, second_value = self._private_values(questions)
            return first_value - second_value > by if first_value > -np.inf and second_value > -np.inf else False

        return Decision.from_dict(self._session.perform(begun, decide, asked_by))

    def _check(self, questions: Sequence[Any], request_id: str | None) -> None:
        """Find what is wrong with questions on the public side, before anything is recorded."""
        if self._session.journal.requested_act(request_id) is not None:
            return  # it was done: what is recorded is returned, also after the last act

        def tried(batch: QuestionBatch) -> list[Answer]:
            return [self._as_foreseen(query) for query in batch]

        unsure = [
            question for question in questions if not isinstance(question, Expression | BoundedMean)
        ]  # texts were checked
        for result in run_together(self._steps(unsure), tried):
            if not isinstance(result, Answer | Finding):
                raise QuestionError("a table has many values. Expected questions with one value each.")

    def require_one_batch(self, questions: Sequence[Any]) -> None:
        """Refuse what cannot be read at once, in the last act and in a verdict."""
        if self._mechanism.closed:  # what was read then is returned again; anything else is refused
            return
        batches = 0

        def tried(batch: QuestionBatch) -> list[Answer]:
            nonlocal batches
            batches += 1
            return [self._as_foreseen(query) for query in batch]

        run_together(self._steps(questions), tried)
        if batches > 1:
            raise QuestionError(
                "this act reads everything at once, and a statistic here takes several steps (a quantile, with unit= or "
                "with public rows that are drawn anew). Read that one by itself. Nothing was charged."
            )

    def _as_foreseen(self, query: Any) -> Answer:
        """What the public side says; in a turn of its own, because somebody else's readings may be under way."""
        mechanism = self._mechanism
        with self._session.recorder.turn():
            answer = mechanism.answer(mechanism.propose(query), QUIET)
        return answer.as_asked(query)

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

    def _sums(self, proposals: Sequence[EverholdProposal]) -> list[Any]:
        scanned = self._session.recorder.sums_needed(proposals)
        return [
            self._session.scanner.sums(self._mechanism.needs(proposal), proposal.forecast.scale, None, scanned)
            for proposal in proposals
        ]

    # verdicts ------------------------------------------------------------------------------------------------------

    def compare(
        self,
        first: object,
        second: object,
        optional: Mapping[str, Any],
        spend: object,
        asked_by: AskedBy,
    ) -> Verdict:
        """Which of two is larger in the population, certified; or that the private rows do not show it.

        `optional`: low, high and given, for two texts.
        """
        spend = checked_spend(spend)
        texts = isinstance(first, str) and isinstance(second, str)
        if not texts and any(value is not None for value in optional.values()):
            raise QuestionError("low, high and given are for two questions given as text. Leave them out.")
        given = self._declared.yes_no(optional["given"]).tree if optional.get("given") is not None else None
        yes_no = texts and all(self._declared.is_yes_no(cast(str, text)) for text in (first, second))
        if texts and not (yes_no and self._session.sample.unit is None):
            questions: list[Any] = [checked_statistic(Compare(cast(str, first), cast(str, second), **optional))]
        else:
            if yes_no and (optional.get("low") is not None or optional.get("high") is not None):
                raise QuestionError("two yes/no questions are compared without a range. Leave low and high out.")
            questions = self.checked([first, second])
        parts = 2
        if (pair := self._pair(questions, given)) is None:
            earlier = self._session.journal.requested_act(asked_by.request_id)
            if earlier is None:
                self.require_one_batch(questions)
            parts = self._count(questions) if earlier is None else earlier.begun.options.get("parts", 0)
        options, decide = self._compared(pair, questions, spend, parts)
        options["spend"] = None if spend is None else str(spend)
        options["given"] = optional.get("given")
        begun = ActStart("compare", described(questions), options)
        require = self._require_compared(begun, asked_by)
        return Verdict.from_dict(self._session.perform(begun, decide, asked_by, require))

    def _compared(
        self, pair: tuple[Query, Query, Query] | None, questions: Sequence[Any], spend: Fraction | None, parts: int
    ) -> tuple[dict[str, Any], Callable[[], str]]:
        """The method of comparison as options for the record, and the function that decides."""
        if pair is not None:
            return {"method": "mcnemar", "parts": 2, "sides": 1}, self._mcnemar(pair, spend)
        decide = self._by_intervals(questions, RoundAct("close", parts=parts, spend=spend))
        return {"method": "intervals", "parts": parts, "sides": 2}, decide

    def _require_compared(self, begun: ActStart, asked_by: AskedBy) -> Callable[[], None]:
        """A check of the budget before a verdict. A plain study can always pay; a private one may refuse."""
        return lambda: None

    def compare_difference(self, difference: Values, request_id: str | None) -> Verdict:
        """Whether a difference in [-1, 1], row by row, is above or below 0 in the population, certified."""
        begun = ActStart(
            "compare",
            described([difference]),
            {"method": "intervals", "parts": 1, "sides": 2, "spend": None, "given": None},
        )
        decide = self._by_intervals([self._session.query(difference)], RoundAct("close"))
        return Verdict.from_dict(self._session.perform(begun, decide, self._session.asked_by(request_id, None)))

    def _pair(self, questions: Sequence[Any], given: Node | None) -> tuple[Query, Query, Query] | None:
        """Two yes/no questions about the same rows, and their conjunction; None where rows do not answer yes or no."""
        if self._session.sample.unit is not None or any(is_statistic(question) for question in questions):
            return None
        a, b = (without_values(question) for question in questions)
        if isinstance(a, Expression) and isinstance(b, Expression):
            group = () if given is None else (given,)
            conditions = ((a.tree,), (b.tree,), (a.tree, b.tree))
            first, second, third = (question_of(conjunction(*trees, *group)) for trees in conditions)
            return first, second, third
        if any(self._as_foreseen(query).scale != "share" for query in (a, b)):
            return None
        if isinstance(a, Values) and isinstance(b, Values):
            for values in (a, b):  # what is wrong with given values is reported, and they are as long as the rows
                self._session.sample.sums([values], "share")
            both = Values(
                sample=np.asarray(a.sample) & np.asarray(b.sample),
                reference=np.asarray(a.reference) & np.asarray(b.reference),
            )
            return a, b, both
        if isinstance(a, RowFunction) and isinstance(b, RowFunction):
            f, g = a.function, b.function

            def both_true(rows: Rows) -> Any:
                return np.asarray(f(rows)) & np.asarray(g(rows))

            return a, b, RowFunction(both_true)
        return None

    def _mcnemar(self, pair: tuple[Query, Query, Query], spend: Fraction | None) -> Callable[[], str]:
        session, n = self._session, self._session.size
        known_rows = self._mechanism.known_rows

        def decide() -> str:
            nats = self._mechanism.budget.claim_price(spend, parts=2, sides=1)
            a, b, both = (count_of(sums, n) for sums in session.scanner.sums(pair, "share"))
            if mcnemar_refutes(max(a - both - known_rows, 0), b - both, nats):
                return "first"
            return "second" if mcnemar_refutes(max(b - both - known_rows, 0), a - both, nats) else "neither"

        return decide

    def _count(self, questions: Sequence[Any]) -> int:
        count = 0

        def tried(batch: QuestionBatch) -> list[Answer]:
            nonlocal count
            count += len(batch)
            return [self._as_foreseen(query) for query in batch]

        for result in run_together(self._steps(questions), tried):
            if not isinstance(result, Answer | Finding):
                raise QuestionError("a table has many values. Expected two questions with one value each.")
        return count

    def _by_intervals(self, questions: Sequence[Any], act: RoundAct) -> Callable[[], str]:
        """A verdict where the private intervals of both, at the price of the claim, do not overlap."""

        def decide() -> str:
            def private(batch: QuestionBatch) -> list[Answer]:
                proposals = [self._mechanism.propose(query, act) for query in batch]
                answers = []
                for proposal, sums in zip(proposals, self._sums(proposals), strict=True):
                    answer = self._mechanism.answer(proposal, self._mechanism.decide(proposal, sums))
                    answers.append(answer.as_asked(proposal.query))
                return answers

            try:
                results = run_together(self._steps(questions), private)
            except DataError:
                raise
            except (ArithmeticError, EverholdError, ValueError):
                return "neither"
            return verdict_of(results)

        return decide

    # certificates --------------------------------------------------------------------------------------------------

    def certify(self, number: int, spend: object, asked_by: AskedBy) -> Answer:
        """An earlier answer with an interval at the price of a claim now."""
        spend = checked_spend(spend)
        begun = ActStart("certify", ({"kind": "round", "round": number},), {"spend": None if spend is None else str(spend)})
        done = self._session.perform(
            begun,
            lambda: None,
            asked_by,
            require=lambda: self.require_narrower(number, spend),  # at the price that this turn finds, after what others did
        )
        return Answer.from_dict(done)

    def require_narrower(self, number: int, spend: Fraction | None) -> None:
        """Refuse to certify a round that does not exist, or whose interval would not become narrower."""
        self._mechanism.require_open()
        journal, nats = self._session.journal, self._mechanism.budget.claim_price(spend)
        if not 1 <= number <= len(journal):
            raise QuestionError(f"there are rounds 1 to {len(journal)}, not {number}.")
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


def verdict_of(results: Sequence[Any]) -> str:
    """What the interval of a difference says, or the intervals of two."""
    if len(results) == 1:
        low, high = results[0].low, results[0].high
    else:
        low, high = results[0].low - results[1].high, results[0].high - results[1].low
    return "first" if low > 0.0 else "second" if high < 0.0 else "neither"


def candidate_weights(given: Sequence[float] | None, count: int) -> list[Fraction]:
    """Public forecasts of which is best, on a grid and with a sum of at most 1; equal weights when left out."""
    if given is None:
        return [Fraction(1, count)] * count
    if len(given) != count or not all(isinstance(weight, int | float) and weight > 0 for weight in given):
        raise SettingError(f"weights has {len(given)} entries for {count} candidates. Expected one positive number each.")
    total = sum(Fraction(weight) for weight in given)
    floor_ = Fraction(1, 8 * count)
    weights = [Fraction(7, 8) * Fraction(weight) / total + floor_ for weight in given]
    return [Fraction(int(weight * 2**32), 2**32) for weight in weights]


def _no_error(criterion: Callable[[int], float], index: int) -> float:
    """A criterion's value on the private rows; an error could disclose something, so it counts as the worst value."""
    try:
        value = float(criterion(index))
    except Exception:
        return float("-inf")
    return float("-inf") if isnan(value) else value


def described(questions: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Questions and statistics as plain data, for the record."""
    entries: list[Mapping[str, Any]] = []
    for question in questions:
        if is_statistic(question):
            entries.append({"kind": "statistic", "name": question.name, "arguments": arguments(question)})
        else:
            entries.append(question_to_dict(without_values(question)))
    return tuple(dict(entry) for entry in entries)
