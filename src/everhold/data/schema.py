"""The public declaration of the columns: proposed from the public reference, and saved as a readable file.

A schema is public. Nothing in it depends on private rows, and it fixes how to handle private rows that do not fit:

- a value that cannot be read as the declared kind is missing;
- a number outside its range keeps its value in comparisons, and is clipped to the range in means, quantiles and
  histograms;
- a text outside its categories keeps its value, and is an 'other' in tables; or it is missing, if the column says so;
- a missing value in a column declared complete is still missing, and counts as the middle of the range in a mean.

Only the owner can see how many rows do not fit, with `examine`.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from fractions import Fraction
from html import escape
from math import ceil, floor, isfinite, isnan, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from everhold.data.table import RowTable
from everhold.errors import DataError, SchemaWarning, SettingError, did_you_mean
from everhold.queries.expression.columns import EncodedColumn, converted, encode, kind_by_type
from everhold.queries.expression.parser import Words
from everhold.queries.expression.tree import Kind
from everhold.queries.expression.values import FIRST_MICROS, LARGEST, LAST_MICROS, date_of, is_nothing, iso
from everhold.results import Tabular, html_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColumnSchema", "Schema", "is_identifier"]

_MOST_CATEGORIES = 50
_FORMAT = 1
_MOST_LETTERS = 5_000_000


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """The declaration of one column.

    Attributes:
        name: the name that questions use.
        kind: 'number', 'boolean', 'text' or 'date'.
        low, high: for a number, the range for means, quantiles and histograms; for a date, the range for quantiles and
            histograms, in microseconds since 1970 (dates, and texts such as '2024-05-01', are accepted too).
        whole: whether the number is always whole.
        categories: the texts that tables and histograms list; empty for free text.
        others: how to treat other texts: 'keep' them, or count them as 'missing'.
        missing: whether values may be missing.
    """

    name: str
    kind: Kind
    low: float | None = None
    high: float | None = None
    whole: bool = False
    categories: tuple[str, ...] = ()
    others: Literal["keep", "missing"] = "keep"
    missing: bool = True

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise SettingError(f"column {self.name!r} is of kind {self.kind!r}. Expected {', '.join(get_args(Kind))}.")
        if (self.low is None) != (self.high is None):
            raise SettingError(f"column {self.name!r} has only one end of a range. Expected both low and high, or neither.")
        if self.low is not None and self.high is not None:
            if self.kind not in ("number", "date"):
                raise SettingError(f"column {self.name!r} is {self.kind}, but only numbers and dates can have a range.")
            if self.kind == "date":
                for end in ("low", "high"):
                    object.__setattr__(self, end, _moment(getattr(self, end), self.name))
            if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
                raise SettingError(f"column {self.name!r} ranges from {self.low!r} to {self.high!r}. Expected low < high.")
        if self.others not in ("keep", "missing"):
            raise SettingError(f"column {self.name!r} has others = {self.others!r}. Expected 'keep' or 'missing'.")
        if len(set(self.categories)) < len(self.categories):
            raise SettingError(f"column {self.name!r} lists a category twice. Expected each category once.")
        if self.categories and self.kind != "text":
            raise SettingError(f"column {self.name!r} is {self.kind}, but only text can have categories.")

    @property
    def closed(self) -> bool:
        """Whether all texts outside the categories count as missing."""
        return bool(self.categories) and self.others == "missing"

    def to_dict(self) -> dict[str, Any]:
        """What was declared, ready for JSON."""
        low, high = self.ends_text
        return {
            "name": self.name,
            "kind": self.kind,
            "whole": self.whole,
            "missing": self.missing,
            "low": low if self.kind == "date" else self.low,
            "high": high if self.kind == "date" else self.high,
            "categories": list(self.categories),
        }

    @property
    def ends_text(self) -> tuple[str, str]:
        """The ends of the range as readable text; empty if there is no range."""
        if self.low is None or self.high is None:
            return "", ""
        if self.kind == "date":
            return iso(self.low), iso(self.high)
        return f"{self.low:.12g}", f"{self.high:.12g}"

    def __str__(self) -> str:
        parts: list[str] = [self.kind]
        if self.low is not None:
            parts.append(" to ".join(self.ends_text))
        if self.whole:
            parts.append("whole")
        if self.categories:
            shown = ", ".join(self.categories[:6]) + (", …" if len(self.categories) > 6 else "")
            parts.append(f"{len(self.categories)} categories ({shown}){'' if self.others == 'keep' else ', no others'}")
        if self.missing:
            parts.append("may be missing")
        return ", ".join(parts)


@dataclass(frozen=True)
class Schema(Tabular, Mapping[str, ColumnSchema]):
    """The declared columns of a study.

    >>> schema = Schema.propose({"age": [30, 41, 55], "city": ["York", "Leeds", "York"]})
    >>> schema
    Schema(
      age: number, 30 to 55, whole, may be missing
      city: text, 2 categories (Leeds, York), may be missing
    )
    """

    columns: tuple[ColumnSchema, ...]
    _by_name: dict[str, ColumnSchema] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name.update({column.name: column for column in self.columns})
        if len(self._by_name) < len(self.columns):
            raise SettingError("two columns of the schema have the same name. Expected different names: rename one.")

    def __getitem__(self, name: str) -> ColumnSchema:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each column."""
        return [{**column.to_dict(), "categories": ", ".join(column.categories)} for column in self.columns]

    def _repr_html_(self) -> str:
        rows = [(f"<b>{escape(column.name)}</b>", escape(str(column))) for column in self.columns]
        return html_table(["column", "declared"], rows)

    def __repr__(self) -> str:
        return "Schema(\n" + "".join(f"  {column.name}: {column}\n" for column in self.columns) + ")"

    @property
    def kinds(self) -> dict[str, Kind]:
        """Names and kinds of the columns; text questions are checked against them."""
        return {column.name: column.kind for column in self.columns}

    @property
    def words(self) -> dict[str, Words]:
        """The words that the schema lists for text columns."""
        return {
            column.name: Words(frozenset(column.categories), column.closed) for column in self.columns if column.categories
        }

    @classmethod
    def propose(cls, reference: object, *, warn: bool = True, unit: str | None = None) -> Schema:
        """Propose kinds, ranges and categories from *public* rows: a table, a file, or anything that a reference can be.

        A number's range spans all but the outermost 0.1 % on either side, with some room, rounded outwards. Values outside
        it count as its nearest end in means, so check it. `SchemaWarning` names columns with a single public value, about
        which the public rows say little, dates that are text, and identifiers that repeat (but for `unit`, whose rows
        belong together). The proposal always allows missing values; if a column has none, declare so (`missing=False`), and
        with `unit=` a mean then takes one question.
        """
        from everhold.data.source import as_table

        table = reference if isinstance(reference, RowTable) else as_table(reference, what="the reference")
        schema = cls(tuple(_proposed(name, table.column(name)) for name in table if table.kind(name) is not None))
        alone = [name for name in schema if _single(table.column(name))] if warn else []
        if alone:
            shown = ", ".join(repr(name) for name in alone[:6]) + (", …" if len(alone) > 6 else "")
            warnings.warn(
                f"the public rows have a single value in {shown}. The proposed range of such a column may not fit the "
                "other rows, and means would be cut to it. Declare the range: schema.revised(name, low=..., high=...).",
                SchemaWarning,
                stacklevel=2,
            )
        dated = (
            [name for name in schema if schema[name].kind == "text" and _written_dates(table.column(name))] if warn else []
        )
        if dated:
            warnings.warn(
                f"{', '.join(map(repr, dated))} holds dates as text, and is compared as text. Convert it on both sides, "
                "such as with pandas.to_datetime; in a CSV file dates are recognised.",
                SchemaWarning,
                stacklevel=2,
            )
        repeated = [name for name in schema if name != unit and _repeats(name, table.column(name))] if warn else []
        if repeated:
            warnings.warn(
                f"{', '.join(map(repr, repeated))} looks like an identifier, and its values repeat. If all rows with the "
                f"same one belong together, such as those of one person, say so: unit={repeated[0]!r}. Rows that belong "
                "together are no independent draws, and intervals would be too narrow.",
                SchemaWarning,
                stacklevel=2,
            )
        return schema

    def revised(self, name: str, **changes: Any) -> Schema:
        """The schema with one column changed: `schema.revised("bmi", low=10, high=60)`.

        >>> Schema.propose({"age": [30, 41]}).revised("age", low=0, high=120)["age"].high
        120.0
        """
        if name not in self:
            raise SettingError(f"the schema has no column {name!r}.{did_you_mean(name, self)}")
        now = asdict(self[name]) | {"categories": list(self[name].categories)}
        entry = {key: value for key, value in {**now, **changes}.items() if key != "name" and value is not None}
        if isinstance(entry["categories"], tuple):
            entry["categories"] = list(entry["categories"])
        new = _from_entry(name, entry)
        return Schema(tuple(new if column.name == name else column for column in self.columns))

    def save(self, path: str | Path) -> None:
        """Write the schema as a TOML file that people can read and edit."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def to_toml(self) -> str:
        """The schema as TOML text."""
        lines = [
            "# The columns of an everhold study. Everything here is public, and none of it comes from private rows.",
            f"format = {_FORMAT}",
        ]
        for column in self.columns:
            lines += ["", f"[columns.{_quoted(column.name)}]", f'kind = "{column.kind}"']
            if column.low is not None and column.high is not None:
                ends = column.ends_text if column.kind == "date" else (repr(column.low), repr(column.high))
                lines += [f"low = {ends[0].replace(' ', 'T')}", f"high = {ends[1].replace(' ', 'T')}"]
            if column.whole:
                lines.append("whole = true")
            if column.categories:
                lines.append(f"categories = [{', '.join(_quoted(word) for word in column.categories)}]")
                lines.append(f'others = "{column.others}"')
            lines.append(f"missing = {str(column.missing).lower()}")
        return "\n".join(lines) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a file written by `save`, possibly edited since."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(f"the schema {str(path)!r} could not be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise DataError(f"the schema {str(path)!r} is not UTF-8 text. Expected a file that Schema.save wrote.") from None
        try:
            return cls.from_toml(text)
        except SettingError as error:
            raise SettingError(f"in {str(path)!r}: {error}") from None

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Parse a schema from TOML text."""
        if len(text) > _MOST_LETTERS or any(line.partition("=")[0].count(".") > 50 for line in text.splitlines()):
            raise SettingError(f"the schema is too long or too deep. Expected at most {_MOST_LETTERS:,} characters.")
        try:
            content = tomllib.loads(text)
        except (ValueError, OverflowError, RecursionError) as error:
            said = str(error)[:200] if isinstance(error, tomllib.TOMLDecodeError) else "a value is too large or too deep"
            raise SettingError(f"the schema is not valid TOML: {said}.") from None
        if content.get("format") != _FORMAT:
            raise SettingError(f"the schema has format {content.get('format')!r}. Expected format = {_FORMAT}.")
        declared = content.get("columns")
        if not isinstance(declared, dict) or not declared:
            raise SettingError("the schema declares no columns. Expected a table such as [columns.age] for each column.")
        return cls(tuple(_from_entry(name, entry) for name, entry in declared.items()))

    def conform(self, table: RowTable, *, what: str = "the table") -> RowTable:
        """The table with its columns as declared; values that do not fit are missing. Undeclared columns are left out."""
        columns: dict[str, object] = {}
        for declared in self.columns:
            if declared.name not in table:
                raise DataError(f"{what} has no column {declared.name!r}.{did_you_mean(declared.name, table)}")
            columns[declared.name] = self._conformed(declared, table, what)
        for name in table:
            if name not in self and table.kind(name) is None:
                columns[name] = table[name]  # matrices and similar columns, for callables
        return RowTable(columns, size=table.row_count, what=what, copy=False)

    @staticmethod
    def _conformed(declared: ColumnSchema, table: RowTable, what: str) -> object:
        name = declared.name
        if table.kind(name) is None:
            raise DataError(
                f"column {name!r} of {what} holds {table.kinds()[name]}, which cannot be read as {declared.kind}."
            )
        column = table.raw_or_encoded(name)
        if not isinstance(column, EncodedColumn):
            # How a value is read depends on the declared kind, never on the other values of its column.
            found = kind_by_type(column)
            if found == declared.kind and not declared.closed:
                return column
            if found is not None and "date" in (found, declared.kind) and "text" not in (found, declared.kind):
                raise DataError(f"column {name!r} of {what} holds {found}s, which cannot be read as {declared.kind}.")
            if declared.kind == "text" and not _could_be_among(found, declared.categories):
                raise DataError(
                    f"column {name!r} of {what} holds {found}s, and the schema lists the words "
                    f"{', '.join(map(repr, declared.categories[:3]))}. Give both sides the same spelling."
                )
            read = encode(column, declared.kind)
            if read.missing.all() and not _nothing(column):
                raise DataError(
                    f"column {name!r} of {what} has no value that can be read as {declared.kind}. Declare the column as "
                    "another kind in the schema, or drop it."
                )
            column = read
        elif declared.kind != "text" and len(column.missing) and column.missing.all():  # of a file: it was read as declared
            warnings.warn(
                f"column {name!r} of {what} has no value that can be read as {declared.kind}: it is empty, or written in "
                "another way than the public one, such as 31.12.2026 for a date or 1,5 for a number. Every value of it "
                "counts as missing.",
                SchemaWarning,
                stacklevel=2,
            )
        return conformed(column, declared)


