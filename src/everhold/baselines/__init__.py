"""Rivals in the same socket as everhold's own mechanism, each with its published guarantee where it has one."""

from everhold.baselines.exact import Empirical, Subsampling
from everhold.baselines.gaussian import GaussianNoise
from everhold.baselines.guess_and_check import GuessAndCheck
from everhold.baselines.ladder import Ladder
from everhold.baselines.multiplicative_weights import MultiplicativeWeights
from everhold.baselines.rival import Policy, Promise, Rival, Site, Told, Turn
from everhold.baselines.splitting import Splitting
from everhold.baselines.thresholdout import Thresholdout

__all__ = [
    "Empirical",
    "GaussianNoise",
    "GuessAndCheck",
    "Ladder",
    "MultiplicativeWeights",
    "Policy",
    "Promise",
    "Rival",
    "Site",
    "Splitting",
    "Subsampling",
    "Thresholdout",
    "Told",
    "Turn",
]
