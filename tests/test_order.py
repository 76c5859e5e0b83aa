"""Which test runs first, and in which process."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.conftest import pytest_collection_modifyitems


class Item:
    """A test that is slow or not."""

    def __init__(self, name, slow):
        self.nodeid, self._slow = name, slow

    def get_closest_marker(self, name):
        return self if self._slow and name == "slow" else None


def ordered(names, processes):
    items = [Item(name, name.startswith("slow")) for name in names]
    config = SimpleNamespace(workerinput={"workercount": processes}) if processes else SimpleNamespace()
    pytest_collection_modifyitems(config, items)
    return [item.nodeid for item in items]


NAMES = [*(f"quick {i}" for i in range(9)), *(f"slow {i}" for i in range(3)), *(f"quick {i}" for i in range(9, 20))]


def test_slow_tests_are_first_without_processes():
    found = ordered(NAMES, 0)
    assert found[:3] == ["slow 0", "slow 1", "slow 2"]
    assert found[3:] == [name for name in NAMES if name.startswith("quick")]


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_every_process_begins_with_its_share_of_the_slow_ones(processes):
    found = ordered(NAMES, processes)
    assert sorted(found) == sorted(NAMES)
    start, left = 0, len(found)
    for process in range(processes):
        size = left // (processes - process)  # xdist's parts
        slow = [f"slow {i}" for i in range(process, 3, processes)]
        assert found[start : start + len(slow)] == slow
        start, left = start + size, left - size


def test_the_longest_of_all_are_first_even_if_not_marked():
    assert ordered([*NAMES, "tests/server/test_kills.py::test_fifty_kills"], 2)[0].endswith("test_fifty_kills")


@pytest.mark.parametrize("names", [[], ["slow 0"], ["quick 0"], ["slow 0", "slow 1", "slow 2"]])
def test_a_few_tests_are_all_kept(names):
    assert sorted(ordered(names, 2)) == names
