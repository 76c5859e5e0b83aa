"""What all commands share: the screen, and errors."""

from __future__ import annotations

import os
import sys
import traceback
import unicodedata
import warnings
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from everhold.errors import (
    BudgetUsedUp,
    DataError,
    EverholdError,
    LedgerError,
    MissingExtra,
    PriorError,
    QuestionError,
    RowsInUseWarning,
    SchemaWarning,
    ServerError,
    SettingError,
    WrongSignature,
)

__all__ = ["AUDIT_FAILED", "console", "guarded", "note", "printable", "problem", "say", "warn"]

AUDIT_FAILED = 7
UNFORESEEN = 70
_CODES: tuple[tuple[type[EverholdError], int], ...] = (
    (QuestionError, 3),
    (BudgetUsedUp, 6),
    (WrongSignature, AUDIT_FAILED),
    (LedgerError, 5),
    (DataError, 4),
    (PriorError, 4),
    (SettingError, 4),
    (ServerError, 9),
    (MissingExtra, 4),
)


class _Screen(Console):
    """Ends quietly where the reader of the output has seen enough; not with 1, which is a gate's verdict."""

    def on_broken_pipe(self) -> None:
        """The reader is gone."""
        self.quiet = True
        _leave_quietly()


def _leave_quietly() -> NoReturn:
    """Nothing more can be shown: 141 is what a shell has for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141)


console = _Screen(soft_wrap=True)
_errors = Console(stderr=True, soft_wrap=True)

P = ParamSpec("P")
T = TypeVar("T")


def printable(text: str) -> str:
    """Text from elsewhere, without control characters that a terminal would obey.

    >>> printable("ann\\x1b[31m")
    'ann?[31m'
    """
    return "".join(
        letter if letter in "\n\t" or (letter.isprintable() and unicodedata.category(letter) != "Cf") else "?"
        for letter in text
    )


def say(text: str, *, style: str | None = None) -> None:
    """A line on the screen, as it is: no markup, nothing that a terminal would obey."""
    console.print(Text(printable(text), style=style or ""))


def problem(message: str) -> None:
    """A sentence on the error stream."""
    _errors.print("error: ", style="bold red", end="")
    _errors.print(Text(printable(message)))


def note(message: str) -> None:
    """A remark on the error stream, beside what a command prints."""
    _errors.print("note: ", style="bold yellow", end="")
    _errors.print(Text(printable(message)))


def warn(message: str) -> None:
    """A warning on the error stream."""
    _errors.print("warning: ", style="bold yellow", end="")
    _errors.print(Text(printable(message)))


def _warned(message: Warning | str, *_: object, **__: object) -> None:
    warn(str(message))


def guarded(command: Callable[P, T]) -> Callable[P, T]:
    """Turn everhold's own errors into a sentence and an exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", SchemaWarning)
                warnings.simplefilter("always", RowsInUseWarning)
                warnings.showwarning = _warned
                return command(*args, **kwargs)
        except EverholdError as error:
            problem(str(error))
            raise typer.Exit(next((code for kind, code in _CODES if isinstance(error, kind)), UNFORESEEN)) from None
        except BrokenPipeError:
            _leave_quietly()
        except (OSError, UnicodeError) as error:
            problem(f"a file could not be read or written: {error}.")
            raise typer.Exit(4) from None
        except ValueError as error:
            if "has an empty name" not in str(error):  # the error of Path for "."
                traceback.print_exc()
                raise typer.Exit(UNFORESEEN) from error
            problem("a folder was named where a file was expected.")
            raise typer.Exit(4) from None
        except KeyboardInterrupt:
            problem("interrupted. Every returned answer is recorded.")
            raise typer.Exit(130) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:  # never 1, which is a gate's verdict
            traceback.print_exc()
            raise typer.Exit(UNFORESEEN) from error

    return run