def _written_dates(column: EncodedColumn) -> bool:
    """Whether every value of a text column, as far as looked at, is written as a date."""
    words = [str(word) for word in (column.words or ())[:1_000]]
    return len(words) > 1 and all(not isnan(date_of(word)) for word in words)


def _could_be_among(found: Kind | None, words: Sequence[str]) -> bool:
    """Whether a column of this type, written as text, could hold one of the listed words.

    >>> _could_be_among("boolean", ("no", "yes")), _could_be_among("number", ("1", "2")), _could_be_among(None, ("no",))
    (False, True, True)
    """
    if not words or found not in ("boolean", "number"):
        return True
    if found == "boolean":
        return bool({"true", "false"} & {word.lower() for word in words})
    return any(_is_number(word) for word in words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _nothing(column: NDArray[Any]) -> bool:
    """Whether every value is missing."""
    return all(is_nothing(item) for item in column.tolist())


def conformed(column: EncodedColumn, declared: ColumnSchema) -> EncodedColumn:
    """The column as declared; values that do not fit are missing."""
    column = converted(column, declared.kind)
    if not declared.closed:
        return column
    listed = np.array([*(word in set(declared.categories) for word in column.words), False])
    return EncodedColumn("text", np.where(listed[column.values], column.values, -1).astype(np.int32), column.words)


def _proposed(name: str, column: EncodedColumn) -> ColumnSchema:
    if column.kind == "number":
        known = column.values[~np.isnan(column.values)]
        if not len(known):
            return ColumnSchema(name, "number")
        whole = bool(np.all(known == np.rint(known)))
        return ColumnSchema(name, "number", *_range(known, whole), whole=whole)
    if column.kind == "date":
        known = column.values[~np.isnan(column.values)]
        if not len(known) or known.min() == known.max():
            return ColumnSchema(name, "date")
        low, high = float(known.min()) // _DAY * _DAY, -(-float(known.max()) // _DAY) * _DAY
        return ColumnSchema(name, "date", max(low, FIRST_MICROS), min(high, LAST_MICROS))
    if column.kind == "text" and 0 < len(column.words) <= _MOST_CATEGORIES:
        used = sorted({int(code) for code in np.unique(column.values)} - {-1})
        return ColumnSchema(name, "text", categories=tuple(column.words[code] for code in used))
    return ColumnSchema(name, column.kind)


_DAY = 86_400_000_000.0
_FEW = 50
"""Whole numbers with a span up to this keep their exact range: counts, ratings, months."""


def _range(known: NDArray[np.float64], whole: bool) -> tuple[float, float]:
    """A range for means from public numbers, robust against a few far outliers, with some room at both ends.

    >>> _range(np.arange(13.0), True), _range(np.array([0.0, 1.0]), True)
    ((0.0, 12.0), (0.0, 1.0))
    >>> _range(np.concatenate([np.linspace(0, 60, 10_000), [1300.0]]), False)
    (0.0, 70.0)
    """
    least, most = float(known.min()), float(known.max())
    if whole and 0.0 < most - least <= _FEW:
        return least, most
    low, high = (float(end) for end in np.quantile(known, (0.001, 0.999)))
    room = 0.01 * (high - low)
    low, high = _round_range(low - room, high + room) if room > 0.0 else _round_range(least, most)
    if least == most:
        return low, high
    if least >= 0.0:
        low = max(low, 0.0)
    if most <= 0.0:
        high = min(high, 0.0)
    return max(low, -LARGEST), min(high, LARGEST)


def _single(column: EncodedColumn) -> bool:
    """Whether all known values of a number or date are equal, and not clamped."""
    if column.kind not in ("number", "date"):
        return False
    known = column.values[~column.missing]
    return len(known) > 0 and bool(np.all(known == known[0])) and abs(known[0]) != LARGEST


_IDENTIFIERS = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key)$|[a-z]I[Dd]$", re.ASCII)


