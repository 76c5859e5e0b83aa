"""The owner's key file beside a study."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from everhold.errors import LedgerError
from everhold.ledger.safe_files import read_json, to_json, write_atomic

__all__ = ["KeyFile"]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """What the owner keeps beside a study and shows to nobody: the key of the fingerprint, and where the rows are.

    Of a private study also the fingerprint itself, which its file does not show.
    """

    key: str
    data: str | None
    rows: str | None = None

    @classmethod
    def new(cls, data: str | None) -> KeyFile:
        """With a fresh key."""
        return cls(secrets.token_hex(32), data)

    @staticmethod
    def path(study: Path) -> Path:
        """Beside the study."""
        return study.with_name(study.name + ".key")

    def save(self, study: Path) -> None:
        """Write it so that only the owner can read it, and so that it is there when the study is."""
        content = {name: value for name, value in asdict(self).items() if name != "rows" or value is not None}
        write_atomic(self.path(study), to_json(content), private=True)

    @classmethod
    def load(cls, study: Path) -> KeyFile:
        """Read it again."""
        path = cls.path(study)
        try:
            content = read_json(path)
            rows = content.get("rows")
            if len(bytes.fromhex(content["key"])) != 32 or not all(
                isinstance(value, str | None) for value in (content["data"], rows)
            ):
                raise ValueError("not a key of 32 bytes")
            return cls(content["key"], content["data"], rows)
        except FileNotFoundError:
            raise LedgerError(
                f"{path} is missing. It holds the owner's key, without which nobody can tell whether the rows are the "
                "study's. Reading and auditing work without it."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise LedgerError(
                f"{path} cannot be read as the owner's key of this study. Expected the file that was made beside it: "
                "restore it from a backup. Reading and auditing work without it."
            ) from None
