"""What people ask for: each statistic a value with its steps.

A statistic is a frozen dataclass in a file of this folder, with `name`, `title`, `example` and `steps`. It is found
automatically, and every interface offers it: Python, rehearsal, command line, HTTP, page, client and MCP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar, cast

from everhold.errors import QuestionError, did_you_mean
from everhold.statistics.parameters import arguments, build_statistic
from everhold.statistics.statistic import Statistic

__all__ = ["STATISTICS", "checked_statistic", "is_statistic", "statistic"]

R = TypeVar("R")


def _by_name() -> dict[str, type[Statistic[Any]]]:
    by_name: dict[str, type[Statistic[Any]]] = {}
    for module in (import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)):
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__ and is_dataclass(value)
            if own and hasattr(value, "steps") and hasattr(value, "name"):
                by_name[value.name] = cast("type[Statistic[Any]]", value)
    return by_name


STATISTICS: dict[str, type[Statistic[Any]]] = _by_name()
"""Every statistic by its name."""


def is_statistic(question: object) -> bool:
    """Whether something that was asked is a statistic."""
    return type(question) is STATISTICS.get(getattr(type(question), "name", ""))


def require_no_expect(question: object, expect: float | None) -> None:
    """Refuse `expect=` for a statistic: it has several parts, and what is foreseen belongs to one."""
    if expect is not None and is_statistic(question):
        raise QuestionError("expect= is for single questions. Ask or read a statistic without it. Nothing was charged.")


def checked_statistic(statistic: Statistic[R]) -> Statistic[R]:
    """The same statistic with arguments that a record can keep, or what is wrong with them. Before anything is charged."""
    kind: Any = type(statistic)
    checked: Statistic[R] = build_statistic(kind, arguments(statistic))
    return checked


def statistic(name: str, given: Mapping[str, Any]) -> Statistic[Any]:
    """The statistic of that name, from arguments that a program sent.

    >>> statistic("mean", {"question": "bmi", "low": 10, "high": 60})
    Mean(question='bmi', low=10, high=60, given=None)
    """
    if name not in STATISTICS:
        raise QuestionError(
            f"there is no statistic {name[:40]!r}.{did_you_mean(name, STATISTICS)} Expected one of {', '.join(STATISTICS)}."
        )
    return build_statistic(STATISTICS[name], given)
