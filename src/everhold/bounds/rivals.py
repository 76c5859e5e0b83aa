"""What other mechanisms guarantee, by their published theorems.

Half-widths are on the [-1, 1] scale everywhere in this module, like in the rest of `bounds`; the sources speak of
[0, 1]-valued queries, so their α is half of it. Each function says which theorem it evaluates; where a theorem leaves
parameters free they are searched, and every choice gives a valid bound, so the search can only be less than best.
Sources and derivations: `docs/theory/rivals.md`.
"""

from __future__ import annotations

from math import ceil, erfc, exp, expm1, inf, log, sqrt
from typing import TYPE_CHECKING, Literal, get_args

from scipy.optimize import minimize
from scipy.special import erfcinv, log_ndtr

from everhold.bounds.concentration import hoeffding_rows, hoeffding_width
from everhold.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Transfer",
    "gaussian_rows",
    "gaussian_width",
    "multiplicative_weights_rows",
    "multiplicative_weights_width",
    "non_adaptive_rows",
    "non_adaptive_width",
    "splitting_rows",
    "splitting_width",
    "thresholdout_rows",
    "thresholdout_width",
]

Transfer = Literal["jung", "rogers"]


def non_adaptive_width(rows: float, *, rounds: float, failure_probability: float = 0.05) -> float:
    """Hoeffding and a union bound over T questions fixed in advance: for comparison with what adaptivity costs."""
    _check(rows, rounds, failure_probability)
    return hoeffding_width(log(2.0 * rounds / failure_probability), rows)


def non_adaptive_rows(half_width: float, *, rounds: float, failure_probability: float = 0.05) -> int:
    """Rows for T questions fixed in advance.

    >>> non_adaptive_rows(0.2, rounds=1e6)
    876
    """
    _check(1, rounds, failure_probability)
    return hoeffding_rows(log(2.0 * rounds / failure_probability), half_width)


def splitting_width(rows: float, *, rounds: float, failure_probability: float = 0.05) -> float:
    """A fresh share of the rows for every question: ⌊n/T⌋ rows each; `inf` when there are fewer rows than questions."""
    each = rows // rounds
    return inf if each < 1 else non_adaptive_width(each, rounds=rounds, failure_probability=failure_probability)


def splitting_rows(half_width: float, *, rounds: float, failure_probability: float = 0.05) -> int:
    """Rows when every question gets fresh ones.

    >>> f"{splitting_rows(0.2, rounds=1e6):.2e}"
    '8.76e+08'
    """
    return ceil(rounds) * non_adaptive_rows(half_width, rounds=rounds, failure_probability=failure_probability)


def gaussian_width(
    rows: float, *, rounds: float, failure_probability: float = 0.05, transfer: Transfer = "jung"
) -> float:
    """Gaussian noise on every answer, by one of two transfer theorems.

    jung: Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld (ITCS 2020). A mechanism that is (ε, δ)-private and
    (α, β)-accurate on the sample is (α', β')-accurate on the population, `α' = α + (e^ε - 1) + c + 2d`,
    `β' = β/c + δ/d` for any c, d > 0; the best c and d give `c + 2d = (√β + √(2δ))²/β'`. T Gaussian answers compose to
    one Gaussian mechanism with `μ = √T/(nσ)`, whose δ(ε) is known exactly (Dong, Roth and Su 2022).

    rogers: Rogers, Roth, Smith, Srebro, Thakkar and Woodworth (AISTATS 2020), Theorem 2.1, by mutual information.
    """
    _check(rows, rounds, failure_probability)
    if transfer not in get_args(Transfer):
        raise SettingError(f"the transfer theorem is 'jung' or 'rogers', not {transfer!r}")
    search = _jung_width if transfer == "jung" else _rogers_width
    return min(2.0 * search(rows, rounds, failure_probability), inf)


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
    than B of them overfitted the training set, when `T = 3τ/4`, `σ = τ/(96 ln(4m/β))` and
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


