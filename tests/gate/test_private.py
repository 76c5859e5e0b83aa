"""A private gate: what is promised, charged and refused; that crashes, copies and repeats give no free look; its claims."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import everhold as eh
import everhold.gate.gate
from everhold.bounds.budget import Budget
from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.privacy import ROW_PARTS
from everhold.errors import GateUsedUp, LedgerError, SettingError
from everhold.gate.gate import Gate
from everhold.gate.judge import noisily_promoted_index
from everhold.gate.results import GateStatus
from everhold.gate.study import GateStudy
from everhold.ledger.gate_check import Candidate, CheckPlan
from everhold.ledger.guard import Guard
from everhold.ledger.journal import Journal
from everhold.ledger.reader import read_study
from everhold.ledger.store import Store
from everhold.mechanism.noise import SecretNoise
from everhold.session.holdout import Holdout
from tests.gate.test_gate import cases, improved

PROMISE = eh.Privacy(epsilon=5.0, delta=1e-9, surprises=3)
TERMS = PROMISE.terms
FALSE_ALARM = 1e-6
OLD = cases(2_000)
NEW = improved(OLD, 0.5)  # 25 points better: promoted all but surely
WORSE = dict.fromkeys(OLD, 0)


def made(path, **changes):
    return Gate.create(path, OLD, **{"outcomes": "pass", "privacy": PROMISE} | changes)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gate.everhold"


class Watched:
    """A gate's noise, with what it was asked."""

    def __init__(self, answer=None):
        self.seen, self.answer = [], answer

    def quiet(self, x):
        self.seen.append(x)
        return SecretNoise(TERMS).quiet(x) if self.answer is None else self.answer


def watch(gate, answer=None):
    """Put watched noise into the session that the gate holds."""
    gate.require_ready()
    noise = Watched(answer)
    gate.study._holdout.session.mechanism._source = noise
    return noise


# what it does --------------------------------------------------------------------------------------------------------------


def test_from_creation_to_the_total_gain(path):
    gate = made(path)
    assert gate.rules.method == "noisy bets"
    assert not gate.check(WORSE).promoted
    account = read_study(path).budget.privacy
    assert (account.bits, account.releases, account.surprises) == (0, 0, 0)  # kept out: free
    found = gate.check(NEW, name="new")
    assert found.promoted
    assert found.certified
    status = gate.status()
    assert status.privacy["promotions_charged"] == 1
    assert status.privacy["promotions_left"] < made_promotions()
    assert "ε = 5, δ = 1e-09 for everything ever disclosed about a sealed case: 1 promotion charged" in str(status)
    assert GateStatus.from_dict(json.loads(status.to_json())) == status
    gate.release()
    assert gate.audit().ok
    again = Gate(path)
    assert again.status() == status
    gain = again.finish()
    assert 0.0 < gain.low < 0.25 < gain.gain + 0.1
    assert gain == again.finish()  # recorded: no second draw
    assert again.status().privacy["releases_charged"] == 1
    assert again.audit().ok
    with pytest.raises(GateUsedUp):
        again.check(NEW)


def made_promotions():
    account = Budget.first(0.05, None, TERMS).privacy
    return account.left // TERMS.bit_cost


def test_the_total_gain_has_noise(tmp_path):
    """Six gates with the same outcomes: all the same by chance with probability below 1e-9, as no sum has more than 0.01."""
    seen = set()
    for number in range(6):
        gate = made(tmp_path / f"{number}.everhold", new_budget="to compare")
        watch(gate, answer=False)  # promoted
        assert gate.check(NEW).promoted
        gate.study._holdout.session.mechanism._source = SecretNoise(TERMS)
        seen.add(gate.finish().gain)
    assert len(seen) > 1


def test_promises_of_several_gates_add_up(tmp_path):
    """The second of two private gates of the same cases does not speak for the first."""
    first = made(tmp_path / "1.everhold")
    second = made(tmp_path / "2.everhold", new_budget="a better margin")
    assert "everything ever disclosed" in str(first.status())
    assert "everything ever disclosed" not in str(second.status())
    assert "everything that this gate discloses" in str(second.status())
    assert "add their ε and δ" in str(second.status())


def test_a_final_contract_promotes_more_often_and_certifies_the_end(path):
    gate = made(path, certify="final")
    found = gate.check(NEW)
    assert found.promoted
    assert not found.certified
    assert gate.finish().low > 0.0
    assert gate.audit().ok


