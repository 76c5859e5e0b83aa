"""Which population the intervals are about, when the rows are a sample without replacement and a part of them is public."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

import everhold as eh

SESSIONS, DELTA, FALSE_ALARM = 60, 0.05, 1e-3
PASS = int(binom.ppf(1.0 - FALSE_ALARM, SESSIONS, DELTA))
"""A mechanism that misses in exactly a share δ of sessions fails below with at most this probability."""


def session(seed: int) -> tuple[bool, bool]:
    """A sample of 400 of 400 or 500 people, split; one question made of public facts: is this person among the public?

    Whether the interval misses the share among all people, and among those who are not public.
    """
    rng = np.random.default_rng(seed)
    people = int(rng.choice([400, 500]))
    sample = rng.choice(people, size=400, replace=False).astype(float)
    held = eh.Holdout({"id": sample}, prior=eh.Split(0.5), seed=int(rng.integers(2**31)))
    public = np.sort(np.asarray(held.public.pool.rows["id"]))
    answer = held.ask("id IN (" + ", ".join(str(int(one)) for one in public) + ")")
    rest = np.setdiff1d(np.arange(people), public)
    return len(public) / people not in answer.interval, float(np.isin(rest, public).mean()) not in answer.interval


def test_a_split_of_a_sample_without_replacement_is_about_the_rest():
    """The intervals hold the share of those who are not public. As a control, they miss that of all people, always."""
    missed = np.array([session(seed) for seed in range(SESSIONS)])
    assert missed[:, 1].sum() <= PASS
    assert missed[:, 0].sum() == SESSIONS


def test_a_reference_from_elsewhere_is_about_everybody():
    """The same people, sampled without replacement, with a reference of others: the share of all people is held."""
    missed = 0
    for seed in range(SESSIONS):
        rng = np.random.default_rng([seed, 1])
        score = rng.random(500)  # of everybody there is
        sample = rng.choice(500, size=400, replace=False)
        held = eh.Holdout({"score": score[sample]}, prior=eh.Reference({"score": rng.random(400)}), seed=seed)
        cut = float(np.sort(score[sample])[200])
        missed += float(np.mean(score > 0.5)) not in held.ask("score > 0.5").interval
        missed += float(np.mean(score > cut)) not in held.ask(f"score > {cut!r}").interval
    assert missed <= PASS
