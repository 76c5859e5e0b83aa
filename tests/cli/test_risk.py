"""`everhold risk`: attacks on a copy of a study's configuration; no private row, no key, nothing spent."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app
from everhold.cli.risk import mechanism_for, verdict
from everhold.session.settings import Settings


def _study(folder, **settings):
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(18, 90, 3_000), "smoker": rng.random(3_000) < 0.3}
    place = folder / "study.everhold"
    eh.Holdout.create(place, table, prior=eh.Reference({k: v[:1_000] for k, v in table.items()}), **settings).release()
    (folder / "study.everhold.key").unlink()  # nobody needs it
    return place


def test_the_rates_of_every_attack(tmp_path):
    place = _study(tmp_path, seed=1)
    before = place.read_bytes()
    told = CliRunner().invoke(app, ["risk", str(place), "--games", "3", "--json"])
    assert told.exit_code == 0, told.output
    attacks = json.loads(told.stdout)["attacks"]
    assert [(one["against"], one["attack"], one["weight"]) for one in attacks] == [
        ("exact counts", "composition", "low"),
        ("this study", "composition", "low"),
        ("this study", "composition", "high"),
        ("this study", "riding", "low"),
    ]
    exact, held = attacks[0], attacks[1]
    assert exact["main"]["rate"] >= 0.8  # twelve games: counts give rows away
    assert held["main"]["rate"] <= 0.2  # and everhold's answers do not, to this attack
    assert all(one["questions"] > 0 and one["rows"] <= 1_000 for one in attacks)
    assert place.read_bytes() == before


def test_the_table(tmp_path):
    told = CliRunner().invoke(app, ["risk", str(_study(tmp_path, seed=1)), "--games", "1"])
    assert told.exit_code == 0
    assert "riding" in told.stdout
    assert "promises no privacy" in told.stdout
    assert told.stdout.strip().splitlines()[-1].startswith("Can a patient, say, be singled out?")


def test_a_copy_that_refuses_is_said_to_have_been_asked_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("everhold.session.setup._require_promise_for_one_ask", lambda setup: None)
    place = _study(tmp_path, seed=1, half_width=0.03)
    told = CliRunner().invoke(app, ["risk", str(place), "--games", "1"])
    assert told.exit_code == 0
    assert "this attack was not tested" in told.stdout
    told = CliRunner().invoke(app, ["risk", str(place), "--games", "1", "--json"])
    silent = [one for one in json.loads(told.stdout)["attacks"] if one["against"] == "this study"]
    assert all(one["questions"] == 0 and one["risk"] is None for one in silent)


@pytest.mark.parametrize(("rows", "width"), [(100, 0.2), (400, 0.1), (10_000, 0.02)])
def test_a_promise_grows_as_the_copy_shrinks(rows, width, monkeypatch):
    """A copy of a hundred rows of the study promises what a hundred rows can: sampling error goes with 1/√n."""
    seen = {}
    monkeypatch.setattr("everhold.cli.risk.everhold", lambda at, **given: seen.update(given))

    class Private:
        size = 100

    factory = mechanism_for(Settings(half_width=width, known_rows=rows // 10), rows)
    factory(type("At", (), {"private": Private})())
    assert seen["half_width"] == pytest.approx(0.2)
    assert seen["known_rows"] == 10


def test_membership_and_the_weight_floor(tmp_path):
    told = CliRunner().invoke(app, ["risk", str(_study(tmp_path, seed=1)), "--games", "6", "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert [one["attack"] for one in found["membership"]] == ["riding with a decoy"]
    assert found["membership"][0]["auc"] > 0.8  # nothing is promised about single rows, and nothing protects them
    assert found["weight_floor"]["weight"] == pytest.approx(0.05 / 3_000)


def test_a_private_study_says_what_it_promises(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / "registry"))
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(18, 90, 3_000), "smoker": rng.random(3_000) < 0.3}
    public = {"age": rng.integers(18, 90, 1_000), "smoker": rng.random(1_000) < 0.3}
    place = tmp_path / "study.everhold"
    promise = eh.Privacy(epsilon=1.0, delta=1e-9, surprises=5)
    held = eh.Holdout.create(
        place, table, prior=eh.Reference(public), schema=eh.Schema.propose(public), privacy=promise, seed=1
    )
    held.release()
    told = CliRunner().invoke(app, ["risk", str(place), "--games", "6"])
    assert told.exit_code == 0, told.output
    said = " ".join(told.stdout.split())
    assert "This study is private, with ε = 1" in said
    assert "promises no privacy" not in said
    found = json.loads(CliRunner().invoke(app, ["risk", str(place), "--games", "6", "--json"]).stdout)
    riding = [one for one in found["attacks"] if one["attack"] == "riding"]
    assert riding[0]["main"]["successes"] == 0


def test_a_search_is_reported_with_its_questions(tmp_path, monkeypatch):
    from everhold.games.membership import MembershipRisk
    from everhold.games.search import SearchedAttack

    asked = {}

    def searched(factory, **given):
        asked.update(given)
        return SearchedAttack(
            ("a1 AND a2", "a3"), (False, True), 20, MembershipRisk("this study", (1.0, 2.0), (0.0, 1.5), 6.0)
        )

    monkeypatch.setattr("everhold.cli.risk.search_attack", searched)
    told = CliRunner().invoke(app, ["risk", str(_study(tmp_path, seed=1)), "--games", "2", "--search", "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)["membership"][1]
    assert found["attack"] == "found by a search"
    assert found["tried"] == 20
    assert found["asks"] == ["a1 AND a2"]
    assert found["reads"] == ["a3"]
    assert found["auc"] == pytest.approx(0.75)
    assert asked["rows"] == 200


def _attack(successes, tries=25, rows=200, against="this study", questions=3_000.0, p_value=1e-9):
    rate = {"successes": successes, "tries": tries, "rate": successes / tries, "interval": [0.0, 1.0]}
    one = {"against": against, "attack": "riding", "rows": rows, "questions": questions, "main": rate}
    return one | {"risk": successes / tries, "p_value": p_value}


def test_it_ends_with_an_answer_that_says_only_what_was_played_or_is_promised():
    plain = Settings(seed=1)
    lost = _attack(25, against="exact counts")
    won = verdict([lost, _attack(24)], plain, 40_000)
    assert "Yes: 24 of 25 games against a copy of 200 rows" in won
    assert "For your 40,000 rows nothing was played" in won
    assert f"{3_000 * 200**1.5:,.0e}" in won
    assert "nothing was played" not in verdict([_attack(24)], plain, 200)
    assert "did not show it" in verdict([lost, _attack(1, p_value=0.3)], plain, 40_000)  # chance is no attack
    assert "did not show it" in verdict([_attack(0, questions=0.0)], plain, 40_000)
    private = verdict([_attack(24)], Settings(seed=1, privacy=eh.Privacy(epsilon=1.0).terms), 40_000)
    assert "No, up to ε = 1 and δ = 1e-09" in private
    assert "finds at most 2.8 in 100" in private
