"""What requests carry: a model for every body, made from the descriptions of statistics and acts, with examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, create_model

from everhold.acts import AnyAct, act_from
from everhold.statistics import STATISTICS
from everhold.statistics.parameters import Form, parameters
from everhold.statistics.statistic import Statistic

__all__ = [
    "ActBody",
    "AskBody",
    "AskManyBody",
    "Body",
    "DuelBody",
    "GateBody",
    "GateCheckBody",
    "StatisticBody",
    "TokenBody",
    "TryOutBody",
    "act_body",
    "statistic_body",
]

QuestionText = Annotated[str, Field(max_length=4_000, description="A yes/no question, such as age > 40 AND smoker.")]
RequestId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$"),
    Field(description="Asked again under the same id, the same answer is returned and nothing is charged."),
]


class Body(BaseModel):
    """Taken as it is: no unknown fields, no numbers in quotes."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _example(**given: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [given]})


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_FORMS: dict[Form, Any] = {
    "expression": Annotated[str, Field(max_length=4_000)],
    "real": _Finite,
    "reals": Annotated[list[_Finite], Field(max_length=100_000)],
    "end": _Finite | Annotated[str, Field(max_length=40)],
    "range": Annotated[list[_Finite], Field(min_length=2, max_length=2)],
    "count": Annotated[int, Field(ge=1, le=1_000)],
    "round": Annotated[int, Field(ge=1, le=2**53)],
    "edges": Annotated[list[_Finite | Annotated[str, Field(max_length=40)]], Field(max_length=1_001)],
}
"""How a body carries what is written in each form; questions that may be statistics come below."""


def _fields(kind: type[Any]) -> dict[str, Any]:
    """The parameters of a statistic or an act as fields of a body."""
    fields: dict[str, Any] = {}
    for parameter in parameters(kind):
        form = _FORMS[parameter.form]
        if parameter.form == "questions":
            form = Annotated[form, Field(min_length=parameter.role.least)]
        about = (
            Field(description=parameter.about)
            if parameter.required
            else Field(parameter.default, description=parameter.about)
        )
        fields[parameter.name] = (form if parameter.required else form | None, about)
    return fields


def _statistic_in_question(kind: type[Statistic[Any]]) -> type[Body]:
    """A statistic as JSON: its name, and its arguments."""
    name = kind.__name__
    inner = create_model(f"{name}Arguments", __base__=Body, __doc__=kind.__doc__, **_fields(kind))
    called: Any = Literal[kind.name]
    made: type[Body] = create_model(
        f"{name}Statistic",
        __base__=Body,
        __doc__=f"A statistic: {kind.title.lower()}.",
        statistic=(called, ...),
        arguments=(inner, ...),
    )
    return made


def _kind_of(given: object) -> str | None:
    """What was sent in place of a question."""
    if isinstance(given, str):
        return "text"
    name = given.get("statistic") if isinstance(given, dict) else getattr(given, "statistic", None)
    return name if isinstance(name, str) else None


if TYPE_CHECKING:
    Question = str | Body
else:
    _KINDS = tuple(Annotated[_statistic_in_question(kind), Tag(kind.name)] for kind in STATISTICS.values())
    Question = Annotated[
        Union[(Annotated[QuestionText, Tag("text")], *_KINDS)],
        Discriminator(
            _kind_of,
            custom_error_type="question",
            custom_error_message=f"Expected a question as text, or a statistic by its name: {', '.join(STATISTICS)}",
        ),
        Field(description='A question as text, or {"statistic": "mean", "arguments": {"question": "bmi"}}.'),
    ]
_FORMS |= {"question": Question, "questions": Annotated[list[Question], Field(max_length=100_000)]}

Expect = Annotated[
    _Finite,
    Field(description="What you foresee, on the answer's scale, from public facts and earlier answers alone."),
]


class AskBody(Body):
    """One question, or a statistic."""

    model_config = _example(question="age > 40 AND smoker", request_id="6f1c2a")
    question: Question
    expect: Expect | None = None
    request_id: RequestId | None = None


class AskManyBody(Body):
    """Several questions, all of which are checked before the first is charged."""

    model_config = _example(questions=["age > 40", "smoker"], request_id="6f1c2b")
    questions: list[QuestionText] = Field(min_length=1, max_length=100_000)
    request_id: RequestId | None = None


class TryOutBody(Body):
    """A question or a statistic for the public side alone."""

    model_config = _example(question="age > 40")
    question: Question
    both: bool = Field(default=False, description="What asking and what reading would show, side by side: a trial.")


class StatisticBody(Body):
    """What all statistics share."""

    request_id: RequestId | None = None
    rehearse: bool = Field(default=False, description="Ask the public side alone: nothing is spent.")

    def arguments(self) -> dict[str, Any]:
        """The statistic's own arguments."""
        return self.model_dump(exclude={"request_id", "rehearse"}, exclude_none=True)


def statistic_body(kind: type[Statistic[Any]]) -> type[StatisticBody]:
    """The body that asks for a statistic, from its own description."""
    made: type[StatisticBody] = create_model(kind.__name__, __base__=StatisticBody, __doc__=kind.__doc__, **_fields(kind))
    made.model_config["json_schema_extra"] = {"examples": [dict(kind.example)]}
    return made


class ActBody(Body):
    """What all acts share."""

    request_id: RequestId | None = None

    def act(self, name: str) -> AnyAct:
        """The act itself."""
        return act_from(name, self.model_dump(exclude={"request_id"}, exclude_none=True))


def act_body(kind: type[AnyAct]) -> type[ActBody]:
    """The body that does an act, from its own description."""
    made: type[ActBody] = create_model(f"{kind.__name__}Act", __base__=ActBody, __doc__=kind.__doc__, **_fields(kind))
    made.model_config["json_schema_extra"] = {"examples": [dict(kind.example)]}
    return made


class GateBody(Body):
    """An act of a gate without further settings."""

    model_config = _example(request_id="decide-1")

    request_id: RequestId | None = None


class GateCheckBody(GateBody):
    """A candidate for a gate."""

    model_config = _example(outcomes={"case-1": 1, "case-2": 0, "case-3": [1, 0, 1]}, name="shorter prompt")

    outcomes: dict[str, Any] = Field(
        description="The score of each case between 0 and 1, or a list for several runs; null for an error."
    )
    printed: bool = Field(
        False, description="Whether these are lines that a program printed: names that are no cases then mean nothing."
    )
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(None, description="What it is called.")
    artifact: str | None = Field(
        None, description="The candidate's file, or a digest of it: the incumbent's is never promoted."
    )


class DuelBody(Body):
    """Two entrants: is the first certified to be better?"""

    model_config = _example(first="ann", second="bob", request_id="6f1c2c")

    first: Annotated[str, Field(max_length=100, description="An entrant; choose who is first by public facts.")]
    second: Annotated[str, Field(max_length=100, description="Another entrant.")]
    request_id: RequestId | None = None


class TokenBody(Body):
    """A token to make."""

    model_config = _example(name="ann", scope="analyst", studies=["patients"], days=90)
    name: str = Field(min_length=1, max_length=100)
    scope: Literal["custodian", "analyst", "auditor"] = "analyst"
    studies: list[Annotated[str, Field(max_length=200)]] = Field(default_factory=list, max_length=1_000)
    days: float | None = None
