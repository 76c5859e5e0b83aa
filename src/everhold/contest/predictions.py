"""Predictions as entrants send them: read, checked, and put into the order of the rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import DataError, QuestionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.contest.board import Rules, State

__all__ = ["MalformedPredictions", "PredictionReader", "SubmissionRefused"]


class MalformedPredictions(QuestionError):
    """A submission that cannot be read. Nothing was charged."""

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        """The line of the file, the header being 1."""
        self.column = column


class SubmissionRefused(QuestionError):
    """A submission that is not scored, and why. Nothing was charged."""

    def __init__(self, state: State, message: str) -> None:
        super().__init__(message)
        self.state: State = state


class PredictionReader:
    """Reads what entrants send, by a contest's rules."""

    def __init__(self, rules: Rules, ids: Sequence[str]) -> None:
        self.rules, self.ids = rules, ids
        self._places = {one: place for place, one in enumerate(ids)}
        self._codes = {str(one): one for one in rules.classes}
        # 0 may be written 0.0, as data frames with missing values do; where both are classes each is itself.
        for one in rules.classes:
            whole = _whole(one)
            if whole is not None:
                self._codes.setdefault(f"{whole}.0", one)
                self._codes.setdefault(str(whole), one)

    def read(self, given: Any) -> NDArray[Any]:
        """Predictions in the order of the ids; what is wrong is said with its row and column."""
        if isinstance(given, Path):
            path = given
            if not path.is_file():
                raise DataError(f"there is no file {path}. Check the name; nothing was submitted.")
            if path.stat().st_size > self.rules.most_bytes:
                raise SubmissionRefused(
                    "too large", f"the file has {path.stat().st_size:,} bytes; {self.rules.most_bytes:,} are allowed."
                )
            given = path.read_bytes()
        if isinstance(given, str):
            given = given.encode()
        if isinstance(given, bytes):
            if len(given) > self.rules.most_bytes:
                raise SubmissionRefused(
                    "too large", f"the submission has {len(given):,} bytes; {self.rules.most_bytes:,} are allowed."
                )
            return self._values(self._from_csv(given))
        try:
            array = np.asarray(given)
        except Exception:
            raise MalformedPredictions(
                "the predictions cannot be read as an array. Expected one for each row: a list, an array or a CSV file."
            ) from None
        if array.shape != (len(self.ids),):
            raise MalformedPredictions(
                f"there are {len(self.ids):,} rows, and the predictions have shape {array.shape}. Expected one for each row."
            )
        texts = [str(one) for one in array.tolist()]
        for number, text in enumerate(texts, 1):
            self._check(text, number)
        return self._values(texts)

    def _from_csv(self, data: bytes) -> list[str]:
        rules = self.rules
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise MalformedPredictions(
                f"the file is not UTF-8 (byte {error.start}). Expected CSV as UTF-8 text: save it with that encoding."
            ) from None
        rows = csv.reader(io.StringIO(text), strict=True, delimiter=_delimiter(text, rules.id_column))
        try:
            head = [name.strip() for name in next(rows, [])]
            for column in (rules.id_column, rules.prediction_column):
                if column not in head:
                    raise MalformedPredictions(
                        f"line 1: there is no column {column!r}. Expected {rules.id_column},{rules.prediction_column}. "
                        f"Found: {_listed(head)}.",
                        row=1,
                        column=column,
                    )
            if len(set(head)) != len(head):
                raise MalformedPredictions("line 1: two columns have the same name.", row=1)
            which, what = head.index(rules.id_column), head.index(rules.prediction_column)
            found: list[str | None] = [None] * len(self.ids)
            for cells in rows:
                line = rows.line_num
                if not cells:
                    continue
                if len(cells) != len(head):
                    raise MalformedPredictions(
                        f"line {line}: {len(cells)} cells where the header has {len(head)}.", row=line
                    )
                index = self._places.get(cells[which])
                if index is None:
                    raise MalformedPredictions(
                        f"line {line}, column {rules.id_column}: {cells[which][:40]!r} is not a row of this contest.",
                        row=line,
                        column=rules.id_column,
                    )
                if found[index] is not None:
                    raise MalformedPredictions(
                        f"line {line}, column {rules.id_column}: {cells[which][:40]!r} is there twice.",
                        row=line,
                        column=rules.id_column,
                    )
                self._check(cells[what], line)
                found[index] = cells[what]
        except csv.Error as error:
            raise MalformedPredictions(f"line {rows.line_num}: {error}.", row=rows.line_num) from None
        missing = [self.ids[index] for index, one in enumerate(found) if one is None]
        if missing:
            raise MalformedPredictions(
                f"{len(missing):,} of {len(self.ids):,} rows have no prediction; the first is {missing[0][:40]!r}.",
                column=rules.id_column,
            )
        return [str(one) for one in found]

    def _check(self, text: str, line: int) -> None:
        rules, column = self.rules, self.rules.prediction_column
        if rules.task == "regression":
            try:
                fine = np.isfinite(float(text))
            except ValueError:
                fine = False
            if not fine:
                raise MalformedPredictions(
                    f"line {line}, column {column}: {text[:40]!r} is not a number.", row=line, column=column
                )
        elif text not in self._codes and text.strip() not in self._codes:
            shown = ", ".join(str(one) for one in rules.classes[:10])
            raise MalformedPredictions(
                f"line {line}, column {column}: {text[:40]!r} is not a class of this contest. Expected one of {shown}.",
                row=line,
                column=column,
            )

    def outside(self, values: NDArray[Any]) -> str:
        """What is said of predictions outside the public range, which count as its nearer end; empty if there are none."""
        low, high = self.rules.low, self.rules.high
        if self.rules.task != "regression" or low is None or high is None:
            return ""
        many = int(((values < low) | (values > high)).sum())
        one = "1 prediction" if many == 1 else f"{many:,} predictions"
        return f"{one} outside {low:g} to {high:g} {'was' if many == 1 else 'were'} cut to the range." if many else ""

    def _values(self, texts: list[str]) -> NDArray[Any]:
        """Checked texts as numbers, or as the classes that they name."""
        if self.rules.task == "regression":
            return np.array([float(text) for text in texts])
        codes = self._codes
        return np.array([codes[text] if text in codes else codes[text.strip()] for text in texts])


def _listed(columns: Sequence[str]) -> str:
    """The columns of a file, as an error names them."""
    shown = ", ".join(repr(name[:40]) for name in columns[:10])
    return f"{shown}{', …' if len(columns) > 10 else ''}" if columns else "nothing, the file is empty"


def _delimiter(text: str, column: str) -> str:
    """What divides the first line, where the id's column is named: a comma, unless another one does."""
    first = text[:10_000].splitlines()[:1]
    for one in ",;\t":
        try:
            if column in [name.strip() for name in next(csv.reader(first, delimiter=one), [])]:
                return one
        except csv.Error:
            continue
    return ","


def _whole(one: object) -> int | None:
    """A class that is a whole number, also where it is written as a text."""
    if isinstance(one, str):
        return int(one) if one.strip("-").isdecimal() and one.isascii() and str(int(one)) == one else None
    return int(one) if isinstance(one, int | float) and not isinstance(one, bool) and float(one).is_integer() else None
