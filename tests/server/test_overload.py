"""One analyst can neither stop a study nor keep a server from stopping."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import everhold as eh
from everhold.queries.expression.program import TooSlow
from everhold.session.scan import Scanner
from everhold.session.session import Session
from tests.queries.test_limits import GROWING
from tests.server.serving import Clock, Process, make_study, site, wait_for

HOSTILE = [
    "smoker" + " IS NULL" * 30,
    "smoker" + " = smoker" * 24,
    GROWING["BETWEEN"](6).replace("x", "age"),
    GROWING["CASE"](9).replace("x", "age"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_questions_that_doubled_their_work_are_answered_or_refused(tmp_path, text):
    """By a token that may only read; before, the first of them stopped the study for everybody."""
    with site(tmp_path, make_study(tmp_path)) as made:
        tried = made.post("/v1/studies/patients/try_out", {"question": text}, who="aud")
        assert tried.status_code in (200, 422)
        assert made.post("/v1/studies/patients/ask", {"question": text}).status_code in (200, 422)
        assert made.post("/v1/studies/patients/ask", {"question": "age > 41"}).status_code == 200


class TestOutsideTheWriter:
    def test_large_questions_are_evaluated_elsewhere_and_have_a_deadline(self, tmp_path, monkeypatch):
        """The writer goes on answering others meanwhile; the slow one is refused, and nothing is charged."""
        monkeypatch.setattr("everhold.session.scan._LIGHT", 0)
        threads, go = [], threading.Event()
        evaluated = Scanner.evaluate

        def slow(self, texts, until):
            if until is None:
                return evaluated(self, texts, until)
            threads.append(threading.current_thread().name)
            if '"bmi"' in texts[0].name:
                go.wait()
                raise TooSlow
            return evaluated(self, texts, until)

        monkeypatch.setattr(Scanner, "evaluate", slow)
        with site(tmp_path, make_study(tmp_path)) as made:
            found = {}

            def hostile():
                found["slow"] = made.post("/v1/studies/patients/try_out", {"question": "bmi > 20"}, who="aud")

            asking = threading.Thread(daemon=True, target=hostile)
            asking.start()
            wait_for(lambda: len(threads) == 1)
            for question in ("age > 41", "smoker"):
                assert made.post("/v1/studies/patients/ask", {"question": question}).status_code == 200
            assert made.post("/v1/studies/patients/mean", {"question": "age"}).status_code == 200
            assert "slow" not in found
            go.set()
            asking.join()
            assert found["slow"].status_code == 422
            assert "longer than 20 s on the public rows" in found["slow"].json()["error"]["message"]
            assert not any(name.startswith("writer") for name in threads)
            assert made.get("/v1/studies/patients/status").json()["rounds"] == 3

    def test_the_deadline_is_kept(self, tmp_path, monkeypatch):
        """Where every chunk is later than the deadline, the first one says so."""
        monkeypatch.setattr("everhold.session.scan._LIGHT", 0)
        with eh.Holdout.open(make_study(tmp_path)) as held:
            query = held.session.query("age > 41")
            ready = held.session.scanner.prepare([query], seconds=60.0)
            assert held.ask(ready[0]) == held.ask("age > 41")
            with pytest.raises(eh.QuestionError, match="takes longer than"):
                held.session.scanner.prepare([held.session.query("age > 42")], seconds=-1.0)
            assert held.rounds == 1

    def test_prepared_questions_are_those_that_were_asked(self, tmp_path, monkeypatch):
        """Light or prepared, alone or in batches: equal answers."""
        asked = ["age > 41", "smoker", "bmi > 25 AND smoker", "age BETWEEN 30 AND 50"]
        told = []
        for light in (10**12, 0):
            monkeypatch.setattr("everhold.session.scan._LIGHT", light)
            folder = tmp_path / str(light)
            folder.mkdir()
            with site(folder, make_study(folder)) as made:
                first = [made.post("/v1/studies/patients/ask", {"question": one}).json() for one in asked[:2]]
                many = made.post("/v1/studies/patients/ask_many", {"questions": asked}).json()
                tried = made.post("/v1/studies/patients/try_out", {"question": "age > 60"}).json()
                mean = made.post("/v1/studies/patients/mean", {"question": "age", "given": "smoker"}).json()
                rehearsed = made.post("/v1/studies/patients/mean", {"question": "bmi", "rehearse": True}).json()
                told.append((first, many, tried, mean, rehearsed))
        assert told[0] == told[1]

    def test_health_says_when_a_writer_is_stuck(self, tmp_path):
        clock = Clock()
        with site(tmp_path, make_study(tmp_path), clock=clock) as made:
            desk = made.state.served["patients"]
            go = threading.Event()
            started = threading.Event()
            waiting = desk.put(lambda: (started.set(), go.wait()))
            assert started.wait(600)
            assert made.http.get("/health").status_code == 200
            clock.now += 301.0
            assert made.http.get("/health").status_code == 503
            go.set()
            waiting.result()
            wait_for(lambda: made.http.get("/health").status_code == 200)


ENDLESS = """
    import sys, threading
    import everhold as eh
    from everhold.server.config import Config, StudyAt
    from everhold.server.run import run
    from pathlib import Path

    def for_ever(self, requests):
        print("STUCK", flush=True)
        threading.Event().wait()

    eh.Holdout.ask_each = for_ever
    folder = Path(sys.argv[1])
    config = Config(studies=(StudyAt(folder / "patients.everhold"),), port=0, tokens=folder / "tokens.json",
                    log=folder / "log", shutdown_seconds=1)
    run(config, say=lambda text: None, ready=lambda url: print("READY", url, flush=True))
