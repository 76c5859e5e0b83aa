"""Thousands of requests, valid and not: no 5xx, no unauthorised success, every response as described.

schemathesis makes requests from the OpenAPI description, whole and broken, with a custodian's token and with none; a state
machine makes, limits, revokes and uses tokens in any order and knows what each may do. `REQUESTS` of them in all.
"""

from __future__ import annotations

import json
from collections import Counter

import hypothesis.strategies as st
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from schemathesis import GenerationMode

import everhold as eh
from tests.server.serving import make_contest, make_study, site

pytestmark = pytest.mark.slow

WHOLE, BROKEN = 70, 60  # a route
MACHINES, STEPS = 220, 40
REQUESTS = 10_000

sent: Counter[int] = Counter()
"""Responses by status, over all tests of this file."""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    make_contest(folder)
    studies = [make_study(folder, name) for name in ("patients", "staff", "ended")]
    over, prompts = make_contest(folder, "over")[0], folder / "prompts.everhold"
    eh.Gate.create(prompts, {f"case-{number}": number % 2 for number in range(100)})
    with site(folder, *studies, folder / "coins.everhold", over, prompts, most_questions=50) as made:
        yield made


def _routes():
    """The description does not depend on what is served: routes by name, for the tests' names."""
    from tests.server.test_api import ROUTES

    return [(method, path) for method, path, _ in ROUTES if path.startswith("/v1")]


def _send(here, case, headers):
    """A generated request, through the whole application."""
    kwargs = case.as_transport_kwargs(base_url="http://testserver")
    kwargs = {name: value for name, value in kwargs.items() if name not in ("timeout", "verify", "allow_redirects", "cert")}
    if (data := kwargs.pop("data", None)) is not None:
        kwargs["content" if isinstance(data, str | bytes) else "data"] = data
    kwargs["headers"] = {**dict(kwargs.get("headers") or {}), **headers}
    kwargs.pop("cookies", None)
    try:
        told = here.http.request(**kwargs)
    except (UnicodeError, ValueError, TypeError):
        return None  # no client could send it
    sent[told.status_code] += 1
    return told


def _is_described(description, method, template, told):
    """The status is among those described, and an error has the one shape."""
    assert told.status_code < 500, told.text
    if template in description["paths"]:
        known = description["paths"][template].get(method.lower(), {}).get("responses", {})
        assert str(told.status_code) in known or told.status_code == 405, (told.status_code, told.text)
    if told.status_code >= 400:
        assert set(told.json()) == {"error"}
        assert set(told.json()["error"]) == {"code", "message", "request_id", "details"}


def _operation(here, method, path):
    template = (
        path.replace("patients", "{name}")
        .replace("ended", "{name}")
        .replace("coins", "{name}")
        .replace("over", "{name}")
        .replace("prompts", "{name}")
        .partition("?")[0]
        .replace("abcd", "{token_id}")
    )
    schema = schemathesis.openapi.from_dict(here.get("/openapi.json").json())
    return template, schema[template][method]


def _fuzz(here, method, path, mode):
    """Requests to one route."""
    template, operation = _operation(here, method, path)
    description = here.get("/openapi.json").json()
    name = next(one for one in ("coins", "over", "prompts", "ended", "patients") if one in path or one == "patients")
    strategy = operation.as_strategy(generation_mode=mode)
    before = len(here.state.served["patients"].file().rounds)

    @settings(max_examples=WHOLE if mode is GenerationMode.POSITIVE else BROKEN, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck), database=None)  # fmt: skip
    @given(case=strategy, real=st.integers(0, 3), who=st.sampled_from(["cus", "cus", "ann", "aud", "nobody"]))
    def run(case, real, who):
        if (real or name in ("ended", "over", "prompts")) and "name" in (case.path_parameters or {}):  # these may be closed
            case.path_parameters["name"] = name  # mostly a study that is there
        headers = {} if who == "nobody" else here.as_(who)
        case.headers = {key: value for key, value in dict(case.headers or {}).items() if key.lower() != "authorization"}
        told = _send(here, case, headers)
        if told is None:
            return
        _is_described(description, method, template, told)
        if who == "nobody":
            assert told.status_code in (401, 404, 405, 413, 400), told.text
        if who == "ann" and ("tokens" in path or path.endswith(("/audit", "/file", "/close", "/finish", "/duel"))):
            assert told.status_code >= 400

    run()
    if method == "GET":
        assert len(here.state.served["patients"].file().rounds) == before


