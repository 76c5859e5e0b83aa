"""Baseline mechanisms with the same protocol as everhold's own, each with its published guarantee if it has one."""

from everhold.baselines.exact import Empirical, Subsampling
from everhold.baselines.gaussian import GaussianNoise
from everhold.baselines.guess_and_check import GuessAndCheck
from everhold.baselines.ladder import Ladder
from everhold.baselines.mechanism import (
    BaselineContext,
    BaselineMechanism,
    BaselineProposal,
    IntervalAnswer,
    Policy,
    Promise,
)
from everhold.baselines.multiplicative_weights import MultiplicativeWeights
from everhold.baselines.splitting import Splitting
from everhold.baselines.thresholdout import Thresholdout

__all__ = [
    "BaselineContext",
    "BaselineMechanism",
    "BaselineProposal",
    "Empirical",
    "GaussianNoise",
    "GuessAndCheck",
    "IntervalAnswer",
    "Ladder",
    "MultiplicativeWeights",
    "Policy",
    "Promise",
    "Splitting",
    "Subsampling",
    "Thresholdout",
]
