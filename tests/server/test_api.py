"""The HTTP interface: every route, one shape for errors, and nobody who has no token."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest

import everhold as eh
from everhold.acts import ACTS
from everhold.server.config import StudyAt
from everhold.statistics import STATISTICS, statistic
from tests.server.serving import Clock, access_log, as_csv, let_time_pass, make_contest, make_study, site, wait_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def labels(folder):
    return make_contest(folder)[1]


@pytest.fixture(scope="module")
def here(folder, labels):
    studies = [make_study(folder, name) for name in ("patients", "staff", "ended")]
    over, _ = make_contest(folder, "over")
    eh.Gate.create(folder / "prompts.everhold", {f"case-{number}": number % 2 for number in range(100)})
    with site(folder, *studies, folder / "coins.everhold", over, folder / "prompts.everhold") as made:
        made.token("only staff", "analyst", studies=["staff"])
        made.token("keeper of staff", "custodian", studies=["staff"])
        yield made


ROUTED = [name for name in STATISTICS if name not in ACTS]
"""Statistics with a route of their own; another is asked with `ask`, because an act has its name."""
BODIES = {
    "ask": {"question": "age > 40"},
    "ask_many": {"questions": ["age > 41", "smoker"]},
    "try_out": {"question": "age > 40"},
    **{name: dict(STATISTICS[name].example) for name in ROUTED},
    "median": {"question": "age"},
    "quantile": {"question": "age", "level": 0.9},
}


def _fault(response, status, code):
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"code", "message", "request_id", "details"}
    assert error["code"] == code
    assert error["request_id"] == response.headers["x-request-id"]
    assert error["message"]
    return error


def test_every_question_gets_the_answer_that_the_library_gives(tmp_path):
    """Two studies alike, the same questions in the same order: one asked over HTTP, one in this process."""
    assert {*ROUTED, "ask", "ask_many", "try_out"} == set(BODIES)
    mine = make_study(tmp_path, "mine")
    with site(tmp_path, make_study(tmp_path, "theirs")) as far, eh.Holdout.open(mine) as near:
        for kind, body in BODIES.items():
            told = far.post(f"/v1/studies/theirs/{kind}", body)
            assert told.status_code == 200, (kind, told.text)
            if kind == "ask_many":
                expected = {"answers": [one.to_dict() for one in near.ask_many(body["questions"])]}
            elif kind == "try_out":
                expected = near.try_out(**body).to_dict()
            else:
                question = body["question"] if kind == "ask" else statistic(kind, body)
                expected = near.ask(question).to_dict()
            assert told.json() == expected, kind
        assert far.get("/v1/studies/theirs/status").json()["rounds"] == near.rounds
        assert near.surprises >= 1  # otherwise little was compared


def test_rehearsals_spend_nothing(here):
    before = here.get("/v1/studies/staff/status").json()
    for kind in ROUTED:
        told = here.post(f"/v1/studies/staff/{kind}", {**BODIES[kind], "rehearse": True}, "aud")
        assert told.status_code == 200, (kind, told.text)
    assert here.get("/v1/studies/staff/status").json() == before


def test_a_statistic_is_asked_for_by_those_who_may_ask(here):
    """By the body's `rehearse`; and a token that may not even read is refused whatever the body says."""
    before = here.get("/v1/studies/patients/status").json()
    for kind in ROUTED:
        for more in ({}, {"rehearse": False}):
            _fault(here.post(f"/v1/studies/patients/{kind}", {**BODIES[kind], **more}, "aud"), 403, "not_allowed")
        for body in ({**BODIES[kind], "rehearse": True}, {"nonsense": 1}):
            _fault(here.post(f"/v1/studies/patients/{kind}", body, "only staff"), 403, "not_allowed")
        _fault(here.post(f"/v1/studies/coins/{kind}", {**BODIES[kind], "rehearse": True}), 409, "a_contest")
    assert here.get("/v1/studies/patients/status").json() == before


