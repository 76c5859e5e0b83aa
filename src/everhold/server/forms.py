"""From a form to a question, and from what was found to what a page shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from everhold.errors import QuestionError
from everhold.queries.answer import Answer
from everhold.queries.expression.values import date_of
from everhold.queries.interval import Interval
from everhold.report.interval_svg import interval_svg
from everhold.statistics.finding import Comparison, Finding, Shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.client.json_codec import Result
    from everhold.data.schema import ColumnSchema, Schema
    from everhold.statistics.shortcuts import Asker

__all__ = ["KINDS", "WORDS", "AnswerCard", "QuestionForm", "bar", "described", "example", "vocabulary"]

KINDS = {
    "share": "Share",
    "mean": "Mean",
    "median": "Median",
    "quantile": "Quantile",
    "difference": "Difference of groups",
    "compare": "Is it larger than",
    "histogram": "Histogram",
    "table": "Table",
    "variance": "Variance",
    "correlation": "Correlation with",
}
WORDS = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "IS NOT NULL", "CASE", "WHEN", "THEN", "ELSE", "END",
         "abs", "coalesce", "ln", "exp", "sqrt", "floor", "ceil", "round", "year", "month", "day", "lower", "upper",
         "length", "least", "greatest")  # fmt: skip

_TAKES = {
    "share": ("given",),
    "mean": ("low", "high", "given"),
    "median": ("low", "high", "given"),
    "quantile": ("low", "high", "given", "level"),
    "variance": ("low", "high", "given"),
    "difference": ("low", "high"),
    "compare": ("low", "high", "given"),
    "correlation": ("given",),
    "histogram": ("bins", "given"),
    "table": ("bins", "given"),
}


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The question box, as it was filled in."""

    kind: str = "share"
    question: str = ""
    given: str = ""
    low: str = ""
    high: str = ""
    level: str = "0.5"
    second: str = ""
    first_group: str = ""
    second_group: str = ""
    bins: str = ""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> QuestionForm:
        """From what a browser sent; files and unknown fields do not count."""
        known = {name: given.get(name) for name in cls.__slots__}
        return cls(**{name: value.strip() for name, value in known.items() if isinstance(value, str)})

    def find(self, asker: Asker) -> Result:
        """Ask it."""
        if self.kind not in KINDS:
            raise QuestionError(f"there is no kind of question {self.kind[:40]!r}. Expected one of {', '.join(KINDS)}.")
        if not self.question:
            raise QuestionError("no question came. Type one, such as the examples below the box.")
        found: Result = getattr(asker, self.kind)(**self._arguments())
        return found

    def _arguments(self) -> dict[str, Any]:
        given: dict[str, Any] = {"question": self.question}
        if self.kind in ("compare", "correlation", "table"):
            given = {"first": self.question, "second": self.second or None}
            if self.kind != "table" and not self.second:
                raise QuestionError("with what is it compared? Fill in the field 'Second'.")
        if self.kind == "difference":
            if not (self.first_group and self.second_group):
                raise QuestionError("a difference is between two groups. Fill in both, such as smoker and NOT smoker.")
            given |= {"first": self.first_group, "second": self.second_group}
        for name in _TAKES[self.kind]:
            text = getattr(self, name)
            if text:
                given[name] = text if name == "given" else _number(text, name)
        return given


def _number(text: str, name: str) -> float | int | str:
    if name in ("low", "high") and date_of(text) == date_of(text):
        return text
    try:
        return int(text) if name == "bins" else float(text)
    except ValueError:
        raise QuestionError(f"{name} is {text[:40]!r}. Expected a number.") from None


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

    @classmethod
    def of(cls, found: Result, asked: str) -> AnswerCard:
        """From what was found."""
        if isinstance(found, Shares):
            return cls._table(found)
        percent = isinstance(found, Answer) or found.what.startswith("share of")
        title = asked if isinstance(found, Answer) else found.what
        times = 100.0 if percent else 1.0
        interval = Interval(times * found.low, times * found.high)
        digits = min(max(interval.decimals, 0), 6)
        unit = " %" if percent else ""
        low, high = str(interval)[1:-1].split(", ")
        value = f"{times * found.value:,.{digits}f}{unit}"
        if isinstance(found, Finding) and (_is_date(found) or not found.seen):
            value = found.value_text
        if isinstance(found, Finding) and _is_date(found):
            low, high = found.interval_text[1:-1].split(", ")
        sentence = f"For the population: between {low}{unit} and {high}{unit}."
        verdict = ""
        if isinstance(found, Comparison):
            yes = {"yes": "Yes, larger beyond doubt.", "no": "No, not larger.", "cannot tell": "Cannot tell from this."}
            verdict = yes[found.verdict]
        many = 1 if isinstance(found, Answer) else len(found.parts)
        asked_of = f"Round {found.round:,}" if many == 1 else f"{many} questions, the last in round {found.round:,}"
        return cls(
            title, value, sentence, Markup("") if _is_date(found) else _drawn(found, percent), verdict, "", [],
            f"{asked_of}; priced at {found.spent:.1f} nats.", found.surprise,
        )  # fmt: skip

    @classmethod
    def _table(cls, found: Shares) -> AnswerCard:
        top = max((cell.high for cell in found.cells), default=1.0) or 1.0
        shown, note = found._shown()
        cells = [
            (
                " × ".join(label),
                f"{100 * cell.value:.1f} %" if cell.value == cell.value else "none seen",
                f"{Interval(100 * cell.low, 100 * cell.high)} %",
                Markup(interval_svg(cell.value, cell.low, cell.high, bottom=0.0, top=top)),
            )
            for label, cell in shown
        ]
        rounds = f"{len(found):,} questions. {note}".strip()
        return cls(found.what, "", "", Markup(""), "", found.what, cells, rounds, found.surprises > 0)


def _is_date(found: Answer | Finding) -> bool:
    return isinstance(found, Finding) and found.unit == "date"


def _drawn(found: Answer | Finding, percent: bool) -> Markup:
    bottom, top = 0.0, 1.0
    if not percent:
        reach = max(found.high - found.low, 1e-9)
        bottom, top = found.low - 0.5 * reach, found.high + 0.5 * reach
        if isinstance(found, Comparison):
            bottom, top = min(bottom, -0.1 * reach), max(top, 0.1 * reach)
        elif found.low >= 0.0:
            bottom = max(bottom, 0.0)
    ticks = 5 if percent else 3
    bottom, top = (float(f"{end:.3g}") for end in (bottom, top))
    return Markup(interval_svg(found.value, found.low, found.high, bottom=bottom, top=top, wide=560.0, ticks=ticks))


def bar(answer: Answer) -> Markup:
    """A round of the record, drawn small."""
    bottom = 0.0 if answer.scale == "share" else -1.0
    return Markup(interval_svg(answer.value, answer.low, answer.high, bottom=bottom, top=1.0, wide=120.0))


def example(column: ColumnSchema) -> str:
    """A question about a column."""
    name = column.name if column.name.isidentifier() else f'"{column.name}"'
    if column.kind == "boolean":
        return name
    if column.kind == "text":
        first = column.categories[0].replace("'", "''") if column.categories else "…"
        return f"{name} = '{first}'" if column.categories else f"{name} IS NOT NULL"
    if column.kind == "date":
        return f"year({name}) >= 2020"
    if column.low is None or column.high is None:
        return f"{name} > 0"
    middle = 0.5 * (column.low + column.high)
    return f"{name} > {round(middle) if column.whole or abs(middle) >= 10 else float(f'{middle:.2g}'):g}"


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
