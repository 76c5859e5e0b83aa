"""Candidates that wait sealed: their private predictions are kept, and nothing of them is disclosed until the choice."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import LedgerError
from everhold.learn.forecasts import Forecast
from everhold.learn.model_names import in_a_line
from everhold.learn.sides import Outputs
from everhold.learn.versioned_pickle import read_pickle, write_pickle
from everhold.results import JsonResult

if TYPE_CHECKING:
    from everhold.learn.score import Score

__all__ = ["Entries", "Entry", "SealedEntry", "Winner", "number_of"]

_RESTS_ON = "; valid if nobody had looked at these rows before"
_ENTRY = "entry 3"  # what an entry's file has


@dataclass(frozen=True, slots=True)
class Entry(JsonResult):
    """A candidate of a search, entered. Its score is not known: `forecast` is what public rows foresee.

    Attributes:
        number: its place among the entries, from 1.
        name: what its owner calls it.
        metric: what it is judged by.
        forecast: from public facts alone.
        params: of a scikit-learn estimator, so that it can be made again.
    """

    number: int
    name: str
    metric: str
    forecast: Forecast
    params: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    def __float__(self) -> float:
        return self.forecast.value

    def __str__(self) -> str:
        return f"entry {self.number}, {self.name}: {self.metric} foreseen as {self.forecast}; not a score"

    def __repr__(self) -> str:
        return f"Entry({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON, but for params."""
        return {
            "kind": "entry",
            "number": self.number,
            "name": self.name,
            "metric": self.metric,
            "forecast": self.forecast.value,
            "rows": self.forecast.rows,
            "source": self.forecast.source,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Entry:
        """The same again, equal to the bit."""
        forecast = Forecast(float(given["forecast"]), given["rows"], given["source"])
        return cls(given["number"], given["name"], given["metric"], forecast)


@dataclass(frozen=True, slots=True, eq=False)
class SealedEntry:
    """An entry with its output on both sides."""

    entry: Entry
    output: str
    outputs: Outputs

    @property
    def label(self) -> str:
        """As the record has it."""
        return f"entry {self.entry.number}: {self.entry.name}"

    @property
    def identity(self) -> str:
        """What its reading is recognised by."""
        return f"{self.outputs.name or ''}entry {self.entry.number}"

    @property
    def identified(self) -> Outputs:
        """Its outputs, recognised as this entry's."""
        return Outputs(self.outputs.private, self.outputs.public, self.identity, in_a_line(self.label))

    @property
    def own_forecast(self) -> float | None:
        """A forecast that says something of this candidate among others."""
        return None if self.entry.forecast.source == "prior" else self.entry.forecast.value

    def content(self) -> dict[str, Any]:
        """Plain values and arrays, for a file. Parameters that cannot be pickled are left out."""
        try:
            params = pickle.dumps(self.entry.params)
        except Exception:
            params = pickle.dumps(None)
        outputs = {field.name: getattr(self.outputs, field.name) for field in fields(self.outputs)}
        return {"entry": self.entry.to_dict(), "params": params, "output": self.output, "outputs": outputs}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> SealedEntry:
        """The same again."""
        try:
            params = pickle.loads(content["params"])
        except Exception:  # of a class that is not here
            params = None
        entry = replace(Entry.from_dict(content["entry"]), params=params)
        return cls(entry, content["output"], Outputs(**content["outputs"]))


def number_of(label: str | None) -> int | None:
    """The number of an entry, from what the record calls it.

    >>> number_of("entry 12: a forest"), number_of("model 2: a forest")
    (12, None)
    """
    head, _, _ = (label or "").partition(":")
    word, _, number = head.partition(" ")
    return int(number) if word == "entry" and number.isdigit() else None


@dataclass(frozen=True, slots=True)
class Winner(JsonResult):
    """The best of all entries on the private rows, and its score for the population.

    After several generations it is the champion: entries that were better by too little did not replace it.

    Attributes:
        entry: which one.
        entries: among how many.
        generations: how many choices there have been, this one included.
        score: read from the private rows, with its interval; None where nothing was read.
    """

    entry: Entry
    entries: int
    generations: int
    score: Score | None

    @property
    def index(self) -> int:
        """The entry's place, the first being 0."""
        return self.entry.number - 1

    @property
    def name(self) -> str:
        """What its owner calls it."""
        return self.entry.name

    @property
    def params(self) -> dict[str, Any] | None:
        """Of a scikit-learn estimator."""
        return self.entry.params

    def __str__(self) -> str:
        among = f"the best of {self.entries:,}"
        if self.generations > 1:  # others may be a little better on the private rows, and were not named
            among = f"champion of {self.entries:,} in {self.generations} generations"
        score_text = "not read" if self.score is None else str(self.score)
        return (
            f"entry {self.entry.number}, {among}, {self.entry.name}: {score_text}{'' if self.score is None else _RESTS_ON}"
        )

    def __repr__(self) -> str:
        return f"Winner({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "winner",
            "entry": self.entry.to_dict(),
            "entries": self.entries,
            "generations": self.generations,
            "score": None if self.score is None else self.score.to_dict(),
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Winner:
        """The same again, equal to the bit."""
        from everhold.learn.score import Score

        score = None if given["score"] is None else Score.from_dict(given["score"])
        return cls(Entry.from_dict(given["entry"]), given["entries"], given["generations"], score)


class Entries:
    """All entries of a test set: in memory, or each in a file that only its owner can read.

    Args:
        path: of a durable test set.
    """

    def __init__(self, path: Path | None) -> None:
        self._folder = None if path is None else path.with_name(path.name + ".entries")
        self._kept: list[SealedEntry] = []

    def __len__(self) -> int:
        self._take_over()
        return len(self._kept)

    def __iter__(self) -> Iterator[SealedEntry]:
        self._take_over()
        return iter(self._kept)

    def __getitem__(self, number: int) -> SealedEntry:
        """By number, from 1."""
        self._take_over()
        if number > len(self._kept):
            raise LedgerError(
                f"entry {number} is in the record, and its file {self._file(number)} is not there. Expected the folder as "
                "it was: entries cannot be made again from the record."
            )
        return self._kept[number - 1]

    def add(self, sealed: SealedEntry) -> None:
        """Keep one more, whose number is one more than there are. Call it in a turn of the test set."""
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_pickle(self._file(sealed.entry.number), _ENTRY, sealed.content())
        self._kept.append(sealed)

    def same_as(self, outputs: Outputs, metric: str) -> SealedEntry | None:
        """An entry of the same model, by public facts."""
        if outputs.name is None:
            return None
        return next(
            (sealed for sealed in self if sealed.outputs.name == outputs.name and sealed.entry.metric == metric), None
        )

    def forecasts(self, metric: str) -> Sequence[float]:
        """Of all entries for a metric."""
        return [sealed.entry.forecast.value for sealed in self if sealed.entry.metric == metric]

    def _take_over(self) -> None:
        """What other processes have entered meanwhile."""
        if self._folder is None:
            return
        while (file := self._file(len(self._kept) + 1)).exists():
            self._kept.append(SealedEntry.from_content(read_pickle(file, _ENTRY, "Use the version that wrote it.")))

    def _file(self, number: int) -> Path:
        if self._folder is None:
            raise LedgerError("these entries are in memory only.")
        return self._folder / f"{number:06}.entry"
