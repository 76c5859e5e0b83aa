"""`everhold risk`: attacks on a copy of a study's configuration, with synthetic rows."""

from __future__ import annotations

import json
import warnings
from math import ceil, exp, sqrt
from typing import Annotated, Any

import typer
from rich.table import Table

from everhold.cli.app import console, guarded, say
from everhold.cli.asking import AsJson, Study
from everhold.games.mechanisms.own import everhold, private
from everhold.games.membership import MembershipRisk, membership
from everhold.games.play import GameTerms, MechanismFactory
from everhold.games.search import search_attack
from everhold.games.singling_out import Attack, Risk, SuccessRate, WeightClass, single_out
from everhold.ledger.reader import StudyFile, read_study
from everhold.session.holdout import Holdout
from everhold.session.session import Session
from everhold.session.settings import Settings

__all__ = ["register"]

MOST_ROWS, RIDDEN_ROWS = 1_000, 200
_ASKED = "Can a patient, say, be singled out?"
_KNOWN = (
    "In a plain study, somebody who already knows facts that fit one person only needs no attack: one reading of that group "
    "shows the person's value."
)
_SURE = 0.01  # chance that an attack that does nothing is called one
_ATTACKS = {"composition": "chain", "riding": "riding"}
_PLANS: tuple[tuple[str, Attack, WeightClass, int], ...] = (
    ("exact counts", "composition", "low", 4),
    ("this study", "composition", "low", 4),
    ("this study", "composition", "high", 1),
    ("this study", "riding", "low", 1),
)


def mechanism_for(settings: Settings, rows: int) -> MechanismFactory:
    """A holdout with the study's settings, over the rows of the game.

    The copy is smaller than the study, which helps an attacker: noise and privacy are the same for any number of rows.
    Settings that depend on the number of rows are scaled: known rows keep their share,
    and a promised half-width grows with the sampling error.
    """

    promise = settings.privacy

    def factory(terms: GameTerms) -> Holdout | Session[Any]:
        if promise is not None:
            return private(terms, promise.promise)
        n = terms.private.size
        width = None if settings.half_width is None else min(settings.half_width * sqrt(max(rows / n, 1.0)), 0.5)
        return everhold(
            terms,
            half_width=width,
            rule=settings.rule,
            density=settings.density,
            known_rows=min(ceil(settings.known_rows * n / max(rows, n)), n - 1),
            tolerance=settings.tolerance,
        )

    return factory


def _shown(risk: Risk, against: str, rows: int) -> dict[str, Any]:
    def rate(measured: SuccessRate) -> dict[str, Any]:
        return {
            "successes": measured.successes,
            "tries": measured.tries,
            "rate": measured.value,
            "interval": list(measured.interval),
        }

    return {
        "against": against,
        "attack": risk.attack,
        "weight": risk.kind,
        "rows": rows,
        "questions": risk.questions,
        "main": rate(risk.main),
        "control": rate(risk.control),
        "baseline": rate(risk.baseline),
        "risk": risk.risk if risk.questions else None,
        "p_value": risk.p_value,
    }


