"""Game 2 of the paper: can somebody who may only ask questions find a predicate that exactly one private row satisfies?

A predicate *isolates* if exactly one of the n rows satisfies it. For some weights this is easy by chance: a random
predicate that is true for a share w of the population isolates with probability about nw·e^(-nw), 37 % at w = 1/n. So an
attack counts only with predicates that hardly ever isolate by chance (Cohen and Nissim 2020): of low weight, w ≤ 1/n², or
of high weight, w ≥ 4 ln(n)/n.

The composition attack asks a chain of counts. It hashes the rows to bits and extends a prefix bit by bit, always to the
smallest part that is not empty, until one row is left and its prefix is long enough. For a high weight, it adds prefixes
that were found empty. Against exact counts it hardly ever fails; against uninformative answers it walks at random.

The *riding* attack targets mechanisms that use the private data only on a surprise, and it works: it asks for "hash below
t", without the public rows, and raises t by 1/n² at a time. The sketch answers 0 to all of them, so the first surprise
occurs when one row too many is below t, and that row is in the last step. It takes thousands of questions and one surprise.
This is why everhold promises no privacy (`docs/theory/singling_out.md`).

Rates are reported as in Anonymeter (Giomi et al. 2023): *main*, the attack on the private rows; *control*, the same
predicate on as many fresh rows; *baseline*, a random predicate of the same weight. The risk is what main adds to control,
`(main - control)/(1 - control)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, log2, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from everhold.data.table import RowTable
from everhold.errors import PrecisionExhausted, SettingError, require_whole
from everhold.games.play import MECHANISMS, GameTerms, MechanismFactory
from everhold.priors.pool import Prior
from everhold.priors.reference import Reference
from everhold.progress import NO_BAR, progress_bar
from everhold.queries.rng import stream_rng
from everhold.session.holdout import Holdout
from everhold.session.session import Session

__all__ = ["Attack", "Keys", "Predicate", "Risk", "SuccessRate", "WeightClass", "composition", "riding", "single_out"]

WeightClass = Literal["low", "high"]
Attack = Literal["composition", "riding"]

_KEY = "key"


@dataclass(frozen=True, slots=True)
class Keys:
    """A population of different rows, each a uniform 64-bit key. Its 2⁶⁴ points are never enumerated."""

    name: str = "keys"
    density: float = 1.0

    def draw(self, rng: np.random.Generator, size: int) -> RowTable:
        """Independent rows."""
        return RowTable({_KEY: rng.integers(0, 2**64, size, dtype=np.uint64)})

    draw_prior = draw

    def domain(self) -> Any:
        """Raises: the domain is too large to list."""
        raise SettingError("2⁶⁴ points cannot be listed: a mechanism that needs an explicit domain cannot play this game.")

    def prior(self, rng: np.random.Generator, size: int) -> Prior:
        """A reference of `size` independent rows."""
        return Reference(self.draw(rng, size))


@dataclass(frozen=True, slots=True)
class Predicate:
    """Rows whose hash starts with one of a few prefixes.

    Attributes:
        odd: the hash: the key times this odd number, modulo 2⁶⁴.
        prefixes: pairs of (length in bits, the bits), none a prefix of another.
    """

    odd: int
    prefixes: tuple[tuple[int, int], ...]

    @property
    def weight(self) -> float:
        """The share of the population that satisfies it."""
        return sum(2.0**-length for length, _ in self.prefixes)

    def __call__(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the rows satisfy it."""
        with np.errstate(over="ignore"):
            hashed = keys * np.uint64(self.odd)
        held = np.zeros(len(keys), dtype=bool)
        for length, bits in self.prefixes:
            held |= (hashed >> np.uint64(64 - length)) == np.uint64(bits)
        return held

    def question(self) -> Callable[[Any], NDArray[np.bool_]]:
        """The question for the share of rows that satisfy it."""
        return lambda rows: self(rows[_KEY])

    def isolates(self, rows: RowTable) -> bool:
        """Whether exactly one of the rows satisfies it."""
        return int(np.count_nonzero(self(rows[_KEY]))) == 1

    def counts(self, kind: WeightClass, rows: int) -> bool:
        """Whether a predicate of its weight hardly ever isolates by chance."""
        return self.weight <= 1.0 / rows**2 if kind == "low" else self.weight >= 4.0 * log(rows) / rows


