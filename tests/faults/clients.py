"""Clients that ask until they are killed, and say what they saw: the other half of the kill loop."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import astuple
from pathlib import Path

import numpy as np

import everhold as eh

CLIENTS = 3


def rows(size: int, seed: int, smokers: float) -> dict[str, np.ndarray]:
    """A small table."""
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size).astype(float), "smoker": rng.random(size) < smokers}


PRIVATE = rows(400, 0, 0.45)
PUBLIC = rows(300, 1, 0.20)


def question(client: int, i: int) -> str:
    """The i-th question of a client; some are asked by several, under ids of their own."""
    if i % 5 == 4:
        return f"age > {30 + i % 40}"
    return f"age > {18 + (7 * i + 13 * client) % 70} AND {'NOT ' if i % 2 else ''}smoker AND age <> {1000 * client + i}"


def request(client: int, i: int) -> str:
    """Its request id."""
    return f"client {client}, question {i}"


def create(path: Path) -> None:
    """A new study."""
    eh.Holdout.create(path, PRIVATE, prior=eh.Reference(PUBLIC), seed=5).close()


def ask_for_ever(path: Path, done: list[int], told: int, batches: bool) -> None:
    """Open the study and ask from several threads; each answer is written to the pipe once it is seen."""
    held = eh.Holdout.open(path, data=PRIVATE)
    lock = threading.Lock()

    def say(client: int, i: int, answer: eh.Answer) -> None:
        line = json.dumps([client, i, *astuple(answer)]) + "\n"
        with lock:
            os.write(told, line.encode())

    def client(number: int) -> None:
        i = done[number]
        while True:
            if batches and number == 0:
                some = range(i, i + 4)
                answers = held.ask_many([question(number, j) for j in some], request_id=f"batch {i}")
                for j, answer in zip(some, answers, strict=True):
                    say(number, j, answer)
                i += 4
                continue
            say(number, i, held.ask(question(number, i), request_id=request(number, i), who=f"client {number}"))
            i += 1

    threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