def is_identifier(name: str) -> bool:
    """Whether a column is called like an identifier of people or things.

    >>> is_identifier("patient_id"), is_identifier("userId"), is_identifier("humid")
    (True, True, False)
    """
    return bool(_IDENTIFIERS.search(name))


def _repeats(name: str, column: EncodedColumn) -> bool:
    """Whether it is an identifier, and many of its public values stand in more than one row."""
    if not is_identifier(name) or column.kind not in ("number", "text"):
        return False
    known = column.values[~column.missing]
    distinct = len(np.unique(known)) if column.kind == "number" else len(set(known.tolist()))
    return distinct > 20 and len(known) > 1.05 * distinct


def _moment(end: object, name: str) -> float:
    micros = float(end) if isinstance(end, int | float) else date_of(end)
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise SettingError(f"column {name!r} has the range end {end!r}. Expected a date such as '2024-05-01'.")
    return micros


def _round_range(low: float, high: float) -> tuple[float, float]:
    """A range around the given one, with ends rounded outwards to round numbers.

    >>> _round_range(18, 89), _round_range(5, 23), _round_range(0.121, 0.164), _round_range(5, 5)
    ((10.0, 90.0), (4.0, 24.0), (0.12, 0.165), (4.0, 6.0))
    """
    if low == high:
        return low - 1.0, high + 1.0
    step = Fraction(10) ** floor(log10(high - low))
    many = Fraction(high - low) / step
    step = step / 5 if many < 2 else step / 2 if many < 5 else step
    return float(floor(Fraction(low) / step) * step), float(ceil(Fraction(high) / step) * step)


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    body = "".join(
        escapes.get(letter, letter if ord(letter) >= 32 and ord(letter) != 127 else f"\\u{ord(letter):04x}")
        for letter in text
    )
    return f'"{body}"'


