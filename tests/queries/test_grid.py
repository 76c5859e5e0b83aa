"""Values on the grid: exact sums, faithful packing, honest refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from everhold.errors import QuestionError
from everhold.queries.grid import VALUE_ONE, Sums, lenient_sums, on_grid, strict_sums

numbers = arrays(np.float64, st.integers(1, 300), elements=st.floats(-1, 1))
yes_no = arrays(np.bool_, st.integers(1, 300))


def exact_sums(values):
    """In Python integers, one value at a time."""
    whole = [round(Fraction(float(v)) * VALUE_ONE) for v in values]
    return Sums(sum(whole), sum(one * one for one in whole))


@given(numbers)
def test_sums_are_exact_whole_numbers(values):
    expected = exact_sums(values)
    assert on_grid(values, len(values), "x").total == expected.first
    assert on_grid(values, len(values), "x").sums == expected
    assert strict_sums(values, len(values), "x") == ("mean", expected)
    assert lenient_sums(values, len(values), "mean") == expected
    for found in (strict_sums(values, len(values), "x")[1], lenient_sums(values, len(values), "mean")):
        assert [type(one) for one in found] == [int, int]


@given(yes_no)
def test_yes_no_sums(values):
    """They are those of the numbers +1 and -1."""
    expected = exact_sums(2.0 * values - 1.0)
    assert on_grid(values, len(values), "x").total == expected.first
    assert on_grid(values, len(values), "x").sums == expected
    assert strict_sums(values, len(values), "x") == ("share", expected)
    assert lenient_sums(values, len(values), "share") == expected


@given(numbers, st.data())
def test_sums_of_parts_add_up(values, data):
    cut = data.draw(st.integers(0, len(values)))
    assert exact_sums(values[:cut]).plus(exact_sums(values[cut:])) == exact_sums(values)


@given(st.lists(st.integers(0, 2 * VALUE_ONE), max_size=50))
def test_steps_are_centred(steps):
    values = [one - VALUE_ONE for one in steps]
    found = Sums.of(np.array(steps, float)).centred(len(steps))
    assert found == (sum(values), sum(one * one for one in values))


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
    assert strict_sums(values, len(values), "x")[1].first == 3_000_000 * (VALUE_ONE - 1)


def test_squares_stay_exact_beyond_what_float64_holds():
    """Odd squares with a sum above 2⁵³; the control, all of them summed in float64, is off."""
    size, one = 3_000_001, 2 * VALUE_ONE - 1
    steps = np.full(size, float(one))
    exact = size * one * one
    assert exact > 2**53
    assert Sums.of(steps) == (size * one, exact)
    assert int(np.einsum("i,i->", steps, steps)) != exact
    values = np.full(9_000_001, 1.0 - 2.0**-15)
    exact = len(values) * (VALUE_ONE - 1) ** 2
    assert exact > 2**53
    assert strict_sums(values, len(values), "x")[1].second == exact
    assert lenient_sums(values, len(values), "mean").second == exact
    assert on_grid(values, len(values), "x").sums.second == exact
    scaled = values * VALUE_ONE
    assert int(np.einsum("i,i->", scaled, scaled)) != exact


@pytest.mark.parametrize("size", [32_767, 32_768, 32_769, 65_537, 2**20 - 1, 2**20, 2**20 + 1])
def test_chunk_borders(size):
    values = np.random.default_rng(size).uniform(-1, 1, size)
    values[[0, -1, size // 2]] = 1.0, -1.0, 1.0
    whole = np.rint(values * VALUE_ONE).astype(np.int64)
    expected = (int(whole.sum()), int((whole * whole).sum()))  # below 2⁶³
    assert strict_sums(values, size, "x")[1] == expected
    assert lenient_sums(values, size, "mean") == expected
    assert on_grid(values, size, "x").sums == expected


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
        strict_sums(np.array([0.1, 0.1, 7.25, 0.1]), 4, "Values(sample=...)")
    assert "7.25" not in str(caught.value)
    assert "row" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "scale", "sums"),
    [
        (np.array([np.nan, 5.0, -np.inf]), "mean", (0, 2 * VALUE_ONE**2)),
        (np.array([np.nan, 5.0, 0.5]), "mean", (VALUE_ONE + VALUE_ONE // 2, VALUE_ONE**2 + VALUE_ONE**2 // 4)),
        (np.array([0.5, 0.5]), "mean", None),
        (np.array([1.0, 0.0, 1.0]), "share", None),
        (np.array(["a", "b", "c"]), "mean", None),
        (np.array([True, True, True]), "share", (3 * VALUE_ONE, 3 * VALUE_ONE**2)),
    ],
)
def test_lenient_sums_never_tell(values, scale, sums):
    assert lenient_sums(values, 3, scale) == sums
