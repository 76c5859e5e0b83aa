"""A gate for DSPy: is a compiled program better than the incumbent, on sealed examples?

    from everhold.adapters.dspy import check_program
    check_program("gate.everhold", compiled, sealed_examples, metric).promoted

The optimiser itself gets other examples: what it is led by is not sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import dspy

from everhold.adapters.opening import AnyGate, opened
from everhold.errors import InvalidOutcomes
from everhold.gate.gate import Gate

if TYPE_CHECKING:
    from everhold.gate.results import CheckResult

__all__ = ["check_program", "create_gate", "program_outcomes"]


def program_outcomes(
    program: Callable[..., Any], examples: Sequence[Any], metric: Callable[..., Any], *, threads: int = 1
) -> dict[str, float]:
    """The score of a program on every example. An example on which it raises an error counts as a failure.

    A case is known by the example's `id`, or by its inputs where it has none.
    """
    cases = [_case(example) for example in examples]
    if len(set(cases)) < len(cases):
        raise InvalidOutcomes(
            f"{len(cases) - len(set(cases)):,} of {len(cases):,} examples have the id, or the inputs, of another one. "
            "Expected different ones: give each an id. Nothing was charged."
        )
    evaluate = dspy.Evaluate(devset=list(examples), metric=metric, num_threads=threads, max_errors=len(cases) + 1)
    return {case: float(score) for case, (_, _, score) in zip(cases, evaluate(program).results, strict=True)}


def create_gate(
    path: str, program: Callable[..., Any], examples: Sequence[Any], metric: Callable[..., Any], **options: Any
) -> Gate:
    """A gate whose first incumbent is this program; options are those of `everhold.Gate.create`."""
    return Gate.create(path, program_outcomes(program, examples, metric), **options)


def check_program(
    gate: AnyGate,
    program: Callable[..., Any],
    examples: Sequence[Any],
    metric: Callable[..., Any],
    *,
    name: str | None = None,
    threads: int = 1,
) -> CheckResult:
    """Run a program on the sealed examples and check it at a gate.

    Args:
        gate: a gate, or its path.
        program: a `dspy.Module`.
        examples: the sealed ones, all that the gate was made with.
        metric: `metric(example, prediction)`, between 0 and 1.
        name: what the candidate is called.
        threads: how many examples run at the same time.
    """
    return opened(gate).check(program_outcomes(program, examples, metric, threads=threads), name=name)


def _case(example: Any) -> str:
    own_id = example.get("id", None)
    if own_id is not None:
        return str(own_id)
    return repr(sorted((name, str(value)) for name, value in example.inputs().items()))