_KEYS = ("kind", "low", "high", "whole", "categories", "others", "missing")


def _from_entry(name: str, entry: Any) -> ColumnSchema:
    if not isinstance(entry, dict) or "kind" not in entry:
        raise SettingError(f"column {name!r} has no kind. Expected kind = 'number', 'boolean', 'text' or 'date'.")
    for key in entry:
        if key not in _KEYS:
            raise SettingError(f"column {name!r} has an unknown entry {key!r}.{did_you_mean(key, _KEYS)}")
    for key, wanted in (("whole", bool), ("missing", bool), ("others", str), ("kind", str), ("categories", list)):
        if key in entry and not isinstance(entry[key], wanted):
            raise SettingError(f"column {name!r} has {key} = {entry[key]!r}. Expected a {wanted.__name__}.")
    for key in ("low", "high"):
        allowed = (str, date) if entry["kind"] == "date" else ()
        if key in entry and (isinstance(entry[key], bool) or not isinstance(entry[key], (int, float, *allowed))):
            raise SettingError(
                f"column {name!r} has {key} = {entry[key]!r}. Expected a number{' or a date' if allowed else ''}."
            )
    categories: Iterable[Any] = entry.get("categories", [])
    if any(not isinstance(word, str) for word in categories):
        raise SettingError(f"column {name!r} has categories that are not text. Expected quoted words.")
    try:
        ends: dict[str, Any] = {
            key: entry[key] if entry["kind"] == "date" else float(entry[key]) for key in ("low", "high") if key in entry
        }
    except OverflowError:
        raise SettingError(f"column {name!r} has a range end that is too large. Expected a smaller number.") from None
    rest = {key: entry[key] for key in ("kind", "whole", "others", "missing") if key in entry}
    return ColumnSchema(name, categories=tuple(categories), **ends, **rest)
