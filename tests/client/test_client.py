"""The client, the command line, the page and the library give the same answers; retries ask once."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.demo_study import make_demo_study
from everhold.cli.main import app
from tests.server.serving import Process, as_csv, make_contest, make_study, wait_for

QUESTIONS = {
    "ask": (("age > 40",), {}),
    "share": (("smoker",), {"given": "age > 40"}),
    "mean": (("bmi",), {"low": 10.0, "high": 60.0}),
    "median": (("age",), {}),
    "quantile": (("age", 0.9), {}),
    "variance": (("bmi",), {}),
    "correlation": (("age", "bmi"), {"first_range": (18, 90)}),
    "difference": (("smoker", "city = 'York'", "city = 'Leeds'"), {}),
    "compare": (("smoker", "age > 80"), {}),
    "histogram": (("age",), {"edges": [18, 30, 60, 90]}),
    "table": (("city", "smoker"), {}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def labels(folder):
    return make_contest(folder)[1]


@pytest.fixture(scope="module")
def process(folder, labels):
    studies = [make_study(folder, name) for name in ("patients", "twin", "first", "second", "third", "fourth", "last")]
    with Process(folder, *studies, folder / "coins.everhold", make_contest(folder, "open", sealed=0.0)[0]) as made:
        yield made


@pytest.fixture(scope="module")
def secrets(process):
    return {scope: process.tokens.create(scope, scope)[0] for scope in ("analyst", "auditor", "custodian")}


@pytest.fixture
def server(process, secrets):
    with eh.connect(process.url, secrets["analyst"]) as made:
        yield made


def _rounds(questions):
    """The value of every round that stands in a log, in order."""
    found = {part.round: part.answer.value for one in questions for part in one.parts}
    return [found[number] for number in sorted(found)]


def test_client_async_client_command_line_and_page_answer_as_the_library(process, server, secrets, tmp_path):
    """Five studies alike, asked the same in the same order by five ways: equal to the last bit."""
    with eh.Holdout.open(make_study(tmp_path, "near")) as near:
        library = {name: getattr(near, name)(*args, **more) for name, (args, more) in QUESTIONS.items()}
        rehearsed = near.rehearsal.mean("bmi", given="smoker")
        previewed = near.try_out("age > 50")
        facts = (near.rounds, near.surprises, near.price, near.size)
        log = [near.journal[number].answer for number in range(1, near.rounds + 1)]
        asked = [one.question for one in near.findings()]
    assert facts[1] >= 1

    study = server.study("first")
    assert {name: getattr(study, name)(*args, **more) for name, (args, more) in QUESTIONS.items()} == library
    assert study.rehearsal.mean("bmi", given="smoker") == rehearsed
    assert study.try_out("age > 50") == previewed
    assert (study.rounds, study.surprises, study.price, study.size) == facts
    assert _rounds(study.log()) == [one.value for one in log]
    assert [one.question for one in study.log()] == asked

    async def later():
        async with eh.connect_async(process.url, secrets["analyst"]) as far:
            twin = far.study("second")
            found = {name: await getattr(twin, name)(*args, **more) for name, (args, more) in QUESTIONS.items()}
            rounds = [one async for one in twin.log()]
            assert (await twin.status())["rounds"] == len(_rounds(rounds)) == facts[0]
            return found

    assert asyncio.run(later()) == library

    run = CliRunner(env={"EVERHOLD_TOKEN": secrets["analyst"]})
    told = run.invoke(app, ["ask", "third", "age > 40", "--server", process.url, "--json"])
    assert told.exit_code == 0, told.output
    shown = json.loads(told.stdout)
    assert shown["value"] == library["ask"].value
    assert shown["low"] == library["ask"].low
    told = run.invoke(app, ["ask", "third", "smoker", "--given", "age > 40", "--server", process.url, "--json"])
    assert json.loads(told.stdout)["value"] == library["share"].value

    import httpx2

    with httpx2.Client(base_url=process.url, follow_redirects=True) as page:
        page.post("/sign-in", data={"token": secrets["analyst"], "next": "/"})
        csrf = page.get("/").text.split('name="csrf" value="')[1].split('"')[0]
        given = {"csrf": csrf, "kind": "share", "question": "age > 40"}
        assert "Round 1" in page.post("/studies/fourth/ask", data=given).text
        page.post("/studies/fourth/ask", data={**given, "question": "smoker", "given": "age > 40"})
        rounds = page.get("/studies/fourth/history.json").json()
    assert [one["value"] for one in rounds] == [library["ask"].value, library["share"].value]
    assert [one["low"] for one in rounds] == [library["ask"].low, library["share"].low]
    assert [one["low"] for one in rounds[1]["parts"]] == [part.low for part in library["share"].parts]


def test_the_samples_of_the_reference_run(process, secrets, capsys):
    """docs/reference/server.md: the code blocks, against a living server."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "server.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    assert len(blocks) == 3
    names = {"token": secrets["analyst"], "url": process.url}
    exec(blocks[0].replace('"https://data.example.org"', "url"), names)
    assert capsys.readouterr().out
    with eh.connect(process.url, secrets["custodian"]) as server:
        exec(blocks[1], {"eh": eh, "study": server.study("last")})
        assert server.study("last").status()["closed"]
    program = "async def main():\n" + "".join(f"    {line}\n" for line in blocks[2].splitlines())
    exec("import asyncio\n" + program + "    return answers\n", names)
    assert len(asyncio.run(names["main"]())) == 60


