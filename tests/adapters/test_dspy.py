"""A gate for programs of DSPy: real modules, its own dummy language model."""

from __future__ import annotations

import pytest

import everhold as eh
from tests.adapters.systems import outcomes

dspy = pytest.importorskip("dspy", reason="DSPy is not installed: make test-adapters")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the host

CASES = 60


def metric(example, prediction, trace=None):
    return float(prediction.answer == example.answer)


def examples():
    return [
        dspy.Example(id=case, question=f"What of {case}?", answer="yes").with_inputs("question")
        for case in outcomes(0, cases=CASES)
    ]


def program(quality, luck=0, broken=()):
    """A module whose language model answers so well."""
    passed = outcomes(quality, cases=CASES, luck=luck)
    lm = dspy.utils.DummyLM({f"What of {case}?": {"answer": "yes" if right else "no"} for case, right in passed.items()})

    class Asked(dspy.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question):
            if question.removeprefix("What of ").removesuffix("?") in broken:
                raise RuntimeError("the system crashed")
            return self.predict(question=question)

    made = Asked()
    made.set_lm(lm)
    return made


def test_outcomes_are_those_of_the_model():
    from everhold.adapters.dspy import program_outcomes

    found = program_outcomes(program(0.5, broken=("case-0", "case-1")), examples(), metric, threads=2)
    assert found == outcomes(0.5, cases=CASES) | {"case-0": 0.0, "case-1": 0.0}


def test_better_programs_are_promoted(tmp_path):
    from everhold.adapters.dspy import check_program, create_gate

    path = str(tmp_path / "gate.everhold")
    gate = create_gate(path, program(0.4), examples(), metric)
    assert not check_program(path, program(0.4, luck=8), examples(), metric, name="luck").promoted
    assert check_program(path, program(0.9), examples(), metric, name="compiled").promoted
    assert gate.status().incumbent == "compiled"


def test_a_compiled_program(tmp_path):
    """An optimiser of DSPy runs offline on public examples, and its result is checked on sealed ones."""
    from everhold.adapters.dspy import check_program, create_gate

    public = [dspy.Example(question=f"What of public {k}?", answer="yes").with_inputs("question") for k in range(4)]
    student = program(0.4)
    gate = create_gate(str(tmp_path / "gate.everhold"), student, examples(), metric)
    better = program(0.9)
    for one in public:
        better.predict.lm.answers = {**better.predict.lm.answers, one.question: {"answer": "yes"}}
    compiled = dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=2, max_labeled_demos=2).compile(
        better, trainset=public
    )
    assert compiled.predict.demos
    compiled.set_lm(better.predict.lm)  # which compiling forgets
    assert check_program(gate, compiled, examples(), metric).promoted


def test_examples_without_an_id_are_known_by_their_inputs():
    from everhold.adapters.dspy import program_outcomes

    some = [dspy.Example(question=f"What of case-{k}?", answer="yes").with_inputs("question") for k in range(3)]
    assert next(iter(program_outcomes(program(1.0), some, metric))) == "[('question', 'What of case-0?')]"
    with pytest.raises(eh.InvalidOutcomes, match="1 of 4 examples"):
        program_outcomes(program(1.0), [*some, some[0]], metric)
