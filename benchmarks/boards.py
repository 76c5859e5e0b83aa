"""Boards: no rank inversion in a thousand contests, and final rank sets beside those of a contest without feedback.

*Inversions.* Small contests with an attacker, every other one with half of its rows sealed. Labels are drawn anew for every
contest, so the true score of a submission is known: its mean over the labels' probabilities. An inversion is a true rank
outside its set, or an entrant certified better than one who is truly as good or better, on the running board or on the
final one. With confidence 1 - δ at most a part δ of all contests may have one. At 0.9999 a thousand contests have none,
except with probability 0.1 at most: that is the promise. At 0.95 the pass line is the 1 - 1e-3 quantile of Bin(1000, 0.05).
The control is a board that shows exact scores and does not charge for them.

*Width.* A matrix of the shape of SWE-bench Verified (500 cases, 60 systems, success rates from 0.1 to 0.75, cases of very
different difficulty), as a contest in which every system is scored and shown before the next one enters. Compared are the
mean sizes of the final rank sets, as a contest is by default and without sealed rows, with those of McNemar's test for all
pairs in both directions, with Bonferroni's correction, on all rows, at the same confidence and without any feedback.
"""

from __future__ import annotations

import tempfile
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

import everhold as eh
from benchmarks.promises import Line
from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.ranks import closure, rank_sets
from everhold.contest.board import Board

CONTESTS = 1_000
ROWS, GUESSES = 200, 40
CASES, SYSTEMS = 500, 60


def _true_score(chances: NDArray[np.float64], guess: NDArray[Any], rows: NDArray[np.bool_]) -> float:
    """What a guess scores on these rows on average over labels drawn anew."""
    return float(np.where(guess == 1, chances, 1.0 - chances)[rows].mean())


def _inverted(board: Board, scores: dict[str, float]) -> bool:
    """Whether a true rank lies outside its set, or somebody is certified better than too many."""
    for place in board.places:
        mine = scores[place.entrant]
        better = sum(one > mine + 1e-12 for one in scores.values())
        worse = sum(one < mine - 1e-12 for one in scores.values())
        if place.best_rank > 1 + better or place.worst_rank < len(scores) - worse or place.beats > worse:
            return True
    return False


def _certified(right: NDArray[np.bool_], failure_probability: float) -> NDArray[np.bool_]:
    """McNemar's verdicts for all pairs in both directions, with Bonferroni's correction, as if nothing were disclosed."""
    nats = log(len(right) * (len(right) - 1) / failure_probability)
    exact = right.astype(np.float64)
    wins = np.rint(exact @ (1.0 - exact).T).astype(int)
    found = np.zeros(wins.shape, dtype=bool)
    for i, j in np.argwhere(wins > wins.T):
        found[i, j] = mcnemar_refutes(int(wins[i, j]), int(wins[j, i]), nats)
    return found


def _contest(seed: int, confidence: float, folder: Path) -> tuple[bool, bool, bool]:
    """Three honest entrants, and one who votes by the board. Inverted: the running board, the final one, the control."""
    rng = np.random.default_rng([seed, 11])
    chances = np.where(rng.random(ROWS) < 0.5, rng.beta(2.0, 2.0, ROWS), 0.5)  # of label 1; half the rows are coins
    labels = (rng.random(ROWS) < chances).astype(int)
    best, sealed = (chances > 0.5).astype(int), 0.5 * (seed % 2)
    place = folder / f"{confidence}-{seed}.everhold"
    contest = eh.Contest.create(place, labels, classes=[0, 1], seed=seed, sealed=sealed, confidence=confidence)
    guesses: dict[int, NDArray[Any]] = {}

    def submit(name: str, guess: NDArray[Any]) -> float:
        told = contest.submit(name, guess).score
        if told is None:
            raise ValueError("a submission was not scored")
        guesses[told.round] = guess
        return told.value

    for name, noise in (("ann", 0.2), ("bob", 0.25), ("cid", 0.6)):
        submit(name, np.where(rng.random(ROWS) < noise, rng.integers(0, 2, ROWS), best))
    honest = list(guesses.values())
    vote, plain = np.zeros(ROWS), np.zeros(ROWS)
    for _ in range(GUESSES):
        guess = rng.integers(0, 2, ROWS)
        vote += (2 * guess - 1) * (submit("a pen name", guess) - 0.5)
        plain += (2 * guess - 1) * (np.mean(guess == labels) - 0.5)
    submit("mallory", (vote + rng.normal(0.0, 1e-9, ROWS) > 0).astype(int))
    running, final = contest.board(), contest.finish()
    contest.release()
    found = []
    for board, rows in ((running, ~contest.sealed_rows), (final, contest.sealed_rows)):
        judged = rows if sealed else np.ones(ROWS, dtype=bool)
        scores = {one.entrant: _true_score(chances, guesses[one.round], judged) for one in board.places}
        found.append(_inverted(board, scores))
    fooled = [*honest, (plain > 0).astype(int)]
    true = np.array([_true_score(chances, guess, np.ones(ROWS, dtype=bool)) for guess in fooled])
    better = _certified(np.array([guess == labels for guess in fooled]), 1.0 - confidence)
    return found[0], found[1], bool((better & (true[:, None] <= true + 1e-12)).any())


