"""A study as tools for an agent: in this process, and over stdio as an agent starts it."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from mcp import Client, StdioServerParameters

import everhold as eh
from everhold.acts import ACTS
from everhold.mcp import tools
from tests.server.serving import Process, make_study


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
