"""`everhold ask`, `try` and `shell`."""

from __future__ import annotations

import getpass
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

import everhold as eh
from everhold.cli.app import console, guarded, problem, say, warn
from everhold.client.sync import RemoteStudy
from everhold.session.holdout import holdout_without_rows
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.finding import Result
from everhold.statistics.parameters import Parameter, parameters
from everhold.statistics.statistic import Statistic

__all__ = [
    "AsJson",
    "Data",
    "ExpectHead",
    "RequestId",
    "ServerAt",
    "Study",
    "TokenIs",
    "What",
    "Who",
    "asked_study",
    "is_plain",
    "lines_of",
    "opened",
    "recorded_name",
    "register",
    "remote",
    "show",
    "statistic_of",
    "with_options",
]

_BATCH = 100

What = StrEnum("What", {name: name for name in STATISTICS})  # type: ignore[misc]
"""What is asked of an expression: the statistics by their names."""

Study = Annotated[Path, typer.Argument(help="The study.")]
Data = Annotated[str | None, typer.Option(help="The private rows, where they are not where the study was made from.")]
ExpectHead = Annotated[str | None, typer.Option(help="Refuse a copy of the study that does not contain this head.")]
As = Annotated[What, typer.Option("--as", help="The statistic to ask of each expression.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Who = Annotated[
    str | None,
    typer.Option(help="Your name, for the record, which others may read: your account's if left out; '' records none."),
]
RequestId = Annotated[str | None, typer.Option(help="Asked again under this id, the answer is the same.")]
Expect = Annotated[
    float | None,
    typer.Option(help="What you foresee for a single question, from public facts and earlier answers alone."),
]
ServerAt = Annotated[
    str | None, typer.Option("--server", help="Ask a server, such as https://data.example.org; STUDY is a name there.")
]
TokenIs = Annotated[
    str | None, typer.Option("--token", help="For the server; better in the environment.", envvar="EVERHOLD_TOKEN")
]


def _others() -> dict[str, dict[str, list[str]]]:
    """The parameters of all statistics but their first, which is the expression: what each is for, in which statistics."""
    by_name: dict[str, dict[str, list[str]]] = {}
    for kind in STATISTICS.values():
        for parameter in parameters(kind)[1:]:
            by_name.setdefault(parameter.name, {}).setdefault(parameter.about, []).append(kind.name)
    return by_name


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for every parameter of a statistic, in place of `**given`."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    for name, meanings in _others().items():
        about = " ".join(f"{meaning} ({', '.join(kinds)})" for meaning, kinds in meanings.items())
        option = Annotated[str | None, typer.Option(f"--{name.replace('_', '-')}", help=about, metavar="TEXT")]
        own.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option))
    command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in own} | {"return": None}
    return command


def statistic_of(text: str, what: str, given: Mapping[str, str | None]) -> Statistic[Any]:
    """The statistic of an expression, with the options that were given. Whatever does not belong to it is refused."""
    lead, *others = parameters(STATISTICS[what])
    if given.get(lead.name) is not None:
        raise eh.QuestionError(f"--{lead.name} of a {what} is the expression itself, which is there already.")
    by_name = {parameter.name: parameter for parameter in others}
    read = {
        name: by_name[name].parse(value) if name in by_name else value for name, value in given.items() if value is not None
    }
    second = by_name.get("second")
    if second is not None and not second.required and "second" not in read and " by " in text:
        text, _, read["second"] = (part.strip() for part in text.partition(" by "))
    return statistic(what, {lead.name: text, **read})


@contextmanager
def remote(study: Path, server: str, token: str | None) -> Iterator[RemoteStudy]:
    """A study behind a server."""
    with eh.connect(server, token) as connected:
        yield connected.study(str(study))


