"""The pages without a browser: forms work without scripts, cookies are guarded, nothing typed is taken for markup."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import everhold as eh
from everhold.acts import ACTS
from everhold.server.forms import AnswerCard
from tests.server.serving import as_csv, make_contest, make_study, save, site

NASTY = """<script>alert(1)</script>"'&"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def labels(folder):
    return make_contest(folder)[1]


@pytest.fixture(scope="module")
def here(folder, labels):
    with site(folder, make_study(folder), make_study(folder, "strict", half_width=0.1), folder / "coins.everhold") as made:
        yield made


@pytest.fixture
def page(here):
    """Signed in as an analyst: the site, and what its forms carry."""
    csrf = here.sign_in("ann")
    yield here, csrf
    here.http.cookies.clear()


def _ask(here, csrf, question, study="patients", **more):
    given = {"csrf": csrf, "kind": "share", "question": question, **more}
    return here.http.post(f"/studies/{study}/ask", data=given)


PAGES = ["/", "/docs", "/tokens", "/studies/patients", "/studies/patients/acts",
         *(f"/studies/patients/acts/{name}" for name in ACTS), "/studies/patients/history", "/studies/patients/history.csv",
         "/studies/patients/history.json", "/studies/patients/check?question=smoker", "/studies/patients/certificate",
         "/studies/patients/certificate/audited", "/studies/patients/certificate/page",
         "/studies/patients/certificate.json", "/contests/coins"]  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_whoever_is_not_signed_in_is_sent_to_sign_in(here, path):
    here.http.cookies.clear()
    told = here.http.get(path, follow_redirects=False)
    assert told.status_code == 303
    assert told.headers["location"].startswith("/sign-in?next=/")
    part = here.http.get(path, headers={"HX-Request": "true"}, follow_redirects=False)
    assert part.status_code == 401
    assert part.headers["hx-redirect"].startswith("/sign-in")
    assert part.content == b""


@pytest.mark.parametrize("path", PAGES)
def test_every_page_stands(here, path):
    csrf = here.sign_in("cus")
    _ask(here, csrf, "smoker")
    told = here.http.get(path)
    assert told.status_code == 200, told.text
    if "text/html" in told.headers["content-type"] and path != "/docs":
        assert "http://" not in told.text.replace("http://www.w3.org", "").replace("http://testserver", "")
        assert "https://" not in told.text  # works without internet


def test_what_the_cookie_is(here):
    here.http.cookies.clear()
    told = here.http.post("/sign-in", data={"token": here.secrets["ann"]}, follow_redirects=False)
    cookie = told.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert here.secrets["ann"] not in cookie
    with pytest.raises(KeyError):
        told.headers["authorization"]


def test_a_server_behind_https_keeps_its_cookie_there(tmp_path):
    with site(tmp_path, make_study(tmp_path), public_url="https://data.example.org") as made:
        told = made.http.post("/sign-in", data={"token": made.secrets["ann"]}, follow_redirects=False)
        assert told.headers["set-cookie"].startswith("__Host-everhold=")
        assert "Secure" in told.headers["set-cookie"]
        assert "max-age" in told.headers["strict-transport-security"]


def test_where_a_form_may_come_from(tmp_path):
    """By what browsers say: the same host as asked for, or the public address that a proxy stands at."""
    with site(tmp_path, make_study(tmp_path), public_url="https://data.example.org:8443") as made:
        for origin, status in (("http://testserver", 303), ("https://data.example.org:8443", 303),
                               ("https://evil.example", 403), ("null", 403), ("https://data.example.org", 403)):  # fmt: skip
            given = {"token": made.secrets["ann"]}
            told = made.http.post("/sign-in", data=given, headers={"Origin": origin}, follow_redirects=False)
            assert told.status_code == status, origin


