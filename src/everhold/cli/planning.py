"""`everhold plan`, `schema`, `examine` and `demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import everhold as eh
from everhold.cli.app import guarded, say

__all__ = ["register"]


_GATE = ("step", "looks", "changed", "generation_size", "better", "accuracy", "by")
_QUESTIONS = (
    "rounds",
    "half_width",
    "density",
    "surprises",
    "reference",
    "reads",
    "candidates",
    "generations",
    "score",
    "epsilon",
    "delta",
)


@guarded
def plan(
    context: typer.Context,
    rounds: Annotated[float | None, typer.Option(help="How many adaptive questions, such as 1e6.")] = None,
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
    score: Annotated[float, typer.Option(help="The share that answers are near, such as a model's accuracy.")] = 0.5,
    epsilon: Annotated[float | None, typer.Option(help="What a promise of privacy with this ε costs.")] = None,
    delta: Annotated[float, typer.Option(help="δ of that promise.")] = 1e-9,
    gate: Annotated[bool, typer.Option("--gate", help="Plan a gate: rows are its cases.")] = False,
    step: Annotated[float | None, typer.Option(help="Gate: how much better a candidate is; 0.03 are 3 points.")] = None,
    looks: Annotated[int | None, typer.Option(help="Gate: how many candidates are compared with the incumbent.")] = None,
    changed: Annotated[float | None, typer.Option(help="Gate: the share of the cases that a candidate changes.")] = None,
    generation_size: Annotated[int, typer.Option(help="Gate: how many candidates one check compares.")] = 50,
    better: Annotated[float, typer.Option(help="Gate: the share of the candidates that are better.")] = 0.2,
    accuracy: Annotated[float, typer.Option(help="Gate: the score of the first incumbent.")] = 0.5,
    by: Annotated[float, typer.Option(help="Gate: the margin that a promotion must exceed.")] = 0.0,
) -> None:
    """What everhold's acts and other mechanisms give for your numbers, or what a gate can certify.

    Examples:

        everhold plan --rows 100000 --half-width 0.05 --rounds 1e6

        everhold plan --rows 20000 --rounds 100 --reads 10 --candidates 1000 --generations 5

        everhold plan --rows 3000 --rounds 1 --candidates 32 --score 0.82

        everhold plan --rows 100000 --rounds 10000 --epsilon 1

        everhold plan --gate --rows 2000 --step 0.03 --looks 200
    """
    _refuse_mixed(context, gate)
    if gate:
        if rows is None or step is None or looks is None:
            raise eh.SettingError("A gate's plan needs --rows (the cases), --step and --looks.")
        if rows != int(rows):
            raise eh.SettingError(f"--rows is {rows!r}. Expected a whole number of cases.")
        more = {"changed": changed, "generation_size": generation_size, "better": better, "accuracy": accuracy, "by": by}
        say(str(eh.plan_gate(rows=int(rows), step=step, looks=looks, confidence=confidence, **more)))  # type: ignore[arg-type]
        return
    if rounds is None:
        raise typer.BadParameter("--rounds is missing. Expected how many adaptive questions, or --gate.")
    result = eh.plan(
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
        score=score,
        privacy=None if epsilon is None else eh.Privacy(epsilon, delta, surprises),
    )
    say(str(result))


def _refuse_mixed(context: typer.Context, gate: bool) -> None:
    """An option that the plan would ignore is an error."""
    for name in _QUESTIONS if gate else _GATE:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            reason = "belongs to a plan without --gate" if gate else "belongs to a gate's plan: add --gate"
            raise typer.BadParameter(f"--{name.replace('_', '-')} {reason}.")


@guarded
def schema(
    reference: Annotated[str, typer.Argument(help="Public rows: CSV or Parquet.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to save the schema to; printed if left out.")] = None,
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


@guarded
def examine(
    data: Annotated[str, typer.Argument(help="The private rows: CSV or Parquet, or the URL of a table.")],
    schema: Annotated[Path, typer.Option(help="The declared columns, see `everhold schema`.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Count the private rows that do not fit a schema. For you alone: these counts are not protected.

    Change the schema only for reasons that do not depend on these rows: a range that fits the private maximum gives it away.

    Example:

        everhold examine patients.csv --schema schema.toml
    """
    found = eh.examine(data, schema)
    if as_json:
        for row in found.to_rows():
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    say(repr(found))


def demo(out: Annotated[Path, typer.Option(help="File for the figure.")] = Path("out/demo.png")) -> None:
    """Run the demo: a plain holdout overfits, everhold does not; then a replay without the data."""
    from everhold.cli.demo import main

    main(["--out", str(out)])


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (plan, schema, examine, demo):
        app.command()(command)
