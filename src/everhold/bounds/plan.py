"""Compare what all mechanisms guarantee and what every act gives, and recommend, even if it is not everhold."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import inf
from typing import TYPE_CHECKING, Any

from everhold.bounds import baselines, paper, sample_size, widths
from everhold.bounds.privacy import Privacy
from everhold.bounds.private_plan import PrivatePlan, private_plan
from everhold.errors import SettingError, require_number, require_whole
from everhold.plots import widths_figure
from everhold.progress import watched
from everhold.results import PlainResult

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Option", "Plan", "plan"]


_PLAIN_TOO = "Mechanisms and acts without privacy: plan the same without it."


@dataclass(frozen=True, slots=True)
class Option:
    """One mechanism's numbers. Half-widths on the share scale, 0.05 meaning five percentage points.

    Attributes:
        mechanism: its name.
        assumes: the assumptions behind the numbers.
        rows_needed: rows for the requested half-width; None if none was requested.
        half_width: the half-width for the given rows; None if no rows were given; infinite if not below 1.
        proved: whether the half-width is guaranteed in advance under `assumes`. If not, intervals are still valid but may
            be wider.
    """

    mechanism: str
    assumes: str
    rows_needed: float | None
    half_width: float | None
    proved: bool


@dataclass(frozen=True, slots=True)
class Plan(PlainResult):
    """All options for one set of numbers; print it, or use `options`, `acts` and `recommended`.

    Attributes:
        options: mechanisms, each with its guarantee for `rounds` adaptive questions.
        recommended, reason: which of them, and why.
        acts: everhold's acts and ways of splitting the rows, with what each gives if forecasts fit; none without `rows`.
        advice: which of them, in words.
        private: what a promise of privacy costs; None where none was given.
    """

    rounds: float
    rows: float | None
    half_width: float | None
    confidence: float
    options: tuple[Option, ...]
    recommended: str
    reason: str
    acts: tuple[widths.Way, ...] = ()
    advice: str = ""
    private: PrivatePlan | None = None
    score: float = 0.5

    def __getitem__(self, mechanism: str) -> Option:
        """The option of that name."""
        for option in self.options:
            if option.mechanism == mechanism:
                return option
        raise KeyError(f"{mechanism!r} is not in the plan: {', '.join(o.mechanism for o in self.options)}")

    def __str__(self) -> str:
        given = [
            f"{self.rounds:,.0f} adaptive question{'' if self.rounds == 1 else 's'}",
            f"confidence {self.confidence:g}",
        ]
        if self.rows is not None:
            given.append(f"{self.rows:,.0f} rows")
        if self.half_width is not None:
            given.append(f"half-width {self.half_width:g} wanted")
        lines = [", ".join(given), ""]
        if self.private is not None:
            return "\n".join([*lines, str(self.private), "", _PLAIN_TOO])
        lines.append(f"{'mechanism':<31}{'rows needed':>13}{'half-width':>12}   rests on")
        for option in self.options:
            mark = "→ " if option.mechanism == self.recommended else "  "
            lines.append(
                f"{mark + option.mechanism:<31}{_rows_text(option.rows_needed):>13}"
                f"{_width_text(option.half_width):>12}   {option.assumes}"
            )
        number = f"{self.rounds:,.0f} adaptive question{'' if self.rounds == 1 else 's'}"
        whose = f"Of these mechanisms, with an interval for {number}" if self.acts else "Recommended"
        lines += ["", f"{whose}: {self.recommended}. {self.reason}"]
        if self.acts:
            near = f", for shares near {self.score:g}" if self.score != 0.5 else ""
            lines += ["", f"{'  act, if forecasts fit' + near:<54}{'nats':>6}{'half-width':>12}{'group of 10 %':>15}   call"]
            for way in self.acts:
                lines.append(
                    f"  {way.name:<52}{way.nats:>6.1f}{_width_text(way.half_width):>12}{_width_text(way.group):>15}   "
                    + (way.call or "no everhold needed")
                )
            lines += ["", "Recommended, of both tables:", self.advice]
        return "\n".join(lines)

    __repr__ = __str__

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each option."""
        options: list[dict[str, Any]] = self.to_dict()["options"]
        return options

    def plot(self, ax: Any = None) -> Any:
        """Half-widths of all mechanisms and acts side by side. Needs matplotlib (`everhold[plot]`)."""
        widths = {option.mechanism: option.half_width for option in self.options if option.half_width is not None}
        widths |= {way.name: way.half_width for way in self.acts}
        if not widths:
            raise SettingError("without rows a plan has no half-widths to draw. Give rows= to eh.plan.")
        title = f"{self.rounds:,.0f} adaptive questions, confidence {self.confidence:g}"
        return widths_figure(widths, chosen=self.recommended, title=title, ax=ax)

    def _repr_html_(self) -> str:
        if self.private is not None:
            return f"<pre>{escape(str(self))}</pre>"
        body = "".join(
            f"<tr style='font-weight:{'bold' if o.mechanism == self.recommended else 'normal'}'>"
            f"<td style='text-align:left'>{escape(o.mechanism)}</td><td>{_rows_text(o.rows_needed)}</td>"
            f"<td>{_width_text(o.half_width)}</td><td style='text-align:left'>{escape(o.assumes)}</td></tr>"
            for o in self.options
        )
        whose = "Of these mechanisms" if self.acts else "Recommended"
        return (
            "<table><thead><tr><th>mechanism</th><th>rows needed</th><th>half-width</th><th>rests on</th></tr></thead>"
            f"<tbody>{body}</tbody></table><p>{whose}: <b>{escape(self.recommended)}</b>. {escape(self.reason)}</p>"
            + self._acts_html()
        )

    def _acts_html(self) -> str:
        if not self.acts:
            return ""
        body = "".join(
            f"<tr><td style='text-align:left'>{escape(way.name)}</td><td>{way.nats:.1f}</td>"
            f"<td>{_width_text(way.half_width)}</td><td>{_width_text(way.group)}</td>"
            f"<td style='text-align:left'>{escape(way.call) or 'no everhold needed'}</td></tr>"
            for way in self.acts
        )
        return (
            "<table><thead><tr><th>act, if forecasts fit</th><th>nats</th><th>half-width</th><th>group of 10 %</th>"
            f"<th>call</th></tr></thead><tbody>{body}</tbody></table><p>Recommended, of both tables:<br>"
            f"{escape(self.advice).replace(chr(10), '<br>')}</p>"
        )


