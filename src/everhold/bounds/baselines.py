"""The guarantees of other mechanisms, by their published theorems.

Half-widths are on the [-1, 1] scale everywhere in this module, as in the rest of `bounds`; the sources use [0, 1]-valued
queries, so their α is half of it. Each function says which theorem it evaluates. Free parameters of a theorem are searched;
every choice gives a valid bound, so an imperfect search is still valid.
Derivations: `docs/theory/baselines.md`. Sources: Dwork et al. 2015 (arXiv:1506.02629), Jung et al. 2020
(doi:10.4230/LIPIcs.ITCS.2020.31), Rogers et al. 2020 (PMLR 108:2830-2840), Dong, Roth and Su 2022 (arXiv:1905.02383), Hardt
and Rothblum 2010 (doi:10.1109/FOCS.2010.85), Dwork and Roth 2014 (doi:10.1561/0400000042).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, erfc, exp, expm1, inf, log, sqrt
from typing import TYPE_CHECKING, Literal, get_args

from scipy.special import bdtr, erfcinv, log_ndtr

from everhold.bounds.concentration import hoeffding_rows, hoeffding_width
from everhold.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Accounting",
    "NoiseSetting",
    "Transfer",
    "WeightsSetting",
    "gaussian_noise",
    "gaussian_rows",
    "gaussian_width",
    "multiplicative_weights_rows",
    "multiplicative_weights_setting",
    "multiplicative_weights_width",
    "non_adaptive_rows",
    "non_adaptive_width",
    "questions_answered",
    "splitting_rows",
    "splitting_width",
    "thresholdout_rows",
    "thresholdout_width",
]

Transfer = Literal["jung", "rogers", "rogers code"]
Accounting = Literal["hoeffding", "fair coin"]


def non_adaptive_width(rows: float, *, rounds: float, failure_probability: float = 0.05) -> float:
    """Hoeffding and a union bound over T questions fixed in advance, to compare with the cost of adaptivity."""
    _check(rows, rounds, failure_probability)
    return hoeffding_width(log(2.0 * rounds / failure_probability), rows)


def non_adaptive_rows(half_width: float, *, rounds: float, failure_probability: float = 0.05) -> int:
    """Rows for T questions fixed in advance.

    >>> non_adaptive_rows(0.2, rounds=1e6)
    876
    """
    _check(1, rounds, failure_probability)
    return hoeffding_rows(log(2.0 * rounds / failure_probability), half_width)


def splitting_width(
    rows: float, *, rounds: float, failure_probability: float = 0.05, accounting: Accounting = "hoeffding"
) -> float:
    """A fresh share of the rows for every question: ⌊n/T⌋ rows each; `inf` if there are fewer rows than questions.

    Args:
        accounting: 'hoeffding' is valid for every [-1, 1]-valued question. 'fair coin' uses the exact tails of ⌊n/T⌋ tosses
            of a fair coin, like the program of Rogers et al. (2020): narrower, but proved for a mean of 1/2 only.
    """
    if accounting not in get_args(Accounting):
        raise SettingError(f"the accounting is 'hoeffding' or 'fair coin', not {accounting!r}")
    each = rows // rounds
    if each < 1:
        return inf
    if accounting == "hoeffding":
        return non_adaptive_width(each, rounds=rounds, failure_probability=failure_probability)
    _check(rows, rounds, failure_probability)
    return 2.0 * abs(_fair_coin(int(each), 1.0 - failure_probability / (2.0 * rounds)) / each - 0.5)


def splitting_rows(half_width: float, *, rounds: float, failure_probability: float = 0.05) -> int:
    """Rows for T questions, each with fresh rows.

    >>> f"{splitting_rows(0.2, rounds=1e6):.2e}"
    '8.76e+08'
    """
    return ceil(rounds) * non_adaptive_rows(half_width, rounds=rounds, failure_probability=failure_probability)


@dataclass(frozen=True, slots=True)
class NoiseSetting:
    """The setting of a noisy mechanism and its guarantee, both on the [-1, 1] scale.

    Attributes:
        deviation: standard deviation of the noise.
        width: the guaranteed half-width, simultaneously for all answers.
    """

    deviation: float
    width: float


def gaussian_noise(
    rows: float, *, rounds: float, failure_probability: float = 0.05, transfer: Transfer = "jung"
) -> NoiseSetting:
    """Gaussian noise on every answer, with the size of the narrowest guarantee by a transfer theorem.

    jung: Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld (ITCS 2020). A mechanism that is (ε, δ)-private and
    (α, β)-accurate on the sample is (α', β')-accurate on the population, `α' = α + (e^ε - 1) + c + 2d`,
    `β' = β/c + δ/d` for any c, d > 0; the best c and d give `c + 2d = (√β + √(2δ))²/β'`. T Gaussian answers compose to
    one Gaussian mechanism with `μ = √T/(nσ)`, whose δ(ε) is known exactly (Dong, Roth and Su 2022).

    rogers: Rogers, Roth, Smith, Srebro, Thakkar and Woodworth (AISTATS 2020), Theorem 2.1, by mutual information: a bound on
    the rows' own error, `sqrt(I/(2nβ))`, plus one on T Gaussians of variance `1/(2n²ρ)`, `sqrt(ln(4T/β)/ρ)/n`.

    rogers code: the same as in their published program, with half of that second term. It reproduces their figures, but it
    is not a bound on the largest of T such Gaussians (`docs/theory/baselines.md`).
    """
    _check(rows, rounds, failure_probability)
    if transfer not in get_args(Transfer):
        raise SettingError(f"the transfer theorem is one of {', '.join(get_args(Transfer))}, not {transfer!r}")
    if transfer == "jung":
        deviation, width = _jung(rows, rounds, failure_probability)
    else:
        deviation, width = _rogers(rows, rounds, failure_probability, 0.5 if transfer == "rogers code" else 1.0)
    return NoiseSetting(2.0 * deviation, min(2.0 * width, inf))


def gaussian_width(rows: float, *, rounds: float, failure_probability: float = 0.05, transfer: Transfer = "jung") -> float:
    """The half-width that `gaussian_noise` guarantees."""
    return gaussian_noise(rows, rounds=rounds, failure_probability=failure_probability, transfer=transfer).width


def gaussian_rows(
    half_width: float, *, rounds: float, failure_probability: float = 0.05, transfer: Transfer = "jung"
) -> int:
    """Rows for Gaussian noise: the inverse of `gaussian_width`, rounded up."""
    return _rows(
        half_width,
        lambda n: gaussian_width(n, rounds=rounds, failure_probability=failure_probability, transfer=transfer),
    )


def thresholdout_rows(half_width: float, *, rounds: float, budget: int, failure_probability: float = 0.05) -> int:
    """Thresholdout (Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015) with an overfitting budget of B.

    Its guarantee with pure differential privacy: error at most τ for m questions, with probability 1-β and until more
    than B of them overfit the training set, if `T = 3τ/4`, `σ = τ/(96 ln(4m/β))` and
    `n ≥ max{2B/(στ'), ln(6/β')/τ'²}` with `τ' = τ/8`, `β' = β/2m`.

    >>> f"{thresholdout_rows(0.2, rounds=1e6, budget=10):.2e}"
    '2.80e+07'
    """
    _check(1, rounds, failure_probability)
    if not 0.0 < half_width <= 2.0:
        raise SettingError(f"a half-width on the [-1, 1] scale lies in (0, 2], not at {half_width!r}")
    if budget < 1:
        raise SettingError(f"the overfitting budget is at least 1, not {budget!r}")
    tau = half_width / 2.0
    sigma = tau / (96.0 * log(4.0 * rounds / failure_probability))
    tau8, beta = tau / 8.0, failure_probability / (2.0 * rounds)
    return ceil(max(2.0 * budget / (sigma * tau8), log(6.0 / beta) / tau8**2))


def thresholdout_width(rows: float, *, rounds: float, budget: int, failure_probability: float = 0.05) -> float:
    """The inverse of `thresholdout_rows`: both of its terms scale as τ⁻², so the width is a square root."""
    at_one = thresholdout_rows(1.0, rounds=rounds, budget=budget, failure_probability=failure_probability)
    return sqrt(at_one / rows)


@dataclass(frozen=True, slots=True)
class WeightsSetting:
    """The setting of private multiplicative weights and its guarantee.

    Attributes:
        accuracy: a, on the share scale: threshold 2a, learning rate a/2, at most 4 ln N/a² updates.
        epsilon, delta: the privacy parameters.
        width: the guaranteed half-width, on the [-1, 1] scale.
    """

    accuracy: float
    epsilon: float
    delta: float
    width: float


def multiplicative_weights_setting(
    rows: float, *, rounds: float, domain_bits: float, failure_probability: float = 0.05
) -> WeightsSetting:
    """Private multiplicative weights (Hardt and Rothblum 2010) over an explicit domain of 2^domain_bits points.

    Sample error 3a with (ε, δ)-privacy by Dwork and Roth (2014), section 4.2, through `NumericSparse`:
    `a = (2 + 32√2) sqrt(L ln(2/δ)) (ln T + ln(32 L/(a²β))) / (ε n a)`, L the logarithm of the domain's size; then Jung
    et al.'s transfer theorem as in `gaussian_noise`.
    """
    _check(rows, rounds, failure_probability)
    if not domain_bits >= 1:
        raise SettingError(f"a domain has at least 1 bit, not {domain_bits!r}")
    size_ln = domain_bits * log(2.0)

    def error(parameters: tuple[float, ...]) -> tuple[float, float, float, float]:
        epsilon, beta, delta = (exp(min(p, 0.0)) for p in parameters)
        return _multiplicative_weights_sample_error(rows, rounds, size_ln, epsilon, delta, beta), epsilon, beta, delta

    def width(parameters: tuple[float, ...]) -> float:
        a, epsilon, beta, delta = error(parameters)
        return 3.0 * a + expm1(epsilon) + (sqrt(beta) + sqrt(2.0 * delta)) ** 2 / failure_probability

    start = (log(0.02), log(1e-3 * failure_probability), log(1e-3 * failure_probability))
    best, point = _search(width, start)
    a, epsilon, _, delta = error(point)
    return WeightsSetting(a, epsilon, delta, 2.0 * best)


def multiplicative_weights_width(
    rows: float, *, rounds: float, domain_bits: float, failure_probability: float = 0.05
) -> float:
    """The half-width that `multiplicative_weights_setting` guarantees."""
    return multiplicative_weights_setting(
        rows, rounds=rounds, domain_bits=domain_bits, failure_probability=failure_probability
    ).width


def multiplicative_weights_rows(
    half_width: float, *, rounds: float, domain_bits: float, failure_probability: float = 0.05
) -> int:
    """Rows for private multiplicative weights: the inverse of `multiplicative_weights_width`, rounded up."""
    return _rows(
        half_width,
        lambda n: multiplicative_weights_width(
            n, rounds=rounds, domain_bits=domain_bits, failure_probability=failure_probability
        ),
    )


def questions_answered(width: Callable[[int], float], half_width: float, *, most: int = 10**9) -> int:
    """The most questions that a guarantee allows: the largest T with width(T) ≤ half_width, found by bisection.

    Args:
        width: the guaranteed half-width for T questions, increasing in T.
        half_width: the required half-width, on the same scale.
        most: the largest T to consider.

    >>> questions_answered(lambda t: splitting_width(10_000, rounds=t, accounting="fair coin"), 0.2)
    40
    """
    if width(1) > half_width:
        return 0
    low = 1
    while low < most and width(2 * low) <= half_width:
        low *= 2
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if width(middle) <= half_width else (low, middle)
    return low


def _jung(n: float, t: float, beta_out: float) -> tuple[float, float]:
    """The noise and its width, on the share scale."""

    def width(parameters: tuple[float, ...]) -> float:
        sigma, epsilon, beta = (exp(min(p, 0.0)) for p in parameters)
        mu = sqrt(t) / (n * sigma)
        delta = _gaussian_delta(epsilon, mu)
        error = sigma * sqrt(2.0) * float(erfcinv(min(beta / t, 1.0)))  # a bound on all T Gaussians, by a union bound
        return error + expm1(epsilon) + (sqrt(beta) + sqrt(2.0 * delta)) ** 2 / beta_out

    sigma = (t**0.25) / sqrt(n)
    best, point = _search(width, (log(min(sigma, 0.5)), log(0.05), log(1e-3 * beta_out)))
    return exp(min(point[0], 0.0)), best


def _gaussian_delta(epsilon: float, mu: float) -> float:
    """δ(ε) of a Gaussian mechanism with sensitivity over noise μ: Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2), rounded up."""
    first = float(log_ndtr(-epsilon / mu + mu / 2.0))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2.0))
    return exp(first) * -expm1(min(second - first, 0.0)) * (1.0 + 1e-6) + 1e-300


def _rogers(n: float, t: float, beta: float, share: float) -> tuple[float, float]:
    """The noise and its width, on the share scale; only `share` of the noise's own term is counted."""

    def width(parameters: tuple[float, ...]) -> float:
        rho, free = exp(min(parameters[0], 50.0)), 0.5 * erfc(-parameters[1])  # free in (0, 1)
        if not 0.0 < free < 1.0:
            return inf
        information = (2.0 * rho * t * n - log(1.0 - free)) / free
        return sqrt(information / (2.0 * n * beta)) + share / n * sqrt(log(4.0 * t / beta) / rho)

    best, point = _search(width, (log(1.0 / (n * sqrt(t))), 0.5))
    return 1.0 / (n * sqrt(2.0 * exp(min(point[0], 50.0)))), best


