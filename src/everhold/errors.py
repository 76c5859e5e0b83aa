"""Everything everhold itself may raise, in one tree.

EverholdError
├── SettingError (ValueError)      a number or option out of its range: confidence, density, half-width, rows …
├── DataError (ValueError)         the private table cannot be used as it is
├── PriorError (ValueError)        the public prior cannot be used, or does not fit the table
├── QuestionError (ValueError)     a question cannot be answered as it was asked; nothing was charged
│   ├── HoldoutClosed              the last act was made; what was recorded can still be read
│   ├── PrivacyError               a private study has no such act or question; nothing was charged
│   └── InvalidOutcomes            a file of outcomes cannot be used; nothing was charged
├── BudgetUsedUp                   too much was disclosed for another act: new rows or cases are needed
│   ├── PrecisionExhausted         a fixed-precision holdout declines; it carries `asked`, `left` and `needed`
│   │   └── PrivacyUsedUp          the privacy budget of a private study cannot pay for another act
│   └── GateUsedUp                 a gate cannot certify any further promotion
├── LedgerError                    the record of a session cannot be continued here, or would be forked
│   ├── LedgerBusy                 another process is asking; wait for it
│   ├── RequestConflict            a request id is already used for another question; nothing was charged
│   ├── WrongSignature             a signed certificate was changed, or another key signed it
│   └── RowsInUse                  these rows have a study already, whose budget a new study would reset
├── ServerError                    a server cannot be reached, or refuses the request
│   └── AccessDenied               the server does not know the token, or the token does not allow this
├── ReplayError                    a transcript does not match the questions, coins or settings of the replay
└── MissingExtra (ImportError)     an optional part is not installed; the message names the extra

SchemaWarning (UserWarning)        a point of a proposed schema that its owner should check
ReferenceWarning (UserWarning)     the reference is much smaller than the private side, or cannot be compared with it
PrivilegeWarning (UserWarning)     a database role may do more than read the private table
SearchWarning (UserWarning)        scores do not tell the models of a search apart
RowsInUseWarning (UserWarning)     these rows have another study already, whose disclosures the new one does not count

A message says what is wrong, what was expected and what to do next. It carries public values only, never a private row.
"""

from __future__ import annotations

from difflib import get_close_matches
from inspect import currentframe
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AccessDenied",
    "BudgetUsedUp",
    "DataError",
    "EverholdError",
    "GateUsedUp",
    "HoldoutClosed",
    "InvalidOutcomes",
    "LedgerBusy",
    "LedgerError",
    "MissingExtra",
    "PrecisionExhausted",
    "PriorError",
    "PrivacyError",
    "PrivacyUsedUp",
    "PrivilegeWarning",
    "QuestionError",
    "ReferenceWarning",
    "ReplayError",
    "RequestConflict",
    "RowsInUse",
    "RowsInUseWarning",
    "SchemaWarning",
    "SearchWarning",
    "ServerError",
    "SettingError",
    "WrongSignature",
    "after_charge",
    "did_you_mean",
    "near_word",
    "outside",
    "require_number",
    "require_whole",
]


class EverholdError(Exception):
    """The base class of all errors that everhold raises."""


_NOTHING = "Nothing was charged."
_NOTHING_READ = "Nothing was read or charged"

E = TypeVar("E", bound=EverholdError)


def after_charge(error: E, charge: str) -> E:
    """The same error, where something was charged after all: it says what.

    >>> print(after_charge(DataError("the database does not answer. Nothing was charged. Ask again."), "It was charged."))
    the database does not answer. It was charged. Ask again.
    """
    said = str(error)
    return type(error)(said.replace(_NOTHING, charge) if _NOTHING in said else f"{said} {charge}")


class SettingError(EverholdError, ValueError):
    """A number or an option is out of range."""


class DataError(EverholdError, ValueError):
    """The private table cannot be used as it is."""


class PriorError(EverholdError, ValueError):
    """The public prior cannot be used, or does not fit the private table."""


class QuestionError(EverholdError, ValueError):
    """A question cannot be answered as asked. Nothing was charged."""


class HoldoutClosed(QuestionError):
    """The last act was made, and the private rows are not read again. What was recorded can still be read."""


class PrivacyError(QuestionError):
    """A private study cannot do this: its privacy could not be kept. No row was read, and nothing was charged."""


class InvalidOutcomes(QuestionError):
    """Outcomes for a gate cannot be used: the file or its cases are not what was expected. Nothing was charged."""


class BudgetUsedUp(EverholdError):
    """So much has been disclosed that a promise could not be kept for another act. Refused by public facts alone."""


class GateUsedUp(BudgetUsedUp):
    """So much has been disclosed about a gate's cases that no further promotion can be certified with them."""


