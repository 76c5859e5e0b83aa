"""Results as JSON and back: equal to the bit, whatever the numbers."""

import json
from math import inf, isnan, nan

import hypothesis.strategies as st
import pytest
from hypothesis import given

import everhold as eh
from everhold.contest.board import Submission
from everhold.ledger.reader import LoggedQuestion, LoggedRound
from everhold.statistics.finding import result_from_dict

finite = st.floats(allow_nan=False, allow_infinity=False)
low, high = st.one_of(finite, st.just(-inf)), st.one_of(finite, st.just(inf))
value = st.one_of(finite, st.just(nan))
answers = st.builds(
    eh.Answer, finite, finite, finite, st.booleans(), st.integers(0, 10**9), finite, st.sampled_from(["share", "mean"])
)
parts = st.lists(answers, max_size=3).map(tuple)
unit = st.sampled_from(["number", "date"])
findings = st.builds(eh.Finding, st.text(max_size=8), value, low, high, parts, unit)
comparisons = st.builds(eh.Comparison, st.text(max_size=8), value, low, high, parts, unit)
cells = st.lists(st.tuples(st.tuples(st.text(max_size=5)), st.one_of(answers, findings)), max_size=4)
shares = st.builds(
    lambda what, found: eh.Shares(what, tuple(one for one, _ in found), tuple(one for _, one in found)),
    st.text(max_size=8),
    cells,
)
scores = st.builds(
    lambda *given: eh.Score(*given[:5], bottom=given[5], top=given[6]),
    st.text(max_size=8),
    value,
    low,
    high,
    parts,
    low,
    high,
)
verdicts = st.builds(
    lambda score, better: eh.ScoreDifference(
        score.what, score.value, score.low, score.high, score.parts, bottom=-1.0, top=1.0, larger_is_better=better
    ),
    scores,
    st.booleans(),
)
previews = st.builds(eh.Preview, *[finite] * 5, st.sampled_from(["share", "mean"]), finite, finite)


def same(one, other):
    """Equal, with NaN equal to itself: by the exact digits of everything."""
    return repr(one.to_dict()) == repr(other.to_dict()) and type(one) is type(other)


@given(st.one_of(answers, findings, comparisons, shares, scores, verdicts, previews))
def test_there_and_back(found):
    text = found.to_json()
    back = type(found).from_json(text)
    assert same(back, found)
    assert back.to_json() == text
    assert json.loads(text)["kind"]


@given(st.one_of(answers, findings, comparisons, shares))
def test_the_kind_is_enough(found):
    assert same(result_from_dict(json.loads(found.to_json())), found)


@given(st.one_of(st.none(), scores), st.booleans(), st.one_of(st.none(), st.integers(0, 99)))
def test_submissions(score, improved, row):
    sent = Submission("ann", "scored", "your first score.", score, improved, row, None)
    assert same(Submission.from_json(sent.to_json()), sent)


@given(answers, st.text(max_size=9), st.one_of(st.none(), st.text(max_size=9)))
def test_rounds_of_a_log(answer, question, who):
    one = LoggedQuestion(3, None, (LoggedRound(answer, question, "now", who, None),))
    assert same(LoggedQuestion.from_json(one.to_json()), one)


def test_two_thousand_regression_scores():
    """A span of 37: before, 577 of 2,000 came back with another last bit."""
    changed = 0
    for number in range(2_000):
        share = eh.Answer(number / 2_001, number / 2_003, (number + 1) / 2_001, False, number, 5.0, "share")
        sent = Submission("ann", "scored", "", eh.Score.of_share(share, "mean_absolute_error", 37.0))
        changed += Submission.from_json(sent.to_json()) != sent
    assert changed == 0


def test_a_score_is_not_an_answer():
    score = eh.Score("log_loss", 2.3, 2.0, 2.6, (), bottom=0.0, top=4.6)
    assert not isinstance(score, eh.Answer)
    assert not hasattr(score, "scale")
    assert isinstance(score, eh.Finding)
    assert score.metric == "log_loss"
    with pytest.raises(AttributeError):
        score.as_share()


def test_what_json_cannot_write():
    found = eh.Finding("x", nan, -inf, inf, ())
    assert json.loads(found.to_json())["low"] is None
    back = eh.Finding.from_json(found.to_json())
    assert isnan(back.value)
    assert (back.low, back.high) == (-inf, inf)
