"""The guard of a private study: what it remembers, and which copies it refuses."""

from __future__ import annotations

import os

import pytest

from everhold.errors import LedgerError
from everhold.ledger.guard import Guard, kept_name
from everhold.ledger.store import Head

HEAD, LATER = Head(1, b"\x01" * 32), Head(9, b"\x02" * 32)


@pytest.fixture
def study(tmp_path):
    return tmp_path / "patients.everhold"


def test_it_remembers_what_was_settled_and_marked(study):
    guard = Guard.create(study, HEAD)
    assert (guard.charges, guard.marked, guard.head) == (0, False, HEAD)
    guard.mark("ann")
    again = Guard.open(study)
    assert (again.charges, again.marked, again.marked_by, again.head) == (0, True, "ann", HEAD)
    again.settle(1, LATER)
    guard.reload()
    assert (guard.charges, guard.marked, guard.marked_by, guard.head) == (1, False, None, LATER)


@pytest.mark.parametrize("who", ["ö" * 100, "x" * 200, "𝔸" * 100, "𝔸" * 200])
def test_long_names_fit_into_its_sector(study, who):
    """A token's name has up to 100 letters; of longer ones the beginning counts."""
    guard = Guard.create(study, HEAD)
    guard.mark(who)
    assert len(guard.path.read_bytes()) == 1024
    found = Guard.open(study).marked_by
    assert found == kept_name(who) == who[: len(found)]
    assert len(found) >= 100


def test_a_torn_write_leaves_what_was_before(study):
    guard = Guard.create(study, HEAD)
    guard.settle(3, LATER)
    whole = guard.path.read_bytes()
    guard.mark()
    marked = guard.path.read_bytes()
    assert len(whole) == len(marked) == 1024
    for cut in range(0, 1024, 7):
        guard.path.write_bytes(marked[:cut] + whole[cut:])
        found = Guard.open(study)
        assert found.charges == 3
        assert found.head == LATER
    guard.path.write_bytes(marked)
    assert Guard.open(study).marked


def test_it_needs_no_room_on_a_full_disk(study):
    guard = Guard.create(study, HEAD)
    size = os.stat(guard.path).st_size
    for number in range(1, 20):
        guard.mark()
        guard.settle(number, LATER)
        assert os.stat(guard.path).st_size == size


def test_it_is_for_its_owner_alone(study):
    assert os.stat(Guard.create(study, HEAD).path).st_mode & 0o077 == 0


@pytest.mark.parametrize("content", [None, b"", b"\0" * 1024, b"evhguard" * 128])
def test_without_it_nothing_may_be_asked(study, content):
    guard = Guard.create(study, HEAD)
    guard.path.unlink()
    if content is not None:
        guard.path.write_bytes(content)
    with pytest.raises(LedgerError, match="missing or cannot be read"):
        Guard.open(study)
    with pytest.raises(LedgerError, match="missing or cannot be read"):
        guard.reload()


def test_a_folder_that_cannot_be_written_is_an_error_of_the_ledger(tmp_path):
    with pytest.raises(LedgerError, match="could not be written"):
        Guard.create(tmp_path / "nowhere" / "x.everhold", HEAD)
    guard = Guard.create(tmp_path / "x.everhold", HEAD)
    guard.path.unlink()
    with pytest.raises(LedgerError, match="could not be written"):
        guard.mark()
