"""(e) Singling out: a chain of counts, and an attack made for mechanisms that surprise."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, table
from everhold.games.singling_out import Attack, Risk, SuccessRate, WeightClass, single_out

CHAIN = (
    "empirical mean", "rounded mean", "sample splitting", "subsampling", "Gaussian noise", "Thresholdout",
    "Guess and Check, empirical", "AQA-OGD", "everhold",
)  # fmt: skip
RIDDEN = ("Thresholdout", "Guess and Check, empirical", "everhold")
ERROR_RATE = 0.01


def played(mechanism: str, kind: WeightClass, attack: Attack, games: int, rows: int, seed: int) -> list[Row]:
    """Many games against one mechanism."""
    return [{**asdict(single_out(mechanism, kind=kind, attack=attack, games=games, rows=rows, seed=seed)), "rows": rows}]


def tasks(quick: bool) -> list[Task]:
    """n = 1,000 for the chain, n = 200 for riding, which asks thousands of questions."""
    low, high, ride = (30, 20, 3) if quick else (400, 100, 60)
    made = [Task("singling", played, (name, "low", "composition", low, 1_000, 1)) for name in CHAIN]
    names = ("empirical mean", "everhold") if quick else CHAIN
    made += [Task("singling", played, (name, "high", "composition", high, 200 if quick else 500, 1)) for name in names]
    return made + [Task("singling", played, (name, "low", "riding", ride, 200, 1)) for name in RIDDEN]


def risk(row: Row) -> Risk:
    """A row as the game gave it."""
    main, control, baseline = (SuccessRate(**row[what]) for what in ("main", "control", "baseline"))
    return Risk(row["mechanism"], row["kind"], row["attack"], main, control, baseline, row["questions"])


def text(rows: list[Row]) -> str:
    """A table in the manner of Anonymeter."""
    body = []
    for row in rows:
        one = risk(row)
        body.append(
            [
                one.attack, one.kind, one.mechanism, row["rows"], f"{one.questions:,.0f}", one.main, one.control,
                one.baseline,
                f"{100 * one.risk:.0f} %", f"{one.p_value:.2g}",
            ]
        )  # fmt: skip
    head = ["attack", "weight", "mechanism", "n", "questions", "main", "control", "baseline", "risk", "p"]
    return (
        "How often a predicate was found that exactly one private row satisfies. *Control*: the same predicate on "
        "fresh rows; "
        "*baseline*: a random predicate of the same weight; Wilson's intervals at 95 %; p by Fisher's exact test "
        "against the "
        "baseline.\n\n"
        f"{table(head, body)}\n\n"
        f"{_said(rows)} everhold protects against overfitting, and promises no privacy ([why](../theory/singling_out.md))."
    )


def _detectable(tries: int) -> int:
    """The fewest successes of so many that the test would not put down to luck, where the baseline has none."""
    hits = 1
    while (
        Risk("", "low", "composition", SuccessRate(hits, tries), SuccessRate(0, tries), SuccessRate(0, tries), 0.0).p_value
        > ERROR_RATE
    ):
        hits += 1
    return hits


def _said(rows: list[Row]) -> str:
    """What the rows say of everhold, in a sentence or two."""
    found = {(row["attack"], row["kind"], row["mechanism"]): risk(row) for row in rows}
    parts = []
    for kind in ("low", "high"):
        exact, mine = found["composition", kind, "empirical mean"], found["composition", kind, "everhold"]
        seen = "no more than luck" if mine.p_value > ERROR_RATE else "more than luck"
        parts.append(f"at {kind} weight {exact.main} against exact counts, {mine.main} against everhold, {seen}")
    ridden = found["riding", "low", "everhold"]
    return f"The chain of counts succeeds {'; '.join(parts)}. Riding the tolerance succeeds {ridden.main} against everhold."


def claims(rows: list[Row]) -> list[Claim]:
    """Exact counts fall; the chain gains nothing against everhold; riding does, and that is said."""
    found = {(row["attack"], row["kind"], row["mechanism"]): risk(row) for row in rows}
    exact = [found["composition", kind, "empirical mean"] for kind in ("low", "high")]
    mine = [found["composition", kind, "everhold"] for kind in ("low", "high")]
    ridden = found["riding", "low", "everhold"]
    return [
        Claim(
            "exact-counts",
            "the chain isolates a row in at least 90 % of games against exact counts",
            ", ".join(f"{one.kind}: {one.main}" for one in exact),
            all(one.main.value >= 0.9 for one in exact),
        ),
        Claim(
            "chain-fails",
            f"against everhold no more often than a random predicate does (one-sided test at {ERROR_RATE:g}; it would find "
            f"{', '.join(f'{_detectable(one.main.tries)} of {one.main.tries}' for one in mine)})",
            ", ".join(f"{one.kind}: {one.main}, baseline {one.baseline}, p = {one.p_value:.2g}" for one in mine),
            all(one.p_value > ERROR_RATE for one in mine),
        ),
        Claim(
            "riding-works",
            "the riding attack isolates a row behind everhold, with thousands of questions: no privacy is promised",
            f"{ridden.main} with {ridden.questions:,.0f} questions a game",
            ridden.main.value > 0.5,
        ),
    ]


def draw(rows: list[Row], axes: Any) -> None:
    """Main and baseline rates with their intervals, for the chain at low weight."""
    mine = [risk(row) for row in rows if row["attack"] == "composition" and row["kind"] == "low"]
    for place, one in enumerate(mine):
        for shift, (rate, colour) in enumerate(((one.main, "#c2410c"), (one.baseline, "#64748b"))):
            low, high = rate.interval
            at = place + 0.2 * shift
            axes.plot([100 * low, 100 * high], [at, at], color=colour, linewidth=2)
            axes.plot([100 * rate.value], [at], "o", color=colour, markersize=4)
    axes.set_yticks(range(len(mine)), [one.mechanism for one in mine], fontsize=7)
    axes.set(xlabel="isolated, %", title="Chain of counts (orange) against luck (grey)")


SECTION = Section("singling", "(e) Can a row be singled out?", tasks, text, draw, claims)
