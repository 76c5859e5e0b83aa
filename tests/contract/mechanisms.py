"""Every mechanism in one list, made ready on the same small world."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import everhold as eh
from everhold.baselines import (
    BaselineMechanism,
    Empirical,
    GaussianNoise,
    GuessAndCheck,
    Ladder,
    MultiplicativeWeights,
    Splitting,
    Subsampling,
    Thresholdout,
)
from everhold.mechanism.aqa_ogd import AqaOgd
from everhold.mechanism.estimator import Draws

COLUMNS = 8


def rows(size, rng, lean=0.0):
    """Boolean columns; the first four lean together by `lean`, the others towards yes."""
    x = rng.random((size, COLUMNS)) < 0.5
    common = rng.random(size) < 0.5
    follow = rng.random((size, 4)) < lean
    x[:, :4] = np.where(follow, common[:, None], x[:, :4])
    x[:, 4:] |= rng.random((size, 4)) < 0.5 * lean
    return {f"c{i}": x[:, i] for i in range(COLUMNS)}


def uniform_draw(rng, size):
    return Draws(rows(size, rng), size, None, float(size))


def holdout(private, seed, **settings):
    prior = settings.pop("prior", None) or eh.Reference(rows(2000, np.random.default_rng(99)))
    return eh.Holdout(private, prior=prior, seed=seed, **settings).session


def fresh_prior():
    return eh.Sampler(lambda rng, size: rows(size, rng), size=None)


def weighted_prior():
    rng = np.random.default_rng(98)
    return eh.Reference(rows(1500, rng), weights=rng.exponential(size=1500))


def paper(private, seed, **settings):
    given = {"accuracy": 0.4, "density": 0.5, "rounds": 200, "seed": seed} | settings
    return eh.Holdout.with_mechanism(private, lambda n: AqaOgd(rows=n, draw=uniform_draw, **given))


def baseline(private, policy):
    public = eh.Reference(rows(2000, np.random.default_rng(99))).pool(np.random.default_rng(0))
    return eh.Holdout.with_mechanism(private, lambda n: BaselineMechanism(policy, rows=n, public=public))


MECHANISMS: dict[str, Callable[..., eh.Session]] = {
    "corrective, pool": lambda p, s: holdout(p, s),
    "gradient, pool": lambda p, s: holdout(p, s, rule="gradient"),
    "gradient gap, pool": lambda p, s: holdout(p, s, rule=eh.Gradient(step="gap")),
    "gradient paper, pool": lambda p, s: holdout(p, s, rule=eh.Gradient(step="paper", start_at=0.0)),
    "entropic, pool": lambda p, s: holdout(p, s, rule="entropic"),
    "corrective, weights": lambda p, s: holdout(p, s, prior=weighted_prior()),
    "corrective proved, pool": lambda p, s: holdout(p, s, rule=eh.Corrective(proved=True)),
    "corrective, fresh": lambda p, s: holdout(p, s, prior=fresh_prior()),
    "entropic, fresh": lambda p, s: holdout(p, s, prior=fresh_prior(), rule="entropic"),
    "gradient, fresh": lambda p, s: holdout(p, s, prior=fresh_prior(), rule="gradient"),
    "fixed precision": lambda p, s: holdout(p, s, half_width=0.23),
    "known rows": lambda p, s: holdout(p, s, known_rows=10),
    "AQA-OGD corrected": lambda p, s: paper(p, s),
    "AQA-OGD printed": lambda p, s: paper(p, s, constants="printed"),
    "empirical mean": lambda p, s: baseline(p, Empirical()),
    "rounded mean": lambda p, s: baseline(p, Empirical(step=0.02)),
    "splitting": lambda p, s: baseline(p, Splitting(rounds=50)),
    "subsampling": lambda p, s: baseline(p, Subsampling(size=100, seed=s)),
    "Gaussian noise": lambda p, s: baseline(p, GaussianNoise(rounds=50, seed=s)),
    "Gaussian noise, Rogers": lambda p, s: baseline(p, GaussianNoise(rounds=50, transfer="rogers", seed=s)),
    "Thresholdout": lambda p, s: baseline(p, Thresholdout(seed=s)),
    "Thresholdout, Gaussian": lambda p, s: baseline(p, Thresholdout(shape="gaussian", seed=s)),
    "Guess and Check, empirical": lambda p, s: baseline(p, GuessAndCheck(half_width=0.15)),
    "Guess and Check, Gaussian": lambda p, s: baseline(p, GuessAndCheck(half_width=0.2, deviation=0.02, seed=s)),
    "Ladder": lambda p, s: baseline(p, Ladder(step=0.01)),
    "multiplicative weights": lambda p, s: baseline(
        p, MultiplicativeWeights(rounds=50, threshold=0.05, deviation=0.005, seed=s)
    ),
}
YES_NO_ONLY = {"AQA-OGD corrected", "AQA-OGD printed", "Ladder"}
READ_A_PART = {"splitting", "subsampling"}
PRICED = {name for name in MECHANISMS if not any(word in name for word in ("Gaussian noise", "Threshold", "multipl"))}
PRICED -= {"splitting"}
SPENT = {"Guess and Check, empirical", "Guess and Check, Gaussian"}  # after the contract's session, and so decline
SKETCHED = {name for name in MECHANISMS if any(word in name for word in ("corrective", "gradient", "entropic"))}
SKETCHED |= {"fixed precision", "known rows"}


def analyst(rng, rounds, *, yes_no_only=False):
    """Conjunctions, exclusive-ors and scores, chosen by earlier answers. Yields (question, truth-bearing function)."""
    weights = np.zeros(COLUMNS)
    for t in range(rounds):
        numbers = rng.standard_normal(COLUMNS)
        picked = [f"c{i}" for i in np.argsort(numbers)[: 1 + t % 3]]
        if t % 4 == 3:
            given = weights + numbers
            answer = yield lambda r, w=given: _score(r, w) > 0.0
            weights = given / np.linalg.norm(given) if answer.value > 0.5 else weights
        elif t % 4 == 2 and not yes_no_only:
            given = numbers / np.abs(numbers).sum()
            answer = yield lambda r, w=given: _score(r, w)
        elif t % 4 == 1:
            answer = yield lambda r, p=picked: np.logical_xor.reduce([r[c] for c in p])
        else:
            answer = yield lambda r, p=picked: np.logical_and.reduce([r[c] for c in p])


def _score(r, w):
    return sum(w[i] * (2.0 * r[f"c{i}"] - 1.0) for i in range(COLUMNS))


def play(held, program):
    """All questions and answers of a session; stops when the mechanism declines."""
    questions, answers = [], []
    question = next(program)
    try:
        while True:
            answers.append(held.ask(question))
            questions.append(question)
            question = program.send(answers[-1])
    except (StopIteration, eh.PrecisionExhausted):
        return questions, answers
