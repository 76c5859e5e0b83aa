"""Registries of analysts, mechanisms and worlds by name.

A file in `games/analysts`, `games/mechanisms` or `games/worlds` registers what it defines; `load` does the same for your own
file, and `make bench-paper ALSO=FILE` plays what it adds against all others.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from everhold.errors import SettingError, did_you_mean

__all__ = ["Register", "discover", "load"]

T = TypeVar("T")
S = TypeVar("S")


class Register(Mapping[str, T], Generic[T]):
    """A mapping from names to registered objects, in the order of registration.

    >>> games = Register[int]("game")
    >>> _ = games.add("chess")(64)
    >>> games["ches"]
    Traceback (most recent call last):
    ...
    everhold.errors.SettingError: there is no game named 'ches'. Did you mean 'chess'? Known: chess.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: dict[str, T] = {}

    def add(self, name: str) -> Callable[[S], S]:
        """A decorator that registers a function under this name."""

        def keep(registered: S) -> S:
            if name in self._known and self._known[name] is not registered:
                raise SettingError(f"there is already a {self._kind} named {name!r}. Choose another name.")
            self._known[name] = registered  # type: ignore[assignment]
            return registered

        return keep

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            raise SettingError(
                f"there is no {self._kind} named {name!r}.{did_you_mean(name, self._known)} Known: "
                f"{', '.join(self._known) or 'none'}."
            )
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def discover(package: ModuleType) -> None:
    """Import every file of a package, so that it registers what it defines."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


_loaded: set[Path] = set()


def load(path: str | Path) -> None:
    """Run your own file once, so that it registers what it defines. The file must be trusted code."""
    path = Path(path).resolve()
    if path in _loaded:
        return
    spec = importlib.util.spec_from_file_location(f"everhold_games_{path.stem}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise SettingError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _loaded.add(path)
