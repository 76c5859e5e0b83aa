"""A gate behind a server: the same verdicts as in Python, for programs and on the page; nothing else leaves."""

from __future__ import annotations

import json

import numpy as np
import pytest

import everhold as eh
from everhold.client import calls
from everhold.gate.gate import Gate
from everhold.gate.outcome_files import read_outcomes
from tests.gate.test_gate import cases, improved, shuffled
from tests.server.serving import Clock, make_study, site


@pytest.fixture
def old():
    return cases(300)


@pytest.fixture
def served(tmp_path, old):
    Gate.create(tmp_path / "prompts.everhold", old)
    with site(tmp_path, tmp_path / "prompts.everhold", make_study(tmp_path)) as made:
        yield made


CHECKS = "/v1/gates/prompts/checks"


class TestPrograms:
    def test_verdicts_are_those_of_the_library(self, served, old, tmp_path):
        new, noise = improved(old), shuffled(old)
        twin = Gate.create(tmp_path / "twin.everhold", old, new_budget="to compare")
        for outcomes, name in ((noise, "noise"), (new, "new"), (noise, "again")):
            found = served.post(CHECKS, {"outcomes": outcomes, "name": name})
            assert found.status_code == 200
            assert found.json() == twin.check(outcomes, name=name).to_dict()
        status = served.get("/v1/gates/prompts").json()
        mine = twin.status().to_dict()
        differing = {name for name in mine if mine[name] != status[name]}
        assert differing == {"head", "new_budget"}

    def test_a_repeated_request_gets_the_recorded_verdict(self, served, old):
        body = {"outcomes": improved(old), "name": "new", "request_id": "one"}
        first, again = served.post(CHECKS, body).json(), served.post(CHECKS, body).json()
        assert first["promoted"]
        assert again["promoted"]
        assert served.get("/v1/gates/prompts").json()["checks"] == 1
        assert (first["repeated"], again["repeated"]) == (False, True)
        assert served.post(CHECKS, {**body, "outcomes": old}).json() == again  # no comparison with sealed outcomes

    def test_a_request_id_does_not_carry_a_verdict_to_another_candidate(self, served, old):
        body = {"outcomes": improved(old), "name": "big", "request_id": "pr-17"}
        assert served.post(CHECKS, body).json()["promoted"]
        other = served.post(CHECKS, {**body, "outcomes": old, "name": "small"})
        assert (other.status_code, other.json()["error"]["code"]) == (409, "request_conflict")
        assert served.get("/v1/gates/prompts").json()["checks"] == 1

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ({"outcomes": {"nothing": 1}}, "outcomes"),
            ({"outcomes": [1, 2]}, "malformed"),
            ({"outcomes": {"case-0": 1}, "strange": 1}, "malformed"),
            ({}, "malformed"),
        ],
    )
    def test_what_is_wrong_is_said_and_not_charged(self, served, body, code):
        found = served.post(CHECKS, body)
        assert (found.status_code, found.json()["error"]["code"]) == (422, code)
        assert served.get("/v1/gates/prompts").json()["checks"] == 0

    @pytest.mark.parametrize("value", ["1" + "0" * 400, "1e400", "NaN", '"\\ud800"', "[[]]", "{}"])
    def test_no_value_of_a_case_is_refused(self, served, old, value):
        """A candidate must not decide by what it does on one case whether its check is refused, and free."""
        body = json.dumps({"outcomes": old}).replace('"case-3": ' + str(old["case-3"]), f'"case-3": {value}')
        headers = served.as_("ann") | {"content-type": "application/json"}
        found = served.http.post(CHECKS, content=body.encode(), headers=headers)
        assert (found.status_code, found.json()["state"]) == (200, "kept")
        assert served.get("/v1/gates/prompts").json()["checks"] == 1

    def test_lines_that_a_candidate_printed_refuse_nothing(self, served, old, tmp_path):
        """A candidate that prints a line of another name on one kind of case would learn for free whether there is one."""
        lines = [f"METRIC {case}={score}" for case, score in old.items()]
        verdicts = []
        for number, more in enumerate(([], ["METRIC secret=1"])):
            (tmp_path / f"{number}.log").write_text("\n".join([*lines, *more]) + "\n")
            outcomes = read_outcomes(tmp_path / f"{number}.log", strict=False)
            body = {"outcomes": {case: runs[0] for case, runs in outcomes.runs.items()}, "printed": outcomes.printed}
            told = served.post("/v1/gates/prompts/checks", body)
            assert told.status_code == 200, told.text
            verdicts.append(told.json()["verdict"])
        assert verdicts == ["keep", "keep"]
        assert served.get("/v1/gates/prompts").json()["checks"] == 2
        assert served.post("/v1/gates/prompts/checks", body | {"printed": False}).status_code == 422, "the control"

    def test_printed_names_do_not_make_a_check_too_large(self, served, old, tmp_path):
        """What a candidate prints does not decide whether its check reaches the server: that would be free."""
        path = tmp_path / "run.log"
        junk = "".join(f"METRIC junk number {number}=1\n" for number in range(60_000))
        path.write_text("".join(f"METRIC {case}={score}\n" for case, score in improved(old).items()) + junk)
        outcomes = calls.outcomes_of(path, {})
        sent = calls.check_candidate("prompts", outcomes, {"name": "n" * 200}, None).body
        assert len(json.dumps(sent)) < 1_000_000 < len(json.dumps(dict(outcomes.runs)))
        assert served.post(CHECKS, sent).json()["state"] == "promoted"

    def test_gaps_that_printed_names_may_hide_are_not_required_away(self, old, tmp_path):
        path = tmp_path / "run.log"
        path.write_text("METRIC junk=1\n")
        status = Gate.create(tmp_path / "g.everhold", old).status()
        with pytest.raises(eh.InvalidOutcomes, match="found in what a program printed"):
            calls.check_candidate("prompts", calls.outcomes_of(path, {}), {"require_all": True}, status)

    def test_who_may_what(self, served, old):
        assert served.post(CHECKS, {"outcomes": old}, "aud").status_code == 403
        assert served.post("/v1/gates/prompts/finish", {}, "ann").status_code == 403
        assert served.get("/v1/gates/prompts", "aud").status_code == 200
        assert served.http.get("/v1/gates/prompts").status_code == 401
        gain = served.post("/v1/gates/prompts/finish", {}, "cus")
        assert gain.json()["kind"] == "total_gain"
        over = served.post(CHECKS, {"outcomes": old})
        assert (over.status_code, over.json()["error"]["code"]) == (409, "used_up")

    def test_a_gate_is_not_a_study_and_a_study_not_a_gate(self, served):
        asked = served.post("/v1/studies/prompts/ask", {"question": "outcome > 0"})
        assert (asked.status_code, asked.json()["error"]["code"]) == (409, "a_gate")
        checked = served.post("/v1/gates/patients/checks", {"outcomes": {"a": 1}})
        assert (checked.status_code, checked.json()["error"]["code"]) == (409, "no_gate")
        kinds = {one["name"]: one["kind"] for one in served.get("/v1/studies").json()["studies"]}
        assert kinds == {"prompts": "gate", "patients": "study"}

    def test_log_audit_and_certificate_of_a_gate(self, served, old):
        served.post(CHECKS, {"outcomes": improved(old), "name": "new"})
        log = served.get("/v1/studies/prompts/log").json()
        assert [one["act"] for one in log["questions"]] == ["check"]
        assert served.get("/v1/studies/prompts/audit", "aud").json()["ok"]
        certificate = served.get("/v1/studies/prompts/certificate", "cus").json()
        assert "every promoted candidate is better" in certificate["guarantee"]
        assert "1 check with 1 promotion" in certificate["cite"]
        assert certificate["audit"]["found"] == "audit: ok, 1 check with 1 promotion replayed without the data"
        assert not any("interval" in one or "question" in one for one in certificate["assumptions"])
        assert served.get("/v1/studies/prompts/status").json()["guarantee"] == certificate["guarantee"]

    def test_generations_over_http(self, tmp_path, old):
        Gate.create(tmp_path / "g.everhold", old, generation_size=5)
        with site(tmp_path, tmp_path / "g.everhold") as made:
            found = made.post("/v1/gates/g/checks", {"outcomes": improved(old), "name": "new"}).json()
            assert (found["state"], found["waiting"]) == ("waiting", 1)
            assert made.post("/v1/gates/g/decide", {}).json()["promoted"]
            assert made.post("/v1/gates/g/decide", {}).status_code == 422

    def test_a_verdict_is_visible_when_it_leaves_and_not_before(self, tmp_path, old):
        """Readers see a check on the grid of the request that asked for it."""
        import threading

        Gate.create(tmp_path / "g.everhold", old)
        clock = Clock()
        with site(tmp_path, tmp_path / "g.everhold", clock=clock, grid_ms=1000) as made:
            writer = made.state.served["g"]
            done = threading.Event()
            found = []

            def check():
                found.append(made.post("/v1/gates/g/checks", {"outcomes": improved(old)}))
                done.set()

            thread = threading.Thread(target=check, daemon=True)
            thread.start()
            while writer.gate.status().checks == 0:  # it is durable
                pass
            assert writer.status().checks == 0
            assert not done.is_set()
            while not done.is_set():
                clock.now += 0.5
                done.wait(0.01)
            thread.join()
            assert found[0].json()["promoted"]
            assert writer.status().checks == 1


