"""From a form to a question, and from a result to what a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from everhold.errors import EverholdError, QuestionError
from everhold.ledger.reader import LoggedAct, LoggedQuestion, LoggedRound
from everhold.queries.answer import Answer
from everhold.queries.expression import expression
from everhold.queries.interval import Interval
from everhold.report.interval_svg import axis_svg, interval_svg
from everhold.report.percent import in_percent
from everhold.results import axis_around
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.finding import Comparison, Finding, Shares
from everhold.statistics.means import Compare, Difference, Mean, Share
from everhold.statistics.parameters import Form, Parameter, parameters
from everhold.statistics.quantiles import Median, Quantile

if TYPE_CHECKING:
    from everhold.data.schema import ColumnSchema, Schema
    from everhold.statistics.finding import Result
    from everhold.statistics.statistic import Statistic

__all__ = [
    "FIELDS",
    "KINDS",
    "WORDS",
    "AnswerCard",
    "FormField",
    "GridLine",
    "QuestionForm",
    "bar",
    "described",
    "vocabulary",
]

KINDS = {name: kind.title for name, kind in STATISTICS.items()}
WORDS = (
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS NULL",
    "IS NOT NULL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "abs",
    "coalesce",
    "ln",
    "exp",
    "sqrt",
    "floor",
    "ceil",
    "round",
    "year",
    "month",
    "day",
    "lower",
    "upper",
    "length",
    "least",
    "greatest",
)


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the question box, beside the question itself.

    Attributes:
        name: in the form.
        label, about: for people.
        form: how it is written.
        kinds: the statistics that have it.
        default: what stands in it at first.
    """

    name: str
    label: str
    about: str
    form: Form
    kinds: tuple[str, ...]
    default: str


def _name(parameter: Parameter) -> str:
    """The name of a field: parameters of one name that mean different things have different labels."""
    slug = parameter.label.lower().replace(" ", "_")
    return slug if parameter.name in slug else parameter.name


def _fields() -> dict[str, FormField]:
    by_name: dict[str, FormField] = {}
    for kind, parameter in ((kind, parameter) for kind, made in STATISTICS.items() for parameter in parameters(made)[1:]):
        name = _name(parameter)
        earlier = by_name.get(name)
        kinds = (*(() if earlier is None else earlier.kinds), kind)
        by_name[name] = FormField(name, parameter.label, parameter.about, parameter.form, kinds, "")
    return by_name


