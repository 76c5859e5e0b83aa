"""Membership: can somebody who may only ask questions tell whether a given row is among the private ones?

A stronger attack than singling out, and the one that differential privacy is about. The attacker knows a row, the *target*,
and all public rows. In half of the games the target is among the private rows; in the other half another row is there in
its place.

*Riding with a decoy*: ask for the share of "hash below t, without the public rows, and one more row", for rising t. The
one more row is a decoy that was never drawn, then the target. Both questions have the same forecast, so their answers
differ by the target alone; the first surprise falls to the target's question if it is there. Repeat with another hash. The
score of a game is the logarithm of the likelihood ratio of "target first" against "decoy first", summed up.

Reported are the area under the ROC curve (0.5 is chance), with the standard error that chance alone gives it (Mann and
Whitney 1947), and how many members are found where one in ten others is accused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.data.table import RowTable
from everhold.errors import PrecisionExhausted, SettingError, require_whole
from everhold.games.play import MECHANISMS, GameTerms, MechanismFactory
from everhold.games.singling_out import Keys
from everhold.progress import NO_BAR, progress_bar
from everhold.queries.rng import stream_rng
from everhold.session.holdout import Holdout
from everhold.session.session import Session

__all__ = ["MembershipRisk", "membership", "ride_with_decoy"]

_KEY = "key"


@dataclass(frozen=True, slots=True)
class MembershipRisk:
    """The result of many games.

    Attributes:
        mechanism: its name.
        members, others: the scores of games with and without the target.
        questions: the mean number of questions of a game.
    """

    mechanism: str
    members: tuple[float, ...]
    others: tuple[float, ...]
    questions: float

    @property
    def auc(self) -> float:
        """The probability that a member has the larger score; ties count half."""
        members, others = np.array(self.members)[:, None], np.array(self.others)[None, :]
        return float(np.mean((members > others) + 0.5 * (members == others)))

    @property
    def error(self) -> float:
        """The standard error of the area, where members and others do not differ: what chance alone gives."""
        m, n = len(self.members), len(self.others)
        return sqrt((m + n + 1) / (12.0 * m * n))

    @property
    def found(self) -> float:
        """The share of members whose score exceeds that of nine tenths of the others."""
        line = float(np.quantile(np.array(self.others), 0.9, method="higher"))
        return float(np.mean(np.array(self.members) > line))

    @property
    def at_chance(self) -> bool:
        """Whether the area is within four standard errors of one half."""
        return abs(self.auc - 0.5) <= 4.0 * self.error


def most_found(epsilon: float, delta: float, accused: float) -> float:
    """The largest share of members that anybody can find under (ε, δ)-privacy, accusing this share of others.

    >>> round(most_found(1.0, 1e-9, 0.01), 4)
    0.0272
    """
    return min(1.0, exp(epsilon) * accused + delta, 1.0 - exp(-epsilon) * (1.0 - delta - accused))


def ride_with_decoy(
    holdout: Holdout | Session[Any],
    public: RowTable,
    target: int,
    rng: np.random.Generator,
    *,
    rides: int,
    most: int,
) -> float:
    """The score of one game: how much more often the target's question surprised first.

    Args:
        holdout: the holdout to attack; the attack only asks for shares.
        public: the public rows, which the attacker knows and excludes from the questions.
        target: the key of the row in question.
        rng: the attacker's coins.
        rides: how often to begin anew, with another hash.
        most: the largest number of questions of all rides together.
    """
    known = np.sort(public[_KEY])
    score, asked = 0.0, 0

    def below(odd: int, t: int, more: int) -> Callable[[Any], NDArray[np.bool_]]:
        def question(rows: Any) -> NDArray[np.bool_]:
            keys = rows[_KEY]
            with np.errstate(over="ignore"):
                low = keys * np.uint64(odd) < np.uint64(t)
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            return np.asarray((low & (known[place] != keys)) | (keys == np.uint64(more)))

        return question

    step = 2**64 // (2 * holdout.size)
    try:
        for _ in range(rides):
            odd = int(rng.integers(0, 2**63, dtype=np.uint64)) * 2 + 1
            decoy = int(rng.integers(0, 2**64, dtype=np.uint64))
            t, surprised = step, 0
            while not surprised and t < 2**64 and asked < most:
                for sign, more in ((-1, decoy), (1, target)):
                    if not surprised:
                        asked += 1
                        surprised = sign if holdout.ask(below(odd, t, more)).surprise else 0
                t += step
            score += surprised
    except PrecisionExhausted:
        pass  # nothing more can be asked: the score is what was seen
    return score


def membership(
    mechanism: str | MechanismFactory,
    *,
    games: int = 60,
    rows: int = 200,
    reference: int | None = None,
    rides: int = 3,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> MembershipRisk:
    """Play the game many times, in half of the games with the target among the rows.

    Args:
        mechanism: a name in `MECHANISMS`, or a function that makes one.
        games: their number, at least 4.
        rows: the number of private rows of each.
        reference: the number of public rows; None: as many as private ones.
        rides: of each game.
        confidence: the confidence of the mechanism.
        seed: the seed of everything.
        progress: called with the number of games played.
    """
    for name, value, least in (("games", games, 4), ("rows", rows, 8), ("rides", rides, 1)):
        require_whole(value, name)
        if value < least:
            raise SettingError(f"{name} is {value!r}. Expected at least {least}.")
    factory = MECHANISMS[mechanism] if isinstance(mechanism, str) else mechanism
    keys, scores, asked = Keys(), ([], []), 0  # type: tuple[Keys, tuple[list[float], list[float]], int]
    bar = NO_BAR if progress is not None else progress_bar("Guessing who is there", games)
    for game in bar.each(range(games)):
        drawn = keys.draw(stream_rng(seed, "membership", game, "rows"), rows + 1)[_KEY]
        target, is_member = int(drawn[0]), game % 2 == 0
        private = RowTable({_KEY: drawn[:-1] if is_member else drawn[1:]})
        prior = keys.prior(stream_rng(seed, "membership", game, "reference"), reference or rows)
        most = 40 * rows
        holdout = factory(GameTerms(keys, private, prior, most, confidence, seed + game))
        rng = stream_rng(seed, "membership", game, "attacker")
        score = ride_with_decoy(holdout, prior.pool(rng).rows, target, rng, rides=rides, most=most)
        scores[0 if is_member else 1].append(score)
        asked += holdout.rounds
        if progress is not None:
            progress(game + 1)
    name = mechanism if isinstance(mechanism, str) else getattr(mechanism, "__name__", "mechanism")
    return MembershipRisk(name, tuple(scores[0]), tuple(scores[1]), asked / games)
