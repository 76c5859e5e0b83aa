"""The first record of a ledger: all public facts of a study, and what binds its rows to it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from everhold.bounds.budget import Budget
from everhold.bounds.privacy import PrivacyTerms
from everhold.data.schema import Schema
from everhold.data.table import RowTable
from everhold.errors import LedgerError
from everhold.ledger.codec import VERSIONS, dump, load, require_keys, sqlite_version
from everhold.ledger.store import Record
from everhold.ledger.table_blob import table_from_bytes, table_to_bytes

__all__ = ["FirstRecord", "fresh_id"]


def fresh_id() -> str:
    """What a private study is known by: a random number, as long as a fingerprint."""
    return secrets.token_hex(32)


@dataclass(frozen=True, slots=True, eq=False)
class FirstRecord:
    """What a session follows from, together with its rounds.

    Attributes:
        settings: confidence, half-width, rule, density, known rows, seed, tolerance.
        schema: the declared columns.
        rows: n, the number of private draws.
        unit: the column that tells which rows belong together.
        split: the public fraction, where the reference was split off the private table.
        reference: the public rows, with
        weights: one for each, or None,
        draws: how many independent draws they amount to, and
        prior: a line about where they come from.
        fingerprint: of the private rows, under the owner's key; of a private study a random number.
        created, version: when, and by which everhold.
        binding: what the fingerprint was made of: 'rows', or 'files' that are read in place.
        kind: 'study', 'gate', or 'labels' where features are public and only labels are hidden.
    """

    settings: dict[str, Any]
    schema: Schema
    rows: int
    unit: str | None
    split: float | None
    reference: RowTable
    weights: Any
    draws: float
    density: float | None
    prior: str
    fingerprint: str
    created: str
    version: str
    binding: str = "rows"
    kind: str = "study"
    written_by: int = field(default_factory=sqlite_version)

    @property
    def privacy(self) -> PrivacyTerms | None:
        """What the study promises about its rows; None where it promises nothing."""
        terms = self.settings.get("privacy")
        return None if terms is None else PrivacyTerms.from_dict(terms)

    @property
    def first_budget(self) -> Budget:
        """The budget before the first question."""
        return Budget.first(1.0 - float(self.settings["confidence"]), self.settings.get("rounds"), self.privacy)

    def record(self) -> Record:
        """Ready to be written."""
        body = {
            "settings": self.settings,
            "schema": self.schema.to_toml(),
            "rows": self.rows,
            "unit": self.unit,
            "split": self.split,
            "draws": self.draws,
            "density": self.density,
            "prior": self.prior,
            "fingerprint": self.fingerprint,
            "created": self.created,
            "everhold": self.version,
            "binding": self.binding,
            "kind": self.kind,
            "sqlite": self.written_by,
        }
        return Record("study", VERSIONS["study"], dump(body), table_to_bytes(self.reference, self.weights))

    @classmethod
    def from_record(cls, record: Record) -> FirstRecord:
        """From the first record of a ledger."""
        body = load(record)
        if record.kind != "study" or record.blob is None:
            raise LedgerError("the ledger does not begin with a study.")
        require_keys(body, _KEYS, "the study's first record")
        reference, weights = table_from_bytes(record.blob)
        try:
            if not (isinstance(body["rows"], int) and body["rows"] > 0 and isinstance(body["draws"], int | float)):
                raise ValueError("rows and draws are numbers")
            if not (body["split"] is None or isinstance(body["split"], float)):
                raise ValueError("a split is a fraction")
            texts = [body[name] for name in ("prior", "fingerprint", "created", "everhold", "binding")]
            if not all(isinstance(text, str) for text in texts) or not isinstance(body["unit"], str | None):
                raise ValueError("a text is something else")
            if body["kind"] not in ("study", "gate", "labels"):
                raise ValueError("a kind of study that is not known")
            if not isinstance(body["settings"], dict) or type(body["sqlite"]) is not int or body["sqlite"] < 0:
                raise ValueError("settings or the version of SQLite")
            return cls(
                body["settings"],
                Schema.from_toml(body["schema"]),
                body["rows"],
                body["unit"],
                body["split"],
                reference,
                weights,
                body["draws"],
                body["density"],
                body["prior"],
                body["fingerprint"],
                body["created"],
                body["everhold"],
                body["binding"],
                body["kind"],
                body["sqlite"],
            )
        except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise LedgerError(f"the study's first record is not readable ({error}).") from None


_KEYS = (
    "settings",
    "schema",
    "rows",
    "unit",
    "split",
    "draws",
    "density",
    "prior",
    "fingerprint",
    "created",
    "everhold",
    "binding",
    "kind",
    "sqlite",
)