FIELDS = _fields()
"""Every field of the question box, by its name; the first parameter of a statistic is the question itself."""


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The question box, as it was filled in."""

    kind: str = "share"
    question: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    act: str = "ask"

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> QuestionForm:
        """From what a browser sent; files and unknown fields do not count."""
        texts = {name: value.strip() for name, value in given.items() if isinstance(value, str)}
        more = {name: texts[name] for name in FIELDS if texts.get(name)}
        act = "read" if texts.get("act") == "read" else "ask"
        return cls(texts.get("kind", "share"), texts.get("question", ""), more, act)

    def statistic(self) -> Statistic[Any]:
        """What it asks for."""
        if self.kind not in STATISTICS:
            raise QuestionError(f"there is no kind of question {self.kind[:40]!r}. Expected one of {', '.join(KINDS)}.")
        if not self.question:
            raise QuestionError("the question is empty. Type one, such as the examples below the box.")
        lead, *others = parameters(STATISTICS[self.kind])
        given = {lead.name: self.question}
        for parameter in others:
            if text := self.more.get(_name(parameter)):
                given[parameter.name] = parameter.parse(text)
            elif parameter.required:
                raise QuestionError(f"the field {parameter.label!r} is empty. {parameter.about}")
        return statistic(self.kind, given)


@dataclass(frozen=True, slots=True)
class GridLine:
    """A line of a two-way table: its first label, and for each of the second its share, interval and a drawing."""

    label: str
    cells: list[tuple[str, str, str, Markup] | None]


@dataclass(frozen=True, slots=True)
class AnswerCard:
    """What the answer card shows."""

    title: str
    value: str
    sentence: str
    drawn: Markup
    verdict: str
    what: str
    cells: list[tuple[str, str, str, Markup]]
    rounds: str
    surprise: bool
    kind: str
    heads: tuple[str, ...] = ()
    grid: tuple[GridLine, ...] = ()
    ends: str = ""
    quiet: bool = False

    @classmethod
    def of(
        cls,
        result: Result,
        asked: Statistic[Any],
        question: str,
        *,
        small: bool = False,
        schema: Schema | None = None,
    ) -> AnswerCard:
        """From what was found, the statistic that was asked for, and the question as it was typed.

        `small`: drawn for a row of a table. `schema`: says what the whole scale of a column is.
        """
        if isinstance(result, Shares):
            return cls._table(result)
        unit, times = _unit(asked, schema)
        title = question if isinstance(result, Answer) else result.what
        interval = Interval(times * result.low, times * result.high)
        digits = min(max(interval.decimals, 0), 6)
        low, high = str(interval)[1:-1].split(", ")
        value = f"{times * result.value:,.{digits}f}{unit}"
        if isinstance(result, Finding) and (_is_date(result) or not result.seen):
            value = result.value_text
        if isinstance(result, Finding) and _is_date(result):
            low, high = result.interval_text[1:-1].split(", ")
        sentence = f"For the population: between {low}{unit} and {high}{unit}."
        verdict = ""
        if isinstance(result, Comparison):
            yes = {
                "yes": "Yes: the whole interval is above 0.",
                "no": "No: the whole interval is at or below 0.",
                "cannot tell": "Cannot tell: the interval contains 0.",
            }
            verdict = yes[result.verdict]
        many = 1 if isinstance(result, Answer) else len(result.parts)
        asked_of = f"Round {result.round:,}" if many == 1 else f"{many} questions, the last in round {result.round:,}"
        ends = _whole_scale(asked, schema)
        if small:
            left, right = ends or axis_around([(result.low, result.high)])
            drawn = interval_svg(result.value, result.low, result.high, bottom=left, top=right, wide=120.0)
        else:
            bottom, top = (None, None) if ends is None else (times * ends[0], times * ends[1])
            numbers = (times * result.value, times * result.low, times * result.high)
            drawn = axis_svg(
                *numbers, bottom=bottom, top=top, unit=unit if times > 1.0 else "", zero=isinstance(result, Comparison)
            )
        return cls(
            title=title,
            value=value,
            sentence=sentence,
            drawn=Markup("") if _is_date(result) else Markup(drawn),
            verdict=verdict,
            what="",
            cells=[],
            rounds=f"{asked_of}; priced at {result.price:.1f} nats.",
            surprise=result.surprise and result.value == result.value,
            kind=_kind(result if isinstance(result, Answer) else result.parts[-1]),
            ends=f"{low} to {high}{unit}",
            quiet=result.value == result.value and _is_quiet(result),
        )

    @property
    def between(self) -> str:
        """The interval in words."""
        return self.sentence.removeprefix("For the population: ").removesuffix(".")

    @classmethod
    def _table(cls, shares: Shares) -> AnswerCard:
        top = max((cell.high for cell in shares.cells), default=1.0) or 1.0
        shown, note = shares.notable()

        def texts(cell: Answer | Finding) -> tuple[str, str, Markup]:
            value = f"{100 * cell.value:.1f} %" if cell.value == cell.value else "none seen"
            drawn = interval_svg(cell.value, cell.low, cell.high, bottom=0.0, top=top, wide=120.0)
            return value, in_percent(Interval(cell.low, cell.high)), Markup(drawn)

        cells = [(" × ".join(label), *texts(cell)) for label, cell in shown]
        heads = shares.columns
        grid: tuple[GridLine, ...] = ()
        if len(heads) == 2:
            seconds = list(dict.fromkeys(label[1] for label, _ in shown))
            by_label = dict(shown)
            heads = (heads[0], heads[1], *seconds)
            lines = dict.fromkeys(label[0] for label, _ in shown)
            grid = tuple(
                GridLine(
                    first,
                    [
                        (second, *texts(by_label[first, second])) if (first, second) in by_label else None
                        for second in seconds
                    ],
                )
                for first in lines
            )
        scale = f"Drawn from 0 to {100 * top:.3g} %."
        rounds = f"{len(shares):,} questions. {scale} {note}".strip()
        kind = _kind(shares.parts[-1]) if shares.parts else ""
        return cls(
            title=shares.what,
            value="",
            sentence="",
            drawn=Markup(""),
            verdict="",
            what=shares.what,
            cells=cells,
            rounds=rounds,
            surprise=shares.surprises > 0,
            kind=kind,
            heads=heads,
            grid=grid,
        )


def _unit(asked: Statistic[Any], schema: Schema | None) -> tuple[str, float]:
    """What stands after a value, and what it is multiplied by: shares are in per cent, their differences in points."""
    if isinstance(asked, Share):
        return " %", 100.0
    if isinstance(asked, Compare | Difference) and asked.low is None and asked.high is None:
        text = asked.first if isinstance(asked, Compare) else asked.question
        if schema is not None and _is_yes_no(text, schema):
            return " points", 100.0
    return "", 1.0


def _is_yes_no(text: str, schema: Schema) -> bool:
    """Whether a text is a yes/no question by the declared columns."""
    try:
        expression(text, schema.kinds, schema.words)
    except EverholdError:
        return False
    return True


def _whole_scale(asked: Statistic[Any], schema: Schema | None) -> tuple[float, float] | None:
    """The ends that a value could have: of a share, of a difference of shares, or of a number by its declared range."""
    unit, _ = _unit(asked, schema)
    if unit:
        return (0.0, 1.0) if unit == " %" else (-1.0, 1.0)
    if not isinstance(asked, Mean | Median | Quantile):
        return None
    low, high = asked.low, asked.high
    name = asked.question.strip().strip('"')
    if schema is not None and name in schema:
        low, high = (schema[name].low if low is None else low), (schema[name].high if high is None else high)
    if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
        return float(low), float(high)
    return None


def _kind(answer: Answer) -> str:
    """What a value is, as a sentence begins."""
    text = answer.kind_text
    return text[:1].upper() + text[1:]


def _is_quiet(result: Answer | Finding) -> bool:
    """Whether the value is what the public side expected, because the private rows did not contradict it."""
    parts = (result,) if isinstance(result, Answer) else result.parts
    return all(part.act == "ask" and not part.surprise for part in parts)


def _is_date(result: Answer | Finding) -> bool:
    return isinstance(result, Finding) and result.unit == "date"


def bar(logged: LoggedQuestion | LoggedAct | LoggedRound) -> Markup:
    """A line of the log, drawn small; a statistic around its own interval."""
    answer = None if isinstance(logged, LoggedRound) and logged.shown_range is not None else logged.answer
    if answer is not None:
        bottom = 0.0 if answer.scale == "share" else -1.0
        return Markup(interval_svg(answer.value, answer.low, answer.high, bottom=bottom, top=1.0, wide=120.0))
    estimate = None if isinstance(logged, LoggedAct) else logged.estimate
    if estimate is None or not estimate.seen or not 0.0 < estimate.high - estimate.low < inf:
        return Markup("")
    room = 0.25 * (estimate.high - estimate.low)
    bottom, top = estimate.low - room, estimate.high + room
    return Markup(interval_svg(estimate.value, estimate.low, estimate.high, bottom=bottom, top=top, wide=120.0))


def described(column: ColumnSchema) -> str:
    """What was declared of a column."""
    parts = []
    if column.low is not None:
        parts.append(" to ".join(column.ends_text))
    if column.categories:
        more = "" if len(column.categories) <= 8 else " …"
        parts.append(", ".join(column.categories[:8]) + more)
    if column.missing:
        parts.append("may be missing")
    return "; ".join(parts)


def vocabulary(schema: Schema) -> list[dict[str, str]]:
    """Words for completion: columns, categories, and the words of questions."""
    words = []
    for name in schema:
        column = schema[name]
        words.append({"text": name if name.isidentifier() else f'"{name}"', "about": column.kind})
        quoted = [category.replace("'", "''") for category in column.categories]
        words += [{"text": f"'{category}'", "about": name} for category in quoted]
    return words + [{"text": word, "about": ""} for word in WORDS]
