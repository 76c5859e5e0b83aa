"""Questions of an act: checked, tried on the public side, and summed on the private rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from everhold.errors import QuestionError, SettingError
from everhold.ledger.codec import question_to_dict
from everhold.queries.answer import Answer
from everhold.queries.expression.question import without_values
from everhold.queries.protocol import QUIET
from everhold.statistics import checked_statistic, is_statistic
from everhold.statistics.finding import Finding
from everhold.statistics.parameters import arguments
from everhold.statistics.quantiles import Median, Quantile
from everhold.statistics.statistic import run_together

if TYPE_CHECKING:
    from everhold.mechanism.everhold import Everhold, EverholdProposal
    from everhold.session.session import Session
    from everhold.statistics.declared import DeclaredColumns
    from everhold.statistics.statistic import QuestionBatch, Statistic, Steps

__all__ = ["ActQuestions", "checked_spend", "described", "one_batch", "require_single_values"]


def checked_spend(spend: object) -> Fraction | None:
    """Which part of what is left of δ a claim spends: between 0 and 1, or None."""
    if spend is None:
        return None
    if isinstance(spend, bool) or not isinstance(spend, int | float | Fraction) or not 0 < spend <= 1:
        raise SettingError(f"spend is {spend!r}. Expected a number above 0 and up to 1, or None.")
    return Fraction(spend).limit_denominator(2**20) or Fraction(1, 2**20)


def described(questions: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Questions and statistics as plain data, for the record."""
    entries: list[Mapping[str, Any]] = []
    for question in questions:
        if is_statistic(question):
            entries.append({"kind": "statistic", "name": question.name, "arguments": arguments(question)})
        else:
            entries.append(question_to_dict(without_values(question)))
    return tuple(dict(entry) for entry in entries)


def _may_take_steps(question: Any, declared: DeclaredColumns) -> bool:
    """Whether what a statistic asks next may follow from its answers: on the private rows, if not on the public ones."""
    return isinstance(question, Median | Quantile) and not declared.composites


def require_single_values(results: Sequence[Any], expected: str = "questions") -> None:
    """Refuse tables."""
    for result in results:
        if not isinstance(result, Answer | Finding):
            raise QuestionError(f"a table has many values. Expected {expected} with one value each.")


def _alone(query: Any) -> Steps[Answer]:
    answers = yield [query]
    return answers[0]


def one_batch(answers: Callable[[QuestionBatch], list[Answer]], parts: int) -> Callable[[QuestionBatch], list[Answer]]:
    """Answers to the one batch that an act has announced and pays for, of so many parts, and to nothing else.

    What a statistic asks next may follow from answers that nobody sees: those were not paid for.

    Raises:
        QuestionError: on another batch, or a larger one. A function of private rows: an act must not show it.
    """
    batches = 0

    def only(batch: QuestionBatch) -> list[Answer]:
        nonlocal batches
        batches += 1
        if batches > 1 or len(batch) > parts:
            raise QuestionError("this asks more than was announced.")
        return answers(batch)

    return only


class ActQuestions:
    """What the acts of a session do with their questions.

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

    def require_one_batch(self, questions: Sequence[Any]) -> None:
        """Refuse what cannot be read at once, in the last act and in a verdict."""
        if self._mechanism.closed:  # what was read then is returned again; anything else is refused
            return
        several = any(_may_take_steps(question, self._declared) for question in questions)
        if several or len(self._try_out(questions)[1]) > 1:
            raise QuestionError(
                "this act reads everything at once, and a statistic here takes several steps (a quantile, with unit= or "
                "with public rows that are drawn anew). Read that one by itself. Nothing was charged."
            )

    def _try_out(self, questions: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """The results by the public side alone, and of how many parts each batch was."""
        batch_sizes: list[int] = []

        def foreseen(batch: QuestionBatch) -> list[Answer]:
            batch_sizes.append(len(batch))
            return [self._as_foreseen(query) for query in batch]

        return run_together(self._steps(questions), foreseen), batch_sizes

    def _as_foreseen(self, query: Any) -> Answer:
        """What the public side says; in a turn of its own, because somebody else's readings may be under way."""
        mechanism = self._mechanism
        with self._session.recorder.turn():
            answer = mechanism.answer(mechanism.propose(query), QUIET)
        return answer.as_asked(query)

    def _sums(self, proposals: Sequence[EverholdProposal]) -> list[Any]:
        scanned = self._session.recorder.sums_needed(proposals)
        return [
            self._session.scanner.sums(self._mechanism.needs(proposal), proposal.forecast.scale, None, scanned)
            for proposal in proposals
        ]
