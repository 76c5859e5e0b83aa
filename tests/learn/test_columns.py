"""Both sides must be written alike: a model that misses a column on private rows would be wrong there, without a word."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import everhold as eh

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 400, 3))
a, b = (A[:, 0] > 0).astype(int), (B[:, 0] > 0).astype(int)
NAMES = ["one", "two", "three"]
X, Z = pd.DataFrame(A, columns=NAMES), pd.DataFrame(B, columns=NAMES)


@pytest.mark.parametrize(
    ("test", "reference", "said"),
    [
        (X.iloc[:, :-1], Z, r"X has 2 columns and the reference 3: X lacks 'three'"),
        (X, Z.iloc[:, 1:], r"X has 3 columns and the reference 2: the reference lacks 'one'"),
        (X.rename(columns={"one": "eins"}), Z, r"X lacks 'one', and the reference lacks 'eins'"),
        (X[NAMES[::-1]], Z, r"in another order: column 1 is 'three' in X and 'one' in the reference"),
        (A[:, :-1], B, r"X has 2 columns and the reference 3"),
        (A, Z, r"the reference has columns with names, and X has none"),
        (X, B, r"X has columns with names, and the reference has none"),
        (pl.DataFrame({"one": A[:, 0]}), pl.DataFrame({"one": B[:, 0], "two": B[:, 1]}), "X lacks 'two'"),
        ({"one": A[:, 0]}, {"two": B[:, 0]}, "X lacks 'two', and the reference lacks 'one'"),
        (A, B[:, 0], r"X has 2 dimensions and the reference 1: shapes \(400, 3\) and \(400,\)"),
        (A.reshape(400, 3, 1), B, r"X has 3 dimensions and the reference 2"),
    ],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_other_columns_are_refused(test, reference, said, labelled):
    given = (reference, b) if labelled else reference
    with pytest.raises(eh.DataError, match=said):
        eh.TestSet(test, a, reference=given, classes=[0, 1])


def test_the_same_columns_are_fine():
    for test, reference in ((X, Z), (A, B), (pl.DataFrame(A), pl.DataFrame(B)), (list("ab") * 200, ["c"] * 400)):
        eh.TestSet(test, a, reference=(reference, b))
    model = LogisticRegression().fit(Z, b)
    assert eh.TestSet(X, a, reference=(Z, b), seed=1).read(model).low > 0.9


def test_features_and_labels_that_were_swapped():
    for reference in ((b, B), (b, Z), (pd.Series(b), Z)):
        with pytest.raises(eh.PriorError, match=r"labels of the reference have shape \(400, 3\).*features first"):
            eh.TestSet(A, a, reference=reference)
    with pytest.raises(eh.PriorError, match=r"shape \(400, 1\).*ravel"):
        eh.TestSet(A, a, reference=(B, b[:, None]))
    with pytest.raises(eh.DataError, match="Expected one label for each row"):
        eh.TestSet(a, A, reference=(b, b))


def test_as_many_classes_as_rows_are_probably_numbers():
    y, z = np.arange(400), np.arange(400) % 300
    with (
        pytest.warns(eh.SchemaWarning, match=r"400 public labels hold 300 classes.*task='regression'"),
        pytest.raises(eh.DataError, match="task='regression'"),
    ):
        eh.TestSet(A, y, reference=(B, z))
