"""Rows that have a study are recognised whatever form they come in, and other samples of their population are not."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import everhold as eh
from everhold.data.likeness import likeness
from everhold.data.table import RowTable
from everhold.errors import LedgerError, RowsInUse, RowsInUseWarning
from everhold.ledger.registry import Registry, TableFacts

PRIVACY = eh.Privacy(epsilon=1.0, delta=1e-9, surprises=20)
SIZE = 2_000


def people(seed, size=SIZE):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, size),
        "bmi": rng.normal(25, 4, size).round(2),
        "sex": rng.choice(["f", "m"], size),
        "smoker": rng.random(size) < 0.2,
    }


def yes_no(seed, size=SIZE):
    rng = np.random.default_rng(seed)
    return {name: rng.random(size) < 0.3 for name in "abc"}


def numbered(seed, size=SIZE):
    return {"id": np.arange(size), "a": np.random.default_rng(seed).random(size) < 0.3}


def named(seed, size=SIZE):
    rng = np.random.default_rng(seed)
    return {"id": np.array([f"p{i}" for i in range(size)]), "a": rng.random(size) < 0.3, "b": rng.random(size) < 0.5}


def groups(seed, size=SIZE):
    rng = np.random.default_rng(seed)
    return {"sex": rng.choice(["f", "m"], size), "group": rng.choice(list("abcde"), size)}


def in_order(seed, size=SIZE):
    """Sorted, as an export by a database is: rows of two samples agree row by row."""
    table = people(seed, size)
    order = np.lexsort((table["age"], table["sex"]))
    return {name: column[order] for name, column in table.items()}


def people_alone(seed, size=SIZE):
    return {name: column for name, column in people(seed, size).items() if name in ("sex", "smoker")}


TABLES = {"people": people, "yes/no": yes_no, "numbered": numbered, "named": named, "groups": groups, "in order": in_order}


def private(path, rows, *, make=people, schema=None, **options):
    declared = schema or eh.Schema.propose(make(99), warn=False)
    prior = eh.Reference(make(99))
    eh.Holdout.create(path, rows, prior=prior, schema=declared, privacy=PRIVACY, overlap="allow", **options).release()


class TestHoldouts:
    @pytest.mark.parametrize("kind", TABLES)
    def test_private_rows_have_one_private_study(self, tmp_path, kind):
        make = TABLES[kind]
        private(tmp_path / "one.everhold", make(0), make=make)
        with pytest.raises(RowsInUse, match=r"one\.everhold.*--no-register"):
            private(tmp_path / "two.everhold", make(0), make=make)
        assert not list(tmp_path.glob("two.everhold*"))
        private(tmp_path / "three.everhold", make(0), make=make, register=False)

    @pytest.mark.parametrize("kind", ["people", "yes/no", "named", "groups"])
    def test_in_any_order(self, tmp_path, kind):
        make = TABLES[kind]
        private(tmp_path / "one.everhold", make(0), make=make)
        order = np.random.default_rng(5).permutation(SIZE)
        with pytest.raises(RowsInUse):
            private(tmp_path / "two.everhold", {name: one[order] for name, one in make(0).items()}, make=make)

    @pytest.mark.parametrize("kind", TABLES)
    def test_other_samples_of_the_population_are_not_refused(self, tmp_path, kind):
        """They share categories, ids that count rows, the order of an export; not a telling column or a whole table."""
        make = TABLES[kind]
        private(tmp_path / "0.everhold", make(0), make=make)
        for seed in range(1, 6):
            private(tmp_path / f"{seed}.everhold", make(seed), make=make)
        private(tmp_path / "short.everhold", make(7, SIZE - 1), make=make)

    @pytest.mark.parametrize(("first", "second"), [("memory", "duckdb"), ("duckdb", "memory"), ("duckdb", "copy")])
    def test_a_parquet_file_in_either_engine(self, tmp_path, first, second):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        table = pa.table(people(0))
        parquet.write_table(table, tmp_path / "rows.parquet")
        private(tmp_path / "one.everhold", tmp_path / "rows.parquet", engine=first)
        if second == "copy":  # other bytes, the same rows
            parquet.write_table(table.take(pa.array(np.random.default_rng(1).permutation(SIZE))), tmp_path / "rows.parquet")
        engine = "duckdb" if second == "copy" else second
        with pytest.raises(RowsInUse):
            private(tmp_path / "two.everhold", tmp_path / "rows.parquet", engine=engine)

    def test_other_columns_of_the_same_rows(self, tmp_path):
        rows = people(0)
        some = {name: rows[name] for name in ("age", "sex", "smoker")}
        schema = eh.Schema.propose({name: people(99)[name] for name in some}, warn=False)
        private(tmp_path / "one.everhold", rows, schema=schema)
        other = eh.Schema.propose({"bmi": people(99)["bmi"]}, warn=False)
        with pytest.raises(RowsInUse):  # no declared column is the same
            private(
                tmp_path / "two.everhold", {"bmi": rows["bmi"]}, schema=other, make=lambda seed: {"bmi": people(seed)["bmi"]}
            )

    def test_a_plain_study_with_another_schema(self, tmp_path):
        rows, prior = people(0), eh.Reference(people(99))
        private(tmp_path / "one.everhold", rows)
        with eh.Holdout.open(tmp_path / "one.everhold", data=rows) as study:
            study.read("smoker")
        some = eh.Schema.propose({name: people(99)[name] for name in ("bmi", "sex")}, warn=False)
        with pytest.raises(RowsInUse, match=r"private study.*one\.everhold.*no epsilon"):
            eh.Holdout.create(tmp_path / "plain.everhold", rows, prior=prior, schema=some)
        assert not (tmp_path / "plain.everhold").exists()
        with pytest.warns(RowsInUseWarning, match=r"one\.everhold.*no epsilon of it holds"):
            eh.Holdout(rows, prior=prior, schema=some)
        eh.Holdout.create(tmp_path / "plain.everhold", rows, prior=prior, schema=some, register=False).release()
        more = {**rows, "pulse": np.random.default_rng(3).normal(70, 9, SIZE)}
        schema = eh.Schema.propose({**people(99), "pulse": np.linspace(40, 120, SIZE)}, warn=False)
        for name, table, declared in (("more", more, schema), ("fewer", rows, some)):
            prior = eh.Reference({**people(99), "pulse": np.random.default_rng(4).normal(70, 9, SIZE)})
            with pytest.raises(RowsInUse):
                eh.Holdout.create(tmp_path / f"{name}.everhold", table, prior=prior, schema=declared, privacy=PRIVACY)

    def test_a_plain_study_of_rows_of_a_private_one_that_answered_nothing(self, tmp_path):
        private(tmp_path / "one.everhold", people(0))
        with pytest.raises(RowsInUse, match=r"one\.everhold"):
            eh.Holdout.create(tmp_path / "plain.everhold", people(0), prior=eh.Reference(people(99)))

    def test_a_plain_study_before(self, tmp_path):
        eh.Holdout.create(tmp_path / "one.everhold", yes_no(0), prior=eh.Reference(yes_no(99)), overlap="allow").release()
        with pytest.raises(RowsInUse, match="promised no privacy"):
            private(tmp_path / "two.everhold", yes_no(0), make=yes_no)

    @pytest.mark.parametrize("derived", [False, True])
    def test_folds_of_one_seed_are_no_rows(self, tmp_path, derived):
        """Others may share one column by design, and what follows from it; two that agree are the same rows."""

        def with_folds(seed):
            fold = np.random.default_rng(42).permutation(SIZE) % 5
            return people(seed) | {"fold": fold} | ({"test": fold == 0} if derived else {})

        def lists(seed):  # few values alone
            return {name: column for name, column in with_folds(seed + 10).items() if name not in ("age", "bmi")}

        for make in (with_folds, lists):
            private(tmp_path / f"{make.__name__} 0.everhold", make(0), make=make)
            private(tmp_path / f"{make.__name__} 1.everhold", make(1), make=make)
        some = lists(0)
        some["smoker"] = some["smoker"].copy()
        some["smoker"][:9] ^= True
        with pytest.raises(RowsInUse, match=r"recognised by .*sex"):
            private(tmp_path / "again.everhold", {"sex": some["sex"], "smoker": some["smoker"]}, make=people_alone)

    @pytest.mark.parametrize("change", ["more", "fewer", "corrected", "rounded"])
    def test_some_other_rows_and_columns_in_another_order(self, tmp_path, change):
        rng = np.random.default_rng(3)

        def measured(seed, size=SIZE):
            return people(seed, size) | {"chol": np.random.default_rng([seed, 1]).normal(5, 1, size)}

        rows = measured(0)
        private(tmp_path / "one.everhold", rows, make=measured)
        if change == "more":
            rows = {name: np.concatenate([column, measured(4, 20)[name]]) for name, column in rows.items()}
        elif change == "fewer":
            rows = {name: column[20:] for name, column in rows.items()}
        else:
            rows = {name: column.copy() for name, column in rows.items()}
            if change == "rounded":
                rows["bmi"] = rows["bmi"].round(1)
            for name in ("bmi", "chol"):
                rows[name][0] += 0.1
        order = rng.permutation(len(rows["bmi"]))
        rows = {name: column[order] for name, column in rows.items()} | {"risk": 0.1 * rows["bmi"][order]}
        with pytest.raises(RowsInUse, match=r"recognised by .*(bmi|chol)"):
            private(tmp_path / "two.everhold", rows, make=lambda seed: measured(seed) | {"risk": 0.1 * people(seed)["bmi"]})
        for seed in range(1, 5):
            private(tmp_path / f"{seed}.everhold", measured(seed), make=measured)

    def test_what_cannot_be_made_is_not_remembered(self, tmp_path, monkeypatch):
        def fail(*_, **__):
            raise LedgerError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr("everhold.session.study.Store.create", fail)
            with pytest.raises(LedgerError, match="disk is full"):
                private(tmp_path / "one.everhold", people(0))
        private(tmp_path / "two.everhold", people(0))

    def test_a_study_whose_file_is_there_is_remembered(self, tmp_path, monkeypatch):
        """Whoever interrupts the last line of its making has a study that can be asked."""

        def interrupt(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as interrupted:
            interrupted.setattr("everhold.session.study.note_heads", interrupt)
            with pytest.raises(KeyboardInterrupt):
                private(tmp_path / "one.everhold", people(0))
        with pytest.raises(RowsInUse, match=r"one\.everhold"):
            private(tmp_path / "two.everhold", people(0))
        with eh.Holdout.open(tmp_path / "one.everhold", data=people(0)) as study:
            assert study.privacy is not None

    def test_a_name_that_is_taken_is_not_remembered(self, tmp_path):
        private(tmp_path / "one.everhold", people(1))
        with pytest.raises(LedgerError, match="exists already"):
            private(tmp_path / "one.everhold", people(0))
        private(tmp_path / "two.everhold", people(0))

    def test_a_private_study_is_not_made_without_the_registry(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / "file"))
        with pytest.raises(LedgerError, match="EVERHOLD_HOME"):
            private(tmp_path / "one.everhold", people(0))
        assert not (tmp_path / "one.everhold").exists()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_of_two_processes_at_once_one_is_refused(self, tmp_path):
        Registry().key  # noqa: B018
        context = multiprocessing.get_context("fork")
        barrier, said = context.Barrier(2), context.Queue()
        both = [context.Process(target=_create_at_once, args=(tmp_path / name, barrier, said)) for name in ("one", "two")]
        for process in both:
            process.start()
        for process in both:
            process.join()
            assert process.exitcode == 0
        results = sorted(said.get() for _ in both)
        assert results == ["RowsInUse", "made"]

    def test_a_forgotten_unit_is_no_way_out(self, tmp_path):
        def visits(seed):
            return {"who": np.repeat(np.arange(500), 4), **people(seed)}

        schema = eh.Schema.propose(people(99), warn=False)
        create = partial(eh.Holdout.create, prior=eh.Reference(visits(99)), schema=schema, privacy=PRIVACY)
        create(tmp_path / "one.everhold", visits(0)).release()
        with pytest.raises(RowsInUse, match=r"--unit who\) was forgotten there.*k times its epsilon"):
            create(tmp_path / "two.everhold", visits(0), unit="who")


def _create_at_once(path, barrier, said):
    from everhold.session import study

    make = study._create_entered

    def together(*given):
        barrier.wait()  # everything before it is done: what is looked up earlier does not count
        return make(*given)

    study._create_entered = together
    try:
        private(path, people(0))
        said.put("made")
    except Exception as error:
        said.put(type(error).__name__)


class TestDatabases:
    """Rows in a database cannot be compared: as many are enough where privacy is promised."""

    @pytest.mark.parametrize("first", [True, False])
    def test_as_many_rows_are_asked_about(self, tmp_path, first):
        registry = Registry(tmp_path)
        database = TableFacts(rows=500, in_database=True)
        file = TableFacts(500, _likeness(people(0, 500), b"k"), private=True)
        before, after = (database, file) if first else (file, database)
        digests = {"files": np.array([1], dtype=np.uint64)}
        registry.enter(study="a", kind="holdout", path=tmp_path / "a", digests=digests, table=before)
        (known,) = registry.overlapping({"rows": np.arange(9, dtype=np.uint64)}, after)
        assert known.unsure
        assert known.rows == 500
        fewer = TableFacts(rows=499, private=True)
        assert registry.overlapping({"rows": np.arange(9, dtype=np.uint64)}, fewer) == []

    def test_plain_ones_are_not(self, tmp_path):
        registry = Registry(tmp_path)
        plain = TableFacts(rows=500, in_database=True)
        digests = {"files": np.array([1], dtype=np.uint64)}
        registry.enter(study="a", kind="holdout", path=tmp_path / "a", digests=digests, table=plain)
        assert registry.overlapping({"rows": np.arange(9, dtype=np.uint64)}, TableFacts(rows=500)) == []

    def test_a_private_study_of_as_many_rows_is_refused(self, tmp_path):
        registry = Registry()
        table, digests = TableFacts(rows=SIZE, in_database=True), {"files": np.array([1], dtype=np.uint64)}
        registry.enter(study="a", kind="holdout", path=tmp_path / "table", digests=digests, table=table)
        with pytest.raises(RowsInUse, match=r"may be the rows.*in a database.*--no-register"):
            private(tmp_path / "one.everhold", people(0))
        private(tmp_path / "one.everhold", people(0), register=False)


def _cells(seed):
    return _likeness({"x": np.random.default_rng(seed).normal(size=5_000)}, b"k").cells["x"]


def _likeness(columns, key):
    table = RowTable(columns)
    return likeness(list(table), lambda _: table, key)


class TestTestSets:
    def make(self, path, X, y, **options):
        eh.TestSet(X, y, classes=[0, 1], path=path, privacy=PRIVACY, **options).release()

    def labels(self, seed=0, size=SIZE):
        return np.random.default_rng(seed).integers(0, 2, size)

    @pytest.mark.parametrize("form", ["texts", "images", "wide", "one column", "categories"])
    def test_labels_have_one_test_set(self, tmp_path, form):
        def features(seed):
            rng = np.random.default_rng(seed)
            return {
                "texts": lambda: [f"a review, {i}: {rng.random()}" for i in range(300)],
                "images": lambda: rng.random((300, 4, 4)),
                "wide": lambda: rng.random((300, 300)),
                "one column": lambda: rng.normal(size=(300, 1)),
                "categories": lambda: rng.integers(0, 5, (300, 4)),
            }[form]()

        order = np.random.default_rng(2).permutation(300)
        X, y = features(0), self.labels(0, 300)
        self.make(tmp_path / "one.everhold", X, y)
        shuffled = [X[i] for i in order] if form == "texts" else X[order]
        for again, labels in ((X, y), (shuffled, y[order])):
            with pytest.raises(RowsInUse):
                self.make(tmp_path / "two.everhold", again, labels)
        self.make(tmp_path / "other.everhold", features(1), self.labels(1, 300))

    def test_a_part_of_texts_is_recognised(self, tmp_path):
        X = [f"a review, {i}" for i in range(600)]
        self.make(tmp_path / "one.everhold", X, self.labels(0, 600))
        with pytest.raises(RowsInUse):
            self.make(tmp_path / "two.everhold", X[300:], self.labels(0, 600)[300:])

    @pytest.mark.parametrize("change", ["dropped", "scaled", "no features"])
    def test_other_features_of_the_same_rows(self, tmp_path, change):
        X, y = np.random.default_rng(0).normal(size=(SIZE, 3)), self.labels()
        self.make(tmp_path / "one.everhold", X, y)
        other = {"dropped": X[:, 1:], "scaled": 2.0 * X, "no features": np.arange(SIZE, dtype=float)[:, None]}[change]
        with pytest.raises(RowsInUse):
            self.make(tmp_path / "two.everhold", other, y)

    def test_a_dropped_column_in_another_order(self, tmp_path):
        X, y, order = (
            np.random.default_rng(0).normal(size=(SIZE, 3)),
            self.labels(),
            np.random.default_rng(1).permutation(SIZE),
        )
        self.make(tmp_path / "one.everhold", X, y)
        with pytest.raises(RowsInUse):
            self.make(tmp_path / "two.everhold", X[order][:, 1:], y[order])

    def test_a_contest_and_a_test_set_of_the_same_labels(self, tmp_path):
        y = self.labels()
        eh.Contest.create(tmp_path / "contest.everhold", y, classes=[0, 1], privacy=PRIVACY).release()
        with pytest.raises(RowsInUse):
            self.make(tmp_path / "test.everhold", np.random.default_rng(0).normal(size=(SIZE, 3)), y)


CHANGES = {
    "the same": lambda y: (y, {}),
    "one label changed": lambda y: (np.concatenate([1 - y[:1], y[1:]]), {}),
    "floats": lambda y: (y.astype(float), {}),
    "one row fewer": lambda y: (y[:-1], {}),
    "the first row fewer": lambda y: (y[1:], {}),
    "other ids": lambda y: (y, {"ids": [f"row {i}" for i in range(len(y))]}),
}


class TestContests:
    def make(self, path, y, **options):
        eh.Contest.create(path, y, classes=[0, 1], privacy=PRIVACY, **options).release()

    @pytest.mark.parametrize("positive", [0.5, 0.1])
    @pytest.mark.parametrize("change", CHANGES)
    def test_labels_have_one_contest(self, tmp_path, change, positive):
        y = (np.random.default_rng(0).random(SIZE) < positive).astype(int)
        self.make(tmp_path / "one.everhold", y)
        again, options = CHANGES[change](y)
        with pytest.raises(RowsInUse):
            self.make(tmp_path / "two.everhold", again, **options)

    @pytest.mark.parametrize("positive", [0.5, 0.1, 0.01])
    def test_other_labels_have_another(self, tmp_path, positive):
        """Nine in ten places agree where one label in twenty is positive: that is chance."""
        for seed in range(6):
            y = (np.random.default_rng(seed).random(SIZE) < positive).astype(int)
            self.make(tmp_path / f"{seed}.everhold", y)

    def test_labels_that_are_not_registered_are_not_looked_up(self, tmp_path):
        options = {"task": "regression", "low": -9.0, "high": 9.0, "privacy": PRIVACY}
        y = np.random.default_rng(0).normal(size=SIZE).clip(-9, 9)
        eh.Contest.create(tmp_path / "one.everhold", y, **options).release()
        known = len(Registry().studies())
        eh.Contest.create(tmp_path / "two.everhold", y, **options, register=False).release()
        assert len(Registry().studies()) == known


def test_plain_studies_that_are_not_registered_are_not_looked_up(tmp_path):
    with eh.Holdout.create(tmp_path / "one.everhold", people(0), prior=eh.Reference(people(99))) as study:
        study.ask("age > 40")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RowsInUseWarning)
        eh.Holdout.create(tmp_path / "two.everhold", people(0), prior=eh.Reference(people(99)), register=False).release()


class TestLikeness:
    def test_what_two_samples_share_is_not_telling(self):
        """Columns of plans: every tenth of a scale, days, quotas. Two tables made by one plan are equal in them."""
        plan = {
            "evenly": np.linspace(0.0, 1.0, 1_000) + 0.05,
            "twice each": np.repeat(np.random.default_rng(0).normal(size=500), 2),
            "number": np.arange(1_000),
            "day": np.datetime64("2024-01-01") + np.arange(1_000),
        }
        for name, column in plan.items():
            found = _likeness({name: column, "x": np.random.default_rng(1).random(1_000) < 0.3}, b"k")
            again = _likeness({name: column, "x": np.random.default_rng(2).random(1_000) < 0.3}, b"k")
            assert not {*found.digests} & {*again.digests}, name

    def test_most_of_a_plan_is_not_telling(self, tmp_path):
        """Hours of a year, numbers of patients, four visits each: tables by one plan that lack a few rows each."""

        def by_plan(seed):
            rng = np.random.default_rng(seed)
            hours = np.sort(rng.permutation(5_100)[:5_000])
            days = np.sort(rng.permutation(8_000)[:5_000])
            visits = np.delete(np.repeat(np.arange(1_260), 4), rng.permutation(5_040)[:40])
            numbers = np.where(rng.random(5_000) < 0.01, rng.integers(0, 5_000, 5_000), np.arange(5_000))
            return {"hour": hours / 24, "who": visits, "number": numbers, "day": days / 7}

        registry = Registry(tmp_path)
        for seed in range(4):
            facts = TableFacts(5_000, _likeness(by_plan(seed), registry.key))
            assert [one.alone for one in facts.likeness.cells.values()] == [False], "of half a grid"
            facts = replace(facts, likeness=replace(facts.likeness, cells={**facts.likeness.cells, "x": _cells(seed)}))
            digests = {"rows": np.random.default_rng(seed).integers(0, 2**62, 5_000, dtype=np.uint64)}
            known = registry.enter(study=str(seed), kind="holdout", path=tmp_path, digests=digests, table=facts)
            assert not known

    def test_it_says_nothing_without_the_key(self):
        first, second = (_likeness(people(0), key) for key in (b"k", b"l"))
        assert not {*first.digests} & {*second.digests}
        assert first.placed is not None
        assert second.placed is not None
        assert not first.placed.agreeing(second.placed)

    def test_the_registry_shows_no_value_without_its_key(self, tmp_path):
        """Neither which cells or rows are equal, nor how often each occurs."""
        registry, rare = Registry(tmp_path), np.random.default_rng(0).random(SIZE) < 0.03
        shown = []
        for study, column in enumerate((rare, rare, ~rare)):
            table = {"rare": column, "again": column, "x": np.arange(SIZE) % 2 == 0}
            digests = {"rows": np.where(column, 7, 8).astype(np.uint64)}
            facts = TableFacts(SIZE, _likeness(table, registry.key))
            registry.enter(study=str(study), kind="holdout", path=tmp_path, digests=digests, table=facts)
            with sqlite3.connect(tmp_path / "registry.sqlite") as db:
                found = db.execute(
                    "SELECT sealed FROM values_at WHERE study = ? UNION ALL SELECT sealed FROM row_digests WHERE study = ?",
                    (str(study), str(study)),
                ).fetchall()
            assert len(found) == 2
            shown.append([one for (one,) in found])
        assert [[len(one) for one in these] for these in shown[1:]] == [[len(one) for one in shown[0]]] * 2
        codes = [np.frombuffer(these[0][len(these[0]) % 4 :], "<u4") for these in shown]
        for one in codes:
            assert len(np.unique(one)) >= len(one) - 9, "equal cells have different codes"
        assert np.mean(codes[0] == codes[1]) < 0.01
        (known,) = registry.overlapping({"rows": np.arange(9, dtype=np.uint64)}, facts)
        assert known.id == "2"

    @pytest.mark.parametrize("kind", ["yes/no", "groups"])
    def test_the_chance_of_equal_tables_is_what_is_computed(self, kind):
        """Of 4,000 pairs of small samples of one population no more are equal than the bound allows, by its mean."""
        from everhold.data.likeness import _counts, _equal_by_chance

        rng = np.random.default_rng(0)
        cells = rng.integers(0, 2**63, 3 if kind == "groups" else 2, dtype=np.uint64)
        equal, bound = 0, []
        for _ in range(4_000):
            one, other = (np.sort(cells[rng.integers(0, len(cells), 30)]) for _ in range(2))
            equal += bool(np.array_equal(one, other))
            bound.append(np.exp(_equal_by_chance(_counts(one))))
        assert 0 < equal <= sum(bound) + 5 * np.sqrt(sum(bound))