def test_a_wrong_token_is_told_so(here):
    here.http.cookies.clear()
    told = here.http.post("/sign-in", data={"token": "evh_wrong"})
    assert told.status_code == 401
    assert "not valid" in told.text
    assert "set-cookie" not in told.headers


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/%0d%0aX: y"]
)
def test_signing_in_leads_nowhere_else(here, to):
    here.http.cookies.clear()
    told = here.http.post("/sign-in", data={"token": here.secrets["ann"], "next": to}, follow_redirects=False)
    assert told.headers["location"] == "/"


CHANGES = [
    ("/studies/patients/ask", {"question": "age > 77"}),
    *((f"/studies/patients/acts/{name}", {"do": "yes", "sure": "yes", "questions": "smoker"}) for name in ACTS),
    ("/tokens", {"name": "eve", "scope": "custodian"}),
    ("/tokens/abcd/revoke", {}),
    ("/contests/coins/submissions", {}),
    ("/contests/coins/finish", {"sure": "yes"}),
    ("/contests/coins/duel", {"first": "ann", "second": "bob"}),
    ("/sign-out", {}),
]


@pytest.mark.parametrize(("path", "given"), CHANGES)
def test_no_change_without_the_page_s_own_secret(here, path, given):
    before = here.get("/v1/studies/patients/status").json(), len(here.state.tokens.all())
    csrf = here.sign_in("cus")
    for forged in ({}, {"csrf": ""}, {"csrf": "x" * len(csrf)}, {"csrf": csrf + "x"}, {"csrf": "é"}):
        assert here.http.post(path, data={**given, **forged}).status_code == 403
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert here.http.post(path, data={**given, "csrf": csrf}, headers=elsewhere).status_code == 403
    assert here.http.get("/").status_code == 200  # still signed in
    assert (here.get("/v1/studies/patients/status").json(), len(here.state.tokens.all())) == before


