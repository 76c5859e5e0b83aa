"""Attackers who know the population. They force surprises, ride the threshold, overfit the reference, or find members."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.games.analysts.overfitters import agrees, random_signs
from everhold.games.play import ANALYSTS, AnalystView
from everhold.queries.answer import Answer
from everhold.queries.query import Rows

__all__ = ["fingerprinting", "pool_overfitter", "surprise_hunter", "threshold_rider"]


def inside(part: NDArray[np.bool_]) -> Callable[[Rows], NDArray[Any]]:
    """The question whether a row's atom is in a set."""
    return lambda rows: part[rows["i"]]


def _label_lean(view: AnalystView) -> Any:
    """f: the sign of the more frequent label of each atom in the population; 0 if both are equal."""
    lean = np.zeros(view.world.atoms, np.float32)
    np.add.at(lean, view.world.rows["i"], view.world.weights * view.world.rows["y"])
    return np.sign(lean)


@ANALYSTS.add("surprise hunter")
def surprise_hunter(view: AnalystView) -> Generator[Any, Answer, None]:
    """Causes as many surprises as it can: of several questions it asks the one just far enough beyond the tolerance.

    A question that is far off improves the sketch a lot; one that is barely off costs as much and improves it little. It
    previews the public side, knows the population, and sometimes asks combinations of all past surprises.
    """
    f = _label_lean(view)
    estimate = np.zeros_like(f)
    for t in range(1, view.rounds + 1):
        if t % 25 == 0:
            yield agrees(np.where(estimate == 0.0, random_signs(view), estimate))
            continue
        tried = [_candidate(view, f, kind) for kind in range(6)]
        gaps = np.array([_gap(view, question) for question, _ in tried])
        sure = gaps - view.rows**-0.5  # two sampling errors
        best = np.argmin(np.where(sure > 0.0, sure, np.inf)) if (sure > 0.0).any() else np.argmax(gaps)
        question, g = tried[int(best)]
        answer = yield question
        if answer.surprise and g is not None:
            error = answer.value - view.world.truth(question)
            estimate += np.float32(np.sign(error)) * np.where(g == f, np.float32(0.0), g)


def _candidate(view: AnalystView, f: NDArray[np.float32], kind: int) -> tuple[Any, NDArray[np.float32] | None]:
    """A question that may be a surprise: labels on some atoms, half-spaces with the label, parts and parities of x."""
    d = view.world.features
    weights = view.rng.standard_normal(d).astype(np.float32)
    picked = view.rng.permutation(d)[: 1 + kind % 3]
    if kind < 2:
        part = view.rng.random(len(f)) < view.rng.uniform(0.1, 0.9)
        g = np.where(part & (f != 0.0), f, random_signs(view))
        return agrees(g), g
    if kind == 2:
        return (lambda rows: (rows["x"] @ weights > 0.0) == (rows["y"] > 0)), None
    if kind == 3:
        return (lambda rows: (rows["x"][:, picked] > 0).all(axis=1) & (rows["y"] > 0)), None
    if kind == 4:
        return (lambda rows: (rows["x"][:, picked] > 0).all(axis=1)), None
    return (lambda rows: ((rows["x"][:, picked] > 0).sum(axis=1) % 2 == 1) == (rows["y"] > 0)), None


def _gap(view: AnalystView, question: Any) -> float:
    """How far the population mean is beyond the tolerance."""
    seen = view.try_out(question)
    return abs(seen.sketch - view.world.truth(question)) - seen.tolerance


@ANALYSTS.add("threshold rider")
def threshold_rider(view: AnalystView) -> Generator[Any, Answer, None]:
    """Stays just below the tolerance, so that a surprise shows the error of a random direction; then adds these up.

    φ = y(αf + (1-α)r) with α such that the population mean is 2.5 sampling errors of r inside the tolerance.
    """
    f, error = _label_lean(view), 2.5 / np.sqrt(view.rows)
    if not f.any():
        f = random_signs(view)
    estimate = np.zeros_like(f)

    def times_label(g: Any) -> Any:
        return lambda rows: g[rows["i"]] * rows["y"]

    yes = view.world.truth(times_label(f))
    for _ in range(view.rounds - 5):
        r = random_signs(view)
        seen, known = view.try_out(times_label(r)), view.try_out(times_label(f))
        # φ(D) - u - τ + 2.5 (1-α)/√n is linear in α: compute its ends, then its zero
        at_r = view.world.truth(times_label(r)) - seen.sketch - seen.tolerance + error
        at_f = yes - known.sketch - seen.tolerance
        if at_r >= 0.0 or at_f <= 0.0:
            yield times_label(r)
            continue
        alpha = np.float32(at_r / (at_r - at_f))
        answer = yield times_label(alpha * f + (1 - alpha) * r)
        if answer.surprise:
            estimate += r
    vote = np.where(estimate >= 0.0, np.float32(1.0), np.float32(-1.0))
    for beta in (0.0, 0.3, -0.3, 0.6, -0.6):
        yield times_label(np.float32(1.0 - abs(beta)) * vote + np.float32(beta) * f)


@ANALYSTS.add("pool overfitter")
def pool_overfitter(view: AnalystView) -> Generator[Any, Answer, None]:
    """Knows every row of the reference, and asks about atoms that it contains too often or too rarely.

    Each such question fits the reference but not the population: it costs surprises, never validity.
    """
    size = view.world.atoms
    counts = np.bincount(view.public["i"], minlength=size) / view.public.row_count
    expected = np.zeros(size)
    np.add.at(expected, view.world.rows["i"], view.world.weights)
    excess = counts - expected
    for t in range(view.rounds):
        part = view.rng.random(size) < (1.0 if t == 0 else 0.5)
        asked = part & (excess > 0.0)
        if t % 2:
            asked = asked | (view.rng.random(size) < 0.2)
        yield inside(asked)


@ANALYSTS.add("fingerprinting")
def fingerprinting(view: AnalystView) -> Generator[Any, Answer, None]:
    """An interactive fingerprinting attack, in the manner of Hardt and Ullman (2014) and Steinke and Ullman (2015).

    Every atom gets random bits with a bias drawn from the arcsine law, which are the questions. Atoms whose bits correlate
    with the answers are accused of being in the sample and excluded from then on. Every 250 rounds it asks for the share of
    accused atoms: large in the sample, small in the population.
    """
    size = view.world.atoms
    score = np.zeros(size)
    accused = np.zeros(size, dtype=bool)
    line = 2.0 * np.sqrt(2.0 * view.rounds * np.log(20.0 * size))
    for t in range(1, view.rounds + 1):
        if t == view.rounds or t % 250 == 0:
            top = accused if accused.sum() > 10 else score >= np.quantile(score, 1.0 - min(0.5, view.rows / size / 2))
            yield inside(top.copy())
            continue
        p = float(np.sin(view.rng.uniform(0.15, np.pi / 2 - 0.15)) ** 2)
        bits = view.rng.random(size) < p
        question = inside(bits & ~accused)
        answer = yield question
        excess = answer.value - view.world.truth(question)
        score += excess * np.sqrt(view.rows) * (bits - p) / np.sqrt(p * (1.0 - p))
        accused |= score > line
