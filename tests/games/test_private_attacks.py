"""Attacks on the private mechanism: no better than chance; the same attacks succeed where no privacy is promised."""

from __future__ import annotations

from math import e

import pytest
from scipy.stats import binom

from everhold.bounds.privacy import Privacy
from everhold.errors import SettingError
from everhold.games.mechanisms.own import private
from everhold.games.membership import MembershipRisk, membership, most_found
from everhold.games.search import search_attack
from everhold.games.singling_out import single_out

ROWS, FALSE_ALARM = 200, 1e-4


def at_most(games, chance):
    """The number of successes that a mechanism at its bound exceeds with probability at most the false-alarm rate."""
    return int(binom.ppf(1.0 - FALSE_ALARM, games, chance))


def small_budget(terms):
    """ε = 3 with six surprises, so that rides are long."""
    return private(terms, Privacy(3.0, 1e-9, 6))


def test_riding_singles_nobody_out_of_a_private_study_and_everybody_out_of_a_plain_one():
    bound = e / ROWS + ROWS * 1e-9  # theorem 4 at a weight of 1/n²
    found = single_out("everhold, private", attack="riding", games=30, rows=ROWS)
    assert found.main.successes <= at_most(30, bound)
    assert found.questions > 20
    control = single_out("everhold", attack="riding", games=4, rows=ROWS)
    assert control.main.successes == 4


def test_a_chain_of_counts_singles_nobody_out():
    found = single_out("everhold, private", attack="composition", games=60, rows=ROWS)
    assert found.main.successes <= at_most(60, e / ROWS)
    control = single_out("empirical mean", attack="composition", games=20, rows=ROWS)
    assert control.main.successes >= 18


def test_riding_with_a_decoy_finds_members_of_a_plain_study_and_not_of_a_private_one():
    control = membership("everhold", games=24, rows=ROWS)
    assert control.auc > 0.9
    assert control.found > 0.8
    for mechanism in ("everhold, private", small_budget):
        found = membership(mechanism, games=60, rows=ROWS)
        assert found.at_chance, found.auc  # four standard errors: a false alarm of 6e-5
        assert found.questions > 50
    assert most_found(1.0, 1e-9, 0.1) == pytest.approx(0.1 * e, rel=1e-6)
    assert most_found(9.0, 0.0, 0.5) <= 1.0


def test_a_search_finds_an_attack_on_a_plain_study_and_none_on_a_private_one():
    """Plain: one that reads. Four standard errors are a false alarm of 6e-5."""
    common = {"population": 6, "generations": 3, "games": 32, "fresh_games": 160}
    control = search_attack("everhold", **common)
    assert control.fresh.auc > 0.5 + 4 * control.fresh.error
    assert any(control.reads)
    found = search_attack("everhold, private", **common)
    assert found.fresh.at_chance, found.fresh.auc
    assert any(found.reads)
    assert found.tried == 6 + 3 * 3
    assert len(found.questions) == 6


def test_the_area_by_hand():
    risk = MembershipRisk("x", (1.0, 2.0), (0.0, 1.0), 3.0)
    assert risk.auc == pytest.approx(0.875)  # three of four pairs, and one tie
    assert risk.found == 0.5


@pytest.mark.parametrize("wrong", [{"games": 2}, {"rows": 3}, {"rides": 0}])
def test_too_small_games_are_refused(wrong):
    with pytest.raises(SettingError):
        membership("everhold", **wrong)
    with pytest.raises(SettingError):
        search_attack("everhold", **({"games": 2} if "games" in wrong else {"rows": 3}))
