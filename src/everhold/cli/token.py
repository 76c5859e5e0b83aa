"""`everhold token create / list / revoke`: who may ask from elsewhere."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from everhold.cli.app import console, guarded, printable, say, warn
from everhold.cli.asking import AsJson
from everhold.errors import EverholdError, did_you_mean
from everhold.server.config import Config
from everhold.server.tokens import Tokens

__all__ = ["register"]

token = typer.Typer(no_args_is_help=True, help="Tokens for analysts, auditors and custodians who ask from elsewhere.")
File = Annotated[Path, typer.Option("--tokens", help="The file of tokens.", envvar="EVERHOLD_TOKENS")]
_DEFAULT = Path("everhold.tokens.json")


@token.command("create")
@guarded
def create(
    name: Annotated[str, typer.Argument(help="Whom it is for.")],
    scope: Annotated[str, typer.Option(help="custodian, analyst or auditor.")] = "analyst",
    study: Annotated[list[str] | None, typer.Option(help="A study it is limited to; may be given again.")] = None,
    days: Annotated[float | None, typer.Option(help="How long it lasts; left out: until it is revoked.")] = None,
    tokens: File = _DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown this once; only its hash is kept.

    Example:

        everhold token create ann --scope analyst --study patients --days 90
    """
    for missing in study or ():
        _warn_of_unknown(missing, tokens)
    secret, entry = Tokens(tokens).create(name, scope, studies=study or (), days=days)
    if as_json:
        typer.echo(json.dumps({"token": secret, "id": entry.id, "scope": entry.scope, "expires": entry.expires}))
        return
    typer.echo(secret)
    limits = ", ".join(entry.studies) or "all studies"
    end = "without an end (--days 90 sets one)" if entry.expires is None else f"until {entry.expires}"
    say(f"For {entry.name}: {entry.scope}, {limits}, {end}.")
    say(f"It will not be shown again. Revoke it with: everhold token revoke {entry.id}")


def _warn_of_unknown(study: str, tokens: Path) -> None:
    """Say so where no study of that name is here: it may lie elsewhere, or be misspelt."""
    folders = {Path(), tokens.parent}
    known = {one.stem for folder in folders for one in folder.glob("*.everhold")}
    with suppress(EverholdError):
        config = os.environ.get("EVERHOLD_CONFIG")
        known |= {one.path.stem for one in Config.load(None if config is None else Path(config)).studies}
    if study not in known:
        where = " or ".join(sorted({str(folder.absolute()) for folder in folders}))
        said = f"there is no study {study!r} in {where}.{did_you_mean(study, known)} The token is made all the same."
        warn(said)


@token.command("list")
@guarded
def show(tokens: File = _DEFAULT, as_json: AsJson = False) -> None:
    """All tokens, live or not; never their secrets.

    Example:

        everhold token list
    """
    listed = Tokens(tokens).all()
    if as_json:
        typer.echo(json.dumps([entry.shown() for entry in listed]))
        return
    table = Table("id", "for", "scope", "studies", "created", "expires", "state", box=None)
    for entry in listed:
        name, limits = printable(entry.name), printable(", ".join(entry.studies) or "all")
        table.add_row(entry.id, name, entry.scope, limits, entry.created[:10], (entry.expires or "never")[:10], entry.state)
    console.print(table)


@token.command("revoke")
@guarded
def revoke(
    which: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as listed.")], tokens: File = _DEFAULT
) -> None:
    """Stop a token. It stops at once.

    Example:

        everhold token revoke 1f2e3d4c
    """
    stopped = Tokens(tokens).revoke(which)
    say(f"Revoked {stopped.id}, for {stopped.name}.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(token, name="token")
