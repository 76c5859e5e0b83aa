"""What ask and read would show of a question or a statistic, side by side, and what each costs. Nothing is spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from everhold.errors import QuestionError
from everhold.queries.answer import Answer
from everhold.queries.disclosed import width_factor
from everhold.results import JsonResult
from everhold.statistics import checked_statistic, is_statistic
from everhold.statistics.finding import Finding, Result, Shares, result_from_dict
from everhold.statistics.means import Share
from everhold.statistics.rehearsal import as_answer
from everhold.statistics.statistic import run

if TYPE_CHECKING:
    from everhold.bounds.privacy import PrivacyAccount
    from everhold.queries.answer import Preview
    from everhold.queries.interval import Interval
    from everhold.queries.query import Query
    from everhold.statistics.declared import DeclaredColumns
    from everhold.statistics.statistic import QuestionBatch, Statistic

__all__ = ["Previews", "Trial", "as_reading", "as_statistic", "trial_of"]


def as_reading(preview: Preview) -> Answer:
    """What a reading would return if it found the forecast."""
    return Answer(preview.sketch, preview.read_low, preview.read_high, False, 0, preview.read_price, preview.scale, "read")


def as_statistic(question: object) -> Statistic[Any]:
    """A yes/no question as the statistic that it is; a statistic as it is."""
    return checked_statistic(cast("Statistic[Any]", question if is_statistic(question) else Share(cast(str, question))))


@dataclass(frozen=True, slots=True)
class Trial(JsonResult):
    """What ask and read would show.

    Attributes:
        ask: the answer if nothing surprised.
        read: the reading if it found the forecast.
        price: the price in nats of an ask's interval.
        surprise_costs: how many nats more than a quiet answer a surprise would add to all later prices, at least.
        read_costs: how many nats a reading would add to all later prices, at least: if it found the forecast.
        charge: what a private study's budget would pay, in words; empty where nothing is promised.
        refused: why an ask would be refused, in words; empty where it would be answered.
    """

    ask: Result
    read: Result
    price: float
    surprise_costs: float
    read_costs: float
    charge: str = ""
    refused: str = ""

    @property
    def value(self) -> float:
        """The forecast."""
        return self._single.value

    @property
    def low(self) -> float:
        """The lower end of an ask's interval, if nothing surprised."""
        return self._single.low

    @property
    def high(self) -> float:
        """The upper end of an ask's interval, if nothing surprised."""
        return self._single.high

    @property
    def interval(self) -> Interval:
        """The interval of an ask, if nothing surprised."""
        return self._single.interval

    @property
    def _single(self) -> Answer | Finding:
        if isinstance(self.ask, Shares):
            raise QuestionError("a table has many values. Expected trial.ask or trial.read, which are tables.")
        return self.ask

    @property
    def ask_text(self) -> str:
        """What asking would show and cost, in words."""
        if self.refused:
            return f"ask: not possible: {self.refused}"
        questions = 1 if isinstance(self.ask, Answer) else len(self.ask.parts)
        risk = "a surprise would cost" if questions == 1 else f"each of its {questions} questions may surprise, which costs"
        return f"ask: {_shown(self.ask)} if nothing surprises, almost free; {risk} at least {self.surprise_costs:.1f} nats"

    @property
    def read_text(self) -> str:
        """What reading would show and cost, in words."""
        now, then = width_factor(self.price), width_factor(self.price + self.read_costs)
        return (
            f"read: about {_shown(self.read)}; later asks of shares are then {then:.2f} times as wide as a plain 95 % "
            f"interval or more, now {now:.2f} times (at least {self.read_costs:.1f} nats)"
        )

    def __str__(self) -> str:
        charge = f"{self.charge}\n" if self.charge else ""
        return f"{self.ask_text}\n{self.read_text}\n{charge}foreseen from public data: nothing was measured or charged"

    def __repr__(self) -> str:
        return f"Trial({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "trial",
            "ask": self.ask.to_dict(),
            "read": self.read.to_dict(),
            "price": self.price,
            "surprise_costs": self.surprise_costs,
            "read_costs": self.read_costs,
            "charge": self.charge,
            "refused": self.refused,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Trial:
        """The same again, equal to the bit."""
        price, surprise_costs, read_costs = (float(given[name]) for name in ("price", "surprise_costs", "read_costs"))
        ask, read = result_from_dict(given["ask"]), result_from_dict(given["read"])
        return cls(ask, read, price, surprise_costs, read_costs, given["charge"], given["refused"])


