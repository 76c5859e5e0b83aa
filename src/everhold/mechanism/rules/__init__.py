"""Rules that update the sketch after a surprise."""

from everhold.mechanism.rules.corrective import Corrective
from everhold.mechanism.rules.entropic import Entropic
from everhold.mechanism.rules.gradient import Gradient
from everhold.mechanism.rules.rule import THETA_ONE, Constraint, Rule

__all__ = ["THETA_ONE", "Constraint", "Corrective", "Entropic", "Gradient", "Rule"]
