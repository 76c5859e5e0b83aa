"""Privacy: private everhold against Gaussian noise on every question and private multiplicative weights, same questions.

People with twelve yes/no attributes, whose shares have drifted since the reference was drawn. Questions are conjunctions of
one to three attributes, drawn at random. All mechanisms promise (ε, δ) = (1, 1e-9) for everything that they disclose.
Compared is the largest distance from the sample's own share, and from the population's, in the same run, on the same rows
and questions; Gaussian noise is planned for exactly as many questions as there will be.

Everhold is asked in two ways. Plainly, its error is about its tolerance: a forecast that is off by less is returned as it
is. Or the shares of the twelve attributes are read first: a reading costs an eighth of a surprise and is right to about 80
rows, and what it teaches carries over to the conjunctions, because attributes are independent here. That order of acts
follows from the prices alone; it was tried on seeds from 100 on, which this benchmark does not use.

Noise is a number of rows, whatever n is, and sampling error in rows grows with n. At n = 50,000 even the population's own
shares are about as far from the sample's as noise for 300 questions is (last column): no forecast can do much better.

Multiplicative weights runs over the explicit domain of 2¹²
points, driven by everhold's own test (which is kinder to it than the textbook's), with as many updates as everhold has
surprises: its row says what remains when these are used up, and where it stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from random import Random

import numpy as np
from numpy.typing import NDArray

from benchmarks.promises import Line
from everhold.bounds.privacy import Privacy
from everhold.bounds.private_plan import break_even, gaussian_deviation
from everhold.data.table import RowTable
from everhold.errors import PrecisionExhausted
from everhold.games.mechanisms.own import private
from everhold.games.play import GameTerms
from everhold.mechanism.noise import ROW, SecretNoise, lattice_of
from everhold.priors.reference import Reference
from everhold.session.readings import read_parts

ATTRIBUTES, ROWS, DRIFT = 12, (5_000, 50_000), 0.03
PROMISE = Privacy(epsilon=1.0, delta=1e-9, surprises=20)
QUESTIONS = (100, 300, 1_000, 3_000, 10_000)
PROMISED = {5_000: 300, 50_000: 3_000}
"""From so many questions on the error is smaller than with Gaussian noise, by the number of rows."""
PROMISED_READ = {5_000: 300, 50_000: 1_000}
"""The same where the attributes are read first."""
FEW, SEEDS, MORE_SEEDS = 1_000, 3, 9
"""Up to so many questions there are more seeds."""


@dataclass(frozen=True)
class People:
    """Independent attributes, each with a share of its own."""

    shares: NDArray[np.float64]
    name: str = "people"
    density: float | None = None

    def draw(self, rng: np.random.Generator, size: int) -> RowTable:
        """Independent rows."""
        drawn = rng.random((size, len(self.shares))) < self.shares
        return RowTable({f"a{i}": drawn[:, i] for i in range(len(self.shares))})

    draw_prior = draw


@dataclass(frozen=True)
class Result:
    """What one mechanism did with all questions.

    Attributes:
        largest: distance from the sample's own share.
        population: distance from the population's share.
        answered: how many questions, before it refused.
        width: the widest half-width for the population; None where there is none.
    """

    largest: float
    population: float
    answered: int
    width: float | None = None


def conjunctions(rng: np.random.Generator, count: int) -> list[tuple[tuple[int, bool], ...]]:
    """Random questions."""
    found = []
    for _ in range(count):
        some = rng.choice(ATTRIBUTES, size=int(rng.integers(1, 4)), replace=False)
        found.append(tuple((int(i), bool(rng.random() < 0.5)) for i in some))
    return found


def held(rows: RowTable, question: tuple[tuple[int, bool], ...]) -> NDArray[np.bool_]:
    """Which rows satisfy a question."""
    found: NDArray[np.bool_] = np.logical_and.reduce([rows[f"a{i}"] == value for i, value in question])
    return found


Questions = list[tuple[tuple[int, bool], ...]]


def shares_of(questions: Questions, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The population's own shares."""
    return np.array([np.prod([shares[i] if value else 1.0 - shares[i] for i, value in one]) for one in questions])


def by_everhold(
    private_rows: RowTable,
    public: RowTable,
    questions: Questions,
    truth: NDArray[np.float64],
    seed: int,
    *,
    read_first: bool = False,
) -> Result:
    """The private mechanism. With `read_first` the share of every attribute is read before the first question."""
    session = private(
        GameTerms(People(np.zeros(1)), private_rows, Reference(public), len(questions), 0.95, seed),
        PROMISE,
    )
    if read_first:
        shares = [session.query(lambda rows, i=i: rows[f"a{i}"]) for i in range(ATTRIBUTES)]
        read_parts(session, shares, asked_by=session.stamp(None, None), numbers=iter(range(1, ATTRIBUTES + 1)))
    largest = population = width = 0.0
    for number, question in enumerate(questions):
        try:
            answer = session.ask(lambda rows, q=question: held(rows, q))
        except PrecisionExhausted:
            return Result(largest, population, number, width)
        largest = max(largest, abs(answer.value - float(np.mean(held(private_rows, question)))))
        population = max(population, abs(answer.value - float(truth[number])))
        width = max(width, (answer.high - answer.low) / 2)
    return Result(largest, population, len(questions), width)


def by_gaussian(sample: NDArray[np.float64], truth: NDArray[np.float64], size: int, rng: np.random.Generator) -> Result:
    """Fresh noise on every question, all planned for."""
    noise = rng.normal(0.0, gaussian_deviation(PROMISE, len(sample)) / size, len(sample))
    return Result(float(np.abs(noise).max()), float(np.abs(sample + noise - truth).max()), len(sample))


