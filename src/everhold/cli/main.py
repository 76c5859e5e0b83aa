"""The command line: `everhold --help`."""

from __future__ import annotations

from importlib.util import find_spec

from everhold.errors import MissingExtra

if find_spec("rich") is None or find_spec("typer") is None:
    raise MissingExtra("the command line", "cli")

from everhold.cli import asking, contest, mcp, planning, records, risk, serve, studies, token
from everhold.cli.app import app

__all__ = ["main"]

for _room in (studies, asking, records, contest, planning, risk, token, serve, mcp):
    _room.register(app)


def main() -> None:
    """The entry point."""
    app(prog_name="everhold")


if __name__ == "__main__":
    main()
