"""The registry of rows that have a study: what it recognises, what it warns of, what it never holds."""

from __future__ import annotations

import sqlite3
import stat
import warnings

import numpy as np
import pytest

import everhold as eh
from everhold.errors import LedgerError, RowsInUseWarning
from everhold.ledger.reader import read_study
from everhold.ledger.registry import Registry
from everhold.report.certificate import assumptions


def people(size=3_000, seed=0):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "bmi": rng.normal(25, 4, size), "smoker": rng.random(size) < 0.2}


def make(path, rows, **options):
    return eh.Holdout.create(path, rows, prior=eh.Reference(people(seed=99)), seed=1, **options)


class TestHoldouts:
    def test_a_second_study_of_the_same_rows_is_warned_of(self, tmp_path):
        rows = people()
        with make(tmp_path / "one.everhold", rows) as study:
            study.ask("age > 40")
        with pytest.warns(RowsInUseWarning, match=r"one\.everhold.*eh\.TestSet") as said:
            make(tmp_path / "two.everhold", rows).release()
        assert said[0].filename == __file__, "the caller's line, not one of the library"
        one, two = (read_study(tmp_path / f"{name}.everhold").first_record for name in ("one", "two"))
        assert {*one.record().body} == {*two.record().body}  # that they overlap would say something about rows
        assert assumptions(one) == assumptions(two)
        assert any("What other studies of these rows disclosed" in line for line in assumptions(one))
        assert eh.Holdout.audit_file(tmp_path / "two.everhold").ok
        with pytest.warns(RowsInUseWarning, match="have a study already"):
            eh.Holdout(rows, prior=eh.Reference(people(seed=99)))

    def test_rows_in_another_order_or_half_of_them_are_recognised(self, tmp_path):
        rows = people()
        with make(tmp_path / "one.everhold", rows) as study:
            study.ask("age > 40")
        order = np.random.default_rng(5).permutation(3_000)
        for chosen in (order, order[:1_500]):
            with pytest.warns(RowsInUseWarning):
                eh.Holdout({name: column[chosen] for name, column in rows.items()}, prior=eh.Reference(people(seed=99)))

    def test_a_study_that_was_deleted_is_remembered(self, tmp_path):
        with make(tmp_path / "one.everhold", people()) as study:
            study.ask("age > 40")
        for path in tmp_path.glob("one.everhold*"):
            path.unlink()
        with pytest.warns(RowsInUseWarning):
            make(tmp_path / "one.everhold", people()).release()

    def test_nothing_is_said_of_a_study_that_has_answered_nothing(self, tmp_path):
        make(tmp_path / "one.everhold", people()).release()
        with warnings.catch_warnings():
            warnings.simplefilter("error", RowsInUseWarning)
            make(tmp_path / "two.everhold", people()).release()

    @pytest.mark.parametrize("other", [people(seed=1), people(300, seed=2)])
    def test_nothing_is_said_of_other_rows(self, tmp_path, other):
        with make(tmp_path / "one.everhold", people()) as study:
            study.ask("age > 40")
        with warnings.catch_warnings():
            warnings.simplefilter("error", RowsInUseWarning)
            eh.Holdout(other, prior=eh.Reference(people(seed=99)))

    def test_rows_that_coincide_by_chance_are_not_the_same(self, tmp_path):
        """Tables with few different rows: every row occurs in both, as often as chance has it."""

        def few(seed):
            rng = np.random.default_rng(seed)
            return {"a": rng.integers(0, 5, 2_000), "b": rng.random(2_000) < 0.3}

        with eh.Holdout.create(tmp_path / "one.everhold", few(0), prior=eh.Reference(few(1))) as study:
            study.ask("a > 2")
        with warnings.catch_warnings():
            warnings.simplefilter("error", RowsInUseWarning)
            eh.Holdout(few(2), prior=eh.Reference(few(3)))

    def test_contests_of_the_same_size_are_not_the_same(self, tmp_path):
        rng = np.random.default_rng(0)
        for name in ("one", "two"):
            with warnings.catch_warnings():
                warnings.simplefilter("error", RowsInUseWarning)
                contest = eh.Contest.create(tmp_path / f"{name}.everhold", rng.integers(0, 2, 400), classes=[0, 1])
            contest.submit("ann", rng.integers(0, 2, 400))
            contest.release()

    def test_a_test_set_warns_too(self, tmp_path):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(500, 3)), rng.integers(0, 2, 500)

        class Model:
            def predict(self, X):
                return (X[:, 0] > 0).astype(int)

        test = eh.TestSet(X, y, reference=rng.normal(size=(500, 3)), path=tmp_path / "test.everhold", classes=[0, 1])
        test.score(Model())
        test.release()
        with pytest.warns(RowsInUseWarning):
            eh.TestSet(X, y, reference=rng.normal(size=(500, 3)), classes=[0, 1])

    def test_files_read_in_place_are_recognised(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        place = tmp_path / "rows.parquet"
        parquet.write_table(pa.table(people()), place)
        with make(tmp_path / "one.everhold", place, engine="duckdb") as study:
            study.ask("age > 40")
        with pytest.warns(RowsInUseWarning):
            eh.Holdout(place, prior=eh.Reference(people(seed=99)), engine="duckdb")

    def test_a_registry_that_cannot_be_written_does_not_stop_a_study(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / "file"))
        with pytest.warns(RowsInUseWarning, match="not in the registry"):
            make(tmp_path / "one.everhold", people()).release()

    def test_a_broken_registry_does_not_stop_a_holdout_in_memory(self, tmp_path, monkeypatch):
        monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path))
        (tmp_path / "registry.sqlite").write_bytes(b"not a database" * 100)
        with pytest.warns(RowsInUseWarning, match="is not known"):
            eh.Holdout(people(), prior=eh.Reference(people(seed=99)))


