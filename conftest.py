"""Every test, doctests included, has a registry of studies of its own: the user's is neither read nor written."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore = [
    f"src/everhold/adapters/{host}.py"
    for host in ("dspy", "gepa", "inspect_ai", "mlflow", "optuna")
    if find_spec(host) is None
]
"""Doctests of an adapter need its host: `make test-adapters` has all of them."""


@pytest.fixture(autouse=True)
def _own_registry(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"))


_numbers = iter(range(10**9))
