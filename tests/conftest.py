"""Random examples are the same in every run, so that a run says something about the change and not about its luck.

`HYPOTHESIS_PROFILE=explore` draws others, to look for what the usual ones miss.
"""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# A forked child must not collect what its parent's extensions made: their threads are not there, and it could crash.
os.register_at_fork(after_in_child=gc.freeze)

os.environ.pop("PYTEST_ADDOPTS", None)  # this run has read it; runs of pytest inside tests are not to
LONGEST = ("test_kills", "test_ten_thousand_requests")


@pytest.fixture(scope="session", autouse=True)
def _one_thread_a_process():
    """Threads of BLAS and OpenMP spin while they wait: two processes of two threads each take up to four times as long.

    That other numbers of threads give the same bits is tested by `tests/ledger/test_replay.py`, in processes of its own.
    """
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module", autouse=True)
def _registry_of_its_own(tmp_path_factory):
    """Every file of tests begins with an empty registry of studies, and none writes to that of the user."""
    before = os.environ.get("EVERHOLD_HOME")
    os.environ["EVERHOLD_HOME"] = str(tmp_path_factory.mktemp("everhold home"))
    yield
    if before is None:
        del os.environ["EVERHOLD_HOME"]
    else:
        os.environ["EVERHOLD_HOME"] = before


@pytest.hookimpl(trylast=True)  # after tests were deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slowest first, dealt out to all processes; the others in their order, so that fixtures are made once."""
    processes = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    slow = sorted((item for item in items if _is_slow(item)), key=lambda item: not _is_longest(item))
    rest = [item for item in items if not _is_slow(item)]
    dealt: list[pytest.Item] = []
    for process in range(processes):
        first = slow[process::processes]
        size = (len(items) - len(dealt)) // (processes - process)  # as xdist cuts the list into equal parts
        taken, rest = rest[: max(size - len(first), 0)], rest[max(size - len(first), 0) :]
        dealt += first + taken
    items[:] = dealt + rest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """A process that is done takes over tests from the end of another's list, which are quick ones."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None or _is_longest(item)


def _is_longest(item: pytest.Item) -> bool:
    return any(name in item.nodeid for name in LONGEST)
