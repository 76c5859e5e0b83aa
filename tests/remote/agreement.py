"""Whether a remote engine agrees with memory on every row, in batches, because each costs a job."""

from __future__ import annotations

import numpy as np

from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.remote import RemoteEngine
from everhold.data.table import RowTable
from everhold.data.units import Units
from tests.engines import traps
from tests.engines.rows import KINDS, questions


def unit_of(values) -> Units:
    """Units by equality of the values themselves; a missing one stands alone."""
    codes, seen = [], {}
    for place, value in enumerate(values):
        missing = value is None or value != value
        codes.append(seen.setdefault(("alone", place) if missing else ("value", value), len(seen)))
    return Units(np.array(codes), len(seen))


def differing(engine, memory, asked, batch=25) -> list[str]:
    """The questions on which a row differs."""
    found = [steps for start in range(0, len(asked), batch) for steps in engine.steps_of(asked[start : start + batch])]
    return [q.name for q, steps in zip(asked, found, strict=True) if not np.array_equal(steps, memory.steps(q))]


def check_random(rows, columns, seeds, count=125, batch=25) -> None:
    engine, memory = RemoteEngine(rows, KINDS, place="id"), MemoryEngine(RowTable(columns))
    for seed in seeds:
        assert not differing(engine, memory, questions(count, seed), batch)


def check_traps(rows, columns, every=1, batch=25) -> None:
    engine, memory = RemoteEngine(rows, traps.KINDS, place="id"), MemoryEngine(traps.table(columns))
    assert not differing(engine, memory, traps.questions()[::every], batch)
