"""A study's file as readers see it: no private rows, no key, no lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.bounds.budget import Budget
from everhold.bounds.singling_out import WeightFloor, weight_floor
from everhold.errors import LedgerError, SettingError
from everhold.ledger.act_prices import is_last, price_act
from everhold.ledger.codec import ParsedActEnd, ParsedActStart, ParsedFinding, Repeat, parse_record
from everhold.ledger.first_record import FirstRecord
from everhold.ledger.logged_act import LoggedAct, in_order, kind_word, logged_act
from everhold.ledger.rounds import RecordedAct
from everhold.ledger.store import Head, Store
from everhold.queries.answer import Answer
from everhold.queries.expression.readable import readable
from everhold.queries.interval import Interval
from everhold.queries.request import AskedBy
from everhold.results import JsonResult, ends_from, number_or_null
from everhold.statistics.finding import Finding

if TYPE_CHECKING:
    from everhold.ledger.rounds import ActStart, RecordedFinding, Round

__all__ = [
    "LoggedAct",
    "LoggedFinding",
    "LoggedQuestion",
    "LoggedRound",
    "StudyFile",
    "logged_finding",
    "logged_from_dict",
    "logged_round",
    "read_study",
]


_MEDIAN = "QUANTILE 0.5 OF "


@dataclass(frozen=True, slots=True)
class LoggedRound:
    """One round as people read it.

    Attributes:
        answer: what was returned.
        question: its text as people write it, or a note that it was given by values.
        name: what it was called in the record: its canonical text, or as it was given.
        shown_range: of given values, the numbers that the least and the greatest one stand for.
    """

    answer: Answer
    question: str
    time: str
    who: str | None
    request_id: str | None
    name: str | None = None
    shown_range: tuple[float, float] | None = None

    @property
    def estimate(self) -> Finding | None:
        """Value and interval in the question's own units; None where they are those of the answer."""
        if self.shown_range is None:
            return None
        (low, high), answer = self.shown_range, self.answer.as_share()
        value, least, most = (low + (high - low) * number for number in (answer.value, answer.low, answer.high))
        return Finding(self.question, value, least, most, (self.answer,))

    @property
    def value(self) -> float:
        """The estimate."""
        return self.answer.value if self.estimate is None else self.estimate.value

    @property
    def interval(self) -> Interval:
        """The interval for the population."""
        return self.answer.interval if self.estimate is None else self.estimate.interval

    @property
    def place(self) -> str:
        """The number that people refer to it by, as text."""
        return f"{self.round:,}"

    @property
    def round(self) -> int:
        """Its number."""
        return self.answer.round

    @property
    def value_text(self) -> str:
        """The answer for people."""
        return f"{self.value:.4g}" if self.value == self.value else "no such rows seen"

    @property
    def interval_text(self) -> str:
        """The interval for people, rounded outwards."""
        return str(self.interval)

    @property
    def kind_word(self) -> str:
        """What its value is, in a word or two."""
        if self.answer.surprise:
            return "surprise" if self.answer.value == self.answer.value else "charged"
        return kind_word(self.answer.act)

    def to_dict(self) -> dict[str, Any]:
        """Everything that readers see, ready for JSON."""
        more = {"time": self.time, "who": self.who, "request_id": self.request_id}
        shown = {}
        if (estimate := self.estimate) is not None and self.shown_range is not None:
            ends = {"value": number_or_null(estimate.value), "low": estimate.low, "high": estimate.high}
            shown = {"shown_range": list(self.shown_range), "estimate": ends}
        return {**self.answer.to_dict(), "question": self.question, **more, **shown}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> LoggedRound:
        """The same again, equal to the bit."""
        more = (given["question"], given["time"], given["who"], given["request_id"])
        shown = given.get("shown_range")
        return cls(Answer.from_dict(given), *more, shown_range=None if shown is None else (shown[0], shown[1]))


