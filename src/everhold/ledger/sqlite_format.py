"""Every byte of a ledger's file accounted for.

The chain of hashes protects what records say. An SQLite file has more bytes: headers, pointers, room that is not used.
This walks through the file as its format describes it (sqlite.org/fileformat2.html) and demands that each byte is what
the records make it, so that no flipped byte goes unseen.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

from everhold.errors import LedgerError
from everhold.ledger import open_files

__all__ = ["APPLICATION_ID", "CREATE", "FORMAT", "check_pages", "require_ledger"]

FORMAT = 1
APPLICATION_ID = 0x45564844  # "EVHD"
CREATE = (
    "CREATE TABLE record (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL, "
    "blob BLOB, hash BLOB NOT NULL)"
)
_PAGE = 4096
_LEAF, _INTERIOR = 13, 5


def require_ledger(path: Path) -> None:
    """Look at a file's first page before SQLite does: it must hold one table, a ledger's, and nothing that computes.

    A view, a trigger or an index in its place could make the first query run without end.
    """
    try:
        first = open_files.OPEN_FILES.read(path, _PAGE)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}.") from None
    if len(first) < _PAGE or first[:16] != b"SQLite format 3\0" or first[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise LedgerError(f"{path} is not an everhold study.")
    version = int.from_bytes(first[60:64], "big")
    if version != FORMAT:
        raise LedgerError(f"{path} has ledger format {version}. This everhold reads format {FORMAT}: use a newer one.")
    _Walk(path, first).schema()


def check_pages(path: Path, data: bytes, *, records: int, written_by: int) -> None:
    """Refuse a file with any byte out of place.

    Args:
        path: of the file, for messages.
        data: its bytes.
        records: how many it holds.
        written_by: the version of SQLite that the last record says it was written by.

    Raises:
        LedgerError: naming the page.
    """
    if len(data) % _PAGE or not data:
        raise LedgerError(f"{path} has {len(data)} bytes, which is not a whole number of pages: it was cut off or added to.")
    _Walk(path, data).check(records, written_by)


class _Walk:
    def __init__(self, path: Path, data: bytes) -> None:
        self._path, self._data = path, data
        self._pages = len(data) // _PAGE
        self._seen: set[int] = set()
        self._next = 1  # the row expected next

    def fail(self, page: int, what: str) -> None:
        raise LedgerError(f"{self._path}, page {page}: {what}. The file was damaged or altered.")

    def page(self, number: int) -> bytes:
        if not 1 <= number <= self._pages or number in self._seen:
            self.fail(number, "a page is missing or used twice")
        self._seen.add(number)
        return self._data[(number - 1) * _PAGE : number * _PAGE]

    def check(self, records: int, written_by: int) -> None:
        self._header(written_by)
        root = self.schema()
        self._tree(root, shallow=True)
        if self._next != records + 1:
            self.fail(root, f"{self._next - 1} rows where {records} were read")
        if len(self._seen) != self._pages:
            self.fail(min(set(range(1, self._pages + 1)) - self._seen), "a page that belongs to nothing")

    def _header(self, written_by: int) -> None:
        head = self._data[:100]
        numbers = struct.unpack(">10I", head[24:64])
        change, pages, trunk, free, cookie, form, cache, vacuum, encoding, version = numbers
        expected = (
            head[:16] == b"SQLite format 3\0"
            and head[16:24] == bytes([_PAGE >> 8, _PAGE & 255, 1, 1, 0, 64, 32, 32])
            and (pages, trunk, free, cookie, form, cache, vacuum, encoding, version)
            == (self._pages, 0, 0, 1, 4, 0, 0, 1, FORMAT)
            and struct.unpack(">2I", head[64:72]) == (0, APPLICATION_ID)
            and not any(head[72:92])
            and struct.unpack(">2I", head[92:100]) == (change, written_by)
        )
        if not expected:
            self.fail(1, "the header is not that of a ledger")

    def schema(self) -> int:
        """Page 1 holds one row, which says where the table begins."""
        page = self.page(1)
        cells = self._cells(page, 1, 100, _LEAF)
        if len(cells) != 1:
            self.fail(1, "the schema has other tables")
        at = cells[0]
        size, at = _varint(page, at)
        row, at = _varint(page, at)
        self._covered(page, 1, 100, _LEAF, [(cells[0], at + size)])
        payload = page[at : at + size]
        values = _record(payload)
        if row != 1 or values[:3] != [b"table", b"record", b"record"] or values[4] != CREATE.encode():
            self.fail(1, "the schema is not that of a ledger")
        return int.from_bytes(values[3], "big")

    def _tree(self, number: int, *, shallow: bool) -> int:
        """A page of the table and all below it; returns the last row in it."""
        page = self.page(number)
        if page[0] == _LEAF:
            return self._leaf(page, number)
        if page[0] != _INTERIOR:
            self.fail(number, "a page of an unknown kind")
        cells = self._cells(page, number, 0, _INTERIOR)
        spans, children = [], []
        for at in cells:
            child = int.from_bytes(page[at : at + 4], "big")
            key, end = _varint(page, at + 4)
            spans.append((at, end))
            children.append((child, key))
        right = int.from_bytes(page[8:12], "big")
        deep = False
        for child, key in children:
            deep = deep or self._data[(child - 1) * _PAGE] == _INTERIOR if 1 <= child <= self._pages else deep
            if self._tree(child, shallow=False) != key:
                self.fail(number, "a key that does not fit the rows below it")
        last = self._tree(right, shallow=False)
        # Inner pages of deep trees have been rebuilt by SQLite and may hold remains of older pointers; nothing reads them.
        if shallow and not deep:
            self._covered(page, number, 0, _INTERIOR, spans)
        return last

    def _leaf(self, page: bytes, number: int) -> int:
        spans = []
        row = 0
        for start in self._cells(page, number, 0, _LEAF):
            size, at = _varint(page, start)
            row, at = _varint(page, at)
            if row != self._next:
                self.fail(number, f"row {row} where row {self._next} was expected")
            self._next += 1
            local = _local(size)
            self._types(page[at : at + local], size, number)
            end = at + local
            if size > local:
                self._overflow(int.from_bytes(page[end : end + 4], "big"), size - local, number)
                end += 4
            spans.append((start, end))
        self._covered(page, number, 0, _LEAF, spans)
        return row

    def _types(self, payload: bytes, size: int, number: int) -> None:
        """The types of a row's values, written in the one way that SQLite writes them (section 2.1)."""
        head, at = _varint(payload, 0)
        types = []
        while at < head:
            kind, at = _varint(payload, at)
            types.append(kind)
        fine = len(types) == 6 and at == head
        if fine:
            seq, kind, version, body, blob, digest = types
            fine = (
                seq == 0
                and kind >= 13
                and kind % 2 == 1
                and version in (1, 9)
                and body >= 13
                and body % 2 == 1
                and (blob == 0 or (blob >= 12 and blob % 2 == 0))
                and digest == 76
                and size == head + sum(0 if code in (0, 9) else 1 if code == 1 else (code - 12) // 2 for code in types)
            )
        if not fine:
            self.fail(number, "a row that is not a record")

    def _overflow(self, number: int, left: int, owner: int) -> None:
        while left > 0:
            page = self.page(number)
            here = min(left, _PAGE - 4)
            if any(page[4 + here :]):
                self.fail(number, "bytes in unused room")
            left -= here
            number = int.from_bytes(page[:4], "big")
            if (left > 0) != (number > 0):
                self.fail(owner, "a chain of pages that ends too soon or too late")

    def _cells(self, page: bytes, number: int, head: int, kind: int) -> list[int]:
        """Where the cells of a page begin, in order of the rows."""
        size = 8 if kind == _LEAF else 12
        if page[head] != kind:
            self.fail(number, "a page of another kind than expected")
        count = int.from_bytes(page[head + 3 : head + 5], "big")
        array = page[head + size : head + size + 2 * count]
        starts = [int.from_bytes(array[i : i + 2], "big") for i in range(0, 2 * count, 2)]
        first = head + size + 2 * count
        if not starts or any(not first <= start < _PAGE for start in starts):
            self.fail(number, "a pointer that leads nowhere")
        return starts

    def _covered(self, page: bytes, number: int, head: int, kind: int, spans: list[tuple[int, int]]) -> None:
        """The cells fill the end of the page without gaps, and the room before them is empty."""
        ordered = sorted(spans)
        for (_, end), (start, _) in pairwise(ordered):
            if end != start:
                self.fail(number, "records that overlap, or room between them")
        content = int.from_bytes(page[head + 5 : head + 7], "big")
        if ordered[-1][1] != _PAGE or content != ordered[0][0] or page[head + 1 : head + 3] != b"\0\0" or page[head + 7]:
            self.fail(number, "records that do not fill their place")
        first = head + (8 if kind == _LEAF else 12) + 2 * len(spans)
        if any(page[first : ordered[0][0]]):
            self.fail(number, "bytes in unused room")


def _local(size: int) -> int:
    """How much of a record lies in its own page (fileformat2, section 1.6, for tables)."""
    most = _PAGE - 35
    if size <= most:
        return size
    least = (_PAGE - 12) * 32 // 255 - 23
    part = least + (size - least) % (_PAGE - 4)
    return part if part <= most else least


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(9):
        if at + index >= len(page):
            return value, len(page)
        byte = page[at + index]
        if index == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 127
        if not byte & 128:
            return value, at + index + 1
    return value, at + 9


def _record(payload: bytes) -> list[bytes]:
    """The values of a small record, as bytes."""
    size, at = _varint(payload, 0)
    kinds = []
    while at < size:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    widths = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
    values = []
    for kind in kinds:
        width = widths.get(kind, (kind - 12) // 2)
        values.append(payload[at : at + width])
        at += width
    return values + [b""] * 5
