"""The record of a session in memory: rounds in order, nothing ever taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.ledger.events import Round

__all__ = ["Journal"]


class Journal:
    """Rounds, dense and rising. An answer that is not in it has not been given."""

    def __init__(self) -> None:
        self._rounds: list[Round] = []
        self._named: dict[str, Round] = {}

    def commit(self, round: Round) -> None:  # noqa: A002
        """Add the next round."""
        if round.number != len(self._rounds) + 1:
            raise ReplayError(f"round {round.number} cannot follow round {len(self._rounds)}.")
        self._rounds.append(round)
        if round.name is not None:
            self._named[round.name] = round

    def named(self, name: str | None) -> Round | None:
        """The round in which a question of that name was answered, if there is one."""
        return None if name is None else self._named.get(name)

    def transcript(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Z: for every surprise its round, its cell and the coefficients fitted then. All that the data ever said."""
        return {past.number: (past.cell, past.fit or ()) for past in self._rounds if past.cell is not None}

    def __repr__(self) -> str:
        surprises = sum(past.cell is not None for past in self._rounds)
        return f"Journal(rounds: {len(self._rounds):,}, surprises: {surprises:,})"

    def __len__(self) -> int:
        return len(self._rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self._rounds)

    def __getitem__(self, number: int) -> Round:
        """Round `number`, the first being 1."""
        if not 1 <= number <= len(self._rounds):
            raise IndexError(f"there are rounds 1 to {len(self._rounds)}, not {number}")
        return self._rounds[number - 1]