def composition(holdout: Holdout | Session[Any], kind: WeightClass, rng: np.random.Generator) -> Predicate:
    """The composition attack: a chain of counts, each chosen by the answers before it.

    Args:
        holdout: the holdout to attack; the attack only asks for shares.
        kind: the weight class of the predicate.
        rng: the attacker's coins.
    """
    n = holdout.size
    odd = int(rng.integers(0, 2**63, dtype=np.uint64)) * 2 + 1

    def count(length: int, bits: int) -> int:
        try:
            return round(float(holdout.ask(Predicate(odd, ((length, bits),)).question())) * n)
        except PrecisionExhausted:
            return 0  # after a refusal there is no information

    length, bits, inside = 0, 0, n
    while length < ceil(2.0 * log2(n)):
        left = min(max(count(length + 1, 2 * bits), 0), inside)
        right = inside - left
        go_left = left > 0 and (right == 0 or left <= right)
        length, bits, inside = length + 1, 2 * bits + (not go_left), max(left if go_left else right, 1)
    prefixes = [(length, bits)]
    if kind == "high":
        wide = ceil(log2(n)) + 3
        needed = 4.0 * log(n) / n
        tried = {bits >> (length - wide)}
        weight = 2.0**-length
        while weight < needed and len(tried) < 2**wide:
            cell = int(rng.integers(0, 2**wide))
            if cell in tried:
                continue
            tried.add(cell)
            if count(wide, cell) == 0:
                prefixes.append((wide, cell))
                weight += 2.0**-wide
    return Predicate(odd, tuple(prefixes))


def riding(holdout: Holdout | Session[Any], public: RowTable, rng: np.random.Generator, most: int) -> Predicate:
    """The riding attack: raise a threshold until a surprise. For low weights.

    Args:
        holdout: the holdout to attack; the attack only asks for shares.
        public: the public rows, which the attacker knows and excludes from the questions.
        rng: the attacker's coins.
        most: the largest number of questions.
    """
    n = holdout.size
    odd = int(rng.integers(0, 2**63, dtype=np.uint64)) * 2 + 1
    length, known = ceil(2.0 * log2(n)), np.sort(public[_KEY])

    def below(step: int) -> Callable[[Any], NDArray[np.bool_]]:
        def question(rows: Any) -> NDArray[np.bool_]:
            keys = rows[_KEY]
            with np.errstate(over="ignore"):
                low = (keys * np.uint64(odd)) >> np.uint64(64 - length) <= np.uint64(step)
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            return np.asarray(low & (known[place] != keys))

        return question

    step = 0
    try:
        while step < min(most, 2**length - 1) and not holdout.ask(below(step)).surprise:
            step += 1
    except PrecisionExhausted:
        pass
    return Predicate(odd, ((length, step),))


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """A success rate with Wilson's interval at 95 %.

    >>> SuccessRate(0, 100)
    0.0 % [0.0, 3.7]
    """

    successes: int
    tries: int

    @property
    def value(self) -> float:
        """The share of successes."""
        return self.successes / self.tries

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval."""
        z, m, p = 1.959963984540054, self.tries, self.value
        centre = (p + z * z / (2 * m)) / (1 + z * z / m)
        half = z * sqrt(p * (1 - p) / m + z * z / (4 * m * m)) / (1 + z * z / m)
        return max(0.0, centre - half), min(1.0, centre + half)

    def __repr__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


@dataclass(frozen=True, slots=True)
class Risk:
    """The result of many games against one mechanism.

    Attributes:
        mechanism: the name of the mechanism.
        kind: the weight class that counted.
        attack: the name of the attack.
        main, control, baseline: success rates.
        questions: the mean number of questions per game.
    """

    mechanism: str
    kind: WeightClass
    attack: Attack
    main: SuccessRate
    control: SuccessRate
    baseline: SuccessRate
    questions: float

    @property
    def risk(self) -> float:
        """The attack's gain from the answers: `(main - control)/(1 - control)`, at least 0."""
        left = 1.0 - self.control.value
        return max(0.0, (self.main.value - self.control.value) / left) if left > 0.0 else 0.0

    @property
    def p_value(self) -> float:
        """The probability of a lead over the baseline this large by chance (Fisher's exact test, one-sided)."""
        from scipy.stats import fisher_exact

        a, b, m = self.main.successes, self.baseline.successes, self.main.tries
        return float(fisher_exact([[a, m - a], [b, m - b]], alternative="greater")[1])


