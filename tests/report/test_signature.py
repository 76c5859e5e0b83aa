"""Signed certificates: what a reader can check with a public key, and every way to be wrong."""

from __future__ import annotations

import base64
import json

import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app
from everhold.report import signature


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    rows = {"age": [20 + n % 60 for n in range(400)], "smoker": [n % 5 == 0 for n in range(400)]}
    public = {"age": [21 + n % 59 for n in range(300)], "smoker": [n % 4 == 0 for n in range(300)]}
    with eh.Holdout.create(folder / "study.everhold", rows, prior=eh.Reference(public), seed=1) as held:
        held.ask(eh.Mean("age", low=0, high=100))
    run(0, "signing-key", folder / "custodian.key")
    run(0, "certificate", folder / "study.everhold", "--out", folder / "c.html", "--sign", folder / "custodian.key",
        "--title", "Smoking <in> Leeds", "--custodian", "Leeds Trust", "--contact", "data@leeds.example")  # fmt: skip
    return folder


def run(code, *arguments):
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    assert found.exit_code == code, found.output
    return found.output


def test_a_reader_needs_the_file_and_a_public_key_alone(signed, tmp_path):
    for name in ("c.json", "custodian.key.pub"):
        (tmp_path / name).write_bytes((signed / name).read_bytes())
    said = run(0, "verify", tmp_path / "c.json", "--key", tmp_path / "custodian.key.pub")
    assert "The signature is right" in said
    assert "Smoking <in> Leeds, by Leeds Trust" in said
    assert "compare the id" not in said
    assert "compare the id" in run(0, "verify", tmp_path / "c.json")


def test_with_the_study_its_head_and_rounds_are_checked_too(signed, tmp_path):
    study = tmp_path / "study.everhold"
    study.write_bytes((signed / "study.everhold").read_bytes())
    assert "replayed without the data" in run(0, "verify", signed / "c.json", "--study", study)


def test_the_certificate_says_what_a_reviewer_needs(signed):
    one = signature.verify(json.loads((signed / "c.json").read_text())).certificate
    assert one["title"] == "Smoking <in> Leeds"
    assert (one["custodian"], one["contact"]) == ("Leeds Trust", "data@leeds.example")
    assert all(len(one[name]) == 64 for name in ("schema_sha256", "reference_sha256"))
    assert one["rows_fingerprint"]
    assert any("independently" in text for text in one["assumptions"])
    assert one["asked"][0]["question"].startswith("mean of age")
    page = (signed / "c.html").read_text()
    assert "Smoking &lt;in&gt; Leeds" in page
    assert "<in>" not in page
    assert one["reference_sha256"] in page
    assert "What this rests on" in page


def test_another_verifier_can_be_written_from_the_documentation(signed):
    """As docs/reference/certificate.md says, without everhold."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    envelope = json.loads((signed / "c.json").read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    key = load_pem_public_key((signed / "custodian.key.pub").read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    wanted = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), wanted)


def changed(signed, change):
    envelope = json.loads((signed / "c.json").read_text())
    payload = json.loads(base64.b64decode(envelope["payload"]))
    change(envelope, payload)
    envelope["payload"] = base64.b64encode(json.dumps(payload, ensure_ascii=False).encode()).decode()
    return envelope


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda _, payload: payload.update(title="Smoking in York"), "changed after it was signed"),
        (lambda _, payload: payload["asked"][0].update(low=0.0), "changed after it was signed"),
        (lambda envelope, _: envelope["signatures"][0].update(sig=base64.b64encode(bytes(64)).decode()), "changed after"),
        (lambda envelope, _: envelope["signatures"][0].update(keyid="0" * 64), "signed by the key"),
        (lambda envelope, _: envelope["signatures"].append(envelope["signatures"][0]), "not a signed certificate"),
        (lambda envelope, _: envelope.update(payloadType="text/plain"), "not a signed certificate"),
        (lambda _, payload: payload.pop("public_key"), "not a signed certificate"),
    ],
)
def test_whatever_was_changed_is_noticed(signed, change, match):
    with pytest.raises(eh.LedgerError, match=match):
        signature.verify(changed(signed, change))


def test_unchanged_it_is_right(signed):
    assert signature.verify(changed(signed, lambda *_: None)).certificate["title"] == "Smoking <in> Leeds"


def test_another_key_is_not_believed(signed, tmp_path):
    signature.create_key(tmp_path / "mallory.key")
    with pytest.raises(eh.LedgerError, match="signed by the key"):
        signature.verify(json.loads((signed / "c.json").read_text()), tmp_path / "mallory.key.pub")
    forged = signature.sign({"title": "x"}, tmp_path / "mallory.key")
    with pytest.raises(eh.LedgerError, match="signed by the key"):
        signature.verify(forged, signed / "custodian.key.pub")


def test_keys(signed, tmp_path):
    assert (signed / "custodian.key").stat().st_mode & 0o077 == 0
    with pytest.raises(eh.SettingError, match="a key that is written over is lost"):
        signature.create_key(signed / "custodian.key")
    for wrong in (tmp_path / "none.key", signed / "c.html", signed / "custodian.key.pub"):
        with pytest.raises(eh.SettingError, match=r"cannot be read|not a private Ed25519 key"):
            signature.sign({}, wrong)
    with pytest.raises(eh.SettingError, match="not a public Ed25519 key"):
        signature.key_id(signed / "custodian.key")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"payload": 3}', "not json", '{"certificate": 1}'])
def test_what_is_not_signed_is_refused_in_words(tmp_path, content):
    path = tmp_path / "c.json"
    path.write_text(content)
    assert "Expected" in run(5, "verify", path)
