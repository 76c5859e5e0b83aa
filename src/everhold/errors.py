"""Everything everhold itself may raise, in one tree.

EverholdError
├── SettingError (ValueError)      a number or option out of its range: confidence, density, half-width, rows …
├── DataError (ValueError)         the private table cannot be used as it was given
├── PriorError (ValueError)        the public prior cannot be used, or does not fit the table
├── QuestionError (ValueError)     a question cannot be answered as it was asked; nothing was charged
├── PrecisionExhausted             a fixed-precision holdout declines: asked, left and short by are in it
├── LedgerError                    the record of a session cannot be continued here, or would be forked
│   ├── LedgerBusy                 another process is asking; wait for it
│   └── RequestConflict            a request id that belongs to another question; nothing was charged
├── ServerError                    a server cannot be reached, or declines
│   └── AccessDenied               it does not know the token, or the token does not allow this
├── ReplayError                    a transcript does not belong to what it is replayed with
└── MissingExtra (ImportError)     an optional part is not installed; the message names the extra

SchemaWarning (UserWarning)        a proposed schema that its owner should look at

A message says what was expected, what came and what to do next. It carries public values only, never a private row.
"""

from __future__ import annotations

from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AccessDenied",
    "DataError",
    "EverholdError",
    "LedgerBusy",
    "LedgerError",
    "MissingExtra",
    "PrecisionExhausted",
    "PriorError",
    "QuestionError",
    "ReplayError",
    "RequestConflict",
    "SchemaWarning",
    "ServerError",
    "SettingError",
    "did_you_mean",
    "near_word",
    "require_number",
    "require_whole",
]


class EverholdError(Exception):
    """The root of every error of everhold's own."""


class SettingError(EverholdError, ValueError):
    """A number or an option lies outside its range."""


class DataError(EverholdError, ValueError):
    """The private table cannot be used as it was given."""


class PriorError(EverholdError, ValueError):
    """The public prior cannot be used, or does not fit the private table."""


class QuestionError(EverholdError, ValueError):
    """A question cannot be answered as it was asked. Nothing was charged for it."""


class PrecisionExhausted(EverholdError):
    """A fixed-precision holdout cannot promise its half-width any more, and declines to answer.

    It is a function of the transcript alone: declining tells nothing new about the private rows.
    """

    def __init__(self, message: str, *, asked: float, left: float, needed: float, more_rows: int | None) -> None:
        super().__init__(message)
        self.asked = asked
        """The half-width that was promised, on the [-1, 1] scale."""
        self.left = left
        """What is left of it for the sketch's tolerance once sampling error is paid for."""
        self.needed = needed
        """The smallest tolerance that noise alone does not break."""
        self.more_rows = more_rows
        """How many more private rows would have carried on; None when no number of rows would."""
        self.answers: list[object] = []
        """In a batch: the answers given before this refusal."""


class LedgerError(EverholdError):
    """The record of a session cannot be continued here: a second, forked or copied one would void the guarantee."""


class LedgerBusy(LedgerError):
    """Another process has the study open for asking: wait until it is done."""


class RequestConflict(LedgerError):
    """A request id belongs to another question already. Nothing was charged."""


class ServerError(EverholdError):
    """A server cannot be reached, or declines for a reason of its own."""


class AccessDenied(ServerError):
    """A server does not know the token, or the token does not allow this."""


class ReplayError(EverholdError):
    """A transcript does not belong to the questions, coins or settings it is replayed with."""


class MissingExtra(EverholdError, ImportError):
    """An optional part of everhold is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part of everhold. Install it with: pip install 'everhold[{extra}]'")


class SchemaWarning(UserWarning):
    """Something about a proposed schema that its owner should look at. Made of public rows alone."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest a near spelling, as a sentence to append; empty when none is near.

    >>> did_you_mean("smokr", ["age", "smoker"])
    " Did you mean 'smoker'?"
    """
    near = near_word(word, known)
    return "" if near is None else f" Did you mean {near!r}?"


def near_word(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that is nearest in spelling, whatever the capitals; None when none is near.

    >>> near_word("YORK", ["Leeds", "York"]), near_word("Bath", ["Leeds", "York"])
    ('York', None)
    """
    lowered = {one.strip().lower(): one for one in known}
    near = get_close_matches(word.strip().lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[near[0]] if near else None


def require_number(value: object, what: str) -> None:
    """Refuse what is not a real number, before it is compared with anything."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SettingError(f"{what} is {value!r}, of type {type(value).__name__}. Expected a number.")


def require_whole(value: object, what: str) -> None:
    """Refuse what is not a whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SettingError(f"{what} is {value!r}, of type {type(value).__name__}. Expected a whole number.")
