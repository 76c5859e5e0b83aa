"""Entries and winners of a test set, duels and last rankings of a contest: killed at every point, in turn.

These have no request ids: what was chosen is known by the record, and so is the last ranking.
"""

from __future__ import annotations

import json
import os
from itertools import count

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.bounds.budget import Budget
from everhold.contest.contest import Contest
from everhold.contest.duels import Duels
from everhold.data.sample import Sample
from everhold.learn import versioned_pickle
from everhold.learn.sides import Sides
from everhold.ledger.store import Store
from tests.faults.kill_points import until_killed
from tests.faults.record_check import check_record

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
POINTS = (
    (Store, "append"),
    (Sample, "sums"),
    (Sides, "private_value"),
    (Duels, "decide"),
    (versioned_pickle, "write_atomic"),
)


def rows(size, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, 3))
    return X, (X[:, 0] + 0.8 * rng.normal(size=size) > 0).astype(int)


TRAIN, PRIVATE = rows(300, 0), rows(300, 1)
MODELS = [DecisionTreeClassifier(max_depth=1 + i, random_state=i).fit(*TRAIN) for i in range(4)]
LABELS = np.random.default_rng(3).integers(0, 2, 300)


def opened(path):
    return eh.TestSet(*PRIVATE, reference=TRAIN, path=path, seed=1)


def predictions(share, seed):
    flipped = np.random.default_rng(seed).random(len(LABELS)) > share
    return np.where(flipped, 1 - LABELS, LABELS)


class Search:
    """Models are entered, a winner is read, one more is entered; the deed is what comes next."""

    def __init__(self, generation):
        self.generation = generation

    def begin(self, path):
        test = opened(path)
        for model in MODELS[:2]:
            test.enter(model, folds=2)
        if self.generation:
            test.winner()
        test.release()

    def deed(self, path):
        test = opened(path)
        try:
            test.enter(MODELS[2 + self.generation], folds=2)
            return test.winner().to_dict()
        finally:
            test.release()

    def budget(self, path):
        test = opened(path)
        try:
            return test.holdout.budget
        finally:
            test.release()

    def known(self, path):
        """What the deed has become: the entries, each once."""
        test = opened(path)
        try:
            return [entry.number for entry in test.entries]
        finally:
            test.release()


class Duel:
    """Two on the board; the deed is a duel, or the last ranking."""

    def __init__(self, *, last, sealed=0.0):
        self.last, self.sealed = last, sealed

    def begin(self, path):
        contest = Contest.create(path, LABELS, classes=[0, 1], seed=1, sealed=self.sealed)
        contest.submit("ann", predictions(0.9, 1))
        contest.submit("bob", predictions(0.55, 2))
        contest.release()

    def deed(self, path):
        contest = Contest(path)
        try:
            if not self.last:
                return {"better": contest.duel("ann", "bob")}
            board = contest.finish().to_dict()
            return {"final": board["final"], "places": board["places"]}
        finally:
            contest.release()

    def budget(self, path):
        contest = Contest(path)
        try:
            with contest._turn() as (_, held):
                return held.budget
        finally:
            contest.release()

    def known(self, path):
        return len(Contest(path).board().places)


DEEDS = {
    "search": Search(0),
    "next generation": Search(1),
    "duel": Duel(last=False),
    "last ranking": Duel(last=True),
    "last ranking of sealed rows": Duel(last=True, sealed=0.5),
}


def lives(folder, play):
    """A file for every point of a deed, with what was shown before the kill."""
    for until in count(1):
        path = folder / str(until) / "study.everhold"
        path.parent.mkdir()
        play.begin(path)
        before = play.budget(path)

        def work(fuse, pipe, path=path):
            fuse.around(POINTS)
            found = play.deed(path)
            fuse.point()
            os.write(pipe, (json.dumps(found) + "\n").encode())
            fuse.point()

        killed, said = until_killed(work, until)
        yield path, before, json.loads(said) if said else None
        if not killed:
            assert until > 5, "there were no points: nothing was killed"
            return


def checked(path, play, before):
    """The promises of the file; how many acts were interrupted."""
    after = play.budget(path)  # opening ends what was interrupted
    found = check_record(path, after.ask_price).get("interrupted", 0)
    if found:
        of = "sealed" if getattr(play, "sealed", 0.0) else "code"
        assert getattr(after, of).nats > getattr(before, of).nats + 4.0, "an interrupted act is charged"
    return found


@pytest.mark.parametrize("name", list(DEEDS))
def test_killed_at_every_point(tmp_path, name):
    play, interrupted, results = DEEDS[name], 0, []
    for path, before, shown in lives(tmp_path, play):
        interrupted += checked(path, play, before)
        if isinstance(play, Duel) and not play.last and shown is not None:
            assert shown == {"better": True}
            continue
        head, found = _head(path), json.loads(json.dumps(play.deed(path)))
        if shown is not None:
            assert found == shown, "what was shown is in the record"
            assert _head(path) == head, "what was chosen is chosen once"
        results.append(found)
        checked(path, play, before)
        if isinstance(play, Search):
            assert play.known(path) == [1, 2, 3], "each entry once"
    assert interrupted, "no act was met on its way"
    choices = {one["entry"]["number"] if "entry" in one else json.dumps(sorted(one)) for one in results}
    assert len(choices) == 1, "a kill changed what was chosen"


@pytest.mark.parametrize("name", ["search", "duel", "last ranking of sealed rows"])
def test_control_a_free_look_is_caught(tmp_path, monkeypatch, name):
    monkeypatch.setattr(Budget, "interrupted", lambda budget: budget)
    monkeypatch.setattr("everhold.ledger.ranking.NOTHING_NATS", 0.0)

    def check_all():
        for path, before, _ in lives(tmp_path, DEEDS[name]):
            checked(path, DEEDS[name], before)

    with pytest.raises(AssertionError, match="an interrupted act is charged"):
        check_all()


def _head(path):
    store = Store.open(path, write=False)
    try:
        return store.last()
    finally:
        store.close()
