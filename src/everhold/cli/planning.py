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
    rows: Annotated[float | None, typer.Option(help="Private rows; leave out to see how many are needed.")] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Precision, on the share scale; leave out to see what the rows allow.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all intervals are simultaneously valid.")] = 0.95,
    density: Annotated[float, typer.Option(help="How dense the population is in the prior.")] = 0.5,
    surprises: Annotated[int, typer.Option(help="How many surprises to expect.")] = 20,
    reference: Annotated[float | None, typer.Option(help="Public rows; as many as private ones if left out.")] = None,
    reads: Annotated[int, typer.Option(help="How many questions are to be read, with narrow intervals.")] = 1,
    candidates: Annotated[int, typer.Option(help="How many models or questions the best is chosen of.")] = 1,
    generations: Annotated[int, typer.Option(help="In how many adaptive steps it is chosen.")] = 1,
) -> None:
    """Compare what everhold's acts and other mechanisms give for your numbers.

    Examples:

        everhold plan --rows 100000 --half-width 0.05 --rounds 1e6

        everhold plan --rows 20000 --rounds 100 --reads 10 --candidates 1000 --generations 5
    """
    found = eh.plan(
        rounds=rounds,
        rows=rows,
        half_width=half_width,
        confidence=confidence,
        density=density,
        surprises=surprises,
        reference=reference,
        reads=reads,
        candidates=candidates,
        generations=generations,
    )
    say(str(found))


@guarded
def schema(
    reference: Annotated[str, typer.Argument(help="Public rows: CSV or Parquet.")],
    out: Annotated[Path | None, typer.Option(help="File to save the schema to; printed if left out.")] = None,
) -> None:
    """Propose a schema from public rows alone. Check it, edit it, and create the study with it.

    Example:

        everhold schema last_year.csv --out study.toml
    """
    proposed = eh.Schema.propose(reference)
    if out is None:
        typer.echo(proposed.to_toml(), nl=False)
        return
    if out.exists():
        raise eh.SettingError(f"{out} already exists. Expected a new file name, so that no edited schema is lost.")
    proposed.save(out)
    say(f"Wrote {out}\n{proposed!r}")


def demo(out: Annotated[Path, typer.Option(help="File for the figure.")] = Path("out/demo.png")) -> None:
    """Run the demo: a plain holdout overfits, everhold does not; then a replay without the data."""
    from everhold.cli.demo import main

    main(["--out", str(out)])


def register(app: typer.Typer) -> None:
    """Add `plan`, `schema` and `demo` to the app."""
    for command in (plan, schema, demo):
        app.command()(command)
