"""What must be true, whatever happens: checked when a response leaves, and when a run has ended.

Nothing is lost: what left a server is on the platter, equal to the byte, and is returned again under its request id.
Nothing is doubled: a request is answered and charged once, and rounds are dense.
Nothing is disclosed early: when a response leaves, its record would survive a power cut; readers see a round only after a
step of the grid.
The audit passes, and a server without a fault answers everything.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from contextvars import Context
from typing import TYPE_CHECKING, Any

import everhold as eh
from everhold.contest.contest import _digest_of
from everhold.errors import EverholdError
from everhold.gate.gate import Gate
from everhold.ledger.codec import ParsedActEnd, ParsedActStart, ParsedRecord, ParsedRound, Repeat
from everhold.ledger.guard import Guard
from everhold.ledger.store import Store
from tests.faults.record_check import check_record, entries_of, frozen, parts_of, recorded_results
from tests.simulation.disk import Disk
from tests.simulation.requests import Request
from tests.simulation.studies import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.ledger.rounds import ActStart


class Violation(AssertionError):
    """A promise is not kept."""


def require(kept: bool, promise: str, *about: object) -> None:
    """Raise if a promise is not kept."""
    if not kept:
        raise Violation(": ".join([promise, *map(str, about)]))


class Platter:
    """What a power cut would leave of each study at this moment, if it left nothing that was not synced."""

    def __init__(self, site: Site, disk: Disk) -> None:
        self._site, self._disk = site, disk
        self._view = site.base / "platter"
        self._seen: dict[str, tuple[object, list[ParsedRecord], list[str]]] = {}
        self._view.mkdir(exist_ok=True)

    def entries(self, study: str) -> list[ParsedRecord]:
        """The records of a study."""
        return self._read(study)[1]

    def holds(self, study: str, head: str) -> bool:
        """Whether the study had this head once."""
        return head in self._read(study)[2]

    def file(self, name: str) -> bytes:
        """The content of a file; nothing where there is none."""
        return self._disk.certain().get(name) or b""

    def noted_head(self, study: str) -> int:
        """How many records of a study the registry knows of."""
        certain = self._disk.certain()
        names = ("home/registry.sqlite", "home/registry.sqlite-journal")
        files = {name.partition("/")[2]: certain[name] for name in names if name in certain}
        return Context().run(self._noted, str(self._site.path(study)), files)

    def _noted(self, path: str, files: dict[str, bytes | None]) -> int:
        Disk.write_all(self._view, files)
        with closing(sqlite3.connect(self._view / "registry.sqlite")) as db:
            found = db.execute("SELECT records FROM study WHERE path = ?", (path,)).fetchone()
        return 0 if found is None else int(found[0])

    def _read(self, study: str) -> tuple[object, list[ParsedRecord], list[str]]:
        certain = self._disk.certain()
        files = {name: certain[name] for name in (f"{study}.everhold", f"{study}.everhold-journal") if name in certain}
        if study not in self._seen or self._seen[study][0] != files:
            self._seen[study] = (files, *Context().run(self._opened, study, files))
        return self._seen[study]

    def _opened(self, study: str, files: dict[str, bytes | None]) -> tuple[list[ParsedRecord], list[str]]:
        Disk.write_all(self._view, files)
        path = self._view / f"{study}.everhold"
        try:
            store = Store.open(path, write=False)
            try:
                heads = [str(store.head) for _ in store.records()]
            finally:
                store.close()
            return entries_of(path), heads
        except EverholdError as error:
            raise Violation(f"a power cut leaves a study that cannot be read: {study}: {error}") from None


class Promises:
    """Remembers what has left the servers of a run, and checks it.

    Args:
        site: what is served.
        disk: where it lies.
        step: of the grid, in seconds.
    """

    def __init__(self, site: Site, disk: Disk, step: float) -> None:
        self._site, self._step = site, step
        self.platter = Platter(site, disk)
        self.shown: dict[Request, dict[str, Any]] = {}
        self.arrivals: dict[str, float] = {}
        self.live_tokens: list[tuple[str, str]] = []
        self.dead_tokens: list[str] = []

    def _id(self, request: Request) -> str:
        """As the record has it."""
        kind = {"mean": "mean", "ask": "ask", "ask_many": "ask_many", "same": "check"}.get(request.kind, request.kind)
        if request.kind in ("read", "read_many", "best_of", "is_better", "compare", "certify", "close"):
            kind = f"act_{kind}"
        return f"{self._site.tokens[request.who].id}:{kind}:{request.request_id}"

    def arrived(self, request: Request, now: float) -> None:
        """A request has reached a server."""
        self.arrivals.setdefault(self._id(request), now)

    # when a response leaves ------------------------------------------------------------------------------------------

    def left(self, request: Request, status: int, body: bytes, arrived: float, now: float) -> None:
        """A response leaves a server, whoever gets it."""
        require(status != 500, "no error is unforeseen", request, body)
        if request.kind == "file" and status == 200:
            self._file_left(request, body)
            return
        found = json.loads(body)
        if status == 201:
            self._token_left(found)
            return
        if request.kind == "revoke" and status == 200:
            kept = json.loads(self.platter.file("tokens.json"))["tokens"]
            gone = any(one["id"] == found["id"] and one["revoked"] for one in kept)
            require(gone, "that a token is revoked is durable before it is shown", found["id"])
            return
        if status != 200:
            for part in parts_of(found.get("error", {}).get("details", {})):
                self._require_recorded(request, part)
            return
        if not request.reads:
            self._off_grid(request, arrived, now)
            earlier = self.shown.setdefault(request, found)
            require(_same(request, earlier, found), "a request gets one answer", request, earlier, found)
        self._require_durable(request, found)
        if request.reads:
            self._require_released(request, found, now)

    def _token_left(self, found: dict[str, Any]) -> None:
        kept = json.loads(self.platter.file("tokens.json"))["tokens"]
        require(any(one["id"] == found["id"] for one in kept), "a token is durable before it is shown", found["id"])
        self.live_tokens.append((found["id"], found["token"]))

    def _file_left(self, request: Request, body: bytes) -> None:
        durable = self.platter.file(f"{request.study}.everhold")
        require(body == durable or len(body) <= len(durable), "a file is durable before it is shown", request)

    def _off_grid(self, request: Request, arrived: float, now: float) -> None:
        if request.kind != "token":
            require(now >= arrived + self._step - 1e-6, "an answer leaves on the grid", request, now - arrived)

    def _require_durable(self, request: Request, found: dict[str, Any]) -> None:
        if isinstance(head := found.get("head"), str):
            require(self.platter.holds(request.study, head), "what readers see is durable", request, head)
        check = {
            "check": self._verdict,
            "same": self._verdict,
            "decide": self._verdict,
            "finish": self._ended,
            "finish_contest": self._ended,
            "duel": self._ended,
            "submit": self._scored,
        }.get(request.kind, self._answered)
        if not request.reads:
            check(request, found)

    def _answered(self, request: Request, found: dict[str, Any]) -> None:
        parts = list(parts_of(found))
        require(bool(parts), "a result has parts", request, found)
        for part in parts:
            self._require_recorded(request, part)

    def _require_recorded(self, request: Request, part: dict[str, Any]) -> None:
        recorded = recorded_results(self.platter.entries(request.study))
        require(frozen(part) in recorded, "an answer is durable before it is shown", request, part)

    def _verdict(self, request: Request, found: dict[str, Any]) -> None:
        if found["state"] == "waiting":
            lines = self.platter.file(f"{request.study}.everhold.waiting.jsonl").split(b"\n")
            waits = [json.loads(line)["name"] for line in lines if line[:1] == b"{" and line[-1:] == b"}"]
            require(found["name"] in waits, "a candidate that waits is durable", request, found)
        elif leaves_record(request, found):
            winners = dict(_winners(self.platter.entries(request.study)))
            recorded = found["name"] in winners and winners[found["name"]] == found["winner"]
            require(recorded, "a verdict is durable before it is shown", request, found, winners)
            noted = self.platter.noted_head(request.study)
            announced = self._announced(request.study, found["name"])
            require(noted >= announced, "the registry knows of a verdict before it is shown", request, noted, announced)

    def _announced(self, study: str, candidate: str) -> int:
        """How many records there were when this candidate's check was announced."""
        for number, one in enumerate(self.platter.entries(study), 2):
            if isinstance(one, ParsedActStart) and any(each.get("name") == candidate for each in one.begun.asked):
                return number
        return 0

    def _ended(self, request: Request, found: dict[str, Any]) -> None:
        ends = [one for one in self.platter.entries(request.study) if isinstance(one, ParsedActEnd)]
        require(any(not one.done.interrupted for one in ends), "an act is durable before it is shown", request)

    def _scored(self, request: Request, found: dict[str, Any]) -> None:
        if found["state"] in ("scored", "repeated"):
            names = [one.round.name for one in self.platter.entries(request.study) if isinstance(one, ParsedRound)]
            digest = _digest_of(_array(request.details["guesses"]))
            require(any((name or "").endswith(digest) for name in names), "a score is durable before it is shown", request)

    def _require_released(self, request: Request, found: dict[str, Any], now: float) -> None:
        """No round is visible before the first moment at which its answer may leave."""
        seen = found.get("rounds", found.get("total"))
        if not isinstance(seen, int) or request.kind == "log":
            return
        rounds = [one for one in self.platter.entries(request.study) if isinstance(one, ParsedRound)]
        for one in rounds[:seen]:
            name = (one.asked_by.request_id or "").partition("/")[0]
            if name in self.arrivals:
                early = self.arrivals[name] + self._step - now
                require(early <= 1e-6, "readers see a round after a step of the grid", request, name, early)

    # when a run has ended --------------------------------------------------------------------------------------------

    def check_files(self, studies: list[str]) -> dict[str, Any]:
        """Every study's file, while no server runs; the heads that they have."""
        return Context().run(self._checked, studies)

    def _checked(self, studies: list[str]) -> dict[str, Any]:
        heads: dict[str, Any] = {}
        for study in studies:
            path = self._site.path(study)
            try:
                heads[study] = self._checked_study(study)
            except (AssertionError, EverholdError) as error:
                raise Violation(f"{study}: {type(error).__name__}: {error}") from None
            require(_requests_once(entries_of(path)), "a request is charged once", study)
        return heads

    def _checked_study(self, study: str) -> str:
        path = self._site.path(study)
        if study in ("plain", "private"):
            with eh.Holdout.open(path) as held:
                price, head, charges = held.budget.ask_price, held.head, held.privacy and held.privacy.charges
            if charges is not None:
                require(Guard.open(path).charges == charges, "the guard knows every charge", study)
            check_record(path, price)
            return head
        if study in ("gate", "generations"):
            with Gate(path) as gate:
                gate.require_ready()
                audit = gate.audit()
                require(audit.ok, "the audit passes", audit)
                self._nobody_lost(study, gate)
        else:
            contest = eh.Contest(path)
            contest.require_ready()
            _, held = contest.board_and_holdout()
            check_record(path, held.budget.ask_price)
            contest.release()
            names = [one.round.name for one in entries_of(path) if isinstance(one, ParsedRound)]
            require(len(names) == len(set(names)), "a submission is scored once", names)
        store = Store.open(path, write=False)
        try:
            return [str(store.head) for _ in store.records()][-1]
        finally:
            store.close()

    def _nobody_lost(self, study: str, gate: Gate) -> None:
        """Who was promoted is the incumbent, or was replaced by a later promotion."""
        promoted = [found for one, found in self.shown.items() if one.study == study and found.get("state") == "promoted"]
        recorded = gate.status().promotions
        require(recorded >= len({one["name"] for one in promoted}), "a promotion is not lost", study, promoted)
        waiting = gate.path.with_name(gate.path.name + ".waiting.jsonl")
        lines = waiting.read_bytes().split(b"\n") if waiting.exists() else []
        named = [json.loads(line)["request"] for line in lines if line[:1] == b"{" and line[-1:] == b"}"]
        require(len(named) == len(set(named)), "a candidate waits once", named)


