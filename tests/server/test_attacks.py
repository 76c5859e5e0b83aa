"""What a hostile reader of the server found, kept as tests."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.reader import read_study
from everhold.queries.request import AskedBy, Request
from everhold.server.caller import Caller
from everhold.server.contest_writer import ContestWriter
from everhold.server.limits import TokenBucket
from everhold.server.state import ServerState
from everhold.server.time_grid import TimeGrid
from tests.server.serving import (
    Clock,
    Process,
    access_log,
    as_csv,
    let_time_pass,
    make_contest,
    make_study,
    site,
    study_writer,
    wait_for,
)


@pytest.fixture
def made(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as found:
        yield found


def _rounds(made):
    return made.get("/v1/studies/patients/status").json()["rounds"]


def test_one_request_cannot_charge_ten_thousand_questions(made):
    huge = {"first": "age", "second": "bmi", "bins": 300}
    for rehearse in (False, True):
        told = made.post("/v1/studies/patients/table", {**huge, "rehearse": rehearse})
        assert told.status_code == 422
        assert "1,000 are allowed" in told.json()["error"]["message"]
    assert _rounds(made) == 0
    csrf = made.sign_in("ann")
    given = {"kind": "table", "question": "age", "second": "bmi", "bins": "300"}
    assert "1,000 are allowed" in made.http.get("/studies/patients/check", params=given).text
    assert made.http.post("/studies/patients/ask", data={**given, "csrf": csrf}).status_code == 422
    assert _rounds(made) == 0


def test_parts_count_for_the_rate(tmp_path):
    with site(tmp_path, make_study(tmp_path), requests_per_minute=1, burst=10) as made:
        assert made.post("/v1/studies/patients/histogram", {"question": "age", "bins": 50}).status_code == 200
        codes = [made.get("/v1/studies").status_code for _ in range(6)]
        assert codes[:3] == [200] * 3
        assert codes[-1] == 429


def test_one_token_cannot_take_all_turns(made):
    """Long work runs four at a time for a token; others are answered meanwhile."""
    desk = made.state.served["patients"]
    held, go_on = threading.Event(), threading.Event()
    desk.put(lambda: (held.set(), go_on.wait(600)))
    assert held.wait(600)
    codes = []

    def ask():
        codes.append(made.post("/v1/studies/patients/median", {"question": "age", "rehearse": True}).status_code)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
    for one in threads:
        one.start()
    wait_for(lambda: len(codes) == 4)
    assert codes == [429] * 4
    assert made.get("/v1/studies/patients/status", "aud").status_code == 200
    go_on.set()
    for one in threads:
        one.join(600)
    assert sorted(codes) == [200] * 4 + [429] * 4


def test_a_token_revoked_while_its_body_comes_asks_nothing(tmp_path):
    with Process(tmp_path, make_study(tmp_path)) as process:
        secret, token = process.tokens.create("ann", "analyst")
        host, port = process.url.removeprefix("http://").split(":")
        body = json.dumps({"question": "smoker"}).encode()
        with socket.create_connection((host, int(port)), 600) as line:
            head = f"POST /v1/studies/patients/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
            line.sendall(f"{head}{EXPECT}\r\n".encode())
            _is_read(line)
            process.tokens.revoke(token.id)
            line.sendall(body)
            told = b""
            while part := line.recv(65_536):
                told += part
        assert told.startswith(b"HTTP/1.1 401")
    assert eh.Holdout.audit_file(tmp_path / "patients.everhold").rounds == 0


def test_a_token_revoked_in_the_midst_of_a_median_stops(tmp_path):
    """Where rows belong to units a median is a search of many steps."""
    desk = study_writer(make_study(tmp_path, unit="age"))
    asked = []

    def permit(parts):
        asked.append(parts)
        if len(asked) > 5:
            raise eh.AccessDenied("revoked")

    caller = Caller("ann", permit=permit)
    with pytest.raises(eh.AccessDenied):
        asyncio.run(desk.ask(caller, eh.Median("bmi")))
    assert desk.progress.rounds == len(caller.paid) == sum(asked[:5])
    desk.close()


def test_readers_see_a_round_when_its_answer_leaves(tmp_path):
    """Looking often does not tell how long the rows took: neither the count nor the record moves off the grid."""
    clock = Clock()
    with site(tmp_path, make_study(tmp_path), grid_ms=3_000, clock=clock) as made:
        answered = threading.Event()
        thread = threading.Thread(
            daemon=True,
            target=lambda: (made.post("/v1/studies/patients/ask", {"question": "smoker"}), answered.set()),
        )
        thread.start()
        wait_for(lambda: len(read_study(tmp_path / "patients.everhold").rounds) == 1)  # durable

        def counts():
            status = made.get("/v1/studies/patients/status", "aud").json()["rounds"]
            return status, made.get("/v1/studies/patients/log", "aud").json()["total"]

        clock.now += 2.999
        assert [counts() for _ in range(5)] == [(0, 0)] * 5
        assert not answered.is_set()
        clock.now += 0.002
        let_time_pass(clock, thread)
        assert counts() == (1, 1)


def test_the_record_says_when_a_question_came_and_not_how_long_it_took(made):
    made.post("/v1/studies/patients/median", {"question": "age"})
    made.post("/v1/studies/patients/ask_many", {"questions": [f"bmi > {20 + n}" for n in range(9)]})
    asked = made.get("/v1/studies/patients/log").json()["questions"]
    rounds = [part for one in asked for part in one["parts"] or [one]]
    assert len(rounds) == 10
    assert len({one["time"] for one in [*asked, *rounds]}) == 2


def test_what_was_paid_for_is_told(tmp_path):
    with site(tmp_path, make_study(tmp_path, half_width=0.085)) as made:
        for n in range(400):
            body = {"first": "city", "second": "smoker", "given": f"age > {20 + n % 50} AND bmi > {18 + n / 10}"}
            before = _rounds(made)
            told = made.post("/v1/studies/patients/table", body)
            if told.status_code != 200:
                break
        error = told.json()["error"]
        assert error["code"] == "precision_exhausted"
        assert len(error["details"]["answers"]) == _rounds(made) - before
        made.token("eve", "analyst")
        with pytest.raises(eh.PrecisionExhausted) as refusal:
            raise _as_client(told)
        assert [one.round for one in refusal.value.answers] == [one["round"] for one in error["details"]["answers"]]


def _as_client(response):
    from everhold.client.calls import failed

    return failed(response.status_code, response.json())


def test_request_ids_are_each_token_s_own(made):
    made.token("eve", "analyst")
    for who, text in (("ann", "age > 40"), ("eve", "age > 50")):
        told = made.post("/v1/studies/patients/ask", {"question": text, "request_id": "job7/1"}, who)
        assert told.status_code == 200
    assert made.post("/v1/studies/patients/median", {"question": "age", "request_id": "job7"}).status_code == 200
    assert made.post("/v1/studies/patients/ask_many", {"questions": ["smoker"], "request_id": "job7"}).status_code == 200


def test_a_conflict_after_some_parts_says_so(tmp_path):
    desk = study_writer(make_study(tmp_path, unit="age"))
    desk.put(Request("smoker", AskedBy(request_id="a/4"))).result(600)
    with pytest.raises(eh.RequestConflict, match="3 parts of this one were answered"):
        asyncio.run(desk.ask(Caller("ann", AskedBy("", "ann", "a")), eh.Median("bmi")))
    desk.close()


def test_the_unforeseen_is_told_by_its_request_id_alone(made, monkeypatch, tmp_path):
    def fail(*_):
        raise RuntimeError("the value in row 17 is 42")

    made.sign_in("ann")
    monkeypatch.setattr(ServerState, "status", fail)
    told = made.get("/v1/studies/patients/status")
    assert told.status_code == 500
    assert told.json()["error"]["code"] == "unforeseen"
    assert "42" not in told.text.replace(told.json()["error"]["request_id"], "")
    line = access_log(tmp_path)[-1]
    assert line["unforeseen"] == "RuntimeError"
    assert "row 17" not in json.dumps(line)
    page = made.http.get("/studies/patients")
    assert page.status_code == 500
    assert "row 17" not in page.text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tokens": [{"id": 5}]}', "\0"])
def test_a_broken_file_of_tokens_lets_nobody_in(made, tmp_path, content, caplog):
    (tmp_path / "tokens.json").write_text(content)
    told = made.get("/v1/studies")
    assert "tokens.json" in caplog.text, "the operator sees why"
    assert told.status_code == 503
    assert told.json()["error"]["code"] == "unavailable"
    assert str(tmp_path) not in told.text


def test_nobody_signs_others_out(made):
    made.sign_in("cus")
    kept = dict(made.http.cookies)
    for _ in range(60):
        made.sign_in("ann")
    made.http.cookies.clear()
    made.http.cookies.update(kept)
    assert made.http.get("/", follow_redirects=False).status_code == 200


def test_buckets_hold_what_threads_take():
    rate = TokenBucket(per_minute=0.001, burst=100)
    taken = []
    threads = [
        threading.Thread(daemon=True, target=lambda: taken.extend(rate.take("a") == 0.0 for _ in range(200)))
        for _ in range(8)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum(taken) == 100


def test_a_ladder_tells_entrants_nothing_by_the_way(tmp_path):
    place, labels = make_contest(tmp_path, ladder=True, max_per_day=2)
    with site(tmp_path, place) as made:
        made.token("bob", "analyst")

        def submit(who, predictions):
            headers = {**made.as_(who), "Content-Type": "text/csv"}
            return made.http.post("/v1/contests/coins/submissions", content=as_csv(predictions), headers=headers)

        good, worse = labels.copy(), np.where(np.arange(300) % 4 == 0, 1 - labels, labels)
        assert submit("ann", good).json()["state"] == "scored"
        hidden = submit("ann", worse).json()
        assert hidden["score"] is None
        for path in ("/v1/studies/coins", "/v1/studies/coins/status"):
            told = made.get(path).json()
            assert told["surprises"] is told["price"] is told["head"] is told["sampling_half_width"] is None
            assert made.get(path, "aud").json()["price"] > 0
        board = made.get("/v1/contests/coins/board").json()
        assert board["head"] is board["price"] is None
        copied = submit("bob", good).json()
        assert copied["score"] is None
        assert "best so far" not in copied["reason"]
        again = submit("ann", good).json()  # at the daily limit: a retry gets what was scored
        assert again["state"] == "repeated"
        other = submit("ann", np.where(np.arange(300) % 7 == 0, 1 - labels, labels))
        assert other.status_code == 429
        assert other.json()["error"]["details"]["state"] == "too soon"
        made.sign_in("ann")
        assert "price so far" not in made.http.get("/contests/coins").text


class _Odd(BaseHTTPRequestHandler):
    """A server that answers in odd ways."""

    status, content, headers_out = 200, b"", {}

    def do_GET(self):
        self.send_response(self.status)
        for name, value in self.headers_out.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def odd():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "content", "headers"),
    [
        (429, b'{"error": {"code": "x", "details": []}}', {}),
        (429, b'{"error": {"code": "x", "details": {}}}', {"Retry-After": "\xb2"}),
        (409, b'{"error": {"code": "precision_exhausted", "details": {"asked": 1}}}', {}),
        (200, b"[" * 100_000, {}),
        (200, b"not gzip", {"Content-Encoding": "gzip"}),
        (200, b"{}", {}),
        (200, b"null", {}),
        (200, b'{"kind": "answer"}', {}),
        (200, b'{"kind": "answer", "value": "x", "low": 1, "high": 0, "price": 1}', {}),
        (500, b"<html>", {}),
        (302, b"", {"Location": "/elsewhere"}),
    ],
)
def test_odd_servers_give_errors_of_everhold_s_own(odd, status, content, headers):
    _Odd.status, _Odd.content, _Odd.headers_out = status, content, headers
    with eh.connect(odd, "evh_x", patience=0.2) as server:
        for ask in (lambda: server.study("x").ask("age > 40"), lambda: server.study("x").size, server.studies):
            with pytest.raises(eh.EverholdError):
                ask()


def test_what_cannot_be_sent_is_told_before_it_is():
    with eh.connect("http://127.0.0.1:9", "evh_x", patience=0.1) as server:
        study = server.study("x")
        for wrong in (
            lambda: study.mean("bmi", low=float("nan"), high=1.0),
            lambda: study.mean("bmi", low=object(), high=1.0),
            lambda: server.study("..").ask("age > 40"),
            lambda: server.study("").status(),
        ):
            with pytest.raises(eh.EverholdError, match=r"cannot be sent|no study"):
                wrong()
    with pytest.raises(eh.ServerError, match="password"):
        eh.connect("http://user:secret@127.0.0.1:9", "evh_x")


def test_numbers_of_numpy_can_be_sent(made, monkeypatch):
    from everhold.client import transport

    body = json.loads(transport._encoded({"low": np.float32(0.5), "bins": np.int64(3)}))
    assert body == {"low": 0.5, "bins": 3}


def test_closing_with_a_question_that_was_given_up(tmp_path):
    desk = study_writer(make_study(tmp_path))
    held, go_on = threading.Event(), threading.Event()
    desk.put(lambda: (held.set(), go_on.wait(600)))
    assert held.wait(600)
    gone, kept = desk.put(Request("age > 40")), desk.put(Request("age > 41"))
    assert gone.cancel()
    closing = threading.Thread(daemon=True, target=desk.close)
    closing.start()
    go_on.set()
    closing.join(600)
    assert kept.result(0).round == 1
    desk.close()  # twice does no harm


@pytest.mark.slow
def test_a_cut_off_connection_does_not_stop_the_question(tmp_path):
    """Whoever hangs up after asking has asked: the answer is recorded, and a retry gets it."""
    with Process(tmp_path, make_study(tmp_path), grid_ms=2_000) as process:
        secret = process.tokens.create("ann", "analyst")[0]
        host, port = process.url.removeprefix("http://").split(":")
        body = json.dumps({"question": "smoker", "request_id": "r"}).encode()
        with socket.create_connection((host, int(port)), 600) as line:
            head = f"POST /v1/studies/patients/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
            line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            wait_for(lambda: len(read_study(tmp_path / "patients.everhold").rounds) == 1)
        with eh.connect(process.url, secret) as server:
            wait_for(lambda: server.study("patients").rounds == 1)
            assert server.study("patients").ask("smoker", request_id="r").round == 1
            assert server.study("patients").rounds == 1


def _connect(process):
    host, port = process.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 600)


def _reply(line):
    """A whole response with a JSON body."""
    line.settimeout(10)
    told = b""
    while not told.endswith(b"}"):
        told += line.recv(65_536)
    return told


EXPECT = "Expect: 100-continue\r\n"
"""A server that reads the body of such a request says so first."""


def _is_read(line):
    """Wait until the server reads the body: it has looked at the token by then."""
    seen = b""
    while not seen.endswith(b"\r\n\r\n"):
        seen += line.recv(1)
    assert seen.startswith(b"HTTP/1.1 100"), seen


def _closes(line):
    """Whether the other side hangs up, sooner or later."""
    try:
        while line.recv(65_536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


@pytest.fixture(scope="class")
def impatient(tmp_path_factory):
    folder = tmp_path_factory.mktemp("impatient")
    make_contest(folder)
    studies = (make_study(folder), folder / "coins.everhold")
    with Process(folder, *studies, header_seconds=1, body_seconds=2) as process:
        process.secret = process.tokens.create("ann", "custodian")[0]
        yield process


class TestSlowOnes:
    def test_idle_and_dribbling_connections_are_closed(self, impatient):
        with _connect(impatient) as silent, _connect(impatient) as dribbling, _connect(impatient) as second:
            dribbling.sendall(b"GET /health HTT")
            second.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert _reply(second).startswith(b"HTTP/1.1 200")
            second.sendall(b"G")  # another request that never comes
            assert _closes(silent)
            assert _closes(dribbling)
            assert _closes(second)

    def test_a_connection_that_goes_on_is_kept(self, impatient):
        """Requests that come in time keep it open for longer than one of them may take; late ones do not count."""
        for _ in range(1_000):
            if self._goes_on(impatient):
                return
        raise AssertionError("the machine never managed two requests within a second")

    @staticmethod
    def _goes_on(impatient):
        with _connect(impatient) as line:
            begun = last = time.monotonic()
            while last - begun < 1.5:
                try:
                    line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                    reply = _reply(line)
                except (ConnectionError, IndexError):
                    reply = b""
                now = time.monotonic()
                late, last = now - last > 0.7, now
                if late:
                    return False
                assert reply.startswith(b"HTTP/1.1 200")
            return True

    def test_a_body_has_its_time(self, impatient):
        with _connect(impatient) as line:
            head = f"POST /v1/studies/patients/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {impatient.secret}\r\n"
            line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{".encode())
            told = _reply(line)
        assert told.startswith(b"HTTP/1.1 408")
        assert b"too_slow" in told

    def test_many_slow_strangers_do_not_keep_others_out(self, impatient):
        """Sign-ins that never end, and readers who never read: others are answered."""
        lines = [_connect(impatient) for _ in range(260)]
        for number, line in enumerate(lines):
            if number % 2:
                line.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\nt")
            else:
                line.sendall(b"GET /static/swagger/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n")
        with eh.connect(impatient.url, impatient.secret, timeout=600.0) as server:
            assert server.study("patients").ask("age > 40").round >= 1
        for line in lines:
            line.close()

    @pytest.mark.parametrize(("path", "status"), [("/v1/studies/patients/ask", 400), ("/sign-in", 499)])
    def test_whoever_hangs_up_is_no_fault_of_the_server(self, impatient, path, status):
        name = f"gone-{status}"
        with _connect(impatient) as line:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {impatient.secret}\r\n"
            head += "Content-Type: application/x-www-form-urlencoded\r\n" if path == "/sign-in" else ""
            line.sendall(f"{head}X-Request-ID: {name}\r\nContent-Length: 50\r\n{EXPECT}\r\n".encode())
            _is_read(line)
            line.sendall(b"{")

        def noted():
            return [one["status"] for one in access_log(impatient.folder) if one["request_id"] == name]

        wait_for(noted)
        assert noted() == [status]

    def test_submissions_of_one_token_do_not_fill_the_memory(self, impatient):
        lines = []
        head = f"POST /v1/contests/coins/submissions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {impatient.secret}\r\n"
        for _ in range(3):
            lines.append(_connect(impatient))
            lines[-1].sendall(f"{head}Content-Length: 1000000\r\n{EXPECT}\r\n".encode())
            _is_read(lines[-1])
        with _connect(impatient) as fourth:
            fourth.sendall(f"{head}Content-Length: 1000000\r\n\r\nid".encode())
            assert _reply(fourth).startswith(b"HTTP/1.1 429")
        for line in lines:
            line.close()


def test_a_board_and_a_file_move_when_answers_leave(tmp_path):
    """Looking often at a contest's board, or at the study's file, does not tell how long the rows took."""
    place, labels = make_contest(tmp_path)
    clock = Clock()
    with site(tmp_path, place, make_study(tmp_path), grid_ms=2_000, clock=clock) as made:
        headers = {**made.as_("ann"), "Content-Type": "text/csv"}
        asking = [
            threading.Thread(
                daemon=True,
                target=lambda: made.http.post("/v1/contests/coins/submissions", content=as_csv(labels), headers=headers),
            ),
            threading.Thread(daemon=True, target=lambda: made.post("/v1/studies/patients/ask", {"question": "smoker"})),
        ]
        for one in asking:
            one.start()
        wait_for(lambda: len(read_study(tmp_path / "patients.everhold").rounds) == 1)
        wait_for(lambda: len(made.state.served["coins"].contest.log()) == 1)
        wait_for(lambda: made.state.served["coins"].release_time() > clock.now + 1.9)  # scored, and on its way
        clock.now += 1.999
        fetched = []
        fetching = threading.Thread(
            daemon=True, target=lambda: fetched.append(made.get("/v1/studies/patients/file", "aud").content)
        )
        fetching.start()
        for _ in range(5):
            assert made.get("/v1/studies/coins/status").json()["rounds"] == 0
            assert made.get("/v1/contests/coins/board").json()["places"] == []
        assert not fetched
        clock.now += 0.002
        let_time_pass(clock, *asking, fetching)
        assert b"smoker" in fetched[0]
        assert made.get("/v1/studies/coins/status").json()["rounds"] == 1
        assert len(made.get("/v1/contests/coins/board").json()["places"]) == 1


def test_a_board_moves_on_under_a_stream_of_submissions(tmp_path):
    """Each is shown when its answer leaves, however many come after it."""
    place, labels = make_contest(tmp_path)
    desk = ContestWriter(place, grid=TimeGrid(0.2))
    rng = np.random.default_rng(0)
    stop, seen = threading.Event(), set()

    def entrants():
        while not stop.is_set():
            guess = np.where(rng.random(300) < 0.2, 1 - labels, labels)
            asyncio.run(desk.submit("ann", as_csv(guess).encode(), arrived=time.monotonic()))

    thread = threading.Thread(daemon=True, target=entrants)
    thread.start()
    try:
        wait_for(lambda: seen.add(desk.progress.rounds) or len(seen) >= 4)
    finally:
        stop.set()
        thread.join()
        desk.close()


def test_a_board_does_not_wait_for_what_was_refused(tmp_path):
    """Refused submissions are noted up to a limit, and the log is read once, not anew for each."""
    place, labels = make_contest(tmp_path)
    contest = eh.Contest(place)
    for _ in range(1_005):
        assert contest.submit("eve", "nonsense").state == "malformed"
    assert len(contest.log()) == 1_000
    assert contest.submit("eve", labels).state == "scored"
    assert len(contest.log()) == 1_001
    assert eh.Contest(place).log() == contest.log()
    assert contest.board().places[0].entrant == "eve"


def test_a_taken_port_is_told_before_anything_is_opened(tmp_path):
    from typer.testing import CliRunner

    from everhold.cli.main import app

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = CliRunner().invoke(app, ["serve", str(make_study(tmp_path)), "--port", str(port)])
    assert told.exit_code == 4
    assert "cannot listen on 127.0.0.1" in told.output


def test_an_agent_with_a_dead_token_is_told_at_the_start(tmp_path):
    from typer.testing import CliRunner

    from everhold.cli.main import app

    with Process(tmp_path, make_study(tmp_path)) as process:
        told = CliRunner().invoke(app, ["mcp", "patients", "--server", process.url, "--token", "evh_dead"])
    assert told.exit_code == 9


def test_wrong_addresses_and_closed_connections_are_errors_of_everhold_s_own(tmp_path):
    with pytest.raises(eh.ServerError):
        eh.connect("http://[::1", "evh_x")
    with pytest.raises(eh.ServerError, match="certificate"):
        eh.connect("https://127.0.0.1:9", "evh_x", verify="/nowhere.pem")
    server = eh.connect("http://127.0.0.1:9", "evh_x", patience=0.1)
    server.close()
    with pytest.raises(eh.ServerError, match="closed"):
        server.studies()


def test_a_conflict_names_the_id_as_it_was_sent(made):
    made.post("/v1/studies/patients/ask", {"question": "age > 40", "request_id": "mine"})
    told = made.post("/v1/studies/patients/ask", {"question": "age > 41", "request_id": "mine"})
    assert "request id 'mine' belongs" in told.json()["error"]["message"]
