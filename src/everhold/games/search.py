"""A search for attacks: questions in the expression language, improved by evolution until they tell members apart.

People think of some attacks; a search tries many (QuerySnout: Cretu, Houssiau, Cully and de Montjoye 2022; QueryCheetah:
Stevanoski, Cretu and de Montjoye 2024). An *attack* is a list of texts about a known row, the target: conjunctions of its
attributes, some negated, some left out, some with "or it is the target", each asked or read. A rule is fitted to the
answers of simulated games, with and without the target among the rows, and its fitness is how well it tells them apart in
games that it was not fitted to. The best attack is then played in fresh games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from everhold.data.table import RowTable
from everhold.errors import PrecisionExhausted, SettingError, require_whole
from everhold.games.membership import MembershipRisk
from everhold.games.play import MECHANISMS, GameTerms, MechanismFactory
from everhold.priors.pool import Prior
from everhold.priors.reference import Reference
from everhold.progress import NO_BAR, progress_bar
from everhold.queries.protocol import ActingMechanism
from everhold.queries.rng import stream_rng
from everhold.session.holdout import Holdout
from everhold.session.readings import read_parts

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.session.session import Session

__all__ = ["Bits", "SearchedAttack", "search_attack"]

_RIDGE = 1.0
_KEEP = 3  # attacks of a generation that have children


@dataclass(frozen=True, slots=True)
class Bits:
    """A population of independent fair yes/no attributes a1, a2, …"""

    attributes: int = 8
    name: str = "bits"
    density: float = 1.0

    def draw(self, rng: np.random.Generator, size: int) -> RowTable:
        """Independent rows."""
        drawn = rng.random((size, self.attributes)) < 0.5
        return RowTable({f"a{i + 1}": drawn[:, i] for i in range(self.attributes)})

    draw_prior = draw

    def domain(self) -> Any:
        """Raises: mechanisms that need an explicit domain do not play this game."""
        raise SettingError("a search for attacks is played against mechanisms that need no explicit domain.")

    def prior(self, rng: np.random.Generator, size: int) -> Prior:
        """A reference of `size` independent rows."""
        return Reference(self.draw(rng, size))


@dataclass(frozen=True, slots=True)
class SearchedAttack:
    """What a search found.

    Attributes:
        questions: of the best attack, for a target whose attributes are all true.
        reads: which of them it reads; the others are asked. A mechanism without readings is asked all of them.
        tried: how many attacks were simulated.
        fresh: its success in games that the search never saw.
    """

    questions: tuple[str, ...]
    reads: tuple[bool, ...]
    tried: int
    fresh: MembershipRisk


Genes = NDArray[np.int8]
"""Of a question, for each attribute: 1 as the target, -1 the other way round, 0 left out. Then whether the target is added,
and whether the question is read."""
Rule = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def _text(genes: Genes, target: Sequence[bool]) -> str:
    """One question about a target, in the expression language."""

    def is_(index: int, value: bool) -> str:
        return f"a{index + 1}" if value else f"NOT a{index + 1}"

    parts = [is_(i, bool(target[i]) == (gene > 0)) for i, gene in enumerate(genes[:-2]) if gene]
    text = " AND ".join(parts) if parts else "a1 OR NOT a1"
    if genes[-2]:
        itself = " AND ".join(is_(i, bool(value)) for i, value in enumerate(target))
        text = f"({text}) OR ({itself})"
    return text


def _answer(playing: Holdout | Session[Any], text: str, *, read: bool) -> Answer:
    """Asked, or read where the mechanism has readings."""
    session: Session[Any] = playing.session if isinstance(playing, Holdout) else playing
    if not read or not isinstance(session.mechanism, ActingMechanism):
        return session.ask(text)
    return read_parts(session, [session.query(text)], asked_by=session.stamp(None, None), numbers=count(1))[0]


class _Arena:
    """Simulated games with one mechanism."""

    def __init__(
        self, factory: MechanismFactory, world: Bits, rows: int, reference: int, confidence: float, seed: int
    ) -> None:
        self._factory, self._world, self._rows, self._reference = factory, world, rows, reference
        self._confidence, self._seed = confidence, seed
        self.asked = self.games = 0

    def features(self, attack: NDArray[np.int8], game: int, what: str) -> NDArray[np.float64]:
        """The answers of one game, as numbers: of every question its value in rows, and whether it surprised."""
        rng = stream_rng(self._seed, "search", what, game)
        drawn = self._world.draw(rng, self._rows + 1)
        names = list(drawn)
        target = [bool(drawn[name][0]) for name in names]
        index = np.arange(self._rows) if game % 2 == 0 else np.arange(1, self._rows + 1)
        prior = self._world.prior(rng, self._reference)
        terms = GameTerms(self._world, drawn.take(index), prior, len(attack), self._confidence, self._seed + game)
        holdout = self._factory(terms)
        features = np.zeros((len(attack), 2))
        try:
            for place, genes in enumerate(attack):
                answer = _answer(holdout, _text(genes, target), read=bool(genes[-1]))
                features[place] = answer.value * self._rows, answer.surprise
        except PrecisionExhausted:
            pass  # the rest says nothing
        self.asked += holdout.rounds
        self.games += 1
        return features.ravel()

    def play(self, attack: NDArray[np.int8], games: int, what: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Features and labels of many games."""
        played = np.array([self.features(attack, game, what) for game in range(games)])
        return played, np.array([1.0 if game % 2 == 0 else -1.0 for game in range(games)])


