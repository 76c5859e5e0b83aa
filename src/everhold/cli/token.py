"""`everhold token create / list / revoke`: who may ask from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from everhold.cli.app import console, guarded, printable, say
from everhold.cli.asking import AsJson
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
    secret, entry = Tokens(tokens).create(name, scope, studies=study or (), days=days)
    if as_json:
        typer.echo(json.dumps({"token": secret, "id": entry.id, "scope": entry.scope, "expires": entry.expires}))
        return
    typer.echo(secret)
    limits = ", ".join(entry.studies) or "all studies"
    say(f"For {entry.name}: {entry.scope}, {limits}, {'no end' if entry.expires is None else f'until {entry.expires}'}.")
    say(f"It will not be shown again. Revoke it with: everhold token revoke {entry.id}")


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
