"""Values on the grid: exact sums, faithful packing, honest refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from everhold.errors import QuestionError
from everhold.queries.grid import VALUE_ONE, lenient_total, on_grid, strict_total

numbers = arrays(np.float64, st.integers(1, 300), elements=st.floats(-1, 1))
yes_no = arrays(np.bool_, st.integers(1, 300))


def exact_total(values):
    return sum(round(Fraction(float(v)) * VALUE_ONE) for v in values)


@given(numbers)
def test_totals_are_exact_whole_numbers(values):
    assert on_grid(values, len(values), "x").total == exact_total(values)
    assert strict_total(values, len(values), "x") == ("mean", exact_total(values))
    assert lenient_total(values, len(values), "mean") == exact_total(values)


@given(yes_no)
def test_yes_no_totals(values):
    expected = int((2 * values.astype(int) - 1).sum()) * VALUE_ONE
    assert on_grid(values, len(values), "x").total == expected
    assert strict_total(values, len(values), "x") == ("share", expected)


@given(st.one_of(numbers, yes_no, arrays(np.int8, 40, elements=st.sampled_from([-1, 1]))))
def test_packing_is_faithful(values):
    before = on_grid(values, len(values), "x")
    packed = before.pack()
    after = packed.unpack()
    assert after.scale == before.scale
    assert np.array_equal(after.array, before.array)
    if before.scale == "share":
        assert len(packed.data) == -(-len(values) // 8)


@given(numbers, st.data())
def test_dot_is_exact_and_does_not_depend_on_order(values, data):
    masses = np.array(data.draw(st.lists(st.integers(0, 2**20), min_size=len(values), max_size=len(values))), float)
    on = on_grid(values, len(values), "x")
    expected = sum(int(m) * round(Fraction(float(v)) * VALUE_ONE) for m, v in zip(masses, values, strict=True))
    order = np.random.default_rng(0).permutation(len(values))
    assert on.dot(masses, int(masses.sum())) == expected
    assert on_grid(values[order], len(values), "x").dot(masses[order], int(masses.sum())) == expected


def test_large_sums_stay_exact():
    values = np.full(3_000_000, 1.0 - 2.0**-15)
    assert strict_total(values, len(values), "x")[1] == 3_000_000 * (VALUE_ONE - 1)


def test_chunk_borders():
    for size in (32_767, 32_768, 32_769, 65_537):
        values = np.random.default_rng(size).uniform(-1, 1, size)
        assert strict_total(values, size, "x")[1] == int(np.rint(values * VALUE_ONE).sum())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8])
def test_number_types(dtype):
    assert on_grid(np.array([1, 0, 1], dtype), 3, "x").total == 2 * VALUE_ONE


def test_what_rounding_adds_to_one_is_one():
    assert on_grid(np.array([1.0 + 1e-12, -1.0 - 1e-12]), 2, "x").total == 0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([0.5, 2.0], "value 2 in row 1"),
        ([np.nan, 0.0], r"missing value \(NaN\) in row 0"),
        ([np.inf, 0.0], "value inf in row 0"),
        ([0.1, 0.2, 0.3], r"shape \(3,\)"),
        ([[0.1, 0.2]], r"shape \(1, 2\)"),
        (0.5, r"shape \(\)"),
        (["a", "b"], "type <U1"),
        ([1j, 0], "type complex128"),
        (np.array([True, None], dtype=object), "type object"),
        ([[1], [1, 2]], "could not be read"),
        (np.ma.masked_array([True, False], mask=[True, False]), "masked"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"), "type datetime64"),
    ],
)
def test_public_faults_are_told_in_full(values, says):
    with pytest.raises(QuestionError, match=says):
        on_grid(values, 2, "the reference")


def test_private_faults_are_told_without_value_or_place():
    with pytest.raises(QuestionError) as caught:
        strict_total(np.array([0.1, 0.1, 7.25, 0.1]), 4, "Values(sample=...)")
    assert "7.25" not in str(caught.value)
    assert "row" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "scale", "total"),
    [
        (np.array([np.nan, 5.0, -np.inf]), "mean", 0),
        (np.array([np.nan, 5.0, 0.5]), "mean", VALUE_ONE + VALUE_ONE // 2),
        (np.array([0.5, 0.5]), "mean", None),
        (np.array([1.0, 0.0, 1.0]), "share", None),
        (np.array(["a", "b", "c"]), "mean", None),
        (np.array([True, True, True]), "share", 3 * VALUE_ONE),
    ],
)
def test_lenient_totals_never_tell(values, scale, total):
    assert lenient_total(values, 3, scale) == total
