"""`everhold backup`: a copy of a study with all that belongs to it, made while others ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.app import guarded, say
from everhold.cli.asking import AsJson, Study
from everhold.ledger.backup import back_up

__all__ = ["register"]


@guarded
def backup(
    study: Study,
    to: Annotated[Path, typer.Option(help="A folder for the copy; one that holds no copy of this study yet.")],
    as_json: AsJson = False,
) -> None:
    """Copy a study, its key, what else belongs to it, and the registry of studies, also while a server answers.

    The copy holds secrets: keep it as you keep the rows. Note the head that is printed: after restoring, `--expect-head`
    refuses a copy that does not contain it.

    Example:

        everhold backup patients.everhold --to backups/monday
    """
    head, copies = back_up(study, to)
    if as_json:
        typer.echo(json.dumps({"head": str(head), "files": [str(one) for one in copies]}))
        return
    say(f"Copied to {to}: {', '.join(str(one.relative_to(to)) for one in copies)}")
    say(f"Head: {head}")
    say("The private rows are not in it unless they lie beside the study: back them up yourself.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(backup)
