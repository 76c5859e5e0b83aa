"""The tree of errors is the one that its docstring draws, and what is used up has one class."""

from __future__ import annotations

import inspect
import re

import pytest
import typer

import everhold as eh
import everhold.errors
from everhold.cli.app import guarded


def drawn() -> dict[str, str]:
    """Every error of the docstring's tree with its parent."""
    parents: dict[str, str] = {}
    path = ["EverholdError"]
    for line in (everhold.errors.__doc__ or "").splitlines():
        if found := re.match(r"((?:│   |    )*)[├└]── (\w+)", line):
            depth = len(found[1]) // 4
            path = [*path[: depth + 1], found[2]]
            parents[found[2]] = path[depth]
    return parents


def test_the_tree_is_as_it_is_drawn():
    kinds = {
        name: kind
        for name, kind in vars(everhold.errors).items()
        if inspect.isclass(kind) and issubclass(kind, eh.EverholdError) and kind is not eh.EverholdError
    }
    assert len(kinds) > 15
    assert drawn() == {name: kind.__bases__[0].__name__ for name, kind in kinds.items()}


def _refusals():
    numbers = {"asked": 0.1, "left": 0.0, "needed": 0.1, "more_rows": None}
    return [eh.PrecisionExhausted("used up", **numbers), eh.PrivacyUsedUp("used up", **numbers), eh.GateUsedUp("used up")]


@pytest.mark.parametrize("refusal", _refusals(), ids=lambda one: type(one).__name__)
def test_what_is_used_up_has_one_class_and_one_exit_code(refusal):
    @guarded
    def command():
        raise refusal

    assert isinstance(refusal, eh.BudgetUsedUp)
    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 6


@pytest.mark.parametrize("other", [eh.HoldoutClosed("closed"), eh.LedgerBusy("busy"), eh.SettingError("no")])
def test_the_control_is_something_else(other):
    assert not isinstance(other, eh.BudgetUsedUp)


def test_a_gate_and_a_holdout_raise_it(tmp_path):
    rows = {"x": list(range(2_000))}
    held = eh.Holdout(rows, prior=eh.Reference(rows), half_width=0.12, seed=0, overlap="allow")
    held.read_many([f"x > {number}" for number in range(1_500)])
    with pytest.raises(eh.BudgetUsedUp):
        held.ask("x > 3.5")
    old = {f"case-{k}": k % 2 for k in range(100)}
    gate = eh.Gate.create(tmp_path / "g.everhold", old)
    gate.finish()
    with pytest.raises(eh.BudgetUsedUp):
        gate.check(old)
