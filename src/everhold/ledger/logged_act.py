"""Acts that are not made of rounds, as people read them: choices, bits, verdicts, certificates; and the log with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.bounds.gain import SCORE_ONE
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Verdict
from everhold.queries.expression.readable import readable
from everhold.results import JsonResult

if TYPE_CHECKING:
    from everhold.ledger.reader import LoggedQuestion
    from everhold.ledger.rounds import ActStart, RecordedAct
    from everhold.queries.interval import Interval
    from everhold.queries.request import AskedBy

__all__ = ["LoggedAct", "in_order", "kind_of_act", "kind_word", "logged_act"]

_FEW = 3  # candidates of a choice that are listed in a line
_LEADS = ("question", "first", "second")
_KINDS = {
    "best_of": "choice: the largest on the private rows",
    "is_better": "one bit: larger on the private rows",
    "compare": "certified verdict",
    "rank": "certified ranking",
    "certify": "certificate: a narrower interval of an earlier answer",
    "check": "one bit: is the candidate better than the incumbent",
    "gain": "the last act of a gate: its total gain",
    "close": "the last act",
    "read": "private reading",
}


_WORDS = {
    "ask": "forecast",
    "read": "reading",
    "close": "reading",
    "best_of": "choice",
    "is_better": "one bit",
    "compare": "verdict",
    "rank": "ranking",
    "certify": "certificate",
    "check": "check",
    "gain": "total gain",
}


def kind_word(act: str) -> str:
    """What an act returns, in a word or two."""
    return _WORDS[act]


def kind_of_act(act: str) -> str:
    """The same in a few words."""
    return _KINDS.get(act, act.replace("_", " "))


@dataclass(frozen=True, slots=True)
class LoggedAct(JsonResult):
    """One act that is not made of rounds. It reads as a `LoggedQuestion` does, so that tables show both.

    Attributes:
        number: its place in the log, the first being 1.
        act: 'best_of', 'is_better', 'compare', 'rank', 'certify', 'check', 'gain' or 'void'; 'close' where nothing was
            read; 'read' where it was interrupted.
        question: what was asked, in words.
        result: what was returned, as JSON; None where the act was interrupted, which is charged.
        after: how many rounds there were before it.
        time, who, request_id: of the request.
        candidates: of a choice, what it was made among, in words.
    """

    number: int
    act: str
    question: str
    result: dict[str, Any] | None
    after: int
    time: str
    who: str | None
    request_id: str | None
    candidates: tuple[str, ...] = ()

    finding = None
    parts = ()
    answer = None
    surprise = False

    @property
    def short(self) -> str:
        """What was asked, in words; of a choice among many, how many they were."""
        if len(self.candidates) <= _FEW:
            return self.question
        best, _, by = self.question.partition(" of: ")[0].partition(" by ")
        return f"{best} of {len(self.candidates):,}{by and f' by {by}'}"

    @property
    def kind_text(self) -> str:
        """What it is, in words."""
        return "interrupted: charged, and nothing was returned" if self.result is None else kind_of_act(self.act)

    @property
    def kind_word(self) -> str:
        """The same in a word or two."""
        return "interrupted, charged" if self.result is None else kind_word(self.act)

    @property
    def round(self) -> int:
        """The last round before it."""
        return self.after

    @property
    def place(self) -> str:
        """The number that people refer to it by, as text: of a check; other acts have none."""
        return f"{self.number:,}" if self.act == "check" else ""

    @property
    def price(self) -> float:
        """The price in nats that it was made at, or of everything disclosed with it."""
        return (
            0.0
            if self.result is None
            else float(self.result["disclosed" if self.act in ("best_of", "is_better") else "price"])
        )

    @property
    def value(self) -> float | None:
        """The value of a certificate; all else has none."""
        return None if self.certified is None else self.certified.value

    @property
    def interval(self) -> Interval | None:
        """The interval of a certificate."""
        return None if self.certified is None else self.certified.interval

    @property
    def value_text(self) -> str:
        """What was returned, for people."""
        if self.result is None:
            return ""
        if self.act == "best_of":
            index = self.result["index"]
            place = f"number {index + 1:,} of {self.result['candidates']:,}"
            return f"{self.candidates[index]} ({place})" if index < len(self.candidates) else place
        if self.act == "is_better":
            return "yes" if self.result["yes"] else "no"
        if self.act == "compare":
            return Verdict.from_dict(self.result).verdict
        if self.act == "rank":
            pairs = len(self.result["rounds"]) * (len(self.result["rounds"]) - 1) // 2
            return f"{sum(map(len, self.result['beaten'])):,} of {pairs:,} duels decided"
        if self.act == "check":
            return f"promoted “{self.result['name']}”" if self.result["promoted"] else "kept the incumbent"
        if self.act == "gain":
            return f"{self.result['gain']:+.4g}, at least {self.result['low']:+.4g}"
        return "" if self.certified is None else f"{self.certified.value:.4g}"

    @property
    def interval_text(self) -> str:
        """The interval of a certificate, for people."""
        return "" if self.certified is None else str(self.certified.interval)

    @property
    def certified(self) -> Answer | None:
        """The answer of a certificate; None of everything else."""
        return Answer.from_dict(self.result) if self.act == "certify" and self.result is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "number": self.number,
            "kind": "act",
            "act": self.act,
            "question": self.question,
            "candidates": list(self.candidates),
            "result": self.result,
            "round": self.after,
            "price": self.price,
            "surprise": False,
            "time": self.time,
            "who": self.who,
            "request_id": self.request_id,
            "parts": [],
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> LoggedAct:
        """The same again, equal to the bit."""
        names = ("number", "act", "question", "result", "round", "time", "who", "request_id")
        return replace(cls(*(given[name] for name in names)), candidates=tuple(given["candidates"]))


def logged_act(past: RecordedAct, asked_by: AskedBy) -> LoggedAct:
    """An act as people read it. Its number is given by `in_order`."""
    done = past.done
    result = None if done.interrupted else done.result
    among = tuple(_question(entry) for entry in past.begun.asked) if past.begun.kind == "best_of" else ()
    by_whom = (asked_by.time, asked_by.who, asked_by.request_id)
    return LoggedAct(0, past.begun.kind, _in_words(past), result, past.after, *by_whom, among)


def _in_words(past: RecordedAct) -> str:
    """What an act was about, in words."""
    begun = past.begun
    asked = [_question(entry) for entry in begun.asked]
    if begun.kind == "best_of":
        return f"{_best(begun)} of: {'; '.join(asked)}"
    if begun.kind == "rank":
        return f"duels between the entries of {', '.join(asked)}"
    if begun.kind == "void":
        return "a question that was lost when its answer may have been a surprise"
    if begun.kind == "certify":
        return f"a certificate for {asked[0]}"
    if begun.kind == "check":
        margin = begun.options["by"] / SCORE_ONE
        named = " or ".join(f"“{name}”" for name in asked)
        return f"is {named} better than the incumbent{f' by more than {margin:.4g}' if margin else ''}"
    if begun.kind == "gain":
        return "how much better is the incumbent of now than the first one"
    if begun.kind == "compare" and len(asked) == 1 and begun.asked[0]["kind"] == "values":
        return f"is {asked[0]} above or below 0"
    if begun.kind in ("is_better", "compare") and len(asked) == 2:
        by = f" by more than {begun.options['by']:g}" if begun.options.get("by") else ""
        given = f" given {readable(begun.options['given'])}" if begun.options.get("given") else ""
        return f"is {asked[0]} larger than {asked[1]}{by}{given}"
    return "; ".join(asked) or "nothing was read"


def _best(begun: ActStart) -> str:
    """What a choice was by."""
    return f"the best by {begun.options['by']}" if begun.options.get("by") else "the largest"


def _question(asked: dict[str, Any]) -> str:
    kind = asked["kind"]
    if kind == "statistic":
        given, name = asked["arguments"], asked["name"]
        if name == "quantile" and given.get("level") == 0.5:
            given, name = {key: value for key, value in given.items() if key != "level"}, "median"
        leads = [str(given[name]) for name in _LEADS if name in given]
        others = [f"{name} {value}" for name, value in sorted(given.items()) if name not in _LEADS]
        return f"{name}({', '.join([*leads, *others])})"
    if kind in ("round", "entry"):
        return f"round {asked['round']:,}"
    if "texts" in asked:
        return f"{kind} of {' and '.join(map(readable, asked['texts']))}"
    if "text" not in asked:
        return asked.get("title") or asked.get("name") or "values given as arrays"
    text = readable(asked["text"])
    given = f" given {readable(asked['given'])}" if asked.get("given") else ""
    if kind == "quantile":
        called = "median" if asked["level"] == 0.5 else f"{asked['level']:g} quantile"
        return f"{called} of {text}{given}"
    return f"{text}{given}" if kind == "yes/no" else f"{kind.removesuffix(' given')} of {text}{given}"


def in_order(questions: Sequence[LoggedQuestion], acts: Sequence[LoggedAct]) -> list[LoggedQuestion | LoggedAct]:
    """Questions and acts as they happened, numbered."""
    placed: list[tuple[tuple[int, int, str], LoggedQuestion | LoggedAct]] = [
        ((question.round, 0, "") if question.finding is None else (question.finding.after, 1, question.time), question)
        for question in questions
    ]
    placed += [((act.after, 1, act.time), act) for act in acts]
    placed.sort(key=lambda pair: pair[0])
    return [replace(entry, number=number) for number, (_, entry) in enumerate(placed, 1)]
