"""Bits and verdicts of a private study: what they disclose, what they are charged, and what an interruption costs."""

from __future__ import annotations

import os
import signal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import everhold as eh
from everhold.data.sample import Sample
from everhold.ledger.guard import Guard
from everhold.ledger.reader import read_study
from everhold.ledger.registry import HOME
from everhold.ledger.store import Store
from everhold.mechanism.noise import SecretNoise
from everhold.mechanism.private import PrivateEverhold

RNG = np.random.default_rng(12)
ROWS = 6_000
PROMISE = eh.Privacy(epsilon=3.0, delta=1e-9, surprises=6)


def people(size):
    return {
        "age": RNG.integers(18, 90, size),
        "a": RNG.random(size) < 0.5,
        "b": RNG.random(size) < 0.5,
        "bmi": RNG.normal(27.0, 4.0, size),
        "weight": RNG.normal(37.0, 4.0, size),
    }


PUBLIC, PRIVATE = people(ROWS), people(ROWS)
SCHEMA = eh.Schema.propose(PUBLIC).revised("bmi", low=10, high=60).revised("weight", low=10, high=60)


@pytest.fixture(autouse=True)
def _own_registry(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "registry"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patients.everhold"


def made(path, data=PRIVATE, **changes):
    options = {"prior": eh.Reference(PUBLIC), "schema": SCHEMA, "privacy": PROMISE, "seed": 3, **changes}
    return eh.Holdout.create(path, data, **options)


class Spy:
    """Notes the x of every test; says what it is told to."""

    def __init__(self, quiet=True, step=0):
        self.seen, self._quiet, self._step = [], quiet, step

    def quiet(self, x):
        self.seen.append(x)
        return self._quiet

    def step(self):
        return self._step


def test_a_no_is_free_a_yes_is_charged_and_both_are_recorded(path):
    held = made(path)
    account = held.privacy
    no = held.is_better("age > 80", "age > 30")
    assert not no
    assert no.noisy
    assert "up to noise" in str(no)
    assert held.privacy == account
    yes = held.is_better("age > 30", "age > 80", request_id="one")
    assert yes
    assert held.privacy.bits == 1
    assert held.privacy.spent == account.terms.bit_cost
    assert held.is_better("age > 30", "age > 80", request_id="one") == yes  # recorded: no second draw
    assert held.privacy.bits == 1
    assert "0 surprises, 1 bit and" in held.privacy.text
    with pytest.raises(eh.RequestConflict):
        held.is_better("age > 30", "age > 70", request_id="one")
    head, spent = held.head, held.privacy
    held.release()
    assert eh.Holdout.audit_file(path).ok
    file = read_study(path)
    assert file.budget.privacy == spent
    assert file.budget.nats == held.budget.nats > 0
    with eh.Holdout.open(path, data=PRIVATE, expect_head=head) as again:
        assert again.privacy == spent
        assert again.is_better("age > 30", "age > 80", request_id="one") == yes
    assert Guard.open(path).charges == 1


def test_verdicts_are_certified_and_charged_for_what_they_release(path):
    held = made(path)
    cost = held.privacy.terms.release_cost
    assert held.compare("age > 30", "age > 60").verdict == "yes"
    assert held.compare("age > 80", "age > 40", request_id="two").verdict == "no"
    assert held.compare("a", "b").verdict == "cannot tell"
    assert held.privacy.spent == 6 * cost
    assert held.compare("age > 80", "age > 40", request_id="two").verdict == "no"
    assert held.privacy.spent == 6 * cost
    assert held.compare("age > 30", "age > 60", given="a").verdict == "yes"
    assert held.compare("bmi", "weight").verdict == "no"
    before = held.privacy.releases
    found = held.compare(eh.Share("age > 30", given="a"), eh.Share("age > 70", given="b"))
    assert found.verdict == "yes"
    assert held.privacy.releases - before == held.journal.recorded_acts[-1][0].begun.options["parts"] >= 4
    account = held.privacy
    held.release()
    assert eh.Holdout.audit_file(path).ok
    assert read_study(path).budget.privacy == account
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.privacy == account


def test_a_record_with_the_method_of_a_plain_study_is_refused(path):
    """A verdict of a private study says that it was noisy; one that does not cannot be charged again."""
    from everhold.ledger.act_prices import price_act
    from everhold.ledger.rounds import ActStart

    held = made(path)
    held.compare("age > 30", "age > 60")
    begun = held.journal.recorded_acts[-1][0].begun
    price_act(held.budget, begun, "first")
    for method in ("mcnemar", "intervals", "noisy intervals"):
        with pytest.raises(ValueError, match="does not belong"):
            price_act(held.budget, ActStart("compare", begun.asked, {**begun.options, "method": method}), "first")


def test_one_row_moves_a_bit_by_one_bth_also_when_both_questions_change(path):
    """The worst row: the first question becomes true and the second false. The mutant 'b for 2b' would move it by 2/b."""
    small = {name: values[:400].copy() for name, values in PRIVATE.items()}
    small["a"][7], small["b"][7] = False, True
    other = {name: values.copy() for name, values in small.items()}
    other["a"][7], other["b"][7] = True, False
    seen = []
    for number, rows in enumerate((small, other)):
        held = made(path.with_name(f"{number}.everhold"), rows, register=False)
        held.session.mechanism._source = spy = Spy()
        assert not held.is_better("a", "b", by=0.01)
        seen += spy.seen
    assert abs(seen[1] - seen[0]) == Fraction(64, PROMISE.terms.test_parts)


def test_at_the_margin_a_bit_is_even_and_beyond_it_nearly_sure(path):
    """The real noise, 4,000 draws each. False alarm below 1e-6."""
    held = made(path)
    mechanism = held.session.mechanism
    games, sure = 4_000, 2 * PROMISE.terms.test_scale * 6
    at = sum(mechanism.says_yes(Fraction(0)) for _ in range(games))
    assert binom.ppf(1e-7, games, 0.5) <= at <= binom.ppf(1 - 1e-7, games, 0.5)
    assert all(mechanism.says_yes(Fraction(round(sure))) for _ in range(400))
    below = sum(mechanism.says_yes(Fraction(-round(sure))) for _ in range(games))
    assert below <= binom.ppf(1 - 1e-7, games, 0.7 * np.exp(-6.0))


def test_a_margin_is_on_the_scale_of_the_answer(path):
    held = made(path)
    held.session.mechanism._source = spy = Spy()
    counts = {name: int(PRIVATE[name].sum()) for name in ("a", "b")}
    held.is_better("a", "b", by=0.05)
    x = Fraction(counts["a"] - counts["b"]) - Fraction(0.05) * ROWS
    assert spy.seen == [x * 64 / (2 * PROMISE.terms.test_parts) + Fraction(-366513, 1_000_000)]
    for wrong in (float("nan"), float("inf"), "0.1"):
        with pytest.raises(eh.SettingError):
            held.is_better("a", "b", by=wrong)


def test_verdicts_about_equal_questions_are_rarely_given(path, tmp_path):
    """Twenty whole studies of pairs that are equally often true, two verdicts each: few of them say anything.

    A study misses with probability at most 0.05; the pass line is exceeded by chance with probability 1e-4. The sharp test
    is in tests/bounds/test_private_verdict.py. In the control a clear difference is found: the verdict can speak.
    """
    wrong, studies = 0, 20
    for number in range(studies):
        held = made(tmp_path / f"{number}.everhold", people(2_000), register=False)
        found = [held.compare("a", "b").outcome, held.compare("b", "a", given="age > 40").outcome]
        wrong += any(one != "neither" for one in found)
        held.release()
    assert wrong <= binom.ppf(1 - 1e-4, studies, 0.05)
    held = made(path)
    held.session.mechanism._source = Spy(step=0)
    assert held.compare("age > 30", "age > 40").outcome == "first"


def test_what_cannot_be_paid_for_is_refused_before_a_row_is_read(path, monkeypatch):
    held = made(path, privacy=eh.Privacy(epsilon=3.0, surprises=1))
    held.session.mechanism._source = Spy(quiet=False)
    assert held.is_better("a", "b")
    monkeypatch.setattr(Sample, "sums", lambda *_: pytest.fail("a private row was read"))
    head, account = held.head, held.privacy
    assert not account.affords(account.terms.bit_cost)
    with pytest.raises(eh.PrivacyUsedUp, match="a bit, which may be a yes"):
        held.is_better("age > 30", "b")
    with pytest.raises(eh.PrivacyUsedUp, match="verdict"):
        held.acts._affordable(eh.AskedBy(), account.left + 1, "a verdict")()
    while held.privacy.affords(2 * account.terms.release_cost):
        monkeypatch.undo()
        held.read(f"age > {20 + held.rounds / 10}")
    monkeypatch.setattr(Sample, "sums", lambda *_: pytest.fail("a private row was read"))
    head = held.head
    for second in ("b", "age > 44"):
        with pytest.raises(eh.PrivacyUsedUp, match="a verdict, which reads 2 numbers"):
            held.compare("a", second)
    with pytest.raises(eh.PrivacyUsedUp, match="a verdict, which reads"):
        held.compare(eh.Mean("bmi"), eh.Mean("weight"))
    assert held.head == head


def test_each_name_has_a_limit_for_bits_and_verdicts_too(path):
    held = made(path)
    held.session.limit_charges(3, path)
    held.compare("a", "b", who="ann")
    assert held.is_better("age > 30", "age > 80", who="ann")
    assert not held.is_better("age > 80", "age > 30", who="bob")
    for refused in (lambda: held.is_better("a", "b", who="ann"), lambda: held.ask("a", who="ann")):
        with pytest.raises(eh.PrivacyUsedUp, match="has caused 3 of the 3"):
            refused()
    held.compare("a", "b", who="bob")
    with pytest.raises(eh.PrivacyUsedUp, match="has caused 2 of the 3"):
        held.compare("a", "b", who="bob")


# crashes -------------------------------------------------------------------------------------------------------------------


def in_child(work):
    """Do something in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def fatal(owner, name, which, when):
    """The `which`-th call kills the process, before or after it was done."""
    real, calls = getattr(owner, name), []

    def killing(*given, **more):
        calls.append(1)
        if len(calls) == which and when == "before":
            kill()
        found = real(*given, **more)
        if len(calls) == which:
            kill()
        return found

    setattr(owner, name, killing)


KILLS = {
    "before it is announced": (Store, "append", 1, "before", 0),
    "after it is announced": (Store, "append", 1, "after", 1),
    "while rows are read": (Sample, "sums", 1, "before", 1),
    "before noise is drawn": ("noise", None, 1, "before", 1),
    "after noise is drawn": ("noise", None, 1, "after", 1),
    "before the record": (Store, "append", 2, "before", 1),
    "after the record": (Store, "append", 2, "after", 1),
    "before it is settled": (Guard, "settle", 2, "before", 1),
    "after it is settled": (Guard, "settle", 2, "after", 1),
}
ACTS = {
    "is_better": (lambda held: held.is_better("age > 30", "age > 80"), (PrivateEverhold, "says_yes"), "bits", 1),
    "compare": (lambda held: held.compare("age > 30", "age > 80"), (PrivateEverhold, "noisy_rows"), "releases", 2),
    "best_of": (lambda held: held.best_of(["age > 30", "age > 80"]), (SecretNoise, "choose"), "releases", 1),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("where", KILLS)
def test_a_killed_act_is_charged_once_and_never_done_again(path, act, where):
    made(path).release()
    do, drawn, counted, cost = ACTS[act]
    owner, name, which, when, charged = KILLS[where]
    if owner == "noise":
        owner, name = drawn

    def work():
        held = eh.Holdout.open(path, data=PRIVATE)
        fatal(owner, name, which, when)
        do(held)

    assert in_child(work)
    for _ in range(2):
        with eh.Holdout.open(path, data=PRIVATE) as again:
            assert getattr(again.privacy, counted) == charged * cost
            assert again.privacy.charges == charged * cost
    assert eh.Holdout.audit_file(path).ok
    assert read_study(path).budget.privacy.charges == charged * cost


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_whoever_crashes_the_study_on_every_yes_runs_out_of_budget(path):
    """An attacker who kills the process after the draw, if it was a yes, learns a bit each time, and pays for each."""
    made(path).release()

    def work():
        held = eh.Holdout.open(path, data=PRIVATE)
        real = PrivateEverhold.says_yes
        PrivateEverhold.says_yes = lambda self, x: kill() if real(self, x) else False
        held.is_better("age > 30", "age > 80")

    most = PROMISE.terms.allowance // PROMISE.terms.bit_cost
    looks = 0
    while in_child(work):
        looks += 1
        assert looks <= most
    assert looks == most
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.privacy.bits == most
        with pytest.raises(eh.PrivacyUsedUp):
            again.is_better("age > 30", "age > 80")


def test_an_error_while_rows_are_read_is_charged_and_says_nothing(path, monkeypatch):
    held = made(path)

    def fails(*_):
        raise eh.DataError("row 17 holds 'HIV positive'")

    for number, do in enumerate((lambda one: one.is_better("a", "b"), lambda one: one.compare("a", "b"))):
        with monkeypatch.context() as broken:
            broken.setattr(Sample, "sums", fails)
            with pytest.raises(eh.LedgerError, match="could not be read") as error:
                do(held)
        assert "HIV" not in str(error.value)
        held.release()
        held = eh.Holdout.open(path, data=PRIVATE)
        assert held.privacy.charges == (1, 3)[number]