@watched("Planning")
def plan(
    *,
    rounds: float,
    rows: float | None = None,
    half_width: float | None = None,
    confidence: float = 0.95,
    density: float = 0.5,
    surprises: int = 20,
    domain_bits: float | None = None,
    reference: float | None = None,
    reads: int = 1,
    candidates: int = 1,
    generations: int = 1,
    score: float = 0.5,
    privacy: Privacy | None = None,
) -> Plan:
    """Every mechanism's numbers for a holdout of `rows` rows and `rounds` adaptive questions, and every act's.

    Args:
        rounds: T, the number of adaptive questions to plan for.
        rows: the private rows; None to compute how many are needed.
        half_width: the required precision, on the share scale; None to compute what the rows allow.
        confidence: probability that all intervals are simultaneously valid.
        density: λ, how dense the population is in the prior (1/2: known features, unknown yes/no labels).
        surprises: the number of surprises to expect with a prior that fits; also Thresholdout's overfitting budget.
        domain_bits: size of an explicit domain, for private multiplicative weights; None if there is none.
        reference: public rows; as many as private ones when left out.
        reads: how many questions are to be read, with narrow intervals.
        candidates: how many models or questions the best is chosen of.
        generations: in how many steps it is chosen, each of which may depend on the one before.
        score: the share that answers are foreseen to be near, such as a model's accuracy: acts are narrower away from one
            half.
        privacy: a promise about every row, such as `eh.Privacy(epsilon=1.0)`: what it costs, and what noise on every
            question would give instead (`plan.private`). Needs `rows`.

    >>> p = plan(rows=1_000_000, half_width=0.1, rounds=1e6)
    >>> p.recommended
    'everhold'
    >>> p["everhold, worst case"].rows_needed < p["Gaussian noise"].rows_needed
    True
    >>> print(plan(rows=20_000, rounds=100, candidates=1000).advice)
    An interval with every adaptive question: ask, the last of 100 declared, ±0.0299, by Holdout(rounds=100); ask(q).
    One narrow interval after the asks: the first reading after 100 asks, ±0.0101, by read(q).
    Questions that are fixed together, as the last act: the last act, one question, ±0.00718, by close([...]).
    The best of many candidates, with one interval for it: choose on one half, one interval on the other, ±0.00988. With all
    rows in one holdout: the best of 1,000, then close, ±0.0145; the best of 1,000, then read, ±0.0157.
    """
    for value, name in ((rounds, "rounds"), (confidence, "confidence"), (density, "density")):
        require_number(value, name)
    for given, name in ((rows, "rows"), (half_width, "half_width"), (domain_bits, "domain_bits")):
        if given is not None:
            require_number(given, name)
    require_whole(surprises, "surprises")
    for whole, name in ((reads, "reads"), (candidates, "candidates"), (generations, "generations")):
        require_whole(whole, name)
    if reference is not None:
        require_number(reference, "reference")
        if not 1 <= reference < inf:
            raise SettingError(f"reference is {reference!r}. Expected at least 1 public row.")
    if rows is None and half_width is None:
        raise SettingError("plan needs rows, or half_width, or both: what you have or what you want.")
    if rows is not None and not 1 <= rows < inf:
        raise SettingError(f"rows is at least 1, not {rows!r}")
    if half_width is not None and not 0.0 < half_width <= 1.0:
        raise SettingError(f"half_width is on the share scale, in (0, 1], not {half_width!r}")
    if not 1 <= rounds < inf:
        raise SettingError(f"rounds is at least 1, not {rounds!r}")
    if not 0.0 < confidence < 1.0:
        raise SettingError(f"confidence lies strictly between 0 and 1, not at {confidence!r}")
    require_number(score, "score")
    if not 0.0 < score < 1.0:
        raise SettingError(f"score is {score!r}. Expected a share strictly between 0 and 1, such as an accuracy of 0.8.")
    if surprises < 1:
        raise SettingError(f"surprises is at least 1, not {surprises!r}")
    t, delta = float(int(rounds)), 1.0 - confidence
    width = None if half_width is None else 2.0 * half_width
    dense = f"a prior in which the population is {density:g}-dense"

    def option(
        mechanism: str,
        assumes: str,
        needed: Callable[[float], float],
        reached: Callable[[float], float],
        *,
        proved: bool = True,
    ) -> Option:
        at = None if rows is None else reached(rows)
        share = None if at is None else (at / 2.0 if at <= 2.0 else inf)
        return Option(mechanism, assumes, None if width is None else needed(width), share, proved)

    common: dict[str, Any] = {"rounds": t, "failure_probability": delta}
    options = [
        option(
            "everhold",
            f"valid with any prior; this precise if at most {surprises} surprises happen",
            lambda w: sample_size.rows_with_surprises(w, surprises=surprises, **common),
            lambda n: sample_size.precision_with_surprises(n, surprises=surprises, **common),
            proved=False,
        ),
        option(
            "everhold, worst case",
            f"{dense}, known exactly; rule=eh.Corrective(proved=True); any analyst",
            lambda w: sample_size.rows_needed(w, density=density, **common),
            lambda n: sample_size.precision_reached(n, density=density, **common),
        ),
        option(
            "Gaussian noise",
            "nothing (Jung et al. 2020)",
            lambda w: baselines.gaussian_rows(w, **common),
            lambda n: baselines.gaussian_width(n, **common),
        ),
        option(
            "Thresholdout",
            f"at most {surprises} questions that overfit the training rows (Dwork et al. 2015)",
            lambda w: baselines.thresholdout_rows(w, budget=surprises, **common),
            lambda n: baselines.thresholdout_width(n, budget=surprises, **common),
        ),
        option(
            "sample splitting",
            "nothing",
            lambda w: baselines.splitting_rows(w, **common),
            lambda n: baselines.splitting_width(n, **common),
        ),
        option(
            "AQA-OGD, corrected",
            f"{dense} (the paper, its constants corrected)",
            lambda w: paper.rows_needed(w, density=density, **common),
            lambda n: sample_size.smallest_width(lambda w: paper.rows_needed(w, density=density, **common) <= n),
        ),
        option(
            "AQA-OGD, as printed",
            "not proved: see the errata",
            lambda w: paper.rows_needed(w, density=density, constants="printed", **common),
            lambda n: sample_size.smallest_width(
                lambda w: paper.rows_needed(w, density=density, constants="printed", **common) <= n
            ),
            proved=False,
        ),
        option(
            "non-adaptive limit",
            "questions fixed before the first answer: for comparison only",
            lambda w: baselines.non_adaptive_rows(w, **common),
            lambda n: baselines.non_adaptive_width(n, **common),
            proved=False,
        ),
    ]
    if domain_bits is not None:
        bits, reach = domain_bits, "" if domain_bits <= 26 else " (out of reach)"
        options.insert(
            -3,
            option(
                "multiplicative weights",
                f"an explicit domain of 2^{bits:g} points{reach}",
                lambda w: baselines.multiplicative_weights_rows(w, domain_bits=bits, **common),
                lambda n: baselines.multiplicative_weights_width(n, domain_bits=bits, **common),
            ),
        )
    name, reason = _recommend(options, rows, half_width, rounds=t, surprises=surprises, delta=delta)
    acts: tuple[widths.Way, ...] = ()
    if rows is not None:
        table = widths.RowCounts(int(rows), int(reference or rows), float(score))
        numbers = {"asks": int(t), "reads": reads, "candidates": candidates, "generations": generations}
        acts = widths.ways(table, failure_probability=delta, **numbers)
    private = None
    if privacy is not None:
        if rows is None:
            raise SettingError("the cost of privacy depends on the rows: pass rows=... too.")
        private = private_plan(
            rows=int(rows), reference=int(reference or rows), asks=int(t), privacy=privacy, failure_probability=delta
        )
    return Plan(
        t, rows, half_width, confidence, tuple(options), name, reason, acts, widths.advice(acts), private, float(score)
    )


