"""Private contests: noisy scores of predictions, no exact ranks; in Python, on the command line and over HTTP."""

from __future__ import annotations

import json

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.registry import HOME
from everhold.mechanism.noise import ROW
from everhold.session.scan import Scanner
from tests.cli.test_cli import run
from tests.server.serving import site

ROWS = 6_000
PROMISE = eh.Privacy(epsilon=5.0, delta=1e-9, surprises=3)
RNG = np.random.default_rng(3)
Y = RNG.integers(0, 2, ROWS)


def right(share, seed=0):
    return np.where(np.random.default_rng(seed).random(ROWS) < share, Y, 1 - Y)


@pytest.fixture(autouse=True)
def _own_registry(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "registry"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "contest.everhold"


def made(path, y=Y, **changes):
    return eh.Contest.create(path, y, **{"classes": [0, 1], "privacy": PROMISE, "seed": 1} | changes)


def test_scores_until_the_budget_is_used_up(path):
    contest = made(path)
    assert contest.rules.sealed == 0.0
    assert "ε = 5 and δ = 1e-09" in contest.rules.reveals
    good = right(0.9)
    first = contest.submit("ann", good)
    assert first.state == "scored"
    assert 0.9 in first.score.interval
    assert contest.submit("bob", good).score == first.score  # the same predictions: no second draw
    assert "1 surprise" in contest.board().privacy
    for number, share in enumerate((0.7, 0.8)):
        assert contest.submit(f"e{number}", right(share, number + 5)).state == "scored"
    last = contest.submit("zoe", right(0.95, 9))
    assert last.state == "closed"
    assert "privacy budget" in last.reason
    assert contest.board().places[0].entrant in ("ann", "bob")
    assert "Privacy ε = 5" in str(contest.board())
    assert contest.board().to_dict(whole=False)["privacy"] is None
    contest.release()
    again = eh.Contest(path)
    assert again.submit("ann", good).state == "repeated"
    assert again.board().privacy == contest.board().privacy
    again.release()
    assert eh.Holdout.audit_file(path).ok


def test_the_same_labels_have_one_private_contest(path, tmp_path):
    made(path)
    with pytest.raises(eh.RowsInUse, match="private contest already"):
        made(tmp_path / "second.everhold")
    assert not (tmp_path / "second.everhold").exists()
    made(tmp_path / "second.everhold", register=False)
    made(tmp_path / "third.everhold", 1 - Y)  # other labels


def test_ranks_are_exact_and_refused(path):
    contest = made(path)
    contest.submit("ann", right(0.9))
    contest.submit("bob", right(0.8))
    before = contest.board()
    for act in (contest.finish, lambda: contest.duel("ann", "bob"), contest.preview):
        with pytest.raises(eh.PrivacyError, match="no duels and no last ranking"):
            act()
    assert contest.board() == before


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"sealed": 0.5}, eh.PrivacyError, "cannot seal rows"),
        ({"privacy": 2.0}, eh.SettingError, r"Expected eh\.Privacy"),
        ({"half_width": 0.1}, eh.SettingError, "half-width"),
    ],
)
def test_what_cannot_be_promised_is_refused(path, changes, error, match):
    with pytest.raises(error, match=match):
        made(path, **changes)
    assert not path.exists()


def test_one_label_moves_a_score_by_one_row(tmp_path, monkeypatch):
    sums, real = [], Scanner.sums

    def watched(self, *given, **more):
        found = real(self, *given, **more)
        sums[-1].extend(one.first for one in found)
        return found

    monkeypatch.setattr(Scanner, "sums", watched)
    for number in range(2):
        labels = Y.copy()
        labels[7] = number
        sums.append([])
        contest = made(tmp_path / f"{number}.everhold", labels, register=False)
        for share in (0.5, 0.9):
            contest.submit(f"e{share}", right(share))
    assert [abs(one - other) for one, other in zip(*sums, strict=True)] == [ROW, ROW]


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(f"{k},{one}\n" for k, one in enumerate(Y)))
    (tmp_path / "mine.csv").write_text("id,prediction\n" + "".join(f"{k},{one}\n" for k, one in enumerate(right(0.9))))
    create = ("contest", "create", "c.everhold", "--labels", "labels.csv", "--classes", "0,1")
    refused = run(*create, "--epsilon", 5, "--sealed", 0.5)
    assert refused.exit_code != 0
    assert "cannot seal" in " ".join(refused.output.split())
    found = run(*create, "--epsilon", 5, "--surprises", 3)
    assert found.exit_code == 0, found.output
    assert "c.everhold.spent" in found.output
    scored = run("score", "--study", "c.everhold", "mine.csv", "--json")
    assert scored.exit_code == 0, scored.output
    assert "Privacy ε = 5, δ = 1e-09" in " ".join(run("contest", "board", "c.everhold").output.split())
    finish = run("contest", "finish", "c.everhold")
    assert finish.exit_code == 3
    assert "no last ranking" in " ".join(finish.output.split())
    status = json.loads(run("status", "c.everhold", "--json").output)["privacy"]
    assert status["epsilon"] == 5.0
    assert run("audit", "c.everhold").exit_code == 0


def test_over_http_and_on_the_page(tmp_path, path):
    contest = made(path)
    contest.release()
    with site(tmp_path, path) as served:
        body = "id,prediction\n" + "".join(f"{k},{one}\n" for k, one in enumerate(right(0.9)))
        found = served.http.post(
            "/v1/contests/contest/submissions", content=body, headers=served.as_("ann") | {"content-type": "text/csv"}
        )
        assert found.status_code == 200, found.text
        assert served.get("/v1/contests/contest").json()["privacy"]["epsilon"] == 5.0
        assert "1 surprise" in served.get("/v1/contests/contest/board").json()["privacy"]
        ended = served.post("/v1/contests/contest/finish", {}, "cus")
        assert (ended.status_code, ended.json()["error"]["code"]) == (422, "question")
        assert "no last ranking" in ended.json()["error"]["message"]
        served.sign_in("cus")
        page = served.http.get("/contests/contest").text
        assert "Privacy ε = 5, δ = 1e-09" in page
        assert "End the contest" not in page
