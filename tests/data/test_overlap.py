"""Private rows in their own reference are refused; independent tables are not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import everhold as eh
from everhold.data.overlap import compare
from everhold.errors import PriorError, ReferenceWarning


def people(size, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, size),
            "bmi": rng.normal(26, 4, size).round(1),
            "smoker": rng.random(size) < 0.2,
            "city": np.array(["York", "Leeds", "Hull"])[rng.integers(0, 3, size)],
            "seen": np.datetime64("2024-01-01") + rng.integers(0, 365, size).astype("timedelta64[D]"),
        }
    )


OWN = {
    "the table itself": lambda rows: rows,
    "shuffled": lambda rows: rows.sample(frac=1.0, random_state=1),
    "a half of it": lambda rows: rows.sample(frac=0.5, random_state=1),
    "a tenth of it among others": lambda rows: pd.concat([people(3_000, 9), rows.sample(frac=0.1, random_state=1)]),
    "all of it among others": lambda rows: pd.concat([people(9_000, 9), rows]),
}


@pytest.mark.parametrize("way", sorted(OWN))
@pytest.mark.parametrize("form", ["frame", "csv", "parquet", "duckdb"])
def test_private_rows_as_their_own_reference_are_refused(tmp_path, way, form):
    rows = people(3_000, 0)
    reference = OWN[way](rows)
    private = rows
    if form == "csv":
        rows.to_csv(tmp_path / "rows.csv", index=False)
        private = str(tmp_path / "rows.csv")
    elif form != "frame":
        rows.to_parquet(tmp_path / "rows.parquet")
        private = str(tmp_path / "rows.parquet")
    engine = "duckdb" if form == "duckdb" else "auto"
    with pytest.raises(PriorError, match=r"more than chance explains.*eh\.Split\(0\.5\).*overlap='allow'"):
        eh.Holdout(private, prior=eh.Reference(reference), engine=engine, seed=0)
    eh.Holdout(private, prior=eh.Reference(reference), engine=engine, seed=0, overlap="allow")
    eh.Holdout(private, prior=eh.Reference(people(3_000, 1)), engine=engine, seed=0)


def test_the_guarantee_is_void_without_the_check():
    """What the check is for: on pure noise the private rows as their reference miss, independent ones do not."""
    rng = np.random.default_rng(0)

    def noise(size):
        return pd.DataFrame(rng.random((size, 401)) < 0.5, columns=[*(f"x{i}" for i in range(400)), "y"])

    def vote(own, signs):
        return lambda rows: (
            (np.stack([np.asarray(rows[f"x{i}"]) * 2.0 - 1.0 for i in range(400)], 1) @ signs > 0) == np.asarray(rows["y"])
        )

    rows = noise(1_500)
    for reference, void in ((rows, True), (noise(1_500), False)):
        held = eh.Holdout(rows, prior=eh.Reference(reference), seed=0, overlap="allow")
        signs = np.array([1.0 if one.value > 0.5 else -1.0 for one in held.ask_many([f"x{i} = y" for i in range(400)])])
        assert (0.5 not in held.ask(vote(reference, signs)).interval) == void
    with pytest.raises(PriorError, match="more than chance"):
        eh.Holdout(rows, prior=eh.Reference(rows), seed=0)


@pytest.mark.parametrize("distinct", [2, 30, 1_000, 30_000, 10**9])
@pytest.mark.parametrize("skew", [0.0, 1.5])
def test_independent_tables_are_accepted(distinct, skew):
    """Whatever their distributions. The promised rate of false alarms is 1e-9; 100 pairs of tables are all accepted."""
    rng = np.random.default_rng(int(distinct) % 97)
    for _ in range(50):
        draws = [(distinct * rng.random(size) ** (1 + skew)).astype(np.uint64) for size in (4_000, 2_000)]
        assert not compare(*draws).beyond_chance
        other = (distinct * rng.random(2_000) ** 3).astype(np.uint64)  # of another population
        assert not compare(draws[0], other).beyond_chance


def test_the_evidence_is_an_e_value():
    """Its mean is at most 1 for independent Poisson numbers of rows: 3,000 pairs of small tables with many coincidences.

    exp(evidence) has mean at most 1, so it exceeds 20 in at most 5 % of pairs; 200 or more of 3,000 would have a
    probability below 1e-4.
    """
    rng = np.random.default_rng(0)
    exceed = 0
    for _ in range(3_000):
        sizes = rng.poisson(30, 2)
        found = compare(*(rng.integers(0, 200, size).astype(np.uint64) for size in sizes))
        exceed += found.evidence > np.log(20.0)
    assert exceed < 200
    assert binom.sf(199, 3_000, 0.05) < 1e-4


WAYS = ["twice", "five times", "twice in private", "drawn with replacement", "numbered anew", "named anew"]


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_other_sizes_and_numbers_are_found(way):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=2_000), "y": rng.integers(0, 9, 2_000)}
    private, public = dict(rows), dict(rows)
    if way in ("twice", "five times"):
        public = {name: np.tile(column, 2 if way == "twice" else 5) for name, column in rows.items()}
    elif way == "twice in private":
        private = {name: np.tile(column, 2) for name, column in rows.items()}
    elif way == "drawn with replacement":
        picked = rng.integers(0, 2_000, 20_000)
        public = {name: column[picked] for name, column in rows.items()}
    elif way == "numbered anew":
        private["id"], public["id"] = np.arange(2_000), rng.permutation(2_000) + 10**5
    else:
        private["id"], public["id"] = (np.array([f"{letter}{i}" for i in range(2_000)]) for letter in "uv")
    with pytest.raises(PriorError, match="more than chance"):
        eh.Holdout(private, prior=eh.Reference(public), seed=0)


def test_numbered_rows_are_no_evidence():
    """Two tables that number their rows from 1 coincide wherever the rest does; a copy is found all the same."""

    def numbered(seed):
        rng = np.random.default_rng(seed)
        return {"id": np.arange(1, 2_001), "smoker": rng.random(2_000) < 0.2, "age": rng.integers(18, 60, 2_000)}

    eh.Holdout(numbered(0), prior=eh.Reference(numbered(1)), seed=0)
    with pytest.raises(PriorError, match="more than chance"):
        eh.Holdout(numbered(0), prior=eh.Reference(numbered(0)), seed=0)


def addressed(seed, size=2_000):
    """Unique texts, and columns of few values."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "email": [f"user{rng.integers(10**12)}@example.org" for _ in range(size)],
            "smoker": rng.random(size) < 0.2,
            "sex": rng.choice(["f", "m"], size),
        }
    )


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("part", [1.0, 0.1])
def test_unique_texts_decide_where_other_columns_cannot(tmp_path, engine, part):
    rows = addressed(0)
    rows.to_parquet(tmp_path / "rows.parquet")
    place = str(tmp_path / "rows.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReferenceWarning)
        eh.Holdout(place, prior=eh.Reference(addressed(1)), engine=engine, seed=0)
        reference = pd.concat([addressed(2), rows.sample(frac=part, random_state=1)])
        with pytest.raises(PriorError, match="more than chance"):
            eh.Holdout(place, prior=eh.Reference(reference), engine=engine, seed=0)


def test_numbers_in_words_do_not_decide():
    """p1, p2 … in both tables are no evidence; that nothing else could be is said."""

    def numbered(seed):
        rng = np.random.default_rng(seed)
        return {"id": [f"p{i}" for i in range(2_000)], "smoker": rng.random(2_000) < 0.2}

    for seed in (0, 1):  # the very same rows, and others
        with pytest.warns(ReferenceWarning, match=r"cannot be tested: .*too few different values"):
            eh.Holdout(numbered(0), prior=eh.Reference(numbered(seed)), seed=0)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_units_are_compared_as_wholes(tmp_path, engine):
    def visits(seed):
        rng = np.random.default_rng(seed)
        who = np.repeat(np.arange(1_000), 4)
        return pd.DataFrame({"who": who, "smoker": np.repeat(rng.random(1_000) < 0.3, 4), "bmi": rng.normal(26, 4, 4_000)})

    place = tmp_path / "visits.parquet"
    visits(0).to_parquet(place)
    with pytest.raises(PriorError, match="of 1,000 private rows"):
        eh.Holdout(str(place), prior=eh.Reference(visits(0)), unit="who", engine=engine, seed=0)
    eh.Holdout(str(place), prior=eh.Reference(visits(1)), unit="who", engine=engine, seed=0)


def test_a_part_of_large_tables_is_compared(monkeypatch):
    """The same rows on both sides: those whose digests are multiples of some number."""
    monkeypatch.setattr("everhold.data.overlap.MOST_ROWS", 5_000)
    rows = people(20_000, 0)
    with pytest.raises(PriorError, match=r"of [45],\d\d\d private rows"):
        eh.Holdout(rows, prior=eh.Reference(rows.sample(frac=0.3, random_state=0)), seed=0)
    eh.Holdout(rows, prior=eh.Reference(people(20_000, 1)), seed=0)


def test_a_split_is_not_compared():
    """Its halves are different rows of one table, also where rows repeat."""
    rows = pd.concat([people(500, 0)] * 4)
    assert eh.Holdout(rows, prior=eh.Split(0.5), seed=0).size == 1_000


def test_the_record_says_that_it_was_allowed(tmp_path):
    from everhold.ledger.reader import read_study
    from everhold.report.certificate import guarantee

    rows = people(300, 0)
    for name, overlap in (("one", "allow"), ("two", "refuse")):
        place = tmp_path / f"{name}.everhold"
        reference = rows if overlap == "allow" else people(300, 1)
        eh.Holdout.create(place, rows, prior=eh.Reference(reference), seed=0, overlap=overlap).release()
        said = guarantee(read_study(place).first_record)
        assert ("public rows that are also private rows" in said) == (overlap == "allow")
    with pytest.raises(eh.SettingError, match="overlap is one of refuse, allow"):
        eh.Holdout(rows, prior=eh.Reference(people(300, 1)), overlap="maybe")


def test_training_rows_as_test_rows_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(PriorError, match="more than chance"):
        eh.TestSet(X[:300], y[:300], reference=(X, y))
    eh.TestSet(X[:300], y[:300], reference=(X[300:], y[300:]))
    eh.TestSet(X[:300], y[:300], reference=(X, y), overlap="allow")
    eh.TestSet(X[:300], y[:300], classes=[0, 1])  # the test features themselves are public: only labels are hidden
