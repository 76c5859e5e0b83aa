"""The parameters of statistics and acts, described once: every interface makes its options, fields and schemas from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from datetime import date
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from everhold.errors import QuestionError, did_you_mean
from everhold.queries.expression.values import date_of

if TYPE_CHECKING:
    from everhold.statistics.statistic import Statistic

__all__ = [
    "Bins",
    "Condition",
    "Edges",
    "Form",
    "Given",
    "High",
    "Level",
    "Low",
    "Number",
    "Parameter",
    "Range",
    "Role",
    "arguments",
    "build_statistic",
    "parameters",
]

Form = Literal[
    "expression",  # a question as text
    "question",  # a question as text, or a statistic
    "questions",  # a list of them
    "real",  # a number
    "reals",  # numbers between commas or spaces
    "end",  # an end of a range: a number or a date
    "range",  # two numbers
    "count",  # a whole number, at least 1
    "round",  # the number of a round
    "edges",  # numbers or dates between commas
]
"""How a parameter is written. Statistics take expressions; acts take questions, which may be statistics."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a parameter is for.

    Attributes:
        form: how it is written.
        label: beside a field of a form; the parameter's own name where it is empty.
        about: a sentence for people.
        least: how many a list must have.
    """

    form: Form
    label: str = ""
    about: str = ""
    least: int = 1


Condition = Annotated[str, Role("expression", "Question", "A yes/no question, such as age > 40 AND smoker.")]
Number = Annotated[str, Role("expression", "Number", "A column or an expression with numbers, such as bmi.")]
Given = Annotated[str | None, Role("expression", "Only rows where", "Only rows for which this is true.")]
Low = Annotated[
    float | str | None,
    Role("end", "Range from", "Lower end of the range that is considered, a number or a date; the schema's if left out."),
]
High = Annotated[float | str | None, Role("end", "to", "Upper end of the range that is considered.")]
Level = Annotated[float, Role("real", "Level", "The level of a quantile, strictly between 0 and 1.")]
Bins = Annotated[int, Role("count", "Bins", "How many bins a number or a date is divided into.")]
Edges = Annotated[Sequence[float | str] | None, Role("edges", "Edges", "Ends of the bins, rising, such as 10, 20, 30.")]
Range = Annotated[
    Sequence[float] | None, Role("range", "Range", "The range of a number that is considered, such as 10, 60.")
]

_KINDS: dict[Form, tuple[type, ...]] = {
    "expression": (str,),
    "end": (float, int, str),
    "real": (float, int),
    "count": (int,),
    "edges": (list, tuple),
    "range": (list, tuple),
}
"""What a statistic's arguments may be made of."""
_TYPES: dict[Form, Any] = {
    "expression": str,
    "question": str | dict[str, Any],
    "questions": list[str | dict[str, Any]],
    "real": float,
    "reals": list[float],
    "end": float | str,
    "range": list[float],
    "count": int,
    "round": int,
    "edges": list[float | str],
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a statistic or an act.

    Attributes:
        name: as in Python and in JSON.
        role: what it is for.
        required: whether it must be given.
        positional: whether Python takes it without its name, and the command line as a word of its own.
        default: where it is not required.
    """

    name: str
    role: Role
    required: bool
    positional: bool
    default: Any

    @property
    def form(self) -> Form:
        """How it is written."""
        return self.role.form

    @property
    def about(self) -> str:
        """A sentence for people."""
        return self.role.about

    @property
    def label(self) -> str:
        """Beside a field of a form."""
        return self.role.label or self.name.replace("_", " ").capitalize()

    @property
    def type(self) -> Any:
        """What a program sends for it."""
        return _TYPES[self.form]

    def parse(self, text: str) -> Any:
        """From what a person typed.

        >>> from everhold.statistics import STATISTICS
        >>> {one.name: one for one in parameters(STATISTICS["histogram"])}["edges"].parse("10, 20, 30")
        (10.0, 20.0, 30.0)
        """
        form, text = self.form, text.strip()
        if form == "expression":
            return text
        if form in ("edges", "range"):
            return tuple(self._number(part.strip(), dates=form == "edges") for part in text.split(","))
        if form == "reals":
            return tuple(self._number(part, dates=False) for part in text.replace(",", " ").split())
        if form in ("count", "round"):
            if not text.isascii() or not text.isdigit() or len(text) > 15:
                raise QuestionError(f"{self.name} is {text[:40]!r}. Expected a whole number. {self.about}")
            return int(text)
        return self._number(text, dates=form == "end")

    def _number(self, text: str, *, dates: bool) -> float | str:
        try:
            number = float(text)
            if isfinite(number):
                return number
            raise ValueError(text)
        except ValueError:
            if dates and date_of(text) == date_of(text):
                return text
            expected = "a number, or a date such as 2024-05-01" if dates else "a number"
            raise QuestionError(f"{self.name} is {text[:40]!r}. Expected {expected}.") from None

    def check(self, value: Any, statistic: str) -> Any:
        """A value that a program sent, of the right kind."""
        value = _plain(value)
        wrong = isinstance(value, bool) or not isinstance(value, _KINDS[self.form])
        if not wrong and isinstance(value, list):
            value = tuple(value)
            wrong = self.form == "range" and len(value) != 2
        items = value if isinstance(value, tuple) else (value,)
        if wrong or not all(_is_writable(item) for item in items[:2_000]):
            if self.form == "expression":
                fault = f"{self.name} of a {statistic} is text, not {type(value).__name__}."
            else:
                fault = f"{self.name} of a {statistic} is {str(value)[:40]!r}, of type {type(value).__name__}."
            raise QuestionError(f"{fault} {self.about} Nothing was charged.")
        return value


def parameters(kind: type[Any]) -> tuple[Parameter, ...]:
    """The parameters of a statistic or an act, in the order of Python's own signature.

    >>> from everhold.statistics import STATISTICS
    >>> [one.name for one in parameters(STATISTICS["quantile"]) if one.positional]
    ['question', 'level']
    """
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_parameter(field, hints[field.name]) for field in fields(kind))


def _parameter(field: Field[Any], hint: Any) -> Parameter:
    role = next(note for note in reversed(hint.__metadata__) if isinstance(note, Role))
    required = field.default is MISSING
    return Parameter(field.name, role, required, not field.kw_only, None if required else field.default)


def build_statistic(kind: type[Statistic[Any]], given: Mapping[str, Any]) -> Statistic[Any]:
    """A statistic from what a program sent. Whatever does not fit is refused before anything is charged."""
    by_name = {parameter.name: parameter for parameter in parameters(kind)}
    for name in given:
        if name not in by_name:
            raise QuestionError(
                f"a {kind.name} takes no {str(name)[:40]!r}.{did_you_mean(str(name), by_name)} Expected none but "
                f"{', '.join(by_name)}. Nothing was charged."
            )
    for parameter in by_name.values():
        if parameter.required and given.get(parameter.name) in (None, ""):
            raise QuestionError(f"a {kind.name} needs {parameter.name!r}. {parameter.about} Nothing was charged.")
    return kind(**{name: by_name[name].check(value, kind.name) for name, value in given.items() if value is not None})


def arguments(statistic: Statistic[Any]) -> dict[str, Any]:
    """What a statistic was made with, ready for JSON; what was left out stays out.

    >>> from everhold.statistics.means import Mean
    >>> arguments(Mean("bmi", low=10, high=60))
    {'question': 'bmi', 'low': 10, 'high': 60}
    """
    values = {parameter.name: getattr(statistic, parameter.name) for parameter in parameters(type(statistic))}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    """Python's own numbers, texts and lists; dates as text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif hasattr(value, "item"):
        value = value.item()
    if isinstance(value, tuple | list | range):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def _is_writable(value: Any) -> bool:
    """Whether a record can keep it: a finite number, or text that can be encoded."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(float(value))
    except OverflowError:
        return False
