"""Facts of a study: public numbers, and the sampling error at the price so far."""

from __future__ import annotations

import json
from math import sqrt

import pytest

from everhold.report.facts import study_facts
from tests.report.studies import small_study


def test_facts_are_those_of_the_record(tmp_path):
    file = small_study(tmp_path, confidence=0.9)
    facts = study_facts(
        file.first_record, rounds=len(file.rounds), surprises=file.surprises, price=file.price, head=str(file.head)
    )
    assert facts["rows"] == 4_000
    assert facts["confidence"] == 0.9
    assert facts["rounds"] == len(file.rounds)
    assert facts["surprises"] == file.surprises > 0
    assert facts["head"] == str(file.head)
    assert facts["created"] == file.first_record.created
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize("price", [1.0, 12.5, 400.0])
def test_the_sampling_error_is_hoeffding_s_at_the_price(tmp_path, price):
    """A share of n draws is off by more than sqrt(nats/2n) with probability at most 2 exp(-nats)."""
    study = small_study(tmp_path).first_record
    facts = study_facts(study, rounds=5, surprises=1, price=price, head="head")
    assert facts["sampling_half_width"] == pytest.approx(sqrt(price / 8_000))
    later = study_facts(study, rounds=5, surprises=1, price=price + 1.0, head="head")
    assert later["sampling_half_width"] > facts["sampling_half_width"]
