"""Other people's libraries of differential privacy, which tests compare with; `make test-oracles` installs them."""

from __future__ import annotations

import importlib
import os

import pytest


def oracle(name: str):
    """A library. Where it is not installed the test is skipped, unless `EVERHOLD_REQUIRE=oracles` says that it must be."""
    if "oracles" in os.environ.get("EVERHOLD_REQUIRE", "").split(","):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason="`make test-oracles` installs it")