@contextmanager
def opened(study: Path, data: str | None, expect_head: str | None) -> Iterator[eh.Holdout]:
    """A study's file, for asking."""
    if study.name and study.with_name(study.name + ".contest.json").exists():
        raise eh.QuestionError(
            f"{study} is a contest, which takes submissions, not questions. Write: everhold contest submit {study} FILE "
            f"--entrant NAME; everhold contest board {study} shows where it stands."
        )
    with console.status("Opening the study …") if sys.stdout.isatty() else _nothing():
        holdout = eh.Holdout.open(study, data=data, expect_head=expect_head)
    if (ended := holdout.session.recorder.ended_at_opening) is not None:
        warn(ended)
    try:
        yield holdout
    finally:
        holdout.release()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def show(text: str, result: Result, as_json: bool, several: bool) -> None:
    """A result on the screen, or as a line of JSON."""
    if as_json:
        shown = {key: value for key, value in result.to_dict().items() if key != "parts"}
        if isinstance(result, eh.Shares):
            shown["cells"] = [{k: v for k, v in cell.items() if k != "parts"} for cell in shown["cells"]]
        typer.echo(json.dumps({"question": text, **shown}, ensure_ascii=False))
    elif isinstance(result, eh.Shares):
        say(str(result))
    else:
        label = f"{text}: " if several and isinstance(result, eh.Answer) else ""
        say(f"{label}{result}", style="yellow" if result.surprise else None)


@with_options
@guarded
def ask(
    study: Study,
    questions: Annotated[list[str] | None, typer.Argument(help='Questions such as "age > 40 AND smoker".')] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a question a line; # begins a comment.")] = None,
    what: As = What.share,  # type: ignore[attr-defined]
    as_json: AsJson = False,
    expect: Expect = None,
    who: Who = None,
    request_id: RequestId = None,
    data: Data = None,
    expect_head: ExpectHead = None,
    server: ServerAt = None,
    token: TokenIs = None,
    **given: str | None,
) -> None:
    """Ask a study one question, several, or a file of them.

    Examples:

        everhold ask study.everhold "age > 40 AND smoker"

        everhold ask study.everhold bmi --as mean --low 10 --high 60 --given smoker

        everhold ask study.everhold bmi --as difference --first smoker --second "NOT smoker"

        everhold ask study.everhold city --as table --second smoker

        everhold ask study.everhold --file questions.txt --json

        everhold ask patients "age > 40" --server https://data.example.org
    """
    texts = [*(questions or []), *(lines_of(file) if file is not None else [])]
    if not texts:
        raise eh.QuestionError("there is no question. Expected one after the study, or --file with one a line.")
    statistics = [statistic_of(text, what.value, given) for text in texts]
    if request_id is not None and len(texts) > 1 and not is_plain(what, given):
        raise eh.QuestionError("--request-id goes with one statistic, or with plain questions.")
    if expect is not None and not (len(texts) == 1 and is_plain(what, given)):
        raise eh.QuestionError("--expect goes with a single yes/no question.")
    with asked_study(study, who, data, expect_head, server, token) as holdout:
        if isinstance(holdout, eh.Holdout) and len(texts) > 1 and is_plain(what, given):
            _check_all(holdout, texts)
        _ask_all(holdout, texts, statistics, is_plain(what, given), as_json, request_id, expect)


@contextmanager
def asked_study(
    study: Path,
    who: str | None,
    data: str | None,
    expect_head: str | None,
    server: str | None,
    token: str | None,
) -> Iterator[eh.Holdout | RemoteStudy]:
    """A study to ask: its file here, or by its name behind a server."""
    if server is not None:
        if who is not None or data is not None or expect_head is not None:
            raise eh.SettingError("--who, --data and --expect-head are for studies on this machine; a token says who asks.")
        with remote(study, server, token) as connected:
            yield connected
        return
    with opened(study, data, expect_head) as holdout:
        holdout.who = recorded_name(who)
        yield holdout


def recorded_name(who: str | None) -> str | None:
    """Who asks, for the record: as given, or the account's name. An empty name is none."""
    if who is None:
        with suppress(OSError, KeyError, ImportError):  # an account without a name
            who = getpass.getuser()
    return who or None