"""


@pytest.mark.slow
def test_a_server_ends_when_it_is_told_to_whatever_runs(tmp_path):
    """A writer that never comes back does not keep the process from ending. Before, only SIGKILL did."""
    from everhold.server.tokens import Tokens

    make_study(tmp_path)
    secret = Tokens(tmp_path / "tokens.json").create("ann", "analyst")[0]
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDLESS), str(tmp_path)],
        stdout=subprocess.PIPE, text=True, cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        url = child.stdout.readline().split()[1]
        host, port = url.rsplit("/", 1)[1].split(":")
        body = json.dumps({"question": "age > 40"}).encode()
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /v1/studies/patients/ask HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                + f"Authorization: Bearer {secret}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            assert child.stdout.readline() == "STUCK\n"
            child.send_signal(signal.SIGTERM)
            said = b""
            while piece := line.recv(65_536):
                said += piece
            assert said.startswith(b"HTTP/1.1 503"), said
            assert b"the server is stopping" in said
            assert child.wait() == 0
    finally:
        child.kill()
        child.stdout.close()
        child.wait()
    with eh.Holdout.open(tmp_path / "patients.everhold") as held:
        assert held.rounds == 0


class TestBatches:
    """Many small questions are as much work as a large one: they are divided, and nobody waits for all of them."""

    def test_a_large_batch_is_answered_in_pieces(self, tmp_path, monkeypatch):
        """Others come in between; answers and request ids are those of one batch."""
        monkeypatch.setattr("everhold.server.study_writer._PIECE", 3 * 3 * 2_000)
        asked = [f"age > {n}" for n in range(20, 40)]
        told = []
        for folder in (tmp_path / "whole", tmp_path / "pieces"):
            folder.mkdir()
            with site(folder, make_study(folder)) as made:
                desk = made.state.served["patients"]
                if folder.name == "whole":
                    monkeypatch.setattr("everhold.server.study_writer._PIECE", 10**12)
                else:
                    monkeypatch.setattr("everhold.server.study_writer._PIECE", 3 * 3 * desk.first_record.rows)
                    assert [len(piece) for piece in desk._pieces([desk._holdout.session.query(one) for one in asked])] == [
                        3
                    ] * 6 + [2]
                first = made.post("/v1/studies/patients/ask_many", {"questions": asked, "request_id": "a"}).json()
                again = made.post("/v1/studies/patients/ask_many", {"questions": asked, "request_id": "a"}).json()
                table = made.post("/v1/studies/patients/table", {"first": "city", "second": "smoker"}).json()
                log = made.get("/v1/studies/patients/log", params={"limit": 1000}).json()
                assert first == again
                told.append(
                    (
                        first,
                        table,
                        [(one["question"], str(one["request_id"]).partition(":")[2]) for one in log["questions"]],
                    )
                )
        assert told[0] == told[1]

    def test_long_batches_are_parsed_outside_the_event_loop(self, tmp_path, monkeypatch):
        threads = set()
        parsed = Session.query

        def seen(self, question, name=None):
            if isinstance(question, str):
                threads.add(threading.current_thread().name)
            return parsed(self, question, name)

        monkeypatch.setattr(Session, "query", seen)
        with site(tmp_path, make_study(tmp_path)) as made:
            made.post("/v1/studies/patients/ask", {"question": "age > 20"})
            inline = set(threads)
            threads.clear()
            batch = {"questions": [f"age > {n} OR bmi > {n} OR smoker AND age < {n}" for n in range(20, 80)]}
            assert made.post("/v1/studies/patients/ask_many", batch).status_code == 200
            assert len(threads) == 1
            assert not threads & inline
            assert not any(name.startswith("writer") for name in threads)

    def test_the_group_counts(self, tmp_path):
        from everhold.queries.expression.question import size_of_query

        with eh.Holdout.open(make_study(tmp_path)) as held:
            small, large = held.session.query("age > 20"), held.session.query("age > 20 AND bmi > 3")
            assert size_of_query(large) > size_of_query(small) == 3
            from everhold.queries.expression import bounded_mean, number

            tree = number("age", held.schema.kinds)
            assert size_of_query(bounded_mean(tree, 0.0, 90.0, given=large.tree)) == 1 + size_of_query(large)


def test_a_setting_for_slow_questions(tmp_path):
    from everhold.server.config import EXAMPLE, Config

    assert Config.load(None, environment={"EVERHOLD_QUESTION_SECONDS": "2.5"}).question_seconds == 2.5
    (tmp_path / "e.toml").write_text(EXAMPLE)
    assert Config.load(tmp_path / "e.toml", environment={}).question_seconds == 20


class TestBodies:
    """What is too large is not read: the connection ends with the response."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("bodies")
        process = Process(folder, make_study(folder), max_body_bytes=10_000)
        with process:
            yield process, process.tokens.create("ann", "analyst")[0]

    def send(self, server, headers, pieces):
        """Send until the server hangs up; how many bytes it took, and what it said."""
        process, secret = server
        host, port = process.url.rsplit("/", 1)[1].split(":")
        sent = 0
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /v1/studies/patients/ask HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                + f"Authorization: Bearer {secret}\r\n{headers}\r\n\r\n".encode()
            )
            try:
                for piece in pieces:
                    line.sendall(piece)
                    sent += len(piece)
            except OSError:
                pass
            said = b""
            try:
                while piece := line.recv(65_536):
                    said += piece
            except OSError:
                pass
        return sent, said

    def test_a_body_that_never_ends(self, server):
        """Chunks of 64 kB, 200 MB of them at the most: the server hangs up long before. It took 6.5 GB before."""
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        sent, said = self.send(server, "Transfer-Encoding: chunked", (chunk for _ in range(3_200)))
        assert sent < 50_000_000
        assert said == b"" or (said.startswith(b"HTTP/1.1 413") and b"connection: close" in said.lower())

    def test_a_body_that_is_announced_too_large(self, server):
        piece = b" " * 65_536
        sent, said = self.send(server, "Content-Length: 5000000000", (piece for _ in range(3_200)))
        assert sent < 50_000_000
        assert said == b"" or said.startswith(b"HTTP/1.1 413")

    def test_others_keep_their_connection(self, server):
        import httpx2

        process, secret = server
        with httpx2.Client(base_url=process.url, headers={"Authorization": f"Bearer {secret}"}) as client:
            for body in ({"question": "age > 40"}, {"question": "nonsense >"}, {"question": "age > 41"}):
                found = client.post("/v1/studies/patients/ask", json=body)
                assert found.headers.get("connection") != "close"
            assert client.get("/v1/nothing").headers.get("connection") != "close"
            big = None
            while big is None:  # a client that is still sending may see the end of the connection before the response
                with suppress(httpx2.ReadError, httpx2.WriteError):
                    big = client.post("/v1/studies/patients/ask", content=b"x" * 20_000)
            assert big.status_code == 413
            assert big.headers["connection"] == "close"


