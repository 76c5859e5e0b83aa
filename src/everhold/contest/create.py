"""Make a contest: everything is checked before the first file is written."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.privacy import Privacy
from everhold.contest.board import Rules
from everhold.contest.hidden_labels import checked_rows, sealed_digest, sealed_rows
from everhold.errors import LedgerError, PrivacyError, RowsInUse, RowsInUseWarning, SettingError, outside
from everhold.learn.metrics import Task, find
from everhold.learn.options import checked_labels
from everhold.ledger.key_file import KeyFile
from everhold.ledger.reader import read_study
from everhold.ledger.registry import KnownStudy, Registry, TableFacts
from everhold.ledger.safe_files import to_json, write_atomic
from everhold.queries.rng import fresh_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NewContest", "beside"]


def beside(path: Path, what: str) -> Path:
    """A file beside a contest's study."""
    return path.with_name(f"{path.name}.{what}")


@dataclass(frozen=True, slots=True, eq=False)
class NewContest:
    """A contest that may be written.

    Attributes:
        path: of its study.
        rules: public.
        labels: hidden, in the order of the rows.
        files: the content of `<path>.labels` and of `<path>.contest.json`.
        registry: where the labels are entered, with
        digest: of them; both None where nothing is entered.
    """

    path: Path
    rules: Rules
    labels: NDArray[Any]
    files: tuple[bytes, bytes]
    registry: Registry | None
    digest: NDArray[np.uint64] | None

    @classmethod
    def of(
        cls,
        path: Path,
        y: Any,
        ids: Any,
        *,
        register: bool,
        task: Task,
        metric: str | None,
        classes: Any,
        seed: int | None,
        sealed: float | None,
        privacy: Privacy | None,
        **settings: Any,
    ) -> NewContest:
        """From what `Contest.create` is given.

        Raises:
            SettingError: something is out of its range.
            RowsInUse: a private contest has these labels already.
        """
        sealed = _checked_sealed(sealed, privacy)
        chosen_metric = find(metric or ("accuracy" if task == "classification" else "mean_absolute_error"), task)
        if chosen_metric.loss is None or chosen_metric.output == "probabilities":
            raise SettingError(
                f"a contest scores by one question a submission, and {chosen_metric.name} needs more. Expected 'accuracy', "
                "'error', 'mean_absolute_error' or 'mean_squared_error'."
            )
        most_bytes, max_per_day = settings["most_bytes"], settings["max_per_day"]
        if most_bytes < 1:
            raise SettingError(f"most_bytes is {most_bytes!r}. Expected at least 1: the bytes that a submission may have.")
        if max_per_day is not None and max_per_day < 1:
            raise SettingError(f"max_per_day is {max_per_day!r}. Expected at least 1, or None for any number.")
        if path.exists() or beside(path, "contest.json").exists():
            raise LedgerError(f"{path} exists already. Choose another name, or go on with the contest that is there.")
        labels, names = checked_rows(y, ids, sealed)
        salt = os.urandom(16).hex()
        drawn = fresh_seed() if seed is None else seed
        rules = Rules(
            **settings,
            task=task,
            metric=chosen_metric.name,
            classes=[] if classes is None else np.unique(np.asarray(list(classes))).tolist(),
            seed=drawn,
            sealed=sealed,
            sealed_digest=sealed_digest(salt, labels[sealed_rows(len(labels), sealed, drawn)]) if sealed else None,
            privacy=None if privacy is None else asdict(privacy),
        )
        checked_labels(labels, len(labels), task, rules.options(path).context(None))  # nothing else checks sealed ones
        registry, digest = Registry() if register else None, None
        if registry is not None:
            digest = _digest_of(registry, names, labels, private=privacy is not None)
        try:
            hidden = to_json({"labels": labels.tolist(), "salt": salt})
            shown = to_json({**rules.to_dict(), "ids": names})
        except TypeError:
            raise SettingError(
                "labels, classes and settings are plain numbers and texts, so that files can keep them."
            ) from None
        return cls(path, rules, labels, (hidden, shown), registry, digest)

    @contextmanager
    def written(self) -> Iterator[None]:
        """The contest's own files are there; the study is made inside. All of it or nothing."""
        try:
            for name, content, private in zip(("labels", "contest.json"), self.files, (True, False), strict=True):
                write_atomic(beside(self.path, name), content, private=private)
            yield
            self._enter()
        except BaseException:
            self._take_back()
            raise

    @property
    def _study(self) -> str:
        """What the study is known by in the registry; its labels have an entry of their own."""
        return read_study(self.path).first_record.fingerprint

    def _take_back(self) -> None:
        """Remove what was made: the contest is whole, or not there."""
        if self.registry is not None and self.path.exists():
            with suppress(LedgerError):
                study = self._study
                for entry in (study, f"{study}-labels"):
                    self.registry.forget(entry)
        for name in ("labels", "contest.json", "spent", "lock"):
            beside(self.path, name).unlink(missing_ok=True)
        for file in (KeyFile.path(self.path), self.path):
            file.unlink(missing_ok=True)

    def _enter(self) -> None:
        """Enter the labels. A plain contest is made all the same where the registry cannot be written."""
        if self.registry is None or self.digest is None:
            return
        private = self.rules.privacy is not None
        table = TableFacts(rows=len(self.labels), private=private)
        try:
            known = self.registry.enter(
                study=f"{self._study}-labels", kind="contest", path=self.path, digests={"files": self.digest}, table=table
            )
        except LedgerError as error:
            if private:
                raise
            message = f"this contest is not in the registry of studies: {error}"
            warnings.warn(RowsInUseWarning(message), stacklevel=outside())
            return
        if other := next((one for one in known if one.private or private), None):  # made since it was looked up
            raise RowsInUse(_private_refusal(other))