def test_scores_and_margins(path):
    rng = np.random.default_rng(0)
    old = {case: float(rng.random()) for case in OLD}
    gate = Gate.create(path, old, outcomes="score", by=0.02, privacy=PROMISE)
    assert not gate.check({case: min(one + 0.01, 1.0) for case, one in old.items()}).promoted
    assert gate.check({case: min(one + 0.4, 1.0) for case, one in old.items()}).promoted
    assert gate.audit().ok


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"privacy": 1.0}, "Expected eh.Privacy"),
        ({"outcomes": None}, "must say what outcomes are"),
        ({"generation_size": 5}, "one candidate at a time"),
        ({"privacy": eh.Privacy(delta=1e-4, epsilon=1.0), "visible": None}, None),
    ],
)
def test_what_cannot_be_promised_is_refused(path, changes, match):
    if match is None:
        with pytest.raises(SettingError, match="delta"):
            Gate.create(path, cases(20_000), outcomes="pass", **changes)
    else:
        with pytest.raises(SettingError, match=match):
            made(path, **changes)
    assert not list(path.parent.iterdir()) or not path.exists()


def test_what_cannot_be_paid_for_is_refused_before_an_outcome_is_read(path, monkeypatch):
    gate = made(path, certify="final")
    promoted = 0
    incumbents = [NEW, OLD]
    watch(gate, answer=False)
    while gate.status().privacy["promotions_left"]:
        gate.check(incumbents[promoted % 2])
        promoted += 1
    assert promoted == made_promotions()  # the total gain is kept back, and there was room for it
    assert gate.status().used_up
    assert "pays for no further promotion" in str(gate.status())
    before = gate.status()
    with monkeypatch.context() as blind:
        blind.setattr(GateStudy, "sealed_outcomes", lambda *_: pytest.fail("outcomes were read"))
        with pytest.raises(GateUsedUp, match="privacy budget"):
            gate.check(NEW)
    assert gate.status() == before
    gate.study._holdout.session.mechanism._source = SecretNoise(TERMS)
    assert gate.finish()  # what was kept back pays for it
    assert read_study(path).budget.privacy.left >= 0


# privacy -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcomes", ["pass", "score"])
def test_one_case_moves_the_test_by_one_bth(tmp_path, outcomes):
    """Neighbouring gates, through the whole of it: all three systems do something else on one case."""
    found = []
    rng = np.random.default_rng(4)
    drawn = (lambda: float(rng.integers(0, 2))) if outcomes == "pass" else (lambda: float(rng.random()))
    tables = [{case: drawn() for case in OLD} for _ in range(3)]
    for number, value in enumerate((None, (0, 1, 1), (1, 0, 0), (0, 0, 1))):
        old, *candidates = (
            {**table, "case-7": table["case-7"] if value is None else value[place]} for place, table in enumerate(tables)
        )
        gate = Gate.create(tmp_path / f"{number}.everhold", old, outcomes=outcomes, privacy=PROMISE, new_budget="compare")
        noise = watch(gate, answer=True)
        for candidate in candidates:
            gate.check(candidate)
        found.append(noise.seen)
    moved = [abs(one - other) for seen in found[1:] for one, other in zip(found[0], seen, strict=True)]
    assert 0 < max(moved) <= Fraction(ROW_PARTS, TERMS.test_parts)


def test_one_case_moves_the_released_gain_by_one_row(tmp_path, monkeypatch):
    sums = []
    for number, value in enumerate((0, 1)):
        gate = made(tmp_path / f"{number}.everhold", new_budget="compare")
        watch(gate, answer=False)
        gate.check({**NEW, "case-3": value})
        monkeypatch.setattr(
            type(gate.study._holdout.session.mechanism), "noisy_total", lambda self, total: sums.append(total) or total
        )
        gate.finish()
    assert abs(sums[0] - sums[1]) == SCORE_ONE  # half a row: the incumbent's outcome is the same


def test_a_gate_without_privacy_tells_an_attacker_of_a_case_and_a_private_one_does_not(tmp_path):
    """The candidate is better by exactly what the verdict needs if the target passes: a plain gate is sure to tell.

    Games against the private gate, at its margin: over 400 verdicts the share of promotions with and without the target
    differs by chance alone (five standard errors: a false alarm of 6e-7), and the claimed ε would allow no more than 1/b.
    """
    bits, plan = [], CheckPlan((Candidate("c", "d", None),), "i", 0, "mcnemar", "each")
    before = np.zeros(2_000, dtype=np.int64)
    need = next(k for k in range(2_000) if plain(plan, before, k) == 0)
    assert (plain(plan, before, need), plain(plan, before, need - 1)) == (0, None)  # control
    noisy = CheckPlan((Candidate("c", "d", None),), "i", 0, "noisy bets", "each")
    noise = SecretNoise(TERMS, seeded(3))
    margin = next(k for k in range(2_000) if beyond(before, k) >= Fraction(-4, 10))
    for more in (margin, margin - 1):
        candidate = before.copy()
        candidate[:more] = SCORE_ONE
        bits.append(sum(noisily_promoted_index(noisy, before, candidate, 6.0, TERMS, noise) == 0 for _ in range(400)))
    assert min(bits) > 40
    assert max(bits) < 360  # neither is sure
    error = np.sqrt(2 * 400 * 0.25)
    assert abs(bits[0] - bits[1]) < 400 * ROW_PARTS / TERMS.test_parts + 5 * error