def test_signing_in_from_another_site_is_refused(here):
    here.http.cookies.clear()
    given = {"token": here.secrets["ann"]}
    assert here.http.post("/sign-in", data=given, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_a_cookie_is_no_token_and_a_token_no_cookie(page):
    here, csrf = page
    told = here.http.post("/v1/studies/patients/ask", json={"question": "smoker"}, headers={"X-CSRF-Token": csrf})
    assert told.status_code == 401
    here.http.cookies.clear()
    assert here.http.get("/", headers=here.as_("ann"), follow_redirects=False).status_code == 303


def test_a_revoked_token_is_signed_out_at_once(here):
    here.token("bob", "analyst")
    here.sign_in("bob")
    assert here.http.get("/").status_code == 200
    mine = next(one for one in here.state.tokens.all() if one.name == "bob")
    here.state.tokens.revoke(mine.id)
    assert here.http.get("/", follow_redirects=False).status_code == 303


def test_signing_out(page):
    here, csrf = page
    cookie = dict(here.http.cookies)
    here.http.post("/sign-out", data={"csrf": csrf})
    here.http.cookies.update(cookie)  # somebody has kept it
    assert here.http.get("/", follow_redirects=False).status_code == 303


def test_asking_without_scripts(page):
    here, csrf = page
    told = _ask(here, csrf, "age > 40 AND smoker")
    assert told.status_code == 200
    assert "<!doctype html>" in told.text
    assert 'class="interval"' in told.text
    assert "For the population: between" in told.text
    status = here.get("/v1/studies/patients/status").json()
    assert f"<dd>{status['rounds']:,}</dd>" in told.text


@pytest.mark.parametrize(
    ("kind", "more", "shows"),
    [
        ("mean", {"question": "bmi", "given": "smoker"}, "mean of bmi cut to "),
        ("median", {"question": "age"}, "median of age"),
        ("quantile", {"question": "age", "level": "0.9"}, "0.9 quantile of age"),
        ("variance", {"question": "bmi"}, "variance of bmi"),
        ("correlation", {"question": "age", "second": "bmi"}, "correlation of age cut to "),
        ("difference", {"question": "smoker", "first_group": "age > 40", "second_group": "age <= 40"}, "minus"),
        ("compare", {"question": "smoker", "second": "age > 80"}, "is smoker larger than age"),
        ("histogram", {"question": "age", "bins": "5"}, ">Share</th>"),
        ("table", {"question": "city", "second": "smoker"}, "York × yes"),
    ],
)
def test_every_kind_of_question(page, kind, more, shows):
    here, csrf = page
    told = _ask(here, csrf, kind=kind, **more)
    assert told.status_code == 200, told.text
    assert shows in told.text
    checked = here.http.get("/studies/patients/check", params={"kind": kind, **more})
    assert "Can be asked" in checked.text


def test_with_scripts_a_part_of_the_page_comes(page):
    here, csrf = page
    given = {"kind": "share", "question": "bmi > 29"}
    told = here.http.post("/studies/patients/ask", data=given, headers={"HX-Request": "true", "X-CSRF-Token": csrf})
    assert told.status_code == 200
    assert "<!doctype html>" not in told.text
    for part in ("facts", "recent", "figure", "check"):
        assert f'id="{part}"' in told.text


def test_a_failed_question_keeps_its_text_and_says_what_to_do(page):
    here, csrf = page
    before = here.get("/v1/studies/patients/status").json()
    told = _ask(here, csrf, "smokr = 1 AND age > 40", given="age > 20")
    assert told.status_code == 422
    assert "smokr = 1 AND age &gt; 40</textarea>" in told.text
    assert 'value="age &gt; 20"' in told.text
    assert "Did you mean" in told.text
    assert "Nothing was charged" in told.text
    for more in ({"kind": "nonsense"}, {"kind": "mean", "question": "bmi", "low": "x", "high": "2"}, {"question": ""},
                 {"kind": "difference", "question": "smoker"}, {"kind": "compare", "question": "smoker"}):  # fmt: skip
        assert _ask(here, csrf, **{"question": "smoker", **more}).status_code == 422
    assert here.get("/v1/studies/patients/status").json() == before


def test_what_is_typed_is_never_markup(page):
    here, csrf = page
    for told in (
        _ask(here, csrf, NASTY),
        here.http.get("/studies/patients/check", params={"question": NASTY}),
        here.http.get("/studies/patients", params={"question": NASTY}),
        here.http.get("/studies/patients/history", params={"contains": NASTY, "who": NASTY}),
        here.http.get("/sign-in", params={"next": f"/{NASTY}"}),
        here.http.get(f"/studies/{NASTY}"),
        here.http.post("/sign-in", data={"token": NASTY, "next": NASTY}),
    ):
        assert "<script>alert" not in told.text
    asked = _ask(here, csrf, "city LIKE '%<script>alert(1)</script>%'")
    assert asked.status_code == 200
    assert "<script>alert" not in asked.text
    assert "<script>alert" not in here.http.get("/studies/patients/history").text
    assert "<script>alert" not in here.http.get("/studies/patients/certificate/page").text


def test_names_from_the_schema_and_tokens_are_never_markup(tmp_path):
    column = "<b>x</b>"
    rng = np.random.default_rng(0)

    def table(size):
        return {column: rng.integers(0, 9, size), "city": rng.choice(["<i>York</i>", "Hull"], size)}

    data = save(tmp_path / "odd.csv", table(2_000))
    eh.Holdout.create(tmp_path / "odd.everhold", data, prior=eh.Reference(table(2_000)), seed=1).release()
    with site(tmp_path, tmp_path / "odd.everhold") as made:
        made.token("<u>eve</u>", "custodian")
        csrf = made.sign_in("<u>eve</u>")
        for path in ("/", "/studies/odd", "/tokens"):
            text = made.http.get(path).text
            for raw in ("<b>x</b>", "<i>York</i>", "<u>eve</u>"):
                assert raw not in text
        assert _ask(made, csrf, '"<b>x</b>" > 3', study="odd").status_code == 200
        assert "<b>x</b>" not in made.http.get("/studies/odd/history").text


def test_history_filters_pages_and_exports(page):
    here, _ = page
    here.post("/v1/studies/patients/ask_many", {"questions": [f"bmi > {n / 10}" for n in range(200, 270)]})
    told = here.http.get("/studies/patients/history")
    total = here.get("/v1/studies/patients/log").json()["total"]
    assert f"{total:,} of {total:,} questions" in told.text
    assert 'rel="next"' in told.text
    last = here.http.get("/studies/patients/history", params={"page": 10**9})
    assert 'rel="next"' not in last.text
    given = {"contains": "bmi > 26", "who": "ann"}
    rows = here.http.get("/studies/patients/history.json", params=given).json()
    every = here.http.get("/studies/patients/history.json").json()
    assert rows == [row for row in every if "bmi > 26" in row["question"] and row["who"] == "ann"]
    assert 10 <= len(rows) < len(every)
    text = here.http.get("/studies/patients/history.csv", params=given).text
    read = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["value"]) for row in read] == [row["value"] for row in rows]
    assert "No question fits" in here.http.get("/studies/patients/history", params={"contains": "zzz"}).text


