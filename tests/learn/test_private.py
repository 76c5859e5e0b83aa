"""Private test sets: labels are protected, features are public; what works with noise, what is refused, what is charged."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.reader import read_study
from everhold.ledger.registry import HOME
from everhold.mechanism.noise import ROW, SecretNoise
from everhold.session.scan import Scanner

ROWS = 6_000
PROMISE = eh.Privacy(epsilon=5.0, delta=1e-9, surprises=6)
RNG = np.random.default_rng(2)
X = RNG.normal(size=(ROWS, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=ROWS) > 0).astype(int)


class Rule:
    """A model with a slope; probabilities are of both classes."""

    def __init__(self, slope):
        self.slope = slope

    def _score(self, rows):
        return rows[:, 0] + self.slope * rows[:, 1]

    def predict(self, rows):
        return (self._score(rows) > 0).astype(int)

    def predict_proba(self, rows):
        chance = 1.0 / (1.0 + np.exp(-self._score(rows)))
        return np.stack([1.0 - chance, chance], axis=1)


class Line:
    """A regression."""

    def predict(self, rows):
        return rows[:, 0]


@pytest.fixture(autouse=True)
def _own_registry(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "registry"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.everhold"


def made(path, y=Y, **changes):
    return eh.TestSet(X, y, **{"classes": [0, 1], "path": path, "privacy": PROMISE, "seed": 3} | changes)


def test_a_session_from_creation_to_audit(path):
    test = made(path)
    truth = float(np.mean(Rule(0.3).predict(X) == Y))
    score = test.score(Rule(0.3))
    assert score.surprise
    assert truth in score.interval
    assert test.score(Rule(0.3)) == score  # known by its predictions: no second draw
    assert test.privacy.surprises == 1
    assert test.read(Rule(0.1)).interval.low < 1.0
    assert test.privacy.releases == 1
    assert test.best_of([Rule(-9.0), Rule(0.0), Rule(9.0)]).index == 1
    assert test.compare(Rule(0.0), Rule(3.0)).verdict == "better"
    before = test.privacy
    assert test.compare(Rule(0.0), Rule(3.0)).verdict == "better"  # recorded
    assert test.privacy == before
    assert test.compare(Rule(0.0), Rule(3.0), "brier").metric == "brier"
    assert test.difference(Rule(0.0), Rule(3.0)).value > 0.0
    for slope in (0.0, 1.0, 9.0):
        test.enter(Rule(slope))
    first = test.winner()
    assert first.entry.number == 1
    test.enter(Rule(5.0))
    assert test.winner().entry.number == 1  # the champion is one more candidate
    kept = test.privacy
    test.release()
    again = made(path)
    assert again.privacy == kept
    assert again.score(Rule(0.3)) == score
    again.release()
    assert eh.Holdout.audit_file(path).ok
    assert read_study(path).budget.privacy == kept


def test_a_regression(path):
    labels = np.clip(X[:, 0] + 0.1 * RNG.normal(size=ROWS), -5, 5)
    test = eh.TestSet(X, labels, task="regression", low=-6, high=6, path=path, privacy=PROMISE)
    assert test.score(Line()).value < 1.0
    assert test.best_of([Line(), Line()]).index in (0, 1)


class Still:
    """Noise that is never there: every ask is quiet, releases are as they are, the first is chosen."""

    def quiet(self, x):
        return True

    def step(self):
        return 0

    def choose(self, totals, weights):
        SEEN.extend(totals)
        return 0


SEEN: list[int] = []


def seen(path, y, metrics, **changes):
    """All sums that a session of everything reads."""
    SEEN.clear()
    real = Scanner.sums

    def watched(self, *given, **more):
        found = real(self, *given, **more)
        SEEN.extend(one.first for one in found)
        return found

    test = made(path, y, register=False, **changes)
    test._study.holdout.session.mechanism._source = Still()
    Scanner.sums = watched
    try:
        for metric in metrics:
            test.score(Rule(0.3), metric)
            test.read(Rule(0.4), metric)
        for metric in ("accuracy", "brier"):
            test.best_of([Rule(0.0), Rule(2.0)], metric)
            test.compare(Rule(0.0), Rule(2.0), metric)
            test.difference(Rule(0.0), Rule(2.0), metric)
    finally:
        Scanner.sums = real
        test.release()
    return list(SEEN)


def test_one_label_moves_every_sum_by_at_most_a_row(tmp_path):
    """Every metric and act, through the real test set, also where the labels' types differ from label to label."""
    metrics = ("accuracy", "error", "balanced_accuracy", "precision", "recall", "f1", "brier", "log_loss")
    plenty = {"privacy": eh.Privacy(epsilon=10.0, surprises=200)}
    first = seen(tmp_path / "one", Y, metrics, **plenty)
    for number, odd in enumerate((1 - Y[7], float(1 - Y[7]), bool(1 - Y[7]))):
        others = [int(one) for one in Y]
        others[7] = odd
        found = seen(tmp_path / f"{number}.everhold", others, metrics, **plenty)
        moved = [abs(one - other) for one, other in zip(first, found, strict=True)]
        assert max(moved) == ROW
        assert sum(moved) > 0
    assert len(first) > 30


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"path": None}, eh.SettingError, "in memory has no budget"),
        ({"reference": X}, eh.PrivacyError, "all test rows at once"),
        ({"privacy": 1.0}, eh.SettingError, r"Expected eh\.Privacy"),
        ({"half_width": 0.1}, eh.SettingError, "half-width"),
        ({"classes": None}, eh.SettingError, "not known from public facts"),
        ({"privacy": eh.Privacy(epsilon=1.0, delta=1e-4), "many": True}, eh.SettingError, "delta"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_a_label_is_read(path, changes, error, match):
    if changes.pop("many", False):
        rows, labels = np.zeros((20_000, 1)), np.zeros(20_000, dtype=int)
        with pytest.raises(error, match=match):
            eh.TestSet(rows, labels, classes=[0, 1], path=path, **changes)
    else:
        with pytest.raises(error, match=match):
            made(**{"path": path} | changes)
    assert not path.exists()


def test_what_is_exact_or_has_no_useful_sensitivity_is_refused_and_free(path):
    test = made(path)
    for act in (
        lambda: test.close([Rule(0.0)]),
        lambda: test.best_of([Rule(0.0), Rule(1.0)], "f1"),
        lambda: test.best_of([Rule(0.0), Rule(1.0)], "auc"),
        lambda: test.score(Rule(0.0), given="f0 > 0"),
    ):
        with pytest.raises(eh.PrivacyError):
            act()
    assert test.privacy.charges == 0
    assert read_study(path).rounds == ()


def test_the_holdout_inside_takes_what_the_test_set_made_alone(path):
    """Anybody in the process may reach it: what it would answer of callables or given values has no known sensitivity."""
    test = made(path)
    values = eh.Values(sample=Y == 1, reference=np.zeros(2 * ROWS, dtype=bool))
    held = test.holdout
    for act in (
        lambda: held.ask(lambda rows: rows["y"] > rows["y"].mean()),
        lambda: held.ask(values),
        lambda: held.read(values),
        lambda: held.compare(values, values),
        lambda: held.acts.compare_difference(values, None),
        lambda: held.acts.choose_sum(["a"], [values], [1], criterion="x"),
        lambda: held.acts.choose(["a"], lambda _: 0.0, [1], criterion="x"),
        lambda: held.best_of([values, values]),
    ):
        with pytest.raises(eh.PrivacyError):
            act()
    assert test.privacy.charges == 0


def test_the_study_behind_it_takes_text_alone_from_others(path):
    """Only what the test set makes is known to be row by row: whoever opens its file has the limits of any private study."""
    made(path).release()
    table = {f"x{k}": X[:, k] for k in range(3)} | {"y": Y}
    names = list(read_study(path).first_record.schema.kinds)
    rows = dict(zip(names, table.values(), strict=False))
    with eh.Holdout.open(path, data=rows) as held, pytest.raises(eh.PrivacyError):
        held.ask(lambda columns: columns[names[0]] > 0)


def test_its_terms_cannot_be_left_out_or_changed_later(path):
    made(path).release()
    for changes in ({"privacy": None}, {"privacy": eh.Privacy(epsilon=9.0)}):
        with pytest.raises(eh.LedgerError, match="privacy"):
            made(path, **changes)


def test_the_same_labels_have_one_private_test_set(path, tmp_path):
    made(path)
    with pytest.raises(eh.RowsInUse):
        made(tmp_path / "second.everhold")


def test_what_cannot_be_paid_for_is_refused(path):
    test = made(path, privacy=eh.Privacy(epsilon=5.0, surprises=1))
    assert test.score(Rule(0.3)).surprise
    with pytest.raises(eh.PrivacyUsedUp):
        test.score(Rule(0.0))
    assert test.exhausted is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
def test_a_killed_choice_is_charged_and_not_made_again(path):
    made(path).release()

    def choose():
        SecretNoise.choose = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        made(path).best_of([Rule(0.0), Rule(2.0)])

    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            choose()
        finally:
            os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    test = made(path)
    assert test.privacy.releases == 1
    test.release()
    assert eh.Holdout.audit_file(path).ok


def test_an_older_copy_is_refused(path, tmp_path):
    made(path).release()
    kept = tmp_path / "kept"
    kept.mkdir()
    for one in tmp_path.glob("test.everhold*"):
        shutil.copy(one, kept / one.name)
    test = made(path)
    test.score(Rule(0.3))
    test.release()
    for one in kept.iterdir():
        shutil.copy(one, tmp_path / one.name)
    with pytest.raises(eh.LedgerError, match="older copy"):
        made(path)
