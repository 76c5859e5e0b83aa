"""The study behind a gate: one turn at a time, of two copies one goes on, and the outcomes of all candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from everhold.errors import LedgerBusy, LedgerError, ReplayError
from everhold.gate.checks import GateChecks
from everhold.gate.files import Cases, beside, blinded, outcomes_digest, private_table, unblinded
from everhold.gate.waiting import WaitingCandidates
from everhold.ledger.kept_arrays import KeptArrays
from everhold.ledger.key_file import KeyFile
from everhold.ledger.patience import patiently
from everhold.ledger.reader import read_study
from everhold.ledger.registry import Registry
from everhold.ledger.safe_files import UNKNOWN_STAMPS, FileStamps, file_stamp
from everhold.mechanism.private import PrivateEverhold
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.gate.rules import GateRules
    from everhold.ledger.rounds import ActStart

__all__ = ["GateStudy", "private_mechanism"]


class GateStudy:
    """A gate's study, its cases and its candidates' outcomes.

    Attributes:
        id: what this gate is known by in registries: the keyed fingerprint of its cases, which its ledger begins with.
        key: of its digests, for the owner alone.
        waiting: candidates that wait for their generation.
        last_stamps: the study's file and that of waiting candidates as this process left them, under its lock.
    """

    def __init__(self, path: Path, rules: GateRules, charges_each: int | None = None) -> None:
        first = read_study(path).first_record
        if first.prior != rules.describe() or first.settings["confidence"] != rules.confidence:
            raise LedgerError(
                f"{beside(path, 'gate.json')} has other rules than the ledger. A gate's contract cannot be changed: "
                "restore that file from a backup."
            )
        self.path = path
        self.id = first.fingerprint
        self.cases = Cases.load(path)
        self.key = bytes.fromhex(KeyFile.load(path).key)
        self.waiting = WaitingCandidates(beside(path, "waiting.jsonl"))
        self._charges_each = charges_each
        self.last_stamps: FileStamps = UNKNOWN_STAMPS
        self._rules = rules
        self._holdout: Holdout | None = None
        self._lock = RLock()
        self._registry = Registry()
        self._outcomes = KeptArrays(beside(path, "outcomes"), lambda values: outcomes_digest(self.key, values))

    # turns ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Iterator[Holdout]:
        """Nobody else has a turn: no other thread, and no other process. Between turns others may check."""
        with self._lock:
            self.last_stamps = UNKNOWN_STAMPS
            holdout = self.ready()
            try:
                yield holdout
            finally:
                if holdout.usable:
                    self.last_stamps = self.stamps()
                    holdout.pause()

    def ready(self) -> Holdout:
        """The study with its newest record, open. For a turn; its caller pauses the study."""
        self.waiting.settle()
        if self._holdout is not None and self._holdout.usable:
            try:
                patiently(self._holdout.resume)
            except LedgerBusy:
                raise
            except (LedgerError, ReplayError):  # not the file it was: the whole of it is read again
                self._holdout.release()
                self._holdout = None
        newest = self._registry.newest_head(self.id)
        if newest is None:  # made elsewhere, or before this registry
            digests = self.cases.digests(self._registry)
            self._registry.enter(study=self.id, kind="gate", path=self.path, digests=digests, reason=self._rules.new_budget)
            newest = ""
        if self._holdout is not None and newest in ("", self._holdout.head):
            return self._holdout
        if self._holdout is not None:  # another head is noted: does this ledger contain it?
            self._holdout.release()
        rows = private_table(self.cases.sealed, self.sealed_outcomes(self._rules.first))
        self._holdout = patiently(lambda: Holdout.open(self.path, data=rows, expect_head=newest or None))
        self._holdout.session.limit_charges(self._charges_each, self.path)
        return self._holdout

    def between_turns(self) -> Holdout:
        """The study as the last turn left it: nothing is read again."""
        with self._lock:
            if self._holdout is None or self.last_stamps == UNKNOWN_STAMPS:
                raise LedgerError(
                    "the gate was not opened yet, or its last turn failed. Call gate.require_ready() first, or read the "
                    "file: gate.status()."
                )
            return self._holdout

    def stamps(self) -> FileStamps:
        """What the study's file and that of waiting candidates look like now: as long as it stays, so does the status."""
        return file_stamp(self.path), file_stamp(beside(self.path, "waiting.jsonl"))

    def release(self) -> None:
        """Release the study's file, so that another process may use it."""
        with self._lock:
            self.last_stamps = UNKNOWN_STAMPS
            if self._holdout is not None:
                self._holdout.release()
                self._holdout = None

    # acts ----------------------------------------------------------------------------------------------------------------

    def checks(self, holdout: Holdout) -> GateChecks:
        """The checks so far."""
        return GateChecks((act for act, _ in holdout.journal.recorded_acts), self._rules)

    def do_act(
        self, holdout: Holdout, begun: ActStart, decide: Callable[[], int | str], *, request_id: str | None, who: str | None
    ) -> dict[str, Any]:
        """Do an act. Between its announcement and its outcome the registry notes it: of two copies one goes on."""
        before = self._registry.newest_head(self.id) or ""
        announced = ""

        def noted() -> int | str:
            nonlocal announced
            announced = holdout.head
            if not self._rules.private:  # the shield of a private gate has noted it
                self._advance(before, announced)
            return decide()

        asked_by = holdout.session.stamp(request_id, who)

        def require() -> None:
            holdout.session.require_under_cap(asked_by.who)

        result = holdout.session.recorder.do_act(begun, noted, asked_by, require)
        if self._registry.newest_head(self.id) != holdout.head:  # a private gate's charges are noted as they become durable
            self._advance(announced, holdout.head)
        return result

    def _advance(self, before: str, head: str) -> None:
        if not self._registry.advance(self.id, before, head):
            raise LedgerError(
                f"{self.path} is a copy, and another one has gone on. Use that one: going on from this copy would "
                "answer the same question a second time."
            )

    def newest_head(self) -> str | None:
        """The head that this user's registry has seen last; None where the registry cannot be used."""
        with suppress(LedgerError):
            return self._registry.newest_head(self.id)
        return None

    # outcomes ------------------------------------------------------------------------------------------------------------

    def keep_outcomes(self, steps: NDArray[np.int64]) -> str:
        """Keep a candidate's outcomes, durably. Their digest is what they are known by."""
        return self._outcomes.keep(blinded(steps))

    def outcomes(self, digest: str) -> NDArray[np.int64]:
        """Of all cases, the sealed ones first."""
        stored = self._outcomes.read(digest)
        if stored is None:
            raise LedgerError(
                f"outcomes that are needed are not in {self._outcomes.folder}, or were changed. Restore that folder from a "
                "backup. Nothing was charged."
            )
        return unblinded(stored)

    def sealed_outcomes(self, digest: str) -> NDArray[np.int64]:
        """Of the sealed cases."""
        return self.outcomes(digest)[: self._rules.cases]

    def visible_outcomes(self, digest: str) -> NDArray[np.int64]:
        """Of the visible cases."""
        return self.outcomes(digest)[self._rules.cases :]


def private_mechanism(holdout: Holdout) -> PrivateEverhold:
    """Of a private gate's study."""
    if not isinstance(holdout.mechanism, PrivateEverhold):
        raise LedgerError("the gate's rules promise privacy, and its study does not.")
    return holdout.mechanism
