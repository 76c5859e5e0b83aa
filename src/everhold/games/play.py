"""Game 1 of the paper: an analyst asks, reads and chooses, a mechanism answers, and the world knows the truth.

    game = play("freedman", "everhold", "labelled", rounds=1000, seed=7)
    game.largest_error, game.missed, game.half_width

A game can be replayed (Algorithm 3): the analyst's program runs again with its coins, and what was disclosed is read from
the record, without the sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.acts import Certify
from everhold.errors import PrecisionExhausted, ReplayError, SettingError, require_whole
from everhold.games.registry import Register
from everhold.games.seats import Asked, AskingSeat, HoldoutSeat, Move, RecordSeat, Seat, as_move
from everhold.games.world import WORLDS, World
from everhold.progress import NO_BAR, progress_bar
from everhold.queries.disclosed import Verdict
from everhold.queries.query import as_query
from everhold.queries.rng import stream_rng
from everhold.results import counted
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.table import RowTable
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.protocol import Mechanism
    from everhold.session.session import Session

__all__ = ["ANALYSTS", "MECHANISMS", "Analyst", "AnalystView", "Asked", "Game", "GameTerms", "MechanismFactory", "play"]


@dataclass(frozen=True, slots=True, eq=False)
class AnalystView:
    """What an analyst can use: the world, public rows, coins, and free previews of the public side.

    Attributes:
        world: the population, for analysts who may know it; the others do not use it.
        public: the public rows.
        rng: the analyst's coins.
        rows: n, the number of private rows.
        rounds: how many questions may be asked, in acts and alone.
        try_out: previews a question on the public side.
    """

    world: World
    public: RowTable
    rng: np.random.Generator
    rows: int
    rounds: int
    try_out: Callable[[Any], Preview]


Analyst = Callable[[AnalystView], Generator[Any, Any, Any]]
"""An analyst's program: it yields questions, `Asked`, or acts about them (`everhold.acts`), and receives the results."""


@dataclass(frozen=True, slots=True, eq=False)
class GameTerms:
    """What a mechanism starts with: the world, private rows, the prior, and the terms of the game."""

    world: Any
    private: RowTable
    prior: Any
    rounds: int
    confidence: float
    seed: int


MechanismFactory = Callable[[GameTerms], "Holdout | Session[Any]"]
"""Makes a mechanism for a game: a holdout, or a session with another mechanism, over the private rows."""

ANALYSTS: Register[Analyst] = Register("analyst")
MECHANISMS: Register[MechanismFactory] = Register("mechanism")


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """A finished game. Errors and widths are on the share scale: a mean in [-1, 1] counts half.

    Attributes:
        analyst, mechanism, world: the names of the analyst, the mechanism and the world.
        rows: n.
        answers: the returned answers, of asks, readings and certificates.
        truths: the population's values.
        reported: the places, among the answers, of the values that the analyst reports: its readings and certificates.
        wrong_verdicts: how many verdicts named the smaller of two.
        asked: how many questions the game was about, candidates of choices included.
        refused: the message of the mechanism's refusal; None if it never refused.
        seconds: the time for the answers.
        surprises: how many answers used the private data.
    """

    analyst: str
    mechanism: str
    world: str
    rows: int
    answers: list[Answer] = field(repr=False)
    truths: NDArray[np.float64] = field(repr=False)
    refused: str | None
    seconds: float
    surprises: int
    price: float
    reported: tuple[int, ...]
    wrong_verdicts: int
    asked: int
    _again: Callable[[], list[Answer]] = field(repr=False)

    @property
    def rounds(self) -> int:
        """How many questions were answered."""
        return len(self.answers)

    def _halves(self) -> NDArray[np.float64]:
        return np.array([1.0 if answer.scale == "share" else 0.5 for answer in self.answers])

    @property
    def errors(self) -> NDArray[np.float64]:
        """|answer - truth| of every question."""
        values = np.array([answer.value for answer in self.answers])
        return np.asarray(np.abs(values - self.truths) * self._halves())

    @property
    def largest_error(self) -> float:
        """The largest error of the game."""
        return float(self.errors.max()) if self.answers else 0.0

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """The half-width of every interval."""
        widths = np.array([answer.interval.half_width for answer in self.answers])
        return np.asarray(widths * self._halves())

    @property
    def half_width(self) -> float:
        """The half-width of the widest interval: the guarantee of the session as a whole."""
        return float(self.half_widths.max()) if self.answers else 0.5

    @property
    def reported_width(self) -> float:
        """The half-width of the widest interval that the analyst reports; 0.5 if it reports nothing."""
        return float(self.half_widths[list(self.reported)].max()) if self.reported else 0.5

    @property
    def missed(self) -> int:
        """How many intervals missed their truth, and how many verdicts are wrong. A session is valid if none did."""
        return self.wrong_verdicts + sum(
            not answer.low - 1e-12 <= truth <= answer.high + 1e-12
            for answer, truth in zip(self.answers, self.truths, strict=True)
        )

    def answered_within(self, half_width: float) -> int:
        """How many questions were answered with intervals no wider than this, before the first wider one or the end.

        The rounding error of the grids, less than 2⁻¹⁴, does not count.
        """
        wide = np.flatnonzero(self.half_widths > half_width + 2.0**-14)
        return int(wide[0]) if len(wide) else self.rounds

    def replay(self) -> list[Answer]:
        """Compute every answer again from the record, the coins and the analyst's program, without the sample."""
        return self._again()

    def __str__(self) -> str:
        return (
            f"{self.analyst} against {self.mechanism} in {self.world}: {counted(self.rounds, 'question')}, largest error "
            f"{self.largest_error:.3f}, half-width {self.half_width:.3f}, {self.missed} missed, "
            f"{counted(self.surprises, 'surprise')}" + ("" if self.refused is None else ", then refused")
        )


