"""Tables that another engine holds: what everhold asks of them, and how it sees that their rows are still the same.

Rows never leave such a table, except a public one that is fetched as a reference. A question brings back sums, an
examination counts, the fingerprint sums of keyed hashes; only the comparison with a reference (`data.overlap`) reads one
keyed hash of each row. Every scan of a question also sums a *stamp*, which changes when rows do.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.engines.sql import Select
from everhold.data.table import RowTable
from everhold.data.units import by_unit
from everhold.errors import DataError, QuestionError, did_you_mean
from everhold.queries.expression.columns import EncodedColumn, encode_words
from everhold.queries.expression.values import LONGEST_TEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.engines.dialect import Dialect
    from everhold.data.source import Source
    from everhold.data.units import Units
    from everhold.queries.expression.question import TextQuestion
    from everhold.queries.expression.tree import Kind
    from everhold.queries.grid import Sums

__all__ = ["RemoteEngine", "RemoteTable"]

_AT_ONCE = 128  # questions in one SELECT


class RemoteTable(ABC):
    """A table in another engine, as a source of rows.

    A subclass connects, and sets what follows before it calls `_begin`.

    Attributes:
        dialect: the engine's SQL.
        relation: SQL of the table.
        types: the type of each column, by the engine's names.
        tally: SQL of whole numbers of each row; their sums are the stamp. The first is 1, so that rows are counted.
        what: a name for these rows, for messages.
        private: whether messages must not show anything from the rows.
        most_depth: how many layers of inner columns there may be; None: as many as wanted.
        size: the number of rows.
    """

    dialect: Dialect
    relation: str
    types: dict[str, str]
    tally: tuple[str, ...] = ("1",)
    most_depth: int | None = None
    size: int

    def __init__(self, what: str, private: bool) -> None:
        self.what, self.private = what, private

    def _begin(self) -> None:
        """Note the stamp that every later scan is compared with."""
        if not self.types:
            raise DataError(f"{self.what} has no columns.")
        self._stamp = self._stamp_of(self.fetch([Select(self.dialect, {}, self.relation, tally=self.tally).sums([])])[0][0])
        self.size = self._stamp[0]
        if not self.size:
            raise DataError(f"{self.what} has no rows.")

    @abstractmethod
    def fetch(self, statements: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        """The rows that each statement selects, all of one moment.

        Raises:
            DataError: it failed. The message shows nothing from the rows.
        """

    @abstractmethod
    def hashed(self, columns: Sequence[tuple[str, Kind]], key: bytes) -> tuple[str, list[str]]:
        """SQL of a keyed hash of canonical columns, and of its parts, given the hash as `h`.

        The parts are whole numbers of 64 bits. Different rows have different hashes, except by chance.
        """

    @abstractmethod
    def hashed_rows(self, public: RowTable, names: Sequence[str], key: bytes) -> NDArray[np.uint64]:
        """The first part of the same hash, for rows of a public table."""

    def _stamp_of(self, sums: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(one) for one in sums)

    def require_same(self, sums: Sequence[int]) -> None:
        """Reject rows that have changed since this table was opened."""
        if self._stamp_of(sums) != self._stamp:
            raise DataError(
                f"{self.what} has changed since the session began, so further answers would not be valid. Restore the rows "
                "that the study was made for, and open it again."
            )

    def counted(self, wanted: Sequence[str], columns: Mapping[str, str]) -> list[int]:
        """Whole numbers over all rows, of the rows that this table was opened with.

        The stamp in the same SELECT also keeps Spark from handing all of it to a database behind it, whose rules differ.

        Args:
            wanted: SQL of the aggregates, which use short names of columns.
            columns: SQL of the columns by their short names.
        """
        tally = {f"y{place}": sql for place, sql in enumerate(self.tally)}
        inner = ", ".join(f"{sql} AS {short}" for short, sql in (dict(columns) | tally).items())
        sums = [*wanted, *(self.dialect.sum_whole(one) for one in tally)]
        named = ", ".join(f"{sql} AS q{place}" for place, sql in enumerate(sums))
        sql = f"SELECT {named} FROM (SELECT {inner} FROM {self.relation}{self.dialect.fence}) AS p"
        row = [int(one) for one in self.fetch([sql])[0][0]]
        self.require_same(row[len(wanted) :])
        return row[: len(wanted)]

    # a source of rows ------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.types)

    @property
    def usable(self) -> tuple[str, ...]:
        """The columns that questions could use."""
        return tuple(self.kinds())

    def kinds(self) -> dict[str, Kind]:
        """The kind of each column that questions could use, by its type."""
        known = {name: self.dialect.kind_of(found) for name, found in self.types.items()}
        return {name: kind for name, kind in known.items() if kind is not None}

    def column(self, name: str, kind: Kind) -> str:
        """SQL of the canonical value of a column."""
        if name not in self.types:
            raise DataError(f"{self.what} has no column {name!r}.{did_you_mean(name, self.names)}")
        return self.dialect.canonical(name, self.types[name], kind, self.what)

    def unit_column(self, unit: str) -> str:
        """SQL of what names a row's unit."""
        if unit not in self.types or self.dialect.kind_of(self.types[unit]) is None:
            raise DataError(
                f"{self.what} has no column {unit!r} to group rows by (unit=).{did_you_mean(unit, self.usable)} Expected "
                "the name of a column of texts, numbers or dates."
            )
        return self.dialect.unit(unit, self.types[unit])

    def table(self, kinds: Mapping[str, Kind] | None = None) -> RowTable:
        """All rows in memory. Only for public rows: private ones stay where they are."""
        if self.private:
            raise DataError(f"{self.what} stays where it is, and cannot be read into memory. Expected engine='auto'.")
        wanted = dict(self.kinds() if kinds is None else kinds)
        if not wanted:
            raise DataError(f"{self.what} has no columns that questions can use.")
        columns = [_shown(self.dialect, self.column(name, kind), kind) for name, kind in wanted.items()]
        listed = ", ".join(f"{sql} AS c{place}" for place, sql in enumerate(columns))
        rows = self.fetch([f"SELECT {listed} FROM {self.relation}"])[0]
        fetched = zip(wanted.items(), zip(*rows, strict=True), strict=True)
        return RowTable({name: _encoded(kind, list(values)) for (name, kind), values in fetched}, what=self.what)

    def units(self, unit: str) -> Units:
        """Not for tables whose rows have no order."""
        raise self._no_order()

    def divide(self, public: NDArray[np.bool_]) -> tuple[Source, Source]:
        """Not for tables whose rows have no order."""
        raise self._no_order()

    def _no_order(self) -> DataError:
        return DataError(
            f"{self.what} is in {self.dialect.name}, where rows have no order, so it cannot be split here. Expected "
            "prior=eh.Reference(...): make two tables of a random part each, and give one of them as the reference."
        )

    # for the owner ---------------------------------------------------------------------------------------------------

    def counts(self, conditions: Sequence[str], columns: Mapping[str, str]) -> list[int]:
        """The number of rows on which each condition is true; conditions use short names of columns."""
        return self.counted([self.dialect.count_where(one) for one in conditions], columns)


