"""`everhold mcp`: a study, a gate or both as tools for agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import everhold as eh
from everhold.cli.app import guarded
from everhold.cli.asking import Data, ExpectHead, ServerAt, TokenIs

__all__ = ["register"]


@guarded
def mcp(
    study: Annotated[Path, typer.Argument(help="A study's file, or a gate's; with --server, a study's name there.")],
    server: ServerAt = None,
    token: TokenIs = None,
    data: Data = None,
    allow_close: Annotated[
        bool, typer.Option("--allow-close", help="Also offer the last act, which ends the study for good.")
    ] = False,
    expect_head: ExpectHead = None,
    gate: Annotated[Path | None, typer.Option(help="Also offer this gate; with --server, its name there.")] = None,
) -> None:
    """Serve a study to an agent over stdio (Model Context Protocol): tools to ask, try, read, compare …

    While it runs on a file, nobody else can ask that file; behind a server many can.

    Examples:

        everhold mcp study.everhold

        everhold mcp patients --server https://data.example.org

        everhold mcp gate.everhold
    """
    from everhold.gate.files import beside
    from everhold.gate.gate import Gate
    from everhold.mcp import gate_tools, tools

    if server is None and beside(study, "gate.json").exists():
        gate_tools(Gate(study)).run("stdio")
        return
    if server is None and beside(study, "contest.json").exists():
        raise eh.SettingError(
            f"{study} is a contest, which takes submissions, not questions. An agent calls a command for each of them: "
            "everhold score --help says how."
        )
    if server is not None:
        with eh.connect(server, token) as connected:
            if _is_gate(connected, str(study)):
                gate_tools(connected.gate(str(study))).run("stdio")
                return
            remote_study = connected.study(str(study))
            remote_study.status()  # a wrong name or token is reported now
            far_gate = None if gate is None else connected.gate(str(gate))
            tools(remote_study, str(study), closing=allow_close, gate=far_gate).run("stdio")
        return
    with eh.Holdout.open(study, data=data, expect_head=expect_head) as holdout:
        holdout.who = "agent"
        tools(holdout, study.stem, closing=allow_close, gate=None if gate is None else Gate(gate)).run("stdio")


def _is_gate(server: eh.Server, name: str) -> bool:
    """Whether a gate of that name stands behind a server."""
    try:
        server.gate(name).status()
    except eh.EverholdError:
        return False
    return True


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mcp)
