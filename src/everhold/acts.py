"""Acts, described once: what each takes, what it discloses, what it costs.

From here the HTTP routes, the command line, both clients and the tools of agents make what they need, as they do from
`STATISTICS`. An act is a value; `do` does it with a `Holdout` or with a study behind a server, which have methods of the
same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, cast

from everhold.errors import QuestionError
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.statistics import is_statistic, means, statistic
from everhold.statistics.finding import Result, result_from_dict
from everhold.statistics.parameters import Role, arguments, parameters

__all__ = [
    "ACTS",
    "AnyAct",
    "BestOf",
    "Certify",
    "Close",
    "CompareTwo",
    "IsBetter",
    "Permission",
    "Read",
    "ReadMany",
    "act_from",
    "as_body",
    "as_sent",
    "do",
    "questions_of",
    "questions_to_try",
    "result_from",
    "sent_question",
    "to_result",
]

Permission = Literal["ask", "read", "audit", "manage"]
"""What a token may allow."""
Question = object
"""A question as text, or a statistic."""


_Spend = Annotated[
    float | None,
    Role(
        "real",
        about="The part of the remaining failure probability that this act spends, above 0 and up to 1. More makes it "
        "narrower and later ones wider. Default: a half for the first, a third of the rest for the second, and so on.",
    ),
]
_Expect = Annotated[
    float | None,
    Role("real", about="What you foresee, on the answer's scale, from public facts and earlier answers alone."),
]
_Question = Annotated[Question, Role("question", about="A yes/no question, or a statistic.")]
_Compared = Annotated[Question, Role("question", about="A yes/no question or a number, such as bmi, or a statistic.")]
_Questions = Annotated[Sequence[Question], Role("questions", about="Yes/no questions and statistics.")]


class AnyAct(Protocol):
    """An act: a frozen dataclass of this file, found by its `name` in every interface.

    Attributes:
        name: what it is called in every interface.
        title: in a word or two, for people.
        permission: what a token must allow.
        when: when to use it, for people and agents.
        costs: what it costs later answers.
        example: arguments that show how it is done.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    permission: ClassVar[Permission]
    when: ClassVar[str]
    costs: ClassVar[str]
    example: ClassVar[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Read:
    """Read one question or statistic: the private rows' own value, with a narrow interval for the population."""

    name: ClassVar[str] = "read"
    title: ClassVar[str] = "Read"
    permission: ClassVar[Permission] = "ask"
    when: ClassVar[str] = "Use it for the few numbers that you need before you can go on. Close with what you will report."
    costs: ClassVar[str] = (
        "It discloses the value to a small cell, so every later interval is wider; a preview says by how much."
    )
    example: ClassVar[Mapping[str, Any]] = {"question": "smoker", "spend": 0.25}
    question: _Question
    _: KW_ONLY
    spend: _Spend = None
    expect: _Expect = None


@dataclass(frozen=True, slots=True)
class ReadMany:
    """Read several questions and statistics at one price. All are fixed before the first is read."""

    name: ClassVar[str] = "read_many"
    title: ClassVar[str] = "Read several"
    permission: ClassVar[Permission] = "ask"
    when: ClassVar[str] = "Use it when you know all the numbers that you need: they do not widen each other."
    costs: ClassVar[str] = "Each value is disclosed to a small cell, so every later interval is wider."
    example: ClassVar[Mapping[str, Any]] = {
        "questions": ["age > 40", {"statistic": "mean", "arguments": {"question": "bmi", "given": "smoker"}}]
    }
    questions: _Questions
    _: KW_ONLY
    spend: _Spend = None


@dataclass(frozen=True, slots=True)
class BestOf:
    """Find which of several has the largest value on the private rows: its place in the list, and nothing else."""

    name: ClassVar[str] = "best_of"
    title: ClassVar[str] = "Best of several"
    permission: ClassVar[Permission] = "ask"
    when: ClassVar[str] = "Use it to choose among many candidates; then read the one that was chosen."
    costs: ClassVar[str] = "About the logarithm of the number of candidates, in nats, for all later intervals."
    example: ClassVar[Mapping[str, Any]] = {"questions": ["smoker", "age > 60", "bmi > 30"]}
    questions: _Questions
    _: KW_ONLY
    weights: Annotated[
        Sequence[float] | None,
        Role("reals", about="How probable it is, by what is publicly known, that each is best. A likely winner costs less."),
    ] = None


@dataclass(frozen=True, slots=True)
class IsBetter:
    """Find whether the first is larger than the second on the private rows, by more than a margin: one bit."""

    name: ClassVar[str] = "is_better"
    title: ClassVar[str] = "Is it better"
    permission: ClassVar[Permission] = "ask"
    when: ClassVar[str] = "Use it for a step of a search. It says nothing certain about the population: compare does."
    costs: ClassVar[str] = "About one bit for all later intervals."
    example: ClassVar[Mapping[str, Any]] = {"first": "smoker", "second": "age > 80", "by": 0.05}
    first: _Question
    second: _Question
    _: KW_ONLY
    by: Annotated[float, Role("real", about="The margin by which the first must be larger.")] = 0.0


@dataclass(frozen=True, slots=True)
class CompareTwo:
    """Certify which of two is larger in the population: yes, no, or cannot tell."""

    name: ClassVar[str] = "compare"
    title: ClassVar[str] = "Compare"
    permission: ClassVar[Permission] = "ask"
    when: ClassVar[str] = (
        "Use it to decide between two for good. Two yes/no questions are compared by the rows on which they differ, which "
        "finds much smaller differences than two intervals do."
    )
    costs: ClassVar[str] = (
        "The verdict for all later intervals, and a part of the failure probability that is left for claims."
    )
    example: ClassVar[Mapping[str, Any]] = {"first": "smoker", "second": "age > 80"}
    first: _Compared
    second: _Compared
    _: KW_ONLY
    low: Annotated[float | None, Role("real", about="Lower end of the range of two numbers given as text.")] = None
    high: Annotated[float | None, Role("real", about="Upper end of that range.")] = None
    given: Annotated[str | None, Role("expression", about="Only rows for which this is true, for two texts.")] = None
    spend: _Spend = None


@dataclass(frozen=True, slots=True)
class Certify:
    """Narrow the interval of an earlier answer, from the failure probability that is kept for claims."""

    name: ClassVar[str] = "certify"
    title: ClassVar[str] = "Certify"
    permission: ClassVar[Permission] = "ask"
    when: ClassVar[str] = "Use it to report an answer that you asked earlier, without reading it."
    costs: ClassVar[str] = "It discloses nothing new. It spends a part of the failure probability that is left for claims."
    example: ClassVar[Mapping[str, Any]] = {"round": 1}
    round: Annotated[int, Role("round", about="The round of the earlier answer, as the log shows it.")]
    _: KW_ONLY
    spend: _Spend = None


@dataclass(frozen=True, slots=True)
class Close:
    """The last act: read any number of questions and statistics, and never read the private rows again."""

    name: ClassVar[str] = "close"
    title: ClassVar[str] = "Close"
    permission: ClassVar[Permission] = "manage"
    when: ClassVar[str] = "Use it once, at the end, for everything that will be reported. It cannot be undone."
    costs: ClassVar[str] = "All of the failure probability that is left. Afterwards nothing can be asked."
    example: ClassVar[Mapping[str, Any]] = {
        "questions": ["smoker", {"statistic": "median", "arguments": {"question": "age"}}]
    }
    questions: Annotated[
        Sequence[Question], Role("questions", about="Yes/no questions and statistics; none: only close.", least=0)
    ]


ACTS: dict[str, type[AnyAct]] = {
    kind.name: cast("type[AnyAct]", kind) for kind in (Read, ReadMany, BestOf, IsBetter, CompareTwo, Certify, Close)
}
"""Every act beyond `ask`, by its name."""


# what acts take ------------------------------------------------------------------------------------------------------


def questions_of(act: AnyAct) -> list[Question]:
    """The questions and statistics that an act is about, in order.

    >>> questions_of(IsBetter("smoker", "age > 80"))
    ['smoker', 'age > 80']
    """
    questions: list[Question] = []
    for parameter in parameters(type(act)):
        if parameter.form == "question":
            questions.append(getattr(act, parameter.name))
        elif parameter.form == "questions":
            questions += getattr(act, parameter.name)
    return questions


def questions_to_try(act: AnyAct) -> list[Question]:
    """What to try on the public side before an act: its questions, and two texts that are compared as their comparison.

    >>> questions_to_try(CompareTwo("bmi", "age"))
    [Compare(first='bmi', second='age', low=None, high=None, given=None)]
    """
    if isinstance(act, CompareTwo) and isinstance(act.first, str) and isinstance(act.second, str):
        return [means.Compare(act.first, act.second, low=act.low, high=act.high, given=act.given)]
    return questions_of(act)


def do(act: AnyAct, study: Any, **more: Any) -> Any:
    """Do an act with a `Holdout`, or with a study behind a server."""
    given = [(parameter, getattr(act, parameter.name)) for parameter in parameters(type(act))]
    positional = [value for parameter, value in given if parameter.required]
    options = {parameter.name: value for parameter, value in given if not parameter.required and value != parameter.default}
    return getattr(study, act.name)(*positional, **options, **more)


# as JSON --------------------------------------------------------------------------------------------------------------


def as_sent(question: Question, what: str = "a question") -> str | dict[str, Any]:
    """A question or a statistic as JSON: text, or `{"statistic": "mean", "arguments": {...}}`.

    >>> from everhold.statistics.means import Mean
    >>> as_sent(Mean("bmi", given="smoker"))
    {'statistic': 'mean', 'arguments': {'question': 'bmi', 'given': 'smoker'}}
    """
    if is_statistic(question):
        statistic: Any = question
        given = arguments(statistic)
        for parameter in parameters(type(statistic)):
            if parameter.form == "expression" and parameter.name in given:
                _require_text(given[parameter.name], parameter.name)
        return {"statistic": statistic.name, "arguments": given}
    return _require_text(question, what)


def _require_text(question: object, what: str) -> str:
    if not isinstance(question, str):
        raise QuestionError(
            f'{what} sent to a server is text, such as "age > 40", not {type(question).__name__}: callables and arrays '
            "work in the process that holds the rows."
        )
    return question


def sent_question(given: object) -> Question:
    """A question or a statistic from JSON.

    >>> sent_question({"statistic": "mean", "arguments": {"question": "bmi"}})
    Mean(question='bmi', low=None, high=None, given=None)
    """
    if isinstance(given, Mapping):
        if set(given) != {"statistic", "arguments"} or not isinstance(given["arguments"], Mapping):
            raise QuestionError(
                'a statistic is written as {"statistic": "mean", "arguments": {"question": "bmi"}}, with these two entries.'
            )
        return statistic(str(given["statistic"]), given["arguments"])
    if not isinstance(given, str):
        raise QuestionError(f"a question is text or a statistic, not {type(given).__name__}.")
    return given


def as_body(act: AnyAct) -> dict[str, Any]:
    """An act as JSON, without what was left out.

    >>> as_body(Read("smoker", spend=0.5))
    {'question': 'smoker', 'spend': 0.5}
    """
    body: dict[str, Any] = {}
    for parameter in parameters(type(act)):
        value = getattr(act, parameter.name)
        if parameter.form == "question":
            value = as_sent(value)
        elif parameter.form == "questions":
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise QuestionError(f"{act.name} takes a list of questions and statistics.")
            value = [as_sent(each) for each in value]
        elif parameter.form == "reals" and value is not None:
            value = list(value)
        if parameter.required or value != parameter.default:
            body[parameter.name] = value
    return body


def act_from(name: str, body: Mapping[str, Any]) -> AnyAct:
    """An act from JSON that a program sent; its shape was checked.

    >>> act_from("best_of", {"questions": ["smoker", "age > 80"]})
    BestOf(questions=('smoker', 'age > 80'), weights=None)
    """
    kind: Any = ACTS[name]
    given: dict[str, Any] = {}
    for parameter in parameters(kind):
        if parameter.name not in body:
            continue
        value = body[parameter.name]
        if parameter.form == "question":
            value = sent_question(value)
        elif parameter.form == "questions":
            value = tuple(sent_question(each) for each in value)
        elif parameter.form == "reals":
            value = None if value is None else tuple(value)
        given[parameter.name] = value
    act: AnyAct = kind(**given)
    return act


ActResult = Answer | Result | Choice | Decision | Verdict
_DISCLOSED: dict[str, type[Choice | Decision | Verdict]] = {
    "choice": Choice,
    "decision": Decision,
    "verdict": Verdict,
}


def to_result(result: ActResult | Sequence[ActResult]) -> dict[str, Any]:
    """What an act returned, as JSON; a list under `results`."""
    if isinstance(result, list):
        return {"results": [item.to_dict() for item in result]}
    return cast(ActResult, result).to_dict()


def result_from(given: dict[str, Any]) -> Any:
    """The same again, equal to the bit.

    >>> result_from(to_result([Choice(2, 5, 3.25)]))
    [Choice(number 3 of 5 (index 2) is best on the private rows (3.2 nats disclosed so far))]
    """
    if "results" in given:
        return [result_from(item) for item in given["results"]]
    kind = _DISCLOSED.get(given["kind"])
    return result_from_dict(given) if kind is None else kind.from_dict(given)