class RemoteEngine:
    """An engine over a table that another engine holds.

    Args:
        rows: the table.
        kinds: the declared columns.
        closed: for text columns with a closed list of words, the words.
        unit: the column that says which rows belong together.
        place: a column that numbers the rows, for the conformance suite.
    """

    def __init__(
        self,
        rows: RemoteTable,
        kinds: Mapping[str, Kind],
        *,
        closed: Mapping[str, frozenset[str]] | None = None,
        unit: str | None = None,
        place: str | None = None,
    ) -> None:
        self._rows, self._kinds, self._dialect = rows, dict(kinds), rows.dialect
        self._columns = {name: rows.column(name, kind) for name, kind in kinds.items()}
        self._floats = frozenset(
            name for name, kind in kinds.items() if kind == "number" and rows.dialect.is_float(rows.types[name])
        )
        for name, words in (closed or {}).items():
            self._columns[name] = rows.dialect.listed(self._columns[name], words)
        self._unit = None if unit is None else rows.unit_column(unit)
        self._place = "0" if place is None else rows.dialect.identifier(place)
        self.size = rows.size if unit is None else self._units()

    def sums(self, questions: Sequence[TextQuestion]) -> list[Sums]:
        """The sums of the steps of each question and of their squares, in as few scans as possible, of one moment."""
        pieces = [
            piece
            for start in range(0, len(questions), _AT_ONCE)
            for piece in self._pieces(list(questions[start : start + _AT_ONCE]))
        ]
        deepest = max(select.depth for _, select, _ in pieces)
        if self._rows.most_depth is not None and deepest > self._rows.most_depth:
            raise QuestionError(
                f"this question is nested too deeply for {self._dialect.name} with its present settings. Expected a "
                "shallower one. Nothing was charged."
            )
        found = self._rows.fetch([sql for _, _, sql in pieces])
        result: list[Sums] = []
        for (some, select, _), rows in zip(pieces, found, strict=True):
            sums, tally = select.read(some, rows[0])
            self._rows.require_same(tally)
            result.extend(sums)
        return result

    def _pieces(self, questions: list[TextQuestion]) -> list[tuple[list[TextQuestion], Select, str]]:
        """Statements for some questions: one, or more where it would have too many columns."""
        select, most = self._select(), self._dialect.most_columns
        sql = select.sums(questions)
        if most is None or len(questions) == 1 or _width(select, questions) <= most:
            return [(questions, select, sql)]
        groups: list[list[TextQuestion]] = []
        room = 0
        for question in questions:
            alone = self._select()
            alone.sums([question])
            room -= (width := _width(alone, [question]))
            if not groups or room < 0:
                groups.append([])
                room = most - width
            groups[-1].append(question)
        pieces = []
        for group in groups:
            select = self._select()
            pieces.append((group, select, select.sums(group)))
        return pieces

    def require_ready(self) -> None:
        """Raise DataError if the engine does not answer, or if the columns have changed."""
        self._rows.fetch(["SELECT 1"])

    def steps(self, question: TextQuestion) -> NDArray[np.float64]:
        """The steps of each row, in the order of the column `place`."""
        return self.steps_of([question])[0]

    def steps_of(self, questions: Sequence[TextQuestion]) -> list[NDArray[np.float64]]:
        """The steps of each row for several questions, in one scan. Only for the conformance suite."""
        if self._unit is not None:
            raise DataError("this engine does not list the steps of single units.")
        rows = self._rows.fetch([self._select().rows(questions)])[0]
        return list(np.array(rows, dtype=np.float64).reshape(len(rows), len(questions)).T)

    def digests(self, public: RowTable, names: Sequence[str], most: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Digests of the private and the public draws (`Sample.digests`), under a key of the moment."""
        key, every = secrets.token_bytes(32), -(-self._rows.size // most)
        hashed, lanes = self._rows.hashed([(self._columns[name], self._kinds[name]) for name in names], key)
        unit = "" if self._unit is None else f", {self._unit} AS u"
        inner = f"SELECT {hashed} AS h{unit} FROM {self._rows.relation}{self._dialect.fence}"
        sql = f"SELECT {lanes[0]} AS d{unit and ', u'} FROM ({inner}) AS p"
        if self._unit is not None:  # the smallest hash of a unit; a row without one stands alone
            single = f"SELECT d FROM ({sql}) AS r WHERE u IS NULL"
            sql = f"SELECT min(d) AS d FROM ({sql}) AS r WHERE u IS NOT NULL GROUP BY u UNION ALL {single}"
        rows = self._rows.fetch([f"SELECT d FROM ({sql}) AS g WHERE d % {every} = 0"])[0]
        mine = np.array([row[0] for row in rows], dtype=np.int64)
        theirs = _smallest(self._rows.hashed_rows(public, names, key).view(np.int64), public.units)
        return mine.view(np.uint64), theirs[theirs % every == 0].view(np.uint64)

    def keys(self, names: Sequence[str]) -> set[str]:
        """Columns that identify every row (`Sample.keys`)."""
        wanted = [name for name in names if self._kinds[name] != "boolean"]
        if not wanted:
            return set()
        counted = []
        for place, name in enumerate(wanted):
            column = f"c{place}"
            rounded = self._dialect.rint(column)
            broken = self._dialect.count_where(f"{column} <> {rounded}" if self._kinds[name] == "number" else "FALSE")
            counted += [f"count(DISTINCT {column})", f"count({column})", broken]
        row = self._rows.counted(counted, {f"c{place}": self._columns[name] for place, name in enumerate(wanted)})
        return {
            name for place, name in enumerate(wanted) if row[3 * place] == row[3 * place + 1] > 1 and not row[3 * place + 2]
        }

    def fingerprint(self, key: bytes) -> str:
        """The keyed fingerprint of the declared columns and of the units, the same in any order of rows.

        The engine gets a key derived from the study's, because servers log statements.
        """
        derived = hmac.new(key, f"everhold {self._dialect.name} rows 1".encode(), hashlib.sha256).digest()
        columns = [(self._columns[name], kind) for name, kind in self._kinds.items()]
        if self._unit is not None:
            columns.append((f"CAST({self._unit} AS {self._dialect.types['text']})", "text"))
        hashed, lanes = self._rows.hashed(columns, derived)
        row = self._rows.counted([self._dialect.sum_of_hashes(lane) for lane in lanes], {"h": hashed})
        names = "\n".join(f"{name} {kind}" for name, kind in self._kinds.items())
        totals = " ".join(str(one) for one in row)
        message = f"everhold table 1\n{self._rows.size}\n{names}\n{self._unit is not None}\n{totals}"
        return hmac.new(key, message.encode(), hashlib.sha256).hexdigest()

    def _select(self) -> Select:
        rows = self._rows
        return Select(
            self._dialect,
            self._columns,
            rows.relation,
            floats=self._floats,
            unit=self._unit,
            place=self._place,
            types=rows.types,
            tally=rows.tally,
        )

    def _units(self) -> int:
        wanted = ["count(DISTINCT u)", self._dialect.count_where("u IS NULL")]
        return sum(self._rows.counted(wanted, {"u": str(self._unit)}))

    def __repr__(self) -> str:
        return f"RemoteEngine({self.size:,} draws in {self._dialect.name})"


def _width(select: Select, questions: Sequence[TextQuestion]) -> int:
    """How many columns the widest SELECT of a statement has, at the most."""
    return select.width + 4 * len(questions)


def _smallest(hashes: NDArray[np.int64], units: Units | None) -> NDArray[np.int64]:
    """One signed hash for each unit, the smallest of its rows, as SQL compares them."""
    moved = hashes.view(np.uint64) ^ np.uint64(1 << 63)  # the order of signed numbers
    return (by_unit(moved, units) ^ np.uint64(1 << 63)).view(np.int64)


def _shown(dialect: Dialect, sql: str, kind: Kind) -> str:
    """The SQL to fetch for a canonical value."""
    return dialect.left(sql, LONGEST_TEXT) if kind == "text" else sql


def _encoded(kind: Kind, values: list[Any]) -> EncodedColumn:
    """A canonical column from canonical values, None if missing."""
    if kind == "text":
        places: dict[Any, int] = {None: -1}
        codes = np.array([places.setdefault(value, len(places) - 1) for value in values], dtype=np.int64)
        return encode_words([word for word in places if word is not None], codes)
    if kind == "boolean":
        known = np.array([value is not None for value in values], dtype=np.bool_)
        return EncodedColumn(kind, np.array([value is True for value in values]), (), None if known.all() else known)
    return EncodedColumn(kind, np.array([np.nan if value is None else value for value in values], dtype=np.float64))
