"""Baseline mechanisms with the same protocol as everhold's own, each with its published guarantee if it has one."""

from everhold.baselines.exact import Empirical, Subsampling
from everhold.baselines.gaussian import GaussianNoise
from everhold.baselines.guess_and_check import GuessAndCheck
from everhold.baselines.ladder import Ladder
from everhold.baselines.multiplicative_weights import MultiplicativeWeights
from everhold.baselines.rival import BaselineContext, IntervalAnswer, Policy, Promise, Rival, Turn
from everhold.baselines.splitting import Splitting
from everhold.baselines.thresholdout import Thresholdout

__all__ = [
    "BaselineContext",
    "Empirical",
    "GaussianNoise",
    "GuessAndCheck",
    "IntervalAnswer",
    "Ladder",
    "MultiplicativeWeights",
    "Policy",
    "Promise",
    "Rival",
    "Splitting",
    "Subsampling",
    "Thresholdout",
    "Turn",
]
