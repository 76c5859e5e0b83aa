"""Sample sizes in both directions, the paper's numbers, the baselines' numbers, and the plan."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import everhold as eh
from everhold.bounds import baselines, paper, sample_size, surprises
from everhold.bounds.code import Code, automatic_price, beyond_nats
from everhold.errors import SettingError
from everhold.mechanism.tolerance import Anytime

POINT = {"rounds": 1e6, "failure_probability": 0.05}


def test_the_table_of_sample_sizes():
    """ε = 0.2 on the [-1, 1] scale, δ = 0.05, λ = 1/2, T = 10⁶: every number of the documentation's table."""
    assert paper.rows_needed(0.2, density=0.5, constants="printed", **POINT) == 157_955_711
    assert paper.rows_needed(0.2, density=0.5, constants="corrected", **POINT) == 719_036_494
    assert sample_size.rows_needed(0.2, density=0.5, **POINT) == 996_863
    assert sample_size.rows_needed(0.2, density=0.5, rule="entropic", **POINT) == 1_340_691
    assert baselines.gaussian_rows(0.2, **POINT) == pytest.approx(6.84e6, rel=1e-2)
    assert baselines.gaussian_rows(0.2, transfer="rogers", **POINT) == pytest.approx(7.65e6, rel=1e-2)
    assert baselines.splitting_rows(0.2, **POINT) == 876_000_000
    assert baselines.non_adaptive_rows(0.2, **POINT) == 876
    assert sample_size.rows_with_surprises(0.2, surprises=8, **POINT) == 21_633


def test_the_papers_formulas_by_mpmath():
    with mpmath.workdps(40):
        eps, lam, t, delta = mpmath.mpf("0.2"), mpmath.mpf("0.5"), mpmath.mpf(10) ** 6, mpmath.mpf("0.05")
        printed = 4096 / (lam**2 * eps**4) * mpmath.log(t / eps) + 32 / eps**2 * mpmath.log(10 / delta)
        k = 12800
        corrected = 128 / eps**2 * (k * mpmath.log(1 + t * (8 / eps + 2)) + mpmath.log(4 * t / delta))
    assert paper.rows_needed(0.2, density=0.5, constants="printed", **POINT) == math.ceil(printed)
    assert paper.rows_needed(0.2, density=0.5, **POINT) == math.ceil(corrected)


def test_the_leading_term_of_the_correction_is_four_times_the_printed_one():
    for t in (1e9, 1e15):
        ratio = paper.rows_needed(0.1, density=0.5, rounds=t, failure_probability=0.05) / paper.rows_needed(
            0.1, density=0.5, rounds=t, failure_probability=0.05, constants="printed"
        )
        assert 4.0 < ratio < 5.5


def test_estimator_draws():
    common = {"accuracy": 0.2, "density": 0.5, "rounds": 1000, "failure_probability": 0.05}
    assert paper.estimator_draws(0, **common) == 0
    assert paper.estimator_draws(100, **common) == math.ceil(5000 * math.log(4000 / 0.05))
    # Hoeffding: |y| ≤ |G| λε/16, error λε/8, failure δ/2T.
    bound, error = 100 * 0.1 / 16, 0.1 / 8
    assert 2 * math.exp(-paper.estimator_draws(100, **common) * error**2 / (2 * bound**2)) <= 0.05 / 2000
    assert paper.estimator_draws(100, **common, constants="printed") > 10**10


def test_the_papers_own_algebra_gives_fewer_updates():
    """Erratum 7: 51.2/(λε²), from 1/4 - 1/32 - 1/16 = 5/32 and a squared norm of at most λ."""
    assert 0.25 - 1 / 32 - 1 / 16 == 5 / 32
    assert paper.updates_at_most(0.2, 0.5) == 2560
    for accuracy, density in ((0.1, 0.5), (0.3, 0.1), (1.0, 1.0)):
        assert paper.updates_at_most(accuracy, density) <= paper.update_cap(accuracy, density)
        # (ε λ/4) K - λε K/16 ≤ λ/(2α) + α K/2 with α = λε/16 bounds K by exactly this.
        k, alpha = 51.2 / (density * accuracy**2), density * accuracy / 16
        assert density * accuracy * k * (1 / 4 - 1 / 16) == pytest.approx(density / (2 * alpha) + alpha * k / 2)


def test_singling_out_bound():
    assert paper.singling_out_ln(3.0, 1000, 1e-9) == pytest.approx(3.0 + math.log(1e-6))
    assert paper.singling_out_ln(100.0, 10_000, 1e-9) > 0.0, "vacuous at real prices, as the errata say"


