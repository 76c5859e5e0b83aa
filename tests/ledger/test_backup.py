"""Backups, and what becomes of them: a copy is whole, an older one is recognised, and one that is up to date goes on."""

from __future__ import annotations

import shutil
import stat
import threading

import numpy as np
import pytest

import everhold as eh
from everhold.errors import LedgerError
from everhold.ledger.backup import back_up
from everhold.ledger.guard import Guard
from everhold.ledger.registry import Registry
from everhold.ledger.store import Store
from everhold.server.config import Config, StudyAt
from everhold.server.state import ServerState
from everhold.session.registered import RegisteredStudy, note_heads


def people(size=3_000, seed=0):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < (0.2 if seed == 99 else 0.35)}


ROWS = people()
PUBLIC = people(seed=99)


def create(path, private=False, **options):
    if private:
        schema = eh.Schema.propose(PUBLIC).revised("age", low=18, high=100)
        options |= {"privacy": eh.Privacy(epsilon=3.0), "schema": schema}
    return eh.Holdout.create(path, ROWS, prior=eh.Reference(PUBLIC), seed=1, **options)


def restore(folder, place):
    """As the page says: the files of the copy over those that are there."""
    for one in folder.iterdir():
        if one.name != "registry":
            shutil.copy2(one, place / one.name)


class TestOlderCopies:
    @pytest.mark.parametrize("private", [False, True])
    @pytest.mark.parametrize("act", ["quiet", "read"])
    def test_a_restored_backup_that_lacks_answers_is_refused(self, tmp_path, private, act):
        """Also where only quiet answers are missing, which no budget knows of; and its guard is restored with it."""
        path = tmp_path / "s.everhold"
        with create(path, private) as study:
            study.ask("age > 40")
        back_up(path, tmp_path / "copy")
        with eh.Holdout.open(path, data=ROWS) as study:
            answer = study.ask("age > 50") if act == "quiet" else study.read("age > 50")
            assert not answer.surprise
        restore(tmp_path / "copy", tmp_path)
        with pytest.raises(LedgerError, match="older copy"):
            eh.Holdout.open(path, data=ROWS)
        assert eh.Holdout.audit_file(path).ok  # it can still be read

    @pytest.mark.parametrize("private", [False, True])
    def test_a_copy_that_is_up_to_date_goes_on(self, tmp_path, private):
        path = tmp_path / "s.everhold"
        with create(path, private) as study:
            study.ask("age > 40")
        head, _ = back_up(path, tmp_path / "copy")
        restore(tmp_path / "copy", tmp_path)
        with eh.Holdout.open(path, data=ROWS, expect_head=str(head)) as study:
            assert study.rounds == 1
            assert study.ask("age > 50").round == 2

    def test_what_was_charged_is_noted_before_the_study_is_given_up(self, tmp_path):
        """As if the process were killed: nothing is noted afterwards."""
        path = tmp_path / "s.everhold"
        study = create(path)
        back_up(path, tmp_path / "copy")
        study.read("age > 40")
        study.session.recorder.journal.store.close()
        restore(tmp_path / "copy", tmp_path)
        with pytest.raises(LedgerError, match="older copy"):
            eh.Holdout.open(path, data=ROWS)

    def test_quiet_answers_are_noted_once_a_second(self, tmp_path):
        study = create(tmp_path / "s.everhold")
        now = [0.0]
        journal = study.session.recorder.journal
        journal._when_durable.clear()
        fingerprint = Registry().studies()[0].id
        note_heads(RegisteredStudy(fingerprint), journal, clock=lambda: now[0])
        before = Registry().newest_head(fingerprint)
        study.ask("age > 40")
        assert Registry().newest_head(fingerprint) == before
        now[0] = 1.0
        study.ask("age > 41")
        assert Registry().newest_head(fingerprint) == study.head
        study.release()

    def test_two_copies_that_are_asked_in_turn(self, tmp_path):
        """The second one to go on is refused, whichever it is."""
        (tmp_path / "other").mkdir()
        create(tmp_path / "s.everhold").release()
        restore_from = tmp_path / "copy"
        back_up(tmp_path / "s.everhold", restore_from)
        restore(restore_from, tmp_path / "other")
        first = eh.Holdout.open(tmp_path / "s.everhold", data=ROWS)
        second = eh.Holdout.open(tmp_path / "other" / "s.everhold", data=ROWS)
        first.read("age > 40")
        with pytest.raises(LedgerError, match="another copy"):
            second.read("age > 50")
        with pytest.raises(LedgerError, match="interrupted on the way"):
            second.ask("age > 60")
        assert first.ask("age > 60").round == 2
        first.release()
        second.release()

    def test_a_registry_that_cannot_be_used_stops_nobody(self, tmp_path, monkeypatch):
        path = tmp_path / "s.everhold"
        create(path).release()
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "registry.sqlite").write_bytes(b"nothing of the kind" * 100)
        monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / "broken"))
        with eh.Holdout.open(path, data=ROWS) as study:
            assert study.read("age > 40").round == 1


