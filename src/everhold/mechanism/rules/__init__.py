"""How a surprise teaches the sketch."""

from everhold.mechanism.rules.corrective import Corrective
from everhold.mechanism.rules.entropic import Entropic
from everhold.mechanism.rules.gradient import Gradient
from everhold.mechanism.rules.rule import THETA_ONE, Constraint, Rule

__all__ = ["THETA_ONE", "Constraint", "Corrective", "Entropic", "Gradient", "Rule"]