def _recommend(
    options: list[Option], rows: float | None, half_width: float | None, *, rounds: float, surprises: int, delta: float
) -> tuple[str, str]:
    everhold, proved = options[0], [o for o in options if o.proved and "out of reach" not in o.assumes]
    if rows is None:
        best = min(proved, key=lambda o: o.rows_needed or inf)
        if best.mechanism == "everhold, worst case" or (everhold.rows_needed or inf) < (best.rows_needed or 0):
            return "everhold", (
                f"With a fitting prior about {everhold.rows_needed:,.0f} rows reach ±{half_width:g}; "
                f"{best.rows_needed:,.0f} guarantee it ({best.mechanism})."
            )
        return best.mechanism, f"It guarantees ±{half_width:g} with the fewest rows, {best.rows_needed:,.0f}."
    best = min(proved, key=lambda o: o.half_width or inf)
    expected, sure = everhold.half_width or inf, best.half_width or inf
    if min(expected, sure) > 1.0:
        needed = sample_size.rows_with_surprises(0.2, rounds=rounds, surprises=surprises, failure_probability=delta)
        return (
            "more rows",
            f"{rows:,.0f} rows say nothing about that many adaptive questions, by any mechanism listed. About {needed:,} "
            "rows with a prior that fits would reach ±0.1.",
        )
    if sure <= expected:
        name = "everhold" if best.mechanism == "everhold, worst case" else best.mechanism
        return (
            name,
            f"±{sure:.3g} is guaranteed in advance ({best.mechanism}); no other mechanism listed is narrower.",
        )
    promise = (
        f"the narrowest guarantee in advance is ±{sure:.3g} ({best.mechanism})"
        if sure <= 1.0
        else ("nothing listed guarantees a useful half-width in advance")
    )
    missed = ""
    if half_width is not None and expected > half_width:
        missed = f" The ±{half_width:g} that is wanted would take about {everhold.rows_needed:,.0f} rows."
    return "everhold", (
        f"Its intervals are valid with any prior, and about ±{expected:.3g} with one that fits; {promise}.{missed}"
    )


def _rows_text(rows: float | None) -> str:
    if rows is None:
        return "–"
    return f"{rows:,.0f}" if rows < 1e7 else f"{rows:.2e}"


def _width_text(width: float | None) -> str:
    if width is None:
        return "–"
    return "none" if width > 1.0 else f"±{width:.3g}"
