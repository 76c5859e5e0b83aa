"""`everhold plan`, `schema` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import everhold as eh
from everhold.cli.app import guarded, say

__all__ = ["register"]


@guarded
def plan(
    rounds: Annotated[float, typer.Option(help="How many adaptive questions, such as 1e6.")],
    rows: Annotated[float | None, typer.Option(help="Private rows at hand; left out: how many are needed.")] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Precision wanted, on the share scale; left out: what is reached.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all intervals hold together.")] = 0.95,
    density: Annotated[float, typer.Option(help="How dense the population is in the prior.")] = 0.5,
    surprises: Annotated[int, typer.Option(help="How many surprises to expect.")] = 20,
) -> None:
    """What everhold and its rivals guarantee for your numbers, side by side.

    Example:

        everhold plan --rows 100000 --half-width 0.05 --rounds 1e6
    """
    found = eh.plan(
        rounds=rounds, rows=rows, half_width=half_width, confidence=confidence, density=density, surprises=surprises
    )
    say(str(found))


@guarded
def schema(
    reference: Annotated[str, typer.Argument(help="Public rows: CSV or Parquet.")],
    out: Annotated[Path | None, typer.Option(help="Where to save it; printed if left out.")] = None,
) -> None:
    """Propose what the columns are, from public rows alone. Look it over, edit it, and create the study with it.

    Example:

        everhold schema last_year.csv --out study.toml
    """
    proposed = eh.Schema.propose(reference)
    if out is None:
        typer.echo(proposed.to_toml(), nl=False)
        return
    if out.exists():
        raise eh.SettingError(f"{out} exists already. Expected a new name, so that no edited schema is lost.")
    proposed.save(out)
    say(f"Wrote {out}\n{proposed!r}")


def demo(out: Annotated[Path, typer.Option(help="The figure.")] = Path("out/demo.png")) -> None:
    """See it work: a plain holdout fooled, everhold not, then a replay without the data."""
    from everhold.cli.demo import main

    main(["--out", str(out)])


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (plan, schema, demo):
        app.command()(command)