def test_spreadsheets_do_not_run_what_people_asked(page):
    from everhold.ledger.reader import LoggedQuestion, LoggedRound
    from everhold.server.log import log_to_csv

    answer = eh.Answer(0.5, 0.4, 0.6, False, 1, 5.0, "share")
    asked = LoggedQuestion(1, None, (LoggedRound(answer, "=HYPERLINK(1)", "now", "@eve", "-1"),))
    row = next(csv.DictReader(io.StringIO(log_to_csv([asked]))))
    assert (row["question"], row["who"], row["request_id"]) == ("'=HYPERLINK(1)", "'@eve", "'-1")


def test_an_auditor_reads_and_does_not_ask(here):
    csrf = here.sign_in("aud")
    assert "Auditor tokens are read-only" in here.http.get("/studies/patients").text
    assert _ask(here, csrf, "smoker").status_code == 403
    assert here.http.get("/tokens").status_code == 403


def test_price_left_is_shown_where_a_precision_was_promised(page):
    here, csrf = page
    _ask(here, csrf, "smoker", study="strict")
    told = here.http.get("/studies/strict").text
    status = here.get("/v1/studies/strict/status").json()
    assert f"about {status['budget'] - status['price']:.0f} nats" in told
    assert "used up at" in told


def test_the_board_and_a_submission(page, labels):
    here, csrf = page
    files = {"predictions": ("mine.csv", as_csv(labels).encode(), "text/csv")}
    told = here.http.post("/contests/coins/submissions", data={"csrf": csrf}, files=files)
    assert told.status_code == 200, told.text
    assert "your first score" in told.text
    assert "<td class='first'>ann</td>" in told.text
    wrong = {"predictions": ("mine.csv", b"id,prediction\n0,7\n", "text/csv")}
    told = here.http.post("/contests/coins/submissions", data={"csrf": csrf}, files=wrong)
    assert told.status_code == 422
    assert "Line 2, column prediction" in told.text
    assert here.http.post("/contests/coins/submissions", data={"csrf": csrf}).status_code == 422
    assert here.http.get("/studies/coins", follow_redirects=False).headers["location"] == "/contests/coins"
    assert here.http.get("/studies/coins/history").status_code == 403
    board = here.http.get("/contests/coins").text
    for word in ("Rank", "Interval", "Basis", "Counts", "Certified better than", "Ledger head"):
        assert f"<dt>{word}</dt>" in board, "how to read the board, in words of its own"
    assert "fresh draw of labels for these same rows" in board
    assert "One submission of each entrant counts" in board


