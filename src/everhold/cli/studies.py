"""`everhold create`: a durable study from a private table and a public prior."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import everhold as eh
from everhold.cli.app import console, guarded, say

__all__ = ["register"]


@guarded
def create(
    study: Annotated[Path, typer.Argument(help="File for the new study, such as study.everhold.")],
    data: Annotated[
        str,
        typer.Option(
            help="The private rows: CSV or Parquet, also a pattern such as '2024-*.parquet'; or the URL of a table, such as "
            "'postgresql://reader@host/database?table=schema.table'."
        ),
    ],
    prior: Annotated[
        str | None, typer.Option(help="Public rows with the same columns: last year's, synthetic, a sample.")
    ] = None,
    split: Annotated[float | None, typer.Option(help="Instead of a prior: make this share of the rows public.")] = None,
    schema: Annotated[Path | None, typer.Option(help="The declared columns, see `everhold schema`.")] = None,
    unit: Annotated[str | None, typer.Option(help="The column that says which rows belong to one person.")] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all intervals are simultaneously valid.")] = 0.95,
    half_width: Annotated[
        float | None, typer.Option(help="Promise this half-width, and refuse when it is no longer possible.")
    ] = None,
    rule: Annotated[str, typer.Option(help="corrective, gradient or entropic.")] = "corrective",
    known_rows: Annotated[int, typer.Option(help="How many private rows the analyst may know.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Seed of the coins; random if left out.")] = None,
    engine: Annotated[str, typer.Option(help="memory, duckdb (Parquet in place) or auto.")] = "auto",
    rounds: Annotated[int | None, typer.Option(help="How many asks are planned; their intervals are then narrower.")] = None,
    overlap: Annotated[
        str, typer.Option(help="refuse public rows that are also private, or allow them (this is recorded).")
    ] = "refuse",
) -> None:
    """Create a study.

    Examples:

        everhold create study.everhold --data patients.csv --prior last_year.csv

        everhold create study.everhold --data visits.parquet --split 0.5 --unit patient_id
    """
    if (prior is None) == (split is None):
        found = "neither was given" if prior is None else "both were given"
        raise eh.PriorError(
            f"a study needs public rows, from --prior FILE or from --split 0.5, but {found}. Pass one of them."
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
        "rounds": rounds,
    }
    with console.status("Reading the rows …"):
        given = eh.Reference(prior) if prior is not None else eh.Split(split if split is not None else 0.5)
        holdout = eh.Holdout.create(study, data, prior=given, **settings)
    draws = "rows" if unit is None else "units"
    say(f"Created {study}: {holdout.size:,} private {draws}, {holdout.schema!r}")
    say(f"Keep {study}.key secret. The study file itself contains no private row.")
    say(f"Head: {holdout.head}")
    say(holdout.outlook())
    say(f'Next: everhold ask {study} "…"')
    holdout.release()


def register(app: typer.Typer) -> None:
    """Add `create` to the app."""
    app.command()(create)
