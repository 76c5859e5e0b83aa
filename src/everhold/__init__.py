"""everhold: a holdout set that never wears out."""

from everhold.bounds.plan import Plan, plan
from everhold.client.aio import connect_async
from everhold.client.sync import connect
from everhold.contest.contest import Contest
from everhold.data.examine import Examination, examine
from everhold.data.schema import ColumnSchema, Schema
from everhold.errors import (
    AccessDenied,
    DataError,
    EverholdError,
    LedgerBusy,
    LedgerError,
    MissingExtra,
    PrecisionExhausted,
    PriorError,
    QuestionError,
    ReplayError,
    RequestConflict,
    ServerError,
    SettingError,
)
from everhold.learn.score import Score, Verdict
from everhold.learn.scorer import SearchStopped
from everhold.learn.testset import TestSet
from everhold.ledger.audit import Audit
from everhold.mechanism.aqa_ogd import AqaOgd
from everhold.mechanism.rules import Corrective, Entropic, Gradient
from everhold.mechanism.tolerance import Anytime, FixedPrecision
from everhold.oracle import SQOracle
from everhold.priors.labels import Labels
from everhold.priors.marginals import Marginals, uniform
from everhold.priors.reference import Reference
from everhold.priors.sampler import BitSampler, Sampler
from everhold.priors.split import Split
from everhold.queries.answer import Answer, Preview
from everhold.queries.interval import Interval
from everhold.queries.query import Values
from everhold.session.holdout import Holdout
from everhold.statistics.finding import Comparison, Finding, Shares
from everhold.statistics.means import Compare, Difference, Mean, Share
from everhold.statistics.quantiles import Quantile
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.tables import Histogram, Table
from everhold.version import VERSION

__version__ = VERSION

__all__ = [
    "AccessDenied",
    "Answer",
    "Anytime",
    "AqaOgd",
    "Audit",
    "BitSampler",
    "ColumnSchema",
    "Compare",
    "Comparison",
    "Contest",
    "Corrective",
    "Correlation",
    "DataError",
    "Difference",
    "Entropic",
    "EverholdError",
    "Examination",
    "Finding",
    "FixedPrecision",
    "Gradient",
    "Histogram",
    "Holdout",
    "Interval",
    "Labels",
    "LedgerBusy",
    "LedgerError",
    "Marginals",
    "Mean",
    "MissingExtra",
    "Plan",
    "PrecisionExhausted",
    "Preview",
    "PriorError",
    "Quantile",
    "QuestionError",
    "Reference",
    "ReplayError",
    "RequestConflict",
    "SQOracle",
    "Sampler",
    "Schema",
    "Score",
    "SearchStopped",
    "ServerError",
    "SettingError",
    "Share",
    "Shares",
    "Split",
    "Table",
    "TestSet",
    "Values",
    "Variance",
    "Verdict",
    "connect",
    "connect_async",
    "examine",
    "plan",
    "uniform",
]
