"""What is durable and has not left yet: no route shows it, whatever the moment."""

import asyncio
import threading

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.reader import read_study
from everhold.server.contest_writer import ContestWriter
from everhold.server.study_writer import StudyWriter
from everhold.server.try_outs import TryOuts
from tests.server.serving import Clock, as_csv, let_time_pass, make_contest, make_study, people, save, site, wait_for


def _later(work):
    thread = threading.Thread(daemon=True, target=work)
    thread.start()
    return thread


def test_an_audit_says_nothing_of_what_has_not_left(tmp_path):
    """Before, it counted a reading of a submission whose answer was still on its way."""
    place, _ = make_contest(tmp_path)
    clock = Clock()
    with site(tmp_path, place, grid_ms=4_000, clock=clock) as made:
        headers = {**made.as_("ann"), "Content-Type": "text/csv"}
        known = made.get("/v1/studies/coins/audit", "aud").json()
        body = as_csv(np.random.default_rng(0).integers(0, 2, 300))
        thread = _later(lambda: made.http.post("/v1/contests/coins/submissions", content=body, headers=headers))
        wait_for(lambda: len(read_study(place).rounds) == 1)
        wait_for(lambda: made.state.served["coins"].release_time() > clock.now + 3.0)
        made.state._audits.clear()
        assert made.get("/v1/studies/coins/audit", "aud").json() == known
        clock.now += 5.0
        let_time_pass(clock, thread)
        assert made.get("/v1/studies/coins/audit", "aud").json()["rounds"] == 1


def test_a_file_does_not_leave_before_its_answers(tmp_path, monkeypatch):
    """Also in the moment between the commit and its publication."""
    committed, go_on = threading.Event(), threading.Event()
    publish = StudyWriter._publish

    def slow(self, arrived):
        committed.set()
        assert go_on.wait(600)
        publish(self, arrived)

    clock = Clock()
    with site(tmp_path, make_study(tmp_path), grid_ms=1_000, clock=clock) as made:
        monkeypatch.setattr(StudyWriter, "_publish", slow)
        asking = _later(lambda: made.post("/v1/studies/patients/ask", {"question": "smoker"}))
        assert committed.wait(600)
        fetched = []
        fetching = _later(lambda: fetched.append(made.get("/v1/studies/patients/file", "aud").content))
        for _ in range(20):
            assert made.get("/v1/studies/patients/status").json()["rounds"] == 0
        assert not fetched
        go_on.set()
        wait_for(lambda: made.state.grid.waiting)
        assert not fetched
        while asking.is_alive() or fetching.is_alive():
            clock.now += 0.1
            asking.join(0.01)
            fetching.join(0.01)
        assert b"smoker" in fetched[0]


def test_a_reader_does_not_publish_what_is_being_scored(tmp_path, monkeypatch):
    """A look at the board in the moment after the commit shows the board as it was."""
    place, labels = make_contest(tmp_path)
    clock = Clock()
    with site(tmp_path, place, grid_ms=3_000, clock=clock) as made:
        scored, go_on = threading.Event(), threading.Event()
        look = ContestWriter._take_view

        def slow(self):
            if threading.current_thread().name.startswith("writer"):
                scored.set()
                assert go_on.wait(600)
            return look(self)

        monkeypatch.setattr(ContestWriter, "_take_view", slow)
        headers = {**made.as_("ann"), "Content-Type": "text/csv"}
        thread = _later(lambda: made.http.post("/v1/contests/coins/submissions", content=as_csv(labels), headers=headers))
        assert scored.wait(600)
        for _ in range(10):
            assert made.get("/v1/contests/coins/board").json()["places"] == []
        go_on.set()
        wait_for(lambda: made.state.grid.waiting)
        assert made.get("/v1/contests/coins/board").json()["places"] == []
        while thread.is_alive():
            clock.now += 0.1
            thread.join(0.01)
        assert len(made.get("/v1/contests/coins/board").json()["places"]) == 1


