"""What a section of the report is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.paper.run import Row, Task


@dataclass(frozen=True)
class Claim:
    """A sentence that the rows must bear out: it has a name that other pages link to."""

    name: str
    says: str
    measured: str
    kept: bool


@dataclass(frozen=True)
class Section:
    """One question, its tasks, and how its rows are shown.

    Attributes:
        name: of its files.
        title: what is asked.
        tasks: the work, less of it for `quick`.
        text: what the rows say, as Markdown, tables included.
        draw: a figure on matplotlib axes, or None.
        claims: what must hold.
    """

    name: str
    title: str
    tasks: Callable[[bool], list[Task]]
    text: Callable[[list[Row]], str]
    draw: Callable[[list[Row], Any], None] | None
    claims: Callable[[list[Row]], list[Claim]]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def game_row(game: Any, **more: Any) -> Row:
    """What is kept of a played game."""
    return {
        "analyst": game.analyst,
        "mechanism": game.mechanism,
        "world": game.world,
        "rows": game.rows,
        "answered": game.rounds,
        "largest_error": round(game.largest_error, 6),
        "half_width": round(game.half_width, 6),
        "missed": game.missed,
        "surprises": game.surprises,
        "price": round(game.price, 3),
        "refused": game.refused is not None,
        "seconds": round(game.seconds, 3),
        **more,
    }
