"""(j) Private studies: who is in the table, attacks that a search found, and the price against noise on every question."""

from __future__ import annotations

from math import e
from typing import Any

from scipy.stats import binom

from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, table
from benchmarks.private import PROMISE, compared
from everhold.games.membership import MembershipRisk, membership, most_found
from everhold.games.search import search_attack
from everhold.games.singling_out import single_out

RODE = ("Thresholdout", "everhold", "everhold, private")
SEARCHED = ("empirical mean", "everhold", "everhold, private")
PRIVATE = "everhold, private"
FALSE_ALARM = 1e-4
ERRORS = 4.0
"""How many standard errors from one half an area must be to count as more than chance: a false alarm of 3e-5."""


def _row(what: str, found: MembershipRisk, games: int, rows: int) -> Row:
    return {
        "what": what,
        "mechanism": found.mechanism,
        "rows": rows,
        "games": games,
        "questions": found.questions,
        "auc": found.auc,
        "error": found.error,
        "found": found.found,
    }


def ridden(mechanism: str, games: int, rows: int, seed: int) -> list[Row]:
    """Membership by riding with a decoy."""
    return [_row("membership", membership(mechanism, games=games, rows=rows, seed=seed), games, rows)]


def searched(mechanism: str, population: int, generations: int, games: int, fresh: int, seed: int) -> list[Row]:
    """The best attack that a search found, in fresh games."""
    found = search_attack(
        mechanism, population=population, generations=generations, games=games, fresh_games=fresh, seed=seed
    )
    return [{**_row("search", found.fresh, fresh, 100), "tried": found.tried}]


def singled(games: int, rows: int, seed: int) -> list[Row]:
    """Riding, to single out a row of a private study."""
    found = single_out(PRIVATE, attack="riding", games=games, rows=rows, seed=seed)
    return [
        {
            "what": "riding", "mechanism": PRIVATE, "rows": rows, "games": games, "questions": found.questions,
            "isolated": found.main.successes,
        }
    ]  # fmt: skip


def against_noise(size: int, count: int, seed: int) -> list[Row]:
    """Everhold, Gaussian noise and multiplicative weights on the same questions."""
    one = compared(size, count, seed)
    shown = {"everhold": one.mine, "read_first": one.informed, "gaussian": one.noise}
    return [
        {
            "what": "errors",
            "mechanism": PRIVATE,
            "rows": size,
            "questions": count,
            "seed": seed,
            **{name: found.largest for name, found in shown.items()},
            **{f"{name}_population": found.population for name, found in shown.items()},
            "answered": one.mine.answered,
            "read_first_answered": one.informed.answered,
            "half_width": one.mine.width,
            "weights": one.weights.largest,
            "weights_answered": one.weights.answered,
            "best": one.best,
        }
    ]


def tasks(quick: bool) -> list[Task]:
    """Membership with n = 200, searches with n = 100: small tables help an attacker, and noise is the same for any n."""
    plain, private, ride = (24, 60, 20) if quick else (200, 600, 300)
    search = (6, 3, 32, 160) if quick else (12, 8, 64, 1_000)
    names = [name for name in RODE if name != "Thresholdout" or not quick]
    made = [Task("private", ridden, (name, private if name == PRIVATE else plain, 200, 1)) for name in names]
    made += [Task("private", searched, (name, *search, 1)) for name in SEARCHED if name != "empirical mean" or not quick]
    made.append(Task("private", singled, (ride, 200, 1)))
    sizes = (5_000,) if quick else (5_000, 50_000)
    counts = {300: 3} if quick else {100: 9, 300: 9, 1_000: 9, 3_000: 3}
    return made + [
        Task("private", against_noise, (size, count, seed))
        for size in sizes
        for count, seeds in counts.items()
        for seed in range(seeds)
    ]


def _of(rows: list[Row], what: str) -> list[Row]:
    return [row for row in rows if row["what"] == what]


