"""`python -m everhold`, and the command `everhold`: the command line, or what to install for it."""

from __future__ import annotations

import sys

from everhold.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """The entry point."""
    try:
        from everhold.cli.main import main as run
    except MissingExtra as missing:
        sys.exit(f"error: {missing}")
    run()


if __name__ == "__main__":
    main()
