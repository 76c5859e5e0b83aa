"""A copy of a study with all that lies beside it, made while others ask: `docs/howto/backup.md` says what to do with it."""

from __future__ import annotations

from pathlib import Path

from everhold.errors import LedgerError
from everhold.ledger.first_record import FirstRecord
from everhold.ledger.guard import Guard
from everhold.ledger.key_file import KeyFile
from everhold.ledger.registry import Registry
from everhold.ledger.safe_files import sync_folder, write_atomic
from everhold.ledger.store import Head, Store

__all__ = ["back_up", "missing_beside"]


def back_up(study: Path, folder: Path) -> tuple[Head, list[Path]]:
    """Copy a study as it stands at one moment, what lies beside it, and the registry. Returns its head, and the copies.

    A private study's guard is copied before the study: a copy of the study then holds every charge that the copied guard
    knows of, whatever is asked meanwhile. The other files beside it only grow, and are copied last.

    Raises:
        LedgerError: there is no such study, its chain is damaged, or the folder holds a copy of it already.
    """
    if not study.is_file():
        raise LedgerError(f"there is no study {study}. Expected its file; a server's studies are on the server's machine.")
    if any(folder.glob(f"{study.name}*")):
        raise LedgerError(f"{folder} holds files of {study.name} already. Expected another folder: a backup replaces none.")
    try:
        _make_private(folder)
        copies = [_copy(Guard.path_of(study), folder)] if Guard.path_of(study).exists() else []
        store, content = Store.snapshot(study)
        try:
            for _ in store.records():  # each checked against the chain
                pass
            head = store.head
        finally:
            store.close()
        write_atomic(folder / study.name, content, private=True)
        copies.insert(0, folder / study.name)
        copies += [_copy(file, folder) for file in _beside(study)]
        registry = Registry()
        if registry.exists:
            _make_private(folder / "registry")
            copies += registry.copy_to(folder / "registry")
    except OSError as error:
        raise LedgerError(f"{study} could not be copied to {folder}: {error}. The study itself is unchanged.") from None
    return head, copies


def missing_beside(study: Path, content: FirstRecord) -> list[Path]:
    """Files that a study cannot be asked without, and that do not lie beside it: a copy of it is not whole."""
    needed = [KeyFile.path(study), *([] if content.privacy is None else [Guard.path_of(study)])]
    return [one for one in needed if not one.exists()]


def _beside(study: Path) -> list[Path]:
    """What belongs to a study, without its guard, its lock and SQLite's own files."""
    files = sorted(study.parent.glob(f"{study.name}.*"))
    return [file for file in files if file != Guard.path_of(study) and not file.name.endswith((".lock", ".new"))]


def _copy(source: Path, folder: Path) -> Path:
    """A file, or a folder of files, for the owner alone."""
    target = folder / source.name
    if source.is_dir():
        _make_private(target)
        for file in sorted(source.iterdir()):
            if not file.name.endswith((".lock", ".new")):
                _copy(file, target)
    else:
        write_atomic(target, source.read_bytes(), private=True)
    return target


def _make_private(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True)
        sync_folder(folder.parent)
