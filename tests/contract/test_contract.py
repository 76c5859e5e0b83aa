"""One contract for all mechanisms: what everyone can rely on, whichever is plugged in."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import everhold as eh
from everhold.mechanism.estimator import Draws
from everhold.queries.grid import VALUE_ONE, lenient_sums
from tests.contract.mechanisms import (
    MECHANISMS,
    PRICED,
    READ_A_PART,
    SKETCHED,
    SPENT,
    YES_NO_ONLY,
    analyst,
    paper,
    play,
    rows,
)


@pytest.fixture(params=list(MECHANISMS))
def session(request):
    return played(request.param)


@cache
def played(name):
    rng = np.random.default_rng(3)
    private = rows(1500, rng, lean=0.8)
    held = MECHANISMS[name](private, 11)
    questions, answers = play(held, analyst(np.random.default_rng(4), 48, yes_no_only=name in YES_NO_ONLY))
    assert len(answers) >= 10
    return held, private, questions, answers


@pytest.fixture
def kind(request):
    """The name of the mechanism under test."""
    return request.node.callspec.params["session"]


def sample_mean(private, question, part=None):
    if part is not None:
        private = {name: column[part] for name, column in private.items()}
    values = np.asarray(question(private))
    scale = "share" if values.dtype == bool else "mean"
    return lenient_sums(values, len(values), scale).first / (VALUE_ONE * len(values))


def test_surprises_happen_here_or_this_suite_tests_nothing(session):
    held, *_ = session
    assert held.surprises >= 2


def test_answers_are_as_close_to_the_sample_as_promised(session):
    """Quiet: within τ. Surprise: within half a cell. Checked against the private rows read, on the [-1, 1] scale."""
    held, private, questions, answers = session
    policy = getattr(held.mechanism, "policy", None)
    for question, answer, record in zip(questions, answers, held.journal, strict=True):
        told = 2.0 * answer.value - 1.0 if answer.scale == "share" else answer.value
        low, high = (2 * answer.low - 1, 2 * answer.high - 1) if answer.scale == "share" else (answer.low, answer.high)
        part = None if policy is None else policy.rows_read(answer.round, held.mechanism._context)
        v = sample_mean(private, question, part)
        assert record.answer == answer
        assert low <= v <= high, "the interval always holds the sample's own mean"
        assert -1.0 <= low <= high <= 1.0
        assert low <= min(max(told, -1.0), 1.0) <= high


def test_the_records_rounds_are_dense_and_prices_never_fall_by_a_surprise(session, kind):
    held, _, _, answers = session
    assert [answer.round for answer in answers] == list(range(1, len(answers) + 1))
    for before, after in pairwise(answers):
        assert after.price >= before.price or not before.surprise
        if before.surprise and kind in PRICED:
            assert after.price > before.price
    assert held.rounds == len(answers)
    assert held.surprises == sum(answer.surprise for answer in answers) == len(held.transcript)


def test_proposing_changes_nothing(session, kind):
    """Two proposals in a row are equal, or refused in the same words."""
    held, _, questions, _ = session
    mechanism = held.mechanism
    from everhold.queries.query import as_query

    if kind in SPENT:
        refusals = []
        for _ in range(2):
            with pytest.raises(eh.PrecisionExhausted) as refused:
                mechanism.propose(as_query(questions[0]))
            refusals.append(str(refused.value))
        assert refusals[0] == refusals[1]
    else:
        first, second = (mechanism.propose(as_query(questions[0])) for _ in range(2))
        assert first.forecast == second.forecast
        assert first.tolerance == second.tolerance
    assert held.rounds == len(questions)


def test_the_decision_sees_one_number(session, kind):
    """Two samples with the same total are one: the rows in another order, or other rows with the same mean."""
    held, private, questions, answers = session
    if kind in READ_A_PART:
        pytest.skip("it reads a part of the rows: their order is part of its coins")
    order = np.random.default_rng(0).permutation(1500)
    twin = {name: column[order] for name, column in private.items()}
    other = eh.Holdout.with_mechanism(twin, lambda n: held.first_state())
    assert [other.ask(question) for question in questions] == answers


def test_replay_from_the_transcript_and_the_recorded_questions(session):
    held, _, questions, answers = session
    assert held.replay(questions) == answers
    assert held.audit().ok


def test_replay_from_the_transcript_and_the_analysts_program(session):
    """Algorithm 3: the analyst runs again with the same coins; nobody has the sample."""
    held, _, _, answers = session
    yes_no = all(answer.scale == "share" for answer in answers)
    taken = len(answers)

    def program():
        inner = analyst(np.random.default_rng(4), 48, yes_no_only=yes_no)
        question = next(inner)
        for _ in range(taken):
            answer = yield question
            try:
                question = inner.send(answer)
            except StopIteration:
                return

    assert held.replay(program) == answers


def test_another_transcript_replays_differently(session, kind):
    """The control: a replay that ignored the transcript would pass the tests above only if there were no surprises.

    Without the first surprise the coefficients of the second fit no sketch; where there are none, answers differ.
    """
    held, _, questions, answers = session
    shortened = dict(held.transcript)
    shortened.pop(min(shortened))
    from everhold.ledger.replay import replay

    if kind in SKETCHED:
        with pytest.raises(eh.ReplayError, match="recorded coefficients of surprise 1"):
            replay(held.first_state(), shortened, questions)
    else:
        assert replay(held.first_state(), shortened, questions) != answers


def test_audit_finds_a_changed_record(session):
    from dataclasses import replace

    from everhold.ledger.audit import audit

    held, *_ = session
    records = list(held.journal)
    changes = [
        lambda r: replace(r, answer=replace(r.answer, value=r.answer.value + 1e-9)),
        lambda r: replace(r, answer=replace(r.answer, low=np.nextafter(r.answer.low, -1))),
        lambda r: replace(r, answer=replace(r.answer, price=r.answer.price - 2.0**-20)),
        lambda r: replace(r, forecast=replace(r.forecast, numerator=r.forecast.numerator + 1)),
    ]
    for change in changes:
        for place in (0, len(records) // 4):
            altered = [*records[:place], change(records[place]), *records[place + 1 :]]
            found = audit(held.first_state(), altered)
            assert not found.ok
            assert str(records[place].number) in found.deviation
    assert not audit(held.first_state(), records[1:]).ok


class TestPaper:
    """What is particular to AQA-OGD."""

    def test_printed_draws_are_refused_with_their_size(self):
        private = rows(100, np.random.default_rng(0))
        with pytest.raises(eh.SettingError, match=r"would draw [\d,]+ seeds a round"):
            paper(private, 0, draws="printed", rounds=1000)

    def test_printed_draws_are_offered_where_they_are_not_absurd(self):
        held = paper(rows(100, np.random.default_rng(0)), 0, draws="printed", rounds=2, accuracy=1.0, density=1.0)
        assert held.ask(lambda r: r["c0"]).round == 1

    def test_the_cap_of_the_corrected_constants_refuses(self):
        """ε = 1, λ = 1: a cap of 128 updates; questions that are new to the sketch every time use them up."""
        private = {"u": np.zeros(50, dtype=np.uint64)}

        def draw(rng, size):
            return Draws({"u": rng.integers(1, 2**63, size, dtype=np.uint64)}, size, None, float(size))

        def question(t):
            """Always yes on the private rows, a fresh coin for each t on the public ones."""
            odd = np.uint64(np.random.default_rng(t).integers(2**62) * 2 + 1)
            return lambda r: (r["u"] == 0) | ((r["u"] * odd) >> np.uint64(63) == 1)

        def build(constants):
            return eh.Holdout.with_mechanism(
                private,
                lambda n: eh.AqaOgd(rows=n, draw=draw, accuracy=1.0, density=1.0, rounds=400, constants=constants),
            )

        corrected, printed = build("corrected"), build("printed")
        refused = None
        for t in range(140):
            last = printed.ask(question(t))
            if refused is None:
                try:
                    corrected.ask(question(t))
                except eh.PrecisionExhausted:
                    refused = t
        assert refused == 128
        assert corrected.surprises == 128
        assert printed.surprises == 129, "as printed the cap is passed by one"
        assert (last.low, last.high) == (0.0, 1.0), "an unchecked answer promises nothing"

    def test_a_plain_table_may_be_drawn_and_nonsense_is_refused(self):
        private = rows(100, np.random.default_rng(0))

        def build(**change):
            given = {"accuracy": 0.5, "density": 0.5, "rounds": 2, "draw": lambda rng, size: rows(size, rng)} | change
            return eh.Holdout.with_mechanism(private, lambda n: eh.AqaOgd(rows=n, **given))

        held = build()
        for _ in range(2):
            held.ask(lambda r: r["c0"])
        with pytest.raises(eh.PrecisionExhausted, match="planned"):
            held.ask(lambda r: r["c0"])
        for wrong in ({"accuracy": "0.1"}, {"rounds": 1.5}, {"density": 0.0}, {"constants": "x"}):
            with pytest.raises(eh.SettingError):
                build(**wrong)
        with pytest.raises(eh.EverholdError):
            build(draw=lambda rng, size: 3.5).ask(lambda r: r["c0"])

    def test_numbers_are_sent_to_the_oracle(self):
        held = paper(rows(100, np.random.default_rng(0)), 0)
        with pytest.raises(eh.QuestionError, match="SQOracle"):
            held.ask(lambda r: r["c0"] * 0.5)
        assert held.rounds == 0

    def test_values_are_refused(self):
        held = paper(rows(100, np.random.default_rng(0)), 0)
        with pytest.raises(eh.QuestionError, match="callable"):
            held.ask(eh.Values(sample=np.ones(100, bool), reference=np.ones(10, bool)))

    def test_accuracy_against_the_truth(self):
        """n is far above what is needed here, so every answer is within ε of the population, as Algorithm 1 promises."""
        rng = np.random.default_rng(8)
        private = rows(60_000, rng, lean=0.5)
        private |= {f"c{i}": rng.random(60_000) < 0.5 for i in range(4, 8)}
        held = paper(private, 5, accuracy=0.25)
        for t in range(60):
            picked = [f"c{i}" for i in np.random.default_rng(t).permutation(8)[:2]]
            answer = held.ask(lambda r, p=picked: r[p[0]] ^ r[p[1]])
            both = picked[0] in ("c0", "c1", "c2", "c3") and picked[1] in ("c0", "c1", "c2", "c3")
            truth = 0.5 * (1 - 0.25) if both else 0.5
            assert abs(2 * answer.value - 2 * truth) <= 0.25
            assert truth in answer.interval
