"""Every test, doctests included, has a registry of studies of its own: the user's is neither read nor written."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore = [
    f"src/everhold/adapters/{host}.py"
    for host in ("dspy", "gepa", "inspect_ai", "mlflow", "optuna")
    if find_spec(host) is None
]
"""Doctests of an adapter need its host: `make test-adapters` has all of them."""

_numbers = iter(range(10**9))


@pytest.fixture(autouse=True, scope="module")
def _registry_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For what is made once for a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVERHOLD_HOME", str(tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"))
        yield


@pytest.fixture(autouse=True)
def _registry_of_test(
    _registry_of_module: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"))