def by_weights(rows: RowTable, public: RowTable, questions: Questions, expected: NDArray[np.float64], seed: int) -> Result:
    """Multiplicative weights over the explicit domain, started at the public rows' marginals, updated on surprises."""
    terms = PROMISE.terms
    noise = SecretNoise(terms, Random(seed).getrandbits)
    per_row = ROW // lattice_of(terms.release_parts)
    points = (np.arange(2**ATTRIBUTES)[:, None] >> np.arange(ATTRIBUTES)) & 1 == 1
    shares = np.array([np.mean(public[f"a{i}"]) for i in range(ATTRIBUTES)])
    log_weights = np.log(np.where(points, shares, 1.0 - shares)).sum(axis=1)
    domain = RowTable({f"a{i}": points[:, i] for i in range(ATTRIBUTES)})
    n, updates, largest, population = rows.size, 0, 0.0, 0.0
    for number, question in enumerate(questions):
        if updates == PROMISE.surprises:
            return Result(largest, population, number)
        inside = held(domain, question)
        weights = np.exp(log_weights - log_weights.max())
        forecast = float(weights[inside].sum() / weights.sum())
        truth = float(np.mean(held(rows, question)))
        tau = 4.0 * sqrt(0.5 / n) / 2.0 + terms.test_scale * np.log(10.0 * (number + 1)) / n
        answer = forecast
        if not noise.quiet(Fraction((abs(forecast - truth) - tau) * n / terms.test_scale)):
            answer = truth + noise.step() / per_row / n
            log_weights = log_weights + np.where(inside, 1.0, -1.0) * (answer - forecast) / 2.0
            updates += 1
        largest = max(largest, abs(answer - truth))
        population = max(population, abs(answer - float(expected[number])))
    return Result(largest, population, len(questions))


@dataclass(frozen=True)
class Compared:
    """One run: all mechanisms with the same rows and questions.

    Attributes:
        mine, informed: everhold, and everhold when every attribute is read first.
        noise, weights: Gaussian noise on every question, multiplicative weights.
        best: how far the population's own shares are from the sample's: no forecast can be nearer, but by chance.
    """

    mine: Result
    informed: Result
    noise: Result
    weights: Result
    best: float

    @property
    def ratio(self) -> float:
        """Everhold's largest error over that of Gaussian noise, for the sample."""
        return self.mine.largest / self.noise.largest

    @property
    def informed_ratio(self) -> float:
        """The same where the attributes are read first."""
        return self.informed.largest / self.noise.largest

    @property
    def population_ratio(self) -> float:
        """Everhold's over that of Gaussian noise, for the population."""
        return self.mine.population / self.noise.population


def compared(size: int, count: int, seed: int) -> Compared:
    """One run."""
    rng = np.random.default_rng([seed, count])
    shares = rng.uniform(0.1, 0.9, ATTRIBUTES)
    public = People(np.clip(shares + rng.normal(0.0, DRIFT, ATTRIBUTES), 0.02, 0.98)).draw(rng, size)
    rows = People(shares).draw(rng, size)
    questions = conjunctions(rng, count)
    truth = shares_of(questions, shares)
    sample = np.array([np.mean(held(rows, one)) for one in questions])
    return Compared(
        by_everhold(rows, public, questions, truth, seed),
        by_everhold(rows, public, questions, truth, seed, read_first=True),
        by_gaussian(sample, truth, size, rng),
        by_weights(rows, public, questions, truth, seed),
        float(np.abs(sample - truth).max()),
    )


def run() -> Iterator[Line]:
    """The tables, and the promise: from some number of questions on, a smaller largest error than with Gaussian noise."""
    even = break_even(PROMISE)
    print(
        f"  ε = {PROMISE.epsilon:g}, δ = {PROMISE.delta:g}, {PROMISE.surprises} surprises; noise alone breaks even at {even}"
    )
    for rows in ROWS:
        yield from _table(rows)


def _table(size: int) -> Iterator[Line]:
    print(f"  n = {size:,}; largest errors for the sample / for the population")
    print(
        "  questions   everhold (answered, ± population)   attributes read first (answered, ±)   Gaussian          "
        "weights (answered)        everhold / Gaussian   read first / Gaussian   sample to population"
    )
    for count in QUESTIONS:
        runs = [compared(size, count, seed) for seed in range(MORE_SEEDS if count <= FEW else SEEDS)]
        ratio, population, informed = (
            float(np.median([getattr(one, name) for one in runs]))
            for name in ("ratio", "population_ratio", "informed_ratio")
        )
        one = runs[int(np.argsort([one.ratio for one in runs])[len(runs) // 2])]
        print(
            f"  {count:>9,}   {one.mine.largest:.4f} / {one.mine.population:.4f} ({one.mine.answered:,}, "
            f"±{one.mine.width or 0:.4f})   {one.informed.largest:.4f} / {one.informed.population:.4f} "
            f"({one.informed.answered:,}, ±{one.informed.width or 0:.4f})   "
            f"{one.noise.largest:.4f} / {one.noise.population:.4f}   "
            f"{one.weights.largest:.4f} / {one.weights.population:.4f} ({one.weights.answered:,})   "
            f"{ratio:.2f} / {population:.2f}   {informed:.2f}   {one.best:.4f}"
        )
        what = f"largest error of {count:,} private questions about {size:,} rows, everhold / Gaussian noise"
        if count >= PROMISED[size]:
            answered = min(one.mine.answered for one in runs) == count
            yield Line(what, f"{ratio:.2f}", "below 1, with all answered", answered and ratio < 1.0)
        if count >= PROMISED_READ[size]:
            answered = min(one.informed.answered for one in runs) == count
            said = f"{what}, attributes read first"
            yield Line(said, f"{informed:.2f}", "below 1, with all answered", answered and informed < 1.0)
