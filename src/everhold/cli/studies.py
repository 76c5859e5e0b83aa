"""`everhold create`: a durable study from a private table and a public prior."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import everhold as eh
from everhold.cli.app import console, guarded, say
from everhold.results import moment_text

__all__ = ["privacy_promise", "register"]


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
    epsilon: Annotated[
        float | None, typer.Option(help="Promise privacy: ε for each row, over everything ever disclosed. 1 is usual.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ of that promise, far below 1/rows; 1e-9 if left out.")] = None,
    surprises: Annotated[
        int | None, typer.Option(help="How many surprises the privacy budget pays for; 20 if left out.")
    ] = None,
    no_register: Annotated[
        bool, typer.Option("--no-register", help="Do not enter or look up these rows in the registry of studies.")
    ] = False,
    overlap: Annotated[
        str, typer.Option(help="refuse public rows that are also private, or allow them (this is recorded).")
    ] = "refuse",
) -> None:
    """Create a study.

    Examples:

        everhold create study.everhold --data patients.csv --prior last_year.csv

        everhold create study.everhold --data visits.parquet --split 0.5 --unit patient_id

        everhold create study.everhold --data patients.csv --prior last_year.csv --schema schema.toml --epsilon 1
    """
    promise = privacy_promise(epsilon, delta, surprises)
    if (prior is None) == (split is None):
        fault = "neither was given" if prior is None else "both were given"
        raise eh.PriorError(
            f"a study needs public rows, from --prior FILE or from --split 0.5, but {fault}. Pass one of them."
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
        holdout = eh.Holdout.create(study, data, prior=given, register=not no_register, privacy=promise, **settings)
    draws = "rows" if unit is None else "units"
    say(f"Created {study}: {holdout.size:,} private {draws}, {holdout.schema!r}")
    say(f"Keep {study}.key secret. The study file itself contains no private row.")
    if holdout.public.pool is not None:
        say(
            "It contains the public rows, with all of these columns: everybody who may check the study sees them. Leave out "
            "what must not be published (--schema)."
        )
    made = "" if schema is not None or prior is None else f"everhold schema {prior} --out schema.toml, then "
    say(
        "Values outside a declared range or list count as its end, or as none. To count them: "
        f"{made}everhold examine {data} --schema {schema or 'schema.toml'}"
    )
    if schema is None:
        for name, column in holdout.schema.items():
            if column.kind == "date" and column.high is not None:
                ends = moment_text(column.high)
                say(
                    f"{name}: later dates than {ends} count as {ends}, the last one of the public rows. If the private rows "
                    "are of a later time, declare the range in a schema (--schema)."
                )
    if promise is None:
        say("It is plain: it protects against overfitting, not single people, and cannot be made private later (--epsilon).")
    else:
        say(f"Keep {study}.spent beside it: it remembers what the privacy budget has paid for. An older copy is refused.")
        say(
            "Prior, schema and ranges are published as they are. The promise rests on your word that none of them was made "
            "from these rows."
        )
    say(f"Back it up with: everhold backup {study} --to FOLDER")
    say(f"Head: {holdout.head}")
    say(holdout.outlook())
    say(f'Next: everhold ask {study} "…"')
    holdout.release()


def privacy_promise(
    epsilon: float | None, delta: float | None, surprises: int | None, counted: str = "--surprises"
) -> eh.Privacy | None:
    """The privacy to promise; None where no epsilon was given. `counted`: the option that says how many are paid for."""
    if epsilon is None:
        if delta is not None or surprises is not None:
            raise eh.SettingError(f"--delta and {counted} belong to a privacy promise. Expected --epsilon too, such as 1.")
        return None
    usual = eh.Privacy()
    return eh.Privacy(epsilon, usual.delta if delta is None else delta, usual.surprises if surprises is None else surprises)


def register(app: typer.Typer) -> None:
    """Add `create` to the app."""
    app.command()(create)
