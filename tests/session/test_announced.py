"""What an act announces is all that it asks: what its steps would ask next, after private answers, is not paid for."""

from __future__ import annotations

import numpy as np
import pytest

import everhold as eh
from everhold.queries.answer import Answer
from everhold.session.act_questions import one_batch

ANSWER = Answer(0.5, 0.4, 0.6, False, 1, 5.0, "share")


def people(size, seed, low):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(size) < low, 0.0, rng.uniform(0, 10, size))
    return {"x": x, "y": rng.permutation(x), "pair": np.arange(size) // 2 + seed * size}


def holdout(**more):
    """The public side has nearly all of its mass at the low end, where one step is enough; the private one has not."""
    private, public = people(20_000, 1, 0.2), people(20_000, 2, 0.9)
    schema = eh.Schema.propose(public, warn=False)
    for column in ("x", "y"):
        schema = schema.revised(column, missing=False)  # otherwise the public side needs several steps, too
    return eh.Holdout(private, prior=eh.Reference(public), schema=schema, seed=0, **more)


STEPWISE = [{"unit": "pair"}, {"half_width": 0.2}]


@pytest.mark.parametrize("more", STEPWISE, ids=["units", "a promise"])
def test_what_may_take_several_steps_is_refused_whatever_the_public_side_says(more):
    study = holdout(**more)
    x, y = eh.Median("x", low=0, high=10), eh.Median("y", low=0, high=10)
    for act in (lambda: study.compare(x, y), lambda: study.close([x])):
        with pytest.raises(eh.QuestionError, match="several steps"):
            act()
    assert study.rounds == 0
    assert not study.closed
    assert study.ask(x).seen  # the control: asked, it takes its steps


def test_in_one_round_they_are_compared_and_closed():
    study = holdout()
    x, y = eh.Median("x", low=0, high=10), eh.Median("y", low=0, high=10)
    assert study.compare(x, y).verdict == "cannot tell"
    assert len(study.close([x, y])) == 2


def test_a_second_or_a_larger_batch_is_not_answered():
    answers = one_batch(lambda batch: [ANSWER] * len(batch), 2)
    assert answers([None, None]) == [ANSWER, ANSWER]
    with pytest.raises(eh.QuestionError, match="announced"):
        answers([None])
    with pytest.raises(eh.QuestionError, match="announced"):
        one_batch(lambda batch: [ANSWER] * len(batch), 2)([None] * 3)
