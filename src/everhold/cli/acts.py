"""`everhold read`, `read-many`, `best-of`, `is-better`, `compare`, `certify` and `close`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

import everhold as eh
from everhold import acts
from everhold.acts import AnyAct
from everhold.cli.app import guarded, say
from everhold.cli.asking import (
    AsJson,
    Data,
    Expect,
    ExpectHead,
    RequestId,
    ServerAt,
    Study,
    TokenIs,
    What,
    Who,
    asked_study,
    is_plain,
    lines_of,
    show,
    statistic_of,
    with_options,
)
from everhold.ledger.reader import read_study
from everhold.statistics import STATISTICS
from everhold.statistics.parameters import parameters

__all__ = ["register"]

_Texts = Annotated[
    list[str] | None, typer.Argument(help='Questions, or a file with one a line. {"statistic": …} is a statistic.')
]
_Two = Annotated[list[str], typer.Argument(help="The first and the second.")]
_File = Annotated[Path | None, typer.Option(help="A file with a question a line; # begins a comment.")]
_As = Annotated[What, typer.Option("--as", help="The statistic of each expression.")]
_MaybeAs = Annotated[What | None, typer.Option("--as", help="The statistic of each; texts are compared if left out.")]
_Spend = Annotated[
    float | None, typer.Option(help="The part of the remaining failure probability to spend, above 0 and up to 1.")
]


@dataclass(frozen=True, slots=True)
class _Where:
    """The options that all acts share: where the study is, who asks, and how the result is shown."""

    as_json: AsJson = False
    who: Who = None
    request_id: RequestId = None
    data: Data = None
    expect_head: ExpectHead = None
    server: ServerAt = None
    token: TokenIs = None

    def is_private(self, study: Path) -> bool:
        """Whether a study here promises privacy, as its file says."""
        return self.server is None and study.exists() and read_study(study).budget.privacy is not None

    def do(self, study: Path, act: AnyAct) -> Any:
        """Do an act with a study here, or behind a server."""
        with asked_study(study, self.who, self.data, self.expect_head, self.server, self.token) as holdout:
            return acts.do(act, holdout, request_id=self.request_id)


def _command(command: Callable[..., None]) -> Callable[..., None]:
    """A guarded command with the options that all acts share, in place of `where`."""
    signature = inspect.signature(command, eval_str=True)
    hints = get_type_hints(_Where, include_extras=True)
    shared = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(_Where)
    ]

    @guarded
    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        where = _Where(**{parameter.name: kwargs.pop(parameter.name) for parameter in shared})
        command(*args, where=where, **kwargs)

    own = [parameter for parameter in signature.parameters.values() if parameter.name != "where"]
    last = [parameter for parameter in own if parameter.kind is inspect.Parameter.VAR_KEYWORD]
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*(parameter for parameter in own if parameter not in last), *shared, *last]
    )
    return with_options(run) if last else run


def _texts(given: Sequence[str] | None, file: Path | None) -> list[str]:
    """What was typed; a single word that is the name of a file stands for its lines."""
    texts = list(given or [])
    if len(texts) == 1 and Path(texts[0]).suffix and len(texts[0]) < 250 and Path(texts[0]).is_file():
        texts = lines_of(Path(texts[0]))
    return [*texts, *(lines_of(file) if file is not None else [])]


def _question(text: str, what: What, given: Mapping[str, str | None]) -> Any:
    """A question, or a statistic: by options, or as JSON."""
    if text.lstrip().startswith("{"):
        try:
            return acts.sent_question(json.loads(text))
        except (ValueError, RecursionError) as error:
            if isinstance(error, eh.EverholdError):
                raise
            raise eh.QuestionError(f"{text[:60]!r} is not JSON: {error}.") from None
    return text if is_plain(what, given) else statistic_of(text, what.value, given)


def _show_all(texts: Sequence[str], results: Sequence[Any], as_json: bool) -> None:
    for text, result in zip(texts, results, strict=True):
        show(text, result, as_json, len(texts) > 1)


def _show_disclosed(texts: Sequence[str], result: eh.Choice | eh.Decision | eh.Verdict, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"questions": list(texts), **result.to_dict()}, ensure_ascii=False))
    elif isinstance(result, eh.Choice):
        say(f"{texts[result.index]}\n{result}")
    else:
        say(str(result))


@_command
def read(
    study: Study,
    question: Annotated[str, typer.Argument(help='A question such as "age > 40 AND smoker".')],
    what: _As = What.share,  # type: ignore[attr-defined]
    spend: _Spend = None,
    expect: Expect = None,
    *,
    where: _Where,
    **given: str | None,
) -> None:
    """Read a question or a statistic: the private rows' own value, with a narrow interval.

    It widens every later interval; `everhold try` says by how much.

    Examples:

        everhold read study.everhold "age > 40 AND smoker"

        everhold read study.everhold bmi --as mean --given smoker
    """
    act = acts.Read(_question(question, what, given), spend=spend, expect=expect)
    show(question, where.do(study, act), where.as_json, False)


@_command
def read_many(
    study: Study,
    questions: _Texts = None,
    file: _File = None,
    what: _As = What.share,  # type: ignore[attr-defined]
    spend: _Spend = None,
    *,
    where: _Where,
    **given: str | None,
) -> None:
    """Read several questions and statistics at one price.

    Examples:

        everhold read-many study.everhold "age > 40" smoker

        everhold read-many study.everhold questions.txt --json

        everhold read-many study.everhold smoker '{"statistic": "mean", "arguments": {"question": "bmi"}}'
    """
    texts = _required(_texts(questions, file))
    act = acts.ReadMany([_question(text, what, given) for text in texts], spend=spend)
    _show_all(texts, where.do(study, act), where.as_json)


def _required(texts: list[str]) -> list[str]:
    if not texts:
        raise eh.QuestionError("there is no question. Expected some after the study, or --file with one a line.")
    return texts


@_command
def best_of(
    study: Study,
    questions: _Texts = None,
    file: _File = None,
    what: _As = What.share,  # type: ignore[attr-defined]
    weights: Annotated[str | None, typer.Option(help="How probable it is that each is best, such as 0.5,0.3,0.2.")] = None,
    *,
    where: _Where,
    **given: str | None,
) -> None:
    """Find which of several is largest on the private rows, and nothing else.

    Examples:

        everhold best-of study.everhold smoker "age > 60" "bmi > 30"

        everhold best-of study.everhold bmi age --as mean --given smoker
    """
    texts = _required(_texts(questions, file))
    act = acts.BestOf([_question(text, what, given) for text in texts], weights=_numbers(weights))
    _show_disclosed(texts, where.do(study, act), where.as_json)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise eh.SettingError(f"--weights is {text[:60]!r}. Expected numbers between commas.") from None


@_command
def is_better(
    study: Study,
    questions: _Two,
    what: _As = What.share,  # type: ignore[attr-defined]
    by: Annotated[float, typer.Option(help="The margin by which the first must be larger.")] = 0.0,
    *,
    where: _Where,
    **given: str | None,
) -> None:
    """Find whether one is larger than another on the private rows: one bit. `compare` certifies.

    Example:

        everhold is-better study.everhold smoker "age > 80" --by 0.05
    """
    first, second = _two(questions)
    act = acts.IsBetter(_question(first, what, given), _question(second, what, given), by=by)
    _show_disclosed(questions, where.do(study, act), where.as_json)


def _two(texts: Sequence[str]) -> tuple[str, str]:
    if len(texts) != 2:
        raise eh.QuestionError(f"there are {len(texts)} questions. Expected two: the first and the second.")
    return texts[0], texts[1]


@_command
def compare(
    study: Study,
    questions: _Two,
    what: _MaybeAs = None,
    spend: _Spend = None,
    *,
    where: _Where,
    **given: str | None,
) -> None:
    """Certify which of two is larger in the population: yes, no, or cannot tell.

    Examples:

        everhold compare study.everhold smoker "age > 80"

        everhold compare study.everhold bmi age --low 0 --high 100 --given smoker

        everhold compare study.everhold bmi age --as median
    """
    first, second = _two(questions)
    if what is None:
        act = _texts_compared(first, second, given, spend)
    else:
        act = acts.CompareTwo(_question(first, what, given), _question(second, what, given), spend=spend)
    _show_disclosed(questions, where.do(study, act), where.as_json)


def _texts_compared(first: str, second: str, given: Mapping[str, str | None], spend: float | None) -> acts.CompareTwo:
    """Two texts with a range and a group, which belong to the comparison."""
    by_name = {parameter.name: parameter for parameter in parameters(STATISTICS["compare"])}
    more = {name: value for name, value in given.items() if value is not None}
    if odd := set(more) - {"low", "high", "given"}:
        raise eh.QuestionError(f"--{sorted(odd)[0]} belongs to a statistic. Expected --as with its name.")
    read = {name: by_name[name].parse(value) for name, value in more.items()}
    plain: Any = What.share  # type: ignore[attr-defined]
    return acts.CompareTwo(_question(first, plain, {}), _question(second, plain, {}), spend=spend, **read)


@_command
def certify(
    study: Study,
    number: Annotated[int, typer.Argument(metavar="ROUND", help="The round of the earlier answer, as `log` shows it.")],
    spend: _Spend = None,
    *,
    where: _Where,
) -> None:
    """Narrow the interval of an earlier answer. It discloses nothing new.

    Example:

        everhold certify study.everhold 12
    """
    answer = where.do(study, acts.Certify(number, spend=spend))
    show(f"round {number}", answer, where.as_json, False)


@_command
def close(
    study: Study,
    questions: _Texts = None,
    file: _File = None,
    what: _As = What.share,  # type: ignore[attr-defined]
    yes: Annotated[bool, typer.Option("--yes", help="I know that nothing can be asked afterwards.")] = False,
    *,
    where: _Where,
    **given: str | None,
) -> None:
    """The last act: read any number of questions and statistics, and never read the private rows again.

    Example:

        everhold close study.everhold smoker "age > 40" --yes
    """
    texts = _texts(questions, file)
    act = acts.Close([_question(text, what, given) for text in texts])
    if not yes and not where.is_private(study):
        many = "1 question" if len(texts) == 1 else f"{len(texts):,} questions"
        raise eh.SettingError(
            f"this would read {many} and close {study} for good: nothing can be asked afterwards. Add --yes to do it. "
            "Nothing was read."
        )
    _show_all(texts, where.do(study, act), where.as_json)
    if not where.as_json:
        say("Closed. Its log, certificate and audit stay.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (read, read_many, best_of, is_better, compare, certify, close):
        app.command(command.__name__.replace("_", "-"))(command)
