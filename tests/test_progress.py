"""Progress bars: where they are seen, where not, what they count, and that they cost nothing where nobody looks."""

from __future__ import annotations

import io
import multiprocessing
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import everhold as eh
from everhold import progress
from everhold.data.fingerprint import fingerprint_files, fingerprint_rows
from everhold.data.table import RowTable
from everhold.games.membership import membership
from everhold.games.play import play
from everhold.games.search import search_attack
from everhold.games.singling_out import single_out
from everhold.progress import NO_BAR, progress_bar
from everhold.session import recorder, session, session_acts


class Terminal(io.StringIO):
    """An error stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delenv("EVERHOLD_PROGRESS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    # not sys.stderr itself, which pytest exchanges between a fixture and its test
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=stream, modules=sys.modules))
    return stream


@pytest.fixture
def at(monkeypatch):
    """A clock that a test moves; no timer runs beside it."""
    now = [100.0]
    monkeypatch.setattr(progress, "_clock", lambda: now[0])
    monkeypatch.setattr(progress, "_DELAY", 3600.0)
    yield now
    assert not progress._open.locked()


class Recorded:
    """A screen that keeps what is drawn on it."""

    def __init__(self, drawn):
        self.drawn = drawn

    def draw(self, what, done, total):
        self.drawn.append((what, done, total))

    def close(self):
        self.drawn.append("gone")


@pytest.fixture
def drawn(monkeypatch):
    """Every step of every bar, as if each took long; small batches have bars, too."""
    found = []
    monkeypatch.setattr(progress, "_screen", lambda: None if progress._open.locked() else lambda: Recorded(found))
    now = [0.0]

    def later():
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr(progress, "_clock", later)
    monkeypatch.setattr(progress.threading, "Timer", lambda *_: types.SimpleNamespace(start=int, cancel=int))
    for room in (session, recorder, session_acts):
        monkeypatch.setattr(room, "SHOWN_FROM", 2)
    return found


def test_a_terminal_shows_how_far_it_is_and_is_clean_afterwards(terminal, at):
    with progress_bar("Replaying", 4) as bar:
        bar.advance()
        assert terminal.getvalue() == ""  # what is quick has none
        at[0] += 3601.0
        bar.advance()
        assert "Replaying" in terminal.getvalue()
        assert "2/4" in terminal.getvalue()
    assert terminal.getvalue().rstrip("\n").endswith("\x1b[2K")  # the line is erased


def test_it_appears_by_itself_where_nothing_is_counted(terminal, monkeypatch):
    waiting = []
    monkeypatch.setattr(
        progress.threading, "Timer", lambda _, work: waiting.append(work) or types.SimpleNamespace(start=int, cancel=int)
    )
    with progress_bar("Planning"):
        waiting.pop()()
        assert "Planning" in terminal.getvalue()
    with progress_bar("Planning"):
        late = waiting.pop()
    before = terminal.getvalue()
    late()  # the timer that comes too late
    assert terminal.getvalue() == before


@pytest.mark.parametrize("word", ["0", "off", "no", "False"])
def test_the_switch(terminal, monkeypatch, word):
    assert progress_bar("x", 5) is not NO_BAR
    monkeypatch.setenv(progress.SWITCH, word)
    assert progress_bar("x", 5) is NO_BAR


def test_nobody_looks_at_a_pipe_a_worker_or_a_thread(terminal, monkeypatch):
    found = []
    thread = threading.Thread(target=lambda: found.append(progress_bar("x", 5)))
    thread.start()
    thread.join()
    assert found == [NO_BAR]
    assert progress_bar("x", 5) is not NO_BAR
    with monkeypatch.context() as worker:
        worker.setattr(multiprocessing, "parent_process", object)
        assert progress_bar("x", 5) is NO_BAR
    monkeypatch.setattr(progress.sys, "stderr", io.StringIO())
    assert progress_bar("x", 5) is NO_BAR


def test_a_bar_within_a_bar_is_not_seen(terminal, at):
    with progress_bar("outer", 5):
        assert progress_bar("inner", 5) is NO_BAR
    assert progress_bar("after", 5) is not NO_BAR


def test_an_error_takes_it_away(terminal, at):
    def work():
        with progress_bar("x", 5) as bar:
            at[0] += 3601.0
            bar.advance()
            raise ValueError

    with pytest.raises(ValueError):
        work()
    assert progress_bar("x", 5) is not NO_BAR


def test_what_cannot_be_drawn_stops_nothing(drawn, monkeypatch):
    monkeypatch.setattr(Recorded, "draw", lambda *_: 1 / 0)
    with progress_bar("x", 3) as bar:
        assert list(bar.over(range(3))) == [0, 1, 2]


def test_a_notebook_has_its_own(monkeypatch):
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    ipython = types.ModuleType("IPython")
    display = types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display.HTML = str
    display.display = lambda _, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(progress, "_DELAY", 3600.0)
    now = [0.0]
    monkeypatch.setattr(progress, "_clock", lambda: now[0])
    with progress_bar("<b>", 3) as bar:
        now[0] = 3601.0
        bar.advance(2)
    assert shown == ["<div>&lt;b&gt; <progress max='3' value='2'></progress> 2 of 3</div>", ""]


# what has a bar, and what it counts --------------------------------------------------------------------------------------


def people(size, smokers, seed):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < smokers}


def whole_study(folder, smokers):
    """Batches, readings, a replay, an audit, a closed file and an open one."""
    folder.mkdir()
    path = folder / "s.everhold"
    rows = people(500, smokers, 1)
    with eh.Holdout.create(path, rows, prior=eh.Reference(people(500, 0.2, 2)), seed=1) as holdout:
        holdout.ask_many([f"age > {k}" for k in range(20, 30)] + ["smoker"])
        holdout.read_many(["age > 40", "age > 50", "smoker AND age > 30"])
        holdout.audit()
    eh.Holdout.open(path, data=rows).release()
    eh.Holdout.audit_file(path)


def test_a_study_counts_what_is_public_and_nothing_else(drawn, tmp_path):
    """Two sets of rows, one of which is a surprise: every step is the same."""
    whole_study(tmp_path / "one", 0.2)
    quiet = list(drawn)
    drawn.clear()
    whole_study(tmp_path / "other", 0.7)
    assert drawn == quiet
    words = [one[0] for one in quiet if one != "gone"]
    assert set(words) == {"Asking", "Reading", "Replaying", "Opening the study"}
    assert ("Asking", 11, 11) in quiet
    assert ("Reading", 3, 3) in quiet
    assert words.count("Replaying") > words.count("Reading")


class Fixed:
    """A model."""

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def searched():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    made = eh.TestSet(x, y, reference=rng.normal(size=(200, 2)), classes=[0, 1], seed=1)
    for _ in range(3):
        made.enter(Fixed())
    made.winner()
    made.close([Fixed(), lambda X: (np.asarray(X)[:, 0] > 0).astype(int)])


def replayed():
    holdout = eh.Holdout(people(500, 0.2, 1), prior=eh.Reference(people(500, 0.2, 2)), seed=1)
    questions = [f"age > {k}" for k in range(20, 24)]
    holdout.ask_many(questions)
    holdout.replay(questions)


@pytest.mark.parametrize(
    ("work", "what", "last"),
    [
        (searched, "Choosing", 3),
        (searched, "Predicting", 2),
        (replayed, "Replaying", 4),
        (lambda: play("freedman", "everhold", "noise", rounds=50, seed=1, rows=300), "Playing", None),
        (lambda: single_out("empirical mean", games=3, rows=64), "Composition, low weight", 3),
        (lambda: membership("empirical mean", games=4, rows=32), "Guessing who is there", 4),
        (lambda: search_attack("empirical mean", rows=16, population=4, generations=1, games=8, fresh_games=8),
         "Searching for attacks", None),
    ],
)  # fmt: skip
def test_every_long_work_says_how_far_it_is(drawn, work, what, last):
    work()
    steps = [one for one in drawn if one != "gone" and one[0] == what]
    assert steps
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert all(total is None or done <= total for _, done, total in steps)
    if last is not None:
        assert steps[-1][1] == last
    assert drawn[-1] == "gone"


@pytest.mark.parametrize(
    "work",
    [
        lambda: eh.plan(rows=2_000, rounds=10),
        lambda: eh.plan_gate(rows=200, step=0.05, looks=10),
        lambda: eh.price(rows=500, looks=10, score=0.8),
    ],
)
def test_plans_and_prices_show_that_they_work(monkeypatch, work):
    opened = []
    monkeypatch.setattr(progress, "progress_bar", lambda what, *_: opened.append(what) or NO_BAR)
    work()
    assert opened in (["Planning"], ["Pricing"])


def test_fingerprints_of_large_files_and_tables(drawn, tmp_path, monkeypatch):
    place = tmp_path / "large.bin"
    place.write_bytes(b"x" * (2**20 * 2 + 5))
    fingerprint_files([str(place)], b"k" * 32)
    assert ("Fingerprint of the files, in MB", 3, 3) in drawn
    monkeypatch.setattr("everhold.data.fingerprint._CHUNK", 100)
    with_bar = fingerprint_rows(RowTable({"x": np.arange(2_000.0)}), b"k")
    assert ("Fingerprint of the rows", 80, 80) in drawn
    monkeypatch.undo()
    assert fingerprint_rows(RowTable({"x": np.arange(2_000.0)}), b"k") == with_bar


def test_a_large_scan_shows_that_it_works(drawn, monkeypatch):
    opened = []
    monkeypatch.setattr("everhold.data.sample._LONG", 1_000)
    monkeypatch.setattr("everhold.data.sample.progress_bar", lambda what, *_: opened.append(what) or NO_BAR)
    holdout = eh.Holdout(people(500, 0.2, 1), prior=eh.Reference(people(500, 0.2, 2)), seed=1)
    holdout.ask_many(["age > 30", "age > 40"])
    assert opened == ["Reading 500 rows"]


def test_where_nobody_looks_nothing_is_imported_or_printed():
    """In a process of its own, with a pipe for its error stream."""
    code = (
        "import sys, numpy as np, everhold as eh\n"
        "x = {'a': np.arange(200)}\n"
        "h = eh.Holdout(x, prior=eh.Reference(x), seed=1, overlap='allow')\n"
        "h.ask_many([f'a > {k}' for k in range(60)]); h.audit(); eh.plan(rows=100, rounds=5)\n"
        "print([one for one in sys.modules if one.split('.')[0] in ('rich', 'IPython')])\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