def _digest_of(registry: Registry, names: list[str], labels: NDArray[Any], *, private: bool) -> NDArray[np.uint64] | None:
    """What the registry knows labels by, all of them. Of plain contests: None, with a warning, where it cannot be used.

    Raises:
        RowsInUse: a contest has them already, and one of the two is private. Only the very same labels are recognised.
        LedgerError: the registry of a private contest cannot be used.
    """
    named = json.dumps(["labels", names, labels.tolist()], default=str)
    try:
        digest = registry.digests([named])
        known = registry.overlapping({"files": digest})
    except LedgerError as error:
        if private:
            raise
        message = f"whether these labels have a contest already is not known: {error}"
        warnings.warn(RowsInUseWarning(message), stacklevel=outside())
        return None
    for other in known:
        if private or other.private:
            raise RowsInUse(_private_refusal(other))
        message = (
            f"{_made(other)} What it disclosed is not counted here, so this board is not valid for models that were chosen "
            "by its scores. Go on with that contest: everhold contest submit, or eh.Contest(path)."
        )
        warnings.warn(RowsInUseWarning(message), stacklevel=outside())
        break
    return digest


def _made(other: KnownStudy) -> str:
    private = "private " if other.private else ""
    return f"these labels have a {private}contest already: {other.path}, made on {other.created[:10]}."


def _private_refusal(other: KnownStudy) -> str:
    return (
        f"{_made(other)} What both disclose adds up. Go on with that contest. If you count the sum of all epsilons "
        "yourself, or that contest never scored anything, pass register=False (--no-register)."
    )


def _checked_sealed(sealed: float | None, privacy: object) -> float:
    """The part of the rows that is sealed. Only an exact ranking would use it, so that a private contest seals nothing."""
    if privacy is None:
        return 0.5 if sealed is None else float(sealed)
    if not isinstance(privacy, Privacy):
        raise SettingError(f"privacy is {privacy!r}. Expected eh.Privacy(epsilon=..., delta=..., surprises=...).")
    if sealed:
        raise PrivacyError(
            "a private contest cannot seal rows for a last ranking: that is exact. Expected sealed=0, or a contest without "
            "privacy. No label was read."
        )
    return 0.0