def test_the_same_request_id_is_answered_once(here):
    body = {"question": "age BETWEEN 20 AND 30", "request_id": "one"}
    first = here.post("/v1/studies/patients/ask", body)
    rounds = here.get("/v1/studies/patients/status").json()["rounds"]
    assert here.post("/v1/studies/patients/ask", body).json() == first.json()
    assert here.get("/v1/studies/patients/status").json()["rounds"] == rounds
    other = {**body, "question": "age BETWEEN 20 AND 31"}
    assert (
        "belongs to another question"
        in _fault(here.post("/v1/studies/patients/ask", other), 409, "request_conflict")["message"]
    )
    again = {"question": "bmi", "low": 15.0, "high": 50.0, "request_id": "two"}
    mean = here.post("/v1/studies/patients/mean", again).json()
    assert here.post("/v1/studies/patients/mean", again).json() == mean
    _fault(here.post("/v1/studies/patients/mean", {**again, "low": 14.0}), 409, "request_conflict")


ROUTES = [
    *(("POST", f"/v1/studies/patients/{kind}", body) for kind, body in BODIES.items()),
    *(
        ("POST", f"/v1/studies/{'ended' if name == 'close' else 'patients'}/{name}", dict(kind.example))
        for name, kind in ACTS.items()
    ),
    *(("GET", f"/v1/studies{tail}", None) for tail in ("", "/patients", "/patients/status", "/patients/log")),
    *(("GET", f"/v1/studies/patients/{tail}", None) for tail in ("certificate", "audit", "file")),
    ("POST", "/v1/contests/coins/submissions", None),
    ("GET", "/v1/contests/coins", None),
    ("GET", "/v1/contests/coins/board", None),
    *(("GET", f"/v1/contests/over/{tail}", None) for tail in ("duel?first=ann&second=bob", "finish")),
    ("POST", "/v1/contests/over/duel", {"first": "ann", "second": "bob"}),
    ("POST", "/v1/contests/over/finish", None),
    ("GET", "/v1/gates/prompts", None),
    ("POST", "/v1/gates/prompts/checks", {"outcomes": {"case-1": 1}}),
    ("POST", "/v1/gates/prompts/decide", {}),
    ("POST", "/v1/gates/prompts/finish", {}),
    ("GET", "/v1/tokens", None),
    ("POST", "/v1/tokens", {"name": "x"}),
    ("DELETE", "/v1/tokens/abcd", None),
    ("GET", "/metrics", None),
]


def test_the_list_of_routes_is_whole(here):
    described = here.get("/openapi.json").json()["paths"]
    known = {
        path.replace("patients", "{name}")
        .replace("ended", "{name}")
        .replace("coins", "{name}")
        .replace("prompts", "{name}")
        .replace("over", "{name}")
        .partition("?")[0]
        .replace("abcd", "{token_id}")
        for _, path, _ in ROUTES
    }
    assert set(described) == known - {"/metrics"}
    for operations in described.values():
        for one in operations.values():
            assert one["summary"]
            assert one["description"]
            assert one["security"]
            for content in one.get("requestBody", {}).get("content", {}).values():
                shape = content["schema"].get("$ref", "").rpartition("/")[2]
                assert "example" in content or here.get("/openapi.json").json()["components"]["schemas"][shape]["examples"]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_nothing_without_a_token(here, method, path, body):
    for headers in (
        {},
        {"Authorization": "Bearer evh_wrong"},
        {"Authorization": "Basic abc"},
        {"Authorization": "Bearer"},
    ):
        _fault(here.http.request(method, path, json=body, headers=headers), 401, "unknown_token")
    told = here.http.request(method, path, json=body, headers={})
    assert told.headers["www-authenticate"].startswith("Bearer")


