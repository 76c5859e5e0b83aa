"""Every statistic is offered by every interface, with the same result to the bit: a new one appears in all by itself."""

from __future__ import annotations

import asyncio
import json

import pytest
from mcp import Client
from typer.testing import CliRunner

import everhold as eh
from everhold.acts import ACTS
from everhold.cli.main import app
from everhold.mcp import tools
from everhold.server.forms import FIELDS, _name
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.finding import result_from_dict
from everhold.statistics.parameters import arguments, parameters
from tests.server.serving import Process, make_study, site

NAMES = sorted(STATISTICS)


def example(name):
    return statistic(name, STATISTICS[name].example)


def ends(found):
    """What is compared: every number of a result."""
    if isinstance(found, eh.Shares):
        return [(label, cell.value, cell.low, cell.high) for label, cell in found]
    return found.value, found.low, found.high


def ends_of(sent):
    """The same of what came as JSON."""
    if "cells" in sent:
        return [(tuple(cell["label"]), cell["value"], cell["low"], cell["high"]) for cell in sent["cells"]]
    return sent["value"], sent["low"], sent["high"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("interfaces")


@pytest.fixture(scope="module")
def study(folder):
    return make_study(folder)


@pytest.fixture(scope="module")
def known(study):
    """Every example, asked in Python. What is asked again anywhere else gets the recorded answers."""
    with eh.Holdout.open(study) as held:
        found = {name: held.ask(example(name)) for name in NAMES}
        rounds = held.rounds
        rehearsed = {name: held.rehearsal.ask(example(name)) for name in NAMES}
        assert {name: held.try_out(example(name)).ask for name in NAMES} == rehearsed
        assert held.rounds == rounds
    return found


def test_there_are_ten_at_least():
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_its_description_is_complete(name):
    kind = STATISTICS[name]
    assert kind.title
    assert kind.__doc__
    assert getattr(eh, kind.__name__) is kind
    assert kind.__name__ in eh.__all__
    assert arguments(example(name)) | dict(kind.example) == arguments(example(name))
    for one in parameters(kind):
        assert one.about.endswith("."), one.name
        assert one.label


def test_python_findings(study, known):
    """The log shows what was asked, with its own interval, and its parts underneath."""
    with eh.Holdout.open(study) as held:
        logged = {one.question: one for one in held.findings()}
        assert held.audit().ok
    for name, found in known.items():
        if isinstance(found, eh.Answer):
            continue
        one = logged[found.what]
        assert one.finding.statistic == name
        assert {part.round for part in one.parts} == {part.round for part in found.parts}
        if not isinstance(found, eh.Shares):
            assert (one.value, one.interval) == (found.value, found.interval)


@pytest.mark.parametrize("name", NAMES)
def test_command_line(study, known, name):
    lead, *others = parameters(STATISTICS[name])
    given = arguments(example(name))
    options = [[f"--{one.name.replace('_', '-')}", str(given[one.name])] for one in others if one.name in given]
    words = [str(study), str(given[lead.name]), "--as", name, *(word for pair in options for word in pair)]
    asked = CliRunner().invoke(app, ["ask", *words, "--json"])
    assert asked.exit_code == 0, asked.output
    assert ends_of(json.loads(asked.stdout)) == ends(known[name])
    tried = CliRunner().invoke(app, ["try", *words])
    assert tried.exit_code == 0, tried.output


def test_http_and_page(folder, study, known):
    with site(folder, study) as made:
        described = made.state and made.get("/openapi.json").json()["paths"]
        csrf = made.sign_in("ann")
        page = made.http.get("/studies/patients").text
        for name, found in known.items():
            body = arguments(example(name))
            asked = {"question": {"statistic": name, "arguments": body}}
            sent = made.post("/v1/studies/patients/ask", asked)
            assert sent.status_code == 200, sent.text
            assert result_from_dict(sent.json()) == found
            assert made.post("/v1/studies/patients/try_out", asked).status_code == 200
            assert made.post("/v1/studies/patients/ask", {**asked, "nonsense": 1}).status_code == 422
            body = {**body, "nonsense": 1}
            assert made.post("/v1/studies/patients/ask", {"question": {**asked["question"], "arguments": body}}).is_error
            body = arguments(example(name))
            if name not in ACTS:  # an act has the route of that name
                sent = made.post(f"/v1/studies/patients/{name}", body)
                assert sent.status_code == 200, sent.text
                assert result_from_dict(sent.json()) == found
                assert f"/v1/studies/{{name}}/{name}" in described
                assert made.post(f"/v1/studies/patients/{name}", {**body, "rehearse": True}).status_code == 200
                assert made.post(f"/v1/studies/patients/{name}", {**body, "nonsense": 1}).status_code == 422
            assert f'<option value="{name}"' in page
            lead, *others = parameters(STATISTICS[name])
            form = {"kind": name, "question": body[lead.name], "csrf": csrf}
            form |= {_name(one): str(body[one.name]) for one in others if one.name in body}
            assert all(f'name="{_name(one)}"' in page and name in FIELDS[_name(one)].kinds for one in others)
            answered = made.http.post("/studies/patients/ask", data=form)
            assert answered.status_code == 200, answered.text
            assert 'role="status"' in answered.text
            checked = made.http.get("/studies/patients/check", params=form).text
            assert "Can be asked" in checked
        rounds = made.get("/v1/studies/patients/status").json()["rounds"]
    with eh.Holdout.open(study) as held:
        assert held.rounds == rounds


def test_clients(folder, study, known):
    with Process(folder, study) as process:
        secret = process.tokens.create("bob", "analyst")[0]
        with eh.connect(process.url, secret) as server:
            far = server.study("patients")
            assert {name: far.ask(example(name)) for name in NAMES} == known
            assert all(far.rehearsal.ask(example(name)) is not None for name in NAMES)

        async def awaited():
            async with eh.connect_async(process.url, secret) as server:
                far = server.study("patients")
                return {name: await far.ask(example(name)) for name in NAMES}

        assert asyncio.run(awaited()) == known


def test_mcp(study, known):
    async def called(server):
        async with Client(server) as agent:
            found = {}
            for name in NAMES:
                lead = parameters(STATISTICS[name])[0].name
                given = arguments(example(name))
                sent = {"what": name, "question": given.pop(lead), **given}
                for tool in ("try_out", "ask"):
                    found[name] = await agent.call_tool(tool, sent)
                    assert not found[name].is_error, found[name].content
            return {name: one.structured_content for name, one in found.items()}

    with eh.Holdout.open(study) as held:
        found = asyncio.run(called(tools(held, "patients")))
    assert {name: ends_of(one) for name, one in found.items()} == {name: ends(one) for name, one in known.items()}