def _array(values: list[int]) -> Any:
    import numpy as np

    return np.array(values)


def _requests_once(entries: list[ParsedRecord]) -> bool:
    named = [one.asked_by.request_id for one in entries if isinstance(one, ParsedRound | Repeat)]
    ended = [one.asked_by.request_id for one in entries if isinstance(one, ParsedActEnd) and not one.done.interrupted]
    both = [one for one in (*named, *ended) if one is not None]
    return len(both) == len(set(both))


def _winners(entries: list[ParsedRecord]) -> Iterator[tuple[str, str | None]]:
    """Every candidate of a gate that was checked, and who was promoted in that check."""
    begun: ActStart | None = None
    for one in entries:
        if isinstance(one, ParsedActStart):
            begun = one.begun
        elif isinstance(one, ParsedActEnd) and begun is not None and begun.kind == "check" and not one.done.interrupted:
            promoted = begun.asked[int(one.done.outcome or 0)]["name"] if one.done.result["promoted"] else None
            yield from ((each["name"], promoted) for each in begun.asked)


def leaves_record(request: Request, found: dict[str, Any]) -> bool:
    """Whether a gate's verdict is a recorded one: what is kept out by its bytes, or screened, leaves no record."""
    by_bytes = found["state"] == "kept" and "artifact" in request.details["sent"]
    return found["state"] in ("promoted", "kept") and not by_bytes


_VARYING = ("checks", "promotions", "waiting", "repeated")


def _same(request: Request, earlier: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether two answers to a request are one, but for what the product says about the present."""
    if request.kind in ("finish_contest",):
        return earlier["places"] == found["places"] and found["final"]
    if request.kind == "submit":
        return earlier["score"] == found["score"] or None in (earlier["score"], found["score"])
    if request.kind in ("check", "same", "decide"):
        if earlier["state"] == "waiting":
            return earlier["name"] == found["name"]
        if not leaves_record(request, earlier):
            return True
        return all(earlier[name] == found[name] for name in earlier if name not in _VARYING)
    if request.kind == "token":
        return True
    return earlier == found