def is_plain(what: What, given: Mapping[str, str | None]) -> bool:
    """Whether each question is a single yes/no question."""
    return what.value == "share" and all(value is None for value in given.values())


def _ask_all(
    holdout: eh.Holdout | RemoteStudy,
    texts: list[str],
    statistics: list[Statistic[Any]],
    plain: bool,
    as_json: bool,
    request_id: str | None,
    expect: float | None,
) -> None:
    if expect is not None:
        show(texts[0], holdout.ask(texts[0], request_id=request_id, expect=expect), as_json, False)
        return
    if not plain or len(texts) == 1:
        for text, parsed in zip(texts, statistics, strict=True):
            question: Any = text if plain else parsed
            show(text, holdout.ask(question, request_id=request_id), as_json, len(texts) > 1)
        return
    starts = range(0, len(texts), _BATCH)
    for start in track(starts, "Asking", console=console, transient=True, disable=as_json or not console.is_terminal):
        batch = texts[start : start + _BATCH]
        batch_id = None if request_id is None else f"{request_id}/{start // _BATCH}"
        try:
            answers = holdout.ask_many(batch, request_id=batch_id)
        except eh.PrecisionExhausted as refusal:
            for text, paid in zip(batch, refusal.answers, strict=False):
                if isinstance(paid, eh.Answer):
                    show(text, paid, as_json, True)
            raise
        for text, answer in zip(batch, answers, strict=True):
            show(text, answer, as_json, True)


def _check_all(holdout: eh.Holdout, texts: list[str]) -> None:
    """Every mistake at once, before the first question is charged."""
    wrong = []
    for number, text in enumerate(texts, 1):
        try:
            holdout.check(text)
        except eh.QuestionError as error:
            wrong.append(f"question {number}: {error}")
    if wrong:
        more = f"\n… and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise eh.QuestionError("\n".join(wrong[:5]) + more)


