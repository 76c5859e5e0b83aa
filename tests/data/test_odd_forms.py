"""Forms of tables that a hostile reader found: equal everywhere, or refused in a sentence."""

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everhold as eh
from everhold.data.sample import Sample
from everhold.data.schema import ColumnSchema, Schema
from everhold.errors import DataError, SettingError
from everhold.queries.expression import expression

NUMBER = Schema((ColumnSchema("x", "number", 0.0, 1.0),))
DATE = Schema((ColumnSchema("d", "date"),))
TEXT = Schema((ColumnSchema("s", "text"),))


def count(sample, text, schema):
    return (sample.sums([expression(text, schema.kinds)])[0].first + 32_768 * sample.size) // 65_536


def test_hive_folders_do_not_replace_columns(tmp_path):
    (tmp_path / "x=7").mkdir()
    place = tmp_path / "x=7" / "a.parquet"
    pq.write_table(pa.table({"x": [0.25, 0.5]}), place)
    for engine in ("memory", "duckdb"):
        assert count(Sample(str(place), schema=NUMBER, engine=engine), "x < 1", NUMBER) == 2


@pytest.mark.parametrize("odd", [pd.NA, Decimal("sNaN"), [1], {}, np.array([1, 2])])
def test_odd_objects_are_missing_and_no_error(odd):
    column = pd.Series([0.5, 0.75, None], dtype=object)
    column[2] = odd
    for kind in ("number", "boolean", "text", "date"):
        schema = Schema((ColumnSchema("x", kind),))
        frame = pd.DataFrame({"x": column if kind != "date" else [dt.date(2024, 1, 1), None, odd]}, dtype=object)
        try:
            sample = Sample(frame, schema=schema)
        except DataError as refusal:
            assert "no value that can be read" in str(refusal)  # noqa: PT017
            continue
        assert count(sample, "x IS NULL", schema) >= 1
    assert Sample({"x": [1.0, 2.0, 3.0], "u": np.array([1, None, None], dtype=object)}, schema=NUMBER, unit="u").size == 3
    units = pd.DataFrame({"x": [0.1, 0.2], "u": pd.Series([pd.NA, "a"], dtype=object)})
    assert Sample(units, schema=NUMBER, unit="u").size == 2


def test_list_columns_are_left_out_and_not_compared():
    def frame(seed):
        rng = np.random.default_rng(seed)
        lists = pd.Series([[i] for i in range(50)], dtype=object)
        return pd.DataFrame({"x": rng.random(50), "l": lists})

    assert list(eh.Schema.propose(frame(0))) == ["x"]


def test_units_have_one_name_a_row():
    with pytest.raises(DataError, match="several values in each row"):
        Sample({"x": [1.0, 2.0], "u": np.zeros((2, 2))}, schema=NUMBER, unit="u")


def test_arrow_that_cannot_be_read_is_a_sentence():
    for array in (pa.array(np.array([1, 2], np.float16)), pa.array([Decimal(1)], pa.decimal256(60, 2))):
        try:
            read = Sample(pa.table({"x": array}), schema=NUMBER)
        except DataError as refusal:
            assert "could not be read" in str(refusal)  # noqa: PT017
        else:
            assert count(read, "x > 0", NUMBER) == len(array)
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")])
    with pytest.raises(DataError, match="could not be read"):
        Sample(pa.table({"s": broken}), schema=TEXT)


@pytest.mark.parametrize("names", [["x", "x"], ["x", "X"]])
def test_names_that_come_twice_are_refused(tmp_path, names):
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=names)
    pq.write_table(table, tmp_path / "t.parquet")
    nested = pa.table({"a": pa.array([{"x": 1, "y": [2]}]), "x": [1.0]})
    pq.write_table(nested, tmp_path / "nested.parquet")
    for source in (table, str(tmp_path / "t.parquet")):
        with pytest.raises(DataError, match="in more than case"):
            Sample(source, schema=NUMBER)
    assert Sample(str(tmp_path / "nested.parquet"), schema=NUMBER).size == 1


def test_precise_moments_do_not_change_others():
    moments = [np.datetime64("2262-05-01"), np.datetime64("2020-01-01T00:00:00.000000001"), np.datetime64("0001-01-01")]
    sample = Sample({"d": moments}, schema=DATE)
    assert count(sample, "d > '2262-04-30'", DATE) == 1
    assert count(sample, "d < '0001-01-02'", DATE) == 1


