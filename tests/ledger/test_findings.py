"""Statistics in the record: what was asked, with its own interval and its parts, and an audit that checks it."""

import json
import sqlite3

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.reader import LoggedQuestion, read_study
from everhold.ledger.store import _START, Record


def people(size, seed, smokers=0.3):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, size),
        "bmi": np.where(rng.random(size) < 0.1, np.nan, rng.normal(26, 4, size)),
        "smoker": rng.random(size) < smokers,
    }


PRIVATE, PUBLIC = people(4_000, 0), people(3_000, 1, 0.2)


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "s.everhold"
    eh.Holdout.create(place, PRIVATE, prior=eh.Reference(PUBLIC), seed=1).release()
    return place


def test_the_log_shows_what_was_asked(path):
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.ask("smoker", who="ann")
        mean = held.ask(eh.Mean("bmi", low=10, high=60, given="smoker"), who="bob", request_id="m")
        table = held.ask(eh.Table("smoker"), who="bob")
        held.ask("age > 40", who="ann")
        here = held.findings()
    logged = read_study(path).questions
    assert logged == here
    assert [one.question for one in logged] == ["smoker", mean.what, table.what, "age > 40"]
    assert [one.who for one in logged] == ["ann", "bob", "bob", "ann"]
    assert (logged[1].value, logged[1].interval) == (mean.value, mean.interval)
    assert logged[1].request_id == "m"
    assert [part.answer.as_share() for part in logged[1].parts] == list(mean.parts)
    assert [cell[1] for cell in logged[2].finding.cells] == [cell.value for cell in table.cells]
    assert logged[2].value is None
    for one in logged:
        assert LoggedQuestion.from_json(one.to_json()).to_json() == one.to_json()


def test_asked_again_it_is_recorded_once(path):
    with eh.Holdout.open(path, data=PRIVATE) as held:
        first = held.mean("age")
        head = held.head
        assert held.mean("age") == first
        assert held.head == head
        assert len(held.findings()) == 1


def test_parts_that_were_asked_before_stand_for_themselves(path):
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.ask("smoker", who="ann")
        held.table("smoker")
        asked = held.findings()
    assert len(asked) == 2
    assert asked[0].finding is None
    assert len(asked[1].parts) == 3
    assert asked[1].parts[0].round == 1


def test_a_statistic_that_was_refused_midway_leaves_its_rounds(tmp_path):
    """With a promise that ends on the way: what was answered stands in the log as single questions."""
    held = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=1, half_width=0.085)
    asked = [eh.Table("smoker", "age", bins=4, given=f"age > {20 + n % 50} AND bmi > {18 + n / 10}") for n in range(400)]
    with pytest.raises(eh.PrecisionExhausted) as refusal:
        any(held.ask(one) is None for one in asked)
    single = [one for one in held.findings() if one.finding is None]
    assert [one.answer for one in single][-len(refusal.value.answers) :] == refusal.value.answers
    assert refusal.value.answers


def _forged(path, change):
    """Change the finding's record and make the chain of hashes whole again."""
    con = sqlite3.connect(path)
    rows = con.execute("SELECT seq, kind, version, body, blob FROM record ORDER BY seq").fetchall()
    before = _START
    for seq, kind, version, text, blob in rows:
        body = text
        if kind == "finding":
            found = json.loads(text)
            change(found)
            body = json.dumps(found, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        before = Record(kind, version, body, blob).chained(before)
        con.execute("UPDATE record SET body = ?, hash = ? WHERE seq = ?", (body, before, seq))
    con.commit()
    con.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["summary"].update(value=found["summary"]["value"] + 1e-12),
        lambda found: found["summary"].update(low=found["summary"]["low"] + 0.5),
        lambda found: found["summary"].update(what="mean of everything"),
        lambda found: found["arguments"].update(question="age"),
        lambda found: found["arguments"].update(given="age > 40"),
        lambda found: found.update(statistic="variance"),
        lambda found: found.update(statistic="nothing"),
        lambda found: found.update(rounds=[2]),
        lambda found: found.update(rounds=[1, 7]),
        lambda found: found.update(more=1),
        lambda found: found.update(rounds=[]),
        lambda found: found.update(rounds=["1", 2.9]),
        lambda found: found["summary"].update(what=5),
        lambda found: found["summary"].update(unit="date", high=1e300),
        lambda found: found["summary"].update(low=found["summary"]["high"] + 1.0),
        lambda found: found["summary"].update(value="26"),
    ],
)
def test_an_audit_finds_a_forged_result(path, change):
    """A forger who recomputes the chain cannot make the result follow from its rounds."""
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.mean("bmi", low=10, high=60)
    assert eh.Holdout.audit_file(path).ok
    _forged(path, change)
    assert not eh.Holdout.audit_file(path).ok


def test_readers_refuse_what_they_cannot_show(path):
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.mean("bmi", low=10, high=60)
    _forged(path, lambda found: found.update(rounds=[]))
    with pytest.raises(eh.LedgerError):
        read_study(path)


def test_bytes_that_nothing_reads_are_found(path):
    """A finding has no blob: before, one could carry anything past an audit."""
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.mean("bmi", low=10, high=60)
    con = sqlite3.connect(path)
    seq, version, body = con.execute("SELECT seq, version, body FROM record WHERE kind = 'finding'").fetchone()
    before = con.execute("SELECT hash FROM record WHERE seq = ?", (seq - 1,)).fetchone()[0]
    digest = Record("finding", version, body, b"anything").chained(before)
    con.execute("UPDATE record SET blob = ?, hash = ? WHERE seq = ?", (b"anything", digest, seq))
    con.commit()
    con.close()
    assert not eh.Holdout.audit_file(path).ok


def test_a_small_file_cannot_keep_an_auditor_busy(path):
    """A forged table of a thousand cells in a file with three answers: refused before a cell is made."""
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.mean("bmi", low=10, high=60)

    def large(found):
        found.update(statistic="table", arguments={"first": "age", "second": "bmi", "bins": 900})

    _forged(path, large)
    audit = eh.Holdout.audit_file(path)
    assert not audit.ok
    assert "are allowed" in audit.deviation


def test_the_positive_control_of_the_forger(path):
    """The same forging with nothing changed passes: what is found is the change."""
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.mean("bmi", low=10, high=60)
    _forged(path, lambda found: None)
    assert eh.Holdout.audit_file(path).ok
