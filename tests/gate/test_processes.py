"""Many processes at one gate, and processes that are killed in the middle of a check."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pytest

import everhold.gate.gate
from everhold.errors import LedgerError
from everhold.gate.gate import Gate
from everhold.ledger.journal import Journal
from everhold.ledger.registry import Registry
from everhold.session.holdout import Holdout
from tests.gate.test_gate import cases, improved, shuffled

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")


def in_process(work, *args):
    """Start work in a forked process."""
    process = multiprocessing.get_context("fork").Process(target=work, args=args)
    process.start()
    return process


def ended(processes):
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def check_one(path, candidate, number, out):
    with Gate(path) as gate:
        found = gate.check(candidate, name=f"c{number}", request_id=f"r{number}")
    (out / f"{number}").write_text(found.to_json())


@pytest.mark.slow
def test_sixty_four_processes_lose_nothing_and_double_nothing(tmp_path):
    old = cases(200)
    path = tmp_path / "gate.everhold"
    Gate.create(path, old)
    out = tmp_path / "out"
    out.mkdir()
    candidates = [shuffled(old, seed=number) for number in range(62)] + [improved(old, 0.5, seed=7)] * 2
    processes = [in_process(check_one, path, candidate, number, out) for number, candidate in enumerate(candidates)]
    assert ended(processes) == [0] * 64
    gate = Gate(path)
    status = gate.status()
    assert (status.checks, status.interrupted) == (64, 0)
    assert len(list(out.iterdir())) == 64
    promoted = sum('"verdict": "promote"' in one.read_text() for one in out.iterdir())
    assert promoted == status.promotions == 1  # of two equal candidates the second is not better than the first
    assert gate.audit().ok
    for number in (0, 31, 63):  # a repeated request gets what was returned
        again = gate.check(candidates[number], name=f"c{number}", request_id=f"r{number}")
        assert f'"promoted": {str(again.promoted).lower()}' in (out / f"{number}").read_text()
    assert gate.status().checks == 64


def create_one(path, old, out):
    try:
        Gate.create(path, old)
    except LedgerError:
        os._exit(5)
    out.touch()


def test_of_many_processes_that_make_a_gate_of_the_same_cases_one_does(tmp_path):
    old = cases(100)
    made = [tmp_path / f"made {number}" for number in range(8)]
    processes = [in_process(create_one, tmp_path / f"g{number}.everhold", old, one) for number, one in enumerate(made)]
    assert sorted(ended(processes)) == [0] + [5] * 7
    assert sum(one.exists() for one in made) == 1
    assert len(list(tmp_path.glob("g*.everhold"))) == 1
    assert len(Registry().studies()) == 1


def killed(kind, path, candidate):
    """Check a candidate, and die at a certain point."""
    if kind == "before the outcome is recorded":
        Journal.add_act_end = lambda *_: os._exit(9)
    elif kind == "while outcomes are compared":
        everhold.gate.gate.promoted_index = lambda *_: os._exit(9)
    elif kind == "before it is known to the registry":
        advance, times = Registry.advance, iter(range(9))
        Registry.advance = lambda *given: os._exit(9) if next(times) else advance(*given)
    elif kind == "before it is durable":
        end, flush, ended = Journal.add_act_end, Journal.flush, []
        Journal.add_act_end = lambda self, done, asked_by: ended.append(done) or end(self, done, asked_by)
        Journal.flush = lambda self: os._exit(9) if ended else flush(self)
    with Gate(path) as gate:
        gate.check(candidate, name="new", request_id="one")


@pytest.mark.parametrize(
    ("kind", "promoted"),
    [
        ("while outcomes are compared", False),
        ("before the outcome is recorded", False),
        ("before it is durable", False),
        ("before it is known to the registry", True),
    ],
)
def test_a_kill_is_charged_and_nothing_is_forgotten(tmp_path, kind, promoted):
    old = cases(300)
    new = improved(old, 0.5)
    path = tmp_path / "gate.everhold"
    before = Gate.create(path, old).status()
    assert ended([in_process(killed, kind, path, new)]) == [9]
    gate = Gate(path)
    if promoted:  # it was recorded: the same request gets the verdict
        assert gate.check(new, name="new", request_id="one").promoted
        assert gate.status().checks == 1
    else:  # it ended without a verdict, and is done again
        assert gate.check(new, name="new", request_id="one").promoted
        status = gate.status()
        assert (status.checks, status.promotions, status.interrupted) == (2, 1, 1)
        assert gate.check(new, name="new", request_id="one").price > before.price + 5.0
    assert gate.audit().ok


def test_an_attacker_who_kills_on_purpose_gains_nothing(tmp_path):
    """Every kill costs more than a bit, so that outcomes are never cheaper to see by a crash."""
    old = cases(300)
    path = tmp_path / "gate.everhold"
    Gate.create(path, old)
    honest = Gate.create(tmp_path / "honest.everhold", old, new_budget="to compare")
    for number in range(5):
        candidate = shuffled(old, seed=number)
        assert ended([in_process(killed, "while outcomes are compared", path, candidate)]) == [9]
        honest.check(candidate)
    with Gate(path) as gate:  # opening it ends what was interrupted
        gate.check(old)
    assert gate.status().interrupted == 5
    assert gate.status().price > honest.status().price + 20.0


def test_a_thread_beside_another(tmp_path):
    from threading import Thread

    old = cases(200)
    gate = Gate.create(tmp_path / "gate.everhold", old)
    found = []
    threads = [Thread(target=lambda n=n: found.append(gate.check(shuffled(old, seed=n))), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == gate.status().checks == 8
    assert np.all(np.diff(sorted(one.checks for one in found)) == 1)
    gate.release()
    assert Holdout.audit_file(gate.path).ok
