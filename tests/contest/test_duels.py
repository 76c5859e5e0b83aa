"""Duels and the last ranking: valid tests, charged and recorded, the same from the file, safe when killed."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import everhold as eh
from everhold.bounds.binomial import binomial_interval, mcnemar_refutes
from everhold.bounds.budget import Budget
from everhold.cli.main import app
from everhold.contest.board import Rules
from everhold.contest.board_html import board_html
from everhold.contest.contest import Contest
from everhold.contest.duels import Duels, duel_method
from everhold.ledger.audit import audit
from everhold.ledger.ranking import RankingPlan


def made(folder, labels, **settings):
    """A contest without sealed rows, unless the test says so."""
    settings = {"classes": sorted(set(np.asarray(labels).tolist())), "seed": 1, "sealed": 0.0, **settings}
    return Contest.create(folder / "c.everhold", labels, **settings)


def right(labels, share, seed, classes=2):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(labels)) < share, labels, (labels + rng.integers(1, classes, len(labels))) % classes)


@pytest.fixture
def labels():
    return np.random.default_rng(0).integers(0, 2, 1000)


@pytest.fixture
def contest(tmp_path, labels):
    """Two that differ on few rows, which intervals do not tell apart, and one far behind."""
    found = made(tmp_path, labels)
    ann = right(labels, 0.80, 1)
    wrong = np.flatnonzero(ann == labels)[:60]
    bob = ann.copy()
    bob[wrong] = 1 - bob[wrong]
    found.submit("bob", bob)
    found.submit("ann", ann)
    found.submit("cid", right(labels, 0.55, 2))
    return found


def sets(board):
    return {place.entrant: (place.best_rank, place.worst_rank) for place in board.places}


class TestDuel:
    def test_a_duel_sees_what_intervals_do_not(self, contest):
        assert sets(contest.board()) == {"ann": (1, 2), "bob": (1, 2), "cid": (3, 3)}
        assert contest.duel("ann", "bob")
        assert not contest.duel("bob", "ann"), "the other direction is another duel"
        assert sets(contest.board()) == {"ann": (1, 1), "bob": (2, 2), "cid": (3, 3)}
        place = next(place for place in contest.board().places if place.entrant == "ann")
        assert place.standing_text == "rank 1; certified better than 2 of 2 others"
        assert contest.board_and_holdout()[0] == contest.board()
        assert eh.Holdout.audit_file(contest.path).ok

    def test_it_is_charged_given_or_not(self, contest):
        with contest._turn() as (_, held):
            before = held.budget
        contest.duel("bob", "ann")
        with contest._turn() as (_, held):
            after = held.budget
        assert after.nats - before.nats > np.log(2)
        assert after.spending.left == before.spending.left * 15 / 16

    def test_asked_again_it_is_the_same_also_when_somebody_has_got_better_since(self, contest, labels):
        """The answer may have been lost on its way, and the duel was charged."""
        first = contest.duel("ann", "bob", request_id="one")
        contest.submit("bob", right(labels, 0.95, 7))
        head = contest.board().head
        assert contest.duel("ann", "bob", request_id="one") is first
        assert contest.board().head == head
        with pytest.raises(eh.RequestConflict):
            contest.duel("ann", "cid", request_id="one")

    def test_names_are_checked_before_anything_is_charged(self, contest):
        for first, second in (("ann", "bobb"), ("ann", "ann")):
            with pytest.raises(eh.QuestionError):
                contest.duel(first, second)
        assert not contest._counted.journal.recorded_acts

    def test_lost_predictions_are_named_and_can_be_sent_again(self, contest, labels, tmp_path):
        for file in (tmp_path / "c.everhold.predictions").iterdir():
            file.write_bytes(b"?")
        with pytest.raises(eh.LedgerError, match="submit the same predictions again"):
            contest.finish()
        assert not contest._counted.journal.recorded_acts
        for file in (tmp_path / "c.everhold.predictions").iterdir():
            file.unlink()
        assert contest.submit("cid", right(labels, 0.55, 2)).state == "repeated"
        assert len(list((tmp_path / "c.everhold.predictions").iterdir())) == 1


class TestFinish:
    def test_the_last_ranking(self, contest, labels):
        board = contest.finish()
        assert board.final
        assert "Final ranks." in board_html(board)
        assert [place.entrant for place in board.places] == ["ann", "bob", "cid"]
        assert sets(board) == {"ann": (1, 1), "bob": (2, 2), "cid": (3, 3)}
        assert board.places[0].value == np.mean(right(labels, 0.80, 1) == labels), "the score itself: nothing follows"
        assert board.places[0].low < board.places[0].value < board.places[0].high
        assert contest.finish() == board, "again: the same"
        assert Contest(contest.path).board() == board
        assert contest.board_and_holdout()[0] == board
        late = contest.submit("dan", right(labels, 0.9, 5))
        assert late.state == "closed"
        assert late.reason == "the contest has ended, and its final ranks are on the board."
        assert eh.Holdout.audit_file(contest.path).ok
        assert [act.act for act in _acts(contest.path)] == ["rank"]

    def test_nobody_there(self, tmp_path, labels):
        with pytest.raises(eh.QuestionError, match="nobody is on the board"):
            made(tmp_path, labels).finish()

    def test_one_alone_is_first(self, tmp_path, labels):
        contest = made(tmp_path, labels)
        contest.submit("ann", right(labels, 0.7, 1))
        assert sets(contest.finish()) == {"ann": (1, 1)}

    def test_many_classes_use_the_bet_and_numbers_use_fan(self, tmp_path):
        rng = np.random.default_rng(3)
        y = rng.integers(0, 10, 2000)
        digits = made(tmp_path, y, title="digits")
        assert duel_method(digits.rules) == "bet"
        for name, share in (("ann", 0.8), ("bob", 0.6), ("cid", 0.2)):
            digits.submit(name, right(y, share, hash(name) % 7, 10))
        assert sets(digits.finish()) == {"ann": (1, 1), "bob": (2, 2), "cid": (3, 3)}
        assert eh.Holdout.audit_file(digits.path).ok

    @pytest.mark.parametrize("metric", ["mean_absolute_error", "mean_squared_error"])
    def test_regression(self, tmp_path, metric):
        rng = np.random.default_rng(2)
        y = rng.uniform(0, 10, 6000)
        contest = Contest.create(tmp_path / "r.everhold", y, task="regression", metric=metric, low=0, high=10, seed=1)
        assert duel_method(contest.rules) == "fan"
        close = y + rng.normal(0, 0.5, 6000)
        contest.submit("close", close)
        contest.submit("closer", y + 0.6 * (close - y))
        contest.submit("far", np.full(6000, 5.0))
        board = contest.finish()
        assert sets(board) == {"closer": (1, 1), "close": (2, 2), "far": (3, 3)}
        true = np.mean(np.abs(close - y).clip(0, 10) ** (2 if metric == "mean_squared_error" else 1))
        assert abs(board.places[1].value - true) < 0.02
        assert board.places[1].low < true < board.places[1].high
        assert eh.Holdout.audit_file(contest.path).ok

    def test_error_points_the_other_way(self, tmp_path, labels):
        contest = made(tmp_path, labels, metric="error")
        contest.submit("bad", right(labels, 0.6, 1))
        contest.submit("good", right(labels, 0.9, 2))
        board = contest.finish()
        assert [(place.entrant, place.rank) for place in board.places] == [("good", 1), ("bad", 2)]
        assert board.places[0].value < 0.2 < board.places[1].value

    def test_the_ladder_ranks_what_it_shows(self, tmp_path, labels):
        contest = made(tmp_path, labels, ladder=True)
        contest.submit("ann", right(labels, 0.6, 1))
        contest.submit("ann", right(labels, 0.62, 2))
        assert contest.finish().places[0].value == np.mean(right(labels, 0.6, 1) == labels)


def test_a_preview_names_the_least_number_of_rows_that_certifies(tmp_path, labels):
    """Ann is certified exactly where she is right on that many of the differing rows; one less is not enough."""
    found = set()
    for wins in (70, 74, 76, 80):
        (folder := tmp_path / str(wins)).mkdir()
        contest = made(folder, labels)
        bob, ann = labels.copy(), labels.copy()
        bob[:wins] = 1 - labels[:wins]
        ann[wins:100] = 1 - labels[wins:100]
        for entrant, guess in (("ann", ann), ("bob", bob)):
            contest.submit(entrant, guess)
        preview = contest.preview("ann", "bob")
        assert preview.differing == 100
        assert mcnemar_refutes(preview.needed, 100 - preview.needed, preview.price)
        assert not mcnemar_refutes(preview.needed - 1, 101 - preview.needed, preview.price)
        found.add(contest.duel("ann", "bob"))
        assert (wins >= preview.needed) == bool(_acts(contest.path)[-1].result["beaten"][0])
    assert found == {False, True}


def _acts(path):
    from everhold.ledger.reader import read_study

    return read_study(path).acts


class TestSealed:
    def test_half_of_the_rows_unless_the_owner_says_otherwise(self, tmp_path, labels):
        contest = Contest.create(tmp_path / "c.everhold", labels, classes=[0, 1], seed=1)
        assert (contest.rules.sealed, contest.sealed_rows.sum()) == (0.5, 500)
        contest.submit("ann", right(labels, 0.9, 1))
        contest.submit("bob", right(labels, 0.6, 2))
        with pytest.raises(eh.SettingError, match="sealed rows"):
            contest.duel("ann", "bob")
        with pytest.raises(eh.SettingError, match="sealed rows"):
            contest.preview("ann", "bob")
        preview = contest.preview()
        assert (preview.rows, preview.sealed, preview.duels) == (500, True, 1)
        assert "Nothing was disclosed of these rows before" in preview.text
        contest.finish()
        assert preview.price == pytest.approx(_acts(contest.path)[-1].price + np.log(8 / 7), abs=1e-9)
        with pytest.raises(eh.HoldoutClosed, match="has ended"):
            contest.preview()

    def test_its_labels_are_checked_like_the_others(self, tmp_path):
        """A label that cannot occur is refused also where it is sealed: nothing would look at it before the end."""
        for place in range(40):
            wrong = np.arange(40) % 2
            wrong[place] = 5
            with pytest.raises(eh.DataError, match="not among the classes"):
                made(tmp_path, wrong, classes=[0, 1], sealed=0.5)
        assert not [one for one in tmp_path.iterdir() if not one.name.endswith(".lock")]

    def test_too_few_rows_to_seal(self, tmp_path):
        with pytest.raises(eh.SettingError, match="leaves no row on one side"):
            made(tmp_path, [1], classes=[0, 1], sealed=0.5)

    def test_scores_do_not_depend_on_sealed_labels_and_the_last_ranking_on_nothing_else(self, tmp_path, labels):
        sealed = made(tmp_path, labels, sealed=0.5).sealed_rows
        assert sealed.sum() == 500
        boards = []
        for number, flipped in enumerate((labels, np.where(sealed, 1 - labels, labels))):
            (tmp_path / str(number)).mkdir()
            contest = made(tmp_path / str(number), flipped, sealed=0.5)
            scores = []
            for share in (0.9, 0.8, 0.2):
                guess = np.where(sealed, labels, right(labels, share, 7))
                scores.append(contest.submit(f"e{share}", guess).score.to_dict())
            boards.append((scores, contest.finish()))
        assert boards[0][0] == boards[1][0]
        assert {place.value for place in boards[0][1].places} == {1.0}
        assert {place.value for place in boards[1][1].places} == {0.0}
        assert set(sets(boards[0][1]).values()) == {(1, 3)}, "equal on the sealed rows: all tied"

    def test_its_price_does_not_grow_with_the_contest(self, tmp_path, labels):
        prices = {}
        for sealed in (0.0, 0.5):
            for many in (2, 60):
                folder = tmp_path / f"{sealed}-{many}"
                folder.mkdir()
                contest = made(folder, labels, sealed=sealed)
                for seed in range(many):
                    contest.submit("ann", right(labels, 0.5 + 0.4 * (seed % 2), seed))
                contest.finish()
                prices[sealed, many] = _acts(contest.path)[-1].price
        assert prices[0.5, 60] == prices[0.5, 2]
        assert prices[0.0, 60] > prices[0.0, 2] + 1.0, "the control: rows that the contest asked about"

    def test_exchanged_labels_are_refused(self, tmp_path, labels):
        contest = made(tmp_path, labels, sealed=0.5)
        contest.submit("ann", right(labels, 0.6, 1))
        contest.release()
        place = tmp_path / "c.everhold.labels"
        kept = json.loads(place.read_text())
        kept["labels"] = np.where(contest.sealed_rows, 1 - labels, labels).tolist()
        place.write_text(json.dumps(kept))
        with pytest.raises(eh.LedgerError, match="other labels than the contest was made with"):
            Contest(contest.path).submit("ann", right(labels, 0.7, 2))

    def test_no_duels_before_the_end(self, tmp_path, labels):
        contest = made(tmp_path, labels, sealed=0.5)
        contest.submit("ann", right(labels, 0.6, 1))
        with pytest.raises(eh.SettingError, match="finish"):
            contest.duel("ann", "ann")

    @pytest.mark.parametrize("sealed", [-0.1, 0.95, float("nan")])
    def test_a_part_of_the_rows(self, tmp_path, labels, sealed):
        with pytest.raises(eh.SettingError, match=r"between 0 and 0\.9"):
            made(tmp_path, labels, sealed=sealed)


class TestKilled:
    @pytest.mark.parametrize("sealed", [0.0, 0.5])
    def test_a_kill_in_the_middle_is_charged_and_the_ranking_can_be_made_again(self, tmp_path, labels, sealed):
        contest = made(tmp_path, labels, sealed=sealed)
        contest.submit("ann", right(labels, 0.9, 1))
        contest.submit("bob", right(labels, 0.5, 2))
        contest.release()
        script = """
            import os, sys
            from everhold.contest.contest import Contest
            from everhold.contest.duels import Duels
            Duels.decide = lambda *_: os._exit(9)
            Contest(sys.argv[1]).finish()
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), contest.path], check=False)
        assert done.returncode == 9
        again = Contest(contest.path)
        assert not again.board().final, "the board can be read all the same"
        board = again.finish()
        interrupted, ranked = _acts(contest.path)
        assert interrupted.result is None
        fresh = tmp_path / "fresh"
        fresh.mkdir()
        control = made(fresh, labels, sealed=sealed)
        control.submit("ann", right(labels, 0.9, 1))
        control.submit("bob", right(labels, 0.5, 2))
        whole = control.finish()
        paid = ranked.price - _acts(control.path)[-1].price
        assert paid == pytest.approx(np.log(128) + np.log(8), abs=1e-4), "an outcome of 1/128, and 7/8 of what was left"
        assert sets(board) == sets(whole) == {"ann": (1, 1), "bob": (2, 2)}
        assert eh.Holdout.audit_file(contest.path).ok

    def test_a_failure_while_labels_are_read_breaks_the_study_until_it_is_opened_again(self, contest, monkeypatch):
        def fail(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Duels, "decide", fail)
            with pytest.raises(KeyboardInterrupt):
                contest.duel("ann", "bob")
        assert contest.duel("ann", "bob")
        assert [act.result is None for act in _acts(contest.path)] == [True, False]
        assert eh.Holdout.audit_file(contest.path).ok


