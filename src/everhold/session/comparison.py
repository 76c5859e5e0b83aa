"""Comparisons of two: certified verdicts, by the rows on which two questions differ or by two intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everhold.bounds.binomial import mcnemar_refutes
from everhold.errors import DataError, EverholdError, QuestionError
from everhold.ledger.rounds import ActStart
from everhold.mechanism.measures.measure import count_of
from everhold.queries.disclosed import Verdict
from everhold.queries.expression import Expression, conjunction, question_of
from everhold.queries.expression.question import without_values
from everhold.queries.query import RowFunction, Values
from everhold.queries.round_act import RoundAct
from everhold.session.act_questions import ActQuestions, checked_spend, described, one_batch, require_single_values
from everhold.statistics import checked_statistic, is_statistic
from everhold.statistics.means import Compare, Mean, Share
from everhold.statistics.statistic import run_together

if TYPE_CHECKING:
    from everhold.mechanism.everhold import EverholdProposal
    from everhold.queries.answer import Answer
    from everhold.queries.expression.tree import Node
    from everhold.queries.query import Query, Rows
    from everhold.queries.request import AskedBy
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["ComparisonActs", "verdict_of"]


class ComparisonActs(ActQuestions):
    """The comparisons of a session: which of two is larger in the population, and nothing else."""

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
        self.require_same_kind(first, second)
        texts, paired = isinstance(first, str) and isinstance(second, str), self.is_paired(first, second)
        if not texts and any(value is not None for value in optional.values()):
            raise QuestionError("low, high and given are for two questions given as text. Leave them out.")
        given = self._declared.yes_no(optional["given"]).tree if optional.get("given") is not None else None
        if texts and not paired:
            questions: list[Any] = [checked_statistic(Compare(cast(str, first), cast(str, second), **optional))]
        else:
            if paired and (optional.get("low") is not None or optional.get("high") is not None):
                raise QuestionError("two yes/no questions are compared without a range. Leave low and high out.")
            questions = self.checked([first, second])
        parts = 2
        if (pair := self._pair(questions, given)) is None:
            earlier = self._session.journal.act_of_request(asked_by.request_id)
            if earlier is None:
                self.require_one_batch(questions)
            parts = self._count(questions) if earlier is None else earlier.begun.options.get("parts", 0)
        options, decide = self._compared(pair, questions, spend, parts)
        options["spend"] = None if spend is None else str(spend)
        options["given"] = optional.get("given")
        begun = ActStart("compare", described(questions), options)
        require = self._require_compared(begun, asked_by)
        return Verdict.from_dict(self._session.recorder.do_act(begun, decide, asked_by, require))

    def require_same_kind(self, first: object, second: object) -> None:
        """Refuse a share beside a number: which of the two is larger says nothing."""
        if {self._is_share(first), self._is_share(second)} == {True, False}:
            raise QuestionError(
                "one of the two is a share and the other one a number, such as a mean. Which is larger says nothing. "
                "Expected two shares, or two numbers in the same units. Nothing was charged."
            )

    def _is_share(self, question: object) -> bool | None:
        """Whether a question or statistic is a share; None of given values and functions."""
        if isinstance(question, str):
            return self._declared.is_yes_no(question)
        if isinstance(question, Mean):
            return self._declared.is_yes_no(question.question)
        return isinstance(question, Share) if is_statistic(question) else None

    def is_paired(self, first: object, second: object) -> bool:
        """Whether two questions given as text are compared row by row: both are yes/no, and a row is a draw."""
        return self._session.sample.unit is None and all(
            isinstance(question, str) and self._declared.is_yes_no(question) for question in (first, second)
        )

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
        return Verdict.from_dict(self._session.recorder.do_act(begun, decide, self._session.stamp(request_id, None)))

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
        """Of how many parts two questions are."""
        results, batch_sizes = self._try_out(questions)
        require_single_values(results, "two questions")
        return sum(batch_sizes)

    def _by_intervals(self, questions: Sequence[Any], act: RoundAct) -> Callable[[], str]:
        """A verdict where the private intervals of both, at the price of the claim, do not overlap."""
        mechanism = self._mechanism

        def decide() -> str:
            def private(batch: QuestionBatch) -> list[Answer]:
                proposals = self._propose_parts(batch, act)
                answers = []
                for query, proposal, sums in zip(batch, proposals, self._sums(proposals), strict=True):
                    answer = mechanism.answer(proposal, mechanism.decide(proposal, sums))
                    answers.append(answer.as_asked(query))
                return answers

            try:
                return verdict_of(run_together(self._steps(questions), one_batch(private, act.parts)))
            except DataError:
                raise
            except (ArithmeticError, EverholdError, ValueError):
                return "neither"

        return decide

    def _propose_parts(self, batch: QuestionBatch, act: RoundAct) -> list[EverholdProposal]:
        """The readings that a verdict is made of."""
        return [self._mechanism.propose(query, act) for query in batch]


def verdict_of(results: Sequence[Any]) -> str:
    """What the interval of a difference says, or the intervals of two."""
    if len(results) == 1:
        low, high = results[0].low, results[0].high
    else:
        low, high = results[0].low - results[1].high, results[0].high - results[1].low
    return "first" if low > 0.0 else "second" if high < 0.0 else "neither"