class TestClients:
    def test_python_and_the_shell(self, tmp_path, old):
        from typer.testing import CliRunner

        from everhold.cli.main import app
        from tests.server.serving import Process

        Gate.create(tmp_path / "prompts.everhold", old)
        (tmp_path / "new.json").write_text(json.dumps(improved(old)))
        process = Process(tmp_path, tmp_path / "prompts.everhold")
        secret = process.tokens.create("ann", "analyst")[0]
        url = process.start()
        try:
            custodian = process.tokens.create("cus", "custodian")[0]
            with eh.connect(url, secret) as server:
                gate = server.gate("prompts")
                assert not gate.check(shuffled(old), name="noise").promoted
                assert gate.status().checks == 1
                with pytest.raises(eh.InvalidOutcomes):
                    gate.check({"nothing": 1})
                with pytest.raises(eh.AccessDenied):
                    gate.finish()
            base = ["gate", "check", "prompts", "--server", url, "--token", secret, "--json"]
            shell = CliRunner().invoke(app, [*base, "--candidate", str(tmp_path / "new.json")])
            assert shell.exit_code == 0, shell.output
            assert json.loads(shell.output)["name"] == "new"
            assert shell.stderr == ""
            again = CliRunner().invoke(app, [*base, "--candidate", str(tmp_path / "new.json")])
            assert again.exit_code == 1
            (tmp_path / "holes.json").write_text(json.dumps(dict(list(old.items())[7:])))
            holes = [*base, "--candidate", str(tmp_path / "holes.json")]
            assert CliRunner().invoke(app, [*holes, "--require-all"]).exit_code == 3
            found = CliRunner().invoke(app, holes)
            assert found.exit_code == 1
            assert "of 300 cases: 7 without an outcome" in " ".join(found.stderr.split())
            with eh.connect(url, secret) as server:
                before = server.gate("prompts").status().checks
                with pytest.raises(eh.InvalidOutcomes, match="7 without"):
                    server.gate("prompts").check(dict(list(old.items())[7:]), require_all=True)
                assert server.gate("prompts").status().checks == before
            finish = ["gate", "finish", "prompts", "--server", url, "--json", "--token"]
            assert CliRunner().invoke(app, [*finish, secret]).exit_code == 9
            ended = CliRunner().invoke(app, [*finish, custodian])
            assert (ended.exit_code, json.loads(ended.output)["kind"]) == (0, "total_gain")
        finally:
            process.stop()

    def test_asynchronous(self, served, old):
        import asyncio

        import httpx2

        async def check():
            server = eh.connect_async("http://testserver", served.secrets["ann"])
            server._client = httpx2.AsyncClient(
                transport=httpx2.ASGITransport(served.http.app),
                base_url="http://testserver",
                headers=served.as_("ann"),
            )
            gate = server.gate("prompts")
            found = await gate.check(improved(old), name="new", artifact=b"a prompt")
            same = await gate.check(shuffled(old), artifact=b"a prompt")
            return found, same, await gate.status()

        found, same, status = asyncio.run(check())
        assert found.promoted
        assert same.state == "same"
        assert status.incumbent == "new"


