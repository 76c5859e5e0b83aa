"""A gate inside GEPA's own optimiser, with an adapter and proposals that need no language model."""

from __future__ import annotations

import pytest

import everhold as eh
from tests.adapters.systems import outcomes

gepa = pytest.importorskip("gepa", reason="GEPA is not installed: make test-adapters")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the host

CASES = 200
WORDS = ("check", "units", "then", "answer", "briefly")


class Prompts:
    """A system whose prompt is better for every good word in it. On public examples every added word looks good."""

    propose_new_texts = None

    def evaluate(self, batch, candidate, capture_traces=False):
        from gepa.core.adapter import EvaluationBatch

        score = min(1.0, len(candidate["prompt"].split()) / 20)
        return EvaluationBatch(
            outputs=list(batch), scores=[score] * len(batch), trajectories=list(batch) if capture_traces else None
        )

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        return {name: [{"feedback": "add a word"}] for name in components_to_update}


def proposing(words):
    """Adds the next word; what a reflecting model would do."""
    left = iter(words)
    return lambda candidate, dataset, components: {"prompt": f"{candidate['prompt']} {next(left, 'more')}"}


def sealed(candidate):
    return outcomes(0.3 + 0.12 * len({*candidate["prompt"].split()} & {*WORDS}), cases=CASES)


def optimised(gate, words, calls=60, **options):
    from everhold.adapters.gepa import PromotedByGate

    criterion = PromotedByGate(gate, sealed)
    result = gepa.optimize(
        seed_candidate={"prompt": "answer"},
        trainset=list(range(6)),
        valset=list(range(6)),
        adapter=Prompts(),
        custom_candidate_proposer=proposing(words),
        acceptance_criterion=criterion,
        stop_callbacks=[criterion],
        candidate_selection_strategy="current_best",
        reflection_minibatch_size=3,
        max_metric_calls=calls,
        logger=Silent(),
        **options,
    )
    return criterion, result


class Silent:
    def log(self, message):
        pass


def test_only_promoted_candidates_join_the_pool(tmp_path):
    gate = eh.Gate.create(tmp_path / "gate.everhold", sealed({"prompt": "answer"}))
    criterion, result = optimised(gate, ["check", "hello", "please", "units", "thanks", "briefly"])
    promoted = [found for found in criterion.results if found.promoted]
    assert 1 <= len(promoted) < len(criterion.results)  # words that help, and words that only look so
    assert len(result.candidates) == 1 + len(promoted)
    assert result.candidates[-1] == criterion.incumbent
    assert not {"hello", "please", "thanks"} & {*criterion.incumbent["prompt"].split()}
    assert gate.status().promotions == len(promoted)


def test_without_the_gate_every_word_is_accepted():
    """The control."""
    result = gepa.optimize(
        seed_candidate={"prompt": "answer"},
        trainset=list(range(6)),
        valset=list(range(6)),
        adapter=Prompts(),
        custom_candidate_proposer=proposing(["hello", "please", "thanks"]),
        candidate_selection_strategy="current_best",
        reflection_minibatch_size=3,
        max_metric_calls=45,
        logger=Silent(),
    )
    assert {"hello", "please", "thanks"} <= {*result.candidates[-1]["prompt"].split()}


def test_a_gate_that_is_used_up_ends_the_search(tmp_path):
    from everhold.adapters.gepa import PromotedByGate

    cases = {f"case-{k}": k % 2 for k in range(60)}
    gate = eh.Gate.create(tmp_path / "ended.everhold", cases)
    gate.finish()
    criterion = PromotedByGate(gate, lambda candidate: dict.fromkeys(cases, 1))
    result = gepa.optimize(
        seed_candidate={"prompt": "answer"},
        trainset=list(range(6)),
        valset=list(range(6)),
        adapter=Prompts(),
        custom_candidate_proposer=proposing(WORDS),
        acceptance_criterion=criterion,
        stop_callbacks=[criterion],
        reflection_minibatch_size=3,
        max_metric_calls=10_000,
        logger=Silent(),
    )
    assert criterion.used_up
    assert len(result.candidates) == 1
    assert result.total_metric_calls < 100