def test_the_record_of_a_contest_says_what_a_contest_promises(here):
    here.sign_in("aud")
    history = here.http.get("/studies/coins/history").text
    assert '<a href="/contests/coins">Board</a>' in history
    assert "/studies/coins/acts" not in history
    assert ">Ask</a>" not in history
    assert ">Ask</a>" in here.http.get("/studies/patients/history").text
    shown = here.http.get("/studies/coins/certificate.json").json()
    for said in (shown["guarantee"], " ".join(shown["assumptions"])):
        assert "for these same" in said
        assert "drawn independently" not in said
    assert "drawn independently" in here.http.get("/studies/patients/certificate.json").json()["guarantee"]


def test_tokens_on_the_page(here):
    csrf = here.sign_in("cus")
    given = {"csrf": csrf, "name": "carl", "scope": "auditor", "studies": "patients", "days": "30"}
    told = here.http.post("/tokens", data=given)
    secret = told.text.split('class="secret">')[1].split("<")[0]
    found = here.state.tokens.find(secret)
    assert (found.name, found.scope, found.studies) == ("carl", "auditor", ("patients",))
    assert secret not in here.http.get("/tokens").text
    told = here.http.post(f"/tokens/{found.id}/revoke", data={"csrf": csrf})
    assert here.state.tokens.find(secret) is None
    for wrong in ({"name": ""}, {"days": "x"}, {"days": "-1"}, {"scope": "king"}, {"studies": "nowhere"}):
        told = here.http.post("/tokens", data={**given, **wrong})
        assert told.status_code == 422
        assert 'role="alert"' in told.text


def test_sessions_end():
    from everhold.server.signins import SignIns

    now = [0.0]
    import tempfile
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from everhold.server.tokens import Tokens

    tokens = Tokens(Path(tempfile.mkdtemp()) / "tokens.json")
    secret, _ = tokens.create("ann", "analyst")
    sessions = SignIns(tokens, hours=1.0, secure=False, clock=lambda: now[0])
    response = Response()
    assert sessions.start(secret, response) is not None
    cookie = response.headers["set-cookie"].split(";")[0]
    request = Request({"type": "http", "headers": [(b"cookie", cookie.encode())]})
    assert sessions.of(request) is not None
    now[0] = 3_601.0
    assert sessions.of(request) is None


def test_static_files_are_here_and_nothing_else_is(here):
    for name in ("htmx.min.js", "everhold.css", "everhold.js", "everhold.svg", "swagger/swagger-ui-bundle.js"):
        told = here.http.get(f"/static/{name}")
        assert told.status_code == 200
        assert len(told.content) > 300
    for name in ("../pages.py", "%2e%2e/pages.py", "..%2fpages.py", "nothing.js", "", "swagger"):
        assert here.http.get(f"/static/{name}", follow_redirects=False).status_code in (303, 404, 405)


def test_every_response_is_guarded(page):
    here, _ = page
    for path in ("/", "/sign-in", "/nothing", "/v1/studies", "/static/everhold.js", "/health"):
        told = here.http.get(path)
        assert told.headers["x-content-type-options"] == "nosniff"
        assert told.headers["x-frame-options"] == "DENY"
        assert "script-src 'self'" in told.headers["content-security-policy"]
        assert told.headers["cache-control"].startswith("public" if "static" in path else "no-store")
    assert json.loads(here.http.get("/openapi.json").text)["info"]["title"] == "everhold"
    here.http.cookies.clear()
    assert here.http.get("/openapi.json").status_code == 401


def test_the_statistic_says_whether_its_value_is_a_share():
    """A share is shown in percent, whatever the question is called; a mean between 0 and 1 is not."""
    part = eh.Answer(0.25, 0.2, 0.3, False, 1, 5.0, "share")
    found = eh.Finding("share of x given y", 0.25, 0.2, 0.3, (part,))
    assert AnswerCard.of(found, eh.Share("x", given="y"), "x").value == "25.0 %"
    assert AnswerCard.of(found, eh.Mean("x", low=0, high=1, given="y"), "x").value == "0.250"