def test_strangers_learn_nothing_by_asking_for_names_or_breaking_bodies(here):
    def told(path, **more):
        found = here.http.post(path, **more).json()
        found["error"].pop("request_id")
        return found

    known = told("/v1/studies/patients/ask", json={"question": "age > 40"})
    for path in ("/v1/studies/nowhere/ask", "/v1/nothing", "/v1/studies/patients/ask"):
        assert told(path, content=b"{not json") == known


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_what_each_scope_may(here, method, path, body):
    """By the rule of docs/security.md: analysts ask and read, auditors read and audit, custodians everything."""
    asks = method == "POST" and not path.endswith(("try_out", "tokens"))
    manages = "tokens" in path or path.endswith(("/close", "/finish")) or "/duel" in path
    audits = path.endswith(("/audit", "/file", "/metrics"))
    allowed = {"ann": not audits and not manages, "aud": not asks and not manages, "cus": True}
    for who, may in allowed.items():
        if method == "DELETE" and may:
            _fault(here.http.request(method, path, headers=here.as_(who)), 404, "no_such_token")
            continue
        content = {"json": body} if body is not None else {"content": b""}
        told = here.http.request(method, path, headers=here.as_(who), **content)
        if may:
            assert told.status_code in (200, 201, 422), (who, told.text)
        else:
            _fault(told, 403, "not_allowed")


def test_limits_to_studies(here):
    assert [one["name"] for one in here.get("/v1/studies", "only staff").json()["studies"]] == ["staff"]
    assert here.post("/v1/studies/staff/ask", {"question": "smoker"}, "only staff").status_code == 200
    for name in ("patients", "nowhere", "coins"):  # whether it exists is not told
        _fault(here.get(f"/v1/studies/{name}", "only staff"), 403, "not_allowed")
    _fault(here.get("/v1/studies/nowhere"), 404, "no_such_study")


def test_a_custodian_of_some_studies_reaches_no_further(here):
    who = "keeper of staff"
    made = here.post("/v1/tokens", {"name": "eve", "scope": "analyst", "studies": ["staff"]}, who)
    assert made.status_code == 201
    for wanted in ([], ["patients"], ["staff", "patients"], ["nowhere"]):
        _fault(here.post("/v1/tokens", {"name": "eve", "studies": wanted}, who), 422, "setting")
    listed = here.get("/v1/tokens", who).json()["tokens"]
    assert {one["name"] for one in listed} >= {"eve", "only staff", who}
    assert all(one["studies"] == ["staff"] for one in listed)
    everything = next(one for one in here.get("/v1/tokens", "cus").json()["tokens"] if one["name"] == "cus")
    _fault(here.http.delete(f"/v1/tokens/{everything['id']}", headers=here.as_(who)), 404, "no_such_token")
    assert "token" not in listed[0]
    assert "digest" not in json.dumps(listed)


def test_a_revoked_token_stops_at_once(here):
    made = here.post("/v1/tokens", {"name": "bob", "days": 1}, "cus").json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert here.http.get("/v1/studies", headers=headers).status_code == 200
    assert here.http.delete(f"/v1/tokens/{made['id']}", headers=here.as_("cus")).json()["state"] == "revoked"
    _fault(here.http.get("/v1/studies", headers=headers), 401, "unknown_token")


def test_a_statistic_has_one_way_whatever_its_route(tmp_path):
    """Under one request id, its own route and `ask` return one finding, which is recorded once."""
    with site(tmp_path, make_study(tmp_path, "patients")) as made:
        given = {"question": "bmi", "given": "smoker"}
        own = made.post("/v1/studies/patients/mean", {**given, "request_id": "m"})
        asked = {"question": {"statistic": "mean", "arguments": given}, "request_id": "m"}
        assert made.post("/v1/studies/patients/ask", asked).json() == own.json()
        log = made.get("/v1/studies/patients/log").json()
        assert [one["request_id"].split(":", 1)[1] for one in log["questions"]] == ["mean:m"]
        tried = made.post("/v1/studies/patients/mean", {**given, "rehearse": True}).json()
        assert tried == made.post("/v1/studies/patients/try_out", {"question": asked["question"]}).json()
        _fault(made.post("/v1/studies/patients/ask", {**asked, "request_id": "n", "expect": 0.5}), 422, "question")
        assert made.get("/v1/studies/patients/status").json()["rounds"] == log["questions"][0]["round"]