def seeded(seed):
    from random import Random

    return Random(seed).getrandbits


def plain(plan, before, more):
    from everhold.gate.judge import promoted_index

    candidate = before.copy()
    candidate[:more] = SCORE_ONE
    return promoted_index(plan, before, [candidate], 6.0)


def beyond(before, more):
    from everhold.bounds.private_gain import NoisyBet

    bet = NoisyBet.of(cases=len(before), by=0, test_parts=TERMS.test_parts, nats=6.0)
    return bet.beyond({SCORE_ONE: more, 0: len(before) - more})


# repeats, copies, crashes --------------------------------------------------------------------------------------------------


def test_repeats_draw_no_second_noise(path):
    gate = made(path, artifact=b"first")
    noise = watch(gate, answer=True)
    first = gate.check(NEW, request_id="one", artifact=b"new")
    assert gate.check(NEW, request_id="one", artifact=b"new") == replace(first, repeated=True)
    assert gate.check(WORSE, request_id="one", artifact=b"new").promoted == first.promoted  # whatever the outcomes are now
    assert not gate.check(NEW, artifact=b"new").promoted  # the same bytes
    assert gate.check(NEW, artifact=b"first").state == "same"
    assert len(noise.seen) == 1
    gate.release()
    again = Gate(path)
    noise = watch(again, answer=True)
    assert again.check(NEW, request_id="one", artifact=b"new").promoted == first.promoted
    assert not noise.seen