class Access(RuleBasedStateMachine):
    """Whoever holds a token may do what the rules say, and nothing else, in any order of events."""

    here = None
    tokens = Bundle("tokens")

    def __init__(self):
        super().__init__()
        self.known = {}
        self.asked = {}

    @initialize(target=tokens)
    def first(self):
        return self._made("custodian", ())

    def _made(self, scope, studies):
        secret, token = self.here.state.tokens.create("somebody", scope, studies=studies)
        self.known[secret] = {"id": token.id, "scope": scope, "studies": studies, "live": True}
        return secret

    def _may(self, secret, what, study=None):
        one = self.known.get(secret)
        if one is None or not one["live"]:
            return 401
        allowed = {"ask": ("custodian", "analyst"), "read": ("custodian", "analyst", "auditor"),
                   "audit": ("custodian", "auditor"), "manage": ("custodian",)}[what]  # fmt: skip
        if one["scope"] not in allowed or (study is not None and one["studies"] and study not in one["studies"]):
            return 403
        return 404 if study == "nowhere" else 200

    def _sent(self, method, path, secret, **more):
        told = self.here.http.request(method, path, headers={"Authorization": f"Bearer {secret}"}, **more)
        sent[told.status_code] += 1
        return told

    @rule(target=tokens, maker=tokens, scope=st.sampled_from(["custodian", "analyst", "auditor"]),
          studies=st.lists(st.sampled_from(["patients", "staff"]), unique=True, max_size=2))  # fmt: skip
    def make(self, maker, scope, studies):
        told = self._sent("POST", "/v1/tokens", maker, json={"name": "somebody", "scope": scope, "studies": studies})
        expected = self._may(maker, "manage")
        if expected == 200:
            limits = self.known[maker]["studies"]
            expected = 201 if not limits or (studies and set(studies) <= set(limits)) else 422
        assert told.status_code == expected, told.text
        if expected != 201:
            return "evh_made-up"
        made = told.json()
        self.known[made["token"]] = {"id": made["id"], "scope": scope, "studies": tuple(studies), "live": True}
        return made["token"]

    @rule(maker=tokens, which=tokens)
    def revoke(self, maker, which):
        target = self.known.get(which)
        told = self._sent("DELETE", f"/v1/tokens/{target['id'] if target else 'nothing'}", maker)
        expected = self._may(maker, "manage")
        if expected == 200:
            limits = self.known[maker]["studies"]
            seen = target and (not limits or (target["studies"] and set(target["studies"]) <= set(limits)))
            expected = 200 if seen else 404
        assert told.status_code == expected, told.text
        if expected == 200:
            target["live"] = False

    @rule(who=tokens, study=st.sampled_from(["patients", "staff", "nowhere"]), age=st.integers(18, 89),
          request=st.none() | st.integers(0, 20))  # fmt: skip
    def ask(self, who, study, age, request):
        body = {"question": f"age > {age}"}
        if request is not None:
            body["request_id"] = f"r{request}"
        told = self._sent("POST", f"/v1/studies/{study}/ask", who, json=body)
        expected = self._may(who, "ask", study)
        kept = Access.requests.get((who, study, request)) if request is not None else None
        if expected == 200 and kept is not None and kept[0] != age:
            expected = 409
        assert told.status_code == expected, told.text
        if expected == 200:
            answers = Access.answers.setdefault((study, age), told.text)
            assert told.text == answers  # the same question, the same answer, for ever
            if request is not None:
                Access.requests.setdefault((who, study, request), (age, told.text))

    @rule(who=tokens, study=st.sampled_from(["patients", "staff", "nowhere"]),
          what=st.sampled_from([("", "read"), ("/log", "read"), ("/status", "read"), ("/file", "audit")]))  # fmt: skip
    def read(self, who, study, what):
        tail, needed = what
        told = self._sent("GET", f"/v1/studies/{study}{tail}", who)
        assert told.status_code == self._may(who, needed, study), told.text

    @rule(who=tokens)
    def list_studies(self, who):
        told = self._sent("GET", "/v1/studies", who)
        expected = self._may(who, "read")
        assert told.status_code == expected
        if expected == 200:
            limits = self.known[who]["studies"]
            names = {one["name"] for one in told.json()["studies"]}
            assert names == (set(limits) if limits else {"patients", "staff", "ended", "coins", "over", "prompts"})

    @rule(who=tokens)
    def list_tokens(self, who):
        told = self._sent("GET", "/v1/tokens", who)
        assert told.status_code == self._may(who, "manage")
        for secret in self.known:
            assert secret not in told.text

    @rule(who=tokens)
    def sign_in(self, who):
        self.here.http.cookies.clear()
        told = self.here.http.post("/sign-in", data={"token": who}, follow_redirects=False)
        sent[told.status_code] += 1
        assert told.status_code == (303 if self._may(who, "read") == 200 else 401)
        self.here.http.cookies.clear()

    @invariant()
    def healthy(self):
        assert self.here is None or self.here.state.healthy


def _tokens_in_any_order(here):
    Access.here, Access.answers, Access.requests = here, {}, {}
    steady = settings(max_examples=MACHINES, stateful_step_count=STEPS, deadline=None, database=None,
                      suppress_health_check=list(HealthCheck), phases=[Phase.generate])  # fmt: skip
    run_state_machine_as_test(Access, settings=steady)


def test_ten_thousand_requests(here):
    """Every route, whole and broken; tokens in any order; and the ledger is whole after it."""
    for method, path in _routes():
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _fuzz(here, method, path, mode)
    _tokens_in_any_order(here)
    print(json.dumps(dict(sorted(sent.items()))))
    assert sum(sent.values()) >= REQUESTS
    assert not [status for status in sent if status >= 500]
    assert sent[200] > 1_000  # not only refusals
    assert {401, 403, 404, 409, 422} <= set(sent)
    assert here.get("/v1/studies/patients/audit", "aud").json()["ok"]
