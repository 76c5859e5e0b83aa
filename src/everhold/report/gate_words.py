"""What a gate promises, in the words of a certificate: read off the contract that its first record begins with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from everhold.bounds.gain import SCORE_ONE
from everhold.errors import LedgerError
from everhold.results import counted

if TYPE_CHECKING:
    from everhold.ledger.first_record import FirstRecord
    from everhold.ledger.reader import StudyFile

__all__ = ["gate_assumptions", "gate_guarantee", "gate_work", "is_gate"]

_CONTRACT = re.compile(
    r"a gate: [\d,]+ sealed and [\d,]+ visible cases, (?:pass or fail|scores), better(?: by more than (?P<by>\d+)/\d+)?, "
    r"(?P<certified>every promotion|the final gain) certified"
)


def is_gate(first: FirstRecord) -> bool:
    """Whether a study is a gate's, as its first record says."""
    return first.kind == "gate"


def gate_guarantee(first: FirstRecord) -> str:
    """What a gate's study guarantees, in a sentence."""
    if (contract := _CONTRACT.match(first.prior)) is None:
        raise LedgerError("the gate's contract in its first record is not readable.")
    margin = f" by more than {int(contract['by']) / SCORE_ONE:.4g}" if contract["by"] else ""
    gain = "the total gain that the last act prints is no larger than the true one"
    what = gain
    if contract["certified"] == "every promotion":
        better = f"every promoted candidate is better{margin} than the incumbent that it replaced"
        what = f"{better} and {gain}, all at the same time"
    return (
        f"With probability {first.settings['confidence']:g} over the {first.rows:,} sealed cases, drawn independently from "
        f"the population, {what}, however candidates were found."
    )


def gate_assumptions(first: FirstRecord) -> list[str]:
    """What that rests on, in plain words."""
    return [
        f"The {first.rows:,} sealed cases were drawn independently from the population that the verdicts are about.",
        "Nobody who made a candidate had seen outcomes of these cases, other than the verdicts of this gate.",
        "The outcomes are those of the candidates, and each case was judged in the same way for all of them.",
        "What other gates with these cases disclosed, if there are any, is not counted here.",
        "The outcomes and the program that read them were not tampered with. Nobody can see that in a certificate.",
    ]


def gate_work(file: StudyFile) -> str:
    """What a gate did, in words: '5 checks with 1 promotion'."""
    results = [act.result for act in file.acts if act.act == "check"]
    promotions = sum(result is not None and bool(result.get("promoted")) for result in results)
    return f"{counted(len(results), 'check')} with {counted(promotions, 'promotion')}"
