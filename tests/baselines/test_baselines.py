"""What is particular to each baseline; what they share is in the contract suite."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import everhold as eh
from everhold.baselines import (
    BaselineMechanism,
    BaselineProposal,
    Empirical,
    GaussianNoise,
    GuessAndCheck,
    Ladder,
    MultiplicativeWeights,
    Splitting,
    Subsampling,
    Thresholdout,
)
from everhold.bounds import baselines
from everhold.bounds.concentration import kl_interval
from everhold.games import play
from everhold.games.mechanisms.baselines import baseline_session
from everhold.games.worlds.made import labelled, noise
from everhold.queries.grid import Sums


def held(policy, share=0.3, rows=4000, public=4000, public_share=0.5):
    private = {"x": np.arange(rows) < share * rows}
    reference = eh.Reference({"x": np.arange(public) < public_share * public}).pool(np.random.default_rng(0))
    return eh.Holdout.with_mechanism(private, lambda n: BaselineMechanism(policy, rows=n, public=reference))


def yes(rows):
    return rows["x"]


class TestExact:
    def test_the_mean_itself(self):
        assert held(Empirical()).ask(yes).value == pytest.approx(0.3, abs=1e-12)

    def test_every_answer_costs_the_logarithm_of_its_values(self):
        mine = held(Empirical())
        first, second = mine.ask(yes), mine.ask(yes)
        assert second.price - first.price == pytest.approx(math.log(4001) + math.log(3), abs=1e-6)
        assert second.interval.half_width > first.interval.half_width

    def test_rounded_answers_cost_less_and_say_less(self):
        mine = held(Empirical(step=0.25))
        first, second = mine.ask(yes), mine.ask(yes)
        assert first.value == 0.25
        assert second.price - first.price == pytest.approx(math.log(5) + math.log(3), abs=1e-6)

    def test_numbers_too(self):
        answer = held(Empirical()).ask(lambda rows: np.where(rows["x"], 0.5, -0.25))
        assert answer.scale == "mean"
        assert answer.value == pytest.approx(0.3 * 0.5 - 0.7 * 0.25, abs=1e-9)

    def test_subsampling_reads_other_rows_every_time(self):
        mine = held(Subsampling(size=200, seed=3))
        values = {mine.ask(yes).value for _ in range(20)}
        assert len(values) > 5
        assert abs(np.mean(list(values)) - 0.3) < 0.1


class TestSplitting:
    def test_each_question_has_its_own_rows(self):
        """Rows are sorted here, which must not matter; the ten shares together are all rows."""
        mine = held(Splitting(rounds=10))
        answers = [mine.ask(yes) for _ in range(10)]
        assert all(0.3 in answer.interval for answer in answers)
        assert sum(answer.value for answer in answers) == pytest.approx(3.0)
        assert len({answer.value for answer in answers}) > 1
        with pytest.raises(eh.PrecisionExhausted, match="divided among 10"):
            mine.ask(yes)

    def test_its_interval_is_never_wider_than_by_hoeffding(self):
        answer = held(Splitting(rounds=10), rows=40_000).ask(yes)
        assert answer.interval.half_width <= baselines.splitting_width(40_000, rounds=10) / 2 + 1e-6

    def test_text_and_values_are_read_by_part_too(self):
        """The same question in three forms, each of other rows."""
        policy = Splitting(rounds=4)
        mine = held(policy)
        x, reference = np.arange(4000) < 1200, np.zeros(4000, bool)
        told = [mine.ask("x"), mine.ask(eh.Values(sample=x, reference=reference)), mine.ask(yes)]
        for t, answer in enumerate(told, 1):
            part = policy.rows_read(t, mine.mechanism._context)
            assert len(part) == 1000
            assert answer.value == pytest.approx(np.mean(x[part]))
        with pytest.raises(eh.QuestionError):
            mine.ask(eh.Values(sample=np.full(4000, 7.0), reference=np.zeros(4000)))
        assert mine.rounds == 3


class TestGaussian:
    def test_noise_of_the_chosen_size(self):
        """400 answers: their spread within 20 % of what was chosen, a false alarm below 1e-7."""
        policy = GaussianNoise(rounds=400, seed=1)
        mine = held(policy, rows=2_000_000 // 100)
        told = np.array([mine.ask(yes).value for _ in range(400)])
        chosen = baselines.gaussian_noise(20_000, rounds=400).deviation / 2
        assert np.std(told) == pytest.approx(chosen, rel=0.2)
        with pytest.raises(eh.PrecisionExhausted, match="400 questions"):
            mine.ask(yes)

    def test_its_guarantee_is_the_theorem(self):
        answer = held(GaussianNoise(rounds=5), rows=400_000, public=10).ask(yes)
        width = baselines.gaussian_width(400_000, rounds=5) / 2
        assert answer.interval.half_width == pytest.approx(width, abs=1e-5)

    def test_other_noise_guarantees_nothing(self):
        assert held(GaussianNoise(rounds=5, deviation=0.01)).ask(yes).interval == eh.Interval(0.0, 1.0)


class TestThresholdout:
    def test_the_training_set_answers_while_it_agrees(self):
        mine = held(Thresholdout(threshold=0.05, deviation=1e-6), public_share=0.31)
        answer = mine.ask(yes)
        assert answer.value == pytest.approx(0.31)
        assert not answer.surprise

    def test_the_budget(self):
        mine = held(Thresholdout(threshold=0.05, deviation=1e-6, budget=3))
        for _ in range(3):
            assert mine.ask(yes).value == pytest.approx(0.3, abs=1e-4)
        with pytest.raises(eh.PrecisionExhausted, match="budget of 3"):
            mine.ask(yes)

    def test_proved_settings_are_those_of_the_theorem(self):
        policy = Thresholdout.proved(rows=5_000_000, rounds=1000, budget=10)
        tau = baselines.thresholdout_width(5_000_000, rounds=1000, budget=10) / 2
        assert policy.threshold == pytest.approx(0.75 * tau)
        assert policy.deviation == pytest.approx(tau / (96 * math.log(80_000)))
        assert policy.promise.half_width == pytest.approx(tau)
        answer = held(policy, rows=5_000_000, public=10).ask(yes)
        assert answer.interval.half_width == pytest.approx(tau, abs=1e-5)
        assert "10 questions" in policy.guarantee

    def test_a_proof_for_other_rows_is_no_proof(self):
        for policy in (
            Thresholdout.proved(rows=5_000, rounds=10, budget=3),
            MultiplicativeWeights.proved(rows=5_000, rounds=10, domain=4000),
        ):
            with pytest.raises(eh.SettingError, match="proved for 5,000 rows"):
                held(policy, rows=4_000)
        strict = Thresholdout.proved(rows=4_000, rounds=10, budget=3, failure_probability=0.1)
        with pytest.raises(eh.SettingError, match="δ = 0\\.1"):
            held(strict, rows=4_000)
        with pytest.raises(eh.SettingError, match="proved for 100 points"):
            held(MultiplicativeWeights.proved(rows=4_000, rounds=10, domain=100))


class TestLadder:
    def test_only_clear_improvements_move_it(self):
        mine = held(Ladder(step=0.05), rows=1000)
        losses = [0.5, 0.48, 0.42, 0.41, 0.30]
        told = [mine.ask(lambda r, c=c: np.arange(len(r["x"])) < c * len(r["x"])).value for c in losses]
        assert told == pytest.approx([0.5, 0.5, 0.4, 0.4, 0.3])
        assert mine.surprises == 3

    def test_numbers_are_no_losses(self):
        with pytest.raises(eh.QuestionError, match="losses"):
            held(Ladder()).ask(lambda rows: rows["x"] * 0.5)

    def test_the_published_board(self):
        """Blum and Hardt: plain 0.427, Ladder 0.484, truth 0.5, n = 4,000, 400 submissions. Four boards here; deviations of
        one board are about 0.007, so a mean further off than 0.015 has probability below 1e-4."""
        finals = {"plain": [], "ladder": []}
        for seed in range(4):
            world = noise(seed, atoms=2**14, features=1)
            for name, mechanism in (
                ("plain", "empirical mean"),
                ("ladder", lambda terms: baseline_session(terms, Ladder(step=4000**-0.5))),
            ):
                finals[name].append(play("ladder boosting", mechanism, world, 401, seed, rows=4000).answers[-1].value)
        assert np.mean(finals["plain"]) == pytest.approx(0.427, abs=0.015)
        assert np.mean(finals["ladder"]) == pytest.approx(0.484, abs=0.015)


class TestGuessAndCheck:
    def test_right_guesses_pass_and_wrong_ones_are_corrected(self):
        right = held(GuessAndCheck(half_width=0.1), public_share=0.3).ask(yes)
        wrong = held(GuessAndCheck(half_width=0.1)).ask(yes)
        assert not right.surprise
        assert wrong.surprise
        assert wrong.value == pytest.approx(0.3, abs=0.05)
        assert right.interval.half_width == pytest.approx(0.1, abs=1e-5)

    def test_a_guess_passes_when_both_ends_are_ruled_out(self):
        """Against the Chernoff interval itself, computed another way: quiet if and only if it lies inside the guess's."""
        policy = GuessAndCheck(half_width=0.1)
        context = held(policy, rows=900).mechanism._context
        memory = policy.begin(context)
        nats = policy.price(memory, 7, context)
        passed = 0
        for guess in (0.02, 0.2, 0.5, 0.71, 0.97):
            proposal = BaselineProposal(7, "share", Fraction(guess) * 2 - 1, memory, context, None, None, nats, 0.2)
            for yes_count in range(0, 901, 9):
                low, high = kl_interval(yes_count / 900, yes_count / 900, nats / 900)
                inside = (guess - 0.1 <= 0.0 or guess - 0.1 < low) and (guess + 0.1 >= 1.0 or guess + 0.1 > high)
                quiet = policy.decide(proposal, Fraction(2 * yes_count - 900, 900)) is None
                assert quiet == inside or min(abs(guess - 0.1 - low), abs(guess + 0.1 - high)) < 1e-8
                passed += quiet
        assert 5 <= passed <= 100

    def test_every_value_that_a_rounded_answer_can_have_is_charged(self):
        """Enumerated: all totals of 800 rows fall into as many cells as are paid for, at several prices."""
        policy = GuessAndCheck(half_width=0.2)
        context = held(policy, rows=800).mechanism._context
        memory = policy.begin(context)
        for t in range(1, 6):
            assert policy._step(memory, t, context) > 0
            proposal = BaselineProposal(
                t, "share", Fraction(1), memory, context, None, None, policy.price(memory, t, context), 0.2
            )
            cells = {policy.decide(proposal, Fraction(2 * yes - 800, 800)) for yes in range(760)}
            after = policy.learn(proposal, 3)
            assert len(cells - {None, -1}) <= round(math.exp(after.nats - memory.nats))
            memory = after

    def test_what_cannot_be_answered_ends_the_session(self):
        mine = held(GuessAndCheck(half_width=0.06), rows=800)
        answers = []
        while not answers or answers[-1].interval.half_width < 0.4:
            answers.append(mine.ask(yes))
        with pytest.raises(eh.PrecisionExhausted, match="failed guesses"):
            mine.ask(yes)
        assert answers[-1].interval == eh.Interval(0.0, 1.0)
        assert all(0.3 in answer.interval for answer in answers)

    def test_it_is_valid_against_attackers(self):
        """20 sessions at β = 0.05: more than 6 misses have probability below 1e-4."""
        missed = 0
        for seed in range(20):
            for analyst in ("surprise hunter", "freedman"):
                game = play(analyst, "Guess and Check, empirical", labelled(seed), 60, seed, rows=600)
                missed += game.missed > 0
        assert missed <= 6


