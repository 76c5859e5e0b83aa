"""Public rows as bytes in a study's first record: canonical columns, the others as plain arrays of numbers; compressed.

A head says which columns there are and how long they are, and nothing is unpacked beyond what it says: a small file cannot
fill the memory of the process that opens it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from everhold.data.table import RowTable
from everhold.errors import DataError, LedgerError
from everhold.ledger.codec import dump
from everhold.queries.expression.columns import EncodedColumn

__all__ = ["table_from_bytes", "table_to_bytes"]

_MOST_HEAD = 2**26
_PLAIN, _RATIO = 2**26, 50
"""Tables of more bytes than this that would shrink by more than this factor are kept as they are: no bomb looks like one."""


def table_to_bytes(table: RowTable, weights: np.ndarray[Any, Any] | None) -> bytes:
    """Rows and their weights as bytes."""
    columns: list[dict[str, Any]] = []
    parts: list[bytes] = []

    def add(array: np.ndarray[Any, Any]) -> dict[str, Any]:
        plain = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
        parts.append(plain.tobytes())
        return {"dtype": plain.dtype.str, "shape": list(plain.shape)}

    for name in table:
        if table.kind(name) is not None:
            column = table.column(name)
            entry: dict[str, Any] = {"name": name, "kind": column.kind, "values": add(column.values)}
            if column.kind == "text":
                entry["words"] = list(column.words)
            if column.present is not None:
                entry["present"] = add(column.present)
        else:
            raw = table[name]
            if raw.dtype.kind not in "biuf":
                raise LedgerError(f"column {name!r} of the reference holds {raw.dtype}, which a study cannot keep: drop it.")
            entry = {"name": name, "kind": None, "values": add(raw)}
        columns.append(entry)
    content = {"rows": table.row_count, "columns": columns, "weights": None if weights is None else add(weights)}
    try:
        head = dump(content).encode()
    except UnicodeEncodeError:
        raise LedgerError("the reference holds a text with half of a character in it. Expected UTF-8 text.") from None
    if len(head) > _MOST_HEAD:
        raise LedgerError("the words of the reference's text columns are too many to be kept in a study: drop a column.")
    plain = struct.pack(">I", len(head)) + head + b"".join(parts)
    packed = zlib.compress(plain, 6)
    return zlib.compress(plain, 0) if len(plain) > _PLAIN and len(plain) > _RATIO * len(packed) else packed


def table_from_bytes(data: bytes) -> tuple[RowTable, np.ndarray[Any, Any] | None]:
    """The rows and their weights again, equal bit for bit."""
    try:
        return _table(data)
    except (
        zlib.error,
        struct.error,
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        DataError,
        MemoryError,
        RecursionError,
    ):
        raise LedgerError("the reference rows in the ledger are damaged.") from None


def _table(data: bytes) -> tuple[RowTable, np.ndarray[Any, Any] | None]:
    unpacker = zlib.decompressobj()
    size = struct.unpack(">I", unpacker.decompress(data, 4))[0]
    if size > _MOST_HEAD:
        raise ValueError("too long a head")
    head = json.loads(unpacker.decompress(unpacker.unconsumed_tail, size))
    entries = [part for entry in head["columns"] for part in (entry["values"], entry.get("present")) if part is not None]
    entries += [] if head["weights"] is None else [head["weights"]]
    length = sum(_bytes(entry, head["rows"]) for entry in entries)
    if length > max(_PLAIN, _RATIO * len(data)):
        raise ValueError("more rows than the bytes can stand for")
    plain = unpacker.decompress(unpacker.unconsumed_tail, length) if length else b""
    if len(plain) != length or unpacker.decompress(unpacker.unconsumed_tail, 1) or not unpacker.eof or unpacker.unused_data:
        raise ValueError("more or fewer bytes than the head says")
    at = 0

    def take(entry: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        nonlocal at
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        count = int(np.prod(shape))
        array = np.frombuffer(plain, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
        return array

    columns: dict[str, object] = {}
    for entry in head["columns"]:
        values = take(entry["values"])
        present = take(entry["present"]) if "present" in entry else None
        if entry["kind"] is None:
            columns[entry["name"]] = values
        else:
            columns[entry["name"]] = EncodedColumn(entry["kind"], values, tuple(entry.get("words", ())), present)
    weights = None if head["weights"] is None else take(head["weights"])
    return RowTable(columns, size=head["rows"], copy=False), weights


def _bytes(entry: Mapping[str, Any], rows: int) -> int:
    """How many bytes an array takes: one entry, or one vector, for each row."""
    dtype, shape = np.dtype(entry["dtype"]), entry["shape"]
    whole = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in [rows, *shape])
    if not whole or dtype.hasobject or len(shape) not in (1, 2) or shape[0] != rows:
        raise ValueError("an array of another shape")
    return int(dtype.itemsize) * int(shape[0]) * (int(shape[1]) if len(shape) == 2 else 1)
