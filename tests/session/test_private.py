"""Private studies from creation to audit: what is refused, charged, recorded and replayed, and what a crash costs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.privacy import COST_ONE
from everhold.data.sample import Sample
from everhold.ledger.guard import Guard
from everhold.ledger.reader import read_study
from everhold.ledger.registry import HOME
from everhold.ledger.store import Store
from everhold.mechanism.everhold import Everhold
from everhold.mechanism.measures.private import PrivateTolerance
from everhold.mechanism.noise import SecretNoise
from everhold.report.certificate import certificate_html

RNG = np.random.default_rng(11)
ROWS = 6_000
PROMISE = eh.Privacy(epsilon=3.0, delta=1e-9, surprises=6)


def people(size, smokers):
    return {
        "age": RNG.integers(18, 90, size),
        "smoker": RNG.random(size) < smokers,
        "bmi": RNG.normal(27.0, 4.0, size),
        "town": RNG.choice(["Leeds", "York", "Bath"], size),
    }


PUBLIC, PRIVATE = people(ROWS, 0.2), people(ROWS, 0.5)
SCHEMA = eh.Schema.propose(PUBLIC).revised("bmi", low=10, high=50)


@pytest.fixture(autouse=True)
def _own_registry(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "registry"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patients.everhold"


def made(path, **changes):
    options = {"prior": eh.Reference(PUBLIC), "schema": SCHEMA, "privacy": PROMISE, "seed": 3} | changes
    return eh.Holdout.create(path, changes.pop("data", PRIVATE), **{k: v for k, v in options.items() if k != "data"})


def test_a_session_from_creation_to_audit(path):
    held = made(path)
    quiet, surprise = held.ask("age > 40"), held.ask("smoker")
    assert not quiet.surprise
    assert surprise.surprise
    assert 0.5 in surprise.interval
    held.ask_many(["bmi > 30", "town = 'York'", "smoker AND age > 60"])
    read = held.read("age > 70 AND NOT smoker")
    assert read.act == "read"
    found = held.mean("bmi", given="smoker"), held.median("age"), held.share("smoker", given="age > 50")
    assert all(one.low < one.high for one in found)
    choice = held.best_of(["age > 85", "age > 20", "town = 'Bath'"])
    assert choice.index == 1
    assert choice.noisy
    assert "about the best" in str(choice)
    account, head = held.privacy, held.head
    assert account.releases == 2
    assert account.surprises == held.surprises >= 1
    assert held.audit().ok
    held.release()
    with eh.Holdout.open(path, data=PRIVATE, expect_head=head) as again:
        assert again.privacy == account
        assert again.ask("smoker") == surprise
        assert again.price == held.budget.ask_price
    file = read_study(path)
    assert file.budget.privacy == account
    assert file.price == held.budget.ask_price
    assert eh.Holdout.audit_file(path).ok


def test_a_session_of_asks_replays_without_data(path):
    held = made(path)
    questions = ["age > 40", "smoker", "bmi > 31", "smoker AND bmi > 25"]
    answers = [held.ask(one) for one in questions]
    assert held.replay(questions) == answers
    assert any(one.surprise for one in answers)


class Chosen:
    """Noise of a test's own: every ask is a surprise, and releases are moved by so many rows."""

    def __init__(self, rows):
        self._rows = rows

    def quiet(self, x):
        return False

    def step(self):
        return 8 * self._rows


def test_every_cell_is_the_same_in_every_reading_of_the_record(path):
    """Cell 0 and cells on both sides: through the record, the log, the certificate, an audit, a replay; one price."""
    held = made(path)
    seen, questions = [], []
    for number, rows in enumerate((0, -900, 900, -9_000, 9_000)):
        held.session.mechanism._source = Chosen(rows)
        questions.append(f"age > {40 + number}")
        seen.append(held.ask(questions[-1]))
    cells = [one.outcome for one in held.journal]
    assert cells[0] == 0
    assert min(cells) < 0 < max(cells)
    assert all(one.surprise for one in seen)
    assert 0.0 <= seen[3].value < 0.05 < 0.95 < seen[4].value <= 1.0  # cut to the scale
    assert held.replay(questions) == seen
    held.release()
    file = read_study(path)
    assert file.price == held.budget.ask_price
    assert [one.answer for one in file.rounds] == seen
    assert eh.Holdout.audit_file(path).ok
    assert certificate_html(file, eh.Holdout.audit_file(path)).count("surprise") >= 5
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.price == file.price
        assert again.privacy.surprises == 5