@pytest.mark.parametrize("metric", ["mean_absolute_error", "mean_squared_error"])
@given(data=st.data())
def test_no_lead_exceeds_the_public_reach(metric, data):
    """Fan's bound needs it, and whatever the labels are the test must not fail on them."""
    values = st.lists(st.floats(-2.0, 12.0), min_size=5, max_size=5).map(np.array)
    first, second, labels = (data.draw(values) for _ in range(3))
    rules = Rules("t", "regression", metric, [], 0.0, 10.0, "id", "prediction", 1, None, False, 1, 0.95, None)
    plan = RankingPlan((1, 2), "fan", 5, Fraction(1, 2), False, True)
    duels = Duels(plan, rules, [first, second], [0.9, 0.8], 8.0)
    points = duels._points(labels.clip(0.0, 10.0), Path("x"))
    reach, _ = duels._fan_settings(0, 1)
    assert np.abs(points[0] - points[1]).max() <= reach
    assert set(json.loads(duels.decide(labels.clip(0.0, 10.0), Path("x")))) == {"better", "sums"}


class TestRecord:
    def plan(self, **more):
        return replace(RankingPlan((1, 2, 3), "mcnemar", 100, Fraction(7, 8), False, True), **more)

    def test_it_reads_back(self):
        from everhold.ledger.rounds import ActStart

        plan = self.plan()
        assert RankingPlan.from_record(ActStart("rank", plan.asked, plan.options)) == plan

    @pytest.mark.parametrize(
        "outcome",
        [
            None,
            "{}",
            '{"better":"101"}',
            '{"better":"10","sums":[1,2,3]}',
            '{"better":"102","sums":[1,2,3]}',
            '{"better":"101","sums":[1,2]}',
            '{"better":"101","sums":[1,2,101]}',
            '{"better":"101","sums":[1,2,-1]}',
            '{"better":"101","sums":[1,2,true]}',
        ],
    )
    def test_an_outcome_that_cannot_be_is_refused(self, outcome):
        with pytest.raises(ValueError, match="outcome"):
            self.plan().result(outcome, 5.0)
        self.plan().result('{"better":"101","sums":[1,2,100]}', 5.0)

    def test_a_changed_outcome_fails_the_audit(self, contest):
        contest.finish()
        with contest._turn() as (_, held):
            record = list(held.journal.in_order())
            assert audit(held.session.first_state(), record).ok
            changed = record[-1].done.outcome.replace("1", "0", 1)
            assert changed != record[-1].done.outcome
            record[-1] = replace(record[-1], done=replace(record[-1].done, outcome=changed))
            assert not audit(held.session.first_state(), record).ok


