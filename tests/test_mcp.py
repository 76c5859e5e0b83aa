"""A study as tools for an agent: in this process, and over stdio as an agent starts it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters

import everhold as eh
from everhold.acts import ACTS
from everhold.mcp import gate_tools, tools
from tests.server.serving import Process, make_study, people, save


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path)


async def _session(server):
    """What an agent would do."""
    async with Client(server) as agent:
        names = {tool.name: tool for tool in (await agent.list_tools()).tools}
        schema = (await agent.call_tool("schema", {})).structured_content
        tried = (await agent.call_tool("try_out", {"question": "smoker"})).structured_content
        share = (await agent.call_tool("ask", {"question": "smoker"})).structured_content
        mean = (await agent.call_tool("ask", {"question": "bmi", "what": "mean", "given": "smoker"})).structured_content
        top = (await agent.call_tool("ask", {"question": "age", "what": "quantile", "level": 0.9})).structured_content
        table = (await agent.call_tool("ask", {"question": "city", "what": "table", "second": "smoker"})).structured_content
        wrong = await agent.call_tool("ask", {"question": "smokr"})
        status = (await agent.call_tool("status", {})).structured_content
        return names, schema, tried, share, mean, top, table, wrong, status


def _expected(tmp_path):
    with eh.Holdout.open(make_study(tmp_path, "near")) as near:
        tried, share = near.try_out("smoker"), near.ask("smoker")
        mean, top = near.mean("bmi", given="smoker"), near.quantile("age", 0.9)
        return tried, share, mean, top, near.table("city", "smoker"), near.rounds


def _compare(found, expected):
    names, schema, tried, share, mean, top, table, wrong, status = found
    assert set(names) == {"ask", "try_out", "schema", "status", *ACTS} - {"close"}
    assert all(tool.description for tool in names.values())
    assert {one["name"] for one in schema["columns"]} == {"age", "smoker", "bmi", "city"}
    assert tried["sketch"] == expected[0].sketch
    for told, known in ((share, expected[1]), (mean, expected[2]), (top, expected[3])):
        assert (told["value"], told["low"], told["high"]) == (known.value, known.low, known.high)
        assert "for the population in [" in told["in_words"]
    assert [cell["value"] for cell in table["cells"]] == [cell.value for cell in expected[4].cells]
    assert wrong.is_error
    assert "Did you mean 'smoker'" in wrong.content[0].text
    assert status["rounds"] == expected[5]
    assert share["surprise"]
    assert "charged" in share["in_words"]


def test_the_tools_answer_as_the_library(study, tmp_path):
    with eh.Holdout.open(study) as holdout:
        found = asyncio.run(_session(tools(holdout, "patients")))
    _compare(found, _expected(tmp_path))


def test_over_stdio_on_a_file(study, tmp_path):
    command = StdioServerParameters(command=sys.executable, args=["-m", "everhold", "mcp", str(study)], env=dict(os.environ))
    _compare(asyncio.run(_session(command)), _expected(tmp_path))
    with eh.Holdout.open(study) as again:  # given up when the agent has gone
        assert again.journal.asked_by(1).who == "agent"


def test_over_stdio_behind_a_server(study, tmp_path):
    with Process(tmp_path, study) as process:
        secret = process.tokens.create("robot", "analyst")[0]
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "everhold", "mcp", "patients", "--server", process.url],
            env={**os.environ, "EVERHOLD_TOKEN": secret},
        )
        _compare(asyncio.run(_session(command)), _expected(tmp_path))
        with eh.connect(process.url, secret) as server:
            assert {one.who for one in server.study("patients").log()} == {"robot"}


async def _calls(server, calls):
    async with Client(server) as agent:
        return [await agent.call_tool("ask", arguments) for arguments in calls]


def test_arguments_that_are_not_known_or_do_not_belong_are_refused(study):
    """Before, a misspelled argument was left out, and another question was answered and charged."""
    calls = [
        {"question": "smoker", "givn": "age > 40"},
        {"question": "smoker", "what": "share", "where": "age > 40"},
        {"question": "smoker", "level": 0.9},
        {"question": "bmi", "what": "mean", "bins": 3},
        {"question": "bmi", "what": "difference", "first": "smoker"},
        {"question": "bmi", "what": "correlation"},
        {"question": "bmi", "what": "average"},
    ]
    with eh.Holdout.open(study) as holdout:
        found = asyncio.run(_calls(tools(holdout, "patients"), calls))
        assert all(one.is_error for one in found)
        assert holdout.rounds == 0
    said = [one.content[0].text for one in found]
    assert "givn" in said[0]
    assert "where" in said[1]
    assert "takes no 'level'" in said[2]
    assert "Nothing was charged" in said[3]
    assert "needs 'second'" in said[4]


def test_every_statistic_can_be_asked_for(study, tmp_path):
    calls = {
        "share": {"question": "smoker", "given": "age > 40"},
        "mean": {"question": "bmi", "low": 10, "high": 60},
        "median": {"question": "age"},
        "quantile": {"question": "age", "level": 0.9},
        "variance": {"question": "bmi"},
        "histogram": {"question": "age", "bins": 4},
        "table": {"question": "city", "second": "smoker"},
        "difference": {"question": "bmi", "first": "smoker", "second": "NOT smoker"},
        "compare": {"question": "age", "second": "bmi"},
        "correlation": {"question": "age", "second": "bmi"},
    }
    with eh.Holdout.open(study) as holdout:
        server = tools(holdout, "patients")
        found = asyncio.run(_calls(server, [{"what": what, **more} for what, more in calls.items()]))
    assert not any(one.is_error for one in found)
    kinds = [one.structured_content["kind"] for one in found]
    assert kinds == ["finding"] * 5 + ["shares"] * 2 + ["comparison"] * 2 + ["finding"]
    assert server.version == eh.__version__


async def _each(server, calls):
    async with Client(server) as agent:
        return [await agent.call_tool(name, arguments) for name, arguments in calls]


CASES = {f"case-{k}": k % 2 for k in range(100)}


class TestGate:
    @pytest.fixture
    def gate(self, tmp_path):
        return eh.Gate.create(tmp_path / "gate.everhold", CASES)

    def test_one_bit_a_candidate(self, gate):
        better = {case: k % 10 > 0 for k, case in enumerate(CASES)}
        calls = [
            ("gate", {"outcomes": CASES, "name": "the same"}),
            ("gate", {"outcomes": better, "name": "better", "request_id": "7"}),
            ("gate", {"outcomes": better, "name": "better", "request_id": "7"}),
            ("gate_status", {}),
        ]
        same, first, again, status = [one.structured_content for one in asyncio.run(_each(gate_tools(gate), calls))]
        assert (same["verdict"], first["verdict"]) == ("keep", "promote")
        assert first["in_words"].startswith("promote: better")
        assert again["repeated"]
        assert "This file was not checked" in again["in_words"]
        assert {**again, "repeated": False, "in_words": first["in_words"]} == first
        assert (status["checks"], status["promotions"], status["incumbent"]) == (2, 1, "better")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"outcomes": CASES, "nme": "x"}, "nme"),
            ({"candidate": CASES}, "candidate"),
            ({}, "outcomes"),
            ({"outcomes": "new.json"}, "dict"),
            ({"outcomes": {"other": 1}}, "not the gate's"),
            ({"outcomes": CASES, "name": 7}, "name"),
        ],
    )
    def test_what_is_not_known_is_refused_and_nothing_is_charged(self, gate, arguments, said):
        (found,) = asyncio.run(_each(gate_tools(gate), [("gate", arguments)]))
        assert found.is_error
        assert said in found.content[0].text
        assert gate.status().checks == 0

    def test_over_stdio_as_an_agent_starts_it(self, gate):
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "everhold", "mcp", str(gate.path)], env=dict(os.environ)
        )
        better = dict.fromkeys(CASES, 1)
        found, refused = asyncio.run(_each(command, [("gate", {"outcomes": better}), ("gate_status", {"now": True})]))
        assert found.structured_content["promoted"]
        assert refused.is_error

    def test_a_gate_behind_a_server_is_no_study(self, gate, tmp_path):
        gate.release()
        with Process(tmp_path, gate.path) as process:
            secret = process.tokens.create("robot", "analyst")[0]
            command = StdioServerParameters(
                command=sys.executable,
                args=["-m", "everhold", "mcp", gate.path.stem, "--server", process.url],
                env={**os.environ, "EVERHOLD_TOKEN": secret},
            )
            found, refused = asyncio.run(_each(command, [("gate_status", {}), ("ask", {"question": "outcome > 0"})]))
        assert found.structured_content["kind"] == "gate_status"
        assert refused.is_error

    def test_a_contest_is_pointed_to_its_command(self, tmp_path):
        path = tmp_path / "contest.everhold"
        path.with_name("contest.everhold.contest.json").write_text("{}")
        found = subprocess.run(
            [sys.executable, "-m", "everhold", "mcp", str(path)], capture_output=True, text=True, check=False
        )
        assert found.returncode == 4
        assert "everhold score" in found.stderr

    def test_beside_a_study(self, study, gate):
        async def names(server):
            async with Client(server) as agent:
                return {tool.name for tool in (await agent.list_tools()).tools}

        with eh.Holdout.open(study) as holdout:
            offered = asyncio.run(names(tools(holdout, "patients", gate=gate)))
        assert offered >= {"gate", "gate_status", "ask", "read", "best_of", "status"}


class TestPrivate:
    """A private study for an agent: what it may ask, what is refused, and that it sees what is left."""

    @pytest.fixture
    def private(self, tmp_path):
        public = people(4_000, 0.2, 2)
        schema = eh.Schema.propose(public).revised("bmi", low=10, high=50)
        path = tmp_path / "private.everhold"
        promise = eh.Privacy(epsilon=3.0, surprises=4)
        rows = save(tmp_path / "private.csv", people(4_000, 0.5, 1))
        eh.Holdout.create(path, rows, prior=eh.Reference(public), schema=schema, privacy=promise, register=False).release()
        return path

    CALLS = (
        ("status", {}),
        ("ask", {"question": "smoker"}),
        ("ask", {"question": "smoker"}),
        ("read", {"question": "age > 60"}),
        ("best_of", {"questions": ["age > 85", "age > 20"]}),
        ("is_better", {"first": "age > 20", "second": "age > 85"}),
        ("compare", {"first": "age > 20", "second": "age > 85"}),
        ("try_out", {"question": "smoker AND age > 30"}),
        ("close", {"questions": ["smoker"]}),
        ("best_of", {"questions": [{"statistic": "mean", "arguments": {"question": "bmi"}}, "age > 20"]}),
        ("status", {}),
    )

    def _checked(self, found):
        first, asked, again, read, best, bit, verdict, tried, close, odd, last = found
        assert first.structured_content["privacy"]["share_left"] == 1.0
        assert asked.structured_content["surprise"]
        assert again.structured_content["value"] == asked.structured_content["value"]  # recorded: no second draw
        assert read.structured_content["low"] < read.structured_content["high"]
        assert best.structured_content["index"] == 1
        assert best.structured_content["noisy"]
        assert "up to noise" in bit.structured_content["in_words"]
        assert verdict.structured_content["verdict"] == "yes"
        assert not tried.is_error
        for refused in (close, odd):
            assert refused.is_error
        assert "private study has no" in close.content[0].text
        assert "yes/no questions given as text" in odd.content[0].text
        privacy = last.structured_content["privacy"]
        assert (privacy["epsilon"], privacy["surprises_charged"], privacy["bits_charged"]) == (3.0, 1, 1)
        assert privacy["releases_charged"] == 4  # a reading, a choice, the two counts of a verdict
        assert "ε = 3, δ = 1e-09 for everything ever disclosed: 1 surprise, 1 bit" in privacy["text"]

    def test_in_this_process(self, private):
        with eh.Holdout.open(private) as holdout:
            self._checked(asyncio.run(_each(tools(holdout, "private", closing=True), self.CALLS)))
            assert holdout.audit().ok

    def test_over_stdio_until_the_budget_is_used_up(self, private):
        """Started as an agent starts it; what cannot be paid for is refused with what is left, and costs nothing."""
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "everhold", "mcp", str(private)], env=dict(os.environ)
        )
        bits = [("is_better", {"first": "age > 20", "second": f"age > {80 + k}"}) for k in range(8)]
        *found, after = asyncio.run(_each(command, [*bits, ("status", {})]))
        refused = [one for one in found if one.is_error]
        assert 3 <= len(refused) <= 4  # of four surprises the budget pays for four or five bits that are yes
        assert found[-len(refused) :] == refused
        assert all("privacy budget" in one.content[0].text for one in refused)
        assert after.structured_content["privacy"]["bits_charged"] == 8 - len(refused)

    def test_a_private_gate(self, tmp_path):
        outcomes = {f"case-{k}": k % 2 for k in range(2_000)}
        gate = eh.Gate.create(
            tmp_path / "gate.everhold", outcomes, outcomes="pass", privacy=eh.Privacy(epsilon=5.0, surprises=2)
        )
        calls = [
            ("gate", {"outcomes": outcomes}),
            ("gate", {"outcomes": dict.fromkeys(outcomes, 1), "request_id": "7"}),
            ("gate", {"outcomes": outcomes, "request_id": "7"}),
            ("gate_status", {}),
        ]
        kept, promoted, again, status = [one.structured_content for one in asyncio.run(_each(gate_tools(gate), calls))]
        assert (kept["verdict"], promoted["verdict"]) == ("keep", "promote")
        assert {**again, "repeated": False, "in_words": promoted["in_words"]} == promoted
        assert status["privacy"]["promotions_charged"] == 1
        assert "everything ever disclosed about a sealed case" in status["in_words"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"question": "smoker", "givn": "age > 40"}),
        ("read", {"question": "smoker", "level": 0.9}),
        ("best_of", {"candidates": ["smoker", "age > 40"], "top": 1}),
        ("best_of", {"candidate": ["smoker", "age > 40"]}),
        ("status", {"all": True}),
        ("schema", {"table": "x"}),
        ("try_out", {"question": "smoker", "were": "age > 3"}),
    ],
)
def test_every_tool_refuses_arguments_that_it_does_not_know(study, name, arguments):
    with eh.Holdout.open(study) as holdout:
        (found,) = asyncio.run(_each(tools(holdout, "patients"), [(name, arguments)]))
        assert found.is_error
        assert holdout.rounds == 0
        assert not holdout.journal.recorded_acts
