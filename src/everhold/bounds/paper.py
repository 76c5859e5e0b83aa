"""The paper's own numbers, as printed and as corrected.

*Efficient Adaptive Data Analysis over Dense Distributions* (J. S. Huh): Algorithm 1 (AQA-OGD), Algorithm 2 (the
inner-product estimator), the sample-size theorem and the predicate-singling-out bound. `docs/theory/errata.md` explains
the errors in print, with the numbers used below. The paper's letters: λ density, ε accuracy on the
[-1, 1] scale, δ failure probability, T rounds, M rows (n here), G the stored gradients.
"""

from __future__ import annotations

from math import ceil, floor, log, log1p
from typing import Literal, get_args

from everhold.errors import SettingError

__all__ = [
    "Constants",
    "estimator_draws",
    "rows_needed",
    "singling_out_ln",
    "transcripts_ln",
    "update_cap",
    "updates_at_most",
]

Constants = Literal["printed", "corrected"]


def update_cap(accuracy: float, density: float) -> int:
    """How many updates AQA-OGD may make: `⌊128/(λε)²⌋`.

    >>> update_cap(0.2, 0.5)
    12800
    """
    _check(accuracy=accuracy, density=density)
    return floor(128.0 / (density * accuracy) ** 2 * (1.0 + 1e-12))


def updates_at_most(accuracy: float, density: float) -> int:
    """The largest number of updates of AQA-OGD, by the paper's argument with corrected constants (erratum 7): `51.2/(λε²)`.

    >>> updates_at_most(0.2, 0.5)
    2560
    """
    _check(accuracy=accuracy, density=density)
    return floor(51.2 / (density * accuracy**2) * (1.0 + 1e-12))


def estimator_draws(
    gradients: int,
    *,
    accuracy: float,
    density: float,
    rounds: int,
    failure_probability: float,
    constants: Constants = "corrected",
) -> int:
    """B, the number of fresh seeds that Algorithm 2 draws in one round.

    corrected (erratum 1): `⌈½ |G|² ln(4T/δ)⌉`, Hoeffding for |y| ≤ |G| λε/16, error η = λε/8 and failure δ/2T; an
    empty G needs none. printed: `0.5 η⁻² T² ln(δ'/2T)` with δ' = δ/2T has a negative logarithm; this returns its absolute
    value, which the paper means, to show the size.

    >>> estimator_draws(10, accuracy=0.2, density=0.5, rounds=1000, failure_probability=0.05)
    565
    >>> estimator_draws(10, accuracy=0.2, density=0.5, rounds=1000, failure_probability=0.05, constants="printed")
    58232119017
    """
    _check(accuracy=accuracy, density=density, rounds=rounds, failure_probability=failure_probability)
    _check_constants(constants)
    if gradients < 0:
        raise SettingError(f"the number of gradients is at least 0, not {gradients}")
    if constants == "printed":
        eta, delta = density * accuracy / 8.0, failure_probability / (2.0 * rounds)
        return ceil(0.5 * eta**-2 * float(rounds) ** 2 * log(2.0 * rounds / delta))
    return ceil(0.5 * gradients**2 * log(4.0 * rounds / failure_probability))


def transcripts_ln(accuracy: float, density: float, rounds: float, *, constants: Constants = "corrected") -> float:
    """Logarithm of the number of update transcripts in the union bound.

    printed: `8 ε⁻¹ T^K`; corrected (erratum 3): `(1 + T(8/ε + 2))^K`, each update having its own round, cell and sign.
    """
    _check_constants(constants)
    k = 128.0 / (density * accuracy) ** 2
    if constants == "printed":
        return log(8.0 / accuracy) + k * log(rounds)
    return update_cap(accuracy, density) * log1p(rounds * (8.0 / accuracy + 2.0))


def rows_needed(
    accuracy: float,
    *,
    density: float,
    rounds: float,
    failure_probability: float,
    constants: Constants = "corrected",
) -> int:
    """Rows for (ε, δ)-accuracy over T rounds.

    printed: `4096 λ⁻²ε⁻⁴ ln(T/ε) + 32 ε⁻² ln(10/δ)`. corrected (errata 2 and 3):
    `(128/ε²) [K ln(1 + T(8/ε + 2)) + ln(4T/δ)]`, K the update cap.

    >>> f"{rows_needed(0.2, density=0.5, rounds=1e6, failure_probability=0.05, constants='printed'):.2e}"
    '1.58e+08'
    >>> f"{rows_needed(0.2, density=0.5, rounds=1e6, failure_probability=0.05):.2e}"
    '7.19e+08'
    """
    _check(accuracy=accuracy, density=density, rounds=rounds, failure_probability=failure_probability)
    _check_constants(constants)
    if constants == "printed":
        return ceil(
            4096.0 / (density**2 * accuracy**4) * log(rounds / accuracy)
            + 32.0 / accuracy**2 * log(10.0 / failure_probability)
        )
    nats = transcripts_ln(accuracy, density, rounds) + log(4.0 * rounds / failure_probability)
    return ceil(128.0 / accuracy**2 * nats)


def singling_out_ln(nats: float, rows: int, weight: float) -> float:
    """Logarithm of the singling-out bound, erratum 10: `Pr[price ≤ C, p isolates, p(D) ≤ μ] ≤ e^C · n μ`.

    A value of 0 or more is vacuous: the bound is trivial then, and gives no privacy guarantee.
    """
    if not (nats >= 0.0 and rows >= 1 and 0.0 < weight <= 1.0):
        raise SettingError(f"expected nats ≥ 0, rows ≥ 1 and a weight in (0, 1], not {nats!r}, {rows!r} and {weight!r}")
    return nats + log(rows * weight)


def _check(*, accuracy: float, density: float, rounds: float = 1.0, failure_probability: float = 0.5) -> None:
    if not 0.0 < accuracy <= 2.0:
        raise SettingError(f"the accuracy ε lies in (0, 2] on the [-1, 1] scale, not at {accuracy!r}")
    if not 0.0 < density <= 1.0:
        raise SettingError(f"the density λ lies in (0, 1], not at {density!r}")
    if not rounds >= 1:
        raise SettingError(f"the number of rounds is at least 1, not {rounds!r}")
    if not 0.0 < failure_probability < 1.0:
        raise SettingError(f"the failure probability δ lies strictly between 0 and 1, not at {failure_probability!r}")


def _check_constants(constants: str) -> None:
    if constants not in get_args(Constants):
        raise SettingError(f"constants are 'printed' or 'corrected', not {constants!r}")
