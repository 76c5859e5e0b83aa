"""Who plays: analysts, contenders and worlds by name, each added by one file that says so.

A file in `games/analysts`, `games/mechanisms` or `games/worlds` registers what it defines; `load` does the same for a file
of your own, and `make bench-paper ALSO=FILE` plays what it adds against everybody.
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
    """Things by name, in the order in which they were registered.

    >>> games = Register[int]("game")
    >>> _ = games.add("chess")(64)
    >>> games["ches"]
    Traceback (most recent call last):
    ...
    everhold.errors.SettingError: there is no game called 'ches'. Did you mean 'chess'? There are: chess.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: dict[str, T] = {}

    def add(self, name: str) -> Callable[[S], S]:
        """A decorator that registers what it stands above."""

        def keep(thing: S) -> S:
            if name in self._known and self._known[name] is not thing:
                raise SettingError(f"there is a {self._kind} called {name!r} already. Choose another name.")
            self._known[name] = thing  # type: ignore[assignment]
            return thing

        return keep

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            raise SettingError(
                f"there is no {self._kind} called {name!r}.{did_you_mean(name, self._known)} There are: "
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
    for found in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{found.name}")


_loaded: set[Path] = set()


def load(path: str | Path) -> None:
    """Run a file of your own, so that it registers what it defines; once. It is trusted code."""
    place = Path(path).resolve()
    if place in _loaded:
        return
    spec = importlib.util.spec_from_file_location(f"everhold_games_{place.stem}", place)
    if spec is None or spec.loader is None or not place.exists():
        raise SettingError(f"{place} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _loaded.add(place)
