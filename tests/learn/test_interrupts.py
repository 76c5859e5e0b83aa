"""What somebody's code raises on a private row says nothing; a person's interrupt is one."""

from __future__ import annotations

import asyncio
import os
import signal

import numpy as np
import pytest

from everhold.learn.layout import predicted_in_private
from everhold.queries.query import RowFunction
from everhold.session.session_acts import _no_error

ROWS = np.arange(8.0)[:, None]
LIKE = np.zeros(3, dtype=np.int64)
RAISED = [asyncio.CancelledError, SystemExit, GeneratorExit, KeyboardInterrupt, MemoryError]


def fail_at(error):
    def predict(rows):
        if 5.0 in rows:
            raise error("the row is there")
        return np.ones(len(rows), dtype=np.int64)

    return predict


@pytest.mark.parametrize("error", RAISED)
def test_a_model_that_fails_on_a_row_predicts_it_wrongly(error):
    found = predicted_in_private(fail_at(error), ROWS, LIKE)
    assert np.isnan(found[5])
    assert found[[0, 1, 2, 3, 4, 6, 7]].tolist() == [1.0] * 7


@pytest.mark.parametrize("error", RAISED)
def test_a_criterion_that_fails_is_the_worst(error):
    def criterion(index):
        raise error("the row is there")

    assert _no_error(criterion, 0) == float("-inf")


@pytest.mark.parametrize("error", RAISED)
def test_a_callable_that_fails_on_a_row_says_no_there(error):
    def question(rows):
        if 5.0 in rows["x"]:
            raise error("the row is there")
        return np.ones(len(rows["x"]), dtype=np.bool_)

    rows = {"x": ROWS[:, 0]}
    whole = RowFunction(lambda rows: rows["x"] != 5.0).on_sample(rows, 8, "share")
    assert RowFunction(question).on_sample(rows, 8, "share") == whole


@pytest.mark.skipif(os.name == "nt", reason="a signal to oneself ends the process there")
def test_an_interrupt_by_a_signal_is_raised():
    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):  # Python delivers it at the next step
            pass
        return np.ones(8, dtype=np.int64)

    outside = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        _interrupts_are_raised(interrupted)
    finally:
        signal.signal(signal.SIGINT, outside)


def _interrupts_are_raised(interrupted):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        predicted_in_private(interrupted, ROWS, LIKE)
    with pytest.raises(KeyboardInterrupt):
        _no_error(interrupted, 0)
    with pytest.raises(KeyboardInterrupt):
        RowFunction(interrupted).on_sample({"x": ROWS[:, 0]}, 8, "share")
    assert signal.getsignal(signal.SIGINT) is before
