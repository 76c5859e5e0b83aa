"""The study's file: tampering, truncation, copies, locks, versions."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import everhold as eh
from everhold.errors import DataError, LedgerError
from everhold.ledger.codec import parse_record
from everhold.ledger.store import Record, Store
from everhold.session.settings import Settings

ROWS = {"x": np.arange(60.0), "b": np.arange(60) % 3 > 0}
PUBLIC = {"x": np.arange(30.0) * 2, "b": np.arange(30) % 2 > 0}


def small_study(path):
    """A study with a few rounds of every kind, a surprise among them."""
    held = eh.Holdout.create(path, ROWS, prior=eh.Reference(PUBLIC), seed=3, confidence=0.9)
    held.ask("x > 20", request_id="one", who="ann")
    held.ask("x > 20", request_id="two")
    held.ask(eh.Values(sample=np.ones(60, bool), reference=np.arange(30) < 3))
    held.mean("x")
    held.ask("x < 30 OR b")
    held.ask("x >= 0")
    assert held.surprises >= 1
    head = held.head
    held.release()
    return head


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "small.everhold"
    head = small_study(path)
    return path, head


class TestEveryByte:
    def bytes_of(self, study):
        return study[0].read_bytes()

    def test_it_is_sound_to_begin_with(self, study):
        assert eh.Holdout.audit_file(study[0]).ok
        assert len(self.bytes_of(study)) <= 5 * 4096

    @pytest.mark.parametrize("part", range(8))
    def test_every_flipped_byte_is_found(self, study, tmp_path, part):
        """Exhaustive: each byte of the file is changed once, by another bit pattern each."""
        data = self.bytes_of(study)
        place = tmp_path / "flipped.everhold"
        for at in range(part, len(data), 8):
            flipped = bytearray(data)
            flipped[at] ^= 1 + (at * 37 + part) % 255
            place.write_bytes(flipped)
            found = eh.Holdout.audit_file(place)
            assert not found.ok, f"byte {at} was changed from {data[at]} to {flipped[at]}, and nobody noticed"

    def test_every_truncation_is_found(self, study, tmp_path):
        data = self.bytes_of(study)
        place = tmp_path / "short.everhold"
        for size in range(len(data)):
            place.write_bytes(data[:size])
            assert not eh.Holdout.audit_file(place).ok, size
        place.write_bytes(data + bytes(4096))
        assert not eh.Holdout.audit_file(place).ok

    def test_every_swapped_pair_is_found(self, study, tmp_path):
        place = tmp_path / "swapped.everhold"
        with closing(Store.open(study[0], write=False)) as store:
            count = len(list(store.records()))
        columns = "kind, version, body, blob, hash"
        for one in range(1, count + 1):
            for other in range(one + 1, count + 1):
                shutil.copy(study[0], place)
                con = sqlite3.connect(place)
                rows = [
                    con.execute(f"SELECT {columns} FROM record WHERE seq = ?", (seq,)).fetchone() for seq in (one, other)
                ]
                for seq, row in zip((other, one), rows, strict=True):
                    con.execute(
                        "UPDATE record SET kind = ?, version = ?, body = ?, blob = ?, hash = ? WHERE seq = ?",
                        (*row, seq),
                    )
                con.commit()
                con.close()
                assert not eh.Holdout.audit_file(place).ok, (one, other)

    def test_a_forger_who_mends_the_chain_is_found_by_replay(self, study, tmp_path):
        """Somebody who recomputes every hash cannot change an answer, a price or a surprise: they follow from the rest.

        What a pinned head is for: the fit of a last surprise, which no later answer depends on yet, could be forged.
        """
        with closing(Store.open(study[0], write=False)) as store:
            records = list(store.records())
        changes = (
            "value",
            "low",
            "price",
            "cell",
            "fit",
            "dropped",
            "reading",
            "name",
            "identity",
            "repeat",
            "request",
            "extra",
        )
        for change in changes:
            forged = tmp_path / f"{change}.everhold"
            changed = []
            for record in records:
                body = json.loads(record.body)
                if record.kind == "repeat" and change == "repeat":
                    body["round"] = 99
                if record.kind == "round" and change in ("name", "identity") and body[change] is not None:
                    body[change] = '("b" = TRUE)'
                if record.kind == "round" and change in ("request", "extra"):
                    body[change] = [1]
                if record.kind == "round":
                    if change in ("value", "low", "price"):
                        body[change] += 1e-9
                    elif change == "cell" and body["cell"] is not None:
                        body["cell"] = body["cell"] + 1 if isinstance(body["cell"], int) else [body["cell"][0] + 1, 0]
                    elif change == "fit" and body["fit"] is not None:
                        body["fit"][-1] += 1000
                    elif change == "reading":
                        body["reading"][1] = str(int(body["reading"][1]) + 1)
                    elif change == "dropped" and body["round"] == 2:
                        continue
                text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
                changed.append(Record(record.kind, record.version, text, record.blob))
            store = Store.create(forged, changed[0])
            store.append(changed[1:])
            store.close()
            assert not eh.Holdout.audit_file(forged).ok, change


class TestOpening:
    def test_other_rows_are_refused(self, study, tmp_path):
        path = tmp_path / "s.everhold"
        for suffix in ("", ".key"):
            shutil.copy(f"{study[0]}{suffix}", f"{path}{suffix}")
        shuffled = {name: column[::-1] for name, column in ROWS.items()}
        eh.Holdout.open(path, data=shuffled).release()
        changed = {"x": np.append(np.arange(59.0), 58.5), "b": ROWS["b"]}
        fewer = {name: column[:-1] for name, column in ROWS.items()}
        for rows in (changed, fewer):
            with pytest.raises(LedgerError, match="not the rows"):
                eh.Holdout.open(path, data=rows)
        with pytest.raises(DataError, match="where its rows are"):
            eh.Holdout.open(path)

    def test_the_key_is_needed_to_ask_and_not_to_check(self, study, tmp_path):
        path = tmp_path / "s.everhold"
        shutil.copy(study[0], path)
        assert eh.Holdout.audit_file(path).ok
        with pytest.raises(LedgerError, match="key is missing"):
            eh.Holdout.open(path, data=ROWS)

    def test_private_rows_are_not_in_it(self, tmp_path):
        secret = {"word": np.array([f"private-{i}" for i in range(50)]), "x": np.full(50, 1234.56789)}
        public = {"word": np.array([f"public-{i}" for i in range(50)]), "x": np.arange(50.0)}
        held = eh.Holdout.create(tmp_path / "s.everhold", secret, prior=eh.Reference(public), seed=0)
        held.ask("word LIKE 'private%'")
        held.ask(eh.Values(sample=np.ones(50, bool), reference=np.zeros(50, bool)))
        held.release()
        content = (tmp_path / "s.everhold").read_bytes()
        assert b"private-" not in content
        assert np.float64(1234.56789).tobytes() not in content
        assert (tmp_path / "s.everhold.key").stat().st_mode & 0o077 == 0

    def test_the_fingerprint_confirms_no_guess(self, tmp_path):
        """The same rows in two studies have two fingerprints: without the key there is nothing to compare with."""
        prints = []
        for name in ("a", "b"):
            eh.Holdout.create(tmp_path / name, ROWS, prior=eh.Reference(PUBLIC), seed=0).release()
            with closing(Store.open(tmp_path / name, write=False)) as store:
                first = next(store.records())
            prints.append(json.loads(first.body)["fingerprint"])
        assert prints[0] != prints[1]

    def test_one_writer(self, study, tmp_path):
        path = tmp_path / "s.everhold"
        for suffix in ("", ".key"):
            shutil.copy(f"{study[0]}{suffix}", f"{path}{suffix}")
        held = eh.Holdout.open(path, data=ROWS)
        with pytest.raises(LedgerError, match="open for asking elsewhere"):
            eh.Holdout.open(path, data=ROWS)
        code = (
            "import everhold as eh, numpy as np, sys\n"
            f"try: eh.Holdout.open({str(path)!r}, data={{'x': np.arange(60.0), 'b': np.arange(60) % 3 > 0}})\n"
            "except eh.LedgerError as error: print(error)\n"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert "open for asking elsewhere" in said
        assert eh.Holdout.audit_file(path).ok  # reading goes on beside it
        held.release()
        eh.Holdout.open(path, data=ROWS).release()

    def test_somebody_who_writes_without_the_lock_is_noticed(self, study, tmp_path):
        path = tmp_path / "s.everhold"
        for suffix in ("", ".key"):
            shutil.copy(f"{study[0]}{suffix}", f"{path}{suffix}")
        held = eh.Holdout.open(path, data=ROWS)
        con = sqlite3.connect(path)
        con.execute("DELETE FROM record WHERE seq = (SELECT max(seq) FROM record)")
        con.commit()
        con.close()
        with pytest.raises(LedgerError, match="changed by somebody else"):
            held.ask("x > 33")

    def test_an_older_copy_is_refused_by_its_head(self, study, tmp_path):
        path, old = tmp_path / "s.everhold", tmp_path / "old.everhold"
        for suffix in ("", ".key"):
            shutil.copy(f"{study[0]}{suffix}", f"{path}{suffix}")
            shutil.copy(f"{study[0]}{suffix}", f"{old}{suffix}")
        held = eh.Holdout.open(path, data=ROWS)
        held.ask("x > 3.5")
        head = held.head
        held.release()
        eh.Holdout.open(path, data=ROWS, expect_head=head).release()
        eh.Holdout.open(path, data=ROWS, expect_head=study[1]).release()  # an earlier head is contained
        with pytest.raises(LedgerError, match="older copy"):
            eh.Holdout.open(old, data=ROWS, expect_head=head)
        assert "older copy" in str(eh.Holdout.audit_file(old, expect_head=head))
        fork = eh.Holdout.open(old, data=ROWS)
        fork.ask("x > 4.5")
        fork.release()
        with pytest.raises(LedgerError, match="another history"):
            eh.Holdout.open(old, data=ROWS, expect_head=head)
        with pytest.raises(LedgerError, match="is not a ledger head"):
            eh.Holdout.open(path, data=ROWS, expect_head="yesterday")

    def test_mistakes(self, study, tmp_path):
        with pytest.raises(LedgerError, match="there is no study"):
            eh.Holdout.open(tmp_path / "nothing.everhold")
        with pytest.raises(LedgerError, match="exists already"):
            eh.Holdout.create(study[0], ROWS, prior=eh.Reference(PUBLIC))
        (tmp_path / "text").write_text("hello")
        assert "is not an everhold study" in str(eh.Holdout.audit_file(tmp_path / "text"))
        with closing(sqlite3.connect(tmp_path / "other.db")) as other:
            other.execute("CREATE TABLE t (x)")
        assert "not an everhold study" in str(eh.Holdout.audit_file(tmp_path / "other.db"))
        fresh = eh.Sampler(lambda rng, size: {"x": rng.random(size), "b": rng.random(size) < 0.5}, size=None)
        with pytest.raises(LedgerError, match="fixed rows"):
            eh.Holdout.create(tmp_path / "fresh.everhold", ROWS, prior=fresh)

    def test_unknown_versions_are_refused(self, study, tmp_path):
        with closing(Store.open(study[0], write=False)) as store:
            records = list(store.records())
        for changed in (
            Record("round", 2, "{}"),
            Record("verdict", 1, "{}"),
            Record("round", 1, "[]"),
            Record("round", 1, "{"),
        ):
            with pytest.raises(LedgerError, match=r"newer|readable"):
                parse_record(changed, {})
        path = tmp_path / "new.everhold"
        shutil.copy(study[0], path)
        con = sqlite3.connect(path)
        con.execute("PRAGMA user_version = 2")
        con.close()
        assert "format 2" in str(eh.Holdout.audit_file(path))
        assert len(records) > 5


class TestBesideReaders:
    def test_a_slow_reader_does_not_stop_the_writer(self, tmp_path):
        path = tmp_path / "s.everhold"
        small_study(path)
        held = eh.Holdout.open(path, data=ROWS)
        reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        done = threading.Timer(0.5, lambda: reader.execute("COMMIT"))
        done.start()
        assert held.ask("x > 41").round == held.rounds
        done.join()
        reader.close()
        with closing(Store.open(path, write=False)) as store:
            next(store.records())
            assert held.ask("x > 42").round == held.rounds  # an unfinished reader holds nothing
        held.release()

    def test_an_audit_is_of_one_moment(self, tmp_path):
        path = tmp_path / "s.everhold"
        small_study(path)
        held = eh.Holdout.open(path, data=ROWS)
        found = eh.Holdout.audit_file(path, progress=lambda done: held.ask(f"x > {done}.25") if done < 4 else None)
        assert found.ok, str(found)
        assert held.audit().rounds == found.rounds + 3
        held.release()


class TestNothingUnrecordedIsTold:
    def test_batches_are_checked_before_anything_is_charged(self, tmp_path):
        held = eh.Holdout.create(tmp_path / "s.everhold", ROWS, prior=eh.Reference(PUBLIC), seed=0)
        held.ask("x > 0", request_id="r/2")
        with pytest.raises(LedgerError, match="Nothing was charged"):
            held.ask_many(["x > 1", "x > 2"], request_id="r")
        held.ask(eh.Values(sample=ROWS["b"], reference=PUBLIC["b"], name="n"))
        with pytest.raises(eh.QuestionError, match="belongs to a question with other values"):
            held.ask_many(["x > 11", "x > 12", eh.Values(sample=~ROWS["b"], reference=~PUBLIC["b"], name="n")])
        assert held.rounds == 2
        assert held.audit().ok
        held.release()
        with pytest.raises(LedgerError, match="was closed"):
            held.ask("x > 30")
        assert held.rounds == 2

    def test_text_that_cannot_be_written_is_refused_before_rows_are_read(self, tmp_path):
        held = eh.Holdout.create(tmp_path / "s.everhold", ROWS, prior=eh.Reference(PUBLIC), seed=0)
        for ask in (
            lambda: held.ask("x > 1", who="\ud800"),
            lambda: held.ask("x > 1", request_id="\ud800"),
            lambda: held.ask(lambda rows: rows["b"], name="\ud800"),
            lambda: held.ask_many(["x > 1", "x > 2"], who="\ud800"),
        ):
            with pytest.raises(eh.QuestionError, match="lone surrogate"):
                ask()
        assert held.rounds == 0
        assert held.ask("x > 1").round == 1
        held.release()

    def test_settings_of_all_kinds_of_numbers(self, tmp_path):
        from fractions import Fraction

        held = eh.Holdout.create(
            tmp_path / "s.everhold",
            ROWS,
            prior=eh.Reference(PUBLIC),
            confidence=Fraction(9, 10),
            known_rows=np.int64(3),
            density=np.float32(0.5),
            rule=eh.Corrective(cap=np.float32(4)),
            tolerance=eh.Anytime(share=np.float32(0.5)),
            seed=2**127,
        )
        kept = held.settings.to_dict()
        assert kept["tolerance"] == {"name": "Anytime", "share": 0.5, "noise": None, "cells": 0.25}
        assert Settings.from_dict(kept).tolerance == eh.Anytime(share=0.5)
        kept["tolerance"] = {"name": "Anytime", "share": 0.5, "deviations": 3.0, "cells": 0.25}
        with pytest.raises(LedgerError, match="deviations"):
            Settings.from_dict(kept)
        held.ask("x > 1")
        assert held.audit().ok
        held.release()
        with pytest.raises(eh.SettingError, match="too large"):
            eh.Holdout(ROWS, prior=eh.Reference(PUBLIC), seed=10**5000)


class TestResuming:
    def test_a_session_in_pieces_gives_the_answers_of_one(self, tmp_path):
        """Closed and opened after every question, rows shuffled each time: equal to one unbroken session in memory."""
        rng = np.random.default_rng(0)
        private = {"x": rng.normal(1.0, 1.0, 3000), "y": rng.random(3000)}
        public = {"x": rng.normal(0.0, 1.0, 2000), "y": rng.random(2000)}
        asked = [f"x > {cut}" for cut in (0, 0.5, 1, 2, -1)] + ["x > 1 AND y < 0.3", "y > 0.5", "x * y > 0.7"]
        whole = eh.Holdout(private, prior=eh.Reference(public), seed=9)
        expected = [whole.ask(question) for question in asked]
        path = tmp_path / "s.everhold"
        eh.Holdout.create(path, private, prior=eh.Reference(public), seed=9).release()
        for question, answer in zip(asked, expected, strict=True):
            order = rng.permutation(3000)
            with eh.Holdout.open(path, data={name: column[order] for name, column in private.items()}) as held:
                got = held.ask(question)
                assert got.surprise == answer.surprise
                assert abs(got.value - answer.value) < 1e-3
        assert whole.surprises > 1
        found = eh.Holdout.audit_file(path)
        assert found.ok
        assert (found.rounds, found.surprises) == (len(asked), whole.surprises)

    def test_files_splits_units_and_settings_come_back(self, tmp_path):
        import pandas as pd

        rng = np.random.default_rng(1)
        frame = pd.DataFrame({"who": np.repeat(np.arange(300), 4), "x": rng.random(1200), "c": rng.choice(["a", "b"], 1200)})
        frame.to_csv(tmp_path / "rows.csv", index=False)
        path = tmp_path / "s.everhold"
        held = eh.Holdout.create(
            path, tmp_path / "rows.csv", prior=eh.Split(0.4), unit="who", rule="entropic", confidence=0.9, seed=4
        )
        first = held.ask("x > 0.3 AND c = 'a'")
        size = held.size
        held.release()
        with eh.Holdout.open(path) as again:
            assert again.size == size == 180
            assert again.ask("c = 'a' AND 0.3 < x") == first
            assert again.settings.rule == "entropic"
            assert again.settings.confidence == 0.9
            again.mean("x")
            assert again.audit().ok

    def test_values_and_callables_are_kept_by_their_public_side(self, tmp_path):
        path = tmp_path / "s.everhold"
        with eh.Holdout.create(path, ROWS, prior=eh.Reference(PUBLIC), seed=0) as held:
            answer = held.ask(lambda rows: rows["x"] > 10, name="late", request_id="r")
            values = eh.Values(sample=ROWS["b"], reference=PUBLIC["b"])
            other = held.ask(values, request_id="v")
        with eh.Holdout.open(path, data=ROWS) as held:
            assert held.ask(lambda rows: rows["x"] > 10, name="late", request_id="r") == answer
            assert held.ask(values, request_id="v") == other
            with pytest.raises(LedgerError, match="belongs to another question"):
                held.ask(eh.Values(sample=~ROWS["b"], reference=~PUBLIC["b"]), request_id="v")
            assert held.rounds == 2
            assert held.audit().ok


KEPT_ROUNDS, KEPT_SURPRISES = 27, 5
"""Of the kept study: asks, readings, a choice, a bit, a verdict, a certificate and a last act."""


@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_replay_does_not_depend_on_threads(threads):
    """The kept study, audited in a process of its own with another number of threads in the linear algebra."""
    kept = Path(__file__).parent / "kept" / "format-1.everhold"
    code = f"import everhold as eh; print(eh.Holdout.audit_file({str(kept)!r}).ok)"
    variables = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **variables}
    )
    assert said.stdout.strip() == "True"


def test_a_file_of_the_first_format_still_replays():
    """Kept in the repository since format 1; a change that breaks it needs a new version and a reader for the old."""
    kept = Path(__file__).parent / "kept" / "format-1.everhold"
    found = eh.Holdout.audit_file(kept)
    assert found.ok, str(found)
    assert (found.rounds, found.surprises) == (KEPT_ROUNDS, KEPT_SURPRISES)