def test_the_record_by_pages(here):
    here.post("/v1/studies/patients/ask", {"question": "smoker"})  # a surprise
    here.post("/v1/studies/patients/ask_many", {"questions": [f"age > {n}" for n in range(20, 60)]})
    every = here.get("/v1/studies/patients/log", params={"limit": 1000}).json()
    assert every["next"] is None
    assert [one["number"] for one in every["questions"]] == list(range(1, every["total"] + 1))
    pages, after = [], 0
    while after is not None:
        page = here.get("/v1/studies/patients/log", params={"limit": 7, "after": after}).json()
        pages += page["questions"]
        after = page["next"]
    assert pages == every["questions"]
    surprising = here.get("/v1/studies/patients/log", params={"surprises": True}).json()["questions"]
    assert surprising == [one for one in every["questions"] if one["surprise"]]
    assert surprising
    found = here.get("/v1/studies/patients/log", params={"contains": "SMOKER", "who": "ann"}).json()["questions"]
    assert found == [one for one in every["questions"] if "smoker" in one["question"] and one["who"] == "ann"][:100]
    assert here.get("/v1/studies/patients/log", params={"after": 10**9}).json()["questions"] == []
    for wrong in ({"after": -1}, {"limit": 0}, {"limit": 10**6}, {"after": "x"}):
        _fault(here.get("/v1/studies/patients/log", params=wrong), 422, "malformed")


def test_what_is_told_of_a_study(here):
    told = here.get("/v1/studies/patients").json()
    assert {one["name"] for one in told["columns"]} == {"age", "smoker", "bmi", "city"}
    assert told["rows"] == 4_000
    assert eh.Schema.from_toml(told["schema_toml"])["city"].categories == ("Hull", "Leeds", "York")
    audit = here.get("/v1/studies/patients/audit", "aud").json()
    assert audit["ok"]
    assert audit["rounds"] == told["rounds"]
    certificate = here.get("/v1/studies/patients/certificate").json()
    assert certificate["head"] == audit["head"]
    assert len(certificate["rounds"]) == audit["rounds"]
    page = here.get("/v1/studies/patients/certificate", params={"page": True})
    assert "Every round replays bit for bit" in page.text


def test_the_file_can_be_audited_elsewhere(here, tmp_path):
    place = tmp_path / "copy.everhold"
    place.write_bytes(here.get("/v1/studies/patients/file", "aud").content)
    head = here.get("/v1/studies/patients/status").json()["head"]
    assert eh.Holdout.audit_file(place, expect_head=head).ok


def test_a_contest(here, labels):
    good = np.where(np.arange(300) % 10 == 0, 1 - labels, labels)
    csv = {"headers": {**here.as_("ann"), "Content-Type": "text/csv"}}
    told = here.http.post("/v1/contests/coins/submissions", content=as_csv(good), **csv).json()
    assert told["state"] == "scored"
    assert told["entrant"] == "ann"
    assert told["score"]["low"] <= 0.9 <= told["score"]["high"]
    assert here.http.post("/v1/contests/coins/submissions", content=as_csv(good), **csv).json()["state"] == "repeated"
    error = _fault(here.http.post("/v1/contests/coins/submissions", content="id,prediction\n0,7\n", **csv), 422, "malformed")
    assert error["details"]["row"] == 2
    assert error["details"]["column"] == "prediction"
    board = here.get("/v1/contests/coins/board").json()
    assert [place["entrant"] for place in board["places"]] == ["ann"]
    assert here.get("/v1/contests/coins").json()["ids"] == [str(one) for one in range(300)]
    assert "seed" not in here.get("/v1/contests/coins").json()
    told = _fault(here.post("/v1/studies/coins/ask", {"question": "x > 1"}), 409, "a_contest")
    assert "POST /v1/contests/coins/submissions" in told["message"]
    told = _fault(here.get("/v1/contests/patients/board"), 409, "no_contest")
    assert "POST /v1/studies/patients/ask" in told["message"]
    for tail in ("log", "certificate", "file", "audit"):  # they hold what others submitted
        _fault(here.get(f"/v1/studies/coins/{tail}"), 403, "not_allowed")
        assert here.get(f"/v1/studies/coins/{tail}", "aud").status_code == 200


