"""`everhold price`: what a reported score is worth after many looks at the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import everhold as eh
from everhold.cli.app import guarded, say
from everhold.cli.asking import AsJson
from everhold.report.search_log import SearchLog, read_search_log

__all__ = ["register"]


@guarded
def price(
    rows: Annotated[int | None, typer.Option(help="How many rows the score was measured on.")] = None,
    looks: Annotated[int | None, typer.Option(help="How many candidates were looked at on these rows.")] = None,
    kept: Annotated[int | None, typer.Option(help="How many of them were kept; any number if left out.")] = None,
    score: Annotated[float | None, typer.Option(help="What was reported: the share of right rows, or a mean.")] = None,
    log: Annotated[
        Path | None, typer.Option("--from", help="The log of a search (TSV, CSV or JSON lines) to count looks in.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="The log's column with the score.")] = None,
    status: Annotated[str | None, typer.Option(help="The log's column that says keep, discard or crash.")] = None,
    low: Annotated[float | None, typer.Option(help="For a mean of numbers: the least that one row's can be.")] = None,
    high: Annotated[float | None, typer.Option(help="For a mean of numbers: the most that one row's can be.")] = None,
    digits: Annotated[int | None, typer.Option(help="Digits after the decimal point of the scores that were shown.")] = None,
    confidence: Annotated[float, typer.Option(help="Of each interval.")] = 0.95,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="File for a picture: .png, .svg or .pdf.")] = None,
) -> None:
    """What a reported score is worth after many looks at the same rows, next to a single look.

    Examples:

        everhold price --rows 500 --looks 100 --kept 15 --score 0.83

        everhold price --rows 500 --from results.tsv --metric accuracy --plot price.png
    """
    if rows is None:
        raise eh.SettingError("--rows is missing. Expected how many rows the score was measured on.")
    search_log = None if log is None else read_search_log(log, metric=metric, status=status)
    if search_log is None and (metric is not None or status is not None):
        raise eh.SettingError("--metric and --status name columns of a log. Expected --from FILE with them.")
    if search_log is not None:
        looks, digits = looks if looks is not None else search_log.looks, digits if digits is not None else search_log.digits
        kept, score = kept if kept is not None else search_log.kept, score if score is not None else search_log.score
        _refuse_other_metrics(search_log, low)
    if looks is None or score is None:
        missing = "--looks" if looks is None else "--score"
        if log is not None:
            raise eh.SettingError(
                f"{log} does not say which score was reported: no column tells what was kept. Expected {missing}, or "
                "--status with the column that says it."
            )
        raise eh.SettingError(f"{missing} is missing. Expected it, or --from with a log that says it.")
    worth = eh.price(
        rows=rows, looks=looks, kept=kept, score=score, confidence=confidence, low=low, high=high, digits=digits
    )
    if plot is not None:
        from everhold.report.price_figure import draw_price

        draw_price(worth, plot)
    if as_json:
        typer.echo(
            json.dumps(worth.to_dict() | ({} if search_log is None else {"log": str(search_log)}), ensure_ascii=False)
        )
        return
    if search_log is not None:
        say(f"{log}: {search_log}\n")
    say(str(worth))
    if plot is not None:
        say(f"\nPicture: {plot}")


def _refuse_other_metrics(search_log: SearchLog, low: float | None) -> None:
    if low is None and not search_log.is_share:
        raise eh.SettingError(
            f"{search_log.metric!r} does not look like a share of right rows. Expected --low and --high with it, the least "
            "and the most that a single row's number can be, or --metric with the column of a share."
        )


def register(app: typer.Typer) -> None:
    """Add `price` to the app."""
    app.command()(price)