def matrix(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which system solves which case: a probit model, cases of very different difficulty."""
    rates, difficulty, spread = np.sort(rng.uniform(0.1, 0.75, SYSTEMS)), rng.normal(0.0, 1.0, CASES), 1.3
    ability = norm.ppf(rates) * np.sqrt(1.0 + spread**2)
    return np.asarray(rng.random((SYSTEMS, CASES)) < norm.cdf(ability[:, None] - spread * difficulty))


def _width(sets: list[tuple[int, int]]) -> float:
    return float(np.mean([worst - best + 1 for best, worst in sets]))


def replayed(seed: int, sealed: float | None, confidence: float, folder: Path) -> tuple[float, float, float]:
    """Mean sizes of rank sets: final, running, and without feedback. `sealed`: None for the default of a contest."""
    rng = np.random.default_rng([seed, 7])
    solved, labels = matrix(rng), rng.integers(0, 2, CASES)
    place = folder / f"swe-{sealed}-{confidence}-{seed}.everhold"
    given: dict[str, Any] = {} if sealed is None else {"sealed": sealed}
    contest = eh.Contest.create(place, labels, classes=[0, 1], seed=seed, confidence=confidence, **given)
    for system in rng.permutation(SYSTEMS):
        contest.submit(f"system {system}", np.where(solved[system], labels, 1 - labels))
    running, final = contest.board(), contest.finish()
    contest.release()
    sizes = [_width([(one.best_rank, one.worst_rank) for one in board.places]) for board in (final, running)]
    return sizes[0], sizes[1], _width(rank_sets(closure(_certified(solved, 1.0 - confidence))))


def run(contests: int = CONTESTS, seeds: tuple[int, ...] = (1, 2, 3, 4, 5)) -> list[Line]:
    """Inversions, then widths, each with a control."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        folder = Path(place)
        lines = [_inversions(contests, confidence, folder) for confidence in (0.9999, 0.95)]
        return lines + [
            _widths(seeds, sealed, confidence, folder) for sealed, confidence in ((None, 0.95), (None, 0.9999), (0.0, 0.95))
        ]


def _inversions(contests: int, confidence: float, folder: Path) -> Line:
    found = np.array([_contest(seed, confidence, folder) for seed in range(contests)])
    running, final, plain = (int(one) for one in found.sum(axis=0))
    most = 0 if confidence > 0.999 else int(binom.ppf(1.0 - 1e-3, contests, 1.0 - confidence))
    return Line(
        f"contests with a rank inversion, of {contests:,} at confidence {confidence:g}, every other one with sealed rows",
        f"{running} while running, {final} at the end; {plain} where nothing is charged",
        f"{'none' if most == 0 else f'at most {most}'}; the control has more",
        int(found[:, :2].any(axis=1).sum()) <= most < plain,
    )


def _widths(seeds: tuple[int, ...], sealed: float | None, confidence: float, folder: Path) -> Line:
    found = np.array([replayed(seed, sealed, confidence, folder) for seed in seeds])
    ratios, sizes = found[:, 0] / found[:, 2], found.mean(axis=0)
    return Line(
        f"{SYSTEMS} systems, {CASES} cases, {'by default' if sealed is None else 'none sealed'}, confidence {confidence:g}: "
        "final rank sets over non-adaptive paired ones",
        f"{ratios.mean():.2f} (largest {ratios.max():.2f} of {len(seeds)}); {sizes[0]:.1f} and {sizes[2]:.1f} ranks, "
        f"{sizes[1]:.1f} while running",
        "at most 1.5 on every matrix" if sealed is None else "for information: here all that was disclosed counts",
        bool(ratios.max() <= 1.5) or sealed is not None,
    )
