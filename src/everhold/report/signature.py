"""Signed certificates: Ed25519 signatures in a DSSE envelope, which many languages have verifiers for.

The envelope is JSON: `payloadType`, `payload` (base64 of the certificate's JSON) and `signatures` with one `keyid` and one
`sig`. What is signed is `DSSEv1 <length of the type> <type> <length of the payload> <payload>`, in bytes. The key id is the
SHA-256 of the 32 bytes of the public key, in hexadecimal. (https://github.com/secure-systems-lab/dsse)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.errors import LedgerError, MissingExtra, SettingError, WrongSignature
from everhold.ledger.safe_files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PAYLOAD_TYPE", "Verified", "create_key", "key_id", "sign", "verify"]

PAYLOAD_TYPE = "application/vnd.everhold.certificate+json"


@dataclass(frozen=True, slots=True)
class Verified:
    """A certificate whose signature is right.

    Attributes:
        certificate: what was signed.
        key: the id of the key that signed it.
        known: whether that is a key that the reader gave; otherwise it is only the one that the certificate names.
    """

    certificate: dict[str, Any]
    key: str
    known: bool


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise MissingExtra("a signature", "sign") from None
    return serialization


def create_key(path: Path) -> str:
    """Make a key for signatures: `path` for the custodian alone, `<path>.pub` for everybody. Returns the key's id."""
    formats = _library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public_path = path.with_name(f"{path.name}.pub")
    for key_path in (path, public_path):
        if key_path.exists():
            raise SettingError(f"{key_path} exists. Expected a new name: a key that is written over is lost.")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    public = key.public_key().public_bytes(formats.Encoding.PEM, formats.PublicFormat.SubjectPublicKeyInfo)
    write_atomic(path, private, private=True)
    write_atomic(public_path, public)
    return _id_of(key.public_key())


def _id_of(public: Any) -> str:
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()


def _private(path: Path) -> Any:
    formats = _library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = formats.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise SettingError(f"the key {path} cannot be read: {error.strerror}.") from None
    except (TypeError, ValueError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingError(f"{path} is not a private Ed25519 key in PEM. Make one with: everhold signing-key {path.name}")
    return key


def _public(path: Path) -> Any:
    formats = _library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = formats.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise SettingError(f"the key {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SettingError(f"{path} is not a public Ed25519 key in PEM. Expected the custodian's file that ends in .pub.")
    return key


def key_id(path: Path) -> str:
    """The id of a public key."""
    return _id_of(_public(path))


def _signed_bytes(payload: bytes) -> bytes:
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(certificate: dict[str, Any], path: Path) -> dict[str, Any]:
    """An envelope with the certificate, signed. The certificate names the key, so that a reader can compare it."""
    key = _private(path)
    public = key.public_key()
    named = {**certificate, "public_key": public.public_bytes_raw().hex()}
    payload = json.dumps(named, ensure_ascii=False, allow_nan=False).encode()
    signature = base64.b64encode(key.sign(_signed_bytes(payload))).decode()
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": _id_of(public), "sig": signature}],
    }


def verify(envelope: Any, public_key: Path | None = None) -> Verified:
    """The certificate in an envelope, if its signature is right.

    Args:
        envelope: as JSON values.
        public_key: the custodian's; without it the key that the certificate names is used, which proves only that the
            certificate was not changed since its owner signed it.

    Raises:
        LedgerError: it is not a signed certificate.
        WrongSignature: it is not signed by this key, or it was changed.
    """
    _library()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        if envelope["payloadType"] != PAYLOAD_TYPE:
            raise KeyError("payloadType")
        payload = base64.b64decode(envelope["payload"], validate=True)
        (one,) = envelope["signatures"]
        signature, named = base64.b64decode(one["sig"], validate=True), str(one["keyid"])
        certificate = json.loads(payload)
        own = Ed25519PublicKey.from_public_bytes(bytes.fromhex(certificate["public_key"]))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise LedgerError(
            "this is not a signed certificate. Expected the JSON that `everhold certificate --sign KEY` writes. One that is "
            "not signed is checked against the study: everhold audit STUDY --expect-head HEAD, with its head."
        ) from None
    key = own if public_key is None else _public(public_key)
    if _id_of(key) != named or _id_of(key) != _id_of(own):
        raise WrongSignature(f"the certificate was signed by the key {named[:16]}…, not by {_id_of(key)[:16]}….")
    try:
        key.verify(signature, _signed_bytes(payload))
    except InvalidSignature:
        raise WrongSignature("the signature does not fit: the certificate was changed after it was signed.") from None
    return Verified(certificate, named, public_key is not None)
