"""Twin data over HTTP: with the same transcript nothing that leaves differs by a bit.

Two servers hold different private rows that give the same transcript. Every response is compared whole: status, headers,
body. What names the rows themselves (the keyed fingerprint, and with it the ledger's hashes) is made equal beforehand: it
is a keyed hash, and differs by its key alone. Time is released on a grid, see test_api.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

import numpy as np
import pytest

import everhold as eh
from everhold.clock import running_on
from everhold.data.sample import Sample
from tests.server.serving import as_csv, people, save, site
from tests.server.test_act_pages import step_of
from tests.server.test_api import BODIES

_QUESTIONS = ["age > 40", "smoker", "age > 40 AND smoker", "smokr", "city = 'York'", "bmi > 1e308", "age / 0 > 1", "("]


_MEAN = {"statistic": "mean", "arguments": {"question": "bmi"}}
_ACTS = [
    ("read", {"question": "smoker"}),  # as many in both
    ("read_many", {"questions": ["NOT smoker", "smoker"]}),
    ("best_of", {"questions": ["smoker", "age > 80", _MEAN]}),
    ("is_better", {"first": "smoker", "second": "age > 80", "by": 0.05}),
    ("compare", {"first": "smoker", "second": "age > 80"}),
    ("compare", {"first": "bmi", "second": "age"}),
    ("certify", {"round": 1}),
    *(("read", {"question": text}) for text in ("smokr", "bmi > 1e308", "(")),
    ("read", {"question": {"statistic": "mean", "arguments": {"question": "bmi > 1e308"}}}),
    ("best_of", {"questions": ["age / 0 > 1", "bmi / 0 > 1"]}),
    ("is_better", {"first": "age / 0 > 1", "second": "smoker"}),
    ("try_out", {"question": _MEAN, "both": True}),
]
"""Acts that disclose the same of both, and some that cannot be done."""
_FORMS = [
    ("read", {"question": "smoker"}),
    ("read_many", {"questions": "NOT smoker\nsmoker"}),
    ("best_of", {"questions": "smoker\nage > 80"}),
    ("is_better", {"first": "smoker", "second": "age > 80", "by": "0.05"}),
    ("compare", {"first": "smoker", "second": "age > 80"}),
    ("certify", {"round": "1"}),
    ("read", {"question": "bmi > 1e308"}),
    ("best_of", {"questions": "age / 0 > 1\nbmi / 0 > 1"}),
]
"""The same on the page."""


def _rows(twin: bool) -> dict[str, np.ndarray]:
    """The same but for rows whose differences no question below can see beyond the tolerance."""
    table = people(4_000, 0.3, 1)
    if twin:
        swap = np.random.default_rng(8).permutation(4_000)
        table = {name: column[swap] for name, column in table.items()}
        table["age"][:5] = 89
        table["bmi"][:3] = [1e9, -1e9, np.nan]
        table["city"] = table["city"].astype(object)
        table["city"][:3] = ["<script>", "a very long name of a town that nobody declared" * 20, "\u202e"]
    return table


@pytest.fixture
def frozen(monkeypatch):
    """Clock, keys, request ids and tokens alike on both sides; what is left can only come from the rows."""
    monkeypatch.setattr(Sample, "fingerprint", lambda self, key: f"{self.size:064x}")  # one for each study
    monkeypatch.setattr("everhold.contest.create.fresh_seed", lambda: 1)

    def again():
        """From the beginning, for the other side."""
        counted = iter(range(100_000))
        monkeypatch.setattr("everhold.server.tokens.secrets.token_urlsafe", lambda n: f"{next(counted):043d}")
        monkeypatch.setattr("everhold.server.tokens.secrets.token_hex", lambda n: f"{next(counted):0{2 * n}d}")

    with running_on(lambda: datetime(2026, 1, 1, tzinfo=UTC)):
        yield again


def _everything(folder, twin):
    """All that an analyst, an auditor and a custodian can see of a study and a contest, in one session."""
    folder.mkdir()
    data = save(folder / "patients.csv", _rows(twin))
    prior = eh.Reference(people(3_000, 0.2, 2))
    eh.Holdout.create(folder / "patients.everhold", data, prior=prior, seed=7).release()
    labels = np.random.default_rng(3).integers(0, 2, 300)
    if twin:
        labels = labels[::-1].copy()
    eh.Contest.create(folder / "coins.everhold", labels, classes=[0, 1], seed=2)
    seen = []

    def keep(told):
        # the digest of sealed labels has a secret salt, drawn for every contest: it differs, and tells nothing
        content = re.sub(rb'"sealed_digest":"[0-9a-f]{64}"', b'"sealed_digest":"-"', told.content)
        seen.append((told.status_code, sorted(told.headers.raw), content))

    with site(folder, folder / "patients.everhold", folder / "coins.everhold") as made:
        for text in _QUESTIONS:
            for route in ("ask", "try_out", "mean", "median", "histogram"):
                keep(made.post(f"/v1/studies/patients/{route}", {"question": text}))
        keep(made.post("/v1/studies/patients/mean", {"question": "bmi"}))
        keep(made.post("/v1/studies/patients/table", {"first": "city", "second": "smoker"}))
        keep(made.post("/v1/studies/patients/ask_many", {"questions": _QUESTIONS[:3]}))
        for name, body in _ACTS:
            keep(made.post(f"/v1/studies/patients/{name}", body))
        csv = {**made.as_("ann"), "Content-Type": "text/csv"}
        for predictions in (np.zeros(300, int), np.arange(300) % 2, np.full(300, 7)):
            keep(made.http.post("/v1/contests/coins/submissions", content=as_csv(predictions), headers=csv))
        for path in ("", "/status", "/log", "/audit", "/certificate", "/file"):
            for who in ("ann", "aud", "cus"):
                keep(made.get(f"/v1/studies/patients{path}", who))
        for kind, body in BODIES.items():
            keep(made.post(f"/v1/studies/patients/{kind}", {**body, "request_id": f"id {kind}".replace(" ", "-")}))
        for path in ("", "/status", "/log", "/audit", "/certificate", "/certificate?page=true", "/file"):
            keep(made.get(f"/v1/studies/coins{path}", "aud" if path in ("/audit", "/file") else "cus"))
        keep(made.post("/v1/tokens", {"name": "eve", "days": 3}, "cus"))
        keep(made.get("/v1/tokens", "cus"))
        keep(made.http.delete("/v1/tokens/nothing", headers=made.as_("cus")))
        for path in ("/v1/studies", "/v1/contests/coins/board", "/v1/contests/coins", "/metrics", "/health"):
            keep(made.get(path, "cus"))
        csrf = made.sign_in("cus")
        for path in ("", "/history", "/history.csv", "/history.json", "/certificate", "/certificate/audited",
                     "/certificate/page", "/certificate.json"):  # fmt: skip
            keep(made.http.get(f"/studies/patients{path}"))
        for text in _QUESTIONS:
            for part in ({}, {"HX-Request": "true"}):
                keep(made.http.post("/studies/patients/ask", data={"csrf": csrf, "question": text}, headers=part))
        for name, form in _FORMS:
            for part in ({}, {"HX-Request": "true"}):
                tried = made.http.post(f"/studies/patients/acts/{name}", data={"csrf": csrf, **form}, headers=part)
                keep(tried)
                step = {"csrf": csrf, **form, **step_of(tried.text)}
                keep(made.http.post(f"/studies/patients/acts/{name}", data=step, headers=part))
        for path in ("/acts", "/acts/certify?round=1", "/acts/close?questions=smoker"):
            keep(made.http.get(f"/studies/patients{path}"))
        files = {"predictions": ("x.csv", as_csv(np.zeros(300, int)).encode(), "text/csv")}
        keep(made.http.post("/contests/coins/submissions", data={"csrf": csrf}, files=files))
        for path in ("/", "/tokens", "/docs", "/openapi.json"):
            keep(made.http.get(path))
        for text in _QUESTIONS:
            keep(made.http.get("/studies/patients/check", params={"question": text}))
        keep(made.http.get("/contests/coins"))
        keep(made.post("/v1/studies/patients/close", {"questions": ["smoker"]}, "cus"))
        for name, body in _ACTS:
            keep(made.post(f"/v1/studies/patients/{name}", body))
        for path in ("/status", "/log", "/audit", "/certificate", "/file"):
            keep(made.get(f"/v1/studies/patients{path}", "cus"))
        keep(made.http.get("/studies/patients"))
        transcript = made.state.served["patients"]._holdout.transcript
        log = [{**line, "time": ""} for line in _noted(folder)]
    return seen, transcript, log


def _noted(folder):
    from tests.server.serving import access_log

    return access_log(folder)


def _both(tmp_path, frozen, one, two):
    runs = []
    for name, rows in (("one", one), ("two", two)):
        frozen()
        os.environ["EVERHOLD_HOME"] = str(tmp_path / f"home {name}")  # both begin with an empty registry, and draw its key
        runs.append(_everything(tmp_path / name, rows))
    return runs


def test_twins_cannot_be_told_apart(tmp_path, frozen):
    (first, transcript, log), (second, other, twin_log) = _both(tmp_path, frozen, False, True)
    assert transcript == other  # or the rows differ in what may be told
    assert len(transcript) >= 1
    assert len(first) == len(second) > 120
    for number, (mine, theirs) in enumerate(zip(first, second, strict=True)):
        assert mine == theirs, number
    assert log == twin_log


def test_other_rows_with_another_transcript_do_differ(tmp_path, frozen, monkeypatch):
    """The positive control: of the same responses, those that must differ do, and those that cannot do not."""
    monkeypatch.setattr("tests.server.test_twins._rows", lambda twin: people(4_000, 0.5 if twin else 0.3, 1))
    (first, transcript, _), (second, other, _) = _both(tmp_path, frozen, False, True)
    assert transcript != other
    differing = {number for number, (mine, theirs) in enumerate(zip(first, second, strict=True)) if mine != theirs}
    asked = 5 * _QUESTIONS.index("smoker")  # five routes a question
    refused = 5 * _QUESTIONS.index("(")
    assert asked in differing  # how many smoke
    assert refused not in differing  # what is no question
    assert 20 < len(differing) < len(first)