def _middle(rows: list[Row], name: str) -> float:
    """A median."""
    values = sorted(float(row[name]) for row in rows)
    return values[len(values) // 2]


def _sizes(rows: list[Row]) -> list[tuple[int, int, list[Row]]]:
    found = _of(rows, "errors")
    keys = sorted({(row["rows"], row["questions"]) for row in found})
    return [(n, t, [row for row in found if (row["rows"], row["questions"]) == (n, t)]) for n, t in keys]


def _ratio(rows: list[Row], name: str = "everhold") -> float:
    ratios = sorted(row[name] / row["gaussian"] for row in rows)
    return float(ratios[len(ratios) // 2])


def text(rows: list[Row]) -> str:
    """Two tables."""
    attacks = []
    for row in _of(rows, "membership") + _of(rows, "search"):
        attack = "riding with a decoy" if row["what"] == "membership" else f"the best of {row['tried']} that a search tried"
        attacks.append(
            [
                attack, row["mechanism"], row["rows"], row["games"], f"{row['questions']:,.0f}",
                f"{row['auc']:.3f} ± {row['error']:.3f}", f"{100 * row['found']:.0f} %",
            ]
        )  # fmt: skip
    ride = _of(rows, "riding")[0]
    costs = []
    for size, count, some in _sizes(rows):
        shown = {name: _middle(some, name) for name in some[0] if isinstance(some[0][name], float)}
        costs.append(
            [
                f"{size:,}", f"{count:,}",
                f"{shown['everhold']:.4f}, {shown['everhold_population']:.4f} ({min(row['answered'] for row in some):,})",
                f"±{shown['half_width']:.4f}",
                f"{shown['read_first']:.4f}, {shown['read_first_population']:.4f} "
                f"({min(row['read_first_answered'] for row in some):,})",
                f"{shown['gaussian']:.4f}, {shown['gaussian_population']:.4f}",
                f"{shown['weights']:.4f} ({min(row['weights_answered'] for row in some):,})", f"{_ratio(some):.2f}",
                f"{_ratio(some, 'read_first'):.2f}", f"{shown['best']:.4f}",
            ]
        )  # fmt: skip
    loses = " ".join(
        f"{what} loses with {', '.join(worse)} questions." if worse else f"{what} loses in none of these."
        for what, name in (("Everhold asked plainly", "everhold"), ("With the attributes read first it", "read_first"))
        for worse in [[f"{count:,} at n = {size:,}" for size, count, some in _sizes(rows) if _ratio(some, name) >= 1.0]]
    )
    return (
        f"A private study promises ε = {PROMISE.epsilon:g}, δ = {PROMISE.delta:g} with {PROMISE.surprises} surprises "
        "([theory](../theory/privacy.md)). *Is this person's row in the table?* In half of the games it is. The area under "
        "the ROC curve of the attacker's score is 0.5 for guessing, with the standard error of chance alone; last, how many "
        f"members are found where one in ten others is accused (at most {100 * most_found(1.0, 1e-9, 0.1):.0f} % under this "
        "promise).\n\n"
        f"{table(['attack', 'mechanism', 'n', 'games', 'questions', 'area', 'members found'], attacks)}\n\n"
        f"Riding to single out a row, n = {ride['rows']}: {ride['isolated']} of {ride['games']} games; by theorem 4 at most "
        f"{100 * e / ride['rows']:.1f} %.\n\n"
        "*What it costs*, against Gaussian noise on every question, planned for exactly so many, and private "
        "multiplicative weights over the explicit domain; the same promise, rows and questions. Largest errors, for the "
        "sample and for the population, medians over seeds; in brackets how many questions were answered. The ratio is "
        "that of the errors for the sample. Last, how far the population's own shares are from the sample's: no forecast "
        "can be expected to be nearer, however little noise there is.\n\n"
        + table(
            [
                "n",
                "questions",
                "everhold",
                "its half-width",
                "attributes read first",
                "Gaussian noise",
                "weights",
                "everhold / Gaussian",
                "read first / Gaussian",
                "sample",
            ],
            costs,
        )
        + f"\n\n{loses} Noise is a number of rows, whatever n is; sampling error in rows grows with n, and forecasts come "
        "from public rows. So the larger n is, the more questions it takes. *Read first*: the shares of the twelve "
        "attributes are read before the first question, for the price of one and a half surprises; the conjunctions follow "
        "from them, because attributes are independent here. Only everhold has intervals for the population."
    )


def claims(rows: list[Row]) -> list[Claim]:
    """Attacks succeed where no privacy is promised, and stay at chance where it is; the error is smaller from 300 on."""
    rode = {row["mechanism"]: row for row in _of(rows, "membership")}
    found = {row["mechanism"]: row for row in _of(rows, "search")}
    ride = _of(rows, "riding")[0]

    def area(row: Row) -> str:
        return f"{row['auc']:.3f} ± {row['error']:.3f}"

    def above(row: Row) -> bool:
        return bool(row["auc"] > 0.5 + ERRORS * row["error"])

    small = [(count, _ratio(some), some) for size, count, some in _sizes(rows) if size == 5_000 and count >= 300]
    read = [
        (size, count, _ratio(some, "read_first"), some)
        for size, count, some in _sizes(rows)
        if count >= (300 if size == 5_000 else 1_000)
    ]
    return [
        Claim(
            "membership-control",
            "riding with a decoy tells members of a plain study (area above 0.9); a search finds an attack on it",
            f"riding {area(rode['everhold'])}; search {area(found['everhold'])}",
            rode["everhold"]["auc"] > 0.9 and above(found["everhold"]),
        ),
        Claim(
            "membership-private",
            f"against a private study both are within {ERRORS:g} standard errors of guessing",
            f"riding {area(rode[PRIVATE])}; search {area(found[PRIVATE])}",
            all(abs(one[PRIVATE]["auc"] - 0.5) <= ERRORS * one[PRIVATE]["error"] for one in (rode, found)),
        ),
        Claim(
            "riding-private",
            f"riding singles out a row of a private study no more often than theorem 4 allows (false alarm {FALSE_ALARM:g})",
            f"{ride['isolated']} of {ride['games']}",
            bool(ride["isolated"] <= binom.ppf(1.0 - FALSE_ALARM, ride["games"], e / ride["rows"])),
        ),
        Claim(
            "private-errors",
            "from 300 questions about 5,000 rows on, a smaller largest error than Gaussian noise on each, all answered",
            ", ".join(f"{count:,}: {ratio:.2f}" for count, ratio, _ in small),
            all(ratio < 1.0 and all(row["answered"] == count for row in some) for count, ratio, some in small),
        ),
        Claim(
            "private-errors-read-first",
            "the same where the attributes are read first, also about 50,000 rows from 1,000 questions on",
            ", ".join(f"{count:,} (n = {size:,}): {ratio:.2f}" for size, count, ratio, _ in read),
            all(ratio < 1.0 and all(row["read_first_answered"] == count for row in some) for _, count, ratio, some in read),
        ),
    ]


def draw(rows: list[Row], axes: Any) -> None:
    """Areas under the curve, with two standard errors."""
    shown = _of(rows, "membership") + _of(rows, "search")
    for place, row in enumerate(shown):
        colour = "#0f766e" if row["mechanism"] == PRIVATE else "#c2410c"
        axes.plot([row["auc"] - 2 * row["error"], row["auc"] + 2 * row["error"]], [place, place], color=colour, linewidth=2)
        axes.plot([row["auc"]], [place], "o", color=colour, markersize=5)
    axes.axvline(0.5, color="#64748b", linewidth=1)
    axes.set_yticks(range(len(shown)), [f"{row['what']}: {row['mechanism']}" for row in shown], fontsize=7)
    axes.set(xlabel="area under the ROC curve; 0.5 is guessing", title="Who is in the table?")


SECTION = Section("private", "(j) Is somebody in the table, and what does hiding it cost?", tasks, text, draw, claims)
