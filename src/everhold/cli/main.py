"""The command line: `everhold --help`. A command is loaded when it is used, so that help comes at once."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

from everhold.errors import MissingExtra
from everhold.version import VERSION

if find_spec("rich") is None or find_spec("typer") is None:
    raise MissingExtra("the command line", "cli")

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["COMMANDS", "app", "loaded", "main"]

COMMANDS: dict[str, tuple[str, str]] = {
    "create": ("studies", "Create a study."),
    "ask": ("asking", "Ask a study one question, several, or a file of them."),
    "read": ("acts", "Read a question or a statistic: the private rows' own value, with a narrow interval."),
    "read-many": ("acts", "Read several questions and statistics at one price."),
    "best-of": ("acts", "Find which of several is largest on the private rows, and nothing else."),
    "is-better": ("acts", "Find whether one is larger than another on the private rows: one bit. `compare` certifies."),
    "compare": ("acts", "Certify which of two is larger in the population: yes, no, or cannot tell."),
    "certify": ("acts", "Narrow the interval of an earlier answer. It discloses nothing new."),
    "close": (
        "acts",
        "The last act: read any number of questions and statistics, and never read the private rows again.",
    ),
    "try": (
        "asking",
        "Try questions on the public side alone: what ask and what read would show, and what each costs. Nothing is spent.",
    ),
    "shell": ("asking", "A prompt with history and completion of columns."),
    "status": ("records", "Where a study stands. Works beside a process that asks."),
    "log": ("records", "What was asked and answered, as it was asked."),
    "audit": ("records", "Check a study without the private rows: every byte, every hash, every answer again."),
    "certificate": ("records", "Audit a study and write its certificate: a page for readers, and JSON for programs."),
    "verify": ("records", "Check a signed certificate, without the private rows and without a server."),
    "signing-key": ("records", "Make a key that signs certificates."),
    "plot": ("records", "Draw the session: answers with intervals over rounds, surprises, the price."),
    "score": ("contest", "A drop-in evaluator for a program that tunes itself: predictions in, an honest score out."),
    "price": ("price", "What a reported score is worth after many looks at the same rows, next to a single look."),
    "plan": (
        "planning",
        "What everhold's acts and other mechanisms give for your numbers, or what a gate can certify.",
    ),
    "schema": ("planning", "Propose a schema from public rows alone. Check it, edit it, and create the study with it."),
    "examine": (
        "planning",
        "Count the private rows that do not fit a schema. For you alone: these counts are not protected.",
    ),
    "demo": ("planning", "Run the demo: a plain holdout overfits, everhold does not; then a replay without the data."),
    "risk": (
        "risk",
        "Test whether questions alone can single out a row, or tell whether it is there: attacks on a copy of the study.",
    ),
    "backup": (
        "backup",
        "Copy a study, its key, what else belongs to it, and the registry of studies, also while a server answers.",
    ),
    "serve": ("serve", "Serve studies over HTTP: an API, a page for people, and nothing without a token."),
    "mcp": (
        "mcp",
        "Serve a study to an agent over stdio (Model Context Protocol): tools to ask, try, read, compare …",
    ),
    "contest": ("contest", "Run a contest: public features, hidden labels, a board that does not wear out."),
    "gate": (
        "gate",
        "A gate for programs that improve themselves: is the candidate better than the incumbent? One bit a candidate.",
    ),
    "token": ("token", "Tokens for analysts, auditors and custodians who ask from elsewhere."),
}
"""Every command: the module that has it, and its first line of help."""


class _Commands(TyperGroup):
    """Commands by their names; each is imported when it is run or asked for help."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What a list of commands shows of one."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, to be run."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name in COMMANDS else command, rest


def loaded(name: str) -> Any:
    """A command, imported."""
    app = typer.Typer(rich_markup_mode=None)
    app.callback()(lambda: None)
    import_module(f"everhold.cli.{COMMANDS[name][0]}").register(app)
    group: Any = typer.main.get_command(app)
    return group.commands[name]


app = typer.Typer(
    cls=_Commands,
    name="everhold",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 done; 1 of `gate check`: the incumbent stays; 2 wrong use of the command; 3 invalid question (not "
    "charged); 4 invalid data, prior or settings; 5 the study cannot be read, written or locked; 6 a promised "
    "precision or a gate is used up; 7 an audit failed, or a signature is wrong; 8 too many submissions today; 9 a "
    "server cannot be reached, or does not allow it; 10 of `gate check`: the candidate waits for its generation; 11: "
    "another one of its generation was promoted; 70 an unforeseen error.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"everhold {VERSION}")
        raise typer.Exit


_VERSION_OPTION = typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")


@app.callback()
def everhold(version: Annotated[bool, _VERSION_OPTION] = False) -> None:
    """A holdout set that does not wear out: ask unlimited questions of private data, with simultaneously valid intervals.

    A first study:

        everhold create study.everhold --data patients.csv --prior last_year.csv

        everhold ask study.everhold "age > 40 AND smoker"

        everhold audit study.everhold
    """


def main() -> None:
    """The entry point."""
    app(prog_name="everhold")


if __name__ == "__main__":
    main()