class TestPages:
    def test_the_page_checks_a_file_and_shows_the_verdict(self, served, old):
        csrf = served.sign_in("ann")
        assert '<span class="tag">gate</span>' in served.http.get("/").text
        page = served.http.get("/gates/prompts").text
        assert "300 sealed cases" in page
        assert "No candidate was checked yet" in page
        files = {"outcomes": ("new.json", json.dumps(improved(old)).encode(), "application/json")}
        found = served.http.post("/gates/prompts/checks", data={"csrf": csrf, "name": "<b>new</b>"}, files=files)
        assert found.status_code == 200
        assert "<h2>Promote</h2>" in found.text
        assert "&lt;b&gt;new&lt;/b&gt;" in found.text
        assert "without an outcome" not in found.text
        holes = {"outcomes": ("new.json", json.dumps(dict(list(old.items())[7:])).encode(), "application/json")}
        kept = served.http.post("/gates/prompts/checks", data={"csrf": csrf}, files=holes)
        assert "<h2>Keep the incumbent</h2>" in kept.text
        assert "of 300 cases: 7 without an outcome" in kept.text
        assert "without an outcome" not in served.http.get("/gates/prompts").text
        bad = {"outcomes": ("bad.json", b'{"nothing": 1}', "application/json")}
        wrong = served.http.post("/gates/prompts/checks", data={"csrf": csrf}, files=bad)
        assert wrong.status_code == 422
        assert "Nothing was charged" in wrong.text
        assert served.http.get("/studies/prompts", follow_redirects=False).headers["location"] == "/gates/prompts"
        assert served.http.get("/studies/prompts/history").status_code == 200

    def test_the_name_of_an_uploaded_file_says_its_form(self, served, old):
        """The page took lines that a candidate printed into a cell for the outcomes of all cases."""
        csrf = served.sign_in("ann")
        forged = "x\n" + "".join(f"METRIC {case}=1\n" for case in old)
        content = (
            "id,score,output\n" + "".join(f'{case},0,"{forged if case == "case-0" else 1}"\n' for case in old)
        ).encode()
        for name in ("C:\\runs\\new.csv", "../../new.csv", "outcomes", "new.eval"):
            files = {"outcomes": (name, content, "text/csv")}
            kept = served.http.post("/gates/prompts/checks", data={"csrf": csrf}, files=files)
            assert "<h2>Keep the incumbent</h2>" in kept.text
        wrong = {"outcomes": ("new.csv", b"name,colour\n", "text/csv")}
        assert served.http.post("/gates/prompts/checks", data={"csrf": csrf}, files=wrong).status_code == 422

    def test_a_form_without_its_secret_is_refused(self, served, old):
        served.sign_in("ann")
        files = {"outcomes": ("new.json", json.dumps(old).encode(), "application/json")}
        assert served.http.post("/gates/prompts/checks", data={"csrf": "no"}, files=files).status_code == 403