def test_nanoseconds_before_1970_are_rounded_alike(tmp_path):
    nanos = pa.array([-1, -999, -1001, 1, 999, 1001], pa.timestamp("ns"))
    table = pa.table({"d": nanos})
    pq.write_table(table, tmp_path / "t.parquet")
    forms = [table, str(tmp_path / "t.parquet"), table.to_pandas()]
    found = {count(Sample(form, schema=DATE), "d < '1970-01-01'", DATE) for form in forms}
    found.add(count(Sample(str(tmp_path / "t.parquet"), schema=DATE, engine="duckdb"), "d < '1970-01-01'", DATE))
    assert found == {3}


def test_texts_keep_their_last_character(tmp_path):
    words = ["a\0", "a", "a\0\0", "b"]
    assert count(Sample({"s": words}, schema=TEXT), "s = 'a'", TEXT) == 1
    assert Sample({"s": words, "u": words}, schema=TEXT, unit="u").size == 4


@pytest.mark.parametrize(
    "text",
    [
        "high = 1" + "0" * 400,
        "high = 1" + "0" * 5_000,
        "a = " + "[" * 2_000,
        ".".join(["a"] * 3_000) + " = 1",
        "x" * 6_000_000,
    ],
)
def test_schemas_that_nobody_wrote_are_refused(text):
    with pytest.raises(SettingError):
        Schema.from_toml(f'format = 1\n[columns."x"]\nkind = "number"\nlow = 0.0\n{text}\n')


def test_a_schema_in_another_encoding_is_a_sentence(tmp_path):
    (tmp_path / "s.toml").write_bytes("# größe".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        Schema.load(tmp_path / "s.toml")


def test_categories_may_be_called_like_made_up_labels():
    def rows(seed):
        return {"s": np.random.default_rng(seed).choice(["(missing)", "(other)", "York"], 400)}

    held = eh.Holdout(rows(0), prior=eh.Reference(rows(1)), seed=0)
    labels = [label[0] for label, _ in held.table("s")]
    assert len(set(labels)) == len(labels) == 5


def test_exp_and_ln_do_not_depend_on_the_processor():
    """The same bits with numpy's vector instructions switched off, at values where libraries differ."""
    program = (
        "import numpy as np; from everhold.queries.expression.elementary import exp, ln; "
        "x = np.concatenate([np.arange(-87000, 80000) / 1000.0, np.full(16, -0.05158374921733594)]); "
        "m = np.arange(1, 2000) / 999.0; y = [np.ldexp(m, k) for k in range(-90, 50)]; "
        "y = np.concatenate([*y, np.full(16, 25.61744630950005)]); "
        "import hashlib; print(hashlib.sha256(exp(x).tobytes() + ln(y).tobytes()).hexdigest()); "
        "umath = (getattr(np, '_core', None) or np.core)._multiarray_umath; "
        "print(sorted(name for name, on in umath.__cpu_features__.items() if on))"
    )
    import os

    features = ("", "AVX2 FMA3", "X86_V4", "AVX512F AVX512_SKX", "X86_V3 X86_V4")
    found, processors = set(), set()
    for off in features:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            capture_output=True,
            text=True,
            env={**os.environ, "NPY_DISABLE_CPU_FEATURES": off} if off else os.environ,
        )
        if done.returncode == 0:  # a feature that this numpy cannot switch off is refused at import
            bits, features_left = done.stdout.splitlines()
            found.add(bits)
            processors.add(features_left)
        else:
            assert "NPY_DISABLE_CPU_FEATURES" in done.stderr, done.stderr
    assert len(found) == 1
    if len(processors) == 1:
        pytest.skip("numpy has no vector instructions here that could be switched off: nothing was compared")


def test_a_column_of_a_file_that_cannot_be_read_at_all_is_worth_a_warning(tmp_path):
    """Dates and numbers in another spelling than the public ones would silently be missing, all of them."""
    (tmp_path / "last.csv").write_text("age,admitted,crp\n" + "40,2025-05-01,1.5\n50,2025-06-01,2.5\n" * 100)
    (tmp_path / "this.csv").write_text("age,admitted,crp\n" + '45,31.12.2026,"1,5"\n55,30.12.2026,"2,5"\n' * 100)
    with pytest.warns(eh.SchemaWarning) as caught:
        eh.Holdout(str(tmp_path / "this.csv"), prior=eh.Reference(str(tmp_path / "last.csv")), seed=0, overlap="allow")
    said = " ".join(str(one.message) for one in caught)
    assert "column 'admitted' of the private table has no value that can be read as date" in said
    assert "column 'crp'" in said
    assert "'age'" not in said
    assert "31.12.2026 for a date" in said, "an example of its own, not a value"
    assert "30.12.2026" not in said
