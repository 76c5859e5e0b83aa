"""A submission costs the same however many came before: counted in records read, not in seconds."""

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.store import Store


@pytest.fixture
def labels():
    return np.random.default_rng(0).integers(0, 2, 200)


def _counted(monkeypatch):
    read = []
    some = Store._next_rows

    def counted(self, seq, size):
        rows, size = some(self, seq, size)
        read.extend(rows)
        return rows, size

    monkeypatch.setattr(Store, "_next_rows", counted)
    return read


def test_no_record_is_read_twice(tmp_path, labels, monkeypatch):
    contest = eh.Contest.create(tmp_path / "c.everhold", labels, classes=[0, 1], seed=1)
    rng = np.random.default_rng(1)
    read = _counted(monkeypatch)
    contest.submit("ann", rng.integers(0, 2, 200))
    opened = len(read)
    for number in range(60):
        found = contest.submit("ann" if number % 2 else "bob", np.where(rng.random(200) < 0.3, 1 - labels, labels))
        assert found.state == "scored"
    assert len(read) == opened
    assert contest.board_and_holdout()[0] == contest.board()
    assert contest.board().places[0].submissions in (30, 31)


def test_the_control_reads_all_of_it(tmp_path, labels, monkeypatch):
    """A contest that is opened for every submission, as it was before, reads more each time."""
    eh.Contest.create(tmp_path / "c.everhold", labels, classes=[0, 1], seed=1)
    rng = np.random.default_rng(1)
    read, counts = _counted(monkeypatch), []
    for _ in range(8):
        before = len(read)
        contest = eh.Contest(tmp_path / "c.everhold")
        contest.submit("ann", rng.integers(0, 2, 200))
        contest.release()
        counts.append(len(read) - before)
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_an_older_copy_is_refused_also_with_a_ladder(tmp_path, labels):
    """A score that the ladder does not show was asked all the same: before, the older copy went unnoticed."""
    import shutil

    place, rng = tmp_path / "c.everhold", np.random.default_rng(3)
    contest = eh.Contest.create(place, labels, classes=[0, 1], seed=1, ladder=True)
    contest.submit("ann", np.where(rng.random(200) < 0.1, 1 - labels, labels))
    contest.release()
    shutil.copy(place, tmp_path / "old")
    assert contest.submit("ann", rng.integers(0, 2, 200)).score is None
    contest.release()
    shutil.copy(tmp_path / "old", place)
    with pytest.raises(eh.LedgerError, match="older copy"):
        eh.Contest(place).submit("ann", rng.integers(0, 2, 200))


def test_two_contests_on_one_study_see_each_other(tmp_path, labels):
    """As two processes would: limits, repeats and ranks count what the other has scored."""
    eh.Contest.create(tmp_path / "c.everhold", labels, classes=[0, 1], seed=1, max_per_day=3)
    one, other = eh.Contest(tmp_path / "c.everhold"), eh.Contest(tmp_path / "c.everhold")
    rng = np.random.default_rng(2)
    guesses = [np.where(rng.random(200) < 0.1 * k, 1 - labels, labels) for k in range(5)]
    assert one.submit("ann", guesses[0]).state == "scored"
    assert other.submit("bob", guesses[0]).state == "repeated"
    assert other.submit("ann", guesses[1]).state == "scored"
    assert one.submit("ann", guesses[2]).state == "scored"
    assert other.submit("ann", guesses[3]).state == "too soon"
    assert one.submit("ann", guesses[4]).state == "too soon"
    assert one.submit("ann", guesses[1]).state == "repeated"
    assert one.board() == other.board()
    assert one.board().places[0].submissions == 3
    one.release()
    other.release()


def test_a_preview_and_a_board_read_the_file_once(tmp_path, labels, monkeypatch):
    contest = eh.Contest.create(tmp_path / "c.everhold", labels, classes=[0, 1], seed=1, sealed=0)
    rng = np.random.default_rng(1)
    for who in ("ann", "bob"):
        contest.submit(who, np.where(rng.random(200) < 0.3, 1 - labels, labels))
    read = _counted(monkeypatch)
    contest.board()
    whole = len(read)
    assert whole >= 3  # the study and two rounds
    for look in (contest.preview, lambda: contest.preview("ann", "bob")):
        read.clear()
        look()
        assert len(read) == whole


def test_one_digest_of_predictions_is_computed(tmp_path, labels, monkeypatch):
    import everhold.contest.contest
    import everhold.learn.sides

    contest = eh.Contest.create(tmp_path / "c.everhold", labels, classes=[0, 1], seed=1)
    contest.require_ready()
    digested = []
    for module, name in ((everhold.contest.contest, "_digest_of"), (everhold.learn.sides, "digest_of")):
        some = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, some=some: digested.append(given) or some(*given))
    contest._kept.digest_of = everhold.contest.contest._digest_of
    assert contest.submit("ann", labels).state == "scored"
    assert len(digested) == 1
