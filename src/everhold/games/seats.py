"""Where a mechanism sits in a game: what an analyst yields becomes asks, readings, choices, verdicts or the last act.

everhold's own mechanism does every act. A baseline answers asks only, so it is asked every question that an act is about,
and the act's result is made from its answers: a choice is the candidate with the largest answer, a verdict is given where
two intervals do not meet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from everhold import acts
from everhold.acts import AnyAct, BestOf, Certify, Close, CompareTwo, IsBetter, Read, ReadMany
from everhold.errors import HoldoutClosed, QuestionError, ReplayError
from everhold.ledger.rounds import RecordedAct
from everhold.ledger.walk import replay_act, replay_round
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.queries.query import as_query
from everhold.statistics.parameters import parameters

if TYPE_CHECKING:
    from everhold.games.world import World
    from everhold.ledger.rounds import Round
    from everhold.queries.answer import Answer
    from everhold.queries.protocol import Mechanism
    from everhold.session.holdout import Holdout

__all__ = ["Asked", "AskingSeat", "HoldoutSeat", "Made", "Move", "RecordSeat", "Seat", "as_move"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with more than its text.

    Attributes:
        question: vectorised, over columns.
        truth: its population mean, if its analyst knows it and counting it in the world would take too long.
        expect: a forecast in place of the sketch's. Mechanisms without forecasts do not use it.
    """

    question: Any
    truth: float | None = None
    expect: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """What an analyst yields: a plain ask, or an act about some questions.

    Attributes:
        act: with plain questions; None for an ask.
        asked: the questions that it is about, in order.
    """

    act: AnyAct | None
    asked: tuple[Asked, ...]

    @property
    def questions(self) -> list[Any]:
        """The questions alone."""
        return [asked.question for asked in self.asked]

    def truth(self, index: int, world: World) -> float:
        """The population mean of one of its questions."""
        known = self.asked[index].truth
        return world.truth(self.asked[index].question) if known is None else known


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """What became of a move.

    Attributes:
        result: what the analyst is sent.
        answers: answers with intervals, each with its question's place in the move.
        reported: whether they are the values that the analyst reports: readings, or what a mechanism has in their place.
    """

    result: Any
    answers: tuple[tuple[int, Answer], ...] = ()
    reported: bool = False


class Seat(Protocol):
    """Makes moves."""

    def make(self, move: Move) -> Made:
        """Do what an analyst wants."""


def _wrapped(yielded: object) -> Asked:
    if isinstance(yielded, Asked):
        return yielded
    if not callable(yielded):
        raise QuestionError(
            "an analyst yielded something that is not a question. Expected a callable, Asked(...), or an act such as "
            "Read(question)."
        )
    return Asked(yielded)


def as_move(yielded: object) -> Move:
    """What an analyst yielded, checked."""
    if type(yielded) not in acts.ACTS.values():
        return Move(None, (_wrapped(yielded),))
    act = cast("AnyAct", yielded)
    asked = tuple(_wrapped(question) for question in acts.questions_of(act))
    plain: dict[str, Any] = {}
    left = [item.question for item in asked]
    for parameter in parameters(type(act)):
        if parameter.form == "question":
            plain[parameter.name], left = left[0], left[1:]
        elif parameter.form == "questions":
            plain[parameter.name], left = left, []
    return Move(replace(cast(Any, act), **plain), asked)


class HoldoutSeat:
    """everhold's own mechanism, with every act."""

    def __init__(self, holdout: Holdout) -> None:
        self._holdout = holdout

    def make(self, move: Move) -> Made:
        """Do what an analyst wants."""
        if move.act is None:
            answer = self._holdout.session.ask(move.asked[0].question, expect=move.asked[0].expect)
            return Made(answer, ((0, answer),))
        if isinstance(move.act, Certify):
            try:
                return _made(move.act, acts.do(move.act, self._holdout))
            except HoldoutClosed:
                raise
            except QuestionError:  # it would not become narrower: the analyst keeps what it has
                return Made(self._holdout.journal[move.act.round].answer)
        return _made(move.act, acts.do(move.act, self._holdout))