def lines_of(file: Path) -> list[str]:
    """The questions in a file, one a line."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise eh.DataError(f"{file} could not be read: {error.strerror}.") from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@with_options
@guarded
def try_(
    study: Study,
    questions: Annotated[list[str], typer.Argument(help="Questions to try on the public side.")],
    what: As = What.share,  # type: ignore[attr-defined]
    as_json: AsJson = False,
    server: ServerAt = None,
    token: TokenIs = None,
    **given: str | None,
) -> None:
    """Try questions on the public side alone: what ask and what read would show, and what each costs. Nothing is spent.

    Example:

        everhold try study.everhold "age > 40 AND smoker"
    """
    statistics = [statistic_of(text, what.value, given) for text in questions]
    if server is not None:
        with remote(study, server, token) as connected:
            _try_all(connected, questions, statistics, as_json)
        return
    _try_all(holdout_without_rows(study), questions, statistics, as_json)


def _try_all(study: eh.Holdout | RemoteStudy, texts: list[str], statistics: list[Statistic[Any]], as_json: bool) -> None:
    for text, parsed in zip(texts, statistics, strict=True):
        preview = study.try_both(parsed)
        if as_json:
            typer.echo(json.dumps({"question": text, **preview.to_dict()}, ensure_ascii=False))
        else:
            say(f"{text}\n{preview}" if len(texts) > 1 else str(preview))


def _usage(kind: type[Statistic[Any]]) -> str:
    named = [parameter for parameter in parameters(kind) if parameter.positional]
    words = [parameter.name.upper() if parameter.required else f"[{parameter.name.upper()}]" for parameter in named]
    return f"{kind.name} {' ; '.join(words)}"


def _shell_help() -> str:
    """How to ask in the shell, statistic by statistic."""
    lines = ["Ask as in  age > 40 AND smoker, or for a statistic:"]
    lines += [f"  {_usage(kind)}" for kind in STATISTICS.values()]
    lines.append("Add | given SMOKER for a group, | low 10 | high 60 for a range, and so on.")
    return "\n".join(
        [
            *lines,
            "try Q (nothing is spent)  read Q (the private value; widens later answers)  schema  status  head  help  quit",
        ]
    )


@guarded
def shell(study: Study, data: Data = None, expect_head: ExpectHead = None) -> None:
    """A prompt with history and completion of columns.

    Example:

        everhold shell study.everhold
    """
    with opened(study, data, expect_head) as holdout:
        holdout.who = recorded_name(None)
        _prepare_prompt(holdout, study)
        say(f"{holdout}\n{_shell_help()}")
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
    if line in ("help", "?"):
        say(_shell_help())
    elif line == "schema":
        say(repr(holdout.schema))
    elif line == "status":
        say(repr(holdout))
    elif line == "head":
        say(holdout.head)
    elif word == "try" and rest:
        inner, _, more = rest.partition(" ")
        say(str(holdout.try_both(_shell_statistic(inner, more) if inner in STATISTICS and more else rest)))
    elif word == "read" and rest:
        inner, _, more = rest.partition(" ")
        question: Any = _shell_statistic(inner, more) if inner in STATISTICS and more else rest
        show(rest, holdout.read(question), False, False)
    elif word in STATISTICS and rest:
        show(rest, holdout.ask(_shell_statistic(word, rest)), False, False)
    else:
        show(line, holdout.ask(line), False, False)


def _shell_statistic(name: str, text: str) -> Statistic[Any]:
    """`bmi 10 60 | given smoker`: an expression, its range, a group; `bmi ; smoker ; NOT smoker`: two groups."""
    body, *options = (part.strip() for part in text.split(" | "))
    words = [part.strip() for part in body.split(" ; ")]
    by_name = {parameter.name: parameter for parameter in parameters(STATISTICS[name])}
    given: dict[str, Any] = {}
    for option in options:
        key, _, value = option.partition(" ")
        given[key] = by_name[key].parse(value) if key in by_name else value
    for lead in list(by_name.values())[:1]:
        if lead.name in given:
            raise eh.QuestionError(f"{lead.name!r} of a {name} stands before the first |.")
    words[-1], numbers = _trailing_numbers(
        words[-1], [parameter for parameter in by_name.values() if parameter.form != "expression"]
    )
    if twice := set(given) & set(numbers):
        raise eh.QuestionError(f"{sorted(twice)[0]!r} is given twice.")
    given |= numbers
    leads = [parameter.name for parameter in by_name.values() if parameter.positional and parameter.name not in given]
    if len(words) == 1 and " by " in body and "second" in by_name and not by_name["second"].required:
        words = [part.strip() for part in words[0].split(" by ", 1)]
    if len(words) > len(leads):
        raise eh.QuestionError(f"a {name} has no place for {words[len(leads)]!r}. Write {_usage(STATISTICS[name])}.")
    read = {key: by_name[key].parse(word) for key, word in zip(leads, words, strict=False)}
    return statistic(name, {**read, **given})


def _trailing_numbers(text: str, numeric: list[Parameter]) -> tuple[str, dict[str, float]]:
    """`bmi 10 60` is the expression bmi and the numbers 10 and 60: a level first, then the ends of a range."""
    words = text.split()
    numbers: list[float] = []
    while len(words) > 1:
        try:
            numbers.insert(0, float(words[-1]))
        except ValueError:
            break
        words.pop()
    names = [parameter.name for parameter in numeric if parameter.form in ("real", "end")]
    if not numbers or len(numbers) not in (
        len(names),
        len([parameter for parameter in numeric if parameter.form == "real"]),
    ):
        return text, {}
    return " ".join(words), dict(zip(names, numbers, strict=False))


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
    words = [*holdout.schema, "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", *STATISTICS]

    def complete(start: str, state: int) -> str | None:
        matches = [word for word in words if word.lower().startswith(start.lower())]
        return matches[state] if state < len(matches) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" ()<>=!,+-*/%")
    readline.parse_and_bind("tab: complete")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(ask)
    app.command("try")(try_)
    app.command()(shell)
