"""everhold: a holdout set that does not wear out.

Names are loaded when they are first used, so that `import everhold` costs little more than `import numpy`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everhold.version import VERSION

if TYPE_CHECKING:
    from everhold.bounds.plan import (
        Plan as Plan,
    )
    from everhold.bounds.plan import (
        plan as plan,
    )
    from everhold.client.aio import connect_async as connect_async
    from everhold.client.sync import connect as connect
    from everhold.contest.contest import Contest as Contest
    from everhold.data.examine import (
        Examination as Examination,
    )
    from everhold.data.examine import (
        examine as examine,
    )
    from everhold.data.schema import (
        ColumnSchema as ColumnSchema,
    )
    from everhold.data.schema import (
        Schema as Schema,
    )
    from everhold.errors import (
        AccessDenied as AccessDenied,
    )
    from everhold.errors import (
        DataError as DataError,
    )
    from everhold.errors import (
        EverholdError as EverholdError,
    )
    from everhold.errors import (
        HoldoutClosed as HoldoutClosed,
    )
    from everhold.errors import (
        LedgerBusy as LedgerBusy,
    )
    from everhold.errors import (
        LedgerError as LedgerError,
    )
    from everhold.errors import (
        MissingExtra as MissingExtra,
    )
    from everhold.errors import (
        PrecisionExhausted as PrecisionExhausted,
    )
    from everhold.errors import (
        PriorError as PriorError,
    )
    from everhold.errors import (
        QuestionError as QuestionError,
    )
    from everhold.errors import (
        ReplayError as ReplayError,
    )
    from everhold.errors import (
        RequestConflict as RequestConflict,
    )
    from everhold.errors import (
        SchemaWarning as SchemaWarning,
    )
    from everhold.errors import (
        ServerError as ServerError,
    )
    from everhold.errors import (
        SettingError as SettingError,
    )
    from everhold.learn.score import (
        Score as Score,
    )
    from everhold.learn.score import (
        Verdict as Verdict,
    )
    from everhold.learn.scorer import SearchStopped as SearchStopped
    from everhold.learn.testset import TestSet as TestSet
    from everhold.ledger.audit import Audit as Audit
    from everhold.ledger.journal import Journal as Journal
    from everhold.mechanism.aqa_ogd import AqaOgd as AqaOgd
    from everhold.mechanism.rules import (
        Corrective as Corrective,
    )
    from everhold.mechanism.rules import (
        Entropic as Entropic,
    )
    from everhold.mechanism.rules import (
        Gradient as Gradient,
    )
    from everhold.mechanism.tolerance import (
        Anytime as Anytime,
    )
    from everhold.mechanism.tolerance import (
        FixedPrecision as FixedPrecision,
    )
    from everhold.oracle import SQOracle as SQOracle
    from everhold.priors.labels import Labels as Labels
    from everhold.priors.marginals import (
        Marginals as Marginals,
    )
    from everhold.priors.marginals import (
        uniform as uniform,
    )
    from everhold.priors.reference import Reference as Reference
    from everhold.priors.sampler import (
        BitSampler as BitSampler,
    )
    from everhold.priors.sampler import (
        Sampler as Sampler,
    )
    from everhold.priors.split import Split as Split
    from everhold.queries.answer import (
        Answer as Answer,
    )
    from everhold.queries.answer import (
        Preview as Preview,
    )
    from everhold.queries.disclosed import Choice as Choice
    from everhold.queries.disclosed import Decision as Decision
    from everhold.queries.disclosed import Judgement as Judgement
    from everhold.queries.interval import Interval as Interval
    from everhold.queries.query import Values as Values
    from everhold.queries.request import Request as Request
    from everhold.session.holdout import Holdout as Holdout
    from everhold.session.session import Session as Session
    from everhold.statistics.finding import (
        Comparison as Comparison,
    )
    from everhold.statistics.finding import (
        Finding as Finding,
    )
    from everhold.statistics.finding import (
        Shares as Shares,
    )
    from everhold.statistics.means import *  # noqa: F403
    from everhold.statistics.quantiles import *  # noqa: F403
    from everhold.statistics.rehearsal import Rehearsal as Rehearsal
    from everhold.statistics.spread import *  # noqa: F403
    from everhold.statistics.tables import *  # noqa: F403

__version__ = VERSION

_PLACES = {
    "bounds.plan": ("Plan", "plan"),
    "client.aio": ("connect_async",),
    "client.sync": ("connect",),
    "contest.contest": ("Contest",),
    "data.examine": ("Examination", "examine"),
    "data.schema": ("ColumnSchema", "Schema"),
    "errors": (
        "AccessDenied",
        "DataError",
        "EverholdError",
        "HoldoutClosed",
        "LedgerBusy",
        "LedgerError",
        "MissingExtra",
        "PrecisionExhausted",
        "PriorError",
        "QuestionError",
        "ReferenceWarning",
        "ReplayError",
        "RequestConflict",
        "SchemaWarning",
        "ServerError",
        "SettingError",
    ),
    "learn.score": ("Score", "Verdict"),
    "learn.scorer": ("SearchStopped",),
    "learn.testset": ("TestSet",),
    "ledger.audit": ("Audit",),
    "ledger.journal": ("Journal",),
    "mechanism.aqa_ogd": ("AqaOgd",),
    "mechanism.rules": ("Corrective", "Entropic", "Gradient"),
    "mechanism.tolerance": ("Anytime", "FixedPrecision"),
    "oracle": ("SQOracle",),
    "priors.labels": ("Labels",),
    "priors.marginals": ("Marginals", "uniform"),
    "priors.reference": ("Reference",),
    "priors.sampler": ("BitSampler", "Sampler"),
    "priors.split": ("Split",),
    "queries.answer": ("Answer", "Preview"),
    "queries.disclosed": ("Choice", "Decision", "Judgement"),
    "queries.interval": ("Interval",),
    "queries.query": ("Values",),
    "queries.request": ("Request",),
    "session.holdout": ("Holdout",),
    "session.session": ("Session",),
    "statistics.finding": ("Comparison", "Finding", "Shares"),
    "statistics.rehearsal": ("Rehearsal",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, at its first use; every statistic is one."""
    if name == "__all__":
        return sorted([*_PLACE_OF, *_statistics()])
    if name in _PLACE_OF:
        found = getattr(import_module(f"everhold.{_PLACE_OF[name]}"), name)
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
    return sorted([*globals(), *_PLACE_OF, *_statistics()])