def test_a_contest_is_ended_from_afar(process, secrets, tmp_path):
    """Preview, duel and end, by the client that waits, the one that does not, and the command line."""
    labels = np.random.default_rng(3).integers(0, 2, 300)
    flipped = np.where(np.arange(300) % 3 == 0, 1 - labels, labels)
    others = [process.tokens.create(name, "analyst")[0] for name in ("one", "two")]
    for secret, guess in zip(others, (labels, flipped), strict=True):
        with eh.connect(process.url, secret) as server:
            assert server.contest("open").submit(guess).score is not None
    with eh.connect(process.url, secrets["custodian"]) as server:
        contest = server.contest("open")
        preview = contest.preview("one", "two")
        assert preview.differing == 100
        assert contest.duel("one", "two", request_id="d")
        assert contest.duel("one", "two", request_id="d")
        assert not contest.duel("two", "one")
        assert contest.preview().last
    with eh.connect(process.url, secrets["analyst"]) as server, pytest.raises(eh.AccessDenied):
        server.contest("open").finish()

    async def end():
        async with eh.connect_async(process.url, secrets["custodian"]) as server:
            contest = server.contest("open")
            assert (await contest.preview("two", "one")).needed is not None
            assert not await contest.duel("two", "one")
            return (await contest.preview()).duels, await contest.finish()

    duels, board = asyncio.run(end())
    assert duels == 1
    assert board.final
    far = ["--server", process.url, "--token", secrets["custodian"]]
    told = CliRunner().invoke(app, ["contest", "finish", "open", *far])
    assert told.exit_code == 0, told.output
    assert told.output.startswith("Guess the coins (accuracy), final")
    assert re.search(r"^ +1  one ", told.output, re.MULTILINE)
    told = CliRunner().invoke(app, ["contest", "duel", "open", "one", "two", "--preview", *far])
    assert "is closed" in told.output


def test_an_asynchronous_contest(process, secrets, labels, tmp_path):
    async def play():
        async with eh.connect_async(process.url, secrets["auditor"]) as server:
            assert (await server.contest("coins").rules())["metric"] == "accuracy"
            assert set(await server.study("patients").schema()) == {"age", "smoker", "bmi", "city"}
            place = await server.study("patients").download(tmp_path / "copy.everhold")
        async with eh.connect_async(process.url, secrets["custodian"]) as server:
            mine = np.where(np.arange(300) == 7, 1 - labels, labels)  # nobody else submits this
            scored = await server.contest("coins").submit(mine)
            wrong = await server.contest("coins").submit("id,prediction\n0,7\n")
            return place, scored, wrong, await server.contest("coins").board()

    place, scored, wrong, board = asyncio.run(play())
    assert eh.Holdout.audit_file(place).ok
    assert scored.score is not None
    assert wrong.state == "malformed"
    assert "custodian" in {one.entrant for one in board.places}


def test_batches(server):
    study = server.study("twin")
    answers = study.ask_many(["age > 33", "smoker", "bmi > 30"], request_id="batch")
    assert study.ask_many(["age > 33", "smoker", "bmi > 30"], request_id="batch") == answers
    assert [type(one) for one in answers] == [eh.Answer] * 3


def test_errors_are_those_of_the_library(process, server, secrets):
    study = server.study("patients")
    with pytest.raises(eh.QuestionError, match="Did you mean 'smoker'"):
        study.ask("smokr")
    with pytest.raises(eh.QuestionError, match="callables and arrays"):
        study.ask(lambda rows: rows["age"] > 40)
    with pytest.raises(eh.QuestionError, match="list of questions"):
        study.ask_many("age > 40")
    with pytest.raises(eh.QuestionError, match="strictly between 0 and 1"):
        study.quantile("age", 3.0)
    study.ask("age > 44", request_id="mine")
    with pytest.raises(eh.RequestConflict):
        study.ask("age > 45", request_id="mine")
    with pytest.raises(eh.AccessDenied):
        study.audit()
    with pytest.raises(eh.AccessDenied):
        eh.connect(process.url, "evh_wrong").studies()
    with pytest.raises(eh.ServerError, match="no study of that name"):
        server.study("nowhere").ask("age > 40")
    with pytest.raises(eh.ServerError, match="could not be reached"):
        eh.connect("http://127.0.0.1:9", secrets["analyst"], patience=0.2).studies()
    with pytest.raises(eh.AccessDenied, match="EVERHOLD_TOKEN"):
        eh.connect(process.url, "")
    with pytest.raises(eh.ServerError, match="address"):
        eh.connect("data.example.org", "evh_x")