def test_noise_is_drawn_anew_although_the_seed_is_the_same(tmp_path):
    """All 30 fall into one cell, the likeliest of which has 0.4, with probability below 1e-10: the false-alarm rate."""
    seen = set()
    for number in range(30):
        with made(tmp_path / f"{number}.everhold", register=False) as held:
            seen.add(held.read("age > 50").value)
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"prior": eh.Split(0.5)}, "makes a part of the private rows public"),
        ({"schema": None}, "needs a declared schema"),
        ({"data": 500}, "needs the rows themselves"),
        ({"half_width": 0.1}, "cannot promise a half-width"),
        ({"tolerance": eh.FixedPrecision(0.2)}, "cannot promise a half-width"),
        ({"privacy": 1.0}, "Expected eh.Privacy"),
        ({"privacy": eh.Privacy(delta=1e-4), "data": {k: np.tile(v, 2) for k, v in PRIVATE.items()}}, "far less than"),
    ],
)
def test_what_cannot_be_private_is_refused_at_creation(path, changes, match):
    with pytest.raises(eh.SettingError, match=match):
        made(path, **changes)
    assert not path.exists()


def test_a_holdout_in_memory_has_no_budget_to_promise_from():
    with pytest.raises(TypeError, match="privacy"):
        eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), privacy=PROMISE)  # type: ignore[call-arg]


def test_what_cannot_promise_privacy_says_why_before_a_row_is_read(tmp_path):
    class Rows:
        def __getattribute__(self, name):
            raise AssertionError("a row was read")

    rows, place = Rows(), tmp_path / "made.everhold"
    for make, error, why in (
        (lambda: eh.TestSet(rows, rows, reference=rows, privacy=PROMISE), eh.PrivacyError, "all test rows at once"),
        (lambda: eh.TestSet(rows, rows, privacy=PROMISE), eh.SettingError, "in memory has no budget"),
        (lambda: eh.Contest.create(place, rows, sealed=0.5, privacy=PROMISE), eh.PrivacyError, "last ranking"),
        (lambda: eh.Gate.create(place, rows, privacy=PROMISE), eh.SettingError, "what outcomes are"),
    ):
        with pytest.raises(error, match=why):
            make()
    assert not place.exists()


@pytest.mark.parametrize("units", [[1.0, np.nan], ["a", None], [1, None]])
def test_rows_that_belong_to_nobody_are_refused(path, units):
    data = {**PRIVATE, "person": np.array([units[0]] * (ROWS - 1) + [units[1]], dtype=object)}
    with pytest.raises(eh.DataError, match="rows without a value"):
        made(path, data=data, unit="person")


def refusals(held):
    return {
        "a callable": lambda: held.ask(lambda rows: rows["age"] > rows["age"].mean()),
        "values": lambda: held.ask(eh.Values(sample=np.ones(ROWS, bool), reference=np.ones(ROWS, bool))),
        "a callable in a batch": lambda: held.ask_many(["smoker", lambda rows: rows["smoker"]]),
        "a reading of a callable": lambda: held.read(lambda rows: rows["smoker"]),
        "an exact reading": lambda: held.close(["smoker"]),
        "a bit of statistics": lambda: held.is_better(eh.Mean("bmi"), eh.Mean("age")),
        "a bit of callables": lambda: held.is_better("smoker", lambda rows: rows["smoker"]),
        "a verdict of callables": lambda: held.compare("smoker", lambda rows: rows["smoker"]),
        "a verdict of given values": lambda: held.acts.compare_difference(
            eh.Values(sample=np.zeros(ROWS), reference=np.zeros(ROWS)), None
        ),
        "a choice by statistics": lambda: held.best_of([eh.Mean("bmi"), eh.Mean("age")]),
        "a choice by a criterion": lambda: held.acts.choose(["a", "b"], lambda index: 1.0, [], criterion="AUC"),
        "another act": lambda: held.session.recorder.do_act(
            eh.ledger.rounds.ActStart("rank", (), {}), lambda: 0, eh.AskedBy()
        ),
    }


