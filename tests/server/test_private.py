"""A private study behind a server: what is shown, what is refused, how much each name may use."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import everhold as eh
from everhold.client.calls import failed
from everhold.errors import SettingError
from everhold.ledger.registry import HOME
from everhold.mechanism.measures.private import PrivateInputs
from everhold.mechanism.noise import SecretNoise
from everhold.mechanism.private import PrivateEverhold
from everhold.server.config import Config, StudyAt
from tests.server.serving import access_log, save, site
from tests.server.test_act_pages import Pages
from tests.server.test_twins import frozen as frozen


def people(size, share, seed):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < share, "tall": rng.random(size) < share}


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "registry"))
    import csv

    rows = people(4_000, 0.5, 1)
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*(values.tolist() for values in rows.values()), strict=True))
    public = people(4_000, 0.2, 2)
    eh.Holdout.create(
        tmp_path / "patients.everhold",
        tmp_path / "rows.csv",
        prior=eh.Reference(public),
        schema=eh.Schema.propose(public),
        privacy=eh.Privacy(epsilon=3.0, surprises=6),
    ).release()
    return tmp_path / "patients.everhold"


def test_status_page_and_certificate_say_what_is_promised_and_left(tmp_path, study):
    with site(tmp_path, study) as here:
        asked = here.post("/v1/studies/patients/ask", {"question": "smoker"}).json()
        assert asked["surprise"]
        status = here.get("/v1/studies/patients").json()
        assert status["privacy"]["epsilon"] == 3.0
        assert status["privacy"]["surprises_left"] == 5
        assert "differentially private" in status["guarantee"]
        here.sign_in("cus")
        page = here.http.get("/studies/patients").text
        assert "5 more surprises" in page
        assert "Privacy budget left" in page
        assert "no end" not in page
        tried = here.http.get("/studies/patients/check", params={"kind": "share", "question": "age > 40"}).text
        assert "Privacy budget: a quiet ask costs nothing, each surprise " in tried
        trial = here.post("/v1/studies/patients/try_out", {"question": "age > 40", "both": True}).json()
        assert trial["charge"].startswith("privacy budget: ")
        assert trial["charge"] in str(eh.Trial.from_dict(trial))
        certificate = here.http.get("/studies/patients/certificate").text
        assert "differentially private" in certificate
        best = here.post("/v1/studies/patients/best_of", {"questions": ["age > 85", "age > 20"]}).json()
        assert best["noisy"]
        assert best["index"] == 1


def test_refusals_leave_as_errors_of_their_own(tmp_path, study):
    with site(tmp_path, study) as here:
        found = here.post("/v1/studies/patients/close", {"questions": ["smoker"]}, who="cus")
        assert found.status_code == 422
        assert "private study has no close" in found.json()["error"]["message"]
        for number in range(200):
            found = here.post("/v1/studies/patients/read", {"question": f"age > {18 + number * 0.3}"})
            if found.status_code != 200:
                break
        assert found.status_code == 409
        assert found.json()["error"]["code"] == "privacy_used_up"
        refusal = failed(found.status_code, found.json())
        assert isinstance(refusal, eh.PrivacyUsedUp)
        assert refusal.asked == 3.0


def test_bits_and_verdicts_over_http_and_on_the_page(tmp_path, study):
    with site(tmp_path, study) as here:
        bit = here.post("/v1/studies/patients/is_better", {"first": "age > 20", "second": "age > 85"}).json()
        assert bit["yes"]
        assert bit["noisy"]
        none = here.post("/v1/studies/patients/is_better", {"first": "age > 85", "second": "age > 20"}).json()
        assert not none["yes"]
        verdict = here.post("/v1/studies/patients/compare", {"first": "age > 20", "second": "age > 85"}).json()
        assert verdict["verdict"] == "yes"
        privacy = here.get("/v1/studies/patients").json()["privacy"]
        assert (privacy["bits_charged"], privacy["releases_charged"]) == (1, 2)
        pages = Pages(here, "ann")
        for act, said in (("is_better", "Yes, on the private rows, up to noise."), ("compare", "In the population")):
            assert "of the privacy budget" in pages.send(act, {"first": "age > 20", "second": "age > 80"}).text
            assert said in pages.do(act, {"first": "age > 20", "second": "age > 80"}).text
        assert "About the largest of 2" in pages.do("best_of", {"questions": "age > 20\r\nage > 80"}).text


def test_each_name_has_a_limit_and_the_others_can_go_on(tmp_path, study):
    config = {"studies": (StudyAt(study, charges_each=2),)}
    with site(tmp_path, **config) as here:
        here.token("bob", "analyst")
        answers = [here.post("/v1/studies/patients/read", {"question": f"age > {age}"}) for age in (30, 40, 50)]
        assert [one.status_code for one in answers] == [200, 200, 409]
        assert "that each name may cause" in answers[2].json()["error"]["message"]
        assert here.post("/v1/studies/patients/ask", {"question": "tall"}).status_code == 409
        assert here.post("/v1/studies/patients/ask", {"question": "age > 30"}).status_code == 200  # recorded: free
        batch = here.post("/v1/studies/patients/read_many", {"questions": ["smoker", "tall", "age > 60"]}, who="bob")
        assert batch.status_code == 409
        assert here.post("/v1/studies/patients/ask", {"question": "smoker"}, who="bob").json()["surprise"]
        assert (
            here.post("/v1/studies/patients/best_of", {"questions": ["age > 85", "age > 20"]}, who="bob").status_code == 200
        )
        assert here.post("/v1/studies/patients/best_of", {"questions": ["tall", "smoker"]}, who="bob").status_code == 409


def test_limits_are_for_private_studies(tmp_path, study):
    plain = tmp_path / "plain.everhold"
    eh.Holdout.create(plain, tmp_path / "rows.csv", prior=eh.Reference(people(500, 0.5, 4)), register=False).release()
    with pytest.raises(SettingError, match="promises no privacy"), site(tmp_path, studies=(StudyAt(plain, charges_each=2),)):
        pass
    with pytest.raises(SettingError, match="no setting"):
        Config.load(_config(tmp_path, f'[[study]]\npath = "{study}"\ncharges = 3\n'))
    with pytest.raises(SettingError, match="charges_each"):
        Config.load(_config(tmp_path, f'[[study]]\npath = "{study}"\ncharges_each = 0\n'))
    loaded = Config.load(_config(tmp_path, f'[[study]]\npath = "{study}"\ncharges_each = 4\n'), environment={})
    assert loaded.studies[0].charges_each == 4


def _config(folder, text):
    path = folder / "everhold.toml"
    path.write_text(text)
    return path


def seen_of(folder, rows):
    """All that people see of a private study behind a server: answers, refusals, pages, logs, numbers for operators."""
    folder.mkdir()
    public = people(4_000, 0.2, 2)
    made = eh.Holdout.create(
        folder / "patients.everhold",
        save(folder / "rows.csv", rows),
        prior=eh.Reference(public),
        schema=eh.Schema.propose(public),
        privacy=eh.Privacy(epsilon=3.0, surprises=6),
        register=False,
        seed=7,
    )
    made.release()
    seen = []
    with site(folder, folder / "patients.everhold") as here:
        at = "/v1/studies/patients"
        for route, body in (
            ("ask", {"question": "smoker"}),
            ("ask", {"question": "age > 50"}),
            ("ask", {"question": "smokr"}),
            ("mean", {"question": "age", "low": 0, "high": 100}),
            ("ask_many", {"questions": ["tall", "age / 0 > 1"]}),
            ("read", {"question": "tall AND smoker"}),
            ("read_many", {"questions": ["age > 30", "age > 31"]}),
            ("best_of", {"questions": ["smoker", "tall"]}),
            ("is_better", {"first": "smoker", "second": "tall", "by": 0.1}),
            ("compare", {"first": "smoker", "second": "tall"}),
            ("compare", {"first": "age", "second": "age / 2", "low": 0, "high": 100}),
            ("certify", {"round": 1}),
            ("close", {"questions": ["smoker"]}),
            ("try_out", {"question": "age > 33", "both": True}),
            *(("ask", {"question": f"age > {40 + number}"}) for number in range(8)),
        ):
            told = here.post(f"{at}/{route}", body, "cus")
            seen.append((route, told.status_code, sorted(told.headers.raw), told.content))
        paths = ("", "/status", "/log", "/audit", "/certificate", "/file")
        seen += [(path, here.get(f"{at}{path}", "cus").content) for path in paths]
        seen.append(("metrics", here.get("/metrics", "cus").content))
        here.sign_in("cus")
        pages = ("", "/history", "/certificate/page")
        seen += [(path, here.http.get(f"/studies/patients{path}").content) for path in pages]
    seen.append(("the log of requests", access_log(folder)))
    return seen


@pytest.mark.parametrize("quiet", [True, False])
def test_with_the_same_noisy_outcomes_nothing_else_differs(tmp_path, monkeypatch, frozen, quiet):
    """Tables that have nothing in common but their size: only noisy outcomes may depend on rows, and these are made equal.

    The control lets one released number depend on the rows: it is seen.
    """
    monkeypatch.setattr(SecretNoise, "quiet", lambda *_: quiet)
    monkeypatch.setattr(SecretNoise, "choose", lambda *_: 1)
    monkeypatch.setattr(PrivateInputs, "noisy", lambda *_: 0)
    monkeypatch.setattr(PrivateEverhold, "noisy_rows", lambda *_: Fraction(900))
    found = []
    for number, share in enumerate((0.1, 0.9)):
        frozen()
        found.append(seen_of(tmp_path / f"same{number}", people(4_000, share, 10 + number)))
    assert len(found[0]) > 30
    for one, other in zip(*found, strict=True):
        assert one == other
    monkeypatch.setattr(PrivateInputs, "noisy", lambda self, total: total)
    frozen()
    assert seen_of(tmp_path / "other", people(4_000, 0.9, 10)) != found[0]


def test_each_name_has_a_limit_at_gates_and_contests_too(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "registry"))
    promise = eh.Privacy(epsilon=5.0, surprises=5)
    outcomes = {f"case-{k}": k % 2 for k in range(2_000)}
    gate, contest = tmp_path / "gate.everhold", tmp_path / "contest.everhold"
    eh.Gate.create(gate, outcomes, outcomes="pass", privacy=promise).release()
    labels = np.random.default_rng(5).integers(0, 2, 4_000)
    eh.Contest.create(contest, labels, classes=[0, 1], privacy=promise).release()
    with site(tmp_path, studies=(StudyAt(gate, charges_each=1), StudyAt(contest, charges_each=1))) as here:
        here.token("bob", "analyst")
        better = dict.fromkeys(outcomes, 1)
        assert here.post("/v1/gates/gate/checks", {"outcomes": better}).json()["promoted"]
        refused = here.post("/v1/gates/gate/checks", {"outcomes": outcomes})
        assert refused.status_code == 409
        assert "that each name may cause" in refused.json()["error"]["message"]
        assert here.post("/v1/gates/gate/checks", {"outcomes": outcomes}, who="bob").status_code == 200

        def submit(right, who):
            values = np.where(np.arange(len(labels)) < right, labels, 1 - labels)
            body = "id,prediction\n" + "".join(f"{k},{one}\n" for k, one in enumerate(values))
            return here.http.post(
                "/v1/contests/contest/submissions", content=body, headers=here.as_(who) | {"content-type": "text/csv"}
            )

        assert submit(3_800, "ann").json()["score"]["surprise"]
        closed = submit(3_000, "ann")
        assert closed.status_code == 409
        assert "that each name may cause" in closed.text
        assert "has ended" not in closed.text
        assert submit(3_000, "bob").status_code == 200
    plain = tmp_path / "plain.everhold"
    eh.Gate.create(plain, outcomes, new_budget="to compare").release()
    with pytest.raises(SettingError, match="promises no privacy"), site(tmp_path, studies=(StudyAt(plain, charges_each=2),)):
        pass


PREVIEWED = {
    "read": {"question": "tall"},
    "read_many": {"questions": ["tall", "age > 44"]},
    "best_of": {"questions": ["age > 25", "age > 70"]},
    "is_better": {"first": "age > 20", "second": "age > 85"},
    "compare": {"first": "age > 60", "second": "smoker"},
}


@pytest.mark.parametrize("act", PREVIEWED)
def test_a_preview_states_the_whole_charge(tmp_path, study, act):
    """The share of the budget that the preview names is what the act takes, to the digit that is shown."""
    import re

    with site(tmp_path, study) as here:
        pages = Pages(here, "ann")
        shown = re.search(r"costs ([0-9.]+) % of the privacy budget", pages.send(act, _form(PREVIEWED[act])).text)
        before = here.get("/v1/studies/patients").json()["privacy"]["share_left"]
        assert here.post(f"/v1/studies/patients/{act}", PREVIEWED[act]).status_code == 200
        after = here.get("/v1/studies/patients").json()["privacy"]["share_left"]
        assert float(shown[1]) == pytest.approx(100.0 * (before - after), abs=0.06)
        assert before > after


def _form(body):
    return {name: "\r\n".join(value) if isinstance(value, list) else value for name, value in body.items()}


def test_a_preview_refuses_what_the_act_would(tmp_path, study):
    """By the record alone: a name at its limit, a budget that is used up, the last act with questions."""
    with site(tmp_path, studies=(StudyAt(study, charges_each=2),)) as here:
        pages = Pages(here, "ann")
        assert "Can be asked" in _tried(here)
        for age in (30, 40):
            assert here.post("/v1/studies/patients/read", {"question": f"age > {age}"}).status_code == 200
        assert "ann has caused 2 of the 2" in pages.send("read", {"question": "tall"}).text
        assert "Cannot be asked: ann has caused all the surprises" in _tried(here)
        trial = here.post("/v1/studies/patients/try_out", {"question": "tall", "both": True}).json()
        assert trial["refused"].startswith("ann has caused")
        assert "ask: not possible: ann has caused" in str(eh.Trial.from_dict(trial))
        assert here.post("/v1/studies/patients/ask", {"question": "tall"}).status_code == 409
        here.token("bob", "analyst")
        assert not here.post("/v1/studies/patients/try_out", {"question": "tall", "both": True}, who="bob").json()["refused"]
        closing = Pages(here, "cus").send("close", {"questions": "tall"}).text
        assert "private study has no close" in closing
        assert "Close for good" not in closing


def _tried(here):
    return here.http.get("/studies/patients/check", params={"kind": "share", "question": "tall"}).text


def test_a_used_up_budget_refuses_previews_of_asks(tmp_path, study):
    with eh.Holdout.open(study) as held:
        number = 0
        while held.privacy.surprises_left:
            held.read(f"age > {18 + number * 0.3}")
            number += 1
        assert "pays for no further surprise" in str(held.try_out(eh.Share("tall")))
        with pytest.raises(eh.PrivacyUsedUp):
            held.ask("tall")


def test_the_outlook_of_a_reading_includes_the_noise(tmp_path, study):
    import re

    with site(tmp_path, study) as here:
        status = here.get("/v1/studies/patients").json()
    factor = float(re.search(r"([0-9.]+) times a plain 95 % interval, noise included", status["width_text"])[1])
    assert factor > status["width"] + 0.5


def test_previews_count_what_the_act_takes(tmp_path, study):
    """A question twice is read once, what is in the record is free, and what no noise makes private is refused."""
    import re

    with site(tmp_path, study) as here:
        pages = Pages(here, "cus")

        def costs(act, body):
            found = re.search(r"costs ([0-9.]+) % of the privacy budget", pages.send(act, _form(body)).text)
            return None if found is None else float(found[1])

        one = costs("read", {"question": "tall"})
        assert costs("read_many", {"questions": ["tall", "tall"]}) == one
        assert costs("read_many", {"questions": ["tall", "smoker"]}) == pytest.approx(2 * one, abs=0.11)
        assert here.post("/v1/studies/patients/read", {"question": "tall"}).status_code == 200
        again = pages.send("read", {"question": "tall"}).text
        assert "in the record, and costs nothing" in again
        assert costs("read_many", {"questions": ["tall", "smoker"]}) == one
        assert "private study has no close" in pages.send("close", {"questions": ""}).text


def test_what_is_in_the_record_can_be_asked_when_all_is_used_up(tmp_path, study):
    with eh.Holdout.open(study) as held:
        held.read("smoker")
        number = 0
        while held.privacy.surprises_left:
            held.read(f"age > {18 + number * 0.3}")
            number += 1
        assert held.try_out(eh.Share("smoker")).refused == ""
        assert held.ask("smoker").act == "read"
        assert held.try_out(eh.Share("tall")).refused
