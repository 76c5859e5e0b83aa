"""`everhold backup`: a copy of a study with all that belongs to it, made while others ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.app import guarded, say, warn
from everhold.cli.asking import AsJson, Study
from everhold.ledger.backup import back_up, missing_beside
from everhold.ledger.reader import read_study
from everhold.ledger.store import Head

__all__ = ["register"]

INCOMPLETE = 5
"""The exit code where a file is missing beside the study: it cannot be asked from the copy."""


@guarded
def backup(
    study: Study,
    to: Annotated[Path, typer.Option(help="A folder for the copy; one that holds no copy of this study yet.")],
    as_json: AsJson = False,
) -> None:
    """Copy a study, its key, what else belongs to it, and the registry of studies, also while a server answers.

    The copy holds secrets: keep it as you keep the rows. Note the head that is printed: after restoring, `--expect-head`
    refuses a copy that does not contain it. If the key or `.spent` is missing beside the study, the copy is made, a warning
    says so, and the exit code is 5.

    Example:

        everhold backup patients.everhold --to backups/monday
    """
    head, copies = back_up(study, to)
    missing = missing_beside(study, read_study(study).first_record)
    if as_json:
        shown = {"head": str(head), "files": [str(one) for one in copies], "missing": [str(one) for one in missing]}
        typer.echo(json.dumps(shown))
    else:
        _say_copied(to, head, copies)
    for one in missing:
        warn(f"incomplete: {one} is missing. The copy can be read and audited, and nothing can be asked of it.")
    if missing:
        raise typer.Exit(INCOMPLETE)


def _say_copied(to: Path, head: Head, copies: list[Path]) -> None:
    say(f"Copied to {to}: {', '.join(str(one.relative_to(to)) for one in copies)}")
    say(f"Head: {head}")
    say("The private rows are not in it: back them up yourself.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(backup)
