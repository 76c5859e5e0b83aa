"""Duels and the end of a contest, over HTTP and on the page: for custodians, previewed, recorded once."""

import numpy as np
import pytest

import everhold as eh
from everhold.contest.ranking_preview import RankingPreview
from everhold.ledger.reader import read_study
from tests.server.serving import Clock, as_csv, let_time_pass, make_contest, site, wait_for
from tests.server.test_unpublished import _later

RIGHT = {"ann": 0.95, "bob": 0.6}


def _submit(made, labels, who):
    rng = np.random.default_rng(len(who) + ord(who[0]))
    guess = np.where(rng.random(len(labels)) < RIGHT[who], labels, 1 - labels)
    headers = {**made.as_(who), "Content-Type": "text/csv"}
    assert made.http.post("/v1/contests/coins/submissions", content=as_csv(guess), headers=headers).status_code == 200


@pytest.fixture
def place_and_labels(tmp_path, request):
    return make_contest(tmp_path, sealed=getattr(request, "param", 0.0))


@pytest.fixture
def here(tmp_path, place_and_labels):
    place, labels = place_and_labels
    with site(tmp_path, place) as made:
        made.place = place
        made.token("bob", "analyst")
        for who in RIGHT:
            _submit(made, labels, who)
        yield made


def _acts(made):
    return [(act.act, act.who) for act in read_study(made.place).acts]


class TestDuel:
    def test_a_preview_then_the_duel_once(self, here):
        names = {"first": "ann", "second": "bob"}
        preview = here.get("/v1/contests/coins/duel", "cus", params=names)
        found = RankingPreview.from_dict(preview.json())
        assert found.to_dict() == preview.json()
        assert (found.entrants, found.rows, found.last) == (("ann", "bob"), 300, False)
        assert 0 < found.needed <= found.differing < 300
        assert _acts(here) == [], "a preview records nothing"
        before = here.get("/v1/studies/coins/status").json()["price"]
        body = {**names, "request_id": "once"}
        first, again = (here.post("/v1/contests/coins/duel", body, "cus") for _ in range(2))
        assert first.json() == again.json() == {**names, "better": True}
        assert _acts(here) == [("rank", "cus")], "asked again, it is not made again"
        after = here.get("/v1/studies/coins/status").json()["price"]
        assert after - before == pytest.approx(found.cost, abs=1e-9), "the preview names what it costs"
        assert eh.Holdout.audit_file(here.place).ok

    @pytest.mark.parametrize(
        ("names", "said"),
        [(("ann", "bop"), "Did you mean 'bob'?"), (("ann", "ann"), "Expected two names"), (("", ""), "no entrant")],
    )
    def test_wrong_names(self, here, names, said):
        given = dict(zip(("first", "second"), names, strict=True))
        for told in (
            here.get("/v1/contests/coins/duel", "cus", params=given),
            here.post("/v1/contests/coins/duel", given, "cus"),
        ):
            assert told.status_code == 422
            assert said in told.json()["error"]["message"]
        assert _acts(here) == []

    @pytest.mark.parametrize("place_and_labels", [0.5], indirect=True)
    def test_not_with_sealed_rows(self, here):
        told = here.post("/v1/contests/coins/duel", {"first": "ann", "second": "bob"}, "cus")
        assert told.status_code == 422
        assert "sealed rows" in told.json()["error"]["message"]
        here.sign_in("cus")
        assert "/contests/coins/duel" not in here.http.get("/contests/coins").text


class TestFinish:
    @pytest.mark.parametrize("place_and_labels", [0.0, 0.5], indirect=True)
    def test_a_preview_then_the_end(self, here):
        preview = RankingPreview.from_dict(here.get("/v1/contests/coins/finish", "cus").json())
        sealed = read_study(here.place) is not None and here.get("/v1/contests/coins").json()["sealed"]
        assert (preview.duels, preview.last, preview.sealed) == (1, True, bool(sealed))
        assert preview.rows == (150 if sealed else 300)
        board = here.post("/v1/contests/coins/finish", None, "cus").json()
        assert board["final"]
        assert [(one["entrant"], one["best_rank"], one["worst_rank"]) for one in board["places"]] == [
            ("ann", 1, 1),
            ("bob", 2, 2),
        ]
        assert here.get("/v1/contests/coins/board").json()["places"] == board["places"], "entrants see it too"
        assert here.post("/v1/contests/coins/finish", None, "cus").json() == board, "again: the same board"
        assert _acts(here) == [("rank", "cus")]
        assert here.get("/v1/contests/coins/finish", "cus").status_code == 409
        headers = {**here.as_("ann"), "Content-Type": "text/csv"}
        late = here.http.post("/v1/contests/coins/submissions", content=as_csv(np.zeros(300, int)), headers=headers)
        assert late.status_code == 409
        assert eh.Holdout.audit_file(here.place).ok

    def test_the_price_of_the_preview_is_the_price(self, here):
        preview = RankingPreview.from_dict(here.get("/v1/contests/coins/finish", "cus").json())
        here.post("/v1/contests/coins/finish", None, "cus")
        paid = read_study(here.place).acts[-1].price  # of all duels and scores together; a duel has 7/8 of it
        assert preview.price == pytest.approx(paid + np.log(8 / 7), abs=1e-9)

    @pytest.mark.parametrize("who", ["ann", "aud"])
    @pytest.mark.parametrize("what", ["finish", "duel"])
    def test_for_custodians_only(self, here, who, what):
        body = {"first": "ann", "second": "bob"} if what == "duel" else None
        for told in (
            here.post(f"/v1/contests/coins/{what}", body, who),
            here.get(f"/v1/contests/coins/{what}", who, params=body),
        ):
            assert told.status_code == 403
        csrf = here.sign_in(who)
        assert here.http.get(f"/contests/coins/{what}").status_code == 403
        assert (
            here.http.post(f"/contests/coins/{what}", data={"csrf": csrf, "sure": "yes", **(body or {})}).status_code == 403
        )
        assert f"/contests/coins/{what}" not in here.http.get("/contests/coins").text
        assert _acts(here) == []