def test_faulty_questions_say_what_to_do_and_cost_nothing(here):
    before = here.get("/v1/studies/patients/status").json()
    error = _fault(here.post("/v1/studies/patients/ask", {"question": "smokr"}), 422, "question")
    assert "Did you mean 'smoker'?" in error["message"]
    _fault(here.post("/v1/studies/patients/quantile", {"question": "age", "level": 2.0}), 422, "question")
    _fault(here.post("/v1/studies/patients/ask", {"question": "age > 40", "code": "import os"}), 422, "malformed")
    _fault(here.post("/v1/studies/patients/ask", {"question": 7}), 422, "malformed")
    _fault(here.post("/v1/studies/patients/ask", {"question": "lambda rows: rows['age'] > 40"}), 422, "question")
    assert here.get("/v1/studies/patients/status").json() == before


def test_a_batch_is_asked_whole_or_not_at_all(here):
    before = here.get("/v1/studies/patients/status").json()
    _fault(here.post("/v1/studies/patients/ask_many", {"questions": ["bmi > 31.5", "nothing > 1"]}), 422, "question")
    _fault(here.post("/v1/studies/patients/ask_many", {"questions": []}), 422, "malformed")
    too_many = {"questions": ["age > 1"] * (here.state.config.most_questions + 1)}
    _fault(here.post("/v1/studies/patients/ask_many", too_many), 413, "too_large")
    assert here.get("/v1/studies/patients/status").json() == before


ABUSE = [
    ("POST", "/v1/studies/patients/ask", {"content": b"{"}, 400),
    ("POST", "/v1/studies/patients/ask", {"content": b"[" * 100_000}, (400, 422)),
    ("POST", "/v1/studies/patients/ask", {"content": b'{"question": ' + b"9" * 10_000 + b"}"}, (400, 422)),
    ("POST", "/v1/studies/patients/ask", {"content": b'{"question": "\\ud800 > 1"}'}, 422),
    ("POST", "/v1/studies/patients/ask", {"content": b'{"question": "age > 40", "request_id": "\\udfff"}'}, 422),
    ("POST", "/v1/studies/patients/ask", {"content": b"\xff\xfe\x00"}, (400, 422)),
    ("POST", "/v1/studies/patients/ask", {"content": b""}, 422),
    ("POST", "/v1/studies/patients/ask", {"content": b"null"}, 422),
    ("POST", "/v1/studies/patients/ask", {"json": {"question": "age > 40\x00"}}, 422),
    ("POST", "/v1/studies/patients/ask", {"json": {"question": "(" * 5_000}}, 422),
    ("POST", "/v1/studies/patients/ask", {"json": {"question": "x" * 30_000}}, 422),
    ("POST", "/v1/studies/patients/ask", {"json": {"question": "age > 40", "request_id": "x" * 1_000}}, 422),
    ("POST", "/v1/studies/patients/ask", {"json": {"question": "age > 40", "request_id": "a\nb"}}, 422),
    (
        "POST",
        "/v1/studies/patients/mean",
        {"content": b'{"question": "bmi", "low": NaN, "high": Infinity}'},
        (400, 422),
    ),
    ("POST", "/v1/studies/patients/mean", {"content": b'{"question": "bmi", "low": 1e999, "high": 2}'}, (400, 422)),
    ("POST", "/v1/studies/patients/histogram", {"json": {"question": "age", "bins": 10**6}}, 422),
    ("POST", "/v1/studies/patients/histogram", {"json": {"question": "age", "edges": [1.0, 1.0]}}, 422),
    ("POST", "/v1/studies/patients/ask", {"content": b"x" * 2_000_000}, 413),
    ("GET", "/v1/studies/..%2f..%2fetc%2fpasswd", {}, 404),
    ("GET", "/v1/studies/%00", {}, 404),
    ("GET", "/v1/studies/" + "a" * 5_000, {}, (404, 422)),
    ("GET", "/v1/studies/%ff%fe/log", {}, 404),
    ("GET", "/v1/nothing", {}, 404),
    ("PUT", "/v1/studies/patients/ask", {}, 405),
    ("DELETE", "/v1/studies/patients", {}, 405),
    ("POST", "/v1/tokens", {"json": {"name": "\u202e"}}, 422),
    ("POST", "/v1/tokens", {"json": {"name": "x", "days": -1}}, 422),
    ("POST", "/v1/tokens", {"content": b'{"name": "x", "days": 1e400}'}, (400, 422)),
    ("POST", "/v1/contests/coins/submissions", {"content": b"\xff" * 1_000}, 422),
    ("POST", "/v1/contests/coins/submissions", {"content": b'id,prediction\n"' + b"a" * 200_000}, 422),
]


