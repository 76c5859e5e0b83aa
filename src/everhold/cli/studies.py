"""`everhold create`: a durable study from a table and what is known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import everhold as eh
from everhold.cli.app import console, guarded, say

__all__ = ["register"]


@guarded
def create(
    study: Annotated[Path, typer.Argument(help="The new study, study.everhold by custom.")],
    data: Annotated[
        str, typer.Option(help="The private rows: CSV or Parquet, also a pattern such as '2024-*.parquet'.")
    ],
    prior: Annotated[
        str | None, typer.Option(help="Public rows of the same kind: last year's, synthetic, a sample.")
    ] = None,
    split: Annotated[float | None, typer.Option(help="Instead of a prior: make this share of the rows public.")] = None,
    schema: Annotated[Path | None, typer.Option(help="The declared columns, see `everhold schema`.")] = None,
    unit: Annotated[str | None, typer.Option(help="The column that tells which rows belong to one person.")] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all intervals hold together.")] = 0.95,
    half_width: Annotated[
        float | None, typer.Option(help="Promise this precision, and refuse when it is used up.")
    ] = None,
    rule: Annotated[str, typer.Option(help="corrective, gradient or entropic.")] = "corrective",
    known_rows: Annotated[int, typer.Option(help="How many private rows the analyst may know.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Of the coins; drawn when left out.")] = None,
    engine: Annotated[str, typer.Option(help="memory, duckdb (Parquet in place) or auto.")] = "auto",
    overlap: Annotated[
        str, typer.Option(help="refuse public rows that are private too, or allow them (the record says so).")
    ] = "refuse",
) -> None:
    """Create a study.

    Examples:

        everhold create study.everhold --data patients.csv --prior last_year.csv

        everhold create study.everhold --data visits.parquet --split 0.5 --unit patient_id
    """
    if (prior is None) == (split is None):
        came = "neither came" if prior is None else "both came"
        raise eh.PriorError(
            f"a study needs public rows, from --prior FILE or from --split 0.5, and {came}. Give one of them."
        )
    settings: dict[str, Any] = {
        "confidence": confidence,
        "half_width": half_width,
        "rule": rule,
        "known_rows": known_rows,
        "seed": seed,
        "schema": schema,
        "unit": unit,
        "engine": engine,
        "overlap": overlap,
    }
    with console.status("Reading the rows …"):
        given = eh.Reference(prior) if prior is not None else eh.Split(split if split is not None else 0.5)
        holdout = eh.Holdout.create(study, data, prior=given, **settings)
    draws = "rows" if unit is None else "units"
    say(f"Created {study}: {holdout.size:,} private {draws}, {holdout.schema!r}")
    say(f"Keep {study}.key to yourself; the study itself holds no private row.")
    say(f"Head: {holdout.head}")
    say(f'Next: everhold ask {study} "…"')
    holdout.close()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(create)