def _fitted(features: NDArray[np.float64], labels: NDArray[np.float64]) -> Rule:
    """A ridge regression of the labels on standardised features."""
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    x = (features - centre) / scale
    slopes = np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ labels)
    return lambda more: ((more - centre) / scale) @ slopes


def _risk(scores: NDArray[np.float64], labels: NDArray[np.float64], name: str, questions: float) -> MembershipRisk:
    members, others = (tuple(scores[labels == label].tolist()) for label in (1.0, -1.0))
    return MembershipRisk(name, members, others, questions)


def _fitness(arena: _Arena, attack: NDArray[np.int8], games: int) -> float:
    """The area under the curve in the games of one half, by the rule fitted to the other half, both ways."""
    features, labels = arena.play(attack, games, "train")
    half = np.arange(games) % 4 < 2
    areas = []
    for fit, judge in ((half, ~half), (~half, half)):
        scores = _fitted(features[fit], labels[fit])(features[judge])
        areas.append(_risk(scores, labels[judge], "", 0.0).auc)
    return float(np.mean(areas))


def search_attack(
    mechanism: str | MechanismFactory,
    *,
    rows: int = 100,
    reference: int | None = None,
    attributes: int = 8,
    questions: int = 6,
    population: int = 8,
    generations: int = 4,
    games: int = 32,
    fresh_games: int = 80,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> SearchedAttack:
    """Search for an attack on a mechanism, and play the best one in fresh games.

    Args:
        mechanism: a name in `MECHANISMS`, or a function that makes one.
        rows: private rows of a game.
        reference: public rows; None: as many as private ones.
        attributes: yes/no attributes of a row.
        questions: of an attack.
        population, generations: attacks tried at once, and how often they are improved.
        games: simulated for each attack; `fresh_games` for the best.
        confidence: the confidence of the mechanism.
        seed: the seed of everything.
        progress: called with the number of attacks that were tried.
    """
    for name, value, least in (
        ("rows", rows, 8),
        ("attributes", attributes, 1),
        ("questions", questions, 1),
        ("population", population, _KEEP + 1),
        ("generations", generations, 0),
        ("games", games, 8),
        ("fresh_games", fresh_games, 8),
    ):
        require_whole(value, name)
        if value < least:
            raise SettingError(f"{name} is {value!r}. Expected at least {least}.")
    factory = MECHANISMS[mechanism] if isinstance(mechanism, str) else mechanism
    arena = _Arena(factory, Bits(attributes), rows, reference or rows, confidence, seed)
    rng = stream_rng(seed, "search", "genes")
    tried = 0

    def judged(attack: NDArray[np.int8]) -> tuple[float, NDArray[np.int8]]:
        nonlocal tried
        tried += 1
        if progress is not None:
            progress(tried)
        return _fitness(arena, attack, games), attack

    shape = (questions, attributes + 2)
    planned = population + generations * (population - _KEEP)
    with NO_BAR if progress is not None else progress_bar("Searching for attacks", planned) as bar:
        progress = progress or bar.update
        ranked = [judged(_random_genes(rng, shape)) for _ in range(population)]
        for _ in range(generations):
            ranked = sorted(ranked, key=lambda pair: -pair[0])[:_KEEP]
            parents = [attack for _, attack in ranked]
            ranked += [judged(_child(rng, parents)) for _ in range(population - _KEEP)]
    best = max(ranked, key=lambda pair: pair[0])[1]
    features, labels = arena.play(best, 4 * games, "refit")
    rule = _fitted(features, labels)
    played, truth = arena.play(best, fresh_games, "fresh")
    name = mechanism if isinstance(mechanism, str) else getattr(mechanism, "__name__", "mechanism")
    risk = _risk(rule(played), truth, name, arena.asked / arena.games)
    texts, reads = zip(*((_text(genes, [True] * attributes), bool(genes[-1])) for genes in best), strict=True)
    return SearchedAttack(texts, reads, tried, risk)


def _random_genes(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int8]:
    genes = rng.choice(np.array([1, 1, -1, 0], dtype=np.int8), size=shape)
    genes[:, -2:] = rng.random((shape[0], 2)) < 0.5
    return genes


def _child(rng: np.random.Generator, parents: Sequence[NDArray[np.int8]]) -> NDArray[np.int8]:
    """Every question from one of two parents; one gene in ten is drawn anew."""
    first, second = (parents[int(rng.integers(len(parents)))] for _ in range(2))
    mixed = np.where(rng.random((len(first), 1)) < 0.5, first, second)
    return np.where(rng.random(first.shape) < 0.1, _random_genes(rng, first.shape), mixed).astype(np.int8)