def single_out(
    mechanism: str | MechanismFactory,
    *,
    kind: WeightClass = "low",
    attack: Attack = "composition",
    games: int = 200,
    rows: int = 1000,
    reference: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Risk:
    """Play Game 2 many times, each with a new sample, new coins and a new hash.

    Args:
        mechanism: a name in `MECHANISMS`, or a function that makes one.
        kind: 'low' (w ≤ 1/n²) or 'high' (w ≥ 4 ln(n)/n).
        attack: 'composition', a chain of counts; or 'riding', for low weights, against mechanisms with surprises.
        games: the number of games.
        rows: the number of private rows of each.
        reference: the number of public rows; None: as many as private ones.
        confidence: the confidence of the mechanism.
        seed: the seed of everything.
        progress: called with the number of games played.

    >>> exact = single_out("empirical mean", games=10, rows=200)
    >>> exact.main.value, exact.control.value
    (1.0, 0.0)
    """
    require_whole(games, "games")
    require_whole(rows, "rows")
    if games < 1 or rows < (16 if kind == "high" else 8):
        raise SettingError("singling out needs at least 1 game and 8 rows, or 16 rows if the weight is 'high'.")
    if kind not in get_args(WeightClass):
        raise SettingError(f"the weight is {kind!r}. Expected 'low' or 'high'.")
    if attack not in get_args(Attack) or (attack == "riding" and kind != "low"):
        raise SettingError("unknown attack. Expected 'composition', or 'riding' with the weight 'low'.")
    factory = MECHANISMS[mechanism] if isinstance(mechanism, str) else mechanism
    keys, planned = Keys(), 2 * ceil(2.0 * log2(rows)) + (0 if kind == "low" else ceil(64.0 * log(rows)))
    planned = 40 * rows if attack == "riding" else planned
    hits = np.zeros(3, dtype=int)
    asked = 0
    bar = NO_BAR if progress is not None else progress_bar(f"{attack.capitalize()}, {kind} weight", games)
    for game in bar.each(range(games)):
        private, control = (keys.draw(stream_rng(seed, "singling out", game, what), rows) for what in ("main", "control"))
        prior = keys.prior(stream_rng(seed, "singling out", game, "reference"), reference or rows)
        holdout = factory(GameTerms(keys, private, prior, planned, confidence, seed + game))
        rng = stream_rng(seed, "singling out", game, "attacker")
        if attack == "composition":
            predicate = composition(holdout, kind, rng)
        else:
            predicate = riding(holdout, prior.pool(rng).rows, rng, planned)
        lucky = _random_predicate(predicate, rng)
        if predicate.counts(kind, rows):
            hits += [predicate.isolates(private), predicate.isolates(control), lucky.isolates(private)]
        asked += holdout.rounds
        if progress is not None:
            progress(game + 1)
    name = mechanism if isinstance(mechanism, str) else getattr(mechanism, "__name__", "mechanism")
    rates = [SuccessRate(int(hit), games) for hit in hits]
    return Risk(name, kind, attack, rates[0], rates[1], rates[2], asked / games)


def _random_predicate(like: Predicate, rng: np.random.Generator) -> Predicate:
    """A predicate of the same shape with another hash, chosen without asking anything."""
    odd = int(rng.integers(0, 2**63, dtype=np.uint64)) * 2 + 1
    return Predicate(odd, like.prefixes)
