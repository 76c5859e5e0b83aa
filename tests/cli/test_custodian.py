"""What a custodian meets in the shell: backups, heads, schemas, names, tokens, signatures, and words that say what to do."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app
from everhold.ledger.reader import read_study


def run(code, *arguments):
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    assert found.exit_code == code, found.output
    return found.output


def write(path, table):
    lines = zip(*(column.tolist() for column in table.values()), strict=True)
    path.write_text("\n".join([",".join(table), *(",".join(map(str, line)) for line in lines)]) + "\n")


def people(seed, size=2_000):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "readmitted": rng.integers(0, 2, size), "sex": rng.choice(["f", "m"], size)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Patients with an id, an extract of last year without, and a study."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "patients.csv", {"patient_id": np.arange(2_000), **people(0)})
    write(tmp_path / "last_year.csv", people(1))
    run(0, "schema", "last_year.csv", "--out", "schema.toml")
    run(0, "create", "p.everhold", "--data", "patients.csv", "--prior", "last_year.csv", "--schema", "schema.toml")
    return tmp_path


def test_a_column_that_the_extract_lacks(folder):
    """As in most hospitals: the message says what to do in the shell, and doing so works."""
    said = run(4, "create", "q.everhold", "--data", "patients.csv", "--prior", "last_year.csv", "--no-register")
    assert "everhold schema PUBLIC_FILE --out schema.toml" in said
    arguments = ["--data", "patients.csv", "--prior", "last_year.csv", "--schema", "schema.toml", "--no-register"]
    run(0, "create", "q.everhold", *arguments, "--unit", "patient_id")


def test_a_private_study_after_a_plain_one(folder):
    """The plain one promised nothing, so no sum of epsilons can be counted."""
    arguments = ["--data", "patients.csv", "--prior", "last_year.csv", "--schema", "schema.toml", "--epsilon", "1"]
    said = run(5, "create", "private.everhold", *arguments)
    assert "That study promised no privacy, so no epsilon holds for these rows any more" in said
    assert "count the sum" not in said
    run(0, "create", "private.everhold", *arguments, "--no-register")
    (folder / "p.everhold").unlink()  # what cannot be read may have been private
    assert "count the sum of all epsilons" in run(5, "create", "third.everhold", *arguments)


def test_a_backup_and_what_becomes_of_it(folder):
    head = json.loads(run(0, "backup", "p.everhold", "--to", "monday", "--json"))["head"]
    run(0, "ask", "p.everhold", "age > 40")
    said = run(0, "backup", "p.everhold", "--to", "tuesday")
    assert "p.everhold.key" in said
    assert "Head: 2:" in said
    assert "Expected another folder" in run(5, "backup", "p.everhold", "--to", "monday")
    assert "1 round for 1 question," in run(0, "status", "p.everhold")
    assert json.loads(run(0, "status", "p.everhold", "--json"))["questions"] == 1
    (folder / "p.everhold").write_bytes((folder / "monday" / "p.everhold").read_bytes())
    assert "older copy" in run(5, "ask", "p.everhold", "age > 50")
    assert head.startswith("1:")


def test_a_backup_without_a_key_or_a_guard_says_so(folder):
    assert "not in it: back them up yourself" in run(0, "backup", "p.everhold", "--to", "monday")
    (folder / "p.everhold.key").unlink()
    assert "incomplete: p.everhold.key is missing" in run(5, "backup", "p.everhold", "--to", "tuesday")
    arguments = ["--data", "patients.csv", "--prior", "last_year.csv", "--schema", "schema.toml", "--no-register"]
    run(0, "create", "private.everhold", *arguments, "--epsilon", "1")
    (folder / "private.everhold.spent").unlink()
    assert "private.everhold.spent is missing" in run(5, "backup", "private.everhold", "--to", "wednesday", "--json")


def test_another_study_is_called_so(folder):
    arguments = ["--data", "patients.csv", "--prior", "last_year.csv", "--schema", "schema.toml"]
    run(0, "create", "q.everhold", *arguments)
    run(0, "ask", "q.everhold", "age > 40")
    head = json.loads(run(0, "status", "q.everhold", "--json"))["head"]
    said = run(7, "audit", "p.everhold", "--expect-head", head)
    assert "this is another study" in said
    assert "q.everhold" in said
    assert "older copy, or another study" in run(7, "audit", "p.everhold", "--expect-head", "9:" + "0" * 64)
    run(0, "signing-key", "custodian.key")
    run(0, "certificate", "q.everhold", "--out", "page.html", "--sign", "custodian.key")
    run(0, "verify", "page.json", "--study", "q.everhold")
    assert "p.everhold is another study" in run(7, "verify", "page.json", "--study", "p.everhold")


def test_an_old_copy_is_known_where_nothing_is_asked(folder):
    old = (folder / "p.everhold").read_bytes()
    for command in ("audit", "status"):
        assert "older copy" not in run(0, command, "p.everhold")
    run(0, "ask", "p.everhold", "age > 40")
    (folder / "p.everhold").write_bytes(old)
    for command in ("audit", "status", "certificate"):
        assert "p.everhold is an older copy, or another history: the registry" in run(0, command, "p.everhold")


def test_a_second_study_is_warned_of_in_words_of_the_shell(folder):
    run(0, "ask", "p.everhold", "age > 40")
    arguments = ["--data", "patients.csv", "--prior", "last_year.csv", "--schema", "schema.toml"]
    assert "have a study already" not in run(0, "create", "q.everhold", *arguments, "--no-register")
    said = run(0, "create", "r.everhold", *arguments, "--unit", "patient_id")
    assert "in the shell `everhold ask" in said
    assert "--unit patient_id) was forgotten there" in said


def test_expect_head_goes_with_one_study(folder):
    said = run(4, "serve", "p.everhold", "q.everhold", "--expect-head", "1:" + "0" * 64, "--port", "0")
    assert "under the [[study]] it belongs to" in said
    said = run(5, "serve", "p.everhold", "--expect-head", "1:" + "0" * 64, "--port", "0")
    assert "another history" in said


def test_examine(folder):
    assert "For the owner only" in run(0, "examine", "patients.csv", "--schema", "schema.toml")
    first = json.loads(run(0, "examine", "patients.csv", "--schema", "schema.toml", "--json").splitlines()[0])
    assert first["name"] == "age"
    assert first["missing"] == 0


def test_a_nonsense_question_is_not_charged(folder):
    said = run(3, "ask", "p.everhold", "readmitted", "--as", "mean", "--given", "sex = 'X'")
    assert "The schema lists 'f', 'm'" in said
    assert "as in readmitted = 1" in run(3, "ask", "p.everhold", "readmitted")
    assert json.loads(run(0, "status", "p.everhold", "--json"))["rounds"] == 0


def test_who_asked(folder, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "dora")
    run(0, "ask", "p.everhold", "age > 40")
    run(0, "ask", "p.everhold", "age > 50", "--who", "ann")
    run(0, "ask", "p.everhold", "age > 60", "--who", "")

    def nameless():
        raise OSError("no such account")

    monkeypatch.setattr("getpass.getuser", nameless)
    run(0, "ask", "p.everhold", "age > 70")
    lines = [json.loads(one) for one in run(0, "log", "p.everhold", "--json").splitlines()]
    assert [one["who"] for one in lines] == ["dora", "ann", None, None]


def test_tokens_of_studies_that_are_not_here(folder):
    assert "Did you mean 'p'?" not in run(0, "token", "create", "ann", "--study", "p", "--days", "9")
    (folder / "patients.everhold").write_bytes((folder / "p.everhold").read_bytes())
    said = run(0, "token", "create", "bob", "--study", "patientz")
    assert "there is no study 'patientz'" in said
    assert "Did you mean 'patients'?" in said
    assert "without an end" in said
    write_config = folder / "everhold.toml"
    write_config.write_text('[[study]]\npath = "elsewhere/clinic.everhold"\n')
    assert "there is no study" in run(0, "token", "create", "eve", "--study", "clinic")
    assert (
        "there is no study"
        not in CliRunner(env={"EVERHOLD_CONFIG": str(write_config)})
        .invoke(app, ["token", "create", "eve", "--study", "clinic"])
        .output
    )


def test_a_certificate_that_was_changed_is_a_failed_audit(folder):
    pytest.importorskip("cryptography")
    run(0, "signing-key", "c.key")
    run(0, "signing-key", "other.key")
    run(0, "certificate", "p.everhold", "--out", "c.html", "--sign", "c.key")
    run(0, "verify", "c.json", "--key", "c.key.pub")
    run(7, "verify", "c.json", "--key", "other.key.pub")
    envelope = json.loads((folder / "c.json").read_text())
    changed = json.loads(base64.b64decode(envelope["payload"])) | {"title": "Nobody is ever readmitted"}
    payload = base64.b64encode(json.dumps(changed).encode()).decode()
    (folder / "c.json").write_text(json.dumps(envelope | {"payload": payload}))
    assert "changed after it was signed" in run(7, "verify", "c.json", "--key", "c.key.pub")
    (folder / "c.json").write_text("{}")
    run(5, "verify", "c.json")  # that is no certificate


def test_what_was_interrupted_is_said_when_it_is_opened_again(folder):
    held = eh.Holdout.open(folder / "p.everhold")

    def fail(*_, **__):
        raise KeyboardInterrupt

    held.session.recorder._scanner.sums = fail
    with pytest.raises(KeyboardInterrupt):
        held.is_better("age > 40", "age > 50")
    held.session.recorder.journal.store.close()
    assert "1 act was interrupted: it is charged" in run(0, "ask", "p.everhold", "age > 40")
    assert read_study(folder / "p.everhold").log[0].kind_word == "interrupted, charged"
    assert "interrupted:" not in run(0, "ask", "p.everhold", "age > 45")


def test_previews_show_zero():
    table = {"x": np.arange(400.0)}
    held = eh.Holdout(table, prior=eh.Reference({"x": np.arange(400.0) + 0.5}), seed=1)
    assert "e-16" not in str(held.try_out("x > 1000"))
    assert "prior 0," in str(held.try_out("x > 1000"))