def after(surprising, asks, horizon=None):
    """The code after so many asks, some of them surprises in the nearest cell."""
    code = Code(horizon)
    for t in range(1, asks + 1):
        code = code.surprised(beyond_nats(1, 10**9, 10**9)) if t in surprising else code.quiet()
    return code


@pytest.mark.parametrize("surprising", [[], [1, 2, 3], [10, 500, 900], list(range(1, 1000, 20))])
@pytest.mark.parametrize("declared", [False, True])
def test_no_session_costs_more_than_the_worst_case(surprising, declared):
    code = after(surprising, 999, 1000 if declared else None)
    worst = sample_size.worst_nats(1000, len(surprising), 0.05, declared=declared)
    assert automatic_price(0.05, code) <= worst + 1e-5
    assert worst <= automatic_price(0.05, code) + 60, "not far from what really happens"


def test_no_pattern_of_a_short_session_costs_more_than_the_worst_case():
    """Exhaustive: every set of surprising asks before ask t ≤ 11, and no later ask of fewer surprises is cheaper."""
    for t in range(1, 12):
        for pattern in range(2 ** (t - 1)):
            code = after({s for s in range(1, t) if pattern >> (s - 1) & 1}, t - 1)
            price = automatic_price(0.05, code)
            assert price <= sample_size.worst_nats(t, pattern.bit_count(), 0.05) + 1e-5
            assert price <= sample_size.worst_nats(12, pattern.bit_count(), 0.05) + 1e-5


def test_nearest_cell_is_the_worst():
    """With cells of half a tolerance a surprise j cells out uses up (1 + (j-1)Δ/γ)² of χ² for at most ln(4j(j+1)) nats."""
    for gap_share in (0.05, 0.3, 0.667, 0.999):  # γ/τ
        for j in range(2, 2000):
            used = math.floor((1.0 + (j - 1) * 0.5 / gap_share) ** 2)
            assert math.log(4 * j * (j + 1)) / math.log(8.0) <= used
            assert beyond_nats(j, 3000, 3000) <= math.log(4 * j * (j + 1)) + 1e-12
            assert beyond_nats(j, 3000, 0) <= math.log(4 * j * (j + 1)) + 1e-12


def test_the_noise_is_that_of_the_mechanism():
    for ask in (1, 5, 100, 10**4, 10**6):
        for declared in (None, 1, 40, 10**5):
            assert sample_size.deviations_of(ask, declared) == Anytime().deviations_at(ask, declared)


@pytest.mark.parametrize("rule", ["gradient", "corrective", "entropic"])
@pytest.mark.parametrize("rows", [1e4, 1e6, 1e8])
def test_rows_and_precision_are_inverse(rule, rows):
    width = sample_size.precision_reached(rows, rounds=1e4, density=0.5, rule=rule)
    assert sample_size.rows_needed(width, rounds=1e4, density=0.5, rule=rule) <= rows
    if width < 2.0:
        assert sample_size.rows_needed(width * 0.998, rounds=1e4, density=0.5, rule=rule) > rows


def test_monotone_in_every_parameter():
    def rows(**change):
        given = {"half_width": 0.2, "rounds": 1e4, "density": 0.5, "failure_probability": 0.05} | change
        return sample_size.rows_needed(given.pop("half_width"), **given)

    base = rows()
    assert rows(half_width=0.19) > base
    assert rows(rounds=1e5) > base
    assert rows(density=0.4) > base
    assert rows(failure_probability=0.01) > base


def test_surprise_bounds():
    assert surprises.chi_square_at_most(1.0) == 0.0
    assert surprises.gradient_surprises(1.0, 0.0) == math.inf
    assert surprises.gradient_surprises(1.0, -0.1) == math.inf
    assert surprises.corrective_surprises(1.0, 0.1, variance=0.25) == 25
    # The entropic bound wins exactly where 2 ln(1/λ) < 1/λ - 1.
    crossing = mpmath.findroot(lambda x: 2 * mpmath.log(1 / x) - 1 / x + 1, 0.28)
    assert float(crossing) == pytest.approx(0.2847, abs=1e-4)