@dataclass(frozen=True, slots=True)
class LoggedFinding:
    """A statistic as people asked it.

    Attributes:
        after: how many rounds there were when it was recorded.
        question: what was asked, in words.
        value, low, high: of a number; None where it has cells.
        unit: 'number' or 'date'.
        cells: of a table: label, value, low, high.
        rounds: the rounds that it was made of.
    """

    after: int
    question: str
    statistic: str
    arguments: dict[str, Any]
    value: float | None
    low: float | None
    high: float | None
    unit: str
    cells: tuple[tuple[tuple[str, ...], float, float, float], ...]
    rounds: tuple[int, ...]
    time: str
    who: str | None
    request_id: str | None

    @property
    def estimate(self) -> Finding | None:
        """Value and interval as a finding without parts; None of a table."""
        if self.value is None or self.low is None or self.high is None:
            return None
        return Finding(self.question, self.value, self.low, self.high, (), "date" if self.unit == "date" else "number")


@dataclass(frozen=True, slots=True)
class LoggedQuestion(JsonResult):
    """One thing that somebody asked, as they asked it: a yes/no question, or a statistic with its parts.

    Attributes:
        number: its place in the log, the first being 1.
        finding: the statistic; None where a single round is all.
        parts: the rounds that it was made of; the round itself where there is no statistic.
    """

    number: int
    finding: LoggedFinding | None
    parts: tuple[LoggedRound, ...]

    @property
    def question(self) -> str:
        """What was asked, in words."""
        return self.parts[0].question if self.finding is None else self.finding.question

    @property
    def short(self) -> str:
        """The same; of an act with a long list, how long it is."""
        return self.question

    @property
    def answer(self) -> Answer | None:
        """The answer of a question that is a single round; None of a statistic, and of one in units of its own."""
        return self.parts[0].answer if self.finding is None and self.parts[0].shown_range is None else None

    @property
    def estimate(self) -> Finding | None:
        """Value and interval in units of their own; None of a table, and where they are those of an answer."""
        return self.parts[0].estimate if self.finding is None else self.finding.estimate

    @property
    def value(self) -> float | None:
        """The estimate; None of a table, NaN where no row was seen that it could be about."""
        return self.parts[0].value if self.finding is None else self.finding.value

    @property
    def interval(self) -> Interval | None:
        """The interval for the population; None of a table."""
        if self.finding is None:
            return self.parts[0].interval
        low, high = self.finding.low, self.finding.high
        return None if low is None or high is None else Interval(low, high)

    @property
    def value_text(self) -> str:
        """The estimate for people; of a table the number of its cells."""
        if self.finding is None:
            return self.parts[0].value_text
        estimate = self.finding.estimate
        return f"{len(self.finding.cells):,} cells" if estimate is None else estimate.value_text

    @property
    def interval_text(self) -> str:
        """The interval for people, rounded outwards; empty of a table."""
        if self.finding is None:
            return self.parts[0].interval_text
        estimate = self.finding.estimate
        return "" if estimate is None else estimate.interval_text

    @property
    def surprise(self) -> bool:
        """Whether any of its parts was a surprise."""
        return any(part.answer.surprise for part in self.parts)

    @property
    def act(self) -> str:
        """How it was asked: 'ask', 'read' or 'close'."""
        return self.parts[-1].answer.act

    @property
    def kind_word(self) -> str:
        """The same in a word or two."""
        words = {part.kind_word for part in self.parts if part.answer.surprise}
        return ("surprise" if "surprise" in words else "charged") if words else kind_word(self.act)

    @property
    def kind_text(self) -> str:
        """What its value is, in words."""
        surprises = [part for part in self.parts if part.answer.surprise]
        if 0 < len(surprises) < len(self.parts):
            return (
                f"{len(surprises):,} of {len(self.parts):,} parts surprises, measured on the private rows; the others "
                "forecasts"
            )
        return (surprises or self.parts)[-1].answer.kind_text

    @property
    def place(self) -> str:
        """The number that people refer to it by, as text."""
        return f"{self.round:,}"

    @property
    def round(self) -> int:
        """Its last round."""
        return max(part.round for part in self.parts)

    @property
    def time(self) -> str:
        """When it was asked."""
        return self.parts[0].time if self.finding is None else self.finding.time

    @property
    def who(self) -> str | None:
        """Who asked."""
        return self.parts[0].who if self.finding is None else self.finding.who

    @property
    def request_id(self) -> str | None:
        """The request id it was asked under."""
        return self.parts[0].request_id if self.finding is None else self.finding.request_id

    @property
    def price(self) -> float:
        """The largest price that any of its parts was computed with."""
        return max(part.answer.price for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON. A statistic has its parts underneath."""
        finding = self.finding
        if finding is None:
            return {"number": self.number, **self.parts[0].to_dict(), "parts": []}
        cells = [
            {"label": list(label), "value": number_or_null(value), "low": low, "high": high}
            for label, value, low, high in finding.cells
        ]
        return {
            "number": self.number,
            "kind": "shares" if cells else "finding",
            "act": self.act,
            "question": finding.question,
            "statistic": finding.statistic,
            "arguments": finding.arguments,
            "value": None if finding.value is None else number_or_null(finding.value),
            "low": None if finding.low is None else number_or_null(finding.low),
            "high": None if finding.high is None else number_or_null(finding.high),
            "unit": finding.unit,
            "cells": cells,
            "surprise": self.surprise,
            "round": self.round,
            "price": self.price,
            "time": self.time,
            "who": self.who,
            "request_id": self.request_id,
            "after": finding.after,
            "parts": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> LoggedQuestion:
        """The same again, equal to the bit."""
        if not given["parts"]:
            return cls(given["number"], None, (LoggedRound.from_dict(given),))
        parts = tuple(LoggedRound.from_dict(part) for part in given["parts"])
        cells = tuple((tuple(cell["label"]), *ends_from(cell)) for cell in given["cells"])
        ends: tuple[float | None, float | None, float | None] = (None, None, None) if cells else ends_from(given)
        finding = LoggedFinding(
            given["after"],
            given["question"],
            given["statistic"],
            given["arguments"],
            *ends,
            given["unit"],
            cells,
            tuple(part.round for part in parts),
            given["time"],
            given["who"],
            given["request_id"],
        )
        return cls(given["number"], finding, parts)


def logged_from_dict(given: dict[str, Any]) -> LoggedQuestion | LoggedAct:
    """A line of the log from JSON, equal to the bit."""
    return LoggedAct.from_dict(given) if given["kind"] == "act" else LoggedQuestion.from_dict(given)


def as_asked(rounds: Sequence[LoggedRound], findings: Iterable[LoggedFinding]) -> list[LoggedQuestion]:
    """What was asked, as people asked it, in order: a statistic stands in the place of the rounds that it asked.

    A round that a statistic used but somebody had asked before stands for itself as well.
    """
    recorded = list(findings)
    inside = {
        number
        for finding in recorded
        for number in finding.rounds
        if (rounds[number - 1].time, rounds[number - 1].who) == (finding.time, finding.who)
    }
    placed: list[tuple[int, LoggedFinding | None, tuple[LoggedRound, ...]]] = [
        (past.round, None, (past,)) for past in rounds if past.round not in inside
    ]
    placed += [(finding.after, finding, tuple(rounds[number - 1] for number in finding.rounds)) for finding in recorded]
    placed.sort(key=lambda item: (item[0], item[1] is not None))
    return [LoggedQuestion(number, finding, parts) for number, (_, finding, parts) in enumerate(placed, 1)]


@dataclass(frozen=True, slots=True, eq=False)
class StudyFile:
    """All that a study's file says.

    Attributes:
        path: of the file.
        first_record: its configuration.
        rounds: every round.
        findings: the statistics that were asked, made of rounds.
        head: where it stands.
        budget: what has been disclosed, and what of δ has been spent.
        acts: what was done that is not made of rounds.
        closed: whether the last act was made.
    """

    path: Path
    first_record: FirstRecord
    rounds: tuple[LoggedRound, ...]
    findings: tuple[LoggedFinding, ...]
    head: Head
    budget: Budget
    acts: tuple[LoggedAct, ...] = ()
    closed: bool = False

    @property
    def price(self) -> float:
        """The price in nats that the next ask's interval would be computed with."""
        return self.budget.ask_price

    @property
    def questions(self) -> list[LoggedQuestion]:
        """What was asked, as people asked it."""
        return as_asked(self.rounds, self.findings)

    @property
    def log(self) -> list[LoggedQuestion | LoggedAct]:
        """What was asked and done, in order."""
        return in_order(self.questions, self.acts)

    @property
    def surprises(self) -> int:
        """How many rounds surprised."""
        return sum(past.answer.surprise for past in self.rounds)

    def weight_floor(self, probability: float = 0.05) -> WeightFloor:
        """How rare a trait must be so that what was disclosed does not single out a row by it. `Holdout` says more."""
        return weight_floor(self.budget, self.first_record.rows, probability)

    @property
    def confidence(self) -> float:
        """The probability that all intervals are valid at the same time."""
        return float(self.first_record.settings["confidence"])


def read_study(path: str | Path) -> StudyFile:
    """Read a study and check its chain. `Holdout.audit_file` checks everything else."""
    path = Path(path)
    store = Store.open(path, write=False)
    try:
        records = store.records()
        first = FirstRecord.from_record(next(records))
        rounds: list[LoggedRound] = []
        findings: list[LoggedFinding] = []
        budget = first.first_budget
        begun: tuple[ActStart, AskedBy] | None = None
        acts: list[LoggedAct] = []
        closed = False
        for record in records:
            parsed = parse_record(record, first.schema.kinds, parse="surprises")
            if isinstance(parsed, Repeat):
                continue
            if isinstance(parsed, ParsedFinding):
                if not all(1 <= number <= len(rounds) for number in parsed.finding.rounds):
                    raise LedgerError("a finding in the ledger is made of rounds that are not there.")
                findings.append(logged_finding(len(rounds), parsed.finding, parsed.asked_by))
                continue
            if isinstance(parsed, ParsedActStart):
                begun = parsed.begun, parsed.asked_by
                continue
            if isinstance(parsed, ParsedActEnd):
                if begun is None:
                    raise LedgerError("an act in the ledger ends that never began.")
                _, budget = price_act(budget, begun[0], parsed.done.outcome, interrupted=parsed.done.interrupted)
                acts.append(logged_act(RecordedAct(begun[0], parsed.done, len(rounds)), begun[1]))
                closed = closed or (is_last(begun[0]) and (begun[0].kind == "close" or not parsed.done.interrupted))
                continue
            rounds.append(logged_round(parsed.round, parsed.asked_by))
            budget = _after(budget, parsed.round)
            act = parsed.round.act
            closed = closed or (act.kind == "close" and act.part == act.parts)
        return StudyFile(path, first, tuple(rounds), tuple(findings), store.head, budget, acts=tuple(acts), closed=closed)
    except StopIteration:
        raise LedgerError(f"{path} holds no record.") from None
    except (ArithmeticError, LookupError, RecursionError, SettingError, TypeError, ValueError) as error:
        raise LedgerError(f"{path} cannot be read as a study ({type(error).__name__}).") from None
    finally:
        store.close()


def _after(budget: Budget, past: Round) -> Budget:
    """The budget after a recorded round."""
    if past.act.kind == "ask":
        return budget.quiet() if past.outcome is None else budget.surprised(past.charge)
    budget = budget.read(past.charge)
    return budget.claimed(past.act.spend) if past.act.part == 1 else budget


def logged_round(past: Round, at: AskedBy) -> LoggedRound:
    """A round as people read it. A name that somebody gave to values is marked as one."""
    if past.is_text:
        question = str(past.name)
        if question.startswith(_MEDIAN):  # its name, for the record; people say median
            question = f"MEDIAN OF {question.removeprefix(_MEDIAN)}"
        question = readable(question)
    elif past.title is not None:
        question = past.title
    else:
        question = "values given as arrays" if past.name is None else f"values named {past.name!r}"
    return LoggedRound(past.answer, question, at.time, at.who, at.request_id, past.name, past.shown_range)


def logged_finding(after: int, finding: RecordedFinding, at: AskedBy) -> LoggedFinding:
    """A statistic with its result as people read it."""
    short = finding.summary
    cells: list[tuple[tuple[str, ...], float, float, float]] = []
    value: float | None = None
    low: float | None = None
    high: float | None = None
    if short["kind"] == "shares":
        cells = [(tuple(cell["label"]), *ends_from(cell)) for cell in short["cells"]]
    else:
        value, low, high = ends_from(short)
    return LoggedFinding(
        after,
        short["what"],
        finding.statistic,
        finding.arguments,
        value,
        low,
        high,
        short.get("unit", "number"),
        tuple(cells),
        finding.rounds,
        at.time,
        at.who,
        at.request_id,
    )