def test_what_is_not_private_is_refused_before_a_row_is_read(path, monkeypatch):
    held = made(path)
    head, before = held.head, held.privacy

    def never(*_, **__):
        raise AssertionError("a private row was read")

    monkeypatch.setattr(Sample, "sums", never)
    for what, do in refusals(held).items():
        with pytest.raises(eh.PrivacyError):
            do()
        assert held.head == head, what
        assert held.privacy == before, what


def test_what_cannot_be_paid_for_is_refused_before_a_row_is_read(path, monkeypatch):
    held = made(path, privacy=eh.Privacy(epsilon=3.0, surprises=1))
    assert held.ask("smoker").surprise
    account = held.privacy
    assert account.surprises_left == 0
    left = account.readings_left
    monkeypatch.setattr(Sample, "sums", lambda *_: pytest.fail("a private row was read"))
    with pytest.raises(eh.PrivacyUsedUp, match="cannot pay for another question") as refused:
        held.ask("age > 40")
    assert refused.value.asked == 3.0
    with pytest.raises(eh.PrivacyUsedUp, match="readings"):
        held.read_many([f"age > {30 + i}" for i in range(left + 1)])
    with pytest.raises(eh.PrivacyUsedUp) as refused:
        held.ask_many(["smoker", "age > 40"])
    assert [one.surprise for one in refused.value.answers] == [True]  # the recorded answer costs nothing
    assert held.ask("smoker").surprise
    assert held.try_out("age > 40").low < held.try_out("age > 40").high  # public, and free
    assert held.privacy == account


def test_random_acts_never_exceed_the_allowance(path):
    held, rng = made(path), np.random.default_rng(2)
    refused = 0
    for number in range(80):
        kind, cut = rng.integers(6), 18 + 0.5 * number
        try:
            if kind == 0:
                held.ask(f"smoker AND age > {cut}")
            elif kind == 1:
                held.read(f"bmi > {cut / 2}")
            elif kind == 2:
                held.read_many([f"age > {cut}", f"age < {cut + 1}"])
            elif kind == 3:
                held.is_better(f"age > {cut}", "age > 60")
            elif kind == 4:
                held.compare(f"age > {cut}", "smoker")
            else:
                held.best_of([f"age > {cut}", f"age > {cut + 3}"])
        except eh.PrivacyUsedUp:
            refused += 1
        assert 0 <= held.privacy.spent <= held.privacy.terms.allowance
    assert refused
    assert held.audit().ok


def test_neighbours_move_every_total_by_at_most_a_row():
    """One row replaced by every odd value: the sums that privacy rests on move by at most one row, or by nothing."""
    from everhold.mechanism.noise import ROW
    from everhold.queries.expression import expression

    odd = [None, float("nan"), float("inf"), -float("inf"), "unknown", "", True, False, 2**60, -1, "1e400", "2024-05-01"]
    questions = [
        expression(text, SCHEMA.kinds, SCHEMA.words)
        for text in ("age > 40", "smoker", "NOT smoker", "bmi / age > 0.5", "town = 'York'", "age IS NULL", "bmi < 1e6")
    ]
    size = 60
    base = {name: list(values[:size].tolist()) for name, values in PRIVATE.items()}
    before = Sample({k: np.array(v, dtype=object) for k, v in base.items()}, schema=SCHEMA).sums(questions)
    typed = Sample({k: v[:size] for k, v in PRIVATE.items()}, schema=SCHEMA).sums(questions)
    assert before == typed  # how a column is stored does not matter
    moved = 0
    for name in base:
        for value in odd:
            rows = {key: list(values) for key, values in base.items()}
            rows[name][7] = value
            for form in (lambda v: np.array(v, dtype=object), list):
                try:
                    sample = Sample({key: form(values) for key, values in rows.items()}, schema=SCHEMA)
                except eh.EverholdError:  # refused at creation, to the custodian alone
                    continue
                after = sample.sums(questions)
                for one, other in zip(before, after, strict=True):
                    assert abs(one.first - other.first) <= ROW, (name, value)
                    moved += one != other
    assert moved > 20


def test_a_unit_moves_a_total_by_at_most_a_row_however_many_rows_it_has():
    from everhold.mechanism.noise import ROW
    from everhold.queries.expression import expression

    question = expression("age > 40", SCHEMA.kinds, SCHEMA.words)
    who = np.repeat(np.arange(20), 30)
    rows = {name: values[:600] for name, values in PRIVATE.items()}
    one = Sample({**rows, "person": who}, schema=SCHEMA, unit="person").sums([question])[0]
    for age in (0, 99):
        changed = {**rows, "age": np.where(who == 3, age, rows["age"])}
        other = Sample({**changed, "person": who}, schema=SCHEMA, unit="person").sums([question])[0]
        assert abs(one.first - other.first) <= ROW


