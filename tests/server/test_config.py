"""One readable file, the environment above it, and a word on whatever is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app
from everhold.server.config import EXAMPLE, Config


def _load(tmp_path, text, **environment):
    place = tmp_path / "everhold.toml"
    place.write_text(text)
    return Config.load(place, environment=environment)


def test_the_example_is_the_default(tmp_path):
    found = _load(tmp_path, EXAMPLE)
    assert found.studies[0].path == tmp_path / "patients.everhold"
    assert found.tokens == tmp_path / "everhold.tokens.json"
    plain = Config()
    for name in (
        "host",
        "port",
        "grid_ms",
        "requests_per_minute",
        "burst",
        "max_body_bytes",
        "most_questions",
        "shutdown_seconds",
    ):
        assert getattr(found, name) == getattr(plain, name)
    assert CliRunner().invoke(app, ["serve", "--example"]).stdout == EXAMPLE


def test_the_environment_overrides(tmp_path):
    given = {"EVERHOLD_PORT": "99", "EVERHOLD_LOG": "x.jsonl", "EVERHOLD_TRUSTED_PROXIES": "10.0.0.1, 10.0.0.2"}
    found = _load(tmp_path, "port = 5\ngrid_ms = 10", **given)
    assert (found.port, found.grid_ms, found.log) == (99, 10, Path("x.jsonl"))
    assert found.trusted_proxies == ("10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 5", "Did you mean 'port'"),
        ("port = 'x'", "Expected a number"),
        ("port = true", "Expected a number"),
        ("port = 70000", "from 0 to 65,535"),
        ("grid_ms = -1", "grid_ms"),
        ("host = 5", "Expected a text"),
        ("certificate = 'x.pem'", "private_key is missing"),
        ("public_url = 'example.org'", "https://"),
        ("trusted_proxies = '10.0.0.1'", r"trusted_proxies is '10.0.0.1'\. Expected a list of addresses"),
        ("[[study]]\ndata = 'x'", "Expected path as a text"),
        ("[[study]]\npath = 'x'\nrows = 5", "no setting 'rows'. Expected path"),
        ("study = 5", r"Expected for each study a line \[\[study\]\]"),
        ("[[study]]\npath = 'a/x.everhold'\n[[study]]\npath = 'b/x.everhold'", "two studies are called 'x'"),
        ("port = ", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, said):
    with pytest.raises(eh.SettingError, match=said):
        _load(tmp_path, text)


def test_wrong_in_the_environment(tmp_path):
    with pytest.raises(eh.SettingError, match="EVERHOLD_PORT"):
        _load(tmp_path, "", EVERHOLD_PORT="many")
    with pytest.raises(eh.SettingError, match="could not be read"):
        Config.load(tmp_path / "nowhere.toml")


def test_serving_nothing_or_what_is_not_there_is_told(tmp_path):
    run = CliRunner()
    told = run.invoke(app, ["serve"])
    assert told.exit_code == 4
    told = run.invoke(app, ["serve", str(tmp_path / "nowhere.everhold")])
    assert told.exit_code == 5
    assert "there is no study" in told.output
