"""Every act is offered by every interface, with the same result to the bit; and what a server owes those who use it."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx2
import pytest
from mcp import Client
from typer.testing import CliRunner

import everhold as eh
from everhold import acts
from everhold.acts import ACTS, act_from, as_body, do, questions_of, result_from, to_result
from everhold.cli.main import COMMANDS, app
from everhold.client.sync import RemoteStudy
from everhold.ledger.logged_act import LoggedAct
from everhold.ledger.reader import read_study
from everhold.mcp import tools
from everhold.server.study_writer import StudyWriter
from everhold.statistics.parameters import parameters
from tests.server.serving import Clock, Process, access_log, make_study, site, wait_for

NAMES = list(ACTS)
PLAY = [
    acts.Certify(1, spend=0.25),  # of a question that was asked before, at a higher price
    acts.Read("smoker", spend=0.25),
    acts.Read("bmi > 30", expect=0.2),
    acts.Read(eh.Mean("bmi", given="smoker")),
    acts.ReadMany(["age > 40", eh.Quantile("age", 0.9), eh.Histogram("age", bins=4)], spend=0.125),
    acts.BestOf(["smoker", "age > 60", eh.Share("smoker", given="age > 70")], weights=[1.0, 2.0, 1.0]),
    acts.IsBetter("smoker", "age > 80", by=0.05),
    acts.IsBetter(eh.Mean("bmi"), eh.Mean("bmi", given="smoker")),
    acts.CompareTwo("smoker", "age > 80"),
    acts.CompareTwo("bmi", "age", low=0.0, high=100.0, given="smoker"),
    acts.CompareTwo(eh.Mean("bmi", given="smoker"), eh.Mean("bmi"), spend=0.5),
    acts.Close(["smoker", eh.Median("age")]),
]
"""A session with every act, as values."""


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """What the library returns."""
    with eh.Holdout.open(make_study(tmp_path_factory.mktemp("here"))) as held:
        held.ask("age > 50", expect=0.55)
        return [do(one, held) for one in PLAY]


def test_the_play_has_every_act_and_every_parameter():
    used = {(one.name, field.name) for one in PLAY for field in parameters(type(one))
            if field.required or getattr(one, field.name) != field.default}  # fmt: skip
    assert used == {(name, field.name) for name, kind in ACTS.items() for field in parameters(kind)}
    assert {type(one).name for one in PLAY} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_its_description_is_complete(name):
    kind = ACTS[name]
    assert kind.title
    assert kind.__doc__
    assert kind.when.endswith(".")
    assert kind.costs.endswith(".")
    assert all(one.about.endswith(".") for one in parameters(kind))
    made = act_from(name, kind.example)
    assert act_from(name, as_body(made)) == made
    assert as_body(made) == dict(kind.example)
    assert callable(getattr(eh.Holdout, name))
    assert callable(getattr(RemoteStudy, name))
    assert name.replace("_", "-") in COMMANDS


def test_results_are_json_and_back(known):
    for found in known:
        assert result_from(json.loads(json.dumps(to_result(found)))) == found


def test_http(tmp_path, known):
    with site(tmp_path, make_study(tmp_path)) as made:
        paths = made.get("/openapi.json").json()["paths"]
        assert made.post("/v1/studies/patients/ask", {"question": "age > 50", "expect": 0.55}).json()["value"] == 0.55
        for one, found in zip(PLAY, known, strict=True):
            assert f"/v1/studies/{{name}}/{one.name}" in paths
            who = "cus" if type(one).permission == "manage" else "ann"
            sent = made.post(f"/v1/studies/patients/{one.name}", as_body(one), who)
            assert sent.status_code == 200, sent.text
            assert result_from(sent.json()) == found
        assert made.get("/v1/studies/patients/audit", "aud").json()["ok"]
        assert [line["act"] for line in access_log(tmp_path) if "act" in line] == [one.name for one in PLAY]


def test_clients(tmp_path, known):
    for name in ("patients", "twin"):
        make_study(tmp_path, name)
    with Process(tmp_path, tmp_path / "patients.everhold", tmp_path / "twin.everhold") as process:
        secret = process.tokens.create("cus", "custodian")[0]
        with eh.connect(process.url, secret) as server:
            far = server.study("patients")
            assert far.ask("age > 50", expect=0.55).value == 0.55
            assert [do(one, far) for one in PLAY] == known
            log = list(far.log())
            assert [one.number for one in log] == list(range(1, len(log) + 1))
            assert [one for one in log if isinstance(one, LoggedAct)]
            copy = read_study(far.download(tmp_path / "copy.everhold"))
            assert [one.to_dict() for one in log] == [one.to_dict() for one in copy.log]
            assert far.audit().ok
            with pytest.raises(eh.HoldoutClosed, match="closed"):
                far.ask("age > 44")

        async def awaited():
            async with eh.connect_async(process.url, secret) as server:
                far = server.study("twin")
                await far.ask("age > 50", expect=0.55)
                return [await do(one, far) for one in PLAY]

        assert asyncio.run(awaited()) == known


def as_words(act):
    """An act as somebody types it."""
    words = [act.name.replace("_", "-"), "STUDY"]
    for one in parameters(type(act)):
        value = getattr(act, one.name)
        if one.form in ("question", "questions"):
            some = value if one.form == "questions" else [value]
            words += [json.dumps(sent) if isinstance(sent := acts.as_sent(each), dict) else sent for each in some]
        elif one.form == "round":
            words.append(str(value))
        elif value != one.default:
            text = ",".join(map(str, value)) if one.form == "reals" else str(value)
            words += [f"--{one.name}", text]
    return [*words, *(["--yes"] if act.name == "close" else [])]


def without_parts(found):
    shown = {key: value for key, value in found.to_dict().items() if key != "parts"}
    if "cells" in shown:
        shown["cells"] = [{key: value for key, value in cell.items() if key != "parts"} for cell in shown["cells"]]
    return shown


def test_command_line(tmp_path):
    """Each command opens the study, so that the library does as well; a sketch that was restored fits a little otherwise."""
    (tmp_path / "here").mkdir()
    study, twin, known = make_study(tmp_path), make_study(tmp_path / "here"), []
    with eh.Holdout.open(twin) as held:
        held.ask("age > 50", expect=0.55)
    for one in PLAY:
        with eh.Holdout.open(twin) as held:
            known.append(do(one, held))
    asked = CliRunner().invoke(app, ["ask", str(study), "age > 50", "--expect", "0.55", "--json"])
    assert json.loads(asked.stdout)["value"] == 0.55
    for one, found in zip(PLAY, known, strict=True):
        words = [str(study) if word == "STUDY" else word for word in as_words(one)]
        ran = CliRunner().invoke(app, [*words, "--json"])
        assert ran.exit_code == 0, (words, ran.output)
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        results = found if isinstance(found, list) else [found]
        shown = [{key: value for key, value in line.items() if key not in ("question", "questions")} for line in lines]
        assert shown == [without_parts(each) for each in results]
    log = CliRunner().invoke(app, ["log", str(study)]).stdout
    for word in ("reading", "choice", "one bit", "verdict", "certificate", "forecast"):
        assert word in log
    assert "closed" in CliRunner().invoke(app, ["status", str(study)]).stdout
    assert CliRunner().invoke(app, ["ask", str(study), "age > 44"]).exit_code == 3


def test_the_command_line_takes_files_and_statistics_by_options(tmp_path, monkeypatch):
    study = make_study(tmp_path)
    (tmp_path / "some.txt").write_text("smoker\n# a comment\nage > 40\n")
    run = CliRunner().invoke
    by_file = run(app, ["read-many", str(study), str(tmp_path / "some.txt"), "--json"])
    again = run(app, ["read-many", str(study), "--file", str(tmp_path / "some.txt"), "--json"])
    assert by_file.exit_code == again.exit_code == 0
    assert by_file.stdout == again.stdout
    assert [json.loads(line)["question"] for line in by_file.stdout.splitlines()] == ["smoker", "age > 40"]
    best = run(app, ["best-of", str(study), "bmi", "age", "--as", "mean", "--given", "smoker"])
    assert best.stdout.startswith("age\nnumber 2 of 2")
    assert run(app, ["compare", str(study), "bmi", "age", "--as", "median"]).stdout.startswith("no")
    assert run(app, ["compare", str(study), "bmi", "age", "--level", "0.5"]).exit_code == 3
    assert run(app, ["is-better", str(study), "bmi"]).exit_code == 3
    assert run(app, ["read-many", str(study)]).exit_code == 3
    assert run(app, ["read", str(study), '{"statistic": "mean"}']).exit_code == 3
    assert run(app, ["read", str(study), "{"]).exit_code == 3
    assert run(app, ["best-of", str(study), "smoker", "--weights", "a"]).exit_code == 4
    before = read_study(study).head
    assert "--yes" in run(app, ["close", str(study), "smoker"]).output
    assert read_study(study).head == before
    tried = run(app, ["try", str(study), "bmi", "--as", "mean"]).stdout
    assert tried.startswith("ask: ")
    assert "\nread: about " in tried
    both = json.loads(run(app, ["try", str(study), "age > 77", "--json"]).stdout)
    assert both["kind"] == "trial"
    assert both["read"]["high"] - both["read"]["low"] < both["ask"]["high"] - both["ask"]["low"]


async def _played(server):
    async with Client(server) as agent:
        names = {tool.name: tool for tool in (await agent.list_tools()).tools}
        await agent.call_tool("ask", {"question": "age > 50", "expect": 0.55})
        found = []
        for one in PLAY:
            body = as_body(one)
            if one.name == "read" and isinstance(body["question"], dict):
                given = body["question"]["arguments"]
                body = {**body, "what": body["question"]["statistic"], **given}
            called = await agent.call_tool(one.name, body)
            assert not called.is_error, called.content
            found.append(called.structured_content)
        return names, found


def test_mcp(tmp_path, known):
    with eh.Holdout.open(make_study(tmp_path)) as held:
        names, found = asyncio.run(_played(tools(held, "patients", closing=True)))
        assert set(tools(held, "patients")._tool_manager._tools) == set(names) - {"close"}
    for one, sent, expected in zip(PLAY, found, known, strict=True):
        tool = names[one.name]
        assert type(one).when in tool.description
        assert type(one).costs in tool.description
        results = expected if isinstance(expected, list) else [expected]
        shown = sent.get("results", [sent])
        for each, result in zip(shown, results, strict=True):
            wanted = without_parts(result)
            assert {key: each[key] for key in wanted} == wanted
            assert each.get("in_words") or "cells" in each
    assert names["close"].annotations.destructive_hint
    assert found[5]["best"] == acts.as_sent(questions_of(PLAY[5])[found[5]["index"]])


# what a server owes ---------------------------------------------------------------------------------------------------


def test_who_may_do_what(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        made.token("bob", "analyst", studies=["other"])
        for name, kind in ACTS.items():
            path, body = f"/v1/studies/patients/{name}", dict(kind.example)
            assert made.http.post(path, json=body).status_code == 401
            assert made.post(path, body, "aud").status_code == 403
            assert made.post(path, body, "bob").status_code == 403
            if kind.permission == "manage":
                assert made.post(path, body, "ann").status_code == 403
            assert made.post(path, {**body, "nonsense": 1}, "cus").status_code == 422
        assert made.get("/v1/studies/patients/status").json()["rounds"] == 0
        assert made.get("/v1/studies/patients/status").json()["acts"] == 0


def test_a_retry_after_a_lost_response_returns_the_same_and_charges_nothing(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        made.post("/v1/studies/patients/ask", {"question": "age > 50", "expect": 0.55})
        for number, one in enumerate(PLAY):
            body = {**as_body(one), "request_id": f"r{number}"}
            first = made.post(f"/v1/studies/patients/{one.name}", body, "cus")
            stood = made.get("/v1/studies/patients/status").json()
            again = made.post(f"/v1/studies/patients/{one.name}", body, "cus")
            assert first.status_code == again.status_code == 200, again.text
            assert first.json() == again.json()
            now = made.get("/v1/studies/patients/status").json()
            assert {**now, "head": ""} == {**stood, "head": ""}
        for number, one in enumerate(PLAY):  # also after the last act
            body = {**as_body(one), "request_id": f"r{number}"}
            assert made.post(f"/v1/studies/patients/{one.name}", body, "cus").status_code == 200, one
        assert made.get("/v1/studies/patients/audit", "aud").json()["ok"]


def test_a_request_id_belongs_to_one_act(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        assert made.post("/v1/studies/patients/best_of", {"questions": ["smoker"], "request_id": "x"}).status_code == 200
        other = made.post("/v1/studies/patients/best_of", {"questions": ["age > 40"], "request_id": "x"})
        assert other.status_code == 409
        assert other.json()["error"]["code"] == "request_conflict"
        assert "'x'" in other.json()["error"]["message"]
        assert made.post("/v1/studies/patients/read", {"question": "smoker", "request_id": "x"}).status_code == 200
        other = made.post("/v1/studies/patients/read", {"question": "age > 40", "request_id": "x"})
        assert other.status_code == 409


def test_a_closed_study_can_be_read_and_not_asked(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        answer = made.post("/v1/studies/patients/ask", {"question": "age > 50"}).json()
        mean = made.post("/v1/studies/patients/mean", {"question": "bmi"}).json()
        assert made.post("/v1/studies/patients/close", {"questions": ["smoker"]}, "cus").status_code == 200
        refused = [
            ("ask", {"question": "age > 44"}),
            ("ask", {"question": "age > 44", "expect": 0.5}),
            ("ask_many", {"questions": ["age > 44", "age > 45"]}),
            ("median", {"question": "age"}),
            ("try_out", {"question": "age > 44"}),
            *((name, dict(kind.example)) for name, kind in ACTS.items() if name not in ("read", "close")),
        ]
        for path, body in refused:
            found = made.post(f"/v1/studies/patients/{path}", body)
            assert found.status_code == 409, (path, found.text)
            assert found.json()["error"]["code"] == "closed"
            assert "closed" in found.json()["error"]["message"]
        assert made.post("/v1/studies/patients/ask", {"question": "age > 50"}).json() == answer
        assert made.post("/v1/studies/patients/mean", {"question": "bmi"}).json() == mean
        status = made.get("/v1/studies/patients/status").json()
        assert status["closed"]
        assert status["claim_price"] is None
        assert len(made.get("/v1/studies/patients/log").json()["questions"]) == 3
        assert made.get("/v1/studies/patients/certificate").json()["closed"]
        assert made.get("/v1/studies/patients/audit", "aud").json()["ok"]
        csrf = made.sign_in("ann")
        page = made.http.get("/studies/patients").text
        assert "Closed:" in page
        assert 'name="question"' not in page
        form = {"kind": "share", "question": "age > 44", "csrf": csrf}
        assert made.http.post("/studies/patients/ask", data=form).status_code == 409
    with eh.Holdout.open(tmp_path / "patients.everhold") as held, pytest.raises(eh.HoldoutClosed):
        held.read("age > 44")


def test_a_batch_counts_its_questions(tmp_path):
    clock = Clock()
    study = make_study(tmp_path)
    limits = {"requests_per_minute": 60, "burst": 20, "most_questions": 150}
    with site(tmp_path, study, clock=clock, **limits) as made:
        many = [f"age > {n}" for n in range(18, 88)] + [f"bmi > {n}" for n in range(15, 40)]
        assert made.post("/v1/studies/patients/best_of", {"questions": many}).status_code == 200  # 1 + 9.5
        assert made.post("/v1/studies/patients/read_many", {"questions": many}).status_code == 429
        clock.now += 60.0
        table = {"statistic": "histogram", "arguments": {"question": "age", "bins": 100}}
        assert made.post("/v1/studies/patients/read", {"question": table}).status_code == 200  # 1 + 10.2
        assert made.post("/v1/studies/patients/read", {"question": table}).status_code == 429
        clock.now += 60.0
        assert made.post("/v1/studies/patients/best_of", {"questions": [*many, *many]}).status_code == 413
        wide = {"statistic": "histogram", "arguments": {"question": "age", "bins": 200}}
        assert made.post("/v1/studies/patients/read", {"question": wide}).status_code == 422
        assert made.get("/v1/studies/patients/status").json()["rounds"] == 101


@pytest.mark.parametrize("act", PLAY, ids=lambda one: one.name)
def test_nothing_is_shown_before_it_leaves(tmp_path, act):
    """Neither in status, log, page, history, audit nor file."""
    clock = Clock()
    study = make_study(tmp_path)
    with eh.Holdout.open(study) as held:
        held.ask("age > 50")
    with site(tmp_path, study, grid_ms=4_000, clock=clock) as made:
        made.sign_in("ann")
        paths = ("status", "log", "audit", "certificate")

        def seen():
            made.state._audits.clear()
            shown = [made.get(f"/v1/studies/patients/{path}", "aud").json() for path in paths]
            pages = [
                made.http.get(f"/studies/patients{path}").text
                for path in ("", "/acts", "/acts/read", "/history", "/history.json")
            ]
            return shown, pages

        before, records = seen(), read_study(study).head.records
        got, fetched = [], []

        def send():
            headers = made.as_("cus")
            got.append(made.http.post(f"/v1/studies/patients/{act.name}", json=as_body(act), headers=headers))

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        wait_for(lambda: read_study(study).head.records >= records + 2)
        wait_for(lambda: made.state.served["patients"].release_time() > clock.now + 3.0)
        assert seen() == before
        fetching = threading.Thread(target=lambda: fetched.append(made.get("/v1/studies/patients/file", "aud")), daemon=True)
        fetching.start()
        assert seen() == before
        assert not fetched
        assert not got
        while thread.is_alive() or fetching.is_alive():
            clock.now += 0.5
            thread.join(0.01)
            fetching.join(0.01)
        assert got[0].status_code == 200, got[0].text
        after = seen()
        assert after[0][0]["head"] != before[0][0]["head"]
        assert len(after[0][1]["questions"]) > len(before[0][1]["questions"])


def test_the_record_says_when_an_act_came(tmp_path, monkeypatch):
    """Not how long it took: that could depend on the private rows."""
    times = iter(f"2030-01-01T00:00:{n:02d}.000+00:00" for n in range(60))
    monkeypatch.setattr("everhold.server.middleware.timestamp", lambda: next(times))
    study = make_study(tmp_path)
    with site(tmp_path, study) as made:
        made.post("/v1/studies/patients/ask", {"question": "age > 50", "expect": 0.55})
        for one in PLAY:
            assert made.post(f"/v1/studies/patients/{one.name}", as_body(one), "cus").status_code == 200
    file = read_study(study)
    assert {one.time[:10] for one in (*file.rounds, *file.findings, *file.acts)} == {"2030-01-01"}
    assert {one.who for one in file.acts} == {"cus"}


def test_a_record_that_cannot_be_written_returns_nothing(tmp_path, monkeypatch):
    from everhold.ledger.store import Store

    study = make_study(tmp_path)
    with site(tmp_path, study) as made:
        append, calls = Store.append, []

        def failing(self, records):
            calls.append(records)
            if len(calls) == 2:  # the first says that the act begins
                raise OSError("no space left")
            append(self, records)

        monkeypatch.setattr(Store, "append", failing)
        found = made.post("/v1/studies/patients/best_of", {"questions": ["smoker", "age > 40"]})
        assert found.status_code in (500, 503), found.text
        assert "index" not in found.text
        monkeypatch.setattr(Store, "append", append)
        assert made.post("/v1/studies/patients/read", {"question": "smoker"}).status_code == 503
        assert made.http.get("/health").status_code == 503
    with site(tmp_path, study) as made:  # the act is charged, and the log says that nothing came of it
        line = made.get("/v1/studies/patients/log").json()["questions"][0]
        assert line["act"] == "best_of"
        assert line["result"] is None
        assert made.post("/v1/studies/patients/read", {"question": "smoker"}).status_code == 200
        assert made.get("/v1/studies/patients/audit", "aud").json()["ok"]


def test_what_is_wrong_is_found_before_anything_is_recorded(tmp_path):
    study = make_study(tmp_path)
    before = read_study(study).head
    wrong = [
        ("read", {"question": "smokr"}),
        ("read", {"question": "bmi"}),
        ("read", {"question": "smoker", "spend": 2.0}),
        ("read", {"question": "smoker", "expect": 7.0}),
        ("read", {"question": {"statistic": "mean", "arguments": {"question": "bmi"}}, "expect": 0.5}),
        ("read", {"question": {"statistic": "mean", "arguments": {"question": "city"}}}),
        ("read_many", {"questions": []}),
        ("read_many", {"questions": ["smoker", "smokr"]}),
        ("best_of", {"questions": ["smoker", {"statistic": "histogram", "arguments": {"question": "age"}}]}),
        ("best_of", {"questions": ["smoker", "age > 40"], "weights": [1.0]}),
        ("is_better", {"first": "smoker", "second": "age > 40", "by": "1"}),
        ("compare", {"first": "smoker", "second": "city"}),
        ("compare", {"first": "smoker", "second": "age > 40", "low": 0.0, "high": 1.0}),
        ("certify", {"round": 1}),
        ("certify", {"round": 0}),
    ]
    with site(tmp_path, study) as made:
        for name, body in wrong:
            found = made.post(f"/v1/studies/patients/{name}", body)
            assert found.status_code == 422, (name, body, found.text)
            assert found.json()["error"]["code"] in ("question", "setting", "malformed")
        raw = {**made.as_("ann"), "Content-Type": "application/json"}
        body = b'{"first": "smoker", "second": "age > 40", "by": NaN}'
        assert made.http.post("/v1/studies/patients/is_better", content=body, headers=raw).status_code in (400, 422)
    assert read_study(study).head == before


def test_a_statistic_and_a_reading_of_its_parts_at_once_can_be_audited(tmp_path):
    """Between the parts of a statistic and its record, somebody may read one of them."""
    study = make_study(tmp_path)
    with site(tmp_path, study) as made:
        writer: StudyWriter = made.state.served["patients"]
        record = writer._holdout.record_finding

        def slow(*given):
            writer._holdout.record_finding = record
            writer._holdout.read(eh.Mean("bmi"), who="bob")
            record(*given)

        writer._holdout.record_finding = slow
        assert made.post("/v1/studies/patients/mean", {"question": "bmi"}).status_code == 200
        found = made.get("/v1/studies/patients/audit", "aud").json()
        assert found["ok"], found


def test_trials_are_the_same_everywhere(tmp_path):
    study = make_study(tmp_path)
    with Process(tmp_path, study) as process:
        secret = process.tokens.create("bob", "analyst")[0]
        with eh.connect(process.url, secret) as server:
            far = {name: server.study("patients").try_both(thing) for name, thing in _questions_of().items()}
            plain = server.study("patients").try_out("smoker")
            table = server.study("patients").try_out(_questions_of()["table"])
            for thing in (*_questions_of().values(), "smoker"):
                server.study("patients").check(thing)
            for wrong in (eh.Mean("agee"), "agee > 3"):
                with pytest.raises(eh.QuestionError, match="age"):
                    server.study("patients").check(wrong)
            assert server.study("patients").rounds == 0
            with httpx2.Client(base_url=process.url, headers={"Authorization": f"Bearer {secret}"}) as http:
                sent = http.post("/v1/studies/patients/try_out", json={"question": "smoker"}).json()

    with eh.Holdout.open(study) as held:
        assert {name: held.try_both(thing) for name, thing in _questions_of().items()} == far
        assert held.try_out("smoker") == plain == eh.Preview.from_dict(sent)
        assert held.try_out(_questions_of()["table"]) == table == far["table"]
        for thing in (*_questions_of().values(), "smoker"):
            held.check(thing)
        assert held.rounds == 0
        expected = far["table"].read
        found = held.read(_questions_of()["table"])
        widths = [(one.high - one.low, two.high - two.low) for one, two in zip(expected.cells, found.cells, strict=True)]
        assert all(abs(one - two) < 0.25 * max(one, two) for one, two in widths)


def _questions_of():
    return {"text": "smoker", "mean": eh.Mean("bmi", given="smoker"), "table": eh.Table("city", "smoker")}