def test_forms_that_cannot_be_read_are_refused(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        body = b'--x\r\nContent-Disposition: form-data; name="token"\r\n\r\nevh\r\n--x--\r\n'
        for charset in ("undefined", "nonsense", "idna"):
            kind = f"multipart/form-data; boundary=x; charset={charset}"
            found = made.http.post("/sign-in", content=body, headers={"Content-Type": kind})
            assert found.status_code in (400, 401), (charset, found.text)


def test_numbers_that_are_none_are_refused(tmp_path):
    """Before: 500, and charged."""
    with site(tmp_path, make_study(tmp_path)) as made:
        sent = [
            ("histogram", b'{"question": "smoker", "edges": [NaN, 1e999]}'),
            ("compare", b'{"first": "smoker", "second": "age > 80", "low": NaN}'),
            ("ratio", b'{"first": "bmi", "second": "age", "first_range": [5]}'),
        ]
        headers = {**made.as_("ann"), "Content-Type": "application/json"}
        for kind, body in sent:
            found = made.http.post(f"/v1/studies/patients/{kind}", content=body, headers=headers)
            assert found.status_code in (400, 422), found.text
        csrf = made.sign_in("ann")
        for form in (
            {"kind": "mean", "question": "bmi", "low": "nan", "high": "3"},
            {"kind": "histogram", "question": "age", "edges": "nan, inf"},
            {"kind": "ratio", "question": "bmi", "second": "age", "first_range": "5"},
        ):
            assert made.http.post("/studies/patients/ask", data={**form, "csrf": csrf}).status_code == 422
            assert "wrong" in made.http.get("/studies/patients/check", params=form).text
        assert made.get("/v1/studies/patients/status").json()["rounds"] == 0


PUBLIC = people(3_000, 0.2, 2)


def make_private(folder):
    """A private study whose budget pays for one surprise."""
    data = save(folder / "patients.csv", people(4_000, 0.5, 1))
    place = folder / "patients.everhold"
    promise = eh.Privacy(epsilon=3.0, surprises=1)
    schema = eh.Schema.propose(PUBLIC)
    eh.Holdout.create(place, data, prior=eh.Reference(PUBLIC), schema=schema, privacy=promise, register=False).release()
    return place


LOOKS = {
    "a trial": ("try_out", {"question": "smoker AND age > 30"}),
    "both": ("try_out", {"question": "smoker AND age > 30", "both": True}),
    "a rehearsal": ("try_out", {"question": {"statistic": "mean", "arguments": {"question": "bmi"}}}),
    "an ask that is refused": ("ask", {"question": "smoker AND age > 30"}),
    "several": ("ask_many", {"questions": ["smoker AND age > 30", "smoker AND age > 31"]}),
    "a statistic that is refused": ("ask", {"question": {"statistic": "mean", "arguments": {"question": "bmi"}}}),
    "an act that is refused": ("certify", {"round": 1}),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_previews_and_refusals_leave_after_what_they_may_depend_on(tmp_path, monkeypatch, look):
    """Somebody who came before, and whose own moment comes earlier, does not learn of a surprise before it has left."""
    began, ready = threading.Event(), threading.Event()

    def hold(real):
        async def slow(self, caller, *given):  # what is long on the public side
            if caller.asked_by.who == "bob" and not ready.is_set():
                began.set()
                await asyncio.to_thread(ready.wait, 600)
            return await real(self, caller, *given)

        return slow

    for name in ("parsed", "evaluated", "count_parts"):
        monkeypatch.setattr(TryOuts, name, hold(getattr(TryOuts, name)))
    clock = Clock()
    place = make_private(tmp_path)
    with site(tmp_path, place, grid_ms=4_000, clock=clock) as made:
        made.token("bob", "custodian")
        known = made.get("/v1/studies/patients/status").json()
        path, body = look
        found = {}

        def of(who, path, body):
            return _later(lambda: found.update({who: made.post(f"/v1/studies/patients/{path}", body, who)}))

        bob = of("bob", path, body)
        wait_for(lambda: began.is_set() or found)
        assert not found
        clock.now += 3.0
        ann = of("ann", "ask", {"question": "smoker"})
        wait_for(lambda: len(read_study(place).rounds) == 1)
        wait_for(lambda: made.state.served["patients"].release_time() > clock.now + 3.0)
        ready.set()
        end = made.state.served["patients"].release_time()
        early = []
        while clock.now < end - 0.05:  # bob's own moment comes and goes
            clock.now += 0.05
            ann.join(0.01)
            early += [*found, *({"status"} if made.get("/v1/studies/patients/status").json() != known else ())]
        let_time_pass(clock, ann, bob)
        assert not early
        assert found["ann"].json()["surprise"]
        assert found["bob"].status_code in (200, 409, 422)