def multiplicative_weights_width(
    rows: float, *, rounds: float, domain_bits: float, failure_probability: float = 0.05
) -> float:
    """Private multiplicative weights (Hardt and Rothblum 2010) over an explicit domain of 2^domain_bits points.

    Sample error 3a with (ε, δ)-privacy by Dwork and Roth (2014), section 4.2, through `NumericSparse`:
    `a = (2 + 32√2) sqrt(L ln(2/δ)) (ln T + ln(32 L/(a²β))) / (ε n a)`, L the logarithm of the domain's size; then Jung
    et al.'s transfer theorem as in `gaussian_width`.
    """
    _check(rows, rounds, failure_probability)
    if not domain_bits >= 1:
        raise SettingError(f"a domain has at least 1 bit, not {domain_bits!r}")
    size_ln = domain_bits * log(2.0)

    def width(parameters: tuple[float, ...]) -> float:
        epsilon, beta, delta = (exp(min(p, 0.0)) for p in parameters)
        a = _multiplicative_weights_sample_error(rows, rounds, size_ln, epsilon, delta, beta)
        return 3.0 * a + expm1(epsilon) + (sqrt(beta) + sqrt(2.0 * delta)) ** 2 / failure_probability

    start = (log(0.02), log(1e-3 * failure_probability), log(1e-3 * failure_probability))
    return 2.0 * _search(width, start)


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


def _jung_width(n: float, t: float, beta_out: float) -> float:
    def width(parameters: tuple[float, ...]) -> float:
        sigma, epsilon, beta = (exp(min(p, 0.0)) for p in parameters)
        mu = sqrt(t) / (n * sigma)
        delta = _gaussian_delta(epsilon, mu)
        error = sigma * sqrt(2.0) * float(erfcinv(min(beta / t, 1.0)))  # T Gaussians all below, by a union bound
        return error + expm1(epsilon) + (sqrt(beta) + sqrt(2.0 * delta)) ** 2 / beta_out

    sigma = (t**0.25) / sqrt(n)
    return _search(width, (log(min(sigma, 0.5)), log(0.05), log(1e-3 * beta_out)))


def _gaussian_delta(epsilon: float, mu: float) -> float:
    """δ(ε) of a Gaussian mechanism with sensitivity over noise μ: Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2), rounded up."""
    first = float(log_ndtr(-epsilon / mu + mu / 2.0))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2.0))
    return exp(first) * -expm1(min(second - first, 0.0)) * (1.0 + 1e-6) + 1e-300


def _rogers_width(n: float, t: float, beta: float) -> float:
    def width(parameters: tuple[float, ...]) -> float:
        rho, free = exp(min(parameters[0], 50.0)), 0.5 * erfc(-parameters[1])  # free in (0, 1)
        if not 0.0 < free < 1.0:
            return inf
        information = (2.0 * rho * t * n - log(1.0 - free)) / free
        return max(sqrt(2.0 / (n * beta) * information), 2.0 / n * sqrt(log(4.0 * t / beta) / rho))

    return _search(width, (log(1.0 / (n * sqrt(t))), 0.5))


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


def _search(width: Callable[[tuple[float, ...]], float], start: tuple[float, ...]) -> float:
    """Nelder and Mead from a sensible start, restarted where it stopped: the smallest width found, each one valid."""
    point: tuple[float, ...] = start
    best = width(start)
    for _ in range(4):
        found = minimize(
            lambda x: min(width(tuple(float(v) for v in x)), 1e6),
            point,
            method="Nelder-Mead",
            options={"maxiter": 400, "xatol": 1e-5, "fatol": 1e-9},
        )
        best, point = min(best, float(found.fun)), tuple(float(v) for v in found.x)
    return best


def _rows(half_width: float, width: Callable[[float], float]) -> int:
    """The fewest rows found whose width is small enough, from above: three digits of it."""
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
