"""What the record says of models: their names, recorded before rows are read, in what people read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app
from everhold.ledger.codec import load
from everhold.ledger.reader import LoggedAct, read_study
from everhold.ledger.store import Record, Store
from everhold.report.certificate import certificate_html

rng = np.random.default_rng(0)
X, Z = rng.normal(size=(2, 1_500, 3))
y, z = ((one[:, 0] + 0.3 * rng.normal(size=1_500) > 0).astype(int) for one in (X, Z))


def incumbent(rows):
    """A function of the user's own, which no digest identifies."""
    return (rows[:, 0] + rows[:, 1] > 0).astype(int)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A search among twelve trees and a function, a verdict, a difference, readings and a choice."""
    path = tmp_path_factory.mktemp("names") / "test.everhold"
    test = eh.TestSet(X, y, reference=(Z, z), path=path, seed=1, register=False)
    trees = [DecisionTreeClassifier(max_depth=depth, random_state=0).fit(Z, z) for depth in range(1, 13)]
    for depth, tree in enumerate(trees, 1):
        test.enter(tree, name=f"depth {depth}", folds=2)
    test.enter(incumbent, name="what we have", expect=0.85)
    best = trees[test.winner(read=False).index]
    test.compare(best, incumbent)
    with pytest.warns(eh.SearchWarning, match="incumbent was asked about in the same way before"):
        test.compare(best, incumbent, names=["challenger", "incumbent"])
    test.difference(best, incumbent)
    test.winner()
    test.score(best, "f1")
    test.read(best, given='"x1" > 0')
    test.best_of([trees[0], incumbent], names=["stump", "ours"])
    test.read(incumbent, name="ours")
    best_number = trees.index(best) + 1
    with pytest.raises(eh.QuestionError, match="one name for each"):
        test.compare(best, incumbent, names=["one"])
    test.release()
    return path, best_number


def test_everything_is_called_by_its_name(study):
    path, number = study
    best, mine = f"entry {number}: depth {number}", "entry 13: what we have"
    log = read_study(path).log
    said = [one.question for one in log]
    choice = log[0]
    assert choice.value_text == f"{best} (number {number} of 13)"
    assert choice.candidates[12] == mine
    assert choice.short == "the best of 13 by accuracy"
    assert f"is accuracy of {best} larger than accuracy of {mine}" in said
    assert "is accuracy of challenger larger than accuracy of incumbent" in said
    assert f"accuracy of {best}, minus that of {mine}" in said
    assert f"accuracy of {best}" in said
    assert f"f1 of {best}, part 1" in said
    assert f'accuracy of {best} where "x1" > 0, else 0, over all rows' in said
    assert "accuracy of ours" in said
    assert "the best by accuracy of: model 1: stump; model 2: ours" in said
    assert not any("given as arrays" in one or "values named" in one for one in said)
    assert LoggedAct.from_dict(json.loads(choice.to_json())) == choice
    page = certificate_html(read_study(path), eh.Holdout.audit_file(path))
    assert f"accuracy of {best}, minus that of {mine}" in page
    assert "Nobody who chose a question, a model or a guess had seen these rows" in page


def test_the_same_question_under_another_name_is_the_same(tmp_path):
    """A name tells no question from another: what was read or compared is returned again, for nothing."""
    test = eh.TestSet(X, y, reference=(Z, z), seed=1)
    one, other = (DecisionTreeClassifier(max_depth=depth, random_state=0).fit(Z, z) for depth in (1, 4))
    first = test.compare(other, one), test.read(other), test.difference(other, one)
    before = test.holdout.price
    test.enter(other, name="four", folds=0)
    assert (test.compare(other, one), test.read(other), test.difference(other, one)) == first
    assert test.holdout.price == before


def test_an_audit_finds_a_reading_that_was_renamed(study, tmp_path):
    """The name in the record of a reading is the one that was announced before the rows were read."""
    path, _ = study
    assert eh.Holdout.audit_file(path).ok
    store = Store.open(path, write=False)
    records = list(store.records())
    store.close()
    place = next(at for at, one in enumerate(records) if one.kind == "round")
    body = load(records[place])
    body["title"] = "accuracy of another model"
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    records[place] = Record("round", records[place].version, text, records[place].blob)
    forged = tmp_path / "forged.everhold"
    made = Store.create(forged, records[0])
    made.append(records[1:])
    made.close()
    found = eh.Holdout.audit_file(forged)
    assert not found.ok
    assert "another reading than was announced" in str(found)


def test_a_title_cannot_be_taken_for_a_text(tmp_path):
    held = eh.Holdout({"age": np.arange(300)}, prior=eh.Reference({"age": np.arange(500, 700)}), seed=0)
    values = {"sample": np.ones(300, bool), "reference": np.ones(200, bool)}
    for title in ('(60.0 < "age")', "TRUE", "", "x" * 1_001):
        with pytest.raises(eh.QuestionError, match="title"):
            held.ask(eh.Values(**values, title=title))
    held.ask(eh.Values(**values, title="everybody"))
    assert held.findings()[0].question == "everybody"


def test_the_log_can_be_read_at_80_columns(study):
    path, number = study
    shown = CliRunner().invoke(app, ["log", str(path)], env={"COLUMNS": "80"}).stdout
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert "the best of 13 by accuracy" in shown
    assert f"= entry {number}: depth {number} (number {number} of 13)" in shown
    assert "entry 5: depth 5; entry 6" not in shown
    assert len(lines) <= 4 * 12
    assert "--full shows them" in shown
    full = CliRunner().invoke(app, ["log", str(path), "--full"], env={"COLUMNS": "80"}).stdout
    assert "entry 13: what we have" in " ".join(full.split())
    assert max(map(len, full.splitlines())) <= 80


def test_the_status_says_how_wide_the_next_reading_is(study):
    path, _ = study
    shown = CliRunner().invoke(app, ["status", str(path)]).stdout
    facts = json.loads(CliRunner().invoke(app, ["status", str(path), "--json"]).stdout)
    assert f"±{facts['width'] * 0.98 / 1_500**0.5:.3f}" in shown
    assert "nats" not in shown
    assert facts["claim_price"] > 0


def test_a_certificate_takes_the_short_option(study, tmp_path):
    path, _ = study
    done = CliRunner().invoke(app, ["certificate", str(path), "-o", str(tmp_path / "c.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "c.html").exists()
