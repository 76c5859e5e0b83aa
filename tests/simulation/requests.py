"""What clients send, drawn by a seed."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import everhold as eh
from everhold.client import calls
from tests.server.serving import as_csv
from tests.simulation.studies import CASES, LABELS

KINDS = {
    "plain": "ask ask ask ask_many mean read read_many best_of is_better compare certify close status log audit file",
    "private": "ask ask ask ask_many mean read best_of certify status log",
    "gate": "check check check same finish gate_status status",
    "generations": "check check check decide gate_status status",
    "duels": "submit submit submit duel finish_contest board status",
    "ladder": "submit submit submit finish_contest board status",
}
LAST = ("close", "finish", "finish_contest")
"""After which nothing else is answered: rare."""
READING = ("status", "log", "audit", "file", "gate_status", "board")
"""These show what others did."""


@dataclass(frozen=True)
class Request:
    """One thing to send, and to send again under the same id until it is answered.

    Attributes:
        number: which of the run's requests.
        kind: one of `KINDS`, or a token's.
        study: whom it is about.
        who: sends it.
        method, path: where to.
        body: what is sent.
        plain: whether the body is CSV.
    """

    number: int
    kind: str
    study: str
    who: str
    method: str
    path: str
    body: bytes = b""
    plain: bool = False
    details: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.kind in READING

    @property
    def request_id(self) -> str:
        """Under which it is sent, if it has one."""
        return f"r{self.number}"

    def headers(self, secret: str) -> list[tuple[bytes, bytes]]:
        """Of HTTP."""
        kind = b"text/csv" if self.plain else b"application/json"
        return [
            (b"host", b"simulation"),
            (b"authorization", f"Bearer {secret}".encode()),
            (b"content-type", kind),
            (b"content-length", str(len(self.body)).encode()),
        ]

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} of {self.study} by {self.who}"


class Requests:
    """Draws requests.

    Args:
        coins: of the seed.
        studies: what is served.
    """

    def __init__(self, coins: random.Random, studies: list[str]) -> None:
        self._coins, self._studies = coins, studies
        self._count = 0

    def draw(self) -> Request:
        """The next one."""
        coins = self._coins
        if coins.random() < 0.04:
            return self._made("token", "", "cus", "POST", "/v1/tokens", {"name": "eve", "scope": "analyst"})
        study = coins.choice(self._studies)
        kind = coins.choice(KINDS[study].split())
        while kind in LAST and coins.random() < 0.7:
            kind = coins.choice(KINDS[study].split())
        return self.of(kind, study)

    def of(self, kind: str, study: str) -> Request:
        """One of a kind."""
        coins = self._coins
        who = "cus" if kind in (*LAST, "duel") else coins.choice(("ann", "bob"))
        if kind in READING:
            return self._reading(kind, study)
        if kind in ("check", "same", "decide", "finish"):
            return self._of_gate(kind, study, who)
        if kind == "submit":
            share = coins.choice((0.0, 0.1, 0.4))
            guesses = [int(one) if coins.random() >= share else 1 - int(one) for one in LABELS]
            path = f"/v1/contests/{study}/submissions"
            return self._made(kind, study, who, "POST", path, as_csv(guesses).encode(), guesses=guesses)
        if kind in ("duel", "finish_contest"):
            body = {"first": "ann", "second": "bob", "request_id": f"r{self._count}"} if kind == "duel" else {}
            path = f"/v1/contests/{study}/{'duel' if kind == 'duel' else 'finish'}"
            return self._made(kind, study, who, "POST", path, body)
        return self._call(kind, study, who)

    def _question(self) -> str:
        coins = self._coins
        if coins.random() < 0.2:
            return f"age > {coins.randint(40, 44)}"  # others ask that too
        negated = coins.choice(("", "NOT "))
        return f"{negated}smoker AND age > {coins.randint(18, 60)} AND age <> {100 + self._count}"

    def _call(self, kind: str, study: str, who: str) -> Request:
        """As the product's own client builds it."""
        name, some = f"r{self._count}", [self._question() for _ in range(self._coins.randint(2, 3))]
        some = list(dict.fromkeys(some))
        mean: Any = eh.Mean("age", given=f"age > {self._coins.randint(20, 50)}")
        made: dict[str, Any] = {
            "ask": lambda: calls.ask(study, some[0], request_id=name),
            "ask_many": lambda: calls.ask_many(study, some, request_id=name),
            "mean": lambda: calls.ask(study, mean, request_id=name),
            "read": lambda: calls.read(study, some[0], request_id=name),
            "read_many": lambda: calls.read_many(study, [*some, mean], request_id=name),
            "best_of": lambda: calls.best_of(study, [*some, "age > 30"], request_id=name),
            "is_better": lambda: calls.is_better(study, some[0], "age > 35", request_id=name),
            "compare": lambda: calls.compare(study, some[0], "age > 36", request_id=name),
            "certify": lambda: calls.certify(study, self._coins.randint(1, 3), request_id=name),
            "close": lambda: calls.close(study, some, request_id=name),
        }
        call = made[kind]()
        return self._made(kind, study, who, call.method, call.path, call.body)

    def _reading(self, kind: str, study: str) -> Request:
        who = (
            "aud" if kind in ("audit", "file") or study in ("duels", "ladder") else self._coins.choice(("ann", "bob", "aud"))
        )
        paths = {"gate_status": f"/v1/gates/{study}", "board": f"/v1/contests/{study}/board"}
        return self._made(kind, study, who, "GET", paths.get(kind, f"/v1/studies/{study}/{kind}"), b"")

    def _of_gate(self, kind: str, study: str, who: str) -> Request:
        coins = self._coins
        body: dict[str, Any] = {"request_id": f"r{self._count}"}
        if kind in ("check", "same"):
            better = coins.choice((0.0, 0.5, 0.9))
            body["outcomes"] = {case: int(right or coins.random() < better) for case, right in CASES.items()}
            if coins.random() < 0.5:
                body["name"] = coins.choice(("new", f"version {self._count}"))
            if kind == "same" or coins.random() < 0.2:
                body["artifact"] = "the same file" if kind == "same" else f"file {self._count}"
        path = f"/v1/gates/{study}/{'checks' if kind in ('check', 'same') else kind}"
        return self._made(kind, study, who, "POST", path, body, sent=body)

    def _made(
        self, kind: str, study: str, who: str, method: str, path: str, body: dict[str, Any] | bytes | None, **details: Any
    ) -> Request:
        sent = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        made = Request(self._count, kind, study, who, method, path, sent, kind == "submit", details)
        self._count += 1
        return made
