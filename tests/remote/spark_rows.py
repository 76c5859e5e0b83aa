"""The suites' rows as Parquet files, with NaN beside NULL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.engines import traps
from tests.engines.rows import KINDS, nasty

TRAP_TYPES = {"x": pa.float64(), "y": pa.float64(), "n": pa.int64(), "f": pa.float32(), "dec": pa.decimal128(38, 3), "i": pa.int16(),
              traps.ODD: pa.float64(), "s": pa.string(), "t": pa.string(), "c": pa.string(), "d": pa.timestamp("us"), "day": pa.date32(),
              "zoned": pa.timestamp("us", "UTC"), "m": pa.bool_(), "bit": pa.int32()}  # fmt: skip
PATIENTS = {"age": pa.int32(), "bmi": pa.float64(), "smoker": pa.bool_(), "city": pa.string(), "seen": pa.timestamp("us"),
            "patient": pa.string()}  # fmt: skip


def write(path, columns: dict[str, list], types: dict[str, pa.DataType]) -> str:
    """A Parquet file of Python's own values."""
    pq.write_table(pa.table({name: pa.array(columns[name], types[name], from_pandas=False) for name in types}), path)
    return str(path)


def write_traps(path) -> dict[str, list]:
    columns = traps.rows()
    numbered = columns | {"id": list(range(len(columns["x"])))}
    write(path, numbered, TRAP_TYPES | {"id": pa.int32()})
    return columns


def write_random(path) -> dict[str, np.ndarray]:
    columns = nasty(600, 1)
    plain = {
        name: values.astype(object).tolist() if values.dtype.kind == "M" else values.tolist()
        for name, values in columns.items()
    }
    plain["d"] = [None if np.isnat(one) else one.item() for one in columns["d"]]
    plain["x"] = [None if one != one and place % 2 else one for place, one in enumerate(plain["x"])]
    types = {
        "x": pa.float64(),
        "n": pa.int64(),
        "b": pa.bool_(),
        "m": pa.bool_(),
        "s": pa.string(),
        "t": pa.string(),
        "d": pa.timestamp("us"),
    }
    assert set(types) == set(KINDS)
    write(path, plain | {"id": list(range(600))}, types | {"id": pa.int32()})
    return columns