def test_visible_cases_screen_for_nothing(path):
    gate = made(path, visible=0.3)
    noise = watch(gate)
    assert gate.check(WORSE).state == "screened"
    assert not noise.seen
    assert gate.status().privacy["share_left"] == 1.0


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work):
    """Do something in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


KILLS = {
    "before the draw": (SecretNoise, "quiet", "before", 1),
    "after the draw": (SecretNoise, "quiet", "after", 1),
    "before the end is recorded": (Journal, "add_act_end", "before", 1),
    "before the record": (Store, "append", "second", 1),
    "after the record": (Store, "append", "after second", 1),
    "before it is settled": (Guard, "settle", "second", 1),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
@pytest.mark.parametrize("where", KILLS)
@pytest.mark.parametrize("better", [True, False])
def test_a_killed_check_is_charged_once_and_gives_no_free_look(path, where, better):
    """Killed anywhere between announcement and answer: one promotion is charged, unless a free "keep" was recorded."""
    made(path).release()
    owner, name, when, charged = KILLS[where]

    def check():
        gate = Gate(path)
        gate.require_ready()
        real, calls = getattr(owner, name), []

        def fatal(*given, **more):
            calls.append(1)
            due = len(calls) == (2 if "second" in when else 1)
            if due and "after" not in when:
                kill()
            found = real(*given, **more)
            if due:
                kill()
            return found

        setattr(owner, name, fatal)
        gate.check(NEW if better else WORSE, name="new", request_id="one")

    assert in_child(check)
    for _ in range(2):
        with Gate(path) as again:
            again.require_ready()
            recorded = [one for one in read_study(path).acts if one.act == "check" and one.result is not None]
            kept = bool(recorded) and not recorded[0].result["promoted"]
            assert read_study(path).budget.privacy.bits == charged - kept
            assert kept <= (not better)
            assert again.audit().ok
    with Gate(path) as again:  # it is done again, or its verdict is there
        assert again.check(NEW if better else WORSE, name="new", request_id="one").promoted == better


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_whoever_crashes_the_gate_on_every_promotion_runs_out_of_budget(path):
    made(path).release()

    def check():
        real = SecretNoise.quiet
        SecretNoise.quiet = lambda self, x: real(self, x) or kill()
        Gate(path).check(NEW)

    looks = 0
    while in_child(check):
        looks += 1
        assert looks <= made_promotions()
    with pytest.raises(GateUsedUp, match="privacy budget"):
        Gate(path).check(NEW)
    assert looks == made_promotions()
    assert Holdout.audit_file(path).ok


def test_an_older_copy_draws_nothing_whatever_is_restored(path, tmp_path):
    made(path).release()
    kept = tmp_path / "kept"
    kept.mkdir()
    for one in tmp_path.glob("gate.everhold*"):
        (shutil.copytree if one.is_dir() else shutil.copy)(one, kept / one.name)
    with Gate(path) as gate:
        gate.check(WORSE)  # a free verdict, which was disclosed all the same
    for one in kept.iterdir():
        if not one.is_dir():
            shutil.copy(one, tmp_path / one.name)
    with Gate(path) as gate, pytest.raises(LedgerError, match=r"older|ends before|another"):
        gate.check(NEW)
    shutil.copytree(kept, tmp_path / "elsewhere")
    with Gate(tmp_path / "elsewhere" / path.name) as gate, pytest.raises(LedgerError):
        gate.check(NEW)


def test_of_two_copies_at_the_same_moment_one_draws(path, tmp_path):
    made(path).release()
    other = tmp_path / "other"
    other.mkdir()
    for one in tmp_path.glob("gate.everhold*"):
        (shutil.copytree if one.is_dir() else shutil.copy)(one, other / one.name)
    first, second = Gate(path), Gate(other / path.name)
    watch(first)
    noise = watch(second)
    assert first.check(NEW).promoted
    with pytest.raises(LedgerError):
        second.check(NEW)
    assert not noise.seen


def test_the_guard_alone_set_back_is_noticed_by_the_ledger(path, tmp_path):
    """An older `.spent` with the newest study: the ledger knows more than it, and goes on from that."""
    made(path).release()
    shutil.copy(Guard.path_of(path), tmp_path / "old.spent")
    with Gate(path) as gate:
        assert gate.check(NEW).promoted
    shutil.copy(tmp_path / "old.spent", Guard.path_of(path))
    with Gate(path) as gate:
        gate.require_ready()
        assert gate.study._holdout.privacy.bits == 1


def test_a_record_of_the_other_method_is_refused(path, tmp_path):
    gate = made(path)
    gate.check(WORSE)
    plain_gate = Gate.create(tmp_path / "plain.everhold", OLD, new_budget="compare")
    for one, method in ((gate, "mcnemar"), (plain_gate, "noisy bets")):
        plan = CheckPlan((Candidate("c", "d", None),), one.rules.first, 0, method, "each")
        with pytest.raises(ValueError, match="does not belong"):
            plan.charge(one.study.ready().budget, -1, interrupted=False)
        one.study._holdout.pause()


def test_an_error_while_outcomes_are_compared_says_nothing_and_is_charged(path, monkeypatch):
    gate = made(path)
    with monkeypatch.context() as broken:
        broken.setattr(everhold.gate.gate, "noisily_promoted_index", lambda *_: 1 / 0)
        with pytest.raises(LedgerError) as error:
            gate.check(NEW)
    assert "zero" not in str(error.value)
    with Gate(path) as again:
        again.require_ready()
        assert again.study._holdout.privacy.bits == 1
    assert Holdout.audit_file(path).ok


def test_nothing_of_the_outcomes_stands_in_the_files_that_others_may_read(tmp_path):
    """Two gates of different cases, with the same verdicts: their public files differ in random numbers and times alone."""
    texts = []
    for number, old in enumerate((OLD, {case: 1 - one for case, one in OLD.items()})):
        gate = Gate.create(tmp_path / f"{number}.everhold", old, outcomes="pass", privacy=PROMISE, new_budget="compare")
        watch(gate, answer=True)
        gate.check(NEW, name="new", request_id="one")
        gate.release()
        file = read_study(gate.path)
        rules = json.loads((tmp_path / f"{number}.everhold.gate.json").read_text()) | {"first": ""}
        log = [one.to_dict() | {"time": ""} for one in file.log]
        texts.append(json.dumps([rules, log, str(gate.status()).replace(str(file.head), "")], default=str))
    assert texts[0] == texts[1]


# validity ------------------------------------------------------------------------------------------------------------------


def phantoms(runs, *, price=None):
    """In how many runs of 60 checks a candidate that is not better was promoted, with the production decision and price."""
    missed = 0
    for run in range(runs):
        rng = np.random.default_rng([7, run])
        incumbent = SCORE_ONE * rng.integers(0, 2, 300)
        budget = Budget.first(0.05, None, TERMS)
        noise = SecretNoise(TERMS, seeded(run))
        for _ in range(60):
            plan = CheckPlan((Candidate("c", "d", None),), "i", 0, "noisy bets", "each")
            candidate = np.where(rng.random(300) < 0.1, SCORE_ONE - incumbent, incumbent)
            charge = plan.price(budget) if price is None else price
            found = noisily_promoted_index(plan, incumbent, candidate, charge, TERMS, noise)
            budget = plan.charge(budget, plan.disclosed(found), interrupted=False)
            if found is not None:
                missed += 1
                break
    return missed


def test_runs_with_a_phantom_are_within_the_failure_probability_and_a_control_is_not():
    """An honest gate fails with probability below 1e-6; without the price of what was disclosed phantoms are promoted."""
    assert phantoms(150) <= stats.binom.isf(FALSE_ALARM, 150, 0.05)
    assert phantoms(40, price=0.5) > stats.binom.isf(FALSE_ALARM, 40, 0.05)