@pytest.mark.parametrize(("method", "path", "content", "status"), ABUSE, ids=range(len(ABUSE)))
def test_abuse_is_answered_in_the_shape(here, method, path, content, status):
    told = here.http.request(method, path, headers={**here.as_("cus"), "Content-Type": "application/json"}, **content)
    assert told.status_code in (status if isinstance(status, tuple) else (status,)), told.text
    _fault(told, told.status_code, told.json()["error"]["code"])


def test_headers_cannot_be_abused(here):
    for given in ("a" * 200, "é", "", "a b"):
        told = here.http.get("/health", headers={"X-Request-ID": given.encode("latin-1")})
        assert told.headers["x-request-id"] != given
        assert len(told.headers["x-request-id"]) == 16
    assert here.http.get("/health", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"
    wrong = here.http.post("/v1/studies/patients/ask", content=b"{}", headers={**here.as_("ann"), "Content-Length": "-5"})
    assert wrong.status_code == 400


def test_a_body_that_grows_without_saying_so_is_cut_off(here):
    def endless():
        for _ in range(10_000):
            yield b" " * 1_000

    told = here.http.post("/v1/studies/patients/ask", content=endless(), headers=here.as_("ann"))
    _fault(told, 413, "too_large")


def test_the_certificate_says_who_holds_the_rows(tmp_path):
    """As the page's does: `title`, `custodian` and `contact` of the configuration."""
    study = make_study(tmp_path)
    place = StudyAt(study, title="Patients of 2026", custodian="St. Elsewhere", contact="data@example.org")
    with site(tmp_path, studies=(place,)) as made:
        certificate = made.get("/v1/studies/patients/certificate").json()
        assert [certificate[name] for name in ("title", "custodian", "contact")] == [
            "Patients of 2026", "St. Elsewhere", "data@example.org",
        ]  # fmt: skip
        assert "St. Elsewhere" in made.get("/v1/studies/patients/certificate", params={"page": True}).text


def test_health_and_metrics_tell_public_values_only(here):
    assert here.http.get("/health").json() == {"status": "ok"}
    text = here.get("/metrics", "aud").text
    asked = here.get("/v1/studies/patients/status").json()["rounds"]
    assert f'everhold_rounds_total{{study="patients"}} {asked}' in text
    names = {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    counted = {"everhold_rounds_total", "everhold_surprises_total", "everhold_price_nats"}
    assert names == counted | {"everhold_http_requests_total", "everhold_study_usable"}
    assert 'everhold_study_usable{study="patients"} 1' in text
    _fault(here.get("/metrics"), 403, "not_allowed")


def test_who_asked_what_is_noted_and_answers_are_not(here, folder):
    told = here.post("/v1/studies/patients/ask", {"question": "bmi > 33.25"}).json()
    line = access_log(folder)[-1]
    assert line["who"] == "ann"
    assert line["question"] == "bmi > 33.25"
    assert line["status"] == 200
    text = (folder / "access.jsonl").read_text()
    assert repr(told["value"]) not in text
    assert repr(told["low"]) not in text
    for secret in here.secrets.values():
        assert secret not in text
    assert set(line) == {"time", "request_id", "client", "token", "who", "method", "path", "status", "question"}


def test_rates(tmp_path):
    limits = {"requests_per_minute": 60, "burst": 5, "anonymous_per_minute": 60}
    with site(tmp_path, make_study(tmp_path), clock=Clock(), **limits) as made:
        codes = [made.get("/v1/studies").status_code for _ in range(8)]
        assert codes[:5] == [200] * 5
        assert codes[5:] == [429] * 3
        told = made.get("/v1/studies")
        assert int(told.headers["retry-after"]) >= 1
        _fault(told, 429, "too_many")
        assert made.get("/v1/studies", "aud").status_code == 200  # others are not kept waiting
        strangers = [made.http.get("/v1/studies").status_code for _ in range(40)]
        assert strangers[0] == 401
        assert strangers[-1] == 429


def test_answers_leave_on_the_grid(tmp_path):
    """Not before the next multiple of the grid after the request came: answers, errors and trials; reading is not held."""
    clock = Clock()
    with site(tmp_path, make_study(tmp_path), grid_ms=300, clock=clock) as made:
        asked = [(kind, {**body}) for kind, body in BODIES.items()]
        asked += [("ask", {"question": "smokr"}), ("median", {"question": "nothing"}), ("share", {"question": "age >"})]
        waiting = made.state.grid.waiting
        for kind, body in asked:
            done = threading.Event()

            def ask(kind=kind, body=body, done=done):
                made.post(f"/v1/studies/patients/{kind}", body)
                done.set()

            thread = threading.Thread(daemon=True, target=ask)
            thread.start()
            wait_for(lambda: waiting)  # what there was to do is done, and the answer waits for its moment
            assert made.get("/v1/studies/patients/status").status_code == 200
            clock.now += 0.299
            wait_for(lambda: waiting)
            assert not done.is_set(), kind
            clock.now += 0.002
            let_time_pass(clock, thread)


def test_clients_read_their_own_writes(tmp_path):
    """Two who are answered in one turn, the second of whom came later: the first has no answer before readers can see it."""
    clock = Clock()
    with site(tmp_path, make_study(tmp_path), grid_ms=600, clock=clock) as made:
        desk = made.state.served["patients"]
        held, go_on = threading.Event(), threading.Event()
        desk.put(lambda: (held.set(), go_on.wait(600)))
        assert held.wait(600)
        seen = {}

        def analyst(question):
            answer = made.post("/v1/studies/patients/ask", {"question": question}).json()
            seen[answer["round"]] = made.get("/v1/studies/patients/status").json()["rounds"]

        threads = [threading.Thread(daemon=True, target=analyst, args=(text,)) for text in ("age > 40", "age > 50")]
        for waiting, one in enumerate(threads, 1):
            one.start()
            wait_for(lambda n=waiting: desk.waiting == n)
            clock.now += 0.2
        go_on.set()
        while any(one.is_alive() for one in threads):
            clock.now += 0.05
            time.sleep(0.001)
        assert set(seen) == {1, 2}
        assert seen[1] >= 1
        assert seen[2] == 2


def test_a_promise_that_is_used_up(tmp_path):
    with site(tmp_path, make_study(tmp_path, half_width=0.085)) as made:
        told = made.get("/v1/studies/patients/status").json()
        assert told["budget"] > told["price"]
        for n in range(400):
            found = made.post(
                "/v1/studies/patients/ask", {"question": f"smoker AND age > {18 + n % 60} AND bmi > {15 + n / 20}"}
            )
            if found.status_code != 200:
                break
        error = _fault(found, 409, "precision_exhausted")
        assert {"asked", "left", "needed", "more_rows", "answers"} == set(error["details"])
        told = made.get("/v1/studies/patients/status").json()
        assert told["price"] >= 0.9 * told["budget"]


def test_many_at_once_are_answered_as_one_after_the_other(tmp_path):
    """32 threads, each with its own questions and some in common: nothing lost, nothing doubled, the audit passes."""
    with site(tmp_path, make_study(tmp_path)) as made:
        told: dict[str, set[str]] = {}
        failed = []

        def analyst(number):
            for n in range(6):
                question = f"age > {20 + n}" if n % 2 else f"bmi > {20 + number / 100 + n}"
                found = made.post("/v1/studies/patients/ask", {"question": question, "request_id": f"{number}-{n}"})
                if found.status_code != 200:
                    failed.append(found.text)
                told.setdefault(question, set()).add(found.text)

        threads = [threading.Thread(daemon=True, target=analyst, args=(number,)) for number in range(32)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not failed
        assert all(len(texts) == 1 for texts in told.values())
        status = made.get("/v1/studies/patients/status").json()
        assert status["rounds"] == len(told) == 3 + 32 * 3
        assert made.get("/v1/studies/patients/audit", "aud").json()["ok"]
