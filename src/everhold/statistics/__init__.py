"""What people ask for: each statistic a value with its steps."""

from __future__ import annotations

from everhold.statistics.base import Statistic
from everhold.statistics.means import Compare, Difference, Mean, Share
from everhold.statistics.quantiles import Quantile
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.tables import Histogram, Table

__all__ = ["STATISTICS"]

STATISTICS: dict[str, type[Statistic]] = {
    one.name: one for one in (Share, Mean, Quantile, Difference, Compare, Histogram, Table, Variance, Correlation)
}
"""Every statistic by its name."""
