"""What clients do while they are killed: asks, and every act that `everhold.acts.ACTS` has, made from its parameters.

A deed is a function of its client and its number, so that whoever comes after a kill can do the same one again, under the
same request id. A new act is done here without a change of this file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

import everhold as eh
from everhold.acts import ACTS, AnyAct, do, to_result
from everhold.statistics.parameters import Parameter, parameters

PLAIN = ("ask", "ask_many", "ask_statistic")
"""Deeds that are made of asks."""


def rows(size: int, seed: int, smokers: float) -> dict[str, np.ndarray]:
    """A small table."""
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size).astype(float), "smoker": rng.random(size) < smokers}


PRIVATE = rows(400, 0, 0.45)
PUBLIC = rows(300, 1, 0.20)


def question(client: int, i: int, place: int = 0) -> str:
    """A question of the i-th deed of a client; some are asked by several, under ids of their own."""
    if (i + place) % 5 == 4:
        return f"age > {30 + (i + place) % 40}"
    least = 18 + (7 * i + 13 * client + 29 * place) % 70
    return f"age > {least} AND {'NOT ' if (i + place) % 2 else ''}smoker AND age <> {1000 * client + 100 * place + i}"


def statistic(client: int, i: int, place: int = 0) -> eh.Mean:
    """A statistic in place of a question."""
    return eh.Mean("age", given=f"age > {18 + (5 * i + 11 * client + 17 * place) % 50}")


def _argument(field: Parameter, client: int, i: int, place: int, earlier: int) -> Any:
    """What a parameter is given, by how it is written."""
    variant = (i // len(ACTS) + i) % 3  # so that no kind of deed always has the same
    make = statistic if variant == 2 else question
    if field.form == "question":
        return make(client, i, place)
    if field.form == "questions":
        return [question(client, i, 1), statistic(client, i, 2), question(client, i, 3)][
            : max(field.role.least, 1) + variant
        ]
    if field.form == "round":
        return earlier
    raise AssertionError(f"no deed knows how to fill in {field.name!r}, a parameter of the form {field.form!r}")


def act_of(kind: str, client: int, i: int, *, earlier: int = 1) -> AnyAct:
    """An act with what it needs. `earlier`: a round, for acts about one."""
    needed = [field for field in parameters(ACTS[kind]) if field.required]
    given = {field.name: _argument(field, client, i, place, earlier) for place, field in enumerate(needed)}
    made: AnyAct = ACTS[kind](**given)
    return made


def is_about_a_round(kind: str) -> bool:
    """Whether an act is about an earlier round, and reads no private row."""
    return any(field.form == "round" for field in parameters(ACTS[kind]))


def _is_last(kind: str) -> bool:
    """Whether nothing can be asked after it, as a small holdout shows."""
    held = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=5)
    do(act_of(kind, 0, 0, earlier=held.ask("age > 40").round), held)
    try:
        held.ask("age > 50")
    except eh.HoldoutClosed:
        return True
    return False


LAST = tuple(kind for kind in ACTS if _is_last(kind))
"""Acts after which nothing can be asked."""
KINDS = (*PLAIN, *(kind for kind in ACTS if kind not in LAST))
"""Every deed that others can follow."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that a client does.

    Attributes:
        client: whose.
        number: which of the client's deeds.
        kind: one of `KINDS` or of `LAST`.
    """

    client: int
    number: int
    kind: str

    @property
    def request(self) -> str:
        """Its request id."""
        return f"{self.kind}-{self.client}.{self.number}"

    def do(self, study: Any, **more: Any) -> dict[str, Any]:
        """Do it, with a `Holdout` or a study behind a server; what was returned, as JSON."""
        client, i, request = self.client, self.number, self.request
        if self.kind == "ask":
            found = study.ask(question(client, i), request_id=request, **more)
        elif self.kind == "ask_many":
            found = study.ask_many([question(client, i, place) for place in range(4)], request_id=request, **more)
        elif self.kind == "ask_statistic":
            found = study.ask(statistic(client, i), request_id=request, **more)
        else:
            earlier = 0
            if is_about_a_round(self.kind):  # something asked just before
                foreseen = f"age > {20 + (7 * i + 13 * client) % 60} AND age <> {1000 * client + i}"
                earlier = study.ask(foreseen, request_id=f"{request}-asked", **more).round
            found = do(act_of(self.kind, client, i, earlier=earlier), study, request_id=request, **more)
        returned: dict[str, Any] = json.loads(json.dumps(to_result(found)))
        return returned


def deed(client: int, number: int) -> Deed:
    """The deed of a client with this number: all kinds in turn, and clients not in step."""
    return Deed(client, number, KINDS[(number + 4 * client) % len(KINDS)])
