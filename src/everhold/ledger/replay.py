"""Replay: every question and answer of a session again, bit for bit, without the private rows.

This is the paper's Algorithm 3, and the reason why a session cannot overfit: everything ever returned follows from the
transcript of surprises, the coins and the analyst. A replay is given a mechanism in its first state; it never gets a
sample. The same walk serves a played game (with the analyst's program) and the audit of a record (with the recorded
questions).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from everhold.errors import ReplayError
from everhold.ledger.walk import replay_round
from everhold.progress import progress_bar
from everhold.queries.protocol import QUIET
from everhold.queries.query import as_query

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.queries.protocol import Mechanism, Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["Analyst", "Transcript", "replay"]

Transcript = Mapping[int, tuple["Outcome", tuple[int, ...] | None]]
"""Z: round of a surprise to what it disclosed and the coefficients fitted then."""

Analyst = Callable[[], Generator[Any, "Answer", Any]]
"""An analyst's program: a function that makes a generator, which yields questions and is sent their answers."""


def replay(
    mechanism: Mechanism[Any],
    transcript: Transcript,
    questions: Analyst | Iterable[Any],
    *,
    forecasts: Sequence[SketchValue] | None = None,
    as_question: Callable[[object], Query] = as_query,
) -> list[Answer]:
    """All answers of a session, in the order they were given.

    Args:
        mechanism: in its first state, with the settings and coins of the session.
        transcript: Z, from `Holdout.transcript`.
        questions: the analyst's program, with the same coins as then; or the questions themselves.
        forecasts: what the sketch foresaw in each recorded round, where a record is at hand: every question must then be one
            that was asked. Without it, a question that was never asked would be answered as if it had been quiet.
        as_question: turns what the analyst yields into a `Query`.

    Raises:
        ReplayError: the questions are not those of the record, or a recorded surprise was never reached.
    """
    answers: list[Answer] = []
    named: dict[str, Answer] = {}

    def answered(question: object) -> Answer:
        bar.advance()
        query = as_question(question)
        if query.name is not None and query.name in named:
            return named[query.name]
        number = mechanism.rounds + 1
        if forecasts is not None and number > len(forecasts):
            raise ReplayError(f"the record ends after {len(forecasts)} rounds, but there is a further question.")
        replayed = replay_round(mechanism, query, *transcript.get(number, (QUIET, None)))
        if forecasts is not None and replayed.proposal.forecast != forecasts[number - 1]:
            raise ReplayError(f"the question of round {number} is not the one that was asked then.")
        answer = replayed.answer.as_asked(query)
        if query.name is not None:
            named[query.name] = answer
        return answer

    with progress_bar("Replaying", None if forecasts is None else len(forecasts)) as bar:
        if callable(questions):
            program = questions()
            try:
                question = next(program)
                while True:
                    answers.append(answered(question))
                    question = program.send(answers[-1])
            except StopIteration:
                pass
        else:
            answers.extend(answered(question) for question in questions)
    late = [number for number in transcript if number > mechanism.rounds]
    if late:
        raise ReplayError(
            f"the transcript has a surprise at round {min(late)}, but only {mechanism.rounds} rounds were replayed: the "
            "questions and the transcript do not belong together."
        )
    return answers
