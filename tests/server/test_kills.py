"""SIGKILL under load, fifty times: what any client received is in the ledger, and retries get the same answers."""

from __future__ import annotations

import random
import threading
import time

import pytest

import everhold as eh
from everhold.client.sync import Server
from everhold.ledger.reader import read_study
from tests.server.serving import Process, make_study, wait_for

pytestmark = pytest.mark.slow

KILLS, ANALYSTS = 50, 8
LEAST = 20  # answers of every life


class _Analyst(threading.Thread):
    """Asks without pause; keeps the answers it gets. The client tries again by itself when the server has gone."""

    def __init__(self, number, url, secret, stop):
        super().__init__(daemon=True)
        self.number, self.url, self.secret, self.stopping = number, url, secret, stop
        self.received = []
        self.failed = []

    def run(self):
        with eh.connect(self.url, self.secret, patience=3_600.0, timeout=600.0) as server:
            study = server.study("patients")
            asked = 0
            while not self.stopping.is_set():
                asked += 1
                text = f"age > {18 + asked % 70} AND bmi > {15 + (asked * ANALYSTS + self.number) / 997:.3f}"
                request = f"{self.number}-{asked}"
                try:
                    self.received.append((request, text, study.ask(text, request_id=request)))
                except eh.EverholdError as error:
                    self.failed.append(error)


def test_fifty_kills(tmp_path, monkeypatch):
    monkeypatch.setattr(Server, "_pause", lambda *_: 0.05)  # never give up, and never rest: the lives are short
    process = Process(tmp_path, make_study(tmp_path))
    process.start()
    secret, token = process.tokens.create("ann", "analyst")
    stop = threading.Event()
    analysts = [_Analyst(number, process.url, secret, stop) for number in range(ANALYSTS)]
    for one in analysts:
        one.start()
    rng = random.Random(5)

    def count():
        return sum(len(one.received) for one in analysts)

    for _ in range(KILLS):
        before, begun = count(), time.monotonic()
        wait_for(lambda n=before: count() >= n + LEAST)
        gap = (time.monotonic() - begun) / LEAST
        time.sleep(rng.uniform(0.0, 4.0) * gap)  # at any moment of the next answers, however slow the machine is
        process.kill()
        process.start()
    stop.set()
    for one in analysts:
        one.join()
    received = [item for one in analysts for item in one.received]
    assert not [error for one in analysts for error in one.failed]
    assert len(received) >= LEAST * KILLS

    with eh.connect(process.url, secret) as server:  # the same again, by the living server
        study = server.study("patients")
        for request, text, answer in random.Random(1).sample(received, 200):
            assert study.ask(text, request_id=request) == answer
        rounds = study.rounds
    assert process.stop() == 0

    kept = {}
    for one in read_study(tmp_path / "patients.everhold").rounds:
        assert one.request_id not in kept, "a request was answered twice"
        kept[one.request_id] = one.answer
    assert len(kept) == rounds
    for request, _, answer in received:
        assert kept[f"{token.id}:ask:{request}"] == answer
    assert eh.Holdout.audit_file(tmp_path / "patients.everhold").ok
