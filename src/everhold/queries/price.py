"""What a reported score is worth after many looks at the same rows: `eh.price`. It needs numbers only, no data."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite
from typing import Any, Literal

from everhold.bounds.looks import (
    check_score,
    count_range,
    fixed_nats,
    kept_nats,
    look_price,
    mean_interval,
    possible_scores,
    scores_nats,
    share_interval,
    worth_rows,
)
from everhold.errors import require_number
from everhold.progress import watched
from everhold.queries.disclosed import width_factor
from everhold.queries.interval import Interval
from everhold.results import JsonResult

__all__ = ["PricedInterval", "ScorePrice", "price"]

Disclosure = Literal["nothing", "fixed", "kept", "scores"]


@dataclass(frozen=True, slots=True)
class PricedInterval(JsonResult):
    """The interval of a reported score, under one assumption about what the looks before it disclosed.

    Attributes:
        disclosed: what chose the candidates: 'nothing' (one look), 'fixed' (all candidates were fixed before the first
            look), 'kept' (whether each was kept), 'scores' (every score).
        interval: of the population's value.
        nats: its price.
        rows: about how many rows, looked at once, give an interval of this width.
        name: the line's name.
        assumes: what must be true for the interval to be valid.
    """

    disclosed: Disclosure
    interval: Interval
    nats: float
    rows: float
    name: str
    assumes: str

    @property
    def times(self) -> float:
        """How many times as wide as a plain 95 % interval, for many rows."""
        return width_factor(self.nats)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        ends = {"low": self.interval.low, "high": self.interval.high}
        more = {"nats": self.nats, "times": self.times, "rows": self.rows, "name": self.name, "assumes": self.assumes}
        return {"disclosed": self.disclosed} | ends | more

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> PricedInterval:
        """The same again, equal to the bit."""
        interval = Interval(given["low"], given["high"])
        return cls(given["disclosed"], interval, given["nats"], given["rows"], given["name"], given["assumes"])


@dataclass(frozen=True, slots=True)
class ScorePrice(JsonResult):
    """What a reported score is worth. Print it, or use `one_look`, `fixed`, `kept` and `scores`.

    Attributes:
        rows: how many rows the score was measured on.
        looks: how many candidates were looked at on them.
        kept_looks: how many of these were kept; None if unknown.
        score: what was reported.
        confidence: probability that the interval of a line holds the truth, if what the line assumes is true.
        low, high: the range of a single row's number; None for a share of right rows.
        lines: the intervals, the one that assumes most first.
    """

    rows: int
    looks: int
    kept_looks: int | None
    score: float
    confidence: float
    low: float | None
    high: float | None
    lines: tuple[PricedInterval, ...]

    def __getitem__(self, disclosed: Disclosure) -> PricedInterval:
        """The line of that name."""
        for line in self.lines:
            if line.disclosed == disclosed:
                return line
        raise KeyError(f"{disclosed!r} is not among the lines: {', '.join(line.disclosed for line in self.lines)}")

    @property
    def one_look(self) -> Interval:
        """If the candidate was fixed before anybody looked at the rows."""
        return self["nothing"].interval

    @property
    def fixed(self) -> Interval:
        """If all candidates were fixed before the first look."""
        return self["fixed"].interval

    @property
    def kept(self) -> Interval:
        """If those who chose the candidates saw whether each was kept, and nothing else."""
        return self["kept"].interval

    @property
    def scores(self) -> Interval:
        """If they saw every score."""
        return self["scores"].interval

    @property
    def headline(self) -> str:
        """The surprise, in a few words: for those who saw every score, and for those who saw only kept or not."""
        number = "1 look" if self.looks == 1 else f"{self.looks:,} looks"
        kept = "" if self.kept_looks is None else f" with {self.kept_looks:,} kept"
        seen = {"scores": "every score was seen", "kept": "only kept or not was seen"}
        by_line = {line.disclosed: self._shown(line.interval) for line in self.lines}
        after = ",\n".join(f"{by_line[one]} if {said}" for one, said in seen.items() if one in by_line)
        return f"{self.score:g} reported. One look: {self._shown(self.one_look)}.\nAfter {number}{kept}: {after}."

    def _shown(self, interval: Interval) -> str:
        """With the same digits everywhere."""
        return _ends(interval, max(min(self.one_look.decimals - 2, 6), 0) + 1)

    def __str__(self) -> str:
        counts = "" if self.low is not None else f" ({_counts(*count_range(self.score, self.rows))} right)"
        lines = [
            self.headline,
            "",
            f"{self.rows:,} rows{counts}, confidence {self.confidence:g}",
            f"{'what the search saw':<52}{'interval':<18}{'times':>6}{'nats':>8}{'like rows':>11}",
        ]
        for line in self.lines:
            shown = self._shown(line.interval)
            lines.append(f"{line.name:<52}{shown:<18}{line.times:>6.1f}{line.nats:>8.1f}{line.rows:>11,.0f}")
        lines += ["", "times: a plain 95 % interval. like rows: about as many rows, looked at once, say as much.", ""]
        lines += ["Each interval is valid if this is true:", *(f"  {line.name}: {line.assumes}" for line in self.lines)]
        if len(self.lines) < 4 and self.low is not None:
            lines.append("  if every score was seen: say with how many digits (digits, --digits).")
        lines += [f"  all of them: {_ROWS}", "", _MEANS]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><td style='text-align:left'>{escape(line.name)}</td><td>{self._shown(line.interval)}</td>"
            f"<td>{line.times:.1f}</td><td>{line.nats:.1f}</td><td style='text-align:left'>{escape(line.assumes)}</td></tr>"
            for line in self.lines
        )
        head = "".join(f"<th>{name}</th>" for name in ("what the search saw", "interval", "times", "nats", "assumes"))
        said = escape(self.headline).replace("\n", "<br>")
        return f"<p><b>{said}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_rows(self) -> list[dict[str, Any]]:
        """One line for each assumption, with its interval."""
        asked = {"rows": self.rows, "looks": self.looks, "kept": self.kept_looks, "score": self.score}
        return [
            asked | {"like_rows" if name == "rows" else name: value for name, value in line.to_dict().items()}
            for line in self.lines
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "price",
            "rows": self.rows,
            "looks": self.looks,
            "kept": self.kept_looks,
            "score": self.score,
            "confidence": self.confidence,
            "low": self.low,
            "high": self.high,
            "lines": [line.to_dict() for line in self.lines],
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> ScorePrice:
        """The same again, equal to the bit."""
        lines = tuple(PricedInterval.from_dict(line) for line in given["lines"])
        numbers = {name: given[name] for name in ("rows", "looks", "score", "confidence", "low", "high")}
        return cls(kept_looks=given["kept"], lines=lines, **numbers)


@watched("Pricing")
def price(
    *,
    rows: int,
    looks: int,
    score: float,
    kept: int | None = None,
    confidence: float = 0.95,
    low: float | None = None,
    high: float | None = None,
    digits: int | None = None,
) -> ScorePrice:
    """What a score is worth that is reported after many looks at the same rows, next to a single look.

    Valid for rows that are independent draws, or drawn without replacement, of which the search saw nothing but what a line
    says, and for one reported score, with probability `confidence`. See `docs/theory/price.md`.

    Args:
        rows: how many rows the score was measured on.
        looks: how many candidates were looked at on these rows, the reported one included.
        score: the reported score: the share of right rows, or the mean of numbers between `low` and `high`.
        kept: how many candidates were kept; if left out, any number.
        confidence: of each interval.
        low, high: the range of a single row's number, from public facts.
        digits: how many digits after the decimal point a shown score has; as many as a share of the rows needs if left out.

    >>> found = price(rows=500, looks=100, kept=15, score=0.83)
    >>> print(found.headline)
    0.83 reported. One look: 0.794 to 0.862.
    After 100 looks with 15 kept: 0.132 to 1.000 if every score was seen,
    0.635 to 0.949 if only kept or not was seen.
    >>> found.kept, round(found["kept"].rows)  # 500 rows say as much as 24 that are looked at once
    ([0.635, 0.949], 24)
    """
    check_score(score, rows, low, high)
    require_number(confidence, "confidence")
    score = float(score)
    values = possible_scores(rows, digits, low, high)
    number, known = f"{looks:,} look{'s' * (looks != 1)}", "" if kept is None else f", {kept:,} kept"
    costs: list[tuple[Disclosure, float, str]] = [
        ("nothing", 0.0, "one look"),
        ("fixed", fixed_nats(looks), f"{looks:,} candidates, fixed beforehand"),
        ("kept", kept_nats(looks, kept), f"{number}{known}: only kept or not was seen"),
    ]
    if isfinite(values):
        costs.append(("scores", scores_nats(looks, int(values)), f"{number}: every score was seen"))
    lines: list[PricedInterval] = []
    for disclosed, disclosed_nats, name in costs:
        nats = look_price(confidence, disclosed_nats)
        if low is None or high is None:
            interval = Interval(*share_interval(score, rows, nats))
        else:
            interval = Interval(*mean_interval(score, rows, nats, low=low, high=high))
        like = worth_rows(rows, lines[0].interval.width if lines else interval.width, interval.width)
        lines.append(PricedInterval(disclosed, interval, nats, like, name, _ASSUMES[disclosed]))
    return ScorePrice(rows, looks, kept, score, confidence, low, high, tuple(lines))


_ROWS = (
    "the rows are independent draws (or drawn without replacement), the search saw nothing else of them, and one score is "
    "reported."
)
_MEANS = (
    "A wide interval does not say that the score is wrong. It says how far a search that saw so much can have led it from "
    "the truth. Fresh rows, looked at once, make the first line true again."
)
_ASSUMES: dict[Disclosure, str] = {
    "nothing": "the reported candidate was fixed before anybody looked at these rows.",
    "fixed": "all candidates were fixed before the first look; any one of them may be reported.",
    "kept": "who or what chose the next candidate saw whether each earlier one was kept, and no score.",
    "scores": "who or what chose the next candidate may have used every score, to its last digit.",
}


def _ends(interval: Interval, digits: int) -> str:
    """Rounded outwards, so that the printed interval holds the exact one."""
    scale = 10**digits
    return f"{floor(interval.low * scale) / scale:.{digits}f} to {ceil(interval.high * scale) / scale:.{digits}f}"


def _counts(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
