"""`everhold serve`: private rows behind a server."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import everhold as eh
from everhold.cli.app import guarded, say
from everhold.cli.asking import ExpectHead
from everhold.server.tokens import Tokens

__all__ = ["register"]


@guarded
def serve(
    studies: Annotated[list[Path] | None, typer.Argument(help="Studies, or contests' studies.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with all settings; --example shows one.", envvar="EVERHOLD_CONFIG")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; 0.0.0.0 for every address.")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one.")] = None,
    tokens: Annotated[Path | None, typer.Option(help="The file of tokens.", envvar="EVERHOLD_TOKENS")] = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM: speak TLS.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="PEM: its key.")] = None,
    expect_head: ExpectHead = None,
    example: Annotated[bool, typer.Option("--example", help="Print a configuration to start from.")] = False,
) -> None:
    """Serve studies over HTTP: an API, a page for people, and nothing without a token.

    Examples:

        everhold token create me --scope custodian

        everhold serve patients.everhold --port 8080

        everhold serve --config everhold.toml

        everhold serve patients.everhold --expect-head 120:9f2c…
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None or find_spec("jinja2") is None:
        raise eh.MissingExtra("the server", "serve")
    from everhold.server.config import EXAMPLE, Config
    from everhold.server.run import run

    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    given: dict[str, Any] = {"host": host, "port": port, "tokens": tokens, "certificate": certificate}
    given["private_key"] = private_key
    settings = replace(Config.load(config), **{name: value for name, value in given.items() if value is not None})
    settings = settings.with_studies(studies or [], expect_head)

    def ready(url: str) -> None:
        say(f"Serving {', '.join(study.path.stem for study in settings.studies)} on {settings.public_url or url}")
        if not any(token.state == "live" for token in Tokens(settings.tokens).all()):
            say(f"No live token yet. Make one: everhold token create NAME --scope custodian --tokens {settings.tokens}")
        if not settings.secure and settings.host not in ("127.0.0.1", "::1", "localhost"):
            say("Tokens and answers travel in the clear: use --certificate and --private-key, or a proxy that speaks TLS.")
        say("Ctrl-C stops it. Every returned answer is recorded.")

    run(settings, say=say, ready=ready)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)