def test_an_auditor_needs_not_believe_the_server(process, secrets, tmp_path):
    with eh.connect(process.url, secrets["auditor"]) as server:
        study = server.study("patients")
        assert study.audit().ok
        place = study.download(tmp_path / "copy.everhold")
        assert eh.Holdout.audit_file(place, expect_head=study.head).ok
        assert study.certificate()["audit"]["ok"]
        with pytest.raises(eh.AccessDenied):
            study.ask("age > 40")
        assert set(study.schema) == {"age", "smoker", "bmi", "city"}


def test_the_command_line_behind_a_server(process, secrets, folder, labels, tmp_path):
    run = CliRunner(env={"EVERHOLD_TOKEN": secrets["analyst"]})
    far = ["--server", process.url]
    told = run.invoke(app, ["try", "patients", "age > 40", *far])
    assert "if nothing surprises" in told.stdout
    assert "read: about" in told.stdout
    told = run.invoke(app, ["status", "patients", *far])
    assert "private rows" in told.stdout
    assert "smoker" in told.stdout
    assert run.invoke(app, ["ask", "patients", "age > 40", *far]).exit_code == 0
    told = run.invoke(app, ["log", "patients", "--json", *far])
    assert {"round", "question", "who"} <= set(json.loads(told.stdout.splitlines()[0]))
    told = run.invoke(app, ["ask", "patients", "smokr", *far])
    assert told.exit_code == 3
    told = run.invoke(app, ["ask", "patients", "age > 1", "--who", "eve", *far])
    assert told.exit_code == 4
    told = run.invoke(app, ["ask", "patients", "age > 40", "--server", process.url, "--token", "evh_wrong"])
    assert told.exit_code == 9
    predictions = tmp_path / "mine.csv"
    predictions.write_text(as_csv(labels))
    told = run.invoke(app, ["contest", "submit", "coins", str(predictions), "--json", *far])
    assert json.loads(told.stdout)["entrant"] == "analyst"
    told = run.invoke(app, ["contest", "submit", "coins", str(predictions), "--entrant", "eve", *far])
    assert "Leave --entrant out" in " ".join(told.output.split())
    told = run.invoke(app, ["score", "--study", "coins", str(predictions), "--json", *far])
    assert json.loads(told.stdout)["state"] == "repeated"


