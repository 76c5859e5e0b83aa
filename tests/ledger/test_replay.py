"""A hundred random sessions again, without the data: 0 differing bits; and with another number of BLAS threads."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import everhold as eh
from everhold import baselines
from everhold.ledger.replay import replay
from everhold.ledger.rounds import KEPT_BYTES, Digest, RecordedQuestion
from tests.contract.mechanisms import MECHANISMS, analyst, fresh_prior, holdout, play, rows, weighted_prior


def bits(answers):
    """Every field of every answer, to the last bit."""
    packed = b"".join(
        struct.pack("<dddd?q", a.value, a.low, a.high, a.price, a.surprise, a.round) + a.scale.encode() for a in answers
    )
    return hashlib.sha256(packed).hexdigest()


def random_session(number):
    """Session `number`: its rule, prior, tolerance policy, sample and analyst all vary with it."""
    rng = np.random.default_rng([number, 2026])
    rule = ["corrective", "gradient", "entropic"][number % 3]
    prior = [None, weighted_prior(), None, fresh_prior()][number % 4]
    settings = {"rule": rule, "prior": prior, "confidence": float(rng.choice([0.5, 0.9, 0.99]))}
    if number % 7 == 0:
        settings["half_width"] = 0.25
    private = rows(int(rng.integers(200, 3000)), rng, lean=float(rng.uniform(0.2, 0.95)))
    held = holdout(private, number, **settings)
    seed = int(rng.integers(2**32))
    length = 24 if prior is not None and prior.fresh else 60
    return held, (lambda: analyst(np.random.default_rng(seed), length))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_hundred_random_sessions(block):
    surprises = 0
    for number in range(10 * block, 10 * block + 10):
        held, program = random_session(number)
        questions, answers = play(held, program())
        surprises += held.surprises
        assert bits(held.replay(questions)) == bits(answers)
        assert held.audit().ok
    assert surprises >= 20


THREADED = [33, 34, 23, 27, 31]
AGAIN = """
import ast, sys
from tests.ledger.test_replay import bits, random_session, replay

for number, transcript in ast.literal_eval(sys.stdin.read()).items():
    held, make = random_session(number)

    def recorded():
        inner = make()
        question = next(inner)
        for _ in range(60):
            answer = yield question
            try:
                question = inner.send(answer)
            except StopIteration:
                return

    print(bits(replay(held.first_state(), transcript, recorded)))
"""


@cache
def played():
    """The transcript and the bits of five sessions."""
    transcripts, hashes = {}, []
    for number in THREADED:
        held, make = random_session(number)
        _, answers = play(held, make())
        assert held.surprises >= 2
        transcripts[number] = held.transcript
        hashes.append(bits(answers))
    return transcripts, hashes


@pytest.mark.parametrize("threads", ["2", "4"])
def test_other_numbers_of_threads_give_the_same_bits(threads):
    """Sessions played here, with one thread, are replayed from their transcripts in a process with more BLAS threads."""
    transcripts, hashes = played()
    environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", AGAIN], input=repr(transcripts), env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == hashes


def test_a_replay_never_touches_the_sample(monkeypatch):
    held, program = random_session(5)
    questions, answers = play(held, program())

    def forbidden(*_):
        raise AssertionError("the private rows were read")

    monkeypatch.setattr(held.sample, "sums", forbidden)
    monkeypatch.setattr("everhold.data.sample.Sample.sums", forbidden)
    assert held.replay(questions) == answers
    assert held.audit().ok


def test_a_transcript_of_another_session_is_noticed():
    held, program = random_session(3)
    questions, _ = play(held, program())
    late = {len(questions) + 5: (1, (0, 0))}
    with pytest.raises(eh.ReplayError, match="do not belong together"):
        replay(held.first_state(), late, questions)


def test_questions_that_were_never_asked_are_not_answered():
    held, program = random_session(5)
    questions, _ = play(held, program())
    with pytest.raises(eh.ReplayError, match="record ends"):
        held.replay([*questions, questions[0]])
    with pytest.raises(eh.ReplayError, match="not the one that was asked"):
        held.replay([lambda rows: ~rows["c0"], *questions[1:]])


def test_named_questions_are_replayed_as_they_were_answered():
    private = rows(500, np.random.default_rng(1), lean=0.9)
    held = holdout(private, 3)
    asked = [
        eh.Values(sample=private["c0"], reference=rows(2000, np.random.default_rng(99))["c0"], name=name)
        for name in ("a", "b", "a", "b", "c")
    ]
    answers = [held.ask(question) for question in asked]
    assert held.rounds == 3
    assert answers[2] == answers[0]
    assert held.replay(asked) == answers


class TestWhatIsKept:
    def test_small_quiet_questions_are_kept_whole_large_ones_as_a_digest(self):
        small, large = 8 * KEPT_BYTES, 8 * KEPT_BYTES + 8
        for size, kind in ((small, RecordedQuestion), (large, Digest)):
            held = eh.Holdout(100, prior=eh.Reference(size), seed=0)
            half = np.arange(size) % 2 == 0
            answer = held.ask(eh.Values(sample=np.arange(100) % 2 == 0, reference=half))
            assert not answer.surprise
            assert isinstance(held.journal[1].question, kind)
            found = held.audit()
            assert found.ok
            assert found.unchecked == (kind is Digest)

    def test_surprises_are_always_kept_whole(self):
        size = 8 * KEPT_BYTES + 8
        held = eh.Holdout(5000, prior=eh.Reference(size), seed=0)
        answer = held.ask(eh.Values(sample=np.ones(5000, bool), reference=np.arange(size) % 2 == 0))
        assert answer.surprise
        assert isinstance(held.journal[1].question, RecordedQuestion)
        assert held.audit().ok

    def test_a_forged_reading_of_a_digest_round_is_found_by_its_interval(self):
        from everhold.ledger.audit import audit

        size = 8 * KEPT_BYTES + 8
        held = eh.Holdout(100, prior=eh.Reference(size), seed=0)
        held.ask(eh.Values(sample=np.arange(100) % 2 == 0, reference=np.arange(size) % 2 == 0))
        record = held.journal[1]
        forged = replace(record, forecast=replace(record.forecast, numerator=record.forecast.denominator // 3))
        assert not audit(held.session.first_state(), [forged]).ok

    def test_no_private_value_is_in_the_record(self):
        held = eh.Holdout(100, prior=eh.Reference(50), seed=0)
        secret = np.zeros(100)
        secret[17] = 0.123456
        held.ask(eh.Values(sample=secret, reference=np.zeros(50)))
        assert "0.123456" not in repr(list(held.journal))
        assert not hasattr(held.journal[1].question, "sample")


def test_every_mechanism_is_in_the_contract():
    """A baseline that is not added to the suite fails here."""
    private = rows(300, np.random.default_rng(0))
    seated = [make(private, 1).mechanism for make in MECHANISMS.values()]
    policies = {type(one.policy) for one in seated if hasattr(one, "policy")}
    known = {getattr(baselines, name) for name in baselines.__all__} - {baselines.Policy, baselines.BaselineMechanism}
    assert policies == {kind for kind in known if hasattr(kind, "decide")}
    assert {type(one).__name__ for one in seated} == {"Everhold", "AqaOgd", "BaselineMechanism"}
