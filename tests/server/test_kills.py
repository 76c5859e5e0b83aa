"""SIGKILL under load, fifty times: what any client received is in the ledger, and retries get the same results.

Clients ask and do every act that analysts may do; a custodian closes studies while the server is killed.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest

import everhold as eh
from everhold.acts import ACTS
from everhold.client.sync import Server
from everhold.ledger.reader import read_study
from tests.faults.deeds import KINDS, LAST, PRIVATE, PUBLIC, Deed
from tests.faults.record_check import check_record
from tests.server.serving import ForkedProcess, save, wait_for

pytestmark = pytest.mark.slow

KILLS, ANALYSTS = 50, 8
LEAST = 20  # results of every life
CLOSED = 5  # studies


def make_study(folder, name="patients"):
    """A study of the table that deeds are about."""
    data = save(folder / f"{name}.csv", PRIVATE)
    place = folder / f"{name}.everhold"
    eh.Holdout.create(place, data, prior=eh.Reference(PUBLIC), seed=7, register=False).release()
    return place


@pytest.fixture
def serving():
    """Starts servers, and leaves none behind when a test fails."""
    with ExitStack() as started:
        yield lambda *given: started.enter_context(ForkedProcess(*given))


class _Client(threading.Thread):
    """Does deeds without pause; keeps what it gets. The library tries again by itself when the server has gone."""

    def __init__(self, url, secret, study, deeds):
        super().__init__(daemon=True)
        self.url, self.secret, self.study, self.deeds = url, secret, study, deeds
        self.received, self.refused, self.failed = {}, 0, []

    def run(self):
        with eh.connect(self.url, self.secret, patience=3_600.0, timeout=600.0) as server:
            study = server.study(self.study)
            for one in self.deeds:
                try:
                    self.received[one] = one.do(study)
                except eh.EverholdError as error:
                    if "would not be narrower" in str(error):  # of a certificate, by public facts
                        self.refused += 1
                    else:
                        self.failed.append(error)


def _deeds(number, stop):
    i = 0
    while not stop.is_set():
        yield Deed(number, i, KINDS[(i + number) % len(KINDS)])
        i += 1


def _check(place):
    with eh.Holdout.open(place) as held:  # nothing is left to end, and the price is that of the record
        price = held.budget.ask_price
    return check_record(place, price)


def test_fifty_kills(tmp_path, monkeypatch, serving):
    monkeypatch.setattr(Server, "_pause", lambda *_: 0.05)  # never give up, and never rest: the lives are short
    process = serving(tmp_path, make_study(tmp_path))
    secret, token = process.tokens.create("ann", "analyst")
    stop = threading.Event()
    analysts = [_Client(process.url, secret, "patients", _deeds(number, stop)) for number in range(ANALYSTS)]
    for one in analysts:
        one.start()
    rng = random.Random(5)

    def count():
        return sum(len(one.received) for one in analysts)

    for _ in range(KILLS):
        before, begun = count(), time.monotonic()
        wait_for(lambda n=before: count() >= n + LEAST or any(one.failed for one in analysts))
        gap = (time.monotonic() - begun) / LEAST
        time.sleep(rng.uniform(0.0, 4.0) * gap)  # at any moment of the next answers, however slow the machine is
        process.kill()
        process.start()
    stop.set()
    for one in analysts:
        one.join()
    assert not [error for one in analysts for error in one.failed]
    received = {deed: found for one in analysts for deed, found in one.received.items()}
    assert len(received) >= LEAST * KILLS
    assert set(Counter(one.kind for one in received)) == set(KINDS)

    with eh.connect(process.url, secret) as server:  # the same again, by the living server, for nothing
        study = server.study("patients")
        head = study.head
        for deed, found in random.Random(1).sample(sorted(received.items(), key=str), 300):
            assert deed.do(study) == found, deed
        assert study.head == head
    assert process.stop() == 0

    place = tmp_path / "patients.everhold"
    log = read_study(place)
    rounds = {one.request_id: one.answer for one in log.rounds if one.request_id is not None}
    for deed, found in received.items():
        if deed.kind == "ask" and (answer := rounds.get(f"{token.id}:ask:{deed.request}")) is not None:
            assert answer.to_dict() == found
    counted = _check(place)
    assert counted["interrupted"], "no kill met an act on its way"


def test_closing_while_the_server_is_killed(tmp_path, monkeypatch, serving):
    """The last act is done once, and whoever asks again gets what it read."""
    monkeypatch.setattr(Server, "_pause", lambda *_: 0.05)
    names = [f"study{number}" for number in range(CLOSED)]
    process = serving(tmp_path, *(make_study(tmp_path, name) for name in names))
    secret, _ = process.tokens.create("cus", "custodian")
    assert {ACTS[kind].permission for kind in LAST} == {"manage"}
    rng = random.Random(8)
    for number, name in enumerate(names):
        custodian = _Client(process.url, secret, name, [Deed(0, number, kind) for kind in LAST])
        custodian.start()
        time.sleep(rng.uniform(0.0, 0.02))
        process.kill()
        process.start()
        custodian.join()
        assert not custodian.failed
        with eh.connect(process.url, secret) as server:
            study = server.study(name)
            assert {one: one.do(study) for one in custodian.received} == custodian.received
            with pytest.raises(eh.HoldoutClosed):
                study.ask("age > 33")
    assert process.stop() == 0
    for name in names:
        assert _check(tmp_path / f"{name}.everhold")["close"] == 1
