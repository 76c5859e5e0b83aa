"""`everhold ask`, `try` and `shell`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

import everhold as eh
from everhold.cli.app import console, guarded, problem, say
from everhold.client.sync import RemoteRehearsal, RemoteStudy
from everhold.statistics.rehearsal import Rehearsal
from everhold.statistics.shortcuts import Asker

__all__ = ["register"]

_BATCH = 100


class What(StrEnum):
    """What is asked of an expression."""

    share = "share"
    mean = "mean"
    median = "median"
    quantile = "quantile"
    variance = "variance"
    histogram = "histogram"
    table = "table"


Study = Annotated[Path, typer.Argument(help="The study.")]
Data = Annotated[str | None, typer.Option(help="The private rows, where they are not where the study was made from.")]
ExpectHead = Annotated[str | None, typer.Option(help="Refuse a copy of the study that does not contain this head.")]
Given = Annotated[str | None, typer.Option(help="Only rows for which this is true.")]
As = Annotated[What, typer.Option("--as", help="What to ask of each expression.")]
Low = Annotated[float | None, typer.Option(help="Lower end of the range of a mean, quantile or variance.")]
High = Annotated[float | None, typer.Option(help="Upper end of it.")]
Level = Annotated[float, typer.Option(help="Of a quantile.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
ServerAt = Annotated[
    str | None, typer.Option("--server", help="Ask a server, such as https://data.example.org; STUDY is a name there.")
]
TokenIs = Annotated[
    str | None, typer.Option("--token", help="For the server; better in the environment.", envvar="EVERHOLD_TOKEN")
]


@contextmanager
def remote(study: Path, server: str, token: str | None) -> Iterator[RemoteStudy]:
    """A study behind a server."""
    with eh.connect(server, token) as connected:
        yield connected.study(str(study))


@contextmanager
def _opened(study: Path, data: str | None, expect_head: str | None) -> Iterator[eh.Holdout]:
    if study.name and study.with_name(study.name + ".contest.json").exists():
        raise eh.QuestionError(
            f"{study} is a contest, which takes submissions, not questions. Write: everhold contest submit {study} FILE "
            f"--entrant NAME; everhold contest board {study} shows where it stands."
        )
    with console.status("Opening the study …") if sys.stdout.isatty() else _nothing():
        holdout = eh.Holdout.open(study, data=data, expect_head=expect_head)
    try:
        yield holdout
    finally:
        holdout.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _ask(
    asker: Asker | RemoteStudy | RemoteRehearsal,
    text: str,
    what: What,
    given: str | None,
    low: float | None,
    high: float | None,
    level: float,
) -> Any:
    ends: dict[str, Any] = {"low": low, "high": high}
    if what is What.share:
        return asker.share(text, given=given)
    if what is What.mean:
        return asker.mean(text, given=given, **ends)
    if what is What.median:
        return asker.median(text, given=given, **ends)
    if what is What.quantile:
        return asker.quantile(text, level, given=given, **ends)
    if what is What.variance:
        return asker.variance(text, given=given, **ends)
    if what is What.histogram:
        return asker.histogram(text, given=given)
    first, _, second = text.partition(" by ")
    return asker.table(first.strip(), second.strip() or None, given=given)


def _as_json(text: str, found: Any) -> str:
    if isinstance(found, eh.Shares):
        cells = [
            {
                "label": list(label),
                "value": _or_null(cell),
                "low": cell.low,
                "high": cell.high,
                "surprise": cell.surprise,
            }
            for label, cell in found
        ]
        return json.dumps({"question": text, "cells": cells}, ensure_ascii=False)
    shown = {
        "question": text,
        "value": _or_null(found),
        "low": found.low,
        "high": found.high,
        "surprise": found.surprise,
    }
    shown |= {"round": found.round, "spent": found.spent}
    if isinstance(found, eh.Finding):
        shown |= {"what": found.what, "unit": found.unit}
    if isinstance(found, eh.Comparison):
        shown["verdict"] = found.verdict
    return json.dumps(shown, ensure_ascii=False)


def _or_null(found: Any) -> float | None:
    """The estimate; null where there is none."""
    return float(found.value) if found.value == found.value else None


def _show(text: str, found: Any, as_json: bool, several: bool) -> None:
    if as_json:
        typer.echo(_as_json(text, found))
    elif isinstance(found, eh.Shares):
        say(str(found))
    else:
        label = f"{text}: " if several and isinstance(found, eh.Answer) else ""
        style = "yellow" if found.surprise else None
        say(f"{label}{found}", style=style)


@guarded
def ask(
    study: Study,
    questions: Annotated[list[str] | None, typer.Argument(help='Questions such as "age > 40 AND smoker".')] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a question a line; # begins a comment.")] = None,
    what: As = What.share,
    given: Given = None,
    low: Low = None,
    high: High = None,
    level: Level = 0.5,
    as_json: AsJson = False,
    who: Annotated[str | None, typer.Option(help="Your name, for the record.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Asked again under this id, the answer is the same.")] = None,
    data: Data = None,
    expect_head: ExpectHead = None,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """Ask a study one question, several, or a file of them.

    Examples:

        everhold ask study.everhold "age > 40 AND smoker"

        everhold ask study.everhold bmi --as mean --low 10 --high 60 --given smoker

        everhold ask study.everhold "city by smoker" --as table

        everhold ask study.everhold --file questions.txt --json

        everhold ask patients "age > 40" --server https://data.example.org
    """
    asked = [*(questions or []), *(_lines(file) if file is not None else [])]
    if not asked:
        raise eh.QuestionError("no question came. Expected one after the study, or --file with one a line.")
    plain = what is What.share and given is None
    if request_id is not None and not plain:
        raise eh.QuestionError("--request-id goes with plain questions, which are answered in one round.")
    if server is not None:
        if who is not None or data is not None or expect_head is not None:
            raise eh.SettingError(
                "--who, --data and --expect-head are for studies on this machine; a token says who asks."
            )
        with remote(study, server, token) as found:
            _ask_all(found, asked, plain, what, given, low, high, level, as_json, request_id)
        return
    with _opened(study, data, expect_head) as holdout:
        holdout.who = who
        if len(asked) > 1 and plain:
            _check_all(holdout, asked)
        _ask_all(holdout, asked, plain, what, given, low, high, level, as_json, request_id)


def _ask_all(
    holdout: eh.Holdout | RemoteStudy, asked: list[str], plain: bool, what: What, given: str | None, low: float | None,
    high: float | None, level: float, as_json: bool, request_id: str | None,
) -> None:  # fmt: skip
    if not plain:
        for text in asked:
            _show(text, _ask(holdout, text, what, given, low, high, level), as_json, len(asked) > 1)
        return
    if len(asked) == 1:
        _show(asked[0], holdout.ask(asked[0], request_id=request_id), as_json, False)
        return
    starts = range(0, len(asked), _BATCH)
    for start in track(starts, "Asking", console=console, transient=True, disable=as_json or not console.is_terminal):
        some = asked[start : start + _BATCH]
        batch = None if request_id is None else f"{request_id}/{start // _BATCH}"
        try:
            answers = holdout.ask_many(some, request_id=batch)
        except eh.PrecisionExhausted as refusal:
            for text, paid in zip(some, refusal.answers, strict=False):
                _show(text, paid, as_json, True)
            raise
        for text, answer in zip(some, answers, strict=True):
            _show(text, answer, as_json, True)


def _check_all(holdout: eh.Holdout, asked: list[str]) -> None:
    """Every mistake at once, before the first question is charged."""
    wrong = []
    for number, text in enumerate(asked, 1):
        try:
            holdout.check(text)
        except eh.QuestionError as error:
            wrong.append(f"question {number}: {error}")
    if wrong:
        more = f"\n… and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise eh.QuestionError("\n".join(wrong[:5]) + more)


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise eh.DataError(f"{file} could not be read: {error.strerror}.") from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@guarded
def try_(
    study: Study,
    questions: Annotated[list[str], typer.Argument(help="Questions to try on the public side.")],
    what: As = What.share,
    given: Given = None,
    low: Low = None,
    high: High = None,
    level: Level = 0.5,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """Try questions on the public side alone: nothing is spent, no private row is needed.

    Example:

        everhold try study.everhold "age > 40 AND smoker"
    """
    if server is not None:
        with remote(study, server, token) as found:
            _try_all(found.rehearsal, questions, what, given, low, high, level)
        return
    _try_all(eh.Holdout.rehearse(study), questions, what, given, low, high, level)


def _try_all(
    rehearsal: Rehearsal | RemoteRehearsal, questions: list[str], what: What, given: str | None, low: float | None,
    high: float | None, level: float,
) -> None:  # fmt: skip
    for text in questions:
        if what is What.share and given is None:
            say(str(rehearsal.try_out(text)))
        else:
            _show(text, _ask(rehearsal, text, what, given, low, high, level), False, len(questions) > 1)


_SHELL_HELP = """Ask as in  age > 40 AND smoker
  share Q | given G      among those for whom G is true
  mean X [low high]      median X [low high]      quantile X LEVEL [low high]
  histogram X            table X [by Y]           try Q      (nothing is spent)
  schema  status  head  help  quit"""


@guarded
def shell(study: Study, data: Data = None, expect_head: ExpectHead = None) -> None:
    """A prompt with history and completion of columns.

    Example:

        everhold shell study.everhold
    """
    with _opened(study, data, expect_head) as holdout:
        _prepare_prompt(holdout, study)
        say(f"{holdout}\n{_SHELL_HELP}")
        while True:
            try:
                line = input("everhold> ").strip()
            except EOFError:
                console.print()
                return
            except KeyboardInterrupt:
                console.print()
                continue
            if line in ("quit", "exit"):
                return
            if line:
                try:
                    _answer_line(holdout, line)
                except eh.LedgerError:
                    raise
                except eh.EverholdError as error:
                    problem(str(error))


def _answer_line(holdout: eh.Holdout, line: str) -> None:
    word, _, rest = line.partition(" ")
    body, _, given = (part.strip() for part in rest.partition("| given "))
    group = given or None
    if line in ("help", "?"):
        say(_SHELL_HELP)
    elif line == "schema":
        say(repr(holdout.schema))
    elif line == "status":
        say(repr(holdout))
    elif line == "head":
        say(holdout.head)
    elif word == "try" and rest:
        say(str(holdout.try_out(rest)))
    elif word in ("share", "histogram", "table") and rest:
        _show(body, _ask(holdout, body, What(word), group, None, None, 0.5), False, False)
    elif word in ("mean", "median", "variance", "quantile") and rest:
        expression, numbers = _trailing_numbers(body)
        level = numbers.pop(0) if word == "quantile" and numbers else 0.5
        low, high = (numbers[0], numbers[1]) if len(numbers) == 2 else (None, None)
        _show(expression, _ask(holdout, expression, What(word), group, low, high, level), False, False)
    else:
        _show(line, holdout.ask(line), False, False)


def _trailing_numbers(text: str) -> tuple[str, list[float]]:
    """`bmi 10 60` is the expression bmi and the numbers 10 and 60."""
    words = text.split()
    numbers: list[float] = []
    while len(words) > 1:
        try:
            numbers.insert(0, float(words[-1]))
        except ValueError:
            break
        words.pop()
    return " ".join(words), numbers


def _prepare_prompt(holdout: eh.Holdout, study: Path) -> None:
    """History in the study's folder, completion of columns and words, where the terminal has readline."""
    try:
        import atexit
        import readline
    except ImportError:
        return
    history = study.with_name(f".{study.name}.history")
    if history.exists():
        readline.read_history_file(history)
    atexit.register(lambda: readline.write_history_file(history))
    names = list(holdout.schema or {})
    words = [
        *names,
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "LIKE",
        "IS NULL",
        "mean",
        "median",
        "quantile",
        "table",
        "share",
    ]

    def complete(start: str, state: int) -> str | None:
        found = [word for word in words if word.lower().startswith(start.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" ()<>=!,+-*/%")
    readline.parse_and_bind("tab: complete")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(ask)
    app.command("try")(try_)
    app.command()(shell)
