"""everhold: a holdout set that does not wear out.

Names are loaded when they are first used, so that `import everhold` costs little more than `import numpy`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everhold.version import VERSION

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget as Budget
    from everhold.bounds.gate_plan import GateContract as GateContract, GatePlan as GatePlan, plan_gate as plan_gate
    from everhold.bounds.plan import Plan as Plan, plan as plan
    from everhold.bounds.privacy import (
        Privacy as Privacy,
        PrivacyAccount as PrivacyAccount,
        PrivacyTerms as PrivacyTerms,
    )
    from everhold.bounds.private_plan import PrivatePlan as PrivatePlan
    from everhold.bounds.singling_out import WeightFloor as WeightFloor
    from everhold.client.aio import (
        AsyncContest as AsyncContest,
        AsyncGate as AsyncGate,
        AsyncServer as AsyncServer,
        AsyncStudy as AsyncStudy,
        connect_async as connect_async,
    )
    from everhold.client.sync import (
        RemoteContest as RemoteContest,
        RemoteGate as RemoteGate,
        RemoteScorer as RemoteScorer,
        RemoteStudy as RemoteStudy,
        Server as Server,
        connect as connect,
    )
    from everhold.contest.board import Board as Board, Place as Place, Rules as Rules, Submission as Submission
    from everhold.contest.contest import Contest as Contest
    from everhold.contest.outlook import ContestOutlook as ContestOutlook
    from everhold.contest.ranking_preview import RankingPreview as RankingPreview
    from everhold.data.database_urls import Postgres as Postgres, Spark as Spark
    from everhold.data.examine import ColumnReport as ColumnReport, Examination as Examination, examine as examine
    from everhold.data.schema import ColumnSchema as ColumnSchema, Schema as Schema
    from everhold.errors import (
        AccessDenied as AccessDenied,
        BudgetUsedUp as BudgetUsedUp,
        DataError as DataError,
        EverholdError as EverholdError,
        GateUsedUp as GateUsedUp,
        HoldoutClosed as HoldoutClosed,
        InvalidOutcomes as InvalidOutcomes,
        LedgerBusy as LedgerBusy,
        LedgerError as LedgerError,
        MissingExtra as MissingExtra,
        PrecisionExhausted as PrecisionExhausted,
        PriorError as PriorError,
        PrivacyError as PrivacyError,
        PrivacyUsedUp as PrivacyUsedUp,
        PrivilegeWarning as PrivilegeWarning,
        QuestionError as QuestionError,
        ReferenceWarning as ReferenceWarning,
        ReplayError as ReplayError,
        RequestConflict as RequestConflict,
        RowsInUse as RowsInUse,
        RowsInUseWarning as RowsInUseWarning,
        SchemaWarning as SchemaWarning,
        SearchWarning as SearchWarning,
        ServerError as ServerError,
        SettingError as SettingError,
        WrongSignature as WrongSignature,
    )
    from everhold.gate.audit import GateAudit as GateAudit
    from everhold.gate.gate import Gate as Gate
    from everhold.gate.outcomes import OutcomeGaps as OutcomeGaps
    from everhold.gate.results import CheckResult as CheckResult, GateStatus as GateStatus, TotalGain as TotalGain
    from everhold.learn.entries import Entry as Entry, Winner as Winner
    from everhold.learn.history import History as History, ScoredModel as ScoredModel
    from everhold.learn.score import ModelVerdict as ModelVerdict, Score as Score, ScoreDifference as ScoreDifference
    from everhold.learn.scorer import Scorer as Scorer, SearchStopped as SearchStopped
    from everhold.learn.testset import TestSet as TestSet
    from everhold.ledger.audit import Audit as Audit
    from everhold.ledger.journal import Journal as Journal
    from everhold.ledger.log import Log as Log
    from everhold.ledger.logged_act import LoggedAct as LoggedAct
    from everhold.ledger.reader import LoggedQuestion as LoggedQuestion
    from everhold.ledger.registry import KnownStudy as KnownStudy, Registry as Registry
    from everhold.ledger.rounds import Round as Round
    from everhold.mechanism.aqa_ogd import AqaOgd as AqaOgd
    from everhold.mechanism.rules import (
        Corrective as Corrective,
        Entropic as Entropic,
        Gradient as Gradient,
        Rule as Rule,
    )
    from everhold.mechanism.tolerance import (
        Anytime as Anytime,
        FixedPrecision as FixedPrecision,
        TolerancePolicy as TolerancePolicy,
    )
    from everhold.oracle import SQOracle as SQOracle
    from everhold.plots import forest as forest
    from everhold.priors.labels import Labels as Labels
    from everhold.priors.marginals import Marginals as Marginals, uniform as uniform
    from everhold.priors.pool import Pool as Pool, Prior as Prior
    from everhold.priors.reference import Reference as Reference
    from everhold.priors.sampler import BitSampler as BitSampler, Sampler as Sampler
    from everhold.priors.split import Split as Split
    from everhold.queries.answer import Answer as Answer, Preview as Preview
    from everhold.queries.disclosed import Choice as Choice, Decision as Decision, Verdict as Verdict
    from everhold.queries.interval import Interval as Interval
    from everhold.queries.price import PricedInterval as PricedInterval, ScorePrice as ScorePrice, price as price
    from everhold.queries.query import Values as Values
    from everhold.queries.request import AskedBy as AskedBy, Request as Request
    from everhold.session.holdout import Holdout as Holdout
    from everhold.session.session import Session as Session
    from everhold.session.settings import Settings as Settings
    from everhold.statistics.finding import Comparison as Comparison, Finding as Finding, Shares as Shares
    from everhold.statistics.groups import By as By, GroupTable as GroupTable
    from everhold.statistics.means import *  # noqa: F403
    from everhold.statistics.quantiles import *  # noqa: F403
    from everhold.statistics.rehearsal import Rehearsal as Rehearsal
    from everhold.statistics.spread import *  # noqa: F403
    from everhold.statistics.statistic import Statistic as Statistic
    from everhold.statistics.tables import *  # noqa: F403
    from everhold.trial import Trial as Trial

__version__ = VERSION

_NAMES_IN = {
    "bounds.budget": ("Budget",),
    "bounds.gate_plan": ("GateContract", "GatePlan", "plan_gate"),
    "bounds.plan": ("Plan", "plan"),
    "bounds.privacy": ("Privacy", "PrivacyAccount", "PrivacyTerms"),
    "bounds.private_plan": ("PrivatePlan",),
    "bounds.singling_out": ("WeightFloor",),
    "client.aio": ("AsyncContest", "AsyncGate", "AsyncServer", "AsyncStudy", "connect_async"),
    "client.sync": ("RemoteContest", "RemoteGate", "RemoteScorer", "RemoteStudy", "Server", "connect"),
    "contest.board": ("Board", "Place", "Rules", "Submission"),
    "contest.contest": ("Contest",),
    "contest.outlook": ("ContestOutlook",),
    "contest.ranking_preview": ("RankingPreview",),
    "data.database_urls": ("Postgres", "Spark"),
    "data.examine": ("ColumnReport", "Examination", "examine"),
    "data.schema": ("ColumnSchema", "Schema"),
    "errors": (
        "AccessDenied",
        "BudgetUsedUp",
        "DataError",
        "EverholdError",
        "GateUsedUp",
        "HoldoutClosed",
        "InvalidOutcomes",
        "LedgerBusy",
        "LedgerError",
        "MissingExtra",
        "PrecisionExhausted",
        "PriorError",
        "PrivacyError",
        "PrivacyUsedUp",
        "PrivilegeWarning",
        "QuestionError",
        "ReferenceWarning",
        "ReplayError",
        "RequestConflict",
        "RowsInUse",
        "RowsInUseWarning",
        "SchemaWarning",
        "SearchWarning",
        "ServerError",
        "SettingError",
        "WrongSignature",
    ),
    "gate.gate": ("Gate",),
    "gate.outcomes": ("OutcomeGaps",),
    "gate.audit": ("GateAudit",),
    "gate.results": ("CheckResult", "GateStatus", "TotalGain"),
    "learn.entries": ("Entry", "Winner"),
    "learn.history": ("History", "ScoredModel"),
    "learn.score": ("ModelVerdict", "Score", "ScoreDifference"),
    "learn.scorer": ("Scorer", "SearchStopped"),
    "learn.testset": ("TestSet",),
    "ledger.audit": ("Audit",),
    "ledger.journal": ("Journal",),
    "ledger.log": ("Log",),
    "ledger.logged_act": ("LoggedAct",),
    "ledger.reader": ("LoggedQuestion",),
    "ledger.registry": ("KnownStudy", "Registry"),
    "ledger.rounds": ("Round",),
    "mechanism.aqa_ogd": ("AqaOgd",),
    "mechanism.rules": ("Corrective", "Entropic", "Gradient", "Rule"),
    "mechanism.tolerance": ("Anytime", "FixedPrecision", "TolerancePolicy"),
    "oracle": ("SQOracle",),
    "plots": ("forest",),
    "priors.labels": ("Labels",),
    "priors.marginals": ("Marginals", "uniform"),
    "priors.pool": ("Pool", "Prior"),
    "priors.reference": ("Reference",),
    "priors.sampler": ("BitSampler", "Sampler"),
    "priors.split": ("Split",),
    "queries.answer": ("Answer", "Preview"),
    "queries.disclosed": ("Choice", "Decision", "Verdict"),
    "queries.interval": ("Interval",),
    "queries.price": ("PricedInterval", "ScorePrice", "price"),
    "queries.query": ("Values",),
    "queries.request": ("AskedBy", "Request"),
    "session.holdout": ("Holdout",),
    "session.session": ("Session",),
    "session.settings": ("Settings",),
    "statistics.finding": ("Comparison", "Finding", "Shares"),
    "statistics.groups": ("By", "GroupTable"),
    "statistics.rehearsal": ("Rehearsal",),
    "statistics.statistic": ("Statistic",),
    "trial": ("Trial",),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, at its first use; every statistic is one."""
    if name == "__all__":
        return sorted([*_MODULE_OF, *_statistics()])
    if name in _MODULE_OF:
        found = getattr(import_module(f"everhold.{_MODULE_OF[name]}"), name)
    elif name.startswith("_") or name not in (kinds := _statistics()):
        raise AttributeError(f"module 'everhold' has no attribute {name!r}")
    else:
        found = kinds[name]
    globals()[name] = found
    return found


def _statistics() -> dict[str, Any]:
    statistics = import_module("everhold.statistics")
    return {kind.__name__: kind for kind in statistics.STATISTICS.values()}


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF, *_statistics()])
