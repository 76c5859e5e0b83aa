"""Every test, doctests included, has a registry of studies of its own: the user's is neither read nor written."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_registry(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"))


_numbers = iter(range(10**9))