def _made(act: AnyAct, result: Any) -> Made:
    """The result of an act that everhold did."""
    if isinstance(act, ReadMany | Close):
        return Made(result, tuple(enumerate(result)), reported=True)
    if isinstance(act, Read):
        return Made(result, ((0, result),), reported=True)
    if isinstance(act, Certify):
        return Made(result, ((-1, result),), reported=True)
    return Made(result)


class AskingSeat:
    """A mechanism that answers asks only.

    Args:
        ask: answers one question.
    """

    def __init__(self, ask: Callable[[Asked], Answer]) -> None:
        self._ask = ask
        self._answers: dict[int, Answer] = {}
        self._closed = False

    def make(self, move: Move) -> Made:
        """Ask every question of the move; make its result from the answers."""
        if self._closed:
            raise HoldoutClosed("this game was ended by its last act. Nothing can be asked after it.")
        act = move.act
        if isinstance(act, Certify):
            return Made(self._answers[act.round], ((-1, self._answers[act.round]),), reported=True)
        answers = [self._ask(asked) for asked in move.asked]
        self._answers.update({answer.round: answer for answer in answers})
        numbered = tuple(enumerate(answers))
        price = answers[-1].price if answers else 0.0
        values = [answer.value for answer in answers]
        if isinstance(act, ReadMany | Close):
            self._closed = isinstance(act, Close)
            return Made(answers, numbered, reported=True)
        if isinstance(act, BestOf):
            best = max(range(len(values)), key=lambda index: (values[index], -index))
            return Made(Choice(best, len(values), price), numbered)
        if isinstance(act, IsBetter):
            return Made(Decision(values[0] - values[1] > act.by, price), numbered)
        if isinstance(act, CompareTwo):
            return Made(Verdict(_by_intervals(answers), price), numbered)
        return Made(answers[0], numbered, reported=isinstance(act, Read))


def _by_intervals(answers: Sequence[Answer]) -> Any:
    first, second = answers
    return "first" if first.low > second.high else "second" if second.low > first.high else "neither"


class RecordSeat:
    """The paper's Algorithm 3: what was disclosed is read from the record, and all else is computed again, without rows.

    Args:
        mechanism: in its first state.
        record: rounds and acts as they happened.
    """

    def __init__(self, mechanism: Mechanism[Any], record: Iterable[Round | RecordedAct]) -> None:
        self._mechanism = mechanism
        self._record = deque(record)
        self._rounds: list[Round] = []

    def make(self, move: Move) -> Made:
        """The same result again; `ReplayError` where the record has something else."""
        act = move.act
        if act is None:
            answer = self.ask(move.asked[0])
            return Made(answer, ((0, answer),))
        if isinstance(act, Read | ReadMany | Close):
            kind = "close" if isinstance(act, Close) else "read"
            answers = [self._round(question, kind) for question in move.questions]
            return _made(act, answers[0] if isinstance(act, Read) else answers)
        past = self._record[0] if self._record else None
        if not isinstance(past, RecordedAct) or past.begun.kind != act.name:
            if isinstance(act, Certify):  # it was refused then
                return Made(self._rounds[act.round - 1].answer)
            raise ReplayError(f"the record has something else than {act.name!r} after round {len(self._rounds)}.")
        self._record.popleft()
        replay_act(self._mechanism, past, self._rounds)
        return _made(act, acts.result_from({**past.done.result, "kind": _KINDS[act.name]}))

    def ask(self, asked: Asked) -> Answer:
        """A plain ask."""
        return self._round(asked.question, "ask")

    def _round(self, question: object, kind: str) -> Answer:
        past = self._record.popleft() if self._record else None
        if past is None or isinstance(past, RecordedAct) or past.act.kind != kind:
            raise ReplayError(f"the record has something else than a question to {kind} after round {len(self._rounds)}.")
        self._rounds.append(past)
        replayed = replay_round(self._mechanism, as_query(question), past.outcome, past.fit, past.act)
        if replayed.proposal.forecast != past.forecast:
            raise ReplayError(f"the question of round {past.number} is not the one that was asked then.")
        return replayed.answer


_KINDS = {"best_of": "choice", "is_better": "decision", "compare": "verdict", "certify": "answer"}
