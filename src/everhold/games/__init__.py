"""Games that try to break a mechanism: any analyst against any mechanism, in a world with known truth."""

from everhold.games import analysts, mechanisms, worlds
from everhold.games.play import ANALYSTS, MECHANISMS, AnalystView, Asked, Game, GameTerms, play
from everhold.games.registry import discover, load
from everhold.games.world import WORLDS, World, atoms_of

for _folder in (worlds, mechanisms, analysts):
    discover(_folder)

__all__ = [
    "ANALYSTS",
    "MECHANISMS",
    "WORLDS",
    "AnalystView",
    "Asked",
    "Game",
    "GameTerms",
    "World",
    "atoms_of",
    "load",
    "play",
]
