"""A disk that forgets what was not synced.

Programs read and write real files, in memory; this is what the machine's cache shows them. Beside that it is known what the
platter has for certain: the content of every file at its last sync, and the names of every folder at its last sync. A kill
leaves the cache. A power cut leaves the platter and, by the seed, any part of what was not synced: sectors in any
combination, and changes of names up to some moment, or any of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512
TICK = 4_000_000  # nanoseconds between two times of change that a file can have


@dataclass(eq=False)
class Inode:
    """A file or a folder.

    Attributes:
        synced: its content at the last sync; None: a folder.
        gone: its content when its last name was removed.
    """

    synced: bytes | None = b""
    gone: bytes | None = None


@dataclass
class Change:
    """A change of names in a folder that is not synced yet: a name and its file, None for a name that was removed."""

    folder: str
    names: list[tuple[str, Inode | None]] = field(default_factory=list)


class Disk:
    """The files below a folder, and what a power cut would leave of them.

    Args:
        root: the folder.
        now: seconds, for times of change.
    """

    def __init__(self, root: Path, now: Callable[[], float]) -> None:
        self.root, self._now = root, now
        self._prefix = str(root) + "/"
        self.names: dict[str, Inode] = {}
        self.platter: dict[str, Inode] = {}
        self.pending: list[Change] = []
        self.version = 0
        """Rises whenever the platter changes."""
        for place in sorted(root.rglob("*")):
            name = str(place.relative_to(root))
            self.names[name] = Inode(None if place.is_dir() else place.read_bytes())
        self.platter = dict(self.names)

    def name_of(self, path: object) -> str | None:
        """The name below the root; None for what is elsewhere."""
        if isinstance(path, int):
            return None
        text = os.fspath(path)
        if isinstance(text, bytes):
            text = os.fsdecode(text)
        if text.startswith(self._prefix):
            return text[len(self._prefix) :]
        return "." if text == self._prefix[:-1] else None

    # what programs do ------------------------------------------------------------------------------------------------

    def touched(self, name: str) -> None:
        """A file was written: its time of change is the simulated one, on a coarse grid as real ones are."""
        ticks = int(self._now() * 1e9) // TICK * TICK
        os.utime(self.root / name, ns=(ticks, ticks))

    def created(self, name: str, *, folder: bool = False) -> None:
        """A new name."""
        self._change(name, (name, Inode(None if folder else b"")))

    def linked(self, source: str, name: str) -> None:
        """A second name."""
        self._change(name, (name, self.names[source]))

    def removed(self, name: str, content: bytes | None) -> None:
        """A name is gone; `content`: of its file then."""
        inode = self.names[name]
        inode.gone = content
        self._change(name, (name, None))

    def renamed(self, source: str, name: str, replaced: bytes | None) -> None:
        """A name was changed, and a file of that name replaced, whose content this is."""
        inode = self.names[source]
        if name in self.names:
            self.names[name].gone = replaced
        self._change(name, (source, None), (name, inode))

    def _change(self, name: str, *names: tuple[str, Inode | None]) -> None:
        self.pending.append(Change(_folder(name), list(names)))
        _apply(self.names, self.pending[-1])

    def synced(self, inode: Inode, content: bytes) -> None:
        """A file was synced."""
        if inode.synced != content:
            inode.synced = content
            self.version += 1

    def synced_folder(self, folder: str) -> None:
        """The names in a folder were synced."""
        for change in self.pending:
            if change.folder == folder:
                _apply(self.platter, change)
                self.version += 1
        self.pending = [change for change in self.pending if change.folder != folder]

    # what remains ----------------------------------------------------------------------------------------------------

    def certain(self) -> dict[str, bytes | None]:
        """What any power cut leaves, if nothing else is left."""
        return {name: inode.synced for name, inode in self.platter.items() if _reachable(name, self.platter)}

    def cut_power(self, coins: random.Random) -> None:
        """Leave what is certain, and a part of the rest."""
        names = dict(self.platter)
        if coins.random() < 0.6:
            kept = self.pending[: coins.randint(0, len(self.pending))]
        else:
            kept = [change for change in self.pending if coins.random() < 0.5]
        for change in kept:
            _apply(names, change)
        names = {name: inode for name, inode in names.items() if _reachable(name, names)}
        cached = {inode: name for name, inode in self.names.items()}
        contents: dict[str, bytes | None] = {}
        for name, inode in names.items():
            if inode.synced is None:
                contents[name] = None
                continue
            cache = (self.root / cached[inode]).read_bytes() if inode in cached else inode.gone
            contents[name] = _torn(inode.synced, inode.synced if cache is None else cache, coins)
        self.write_all(self.root, contents)
        self.names = {name: Inode(content) for name, content in contents.items()}
        self.platter, self.pending = dict(self.names), []
        self.version += 1
        for name, content in contents.items():
            if content is not None:
                self.touched(name)

    @staticmethod
    def write_all(root: Path, contents: dict[str, bytes | None]) -> None:
        """Make a folder that has these files and no others."""
        for place in sorted(root.rglob("*"), reverse=True):
            if place.is_dir():
                _rmdir(place)
            else:
                _unlink(place)
        for name, content in sorted(contents.items()):
            if content is None:
                _mkdir(root / name)
            else:
                with (root / name).open("wb") as file:
                    file.write(content)


_rmdir, _unlink, _mkdir = os.rmdir, os.unlink, os.mkdir  # the real ones, whatever is simulated


def _folder(name: str) -> str:
    return name.rpartition("/")[0] or "."


def _reachable(name: str, names: dict[str, Inode]) -> bool:
    folder = _folder(name)
    return folder == "." or (folder in names and _reachable(folder, names))


def _apply(names: dict[str, Inode], change: Change) -> None:
    for name, inode in change.names:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


def _torn(old: bytes, new: bytes, coins: random.Random) -> bytes:
    """What is left of a change that was not synced."""
    if old == new:
        return old
    fate = coins.random()
    if fate < 0.25:
        return old
    if fate < 0.5:
        return new
    size = coins.choice((len(old), len(new), coins.randint(min(len(old), len(new)), max(len(old), len(new)))))
    found = bytearray(old[:size].ljust(size, b"\0"))
    for start in range(0, size, SECTOR):
        if coins.random() < 0.5:
            piece = new[start : min(start + SECTOR, size)]
            found[start : start + len(piece)] = piece
    return bytes(found)
