"""The command line: `everhold --help`."""

from __future__ import annotations

from everhold.errors import MissingExtra

try:
    import rich  # noqa: F401
    import typer  # noqa: F401
except ImportError:
    raise MissingExtra("the command line", "cli") from None

from everhold.cli import asking, contest, mcp, planning, reading, risk, serve, studies, token
from everhold.cli.app import app

__all__ = ["main"]

for _room in (studies, asking, reading, contest, planning, risk, token, serve, mcp):
    _room.register(app)


def main() -> None:
    """The entry point."""
    app(prog_name="everhold")


if __name__ == "__main__":
    main()