def test_a_contest_leads_a_search(server, labels):
    """`GridSearchCV` with two processes: the scorer travels, the labels stay."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    features = np.column_stack([labels + rng.normal(0, 0.3, 300), rng.normal(size=300)])
    contest = server.contest("coins")
    train = rng.integers(0, 2, 200)
    x_train = np.column_stack([train + rng.normal(0, 0.3, 200), rng.normal(size=200)])
    scorer = contest.scorer(features)
    assert server._token not in repr(scorer)
    search = GridSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 5]}, scoring=scorer, cv=[(np.arange(200), [0])],
        n_jobs=2, refit=False,
    )  # fmt: skip
    search.fit(x_train, train)
    assert search.cv_results_["mean_test_score"].min() > 0.8
    board = contest.board()
    assert "analyst" in {place.entrant for place in board.places}
    wrong = contest.submit(np.full(300, 9))
    assert wrong.state == "malformed"
    assert wrong.row is not None
    with pytest.raises(eh.QuestionError, match="300 rows"):
        contest.submit([0, 1])


class _Flaky(BaseHTTPRequestHandler):
    """A proxy that loses the first answers: after the server has answered, the client hears nothing, or 'too many'."""

    upstream = ""
    losses: list[str]
    seen: list[bytes]

    def do_POST(self):
        import httpx2

        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(body)
        headers = {"Authorization": self.headers["Authorization"], "Content-Type": "application/json"}
        told = httpx2.post(self.upstream + self.path, content=body, headers=headers)
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "cut":
            self.connection.close()
            return
        status, content = (told.status_code, told.content) if not loss else (int(loss), b'{"error": {"code": "x"}}')
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("asynchronous", [False, True])
def test_lost_answers_are_asked_again_under_the_same_id_and_charged_once(process, secrets, asynchronous):
    _Flaky.upstream, _Flaky.losses, _Flaky.seen = process.url, ["cut", "503", "429", "502"], []
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _Flaky)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{proxy.server_port}"
    question = f"age > {51 if asynchronous else 52} AND bmi > 31.7"
    with eh.connect(process.url, secrets["analyst"]) as straight:
        before = straight.study("patients").rounds
        if asynchronous:

            async def ask():
                async with eh.connect_async(url, secrets["analyst"]) as far:
                    return await far.study("patients").ask(question)

            answer = asyncio.run(ask())
        else:
            with eh.connect(url, secrets["analyst"]) as far:
                answer = far.study("patients").ask(question)
        assert straight.study("patients").rounds == before + 1
        assert straight.study("patients").ask(question) == answer
    proxy.shutdown()
    proxy.server_close()
    assert len(_Flaky.seen) == 5
    assert len(set(_Flaky.seen)) == 1  # the same body, with the same id
    assert json.loads(_Flaky.seen[0])["request_id"]


def test_a_redirect_does_not_carry_the_token_away(secrets):
    carried = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self):
            carried.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    thief = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=thief.serve_forever, daemon=True).start()
    with (
        eh.connect(f"http://127.0.0.1:{thief.server_port}", secrets["analyst"]) as server,
        pytest.raises(eh.ServerError, match="not as an everhold server does"),
    ):
        server.studies()
    thief.shutdown()
    thief.server_close()
    assert carried == ["/v1/studies"]


def test_a_connection_can_be_sent_to_another_process(server):
    again = pickle.loads(pickle.dumps(server))
    assert again.study("patients").size == 4_000
    again.close()


def test_tls_without_a_proxy(tmp_path):
    certificate, key = _self_signed(tmp_path)
    given = {"certificate": certificate, "private_key": key}
    with Process(tmp_path, make_study(tmp_path), **given) as process:
        assert process.url.startswith("https://")
        secret = process.tokens.create("ann", "analyst")[0]
        url = process.url.replace("127.0.0.1", "localhost")
        with eh.connect(url, secret, verify=str(certificate)) as server:
            assert server.study("patients").ask("age > 40").round == 1
        with (
            eh.connect(url, secret, patience=0.1) as careful,
            pytest.raises(eh.ServerError, match="could not be reached"),
        ):
            careful.studies()  # nobody vouches for this certificate


def test_an_unreachable_server_is_named_before_patience_ends(caplog):
    """Once, and not where nothing is tried again."""
    with pytest.raises(eh.ServerError, match="could not be reached"):
        eh.connect("http://127.0.0.1:9", "evh_x", patience=0.5).studies()
    assert [one.getMessage() for one in caplog.records if one.name == "everhold.client"] == [
        "cannot reach http://127.0.0.1:9: trying again for 0.5 s"
    ]
    caplog.clear()
    with pytest.raises(eh.ServerError, match="could not be reached"):
        eh.connect("http://127.0.0.1:9", "evh_x", patience=0.0).studies()
    assert not [one for one in caplog.records if one.name == "everhold.client"]


def _self_signed(folder):
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    signed = made.sign(key, hashes.SHA256())
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return folder / "certificate.pem", folder / "key.pem"


def test_the_demo_s_study_can_be_served(tmp_path):
    """What `make serve` does: a study, once, that a server opens and that can be surprised."""
    place = tmp_path / "demo.everhold"
    assert make_demo_study(place)
    assert not make_demo_study(place)
    with Process(tmp_path, place) as process:
        secret = process.tokens.create("me", "custodian")[0]
        with eh.connect(process.url, secret) as server:
            study = server.study("demo")
            assert study.size == 20_000
            assert study.ask("smoker").surprise
            assert not study.ask("age > 40").surprise


@pytest.mark.slow
def test_it_stops_gracefully_and_goes_on_where_it_was(folder, tmp_path):
    process = Process(tmp_path, make_study(tmp_path))
    process.start()
    secret = process.tokens.create("ann", "analyst")[0]
    answers, failed = [], []

    def analyst():
        with eh.connect(process.url, secret, patience=60.0) as server:
            study = server.study("patients")
            for n in range(60):
                try:
                    answers.append((f"age > {20 + n}", study.ask(f"age > {20 + n}")))
                except eh.EverholdError as error:
                    failed.append(error)

    thread = threading.Thread(target=analyst, daemon=True)
    thread.start()
    wait_for(lambda: len(answers) >= 10)
    assert process.stop() == 0
    process.start()
    thread.join()
    assert not failed
    assert len(answers) == 60
    with eh.connect(process.url, secret) as server:
        assert [server.study("patients").ask(text) for text, _ in answers] == [answer for _, answer in answers]
    process.stop()
    assert eh.Holdout.audit_file(tmp_path / "patients.everhold").ok
