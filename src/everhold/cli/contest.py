"""`everhold contest create / submit / board / duel / finish` and `everhold score`: predictions in, intervals out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import everhold as eh
from everhold.cli.app import guarded, note, problem, say, warn
from everhold.cli.asking import AsJson, ServerAt, TokenIs
from everhold.cli.studies import privacy_promise
from everhold.contest.board import Board, Submission
from everhold.contest.board_html import board_html
from everhold.contest.contest import Contest

if TYPE_CHECKING:
    from everhold.client.sync import RemoteContest
    from everhold.contest.ranking_preview import RankingPreview

__all__ = ["register"]

ContestPath = Annotated[Path, typer.Argument(help="The contest's study, contest.everhold by custom.")]
REFUSED = {"malformed": 3, "too large": 3, "too soon": 8, "closed": 6}

contest = typer.Typer(
    no_args_is_help=True, help="Run a contest: public features, hidden labels, a board that does not wear out."
)


def _labels(path: Path, id_column: str, label_column: str) -> dict[str, tuple[int, str]]:
    """Of each id the line and the label. The file is the organiser's own, so a fault is named with its line."""
    if not path.is_file():
        raise eh.DataError(f"there is no file {path}. Expected the hidden labels as CSV. Nothing was created.")
    found: dict[str, tuple[int, str]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        head = rows.fieldnames = [name.strip() for name in rows.fieldnames or []]
        for column in (id_column, label_column):
            if column not in head:
                raise eh.DataError(
                    f"{path} has no column {column!r}. It has: {', '.join(head) or 'no columns at all'}. Expected "
                    f"{id_column},{label_column}, or other names in --id-column and --label-column."
                )
        for row in rows:
            row_id, label, line = row[id_column], row[label_column], rows.line_num
            if row_id is None or label is None or not label.strip():
                raise eh.DataError(f"{path}, line {line}: there is no label. Expected an id and a label in every line.")
            if row_id in found:
                raise eh.DataError(
                    f"{path}, line {line}: the id {row_id!r} is there twice, first in line {found[row_id][0]}. Expected "
                    "each id once."
                )
            found[row_id] = line, label.strip()
    return found


def _checked_classes(path: Path, given: str | None, found: dict[str, tuple[int, str]]) -> list[str]:
    """The possible labels, which hold every one in the file."""
    if given is None:
        raise eh.SettingError(
            "the possible labels are missing. Expected --classes a,b,c with every label that can occur: they are public."
        )
    classes = [name.strip() for name in given.split(",")]
    if len(classes) < 2:
        raise eh.SettingError(
            f"--classes names one label only, {given!r}. Expected at least two, with commas: --classes a,b."
        )
    if twice := sorted({name for name in classes if classes.count(name) > 1}):
        raise eh.SettingError(f"--classes names {twice[0]!r} twice. Expected every possible label once.")
    for line, label in found.values():
        if label not in classes:
            raise eh.DataError(
                f"{path}, line {line}: the label {label!r} is not in --classes {given}. Expected every label that can occur "
                "there, as the file spells it."
            )
    return classes


def _checked_numbers(
    path: Path, low: float | None, high: float | None, found: dict[str, tuple[int, str]], metric: str
) -> list[float]:
    """Labels as numbers in the range that was given."""
    if low is None or high is None:
        raise eh.SettingError(
            f"the range of the labels is missing. Expected --low and --high for {metric}: the smallest and the largest "
            "label that there can be. They are public."
        )
    values = []
    for line, label in found.values():
        try:
            values.append(float(label))
        except ValueError:
            raise eh.DataError(
                f"{path}, line {line}: the label {label!r} is not a number, and {metric} needs numbers."
            ) from None
        if not low <= values[-1] <= high:
            raise eh.DataError(
                f"{path}, line {line}: the label {label} lies outside --low {low:g} and --high {high:g}. Expected a range "
                "that holds every label."
            )
    return values


@contest.command("create")
@guarded
def create(
    study: ContestPath,
    labels: Annotated[Path, typer.Option(help="The hidden labels: CSV with an id and a label.")],
    title: Annotated[str, typer.Option(help="What the contest is called.")] = "A contest",
    metric: Annotated[str, typer.Option(help="accuracy, error, mean_absolute_error or mean_squared_error.")] = "accuracy",
    classes: Annotated[str | None, typer.Option(help="The possible labels, with commas between; public.")] = None,
    low: Annotated[float | None, typer.Option(help="Regression: the smallest label there can be.")] = None,
    high: Annotated[float | None, typer.Option(help="Regression: the largest.")] = None,
    id_column: Annotated[str, typer.Option(help="Of the labels and of submissions.")] = "id",
    label_column: Annotated[str, typer.Option(help="Of the labels.")] = "label",
    prediction_column: Annotated[str, typer.Option(help="Of submissions.")] = "prediction",
    max_per_day: Annotated[int | None, typer.Option(help="Submissions of one entrant within 24 hours.")] = None,
    most_bytes: Annotated[int, typer.Option(help="Size of a submission.")] = 20_000_000,
    ladder: Annotated[bool, typer.Option(help="Tell entrants only what is clearly better than their best.")] = False,
    confidence: Annotated[float, typer.Option(help="Probability that all intervals are valid at the same time.")] = 0.95,
    half_width: Annotated[float | None, typer.Option(help="Promise this precision, and close when it is used up.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the coins; drawn when left out.")] = None,
    sealed: Annotated[
        float | None,
        typer.Option(help="The part of the rows that only `contest finish` uses; a half if left out, 0 with --epsilon."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Promise privacy: ε for each label, over everything ever disclosed.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ of that promise, far below 1/rows; 1e-9 if left out.")] = None,
    surprises: Annotated[int | None, typer.Option(help="How many surprises the budget pays for; 20 if left out.")] = None,
    no_register: Annotated[
        bool, typer.Option("--no-register", help="Do not look these labels up among private contests, nor enter them.")
    ] = False,
) -> None:
    """Start a contest.

    Example:

        everhold contest create digits.everhold --labels hidden.csv --classes 0,1,2,3,4,5,6,7,8,9
    """
    found = _labels(labels, id_column, label_column)
    ids = list(found)
    regression = metric in ("mean_absolute_error", "mean_squared_error")
    settings: dict[str, Any] = {"low": low, "high": high} if regression else {}
    if regression:
        values: list[Any] = list(_checked_numbers(labels, low, high, found, metric))
    else:
        settings["classes"] = _checked_classes(labels, classes, found)
        values = [label for _, label in found.values()]
    created = Contest.create(
        study,
        values,
        ids=ids,
        title=title,
        metric=metric,
        task="regression" if regression else "classification",
        id_column=id_column,
        prediction_column=prediction_column,
        max_per_day=max_per_day,
        most_bytes=most_bytes,
        ladder=ladder,
        confidence=confidence,
        half_width=half_width,
        seed=seed,
        sealed=sealed,
        privacy=privacy_promise(epsilon, delta, surprises),
        register=not no_register,
        **settings,
    )
    say(f"Created {study}: {created.rules.title}, {len(ids):,} rows, scored by {created.rules.metric}.")
    spent = "" if epsilon is None else f", {study}.spent"
    say(f"Keep {labels}, {study}.labels{spent} and {study}.key to yourself; show the study itself after the contest.")
    if half_width is None:
        say(created.outlook.text)
        if created.outlook.warning:
            warn(created.outlook.warning)
    say(f"Next: everhold contest submit {study} predictions.csv --entrant NAME")


def _submitted(
    study: Path, predictions: Path, entrant: str | None, as_json: bool, server: str | None, token: str | None
) -> None:
    if server is not None:
        if entrant is not None:
            raise eh.SettingError(
                "--entrant cannot be given with --server: there the entrant is the name that the token was made for. Leave "
                "--entrant out."
            )
        with eh.connect(server, token) as connected:
            submission = connected.contest(str(study)).submit(predictions)
    elif entrant is None:
        raise eh.SettingError("the entrant is missing. Expected --entrant NAME, or --server for a contest behind a server.")
    else:
        submission = Contest(study).submit(entrant, predictions)
    if as_json:
        typer.echo(json.dumps(_flat(submission)))
    elif submission.state in REFUSED:
        problem(f"{submission.state}: {submission.reason} Nothing was charged.")
    else:
        say(str(submission))
    if submission.state in REFUSED:
        raise typer.Exit(REFUSED[submission.state])


def _flat(submission: Submission) -> dict[str, Any]:
    """One level of names, for programs that tune themselves."""
    shown = submission.to_dict()
    score = shown.pop("score")
    if score is None:
        return shown
    names = ("low", "high", "round", "surprise", "price", "metric", "bottom", "top")
    return {**shown, "score": score["value"], **{name: score[name] for name in names}}


@contest.command("submit")
@guarded
def submit(
    study: ContestPath,
    predictions: Annotated[Path, typer.Argument(help="CSV with an id and a prediction for every row.")],
    entrant: Annotated[str | None, typer.Option(help="Who sends it; behind a server, whom the token is for.")] = None,
    as_json: AsJson = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """Score a submission, or say at once what is wrong with it.

    Example:

        everhold contest submit digits.everhold mine.csv --entrant ann
    """
    _submitted(study, predictions, entrant, as_json, server, token)


@contest.command("board")
@guarded
def board(
    study: ContestPath,
    out: Annotated[Path | None, typer.Option(help="Write the board as a page.")] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the lines as CSV.")] = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """Where everybody stands, with the ranks that are possible for each. Needs neither labels nor key.

    Examples:

        everhold contest board digits.everhold --out board.html

        everhold contest board digits --server https://data.example.org
    """
    if out is not None:
        if server is not None:
            raise eh.SettingError(
                "--out writes the page of a contest in a file. Behind a server the contest's page shows the board: "
                f"{server}/contests/{study}. Leave --out out."
            )
        out.write_text(board_html(Contest(study).board()), encoding="utf-8")
        say(f"Wrote {out}")
        return
    if server is None:
        standings = Contest(study).board()
    else:
        with eh.connect(server, token) as connected:
            standings = connected.contest(str(study)).board()
    if as_csv:
        typer.echo(standings.to_csv(), nl=False)
    elif as_json:
        shown = standings.to_dict()
        places = [{key: value for key, value in place.items() if key != "when"} for place in shown["places"]]
        typer.echo(json.dumps({**{name: shown[name] for name in ("title", "unranked", "head", "final")}, "places": places}))
    else:
        say(str(standings))


OnlyPreview = Annotated[bool, typer.Option("--preview", help="Only say what it would do and cost: nothing is recorded.")]


def _say_ranks(result: RankingPreview | Board, as_json: bool) -> None:
    """A preview, or a final board."""
    if as_json:
        return typer.echo(json.dumps(result.to_dict()))
    return say(str(result))


@contest.command("duel")
@guarded
def duel(
    study: ContestPath,
    first: Annotated[str, typer.Argument(help="An entrant; who is first must not be chosen by the hidden labels.")],
    second: Annotated[str, typer.Argument(help="Another entrant.")],
    preview: OnlyPreview = False,
    as_json: AsJson = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """Certify that one entrant is better than another, by the rows on which they differ. It widens later intervals a little.

    Only for a contest without sealed rows (--sealed 0); `contest finish` compares everybody.

    Example:

        everhold contest duel digits.everhold ann bob
    """
    with _opened(study, server, token) as where:
        result = where.preview(first, second) if preview else where.duel(first, second)
    if not isinstance(result, bool):
        _say_ranks(result, as_json)
    elif as_json:
        typer.echo(json.dumps({"first": first, "second": second, "better": result}))
    else:
        say(f"{first} is certified better than {second}." if result else "Cannot tell: the rows do not show it.")


@contest.command("finish")
@guarded
def finish(
    study: ContestPath,
    preview: OnlyPreview = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: I know that nothing can be submitted afterwards.")] = False,
    as_json: AsJson = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """End a contest: duels of all entrants at once, final ranks and scores. Nothing can be submitted afterwards.

    Example:

        everhold contest finish digits.everhold --preview

        everhold contest finish digits.everhold --yes
    """
    with _opened(study, server, token) as where:
        if preview:
            return _say_ranks(where.preview(), as_json)
        if not yes:
            _ask_first(where)
        return _say_ranks(where.finish(), as_json)


def _ask_first(where: Contest | RemoteContest) -> None:
    """Whether to end a contest for good. One that has ended already is only shown again."""
    try:
        said = where.preview().text
    except eh.HoldoutClosed:
        return
    note(said)
    try:
        if typer.confirm("End the contest for good?", err=True):
            return
    except typer.Abort:
        pass
    raise eh.SettingError("the contest goes on: nobody said yes. Answer with y, or add --yes in a script. Nothing was done.")


@contextmanager
def _opened(study: Path, server: str | None, token: str | None) -> Iterator[Contest | RemoteContest]:
    """A contest in a file, or behind a server."""
    if server is None:
        yield Contest(study)
        return
    with eh.connect(server, token) as connected:
        yield connected.contest(str(study))


@guarded
def score(
    predictions: Annotated[Path, typer.Argument(help="CSV with an id and a prediction for every row.")],
    study: Annotated[Path, typer.Option(help="A contest's study, made with `everhold contest create`.")],
    who: Annotated[str | None, typer.Option(help="Who asks, for the record; 'agent' if left out.")] = None,
    as_json: AsJson = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """A drop-in evaluator for a program that tunes itself: predictions in, an honest score out.

    Prints one JSON object with --json: score, low, high, round, surprise, price. Exit codes: 0 scored, 3 the file is
    wrong (row and column are named, nothing is charged), 6 a promised precision is used up, 8 too many today.

    Example:

        everhold score --study test.everhold predictions.csv --json

        everhold score --study test predictions.csv --server https://data.example.org
    """
    _submitted(study, predictions, who or ("agent" if server is None else None), as_json, server, token)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(contest, name="contest")
    app.command()(score)
