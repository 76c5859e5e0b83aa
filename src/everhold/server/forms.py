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


def _name(one: Parameter) -> str:
    """The name of a field: parameters of one name that mean different things have different labels."""
    slug = one.label.lower().replace(" ", "_")
    return slug if one.name in slug else one.name


def _fields() -> dict[str, FormField]:
    found: dict[str, FormField] = {}
    for kind, one in ((kind, one) for kind, made in STATISTICS.items() for one in parameters(made)[1:]):
        name = _name(one)
        earlier = found.get(name)
        kinds = (*(() if earlier is None else earlier.kinds), kind)
        found[name] = FormField(name, one.label, one.about, one.form, kinds, "")
    return found


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
    def read(cls, given: Mapping[str, Any]) -> QuestionForm:
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
        for one in others:
            if text := self.more.get(_name(one)):
                given[one.name] = one.read(text)
            elif one.required:
                raise QuestionError(f"the field {one.label!r} is empty. {one.about}")
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
        found: Result,
        asked: Statistic[Any],
        question: str,
        *,
        small: bool = False,
        schema: Schema | None = None,
    ) -> AnswerCard:
        """From what was found, the statistic that was asked for, and the question as it was typed.

        `small`: drawn for a row of a table. `schema`: says what the whole scale of a column is.
        """
        if isinstance(found, Shares):
            return cls._table(found)
        unit, times = _unit(asked, schema)
        title = question if isinstance(found, Answer) else found.what
        interval = Interval(times * found.low, times * found.high)
        digits = min(max(interval.decimals, 0), 6)
        low, high = str(interval)[1:-1].split(", ")
        value = f"{times * found.value:,.{digits}f}{unit}"
        if isinstance(found, Finding) and (_is_date(found) or not found.seen):
            value = found.value_text
        if isinstance(found, Finding) and _is_date(found):
            low, high = found.interval_text[1:-1].split(", ")
        sentence = f"For the population: between {low}{unit} and {high}{unit}."
        verdict = ""
        if isinstance(found, Comparison):
            yes = {
                "yes": "Yes: the whole interval is above 0.",
                "no": "No: the whole interval is at or below 0.",
                "cannot tell": "Cannot tell: the interval contains 0.",
            }
            verdict = yes[found.verdict]
        many = 1 if isinstance(found, Answer) else len(found.parts)
        asked_of = f"Round {found.round:,}" if many == 1 else f"{many} questions, the last in round {found.round:,}"
        ends = _whole_scale(asked, schema)
        if small:
            left, right = ends or axis_around([(found.low, found.high)])
            drawn = interval_svg(found.value, found.low, found.high, bottom=left, top=right, wide=120.0)
        else:
            bottom, top = (None, None) if ends is None else (times * ends[0], times * ends[1])
            numbers = (times * found.value, times * found.low, times * found.high)
            drawn = axis_svg(
                *numbers, bottom=bottom, top=top, unit=unit if times > 1.0 else "", zero=isinstance(found, Comparison)
            )
        return cls(
            title=title,
            value=value,
            sentence=sentence,
            drawn=Markup("") if _is_date(found) else Markup(drawn),
            verdict=verdict,
            what="",
            cells=[],
            rounds=f"{asked_of}; priced at {found.price:.1f} nats.",
            surprise=found.surprise and found.value == found.value,
            kind=_kind(found if isinstance(found, Answer) else found.parts[-1]),
            ends=f"{low} to {high}{unit}",
            quiet=found.value == found.value and _is_quiet(found),
        )

    @property
    def between(self) -> str:
        """The interval in words."""
        return self.sentence.removeprefix("For the population: ").removesuffix(".")

    @classmethod
    def _table(cls, found: Shares) -> AnswerCard:
        top = max((cell.high for cell in found.cells), default=1.0) or 1.0
        shown, note = found.notable()

        def texts(cell: Answer | Finding) -> tuple[str, str, Markup]:
            value = f"{100 * cell.value:.1f} %" if cell.value == cell.value else "none seen"
            drawn = interval_svg(cell.value, cell.low, cell.high, bottom=0.0, top=top, wide=120.0)
            return value, in_percent(Interval(cell.low, cell.high)), Markup(drawn)

        cells = [(" × ".join(label), *texts(cell)) for label, cell in shown]
        heads = found.columns
        grid: tuple[GridLine, ...] = ()
        if len(heads) == 2:
            seconds = list(dict.fromkeys(label[1] for label, _ in shown))
            by_label = dict(shown)
            heads = (heads[0], heads[1], *seconds)
            lines = dict.fromkeys(label[0] for label, _ in shown)
            grid = tuple(
                GridLine(
                    one,
                    [(two, *texts(by_label[one, two])) if (one, two) in by_label else None for two in seconds],
                )
                for one in lines
            )
        scale = f"Drawn from 0 to {100 * top:.3g} %."
        rounds = f"{len(found):,} questions. {scale} {note}".strip()
        kind = _kind(found.parts[-1]) if found.parts else ""
        surprise = found.surprises > 0
        return cls(found.what, "", "", Markup(""), "", found.what, cells, rounds, surprise, kind, heads, grid)


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
    said = answer.kind_text
    return said[:1].upper() + said[1:]


def _is_quiet(found: Answer | Finding) -> bool:
    """Whether the value is what the public side expected, because the private rows did not contradict it."""
    parts = (found,) if isinstance(found, Answer) else found.parts
    return all(part.act == "ask" and not part.surprise for part in parts)


def _is_date(found: Answer | Finding) -> bool:
    return isinstance(found, Finding) and found.unit == "date"


def bar(one: LoggedQuestion | LoggedAct | LoggedRound) -> Markup:
    """A line of the log, drawn small; a statistic around its own interval."""
    answer = one.answer
    if answer is not None:
        bottom = 0.0 if answer.scale == "share" else -1.0
        return Markup(interval_svg(answer.value, answer.low, answer.high, bottom=bottom, top=1.0, wide=120.0))
    found = one.finding.estimate if isinstance(one, LoggedQuestion) and one.finding is not None else None
    if found is None or not found.seen or not 0.0 < found.high - found.low < inf:
        return Markup("")
    room = 0.25 * (found.high - found.low)
    bottom, top = found.low - room, found.high + room
    return Markup(interval_svg(found.value, found.low, found.high, bottom=bottom, top=top, wide=120.0))


def described(column: ColumnSchema) -> str:
    """What was declared of a column."""
    said = []
    if column.low is not None:
        said.append(" to ".join(column.ends_text))
    if column.categories:
        more = "" if len(column.categories) <= 8 else " …"
        said.append(", ".join(column.categories[:8]) + more)
    if column.missing:
        said.append("may be missing")
    return "; ".join(said)


def vocabulary(schema: Schema) -> list[dict[str, str]]:
    """Words for completion: columns, categories, and the words of questions."""
    words = []
    for name in schema:
        column = schema[name]
        words.append({"text": name if name.isidentifier() else f'"{name}"', "about": column.kind})
        quoted = [one.replace("'", "''") for one in column.categories]
        words += [{"text": f"'{one}'", "about": name} for one in quoted]
    return words + [{"text": word, "about": ""} for word in WORDS]
