"""Bounds on the number of surprises, for a prior of known density.

The sketch is a density ratio h over the prior π, which starts at h = 1; the truth is h* = dD/dπ. A surprise at tolerance
τ, while intervals have half-width w, means that the sketch was off the *population* by at least `γ = τ - w`. Each
rule then moves the sketch closer to h* by an amount that depends on γ alone, and the density λ (`D ≤ π/λ`) bounds the
distance at the start. Proofs: `docs/theory/surprises.md`. Validity never depends on any of this: a bad prior costs
surprises, and with them width.
"""

from __future__ import annotations

from math import floor, inf

from everhold.bounds.elementary import ln
from everhold.errors import SettingError

__all__ = [
    "chi_square_at_most",
    "corrective_surprises",
    "entropic_surprises",
    "gradient_surprises",
    "relative_entropy_at_most",
]


def chi_square_at_most(density: float) -> float:
    """`χ²(D ‖ π) = E_π[(h* - 1)²] ≤ 1/λ - 1` for a population that is λ-dense in the prior.

    >>> chi_square_at_most(0.5)
    1.0
    """
    _check_density(density)
    return 1.0 / density - 1.0


def relative_entropy_at_most(density: float) -> float:
    """`KL(D ‖ π) ≤ ln(1/λ)` for a population that is λ-dense in the prior."""
    _check_density(density)
    return ln(1.0 / density)


def gradient_surprises(chi_square: float, gap: float) -> float:
    """The largest number of surprises of the gradient rule with step γ: `⌊χ²/γ²⌋`; infinite if γ ≤ 0 (no guarantee then).

    >>> gradient_surprises(1.0, 0.1)
    100
    """
    return corrective_surprises(chi_square, gap, variance=1.0)


def corrective_surprises(chi_square: float, gap: float, *, variance: float = 1.0) -> float:
    """The largest number of surprises of the exact corrective rule: from `Σ γ_j² / Var_π(φ_j) ≤ χ²`.

    Args:
        chi_square: bound on χ²(D ‖ π), see `chi_square_at_most`.
        gap: γ = τ - w, the same for every surprise, or the smallest one.
        variance: bound on the variance of the surprising questions under the prior, at most 1.
    """
    if not chi_square >= 0.0:
        raise SettingError(f"χ² is at least 0, not {chi_square!r}")
    if not 0.0 < variance <= 1.0:
        raise SettingError(f"the variance of a [-1, 1]-valued question lies in (0, 1], not at {variance!r}")
    if gap <= 0.0:
        return inf
    return floor(chi_square * variance / (gap * gap) * (1.0 + 1e-12))


def entropic_surprises(density: float, gap: float) -> float:
    """The largest number of surprises of the entropic rule: `⌊2 ln(1/λ)/γ²⌋`. Better than the χ² rules for λ below 0.285.

    >>> entropic_surprises(0.2, 0.1) < gradient_surprises(chi_square_at_most(0.2), 0.1)
    True
    >>> entropic_surprises(0.3, 0.1) < gradient_surprises(chi_square_at_most(0.3), 0.1)
    False
    """
    if gap <= 0.0:
        return inf
    return floor(2.0 * relative_entropy_at_most(density) / (gap * gap) * (1.0 + 1e-12))


def _check_density(density: float) -> None:
    if not 0.0 < density <= 1.0:
        raise SettingError(f"the density λ lies in (0, 1], not at {density!r}")
