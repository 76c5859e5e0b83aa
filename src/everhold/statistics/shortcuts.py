"""Methods named after statistics: `holdout.mean("bmi")` is `holdout.ask(eh.Mean("bmi"))`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from everhold.statistics.statistic import Statistic

__all__ = ["async_shortcut", "shortcut"]

P = ParamSpec("P")
R = TypeVar("R")


def shortcut(kind: Callable[P, Statistic[R]]) -> Callable[Concatenate[Any, P], R]:
    """A method that asks for a statistic, for a class with `ask`."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.ask(kind(*args, **kwargs))
        return result

    described: Callable[Concatenate[Any, P], R] = _described(method, kind)
    return described


def async_shortcut(kind: Callable[P, Statistic[R]]) -> Callable[Concatenate[Any, P], Awaitable[R]]:
    """The same for a class whose `ask` is awaited."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = await self.ask(kind(*args, **kwargs))
        return result

    described: Callable[Concatenate[Any, P], Awaitable[R]] = _described(method, kind)
    return described


def _described(method: Any, kind: Any) -> Any:
    method.__name__ = kind.name
    method.__qualname__ = kind.name
    method.__doc__ = kind.__doc__
    return method
