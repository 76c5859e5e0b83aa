"""Random examples are the same in every run, so that a run says something about the change and not about its luck.

`HYPOTHESIS_PROFILE=explore` draws others, to look for what the usual ones miss.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest first: a process that begins with one at the end would keep the others waiting."""
    items.sort(key=_speed)  # which keeps the order of all others


def _speed(item: pytest.Item) -> int:
    if "test_kills" in item.nodeid or "test_ten_thousand" in item.nodeid:
        return 0
    return 1 if item.get_closest_marker("slow") else 2