def test_a_body_without_its_type_is_explained(tmp_path):
    """As curl sends it when nobody says otherwise."""
    with site(tmp_path, make_study(tmp_path)) as made:
        for kind in ("application/x-www-form-urlencoded", "text/plain", ""):
            headers = {**made.as_("ann"), "Content-Type": kind} if kind else made.as_("ann")
            found = made.http.post("/v1/studies/patients/ask", content=b'{"question": "age > 40"}', headers=headers)
            assert found.status_code == 422
            assert "Content-Type: application/json" in found.json()["error"]["message"]


def test_ranges_of_dates_can_be_sent(tmp_path):
    """By programs, clients and the page: the median of a date between two dates."""
    import numpy as np
    import pandas as pd

    def rows(seed):
        days = np.random.default_rng(seed).integers(0, 300, 2_000).astype("timedelta64[D]")
        return pd.DataFrame({"seen": np.datetime64("2024-01-01") + days})

    rows(0).to_csv(tmp_path / "dates.csv", index=False)
    place = tmp_path / "dates.everhold"
    eh.Holdout.create(place, str(tmp_path / "dates.csv"), prior=eh.Reference(rows(1)), seed=0).release()
    ends = {"low": "2024-01-01", "high": "2024-12-31"}
    with site(tmp_path, place) as made:
        sent = made.post("/v1/studies/dates/median", {"question": "seen", **ends})
        assert sent.status_code == 200, sent.text
        assert sent.json()["unit"] == "date"
        described = made.get("/v1/studies/dates").json()["columns"][0]
        assert (described["low"], described["high"]) == ("2024-01-01", "2024-10-26")
        csrf = made.sign_in("ann")
        page = made.http.post("/studies/dates/ask", data={"kind": "median", "question": "seen", "csrf": csrf, **ends})
        assert "2024-05-" in page.text