def play(
    analyst: str | Analyst,
    mechanism: str | MechanismFactory,
    world: str | World,
    rounds: int,
    seed: int = 0,
    *,
    rows: int = 10_000,
    reference: int | None = None,
    confidence: float = 0.95,
    progress: Callable[[int], None] | None = None,
) -> Game:
    """Play one game.

    Args:
        analyst: a name in `ANALYSTS`, or your own program.
        mechanism: a name in `MECHANISMS`, or a function that makes one.
        world: a name in `WORLDS`, or a world.
        rounds: the largest number of questions. An act counts as many as it is about.
        seed: the seed of everything: the world, the sample, the reference, the mechanism's and the analyst's coins.
        rows: the number of private rows.
        reference: the number of public rows; None: as many as private ones.
        confidence: the confidence of the mechanism.
        progress: called with the number of questions answered so far.

    >>> game = play("freedman", "everhold", "noise", rounds=200, seed=1, rows=2000)
    >>> game.missed, game.replay() == game.answers
    (0, True)
    """
    require_whole(rounds, "rounds")
    require_whole(rows, "rows")
    if rounds < 1 or rows < 2:
        raise SettingError(f"the game has {rounds} rounds and {rows} private rows. Expected at least 1 round and 2 rows.")
    program = ANALYSTS[analyst] if isinstance(analyst, str) else analyst
    factory = MECHANISMS[mechanism] if isinstance(mechanism, str) else mechanism
    game_world = WORLDS[world](seed) if isinstance(world, str) else world
    private = game_world.draw(stream_rng(seed, "game", "sample"), rows)
    prior = game_world.prior(stream_rng(seed, "game", "reference"), reference or rows)
    built = factory(GameTerms(game_world, private, prior, rounds, confidence, seed))
    session = built.session if isinstance(built, Holdout) else built
    public = prior.pool(stream_rng(seed, "game", "public")).rows

    def view(try_out: Callable[[Any], Preview]) -> AnalystView:
        return AnalystView(game_world, public, stream_rng(seed, "game", "analyst"), rows, rounds, try_out)

    score, refused = _Score(), None
    seat: Seat = HoldoutSeat(built) if isinstance(built, Holdout) else AskingSeat(lambda asked: session.ask(asked.question))
    with NO_BAR if progress is not None else progress_bar("Playing", rounds) as bar:
        try:
            _run(program(view(session.try_out)), seat, game_world, rounds, score, progress or bar.update)
        except PrecisionExhausted as refusal:
            refused = str(refusal)

    def again() -> list[Answer]:
        """Algorithm 3. The analyst's previews use the mechanism of the replay."""
        first: Mechanism[Any] = session.first_state()
        record = RecordSeat(first, session.journal.in_order())
        replayed: Seat = record if isinstance(built, Holdout) else AskingSeat(record.ask)
        running, score_again = program(view(lambda question: first.preview(as_query(question)))), _Score()
        with suppress(PrecisionExhausted):  # where the game was refused
            _run(running, replayed, game_world, rounds, score_again, None, most=len(score.answers))
        if len(score_again.answers) != len(score.answers):
            raise ReplayError(f"{len(score_again.answers)} answers were replayed of {len(score.answers)}.")
        return score_again.answers

    return Game(
        analyst if isinstance(analyst, str) else getattr(analyst, "__name__", "analyst"),
        mechanism if isinstance(mechanism, str) else getattr(mechanism, "__name__", "mechanism"),
        game_world.name,
        rows,
        score.answers,
        np.array(score.truths),
        refused,
        score.seconds,
        session.surprises,
        session.price,
        tuple(score.reported),
        score.wrong_verdicts,
        score.asked,
        again,
    )


@dataclass
class _Score:
    """A game as it goes on."""

    answers: list[Answer] = field(default_factory=list)
    truths: list[float] = field(default_factory=list)
    reported: list[int] = field(default_factory=list)
    wrong_verdicts: int = 0
    asked: int = 0
    seconds: float = 0.0
    of_round: dict[int, float] = field(default_factory=dict)

    def add(self, place: int, answer: Answer, move: Move, world: World, *, reported: bool) -> None:
        """One more answer, with its truth."""
        truth = self.of_round[answer.round] if isinstance(move.act, Certify) else move.truth(place, world)
        self.of_round[answer.round] = truth
        if reported:
            self.reported.append(len(self.answers))
        self.answers.append(answer)
        self.truths.append(truth)


def _run(
    running: Generator[Any, Any, Any],
    seat: Seat,
    world: World,
    rounds: int,
    score: _Score,
    progress: Callable[[int], None] | None,
    most: int | None = None,
) -> None:
    """The analyst's program, until it ends or has used up its questions; a replay, until it has `most` answers."""
    try:
        move = as_move(next(running))
        while score.asked + max(len(move.asked), 1) <= rounds and (most is None or len(score.answers) < most):
            started = time.perf_counter()
            made = seat.make(move)
            score.seconds += time.perf_counter() - started
            score.asked += max(len(move.asked), 1)
            for place, answer in made.answers:
                score.add(place, answer, move, world, reported=made.reported)
            if isinstance(made.result, Verdict) and made.result.outcome != "neither":
                first, second = (move.truth(place, world) for place in (0, 1))
                right = first > second if made.result.outcome == "first" else second > first
                score.wrong_verdicts += not right
            if progress is not None:
                progress(score.asked)
            move = as_move(running.send(made.result))
    except StopIteration:
        pass