@pytest.mark.parametrize("n", [1e3, 1e5, 1e7])
@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (baselines.non_adaptive_width, baselines.non_adaptive_rows),
        (baselines.splitting_width, baselines.splitting_rows),
        (baselines.gaussian_width, baselines.gaussian_rows),
    ],
)
def test_baselines_rows_and_width_are_inverse(n, width, rows):
    reached = width(n, rounds=100)
    if reached <= 2.0:
        needed = rows(reached * (1 + 1e-9), rounds=100)
        assert needed <= n * 1.001
        assert width(needed, rounds=100) <= reached * 1.001


def test_widths_of_gaussian_noise_by_both_transfer_theorems():
    """An independent optimisation of the same theorems gave these half-widths on the share scale."""
    for n, t, jung, rogers, splitting in [
        (50_000, 1_000, 0.191, 0.200, 0.326),
        (500_000, 10_000, 0.111, 0.116, 0.359),
        (500_000, 50_000, 0.169, 0.177, 0.852),
    ]:
        assert baselines.gaussian_width(n, rounds=t) / 2 == pytest.approx(jung, abs=6e-4)
        assert baselines.gaussian_width(n, rounds=t, transfer="rogers") / 2 == pytest.approx(rogers, abs=6e-4)
        assert baselines.splitting_width(n, rounds=t) / 2 == pytest.approx(splitting, abs=6e-4)


@pytest.mark.parametrize(
    ("rows", "splitting", "gaussian"),
    [(10_000, 40, 6), (50_000, 156, 234), (100_000, 288, 935), (1_000_000, 2_227, 77_836)],
)
def test_the_columns_of_rogers_and_others(rows, splitting, gaussian):
    """Questions at ±0.1 (share scale), β = 0.05, as the program of Rogers et al. (2020) counts them: equal, not near."""
    assert splitting == baselines.questions_answered(
        lambda t: baselines.splitting_width(rows, rounds=t, accounting="fair coin"), 0.2
    )
    assert gaussian == baselines.questions_answered(
        lambda t: baselines.gaussian_width(rows, rounds=t, transfer="rogers code"), 0.2
    )


def test_half_of_the_noise_is_not_what_gaussians_stay_below():
    """Why 'rogers code' is no guarantee: 1,000 Gaussians exceed the allowance it makes for them nearly always (β = 0.05)."""
    rng = np.random.default_rng(0)
    n, t, rho = 10_000.0, 1_000, 1e-6
    deviation = 1.0 / (n * math.sqrt(2.0 * rho))
    allowance = math.sqrt(math.log(4.0 * t / 0.05) / rho) / n
    largest = np.abs(rng.normal(0.0, deviation, (400, t))).max(axis=1)
    assert np.mean(largest > allowance) <= 0.05
    assert np.mean(largest > 0.5 * allowance) > 0.9


def test_questions_answered_is_the_last_that_fits():
    assert baselines.questions_answered(lambda t: float(t), 5.5) == 5
    assert baselines.questions_answered(lambda t: float(t), 0.5) == 0
    assert baselines.questions_answered(lambda t: 0.0, 0.5, most=1000) >= 1000


def test_thresholdout_and_multiplicative_weights():
    rows = baselines.thresholdout_rows(0.2, rounds=1000, budget=5)
    assert baselines.thresholdout_width(rows, rounds=1000, budget=5) == pytest.approx(0.2, rel=1e-3)
    assert baselines.thresholdout_rows(0.2, rounds=1000, budget=10) > rows
    few = baselines.multiplicative_weights_rows(0.4, rounds=1000, domain_bits=10)
    assert baselines.multiplicative_weights_width(few, rounds=1000, domain_bits=10) <= 0.4 * 1.001
    assert baselines.multiplicative_weights_rows(0.4, rounds=1000, domain_bits=20) > few


@pytest.mark.parametrize(
    ("width", "rounds", "budget", "delta"), [(0.2, 1e6, 10, 0.05), (0.05, 100, 1, 0.01), (1.0, 1e4, 50, 0.2)]
)
def test_thresholdout_by_mpmath(width, rounds, budget, delta):
    """The published condition in forty digits; the second case is decided by its other term."""
    with mpmath.workdps(40):
        tau, m, beta = mpmath.mpf(width) / 2, mpmath.mpf(rounds), mpmath.mpf(delta)
        sigma = tau / (96 * mpmath.log(4 * m / beta))
        inner = tau / 8
        exact = max(2 * budget / (sigma * inner), mpmath.log(6 / (beta / (2 * m))) / inner**2)
    got = baselines.thresholdout_rows(width, rounds=rounds, budget=budget, failure_probability=delta)
    assert 0 <= got - exact <= 1 + 1e-9 * float(exact)


