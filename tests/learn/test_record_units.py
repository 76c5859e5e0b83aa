"""The record shows scores in the units of their metric, and not as the values of the questions behind them."""

import csv
import io
import json

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.reader import LoggedQuestion, read_study
from everhold.ledger.store import Store
from everhold.report.certificate import certificate_html
from everhold.server.log import log_to_csv

SPAN = 40.0


def rows(size, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, 2))
    return X, np.clip(10.0 * X[:, 0] + rng.normal(0, 3, size), -20.0, 20.0)


def model(slope):
    return lambda X: slope * np.asarray(X)[:, 0]


@pytest.fixture
def test_set(tmp_path):
    made = eh.TestSet(
        *rows(800, 0), reference=rows(800, 1), task="regression", low=-20.0, high=20.0, path=tmp_path / "t.everhold", seed=1
    )
    yield made
    made.release()


def close(line, found):
    assert line.value == pytest.approx(found.value, abs=1e-9)
    assert (line.interval.low, line.interval.high) == pytest.approx((found.low, found.high), abs=1e-9)


def test_every_plain_mean_and_difference(test_set):
    absolute = test_set.score(model(9.0), "mean_absolute_error")
    squared = test_set.read(model(9.0), "mean_squared_error")
    apart = test_set.difference(model(9.0), model(2.0), "mean_absolute_error")
    assert 1.0 < absolute.value < 5.0 < squared.value < 30.0  # the units are not those of a share
    log = test_set.holdout.findings()
    for line, found in zip(log, (absolute, squared, apart), strict=True):
        close(line, found)
        again = LoggedQuestion.from_dict(json.loads(line.to_json()))
        assert again.to_json() == line.to_json()
        close(again, found)
    frame = log.to_frame()
    assert frame["value"].tolist() == [line.value for line in log]
    file = read_study(test_set.path)
    assert [line.value for line in file.log] == [line.value for line in log]
    page = certificate_html(file, eh.Holdout.audit_file(test_set.path))
    assert f"{log[1].value:.4g}" in page
    kept = [float(line["value"]) for line in csv.DictReader(io.StringIO(log_to_csv(file.log))) if line["value"]]
    assert {round(line.value, 6) for line in log} <= {round(value, 6) for value in kept}


def test_parts_of_a_group_are_in_the_same_units(test_set):
    """The mean over the group is the first part over the sum of both, times the span."""
    score = test_set.score(model(9.0), "mean_absolute_error", given="x1 > 0")
    inside, rest = test_set.holdout.findings()
    assert rest.question.startswith(f"{SPAN:g} - mean_absolute_error of ")
    assert 0.5 < inside.value < 3.0
    assert score.value == pytest.approx(SPAN * inside.value / (inside.value + rest.value), rel=1e-6)


def test_json_has_both(test_set):
    absolute = test_set.score(model(9.0), "mean_absolute_error")
    (line,) = test_set.holdout.findings()
    sent = json.loads(line.to_json())
    assert sent["shown_range"] == [0.0, SPAN]
    assert (sent["estimate"]["value"], sent["estimate"]["low"]) == pytest.approx((absolute.value, absolute.low), abs=1e-9)
    assert sent["scale"] == "mean"


@pytest.mark.parametrize(
    ("title", "ends"),
    [("t", (1.0, 0.0)), (None, (0.0, 1.0)), ("t", ("a", "b")), ("t", (0.0, 1.0, 2.0)), ("t", (0.0, float("nan"))),
     ("t", (np.float32(0), 1.0)), ("t", (-1.7e308, 1.7e308)), ("t", [0.0, 1.0]), ("t", (0.0, float("inf"))),
     ("t", (False, True))],
)  # fmt: skip
def test_ends_that_are_no_range_are_refused_before_anything_is_read(tmp_path, title, ends):
    values = {"sample": np.linspace(-1, 1, 50), "reference": np.linspace(-1, 1, 40)}
    with eh.Holdout.create(tmp_path / "s.everhold", {"x": np.arange(50.0)}, prior=eh.Reference({"x": np.arange(40.0)}),
                           overlap="allow") as held:  # fmt: skip
        with pytest.raises(eh.QuestionError, match="shown_range is"):
            held.ask(eh.Values(**values, name="q", title=title, shown_range=ends))
        assert held.rounds == 0
        assert held.ask(eh.Values(**values, name="q", title="t", shown_range=(0, 100))).round == 1
    again = eh.Holdout.open(tmp_path / "s.everhold", data={"x": np.arange(50.0)})
    assert 0.0 <= again.findings()[0].value <= 100.0
    again.release()


def test_ends_that_were_changed_are_refused(test_set, tmp_path):
    """Control for the reader: numbers in the record are finite and in order, and stand with a title."""
    test_set.score(model(9.0), "mean_absolute_error")
    test_set.release()
    store = Store.open(test_set.path, write=False)
    *_, record = store.records()
    store.close()
    body = json.loads(record.body)
    assert body["title"][1:] == [0.0, SPAN]
    from dataclasses import replace

    from everhold.errors import LedgerError
    from everhold.ledger.codec import parse_record

    for title in ([body["title"][0], 3.0, 3.0], [body["title"][0], 0.0, "x"], [None, 0.0, 1.0], [body["title"][0], 0.0]):
        changed = replace(record, body=json.dumps(body | {"title": title}))
        with pytest.raises(LedgerError, match="not readable"):
            parse_record(changed, {})


def test_the_narrowest_answer_is_returned_again(tmp_path):
    """The last act may be wider than what was read before: both are valid, and the narrower one stays."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.random(4_000)}
    held = eh.Holdout.create(tmp_path / "s.everhold", rows, prior=eh.Reference({"x": rng.random(4_000)}), seed=1)
    early = held.read("x > 0.5")
    for place in range(1, 40):
        held.read(f"x > {place / 41}")
    (late,) = held.close(["x > 0.5"])
    assert late.high - late.low > early.high - early.low, "the last act is no wider: nothing is tested"
    assert held.read("x > 0.5") == early
    assert held.close(["x > 0.5"]) == [late], "the last act again returns what it returned"
    assert held.ask("x > 0.5") == early
    held.release()
    with eh.Holdout.open(tmp_path / "s.everhold", data=rows) as again:
        assert again.read("x > 0.5") == early
    assert eh.Holdout.audit_file(tmp_path / "s.everhold").ok