def test_units_are_the_ones_that_privacy_is_promised_for(path):
    who = np.repeat(np.arange(ROWS // 2), 2)
    public = {**PUBLIC, "person": np.arange(ROWS)}
    held = made(path, data={**PRIVATE, "person": who}, prior=eh.Reference(public), unit="person")
    assert held.size == ROWS // 2
    assert held.ask("age > 40").low < 0.7
    assert held.read("smoker").interval.low < 0.5
    assert held.audit().ok


# rollback, copies, crashes -------------------------------------------------------------------------------------------------


def test_an_older_copy_is_refused(path, tmp_path):
    held = made(path, register=False)
    held.ask("age > 40")
    held.release()
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    with eh.Holdout.open(path, data=PRIVATE) as again:
        again.ask("smoker")
    shutil.copy(copy, path)  # the study alone is set back
    with pytest.raises(eh.LedgerError, match=r"older"):
        eh.Holdout.open(path, data=PRIVATE)


def test_quiet_rounds_cannot_be_set_back_either(path, tmp_path):
    held = made(path, register=False)
    held.release()
    shutil.copy(path, tmp_path / "copy")
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert not again.ask("age > 40").surprise
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(eh.LedgerError, match="older copy"):
        eh.Holdout.open(path, data=PRIVATE)


def test_a_study_that_is_set_back_with_its_guard_is_known_to_the_registry(path, tmp_path):
    held = made(path)
    held.release()
    for name in (path, Guard.path_of(path)):
        shutil.copy(name, tmp_path / f"{name.name}.copy")
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.ask("smoker").surprise
    for name in (path, Guard.path_of(path)):
        shutil.copy(tmp_path / f"{name.name}.copy", name)
    with pytest.raises(eh.LedgerError, match="older copy"):
        eh.Holdout.open(path, data=PRIVATE)


class Watched:
    """Noise that notes that it was drawn."""

    def __init__(self, drawn):
        self._drawn = drawn

    def __getattr__(self, name):
        self._drawn.append(name)
        raise AssertionError("noise was drawn")


def test_two_copies_that_draw_at_the_same_moment_are_one_study_in_the_end(path, tmp_path):
    """Both have passed the check when the first is recorded: the second returns nothing, and is charged in its record."""
    made(path).release()
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    for name in (path, Guard.path_of(path), path.with_name(path.name + ".key")):
        shutil.copy(name, other.parent / name.name)
    first, second = eh.Holdout.open(path, data=PRIVATE), eh.Holdout.open(other, data=PRIVATE)
    second.session.recorder.shield.require_newest = lambda: None
    assert first.ask("smoker").surprise
    with pytest.raises(eh.LedgerError, match="another copy"):
        second.ask("smoker")
    with pytest.raises(eh.LedgerError):
        second.ask("age > 40")
    assert Guard.open(other).charges == 1


def test_the_file_of_a_private_study_says_nothing_about_its_rows(tmp_path):
    """Two studies of different rows with the same answers: their files differ by random numbers and times alone."""
    files, others = [], people(ROWS, 0.7)
    for number, rows in enumerate((PRIVATE, others)):
        with made(tmp_path / f"{number}.everhold", data=rows, register=False) as held:
            held.session.mechanism._source = Chosen(0)
            held.session.mechanism._source.quiet = lambda x: True
            held.ask("age > 40")
        file = read_study(tmp_path / f"{number}.everhold")
        files.append((file.first_record, [one.answer for one in file.rounds]))
        key = (tmp_path / f"{number}.everhold.key").read_text()
        assert file.first_record.fingerprint not in key  # it is no function of the rows or the key
    (one, answers), (other, same) = files
    assert answers == same
    assert one.fingerprint != other.fingerprint
    one, other = ({**vars_of(study), "fingerprint": "", "created": ""} for study in (one, other))
    assert one == other
    with pytest.raises(eh.LedgerError, match="not the rows"):
        eh.Holdout.open(tmp_path / "0.everhold", data=others)


def vars_of(study):
    record = study.record()
    return json.loads(record.body) | {"blob": record.blob}


def test_an_error_of_the_decision_itself_is_charged_too(path, monkeypatch):
    held = made(path)
    monkeypatch.setattr(PrivateTolerance, "decide", lambda *_: 1 / 0)
    with pytest.raises(eh.LedgerError, match="could not be read"):
        held.ask("smoker")
    held.release()
    monkeypatch.undo()
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.privacy.surprises == 1


def test_of_two_copies_that_are_asked_at_once_one_is_refused(path, tmp_path):
    """Study, key and guard are copied together, and both are asked: the registry lets one go on."""
    made(path).release()
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    for name in (path, Guard.path_of(path), path.with_name(path.name + ".key")):
        shutil.copy(name, other.parent / name.name)
    first, second = eh.Holdout.open(path, data=PRIVATE), eh.Holdout.open(other, data=PRIVATE)
    assert first.ask("smoker").surprise
    drawn = []
    second.session.mechanism._source = Watched(drawn)
    for do in (
        lambda: second.ask("smoker"),
        lambda: second.ask_many(["age > 40", "smoker"]),
        lambda: second.read("smoker"),
        lambda: second.is_better("smoker", "age > 80"),
        lambda: second.compare("smoker", "age > 80"),
        lambda: second.best_of(["smoker", "age > 80"]),
    ):
        with pytest.raises(eh.LedgerError, match="another copy"):
            do()
    assert not drawn  # an overtaken copy draws nothing: its refusals say nothing about the rows
    assert first.ask("age > 40").round == 2
    second.release()
    with pytest.raises(eh.LedgerError, match=r"older copy"):
        eh.Holdout.open(other, data=PRIVATE)


def test_the_same_rows_have_one_private_study(path, tmp_path):
    made(path).release()
    with pytest.raises(eh.RowsInUse, match="adds up"):
        made(tmp_path / "second.everhold")
    assert not (tmp_path / "second.everhold").exists()
    made(tmp_path / "third.everhold", register=False).release()


def test_without_its_guard_a_study_can_be_read_and_not_asked(path):
    made(path).release()
    Guard.path_of(path).unlink()
    with pytest.raises(eh.LedgerError, match="without it nothing may be asked"):
        eh.Holdout.open(path, data=PRIVATE)
    assert read_study(path).budget.privacy.surprises == 0
    assert eh.Holdout.audit_file(path).ok


def in_child(work):
    """Do something in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


KILLS = {
    "before the mark": (Guard, "mark", "before", 0),
    "after the mark": (Guard, "mark", "after", 1),
    "in the refit": (Everhold, "_refit", "before", 1),
    "before the record": (Store, "append", "before", 1),
    "after the record": (Store, "append", "after", 1),
    "before it is settled": (Guard, "settle", "before", 1),
    "after it is settled": (Guard, "settle", "after", 1),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
@pytest.mark.parametrize("where", KILLS)
def test_a_killed_surprise_is_charged_once(path, where):
    """Killed at every step from the draw to the end, then opened twice: charged once, never twice, never for nothing.

    Killed before the mark, nothing but the draw had happened, which nobody saw and nothing depended on.
    """
    made(path).release()
    owner, name, when, charged = KILLS[where]

    def ask():
        held = eh.Holdout.open(path, data=PRIVATE)
        real = getattr(owner, name)

        def fatal(*given, **more):
            if when == "before":
                kill()
            real(*given, **more)
            kill()

        setattr(owner, name, fatal)
        held.ask("smoker")

    assert in_child(ask)
    for _ in range(2):
        with eh.Holdout.open(path, data=PRIVATE) as again:
            assert again.privacy.surprises == charged
            assert not Guard.open(path).marked
    assert eh.Holdout.audit_file(path).ok
    file = read_study(path)
    recorded = sum(one.answer.surprise for one in file.rounds)
    assert recorded + sum(act.act == "void" for act in file.acts) == charged
    assert file.budget.code.surprises == charged  # the price counts it too


KILLS_EACH = 200 if os.environ.get("EVERHOLD_THOROUGH") else 16

DEEDS = {
    "ask": lambda held: held.ask("smoker"),
    "read": lambda held: held.read("smoker"),
    "read_many": lambda held: held.read_many(["smoker", "age > 40"]),
    "best_of": lambda held: held.best_of(["smoker", "age > 40"]),
    "is_better": lambda held: held.is_better("smoker", "age > 85"),
    "compare": lambda held: held.compare("smoker", "age > 85"),
}


def killed_at(path, deed, line, drawn):
    """In a process of its own: a deed that is killed at one of everhold's lines. Whether it was.

    `drawn` gets a byte when noise is drawn, and the number of lines where the deed ends.
    """

    def work():
        def noted(real):
            def draw(*given):
                os.write(drawn, b"!")
                return real(*given)

            return draw

        for name in ("step", "choose"):
            setattr(SecretNoise, name, noted(getattr(SecretNoise, name)))
        SecretNoise.quiet = noted(lambda *_: False)  # a surprise, or a yes
        held = eh.Holdout.open(path, data=PRIVATE)
        lines = 0

        def trace(frame, event, _):
            nonlocal lines
            if event == "call" and "everhold" not in frame.f_code.co_filename:
                return None
            if event == "line":
                lines += 1
                if lines == line:
                    kill()
            return trace

        sys.settrace(trace)
        deed(held)
        sys.settrace(None)
        os.write(drawn, f" {lines}".encode())

    return in_child(work)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", DEEDS)
def test_killed_at_any_line_a_deed_is_charged_once_from_one_line_on(tmp_path, monkeypatch, kind):
    """An ask from the mark on; other acts from their announcement on, and no noise is drawn before that.

    Opened again, and once more: the charge stays, and the audit passes. At the ends nothing and everything is charged.
    """
    SecretNoise(PROMISE.terms).step()  # its table is made once

    def play(line):
        monkeypatch.setenv(HOME, str(tmp_path / f"registry {line}"))
        path = tmp_path / f"{line}.everhold"
        made(path).release()
        seen, drawn = os.pipe()
        os.set_blocking(seen, False)
        killed = killed_at(path, DEEDS[kind], line, drawn)
        os.close(drawn)
        found = os.read(seen, 1_000_000).decode()
        os.close(seen)
        for _ in range(2):
            with eh.Holdout.open(path, data=PRIVATE) as again:
                charged = 1.0 - again.privacy.share_left
                assert not Guard.open(path).marked
        assert charged > 0.0 or "!" not in found or kind == "ask", line
        assert eh.Holdout.audit_file(path).ok
        return charged, None if killed else int(found.split()[-1])

    _, lines = play(0)
    charges = [play(line)[0] for line in (*range(1, lines, max(lines // KILLS_EACH, 1)), lines + 1)]
    once = charges[-1]
    assert once > 0.0
    assert charges == sorted(charges)
    assert charges[0] == 0.0
    assert set(charges) == {0.0, once}
    assert len(charges) > KILLS_EACH


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_name_that_crashes_the_study_reaches_its_own_limit(path):
    """A charge whose answer a crash took away is that of the name who asked, and of nobody else."""
    made(path).release()

    def ask():
        held = eh.Holdout.open(path, data=PRIVATE)
        held.session.limit_charges(2, path)
        Everhold._refit = lambda *_: kill()
        held.ask("smoker", who="mallory")

    assert [in_child(ask) for _ in range(4)] == [True, True, False, False]
    with eh.Holdout.open(path, data=PRIVATE) as held:
        assert held.privacy.surprises == 2
        assert [entry.who for entry in read_study(path).log if entry.act == "void"] == ["mallory"] * 2
        held.session.limit_charges(2, path)
        with pytest.raises(eh.PrivacyUsedUp, match="mallory has caused 2 of the 2"):
            held.ask("smoker", who="mallory")
        assert held.ask("smoker", who="ann").surprise


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_whoever_crashes_the_study_on_every_surprise_runs_out_of_budget(path):
    """An attacker whose refits kill the process learns "crash = surprise", and pays for each: no free look."""
    made(path).release()

    def ask():
        held = eh.Holdout.open(path, data=PRIVATE)
        Everhold._refit = lambda *_: kill()
        held.ask("smoker")

    looks = 0
    while True:
        try:
            with eh.Holdout.open(path, data=PRIVATE) as held:
                held.session.mechanism.propose(held.session.query("smoker"))
        except eh.PrivacyUsedUp:
            break
        looks += in_child(ask)
        assert looks <= PROMISE.surprises
    assert looks == PROMISE.surprises
    assert eh.Holdout.audit_file(path).ok


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_older_guard_does_not_make_a_lost_surprise_free(path, tmp_path):
    """Crash on every surprise, then restore the guard of before, which has no mark: the registry remembers the draw."""
    made(path).release()

    def ask():
        held = eh.Holdout.open(path, data=PRIVATE)
        Everhold._refit = lambda *_: kill()
        held.ask("smoker")

    looks = 0
    while True:
        shutil.copy(Guard.path_of(path), tmp_path / "before")
        looks += in_child(ask)
        assert Guard.open(path).marked
        shutil.copy(tmp_path / "before", Guard.path_of(path))
        assert not Guard.open(path).marked
        assert looks <= PROMISE.surprises
        with eh.Holdout.open(path, data=PRIVATE) as held:
            assert held.privacy.surprises == looks  # charged once for each
            if not held.privacy.surprises_left:
                break
    assert looks == PROMISE.surprises
    assert eh.Holdout.audit_file(path).ok


RELEASES = {
    "read": lambda held: held.read("smoker"),
    "best_of": lambda held: held.best_of(["smoker", "age > 85"]),
    "is_better": lambda held: held.is_better("smoker", "age > 85"),
    "compare": lambda held: held.compare("smoker", "age > 85"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("act", RELEASES)
def test_what_was_recorded_and_read_from_the_file_cannot_be_set_back(path, tmp_path, act):
    """Killed when the outcome is durable and nothing else is; then study and guard of before are restored: refused."""
    made(path).release()
    for name in (path, Guard.path_of(path)):
        shutil.copy(name, tmp_path / f"{name.name}.copy")

    def release():
        held = eh.Holdout.open(path, data=PRIVATE)
        real, calls = Store.append, []

        def fatal(*given):
            calls.append(1)
            real(*given)
            if len(calls) == 2:  # the first is the announcement
                kill()

        Store.append = fatal
        RELEASES[act](held)

    assert in_child(release)
    file = read_study(path)
    assert [one.answer.act for one in file.rounds] == ["read"] or file.acts[-1].result is not None
    for name in (path, Guard.path_of(path)):
        shutil.copy(tmp_path / f"{name.name}.copy", name)
    with pytest.raises(eh.LedgerError, match="older copy"):
        eh.Holdout.open(path, data=PRIVATE)


def test_of_two_copies_that_announce_the_same_act_one_draws(path, tmp_path, monkeypatch):
    """Equal to the bit, at the same moment of a clock that was stopped: the record cannot tell them apart."""
    monkeypatch.setattr("everhold.session.session.timestamp", lambda: "2026-01-01T00:00:00.000000+00:00")
    made(path).release()
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    for name in (path, Guard.path_of(path), path.with_name(path.name + ".key")):
        shutil.copy(name, other.parent / name.name)
    first, second = eh.Holdout.open(path, data=PRIVATE), eh.Holdout.open(other, data=PRIVATE)
    drawn = []
    second.session.mechanism._source = Watched(drawn)
    second.session.recorder.shield.require_newest = lambda: None  # it was asked before the first had announced
    real, times = type(first.session.recorder.shield).announced, []

    def announced(shield):
        real(shield)
        if not times:
            times.append(1)
            with pytest.raises(eh.LedgerError, match="the same act"):
                second.read("smoker", request_id="one")

    monkeypatch.setattr(type(first.session.recorder.shield), "announced", announced)
    assert first.read("smoker", request_id="one").act == "read"
    assert times
    assert not drawn


def test_a_registry_that_knows_of_more_charges_refuses_the_copy(path):
    made(path).release()
    eh.Registry().note_charges(read_study(path).first_record.fingerprint, 2)  # one may be unrecorded, two never are
    with pytest.raises(eh.LedgerError, match="registry of studies knows of 2"):
        eh.Holdout.open(path, data=PRIVATE)


def test_a_file_with_two_names_has_two_locks_and_is_not_asked(path, tmp_path, monkeypatch):
    """A hard link, a symbolic link, and a name that moved on while the study was open: nothing is drawn."""
    made(path).release()
    held = eh.Holdout.open(path, data=PRIVATE)
    other = tmp_path / "other" / "linked.everhold"
    other.parent.mkdir()
    os.link(path, other)
    for name in (Guard.path_of(path), path.with_name(path.name + ".key")):
        os.link(name, other.with_name(name.name.replace(path.name, other.name)))
    drawn = []
    second = eh.Holdout.open(other, data=PRIVATE)
    for one in (held, second):
        one.session.mechanism._source = Watched(drawn)
        with pytest.raises(eh.LedgerError, match="second name"):
            one.ask("smoker")
        with pytest.raises(eh.LedgerError, match="second name"):
            one.read("smoker")
        with pytest.raises(eh.LedgerError, match="second name"):
            one.is_better("smoker", "age > 40")
    second.release()
    other.unlink()
    held.session.mechanism._source = Chosen(0)
    assert held.ask("smoker").surprise  # one name again
    held.release()
    linked = tmp_path / "symbolic.everhold"
    linked.symlink_to(path)
    for name in (Guard.path_of(path), path.with_name(path.name + ".key")):
        linked.with_name(name.name.replace(path.name, linked.name)).symlink_to(name)
    with eh.Holdout.open(linked, data=PRIVATE) as held, pytest.raises(eh.LedgerError, match="second name"):
        held.ask("age > 33")
    held = eh.Holdout.open(path, data=PRIVATE)
    path.rename(tmp_path / "moved")
    with pytest.raises(eh.LedgerError, match="not there any more"):
        held.ask("age > 33")
    assert not drawn


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("when", ["sums", "append"])
def test_a_killed_reading_is_charged_and_not_made_again(path, when):
    made(path).release()

    def read():
        held = eh.Holdout.open(path, data=PRIVATE)
        if when == "sums":
            Sample.sums = lambda *_: kill()
        else:
            real, seen = Store.append, []
            Store.append = lambda *given: kill() if seen else (seen.append(1), real(*given))
        held.read_many(["smoker", "age > 50"])

    assert in_child(read)
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.privacy.releases == 2
        assert again.rounds == 0
        assert again.ask("age > 40").round == 1
    assert eh.Holdout.audit_file(path).ok


def test_an_error_of_the_engine_says_nothing_and_is_charged(path, monkeypatch):
    held = made(path)

    def fails(*_):
        raise eh.DataError("row 17 holds 'HIV positive'")

    with monkeypatch.context() as broken:
        broken.setattr(Sample, "sums", fails)
        with pytest.raises(eh.LedgerError, match="could not be read") as error:
            held.ask("smoker")
    assert "HIV" not in str(error.value)
    assert error.value.__cause__ is None
    with pytest.raises(eh.LedgerError):
        held.ask("age > 40")
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.privacy.surprises == 1
        assert again.ask("smoker").round == 1


def test_a_batch_is_durable_up_to_its_last_surprise(path, monkeypatch):
    held = made(path)
    seen = []
    real = Store.append
    monkeypatch.setattr(Store, "append", lambda self, records: (seen.append(len(records)), real(self, records)))
    answers = held.ask_many(["age > 40", "smoker", "age > 41", "age > 42"])
    assert [one.surprise for one in answers] == [False, True, False, False]
    assert seen == [2, 2]


def test_paused_studies_share_one_budget(path):
    first = made(path)
    first.pause()
    with eh.Holdout.open(path, data=PRIVATE) as second:
        assert second.ask("smoker").surprise
    first.resume()
    assert first.privacy.surprises == 1
    first.ask("age > 40")
    assert Guard.open(path).charges == 1


def test_costs_are_whole_numbers_so_that_sums_are_exact():
    terms = PROMISE.terms
    assert isinstance(terms.surprise_cost, int)
    assert terms.surprise_cost * PROMISE.surprises <= terms.allowance < 3 * COST_ONE


def test_a_refusal_in_the_middle_says_what_was_charged_before_it(path, monkeypatch):
    monkeypatch.setattr(SecretNoise, "quiet", lambda *_: False)  # every ask is a surprise
    held = made(path)
    with pytest.raises(eh.PrivacyUsedUp) as caught:
        held.ask_many(["smoker", *(f"smoker AND age > {age}" for age in range(20, 80, 2))])
    error = caught.value
    assert sum(answer.surprise for answer in error.answers) == PROMISE.surprises
    said = str(error)
    assert f"{len(error.answers)} parts of it were answered before ({PROMISE.surprises} surprises), charged" in said
    assert "Nothing more was read or charged" in said
    with pytest.raises(eh.PrivacyUsedUp, match="Nothing was read or charged"):
        held.ask("age > 33")
