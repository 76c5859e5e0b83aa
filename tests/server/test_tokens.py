"""Tokens: shown once, hashed at rest, limited, and stopped at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app
from everhold.server.tokens import PREFIX, Tokens


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path / "tokens.json")


def test_the_secret_is_nowhere_in_the_file(tokens):
    secret, token = tokens.create("ann", "analyst")
    kept = tokens.path.read_text()
    assert secret not in kept
    assert secret.removeprefix(PREFIX) not in kept
    assert secret.startswith(PREFIX)
    assert len(secret) >= 40
    assert stat.S_IMODE(os.stat(tokens.path).st_mode) == 0o600
    assert tokens.find(secret) == token
    for wrong in ("", PREFIX, secret[:-1], secret + "x", secret.upper(), "é" * 50, token.digest, token.id):
        assert tokens.find(wrong) is None


@pytest.mark.parametrize(
    ("scope", "may", "may_not"),
    [
        ("custodian", ["ask", "read", "audit", "manage"], []),
        ("analyst", ["ask", "read"], ["audit", "manage"]),
        ("auditor", ["read", "audit"], ["ask", "manage"]),
    ],
)
def test_scopes(tokens, scope, may, may_not):
    _, token = tokens.create("somebody", scope, studies=["patients"])
    assert all(token.allows(permission, "patients") for permission in may)
    assert not any(token.allows(permission, "patients") for permission in may_not)
    assert not any(token.allows(permission, "staff") for permission in may + may_not)
    _, everywhere = tokens.create("somebody", scope)
    assert all(everywhere.allows(permission, "staff") for permission in may)


def test_a_revoked_token_stops_at_once_for_everybody(tokens):
    secret, token = tokens.create("ann", "analyst")
    server = Tokens(tokens.path)
    assert server.find(secret) is not None
    tokens.revoke(token.id)
    assert server.find(secret) is None
    assert server.all()[0].state == "revoked"


def test_expiry(tmp_path):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    at = [now]
    tokens = Tokens(tmp_path / "t.json", clock=lambda: at[0])
    secret, _ = tokens.create("ann", "analyst", days=30)
    at[0] = now + timedelta(days=29, hours=23)
    assert tokens.find(secret) is not None
    at[0] = now + timedelta(days=30)
    assert tokens.find(secret) is None


@pytest.mark.parametrize(
    ("name", "scope", "more"),
    [
        ("", "analyst", {}),
        ("x" * 101, "analyst", {}),
        ("a\nb", "analyst", {}),
        ("ann", "root", {}),
        ("ann", "analyst", {"days": 0}),
        ("ann", "analyst", {"days": float("nan")}),
    ],
)
def test_nonsense_is_refused(tokens, name, scope, more):
    with pytest.raises(eh.SettingError):
        tokens.create(name, scope, **more)
    assert tokens.all() == ()


def test_a_damaged_file_lets_nobody_in(tokens):
    secret, _ = tokens.create("ann", "analyst")
    tokens.path.write_text("{")
    with pytest.raises(eh.LedgerError):
        Tokens(tokens.path).find(secret)


def _make(path, count):
    for i in range(count):
        Tokens(path).create(f"p{os.getpid()}-{i}", "analyst")


def test_two_processes_lose_no_token(tokens):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_make, args=(tokens.path, 15)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(tokens.all()) == 30


def test_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    made = run.invoke(app, ["token", "create", "ann", "--scope", "analyst", "--study", "patients", "--days", "90", "--json"])
    assert made.exit_code == 0, made.output
    shown = json.loads(made.stdout)
    assert Tokens("everhold.tokens.json").find(shown["token"]).studies == ("patients",)
    listed = run.invoke(app, ["token", "list", "--json"])
    assert shown["token"] not in listed.output
    assert "digest" not in listed.output
    assert json.loads(listed.output)[0]["state"] == "live"
    assert "ann" in run.invoke(app, ["token", "list"]).output
    assert run.invoke(app, ["token", "revoke", shown["id"]]).exit_code == 0
    assert Tokens("everhold.tokens.json").find(shown["token"]) is None
    assert run.invoke(app, ["token", "revoke", "nothing"]).exit_code == 4
    assert run.invoke(app, ["token", "create", "ann", "--scope", "root"]).exit_code == 4