@guarded
def risk(
    study: Study,
    games: Annotated[
        int, typer.Option(min=1, max=10_000, help="Games of the slowest attack; fast ones get four times as many.")
    ] = 25,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    search: Annotated[bool, typer.Option("--search", help="Also search for attacks; this takes minutes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether questions alone can single out a row, or tell whether it is there: attacks on a copy of the study.

    It reads no private row and spends nothing: the copy has the study's settings, and up to 1,000 synthetic rows that all
    differ. *Main* is how often a row of the copy was singled out, *control* the same predicate on other rows, *baseline* a
    random predicate. *Membership* is how well somebody tells whether a row is there: an area of 0.5 is chance, 1 certainty.

    Examples:

        everhold risk study.everhold

        everhold risk study.everhold --search
    """
    file = read_study(study)
    settings = Settings.from_dict(file.first_record.settings)
    attacks: list[dict[str, Any]] = []
    warnings.simplefilter("ignore")  # about the games' own rows
    for against, attack, kind, times in _PLANS:
        rows = max(16, min(file.first_record.rows, RIDDEN_ROWS if attack == "riding" else MOST_ROWS))
        reference = max(1, min(int(file.first_record.draws), 10 * rows))
        result = single_out(
            "empirical mean" if against == "exact counts" else mechanism_for(settings, file.first_record.rows),
            kind=kind,
            attack=attack,
            games=games * times,
            rows=rows,
            reference=reference,
            confidence=settings.confidence,
            seed=seed,
        )
        attacks.append(_shown(result, against, rows))
    members = _members(file, settings, games, seed, search)
    floor = file.weight_floor()
    if as_json:
        shown = {"study": str(file.path), "attacks": attacks, "membership": members, "weight_floor": floor.to_dict()}
        typer.echo(json.dumps(shown))
        return
    table = Table("attack", "weight", "against", "rows", "asked", "main", "control", "baseline", "risk", box=None)
    for row in attacks:
        rates = [str(SuccessRate(row[what]["successes"], row[what]["tries"])) for what in ("main", "control", "baseline")]
        table.add_row(
            _ATTACKS[row["attack"]],
            row["weight"],
            row["against"],
            f"{row['rows']:,}",
            f"{row['questions']:,.0f}",
            *rates,
            f"{row['risk']:.0%}" if row["questions"] else "nothing asked",
        )
    console.print(table)
    if any(row["questions"] == 0 for row in attacks):
        say('\n"nothing asked": the copy refused its first question, so this attack was not tested.')
    for row in members:
        say(
            f"\nmembership, {row['attack']}: area {row['auc']:.2f} (chance 0.50 ± {2.0 * row['error']:.2f}) with "
            f"{row['questions']:,.0f} questions a game; {row['found']:.0%} of members found where 10% of others are accused"
        )
    say(f"\nSo far {floor.text}.")
    say(_LEGEND)
    say(
        "\nA chain of counts singles out a row if counts are exact; compare main with baseline to see its effect here. "
        "The riding attack targets mechanisms that use the private data only on a surprise, and takes thousands of "
        "questions. " + _promise(settings)
    )
    say(f"\n{verdict(attacks, settings, file.first_record.rows)}", style="bold")


_LEGEND = """
attack: "chain" narrows a group down by counts, each chosen by the answers before it; "riding" asks about a group that
grows by single rows until a surprise says that one more came.
weight: "low" are traits so rare that a table of this size hardly ever has exactly one such row by chance; "high" are so
common that it nearly always has several. Either way, a group of exactly one row is the attack's doing.
main: how often the attack named a trait of exactly one row. control: how often that trait fits exactly one of as many
other rows. baseline: the same for a random trait of that weight. risk: what main has beyond control."""


def verdict(found: list[dict[str, Any]], settings: Settings, rows: int) -> str:
    """Can a row be singled out? What is promised, or what these games measured: nothing is said of what was not played."""
    if settings.privacy is not None:
        promise = settings.privacy.promise
        at_most = min(ceil(10.0 * (exp(promise.epsilon) + 100.0 * promise.delta)) / 10.0, 100.0)
        return (
            f"{_ASKED} No, up to ε = {promise.epsilon:g} and δ = {promise.delta:g}, whatever is asked: somebody "
            f"who accuses 1 in 100 people who are not in the table finds at most {at_most:g} in 100 of those who are."
        )
    own = [one for one in found if one["against"] != "exact counts" and one["questions"]]
    won = [one for one in own if one["p_value"] < _SURE]
    if not won:
        return (
            f"{_ASKED} These attacks did not show it, and other attacks may: a plain study promises nothing about single "
            f"people. A private study does. {_KNOWN}"
        )
    best = max(won, key=lambda one: float(one["risk"] or 0.0))
    said = (
        f"{_ASKED} Yes: {best['main']['successes']} of {best['main']['tries']} games against a copy of "
        f"{best['rows']:,} rows did so, with about {best['questions']:,.0f} questions."
    )
    if rows > best["rows"]:
        said += f" For your {rows:,} rows nothing was played: more rows take more questions, and are no protection."
        if best["attack"] == "riding":  # K·n questions, where K, the rows that the tolerance lets pass, grows with √n
            many = float(best["questions"]) * (rows / best["rows"]) ** 1.5
            said += f" By the formula of that attack, of the order of {many:,.0e} of them."
    return f"{said} {_KNOWN}"


def _promise(settings: Settings) -> str:
    if settings.privacy is None:
        return "everhold protects against overfitting; this study promises no privacy, whatever these rates are."
    promise = settings.privacy.promise
    return (
        f"This study is private, with ε = {promise.epsilon:g} and δ = {promise.delta:g}: that is what is promised. These "
        "attacks only show that nothing is obviously broken."
    )


def _members(file: StudyFile, settings: Settings, games: int, seed: int, search: bool) -> list[dict[str, Any]]:
    """How well somebody tells whether a row is there, by riding and, if wanted, by attacks that a search finds."""
    rows = max(16, min(file.first_record.rows, RIDDEN_ROWS))
    reference = max(1, min(int(file.first_record.draws), 10 * rows))
    factory = mechanism_for(settings, file.first_record.rows)
    common: dict[str, Any] = {"rows": rows, "reference": reference, "confidence": settings.confidence, "seed": seed}
    ridden = membership(factory, games=max(2 * games, 4), **common)
    attacks = [_member_row("riding with a decoy", ridden)]
    if search:
        best = search_attack(factory, **common)
        asked, read = (
            [question for question, is_read in zip(best.questions, best.reads, strict=True) if is_read == reads]
            for reads in (False, True)
        )
        more = {"tried": best.tried, "asks": asked, "reads": read}
        attacks.append({**_member_row("found by a search", best.fresh), **more})
    return attacks


def _member_row(attack: str, risk: MembershipRisk) -> dict[str, Any]:
    return {
        "attack": attack,
        "auc": risk.auc,
        "error": risk.error,
        "found": risk.found,
        "questions": risk.questions,
        "games": len(risk.members) + len(risk.others),
    }


def register(app: typer.Typer) -> None:
    """Add `risk` to the app."""
    app.command()(risk)