class TestMultiplicativeWeights:
    @pytest.mark.parametrize("share", [0.3, 0.7])
    def test_it_learns(self, share):
        policy = MultiplicativeWeights(rounds=200, threshold=0.03, deviation=1e-4)
        mine = held(policy, share=share)
        answers = [mine.ask(yes) for _ in range(120)]
        assert answers[0].surprise
        assert not answers[-1].surprise
        assert answers[-1].value == pytest.approx(share, abs=0.04)

    def test_budget_and_rounds(self):
        policy = MultiplicativeWeights(rounds=200, threshold=0.03, deviation=1e-4, budget=2)
        mine = held(policy)
        mine.ask(yes)
        mine.ask(yes)
        with pytest.raises(eh.PrecisionExhausted, match="2 updates"):
            mine.ask(yes)

    def test_proved_settings_carry_the_published_width(self):
        policy = MultiplicativeWeights.proved(rows=10**9, rounds=1000, domain=4000)
        width = baselines.multiplicative_weights_width(10**9, rounds=1000, domain_bits=math.log2(4000))
        assert policy.promise.half_width == pytest.approx(width / 2)
        public = eh.Reference({"x": np.arange(4000) < 2000}).pool(None)
        mechanism = BaselineMechanism(policy, rows=10**9, public=public)
        proposal = mechanism.propose(eh.Values(reference=np.arange(4000) < 2000))
        total = 2**15 * (2 * 510_000_000 - 10**9)  # 51 % of a billion rows say yes
        answer = mechanism.answer(proposal, mechanism.decide(proposal, [Sums(total, 0)]))
        assert 0.51 in answer.interval
        assert answer.interval.half_width == pytest.approx(policy.promise.half_width, abs=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Empirical(step=0.9),
        lambda: Subsampling(size=0),
        lambda: held(Subsampling(size=10**6)),
        lambda: Splitting(rounds=0),
        lambda: GaussianNoise(rounds=0),
        lambda: Thresholdout(threshold=0.0),
        lambda: Thresholdout(shape="round"),
        lambda: Ladder(step=0.0),
        lambda: GuessAndCheck(half_width=1.5),
        lambda: GuessAndCheck(deviation=-1.0),
        lambda: MultiplicativeWeights(rounds=1, threshold=0.0, deviation=0.1),
        lambda: BaselineMechanism(Empirical(), rows=0, public=eh.Reference(3).pool(None)),
        lambda: BaselineMechanism(Empirical(), rows=3, public=eh.Reference(3).pool(None), failure_probability=1.0),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(eh.SettingError):
        wrong()


def test_previews_and_reprs():
    for policy in (Empirical(), Thresholdout(), GuessAndCheck(), Ladder(), Splitting(rounds=3)):
        mine = held(policy)
        preview = mine.try_out(yes)
        assert 0.0 <= preview.low <= preview.sketch <= preview.high <= 1.0 or policy.name == "Ladder"
        assert policy.name in repr(mine.mechanism)
        assert policy.guarantee
        assert mine.rounds == 0