class TestServing:
    def test_an_older_copy_is_not_served(self, tmp_path, monkeypatch):
        path = tmp_path / "s.everhold"
        rows = tmp_path / "rows.csv"
        rows.write_text("age,smoker\n" + "\n".join(f"{a},{str(b).lower()}" for a, b in zip(*ROWS.values(), strict=True)))
        eh.Holdout.create(path, rows, prior=eh.Reference(PUBLIC), seed=1).release()
        back_up(path, tmp_path / "copy")
        with eh.Holdout.open(path) as study:
            study.ask("age > 40")
            head = study.head
        tokens = tmp_path / "tokens.json"
        ServerState(Config((StudyAt(path, expect_head=head),), tokens=tokens)).close()
        restore(tmp_path / "copy", tmp_path)
        monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / "another machine"))
        with pytest.raises(LedgerError, match="older copy"):
            ServerState(Config((StudyAt(path, expect_head=head),), tokens=tokens))
        ServerState(Config((StudyAt(path),), tokens=tokens)).close()  # the control: without the head nobody can tell


class TestBackup:
    def test_it_holds_everything_for_the_owner_alone(self, tmp_path):
        path = tmp_path / "s.everhold"
        with create(path, private=True) as study:
            study.ask("smoker")
            head, copies = back_up(path, tmp_path / "a" / "copy")
            assert str(head) == study.head
        names = {one.name for one in copies}
        assert names == {f"s.everhold{end}" for end in ("", ".key", ".spent")} | {"registry.sqlite", "registry.key"}
        for one in copies:
            assert stat.S_IMODE(one.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "a" / "copy").stat().st_mode) == 0o700
        assert Registry(tmp_path / "a" / "copy" / "registry").studies() == Registry().studies()

    def test_folders_beside_the_study_are_copied(self, tmp_path):
        gate = eh.Gate.create(tmp_path / "g.everhold", incumbent={f"c{i}": i % 2 for i in range(200)})
        gate.check({f"c{i}": 1 for i in range(200)})
        gate.release()
        back_up(tmp_path / "g.everhold", tmp_path / "copy")
        here, there = (
            {str(one.relative_to(top)) for one in top.rglob("g.everhold*") if not one.name.endswith(".lock")}
            for top in (tmp_path, tmp_path / "copy")
        )
        assert {one for one in here if not one.startswith("copy")} == there

    def test_it_replaces_nothing(self, tmp_path):
        create(tmp_path / "s.everhold").release()
        back_up(tmp_path / "s.everhold", tmp_path / "copy")
        with pytest.raises(LedgerError, match="another folder"):
            back_up(tmp_path / "s.everhold", tmp_path / "copy")
        with pytest.raises(LedgerError, match="another folder"):
            back_up(tmp_path / "s.everhold", tmp_path)
        with pytest.raises(LedgerError, match="no study"):
            back_up(tmp_path / "t.everhold", tmp_path / "other")

    def test_a_copy_of_a_study_that_is_being_asked_can_be_restored(self, tmp_path):
        """The guard of every copy knows no charge that its study does not show."""
        path = tmp_path / "s.everhold"
        study = create(path, private=True)
        done = threading.Event()

        def ask():
            for number in range(30):
                study.read(f"age > {20 + number}")
            done.set()

        asking = threading.Thread(target=ask)
        asking.start()
        folders = []
        while not done.is_set() or not folders:
            folders.append(tmp_path / f"copy-{len(folders)}")
            back_up(path, folders[-1])
        asking.join()
        study.release()
        for folder in folders:
            copy = folder / "s.everhold"
            assert eh.Holdout.audit_file(copy).ok
            store = Store.open(copy, write=False)
            assert store.holds(Guard.open(copy).head)
            store.close()


def test_the_registry_is_for_its_owner_alone(tmp_path):
    """Also one that an earlier release made."""
    registry = Registry(tmp_path / "home")
    registry.enter(study="a", kind="holdout", path=tmp_path / "a", digests={})
    place = tmp_path / "home" / "registry.sqlite"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    place.chmod(0o644)
    assert [one.id for one in registry.studies()] == ["a"]
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