class TestPage:
    def test_a_duel(self, here):
        csrf = here.sign_in("cus")
        assert 'href="/contests/coins/duel"' in here.http.get("/contests/coins").text
        names = {"first": "ann", "second": "bob"}
        empty = here.http.get("/contests/coins/duel")
        assert empty.status_code == 200
        assert "Make the duel" not in empty.text
        page = here.http.get("/contests/coins/duel", params=names).text
        assert "ann is certified better if it is right on" in page
        assert _acts(here) == []
        request_id = page.split('name="request_id" value="')[1].split('"')[0]
        told = [here.http.post("/contests/coins/duel", data={"csrf": csrf, "request_id": request_id, **names}) for _ in "12"]
        assert all("ann is certified better than bob." in one.text for one in told)
        assert _acts(here) == [("rank", "cus")], "sent twice, it is made once"
        other = here.http.post("/contests/coins/duel", data={"csrf": csrf, "first": "bob", "second": "ann"})
        assert "do not show that bob is better than ann" in other.text
        wrong = here.http.post("/contests/coins/duel", data={"csrf": csrf, "first": "ann", "second": "<b>"})
        assert wrong.status_code == 422
        assert "<b>" not in wrong.text

    def test_the_end_must_be_confirmed(self, here):
        csrf = here.sign_in("cus")
        page = here.http.get("/contests/coins/finish").text
        assert "compares 2 entrants two by two (1 duel) on 300 rows" in page
        unsure = here.http.post("/contests/coins/finish", data={"csrf": csrf})
        assert unsure.status_code == 422
        assert "the box is not ticked" in unsure.text
        assert _acts(here) == []
        done = here.http.post("/contests/coins/finish", data={"csrf": csrf, "sure": "yes"}, follow_redirects=False)
        assert done.headers["location"] == "/contests/coins"
        page = here.http.get("/contests/coins").text
        assert "The contest has ended" in page
        assert "/contests/coins/finish" not in page
        assert here.http.get("/contests/coins/finish").status_code == 409
        assert _acts(here) == [("rank", "cus")]


def test_the_board_in_the_shell(tmp_path):
    """Entrants see it by their own token, as it stands in the file."""
    from typer.testing import CliRunner

    from everhold.cli.main import app
    from everhold.contest.contest import Contest
    from tests.server.serving import Process

    place, labels = make_contest(tmp_path, sealed=0.0)
    process = Process(tmp_path, place)
    secret = process.tokens.create("ann", "analyst")[0]
    url = process.start()
    try:
        (tmp_path / "mine.csv").write_text(as_csv(labels))

        def run(*words):
            return CliRunner().invoke(app, ["contest", *words, "--server", url, "--token", secret])

        sent = run("submit", "coins", str(tmp_path / "mine.csv"))
        assert sent.exit_code == 0, sent.output
        assert "Later submissions have wider intervals" in sent.output
        board = Contest(place).board()
        assert board.places[0].entrant == "ann"
        assert " ".join(run("board", "coins").output.split()) == " ".join(str(board).split())
        assert run("board", "coins", "--csv").output == board.to_csv()
        shown = run("board", "coins", "--json").output
        local = CliRunner().invoke(app, ["contest", "board", str(place), "--json"]).output
        assert shown == local
        refused = run("board", "coins", "--out", str(tmp_path / "board.html"))
        assert refused.exit_code == 4
        assert f"{url}/contests/coins" in "".join(refused.output.split())
    finally:
        process.stop()


def test_a_preview_says_nothing_of_what_has_not_left(tmp_path):
    """A submission is scored and on its way: the preview is the one before it."""
    place, labels = make_contest(tmp_path, sealed=0.0)
    clock = Clock()
    with site(tmp_path, place, grid_ms=4_000, clock=clock) as made:
        made.token("bob", "analyst")
        thread = _later(lambda: _submit(made, labels, "ann"))
        wait_for(lambda: len(read_study(place).rounds) == 1)
        clock.now += 5.0
        let_time_pass(clock, thread)
        before = made.get("/v1/contests/coins/finish", "cus").json()
        assert before["entrants"] == ["ann"]
        thread = _later(lambda: _submit(made, labels, "bob"))
        wait_for(lambda: len(read_study(place).rounds) == 2)
        wait_for(lambda: made.state.served["coins"].release_time() > clock.now + 3.0)
        assert made.get("/v1/contests/coins/finish", "cus").json() == before
        clock.now += 5.0
        let_time_pass(clock, thread)
        assert made.get("/v1/contests/coins/finish", "cus").json()["duels"] == 1