def test_commands(tmp_path, labels, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def csv(values, head):
        return "\n".join([head, *(f"{i},{v}" for i, v in enumerate(values))])

    (tmp_path / "hidden.csv").write_text(csv(labels, "id,label"))
    (tmp_path / "ann.csv").write_text(csv(right(labels, 0.9, 1), "id,prediction"))
    (tmp_path / "bob.csv").write_text(csv(right(labels, 0.6, 2), "id,prediction"))

    def run(*words):
        found = CliRunner().invoke(app, ["contest", *words])
        assert found.exit_code == 0, found.output
        return found.output

    run("create", "c.everhold", "--labels", "hidden.csv", "--classes", "0,1", "--seed", "1", "--sealed", "0")
    for name in ("ann", "bob"):
        run("submit", "c.everhold", f"{name}.csv", "--entrant", name)
    assert "they differ" not in (said := run("duel", "c.everhold", "ann", "bob", "--preview"))
    assert "ann is certified better if it is right on" in said
    assert json.loads(run("finish", "c.everhold", "--preview", "--json"))["duels"] == 1
    assert "ann is certified better than bob" in run("duel", "c.everhold", "ann", "bob")
    assert not json.loads(run("duel", "c.everhold", "bob", "ann", "--json"))["better"]
    assert run("board", "c.everhold", "--csv").splitlines()[1].startswith("1,1,1,1,1,ann,")
    assert json.loads(run("finish", "c.everhold", "--yes", "--json"))["final"]
    assert json.loads(run("board", "c.everhold", "--json"))["places"][1]["worst_rank"] == 2


@pytest.mark.parametrize("entries", [2, 3, 60])
def test_a_last_ranking_spends_what_it_was_given(entries):
    """All duels together and both ends of every score fail with probability e^-price, not more and not less."""
    plan = RankingPlan(tuple(range(1, entries + 1)), "mcnemar", 500, Fraction(7, 8), sealed=False, last=True)
    price = plan.price(Budget(0.05))
    failing = np.exp(-plan.duel_nats(price)) + 2 * entries * np.exp(-plan.score_nats(price))
    assert failing == pytest.approx(np.exp(-price), rel=1e-9)
    outcome = plan.disclosed([False] * len(plan.pairs), [400] * entries)
    scores = plan.result(outcome, price)["scores"]
    assert scores == [[0.8, *binomial_interval(400, 400, 500, plan.score_nats(price))]] * entries
    single = replace(plan, last=False)
    assert single.duel_nats(price) == price