def _shown(found: Result) -> str:
    if isinstance(found, Shares):
        widest = max((cell.high - cell.low for cell in found.cells), default=0.0)
        return f"{len(found):,} shares, none wider than {widest:.2g}"
    if isinstance(found, Answer):
        return f"{found.value:.4g} in {found.interval}"
    return f"{found.value_text} in {found.interval_text}"


class Previews:
    """The previews that a trial is made of, each made once."""

    def __init__(self) -> None:
        self.by_name: dict[str | None, Preview] = {}

    def missing(self, batch: QuestionBatch) -> QuestionBatch:
        """The questions of a batch that were not tried yet."""
        return [query for query in batch if query.name not in self.by_name]

    def asked(self, batch: QuestionBatch) -> list[Answer]:
        """As answers."""
        return [as_answer(self.by_name[query.name]) for query in batch]

    def read(self, batch: QuestionBatch) -> list[Answer]:
        """As readings."""
        return [as_reading(self.by_name[query.name]) for query in batch]

    @property
    def names(self) -> list[str | None]:
        """What the questions are called in the record."""
        return list(self.by_name)

    def trial(self, ask: Result, read: Result, account: PrivacyAccount | None, refused: str) -> Trial:
        """Both, with what they cost. `account`: of a private study; `refused`: why it can be asked nothing more."""
        previews = list(self.by_name.values())
        return Trial(
            ask,
            read,
            max((preview.price for preview in previews), default=0.0),
            min((preview.surprise_costs for preview in previews), default=0.0),
            sum(preview.read_costs for preview in previews),
            charge_words(account, len(previews)),
            refused,
        )


def trial_of(
    question: object,
    declared: DeclaredColumns,
    preview: Callable[[Query, int], Preview],
    account: PrivacyAccount | None,
    refusal: Callable[[Sequence[str | None]], str],
) -> Trial:
    """A trial on the public side.

    Args:
        question: a yes/no question, or a statistic.
        declared: the columns.
        preview: tries a part on the public side, of so many that would be read together.
        account: of a private study.
        refusal: why questions of these names cannot be asked; empty where they can.
    """
    statistic, previews = as_statistic(question), Previews()

    def through(answers: Callable[[QuestionBatch], Sequence[Answer]]) -> Any:
        def tried(batch: QuestionBatch) -> Sequence[Answer]:
            previews.by_name |= {query.name: preview(query, len(batch)) for query in previews.missing(batch)}
            return answers(batch)

        return run(statistic.steps(declared), tried)

    asked, read = through(previews.asked), through(previews.read)
    return previews.trial(asked, read, account, refusal(previews.names))


def charge_words(account: PrivacyAccount | None, parts: int) -> str:
    """What a private study's budget pays for a question of so many parts, in words; empty where nothing is promised.

    >>> from everhold.bounds.privacy import Privacy, PrivacyAccount
    >>> charge_words(PrivacyAccount(Privacy().terms), 2)
    'privacy budget: a quiet ask costs nothing, each surprise 5.0 %, reading 1.2 %; 100 % of it is left'
    """
    if account is None:
        return ""
    terms = account.terms
    surprise, read = (account.percent(cost) for cost in (terms.surprise_cost, parts * terms.release_cost))
    return f"privacy budget: a quiet ask costs nothing, each surprise {surprise}, reading {read}; {account.left_text}"