def test_multiplicative_weights_sample_error_solves_its_own_equation():
    """a = (2 + 32√2) sqrt(L ln(2/δ)) (ln T + ln(32 L/(a²β)))/(ε n a), from above, by mpmath."""
    n, t, bits, eps, delta, beta = 1e8, 1e4, 12, 0.05, 1e-6, 1e-4
    with mpmath.workdps(40):
        size = bits * mpmath.log(2)

        def needed(a):
            head = (2 + 32 * mpmath.sqrt(2)) * mpmath.sqrt(size * mpmath.log(2 / mpmath.mpf(delta)))
            return head * (mpmath.log(t) + mpmath.log(32 * size / (a**2 * beta))) / (eps * n * a)

        got = mpmath.mpf(baselines._multiplicative_weights_sample_error(n, t, float(size), eps, delta, beta))
        assert needed(got) <= got * (1 + mpmath.mpf("1e-12"))
        assert needed(got * mpmath.mpf("0.999")) > got * mpmath.mpf("0.999")


def test_gaussian_delta_is_that_of_a_simulated_privacy_loss():
    """δ(ε) = E[(1 - e^{ε-L})⁺] for the Gaussian privacy loss L ~ N(μ²/2, μ²), integrated numerically."""
    for mu, eps in [(0.5, 0.3), (1.0, 1.0), (0.1, 0.25)]:
        with mpmath.workdps(30):
            exact = mpmath.quad(
                lambda x, mu=mu, eps=eps: mpmath.npdf(x, mu**2 / 2, mu) * (1 - mpmath.exp(eps - x)),
                [eps, eps + 4 * mu, eps + 12 * mu],
            )
        value = baselines._gaussian_delta(eps, mu)
        assert float(exact) <= value <= float(exact) * (1 + 1e-5) + 1e-200


class TestPlan:
    def test_lists_everything_and_marks_the_recommendation(self):
        plan = eh.plan(rows=100_000, half_width=0.05, rounds=1e6, domain_bits=20)
        names = {option.mechanism for option in plan.options}
        assert {"everhold", "everhold, worst case", "Gaussian noise", "Thresholdout", "sample splitting"} <= names
        assert {"multiplicative weights", "AQA-OGD, corrected", "AQA-OGD, as printed", "non-adaptive limit"} <= names
        assert f"→ {plan.recommended}" in str(plan)
        assert plan.recommended in plan._repr_html_()

    def test_recommends_another_mechanism_where_it_is_better(self):
        assert eh.plan(rows=10_000, rounds=3).recommended == "sample splitting"

    def test_says_when_nothing_helps(self):
        plan = eh.plan(rows=50, rounds=1e6)
        assert plan.recommended == "more rows"

    def test_never_recommends_what_is_not_proved(self):
        for rows in (1e3, 1e5, 1e8, 1e10):
            for rounds in (1, 10, 1e4, 1e8):
                assert eh.plan(rows=rows, rounds=rounds).recommended not in (
                    "AQA-OGD, as printed",
                    "non-adaptive limit",
                )

    def test_either_direction_alone(self):
        assert eh.plan(rows=1e5, rounds=100)["everhold"].rows_needed is None
        assert eh.plan(half_width=0.05, rounds=100)["everhold"].half_width is None

    @pytest.mark.parametrize(
        "wrong",
        [
            {},
            {"rows": 0},
            {"rows": 10, "confidence": 1.0},
            {"half_width": 0.0},
            {"half_width": 1.5},
            {"rows": 10, "surprises": 0},
            {"rows": 10, "density": 0.0},
            {"rows": 10, "domain_bits": 0},
        ],
    )
    def test_nonsense_is_refused(self, wrong):
        with pytest.raises(SettingError):
            eh.plan(rounds=100, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: paper.rows_needed(0.0, density=0.5, **POINT),
        lambda: paper.rows_needed(0.2, density=1.5, **POINT),
        lambda: paper.rows_needed(0.2, density=0.5, rounds=1e6, failure_probability=0.0),
        lambda: paper.rows_needed(0.2, density=0.5, constants="guessed", **POINT),
        lambda: sample_size.rows_needed(0.2, rounds=0.5, density=0.5),
        lambda: sample_size.rows_needed(0.2, rounds=10, density=0.5, rule="newton"),
        lambda: surprises.chi_square_at_most(0.0),
        lambda: baselines.gaussian_width(100, rounds=10, transfer="hope"),
        lambda: baselines.thresholdout_rows(0.2, rounds=10, budget=0),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