def test_many_cases_fit_into_a_body(tmp_path):
    rng = np.random.default_rng(0)
    many = {f"a case with quite a long name, number {number}": int(rng.random() < 0.5) for number in range(30_000)}
    Gate.create(tmp_path / "g.everhold", many)
    with site(tmp_path, tmp_path / "g.everhold") as made:
        assert len(json.dumps(many)) > made.state.config.max_body_bytes
        assert made.post("/v1/gates/g/checks", {"outcomes": many}).json()["state"] == "kept"


class TestPrivate:
    def test_verdicts_and_what_is_left_leave_and_nothing_else(self, tmp_path):
        old = cases(2_000)
        promise = eh.Privacy(epsilon=5.0, surprises=2)
        path = tmp_path / "prompts.everhold"
        Gate.create(path, old, outcomes="pass", privacy=promise)
        with site(tmp_path, path) as served:
            found = served.post(CHECKS, {"outcomes": improved(old, 0.6), "name": "new", "request_id": "one"})
            assert found.json()["promoted"]
            again = served.post(CHECKS, {"outcomes": old, "name": "new", "request_id": "one"})
            assert again.json() == {**found.json(), "repeated": True}  # no second draw
            privacy = served.get("/v1/gates/prompts").json()["privacy"]
            assert (privacy["epsilon"], privacy["promotions_charged"]) == (5.0, 1)
            served.sign_in("ann")
            assert (
                "everything ever disclosed about a sealed case: 1 promotion charged"
                in served.http.get("/gates/prompts").text
            )
            used = 0
            while (last := served.post(CHECKS, {"outcomes": dict.fromkeys(old, used % 2)})).status_code == 200:
                used += 1
                assert used < 50
            assert last.json()["error"]["code"] == "used_up"
            assert "privacy budget" in last.json()["error"]["message"]
            assert served.post("/v1/gates/prompts/finish", {}, "cus").status_code == 200