class TestContent:
    def test_it_holds_digests_under_a_key_for_the_owner_alone(self, tmp_path):
        registry = Registry(tmp_path / "home")
        digests = registry.digests(["case\nsecret-1", "case\nsecret-2"])
        registry.enter(study="s", kind="gate", path=tmp_path / "g", digests={"ids": digests})
        content = b"".join(one.read_bytes() for one in (tmp_path / "home").iterdir())
        assert b"secret" not in content
        assert stat.S_IMODE((tmp_path / "home" / "registry.key").stat().st_mode) == 0o600
        assert not np.isin(Registry(tmp_path / "other").digests(["case\nsecret-1"]), digests).any()

    def test_large_sets_are_compared_by_the_same_rows(self, tmp_path):
        registry = Registry(tmp_path)
        ids = [f"case {number}" for number in range(50_000)]
        registry.enter(study="s", kind="gate", path=tmp_path / "g", digests={"ids": registry.digests(ids)})
        for first, last, expected in ((0, 50_000, 1.0), (40_000, 90_000, 0.2), (0, 2_000, 1.0), (48_000, 98_000, None)):
            others = registry.digests(f"case {number}" for number in range(first, last))
            found = registry.overlapping({"ids": others})
            assert [round(one.common, 1) for one in found] == ([] if expected is None else [expected])

    def test_a_head_is_followed_by_one_head_only(self, tmp_path):
        registry = Registry(tmp_path)
        assert registry.newest_head("s") is None
        registry.enter(study="s", kind="gate", path=tmp_path / "g", digests={"ids": registry.digests(["a"])})
        assert registry.newest_head("s") == ""
        assert registry.advance("s", "", "3:ab")
        assert registry.advance("s", "3:ab", "7:cd")
        assert not registry.advance("s", "3:ab", "5:ef")  # a copy that did not see what came in between
        assert registry.newest_head("s") == "7:cd"

    def test_a_broken_registry_says_what_to_do(self, tmp_path):
        (tmp_path / "registry.sqlite").write_bytes(b"not a database, but long enough to look like a file" * 50)
        with pytest.raises(LedgerError, match="EVERHOLD_HOME"):
            Registry(tmp_path).studies()
        (tmp_path / "registry.key").write_text("no key")
        with pytest.raises(LedgerError, match=r"registry\.key"):
            Registry(tmp_path).digests(["a"])

    def test_a_key_that_is_gone_is_not_made_anew(self, tmp_path):
        registry = Registry(tmp_path)
        registry.enter(study="s", kind="gate", path=tmp_path / "g", digests={"ids": registry.digests(["a"])})
        (tmp_path / "registry.key").unlink()
        with pytest.raises(LedgerError, match=r"registry\.key"):
            registry.digests(["a"])

    def test_a_set_put_together_from_many_is_recognised(self, tmp_path):
        registry = Registry(tmp_path)
        for number in range(11):
            ids = registry.digests(f"{number} {case}" for case in range(1_000))
            registry.enter(study=f"s{number}", kind="gate", path=tmp_path / "g", digests={"ids": ids})
        mixed = registry.digests(f"{number} {case}" for number in range(11) for case in range(90))
        assert len(registry.overlapping({"ids": mixed})) == 11
        fresh = registry.digests(f"new {case}" for case in range(1_000))
        assert registry.overlapping({"ids": np.concatenate([fresh, mixed[:50]])}) == []

    def test_what_is_expected_counts_where_both_sets_have_it(self, tmp_path):
        registry = Registry(tmp_path)
        ids, told, other = (registry.digests(f"{case}{more}" for case in range(50)) for more in ("", " yes", " no"))
        registry.enter(study="s", kind="gate", path=tmp_path / "g", digests={"expected": told, "ids": ids})
        assert registry.overlapping({"expected": other, "ids": ids}) == []
        assert len(registry.overlapping({"expected": told, "ids": ids})) == 1
        assert len(registry.overlapping({"ids": ids})) == 1

    def test_it_waits_for_another_process(self, tmp_path):
        registry = Registry(tmp_path)
        registry.enter(study="s", kind="gate", path=tmp_path / "g", digests={"ids": registry.digests(["a"])})
        from threading import Event, Thread

        begun, found = Event(), []
        other = sqlite3.connect(tmp_path / "registry.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")

        def look():
            begun.set()
            found.append(registry.studies())

        thread = Thread(target=look, daemon=True)
        thread.start()
        begun.wait()
        other.execute("COMMIT")
        other.close()
        thread.join()
        assert [one.id for one in found[0]] == ["s"]


def test_charges_never_fall_and_go_with_their_study(tmp_path):
    registry = Registry(tmp_path)
    assert registry.charges("one") == 0
    registry.enter(study="one", kind="holdout", path=tmp_path / "a", digests={})
    for charges, known in ((2, 2), (1, 2), (5, 5)):
        registry.note_charges("one", charges)
        assert registry.charges("one") == known
    registry.note_charges("unknown", 3)
    assert registry.charges("unknown") == 0
    registry.forget("one")
    assert registry.charges("one") == 0
