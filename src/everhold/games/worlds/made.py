"""Synthetic worlds: dense by construction, labelled, linear, tree, pure noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everhold.errors import SettingError
from everhold.games.world import WORLDS, World, atoms_of

__all__ = ["dense", "labelled", "linear", "noise", "tree"]

ATOMS, FEATURES = 4096, 24


def _signs(seed: int, atoms: int = ATOMS, features: int = FEATURES) -> NDArray[np.float64]:
    return np.where(np.random.default_rng([seed, 1]).random((atoms, features)) < 0.5, -1.0, 1.0)


def dense(seed: int, density: float = 0.5, atoms: int = ATOMS) -> World:
    """The population is uniform over a share λ of the prior's atoms, those with the highest score on random features.

    So it is exactly λ-dense in the prior: with λ = 1/2, half of the prior's atoms do not occur in the population.

    >>> world = dense(0, density=0.25)
    >>> world.density, round(world.chi_square, 6)
    (0.25, 3.0)
    """
    if not 0.0 < density <= 1.0:
        raise SettingError(f"the density λ is {density!r}. Expected a number in (0, 1].")
    x = _signs(seed, atoms)
    rng = np.random.default_rng([seed, 2])
    score = x[:, :6] @ rng.uniform(0.5, 1.0, 6) + 0.5 * rng.standard_normal(atoms)
    weights = np.zeros(atoms)
    weights[np.argsort(-score)[: max(1, round(density * atoms))]] = 1.0
    y = np.where(x[:, 6] * x[:, 7] > 0, 1, -1)
    return atoms_of("dense", x, y, weights=weights, labelled=True, density=float(weights.mean()))


@WORLDS.add("dense")
def _dense(seed: int) -> World:
    return dense(seed)


@WORLDS.add("labelled")
def labelled(seed: int, atoms: int = ATOMS) -> World:
    """Features are known, and labels are a random function of them, so only questions can reveal them. λ = 1/2."""
    x = _signs(seed, atoms)
    y = np.where(np.random.default_rng([seed, 3]).random(len(x)) < 0.5, -1, 1)
    return atoms_of("labelled", x, y, density=0.5)


@WORLDS.add("linear")
def linear(seed: int) -> World:
    """Labels are a linear threshold of fifteen features. λ = 1/2."""
    x = _signs(seed)
    y = np.where(x[:, :15] @ np.linspace(1.0, 0.3, 15) >= 0.0, 1, -1)
    return atoms_of("linear", x, y, density=0.5)


@WORLDS.add("tree")
def tree(seed: int) -> World:
    """Labels are a tree over seven features. λ = 1/2."""
    x = _signs(seed)
    left = np.where(x[:, 1] > 0, x[:, 3], np.where(x[:, 4] > 0, 1.0, x[:, 5]))
    right = np.where(x[:, 2] > 0, 1.0, x[:, 6])
    y = np.where(np.where(x[:, 0] > 0, right, left) > 0, 1, -1)
    return atoms_of("tree", x, y, density=0.5)


@WORLDS.add("noise")
def noise(seed: int, atoms: int = ATOMS, features: int = FEATURES) -> World:
    """Labels are coin flips, independent of the features, so every apparent discovery is false. λ = 1."""
    x = _signs(seed, atoms, features)
    both, index = np.concatenate([x, x]), np.tile(np.arange(len(x)), 2)
    return atoms_of("noise", both, np.repeat([-1, 1], len(x)), density=1.0, index=index)