class PrecisionExhausted(BudgetUsedUp):
    """A fixed-precision holdout can no longer promise its half-width, and declines to answer.

    The refusal is a function of the transcript alone, so it reveals nothing new about the private rows.
    """

    def __init__(self, message: str, *, asked: float, left: float, needed: float, more_rows: int | None) -> None:
        super().__init__(message)
        self.asked = asked
        """The promised half-width, on the scale of the promise: shares for `Holdout(half_width=...)`."""
        self.left = left
        """The part of it that remains for the sketch's tolerance after the sampling error."""
        self.needed = needed
        """The smallest tolerance that noise alone does not exceed."""
        self.more_rows = more_rows
        """How many more private rows would have been enough; None if no number of rows would be."""
        self.answers: list[object] = []
        """In a batch or a statistic of several parts: the answers before this refusal, which are recorded and charged."""

    def __str__(self) -> str:
        said = super().__str__()
        if not self.answers:
            return said
        surprises = sum(bool(getattr(answer, "surprise", False)) for answer in self.answers)
        parts = f"{len(self.answers):,} part{'' if len(self.answers) == 1 else 's'}"
        before = f"{parts} of it {'was' if len(self.answers) == 1 else 'were'} answered before ({surprises:,} surprises)"
        paid = f"{before}, charged, and stay recorded: see the log."
        if _NOTHING_READ not in said:
            return f"{said} {paid}"
        return said.replace(_NOTHING_READ, f"{paid} Nothing more was read or charged")


class PrivacyUsedUp(PrecisionExhausted):
    """The privacy budget of a study cannot pay for another act. A function of the transcript: no row was read.

    `asked` is ε, `left` and `needed` are parts of the whole budget.
    """


class LedgerError(EverholdError):
    """The record of a session cannot be continued here: a second, forked or copied record would void the guarantee."""


class LedgerBusy(LedgerError):
    """Another process has the study open for asking: wait until it closes it."""

    holder: str = "unknown"
    """The process that has it open, by its number."""


class RequestConflict(LedgerError):
    """The request id is already used for another question. Nothing was charged."""


class RowsInUse(LedgerError):
    """These rows have a study already. A second one would start with a full budget, as if nothing had been disclosed."""


class WrongSignature(LedgerError):
    """A signed certificate was changed after it was signed, or another key than the expected one signed it."""


class ServerError(EverholdError):
    """A server cannot be reached, or refuses the request."""


class AccessDenied(ServerError):
    """The server does not know the token, or the token does not allow this request."""


class ReplayError(EverholdError):
    """A transcript does not match the questions, coins or settings of the replay."""


class MissingExtra(EverholdError, ImportError):
    """An optional part of everhold is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part of everhold. Install it with: pip install 'everhold[{extra}]'")


class SchemaWarning(UserWarning):
    """A point of a proposed schema that its owner should check. Derived from public rows alone."""


class ReferenceWarning(UserWarning):
    """The reference is much smaller than the private side, so that asks are far wider than they could be; or it has too few
    different rows to show whether it contains private ones."""


class PrivilegeWarning(UserWarning):
    """A database role may do more than read the private table."""


class SearchWarning(UserWarning):
    """Scores that a search is led by do not tell its candidates apart."""


class RowsInUseWarning(UserWarning):
    """These rows have another study already. Where a question follows from its answers, the new intervals are not valid."""


def outside() -> int:
    """The level of the caller's line that is not everhold's own, for `warnings.warn`."""
    here, level = currentframe(), 0
    frame = None if here is None else here.f_back
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "everhold":
        frame, level = frame.f_back, level + 1
    return level + 1


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence to append that suggests the nearest spelling; empty if no known word is near.

    >>> did_you_mean("smokr", ["age", "smoker"])
    " Did you mean 'smoker'?"
    """
    near = near_word(word, known)
    return "" if near is None else f" Did you mean {near!r}?"


def near_word(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word nearest in spelling, ignoring case; None if no known word is near.

    >>> near_word("YORK", ["Leeds", "York"]), near_word("Bath", ["Leeds", "York"])
    ('York', None)
    """
    lowered = {one.strip().lower(): one for one in known}
    near = get_close_matches(word.strip().lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[near[0]] if near else None


def require_number(value: object, what: str) -> None:
    """Raise SettingError unless the value is a real number. Call it before comparing the value with anything."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SettingError(f"{what} is {value!r}, of type {type(value).__name__}. Expected a number.")


def require_whole(value: object, what: str) -> None:
    """Raise SettingError unless the value is a whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SettingError(f"{what} is {value!r}, of type {type(value).__name__}. Expected a whole number.")