def _multiplicative_weights_sample_error(
    n: float, t: float, size_ln: float, epsilon: float, delta: float, beta: float
) -> float:
    """The smallest a with a ≥ (its own bound), by bisection from above."""

    def enough(a: float) -> bool:
        needed = (2.0 + 32.0 * sqrt(2.0)) * sqrt(size_ln * log(2.0 / delta))
        needed *= log(t) + log(32.0 * size_ln / (a * a * beta))
        return a >= needed / (epsilon * n * a)

    high = 1.0
    while not enough(high):
        high *= 2.0
        if high > 1e12:
            return inf
    low = 0.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if middle > 0.0 and enough(middle):
            high = middle
        else:
            low = middle
    return high


def _fair_coin(tosses: int, probability: float) -> int:
    """The smallest k such that a fair coin has at most k heads with at least this probability."""
    low, high = tosses // 2 - 1, tosses
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if float(bdtr(middle, tosses, 0.5)) >= probability else (middle, high)
    return high


def _search(width: Callable[[tuple[float, ...]], float], start: tuple[float, ...]) -> tuple[float, tuple[float, ...]]:
    """Nelder and Mead from a sensible start, restarted from its result: the smallest width found; every width is valid."""
    from scipy.optimize import minimize  # takes half a second to import, and only plans need it

    point: tuple[float, ...] = start
    best, best_point = width(start), start
    for _ in range(4):
        result = minimize(
            lambda x: min(width(tuple(float(v) for v in x)), 1e6),
            point,
            method="Nelder-Mead",
            options={"maxiter": 400, "xatol": 1e-5, "fatol": 1e-9},
        )
        point = tuple(float(v) for v in result.x)
        if float(result.fun) < best:
            best, best_point = float(result.fun), point
    return best, best_point


def _rows(half_width: float, width: Callable[[float], float]) -> int:
    """The smallest number of rows found with a small enough width, from above and to three digits."""
    if not 0.0 < half_width <= 2.0:
        raise SettingError(f"a half-width on the [-1, 1] scale lies in (0, 2], not at {half_width!r}")
    low, high = 0.0, 3.0  # log10 of n
    while width(10.0**high) > half_width:
        low, high = high, high + 1.0
        if high > 40:
            return int(1e40)
    while high - low > 2e-4:
        middle = 0.5 * (low + high)
        if width(10.0**middle) > half_width:
            low = middle
        else:
            high = middle
    return ceil(float(10.0**high))


def _check(rows: float, rounds: float, failure_probability: float) -> None:
    if not rows >= 1:
        raise SettingError(f"the number of rows is at least 1, not {rows!r}")
    if not rounds >= 1:
        raise SettingError(f"the number of rounds is at least 1, not {rounds!r}")
    if not 0.0 < failure_probability < 1.0:
        raise SettingError(f"a failure probability lies strictly between 0 and 1, not at {failure_probability!r}")
