"""What a holdout is made of, put together: private rows, the public side, settings, one session over them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.overlap import require_independent
from everhold.data.sample import EngineName, Sample
from everhold.data.schema import Schema
from everhold.data.source import Frame, as_source
from everhold.data.table import RowTable
from everhold.errors import PrecisionExhausted, PriorError, ReferenceWarning, SettingError, outside
from everhold.ledger.journal import Journal
from everhold.mechanism.tolerance import Anytime, ToleranceInputs
from everhold.priors.pool import Prior
from everhold.priors.reference import Reference
from everhold.priors.split import Split
from everhold.queries.rng import fresh_seed, stream_rng
from everhold.session.outlook import small_reference
from everhold.session.private_setup import require_private_rows, require_private_setup
from everhold.session.public import PublicSide, build_mechanism
from everhold.session.session import Session
from everhold.session.settings import HoldoutOptions, Settings

if TYPE_CHECKING:
    from everhold.bounds.privacy import Privacy
    from everhold.mechanism.everhold import Everhold, EverholdProposal

__all__ = ["Setup", "new_setup"]


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """A session with everything that it was made from.

    Attributes:
        session: the private rows, the mechanism and the record.
        mechanism: of the session.
        public: the public side, made ready.
        settings: of the session.
        prior: as it was given.
        unit: the column that groups rows.
        split: the public fraction, where the reference was split off the private table.
    """

    session: Session[EverholdProposal]
    mechanism: Everhold
    public: PublicSide
    settings: Settings
    prior: Prior
    unit: str | None
    split: float | None

    @classmethod
    def start(
        cls,
        sample: Sample,
        public: PublicSide,
        settings: Settings,
        prior: Prior,
        unit: str | None,
        split: float | None,
        journal: Journal | None = None,
    ) -> Setup:
        """A session in its first state over these rows."""

        def build() -> Everhold:
            return build_mechanism(sample.size, public, settings)

        mechanism = build()
        session = Session(
            sample,
            build,
            kinds=public.schema.kinds,
            words=public.schema.words,
            public_rows=None if public.pool is None else public.pool.rows,
            journal=journal,
            texts_only=settings.privacy is not None,
            mechanism=mechanism,
        )
        return cls(session, mechanism, public, settings, prior, unit, split)


def new_setup(data: object, prior: Prior | Split | None, options: HoldoutOptions, privacy: Privacy | None = None) -> Setup:
    """A new session, from what a user gives. A reference that is much too small is worth a warning."""
    given: dict[str, Any] = dict(options)
    table_options = {name: given.pop(name, None) for name in ("schema", "unit", "memory_limit")}
    table_options["engine"] = given.pop("engine", "auto")
    seed = given.pop("seed", None)
    terms = None if privacy is None else privacy.terms
    settings = Settings(**given, seed=fresh_seed() if seed is None else seed, privacy=terms)
    setup = _setup_of(data, prior, settings, **table_options)
    _require_promise_for_one_ask(setup)
    pool = setup.public.pool
    if pool is not None and (advice := small_reference(setup.session.size, pool.draws)) is not None:
        warnings.warn(ReferenceWarning(advice), stacklevel=outside())
    return setup


def _setup_of(
    data: object,
    prior: Prior | Split | None,
    settings: Settings,
    *,
    schema: Schema | str | Path | None,
    unit: str | None,
    engine: EngineName,
    memory_limit: str | None,
) -> Setup:
    """A new session over these rows."""
    if not isinstance(prior, Prior | Split):
        given = "missing" if prior is None else f"of type {type(prior).__name__}"
        raise PriorError(
            f"the prior is {given}. Expected prior=eh.Reference(table), eh.Labels(...), eh.Marginals(...) or "
            "eh.Sampler(...): public rows, or a way to draw them; or eh.Split(0.5). For a file write "
            "prior=eh.Reference('last_year.csv')."
        )
    if settings.privacy is not None:
        require_private_setup(data, prior, schema)
    rows = as_source(data, what="the private table", private=True)
    split = None
    if isinstance(prior, Split):
        split = prior.fraction
        shown, rows = prior.divide(rows, stream_rng(settings.seed, "split"), unit)
        prior = Reference(shown.table())
    declared = Schema.load(schema) if schema is not None and not isinstance(schema, Schema) else schema
    public = PublicSide(prior, settings.seed, declared, unit)
    if declared is None:
        _require_same_columns(rows, public.columns)
    else:
        _require_possible_gaps(declared, public.columns)
    sample = Sample(rows, schema=public.schema, unit=unit, engine=engine, memory_limit=memory_limit)
    if settings.privacy is not None:
        require_private_rows(settings.privacy, rows, sample.size, unit)
    compare = settings.overlap == "refuse" and split is None and not getattr(prior, "exempt_from_overlap", False)
    if compare and public.pool is not None:
        require_independent(sample, public.pool.rows)
    return Setup.start(sample, public, settings, prior, unit, split)


def _require_promise_for_one_ask(setup: Setup) -> None:
    """Refuse a promised precision that not even the first ask could keep."""
    policy, pool = setup.settings.tolerance_policy(), setup.public.pool
    if isinstance(policy, Anytime) or pool is None:
        return
    others = setup.session.size - setup.settings.known_rows
    shift = 2.0 * setup.settings.known_rows / max(others, 1)
    try:
        policy.tolerance(ToleranceInputs(0.0, setup.mechanism.price, others, pool.draws, shift))
    except PrecisionExhausted as refusal:
        raise SettingError(
            f"this precision cannot be promised: the first question would be refused. {refusal} Expected a larger "
            "half_width; or leave it out, and read what must be precise."
        ) from None


def _require_possible_gaps(schema: Schema, public: RowTable) -> None:
    """Refuse to call a column complete that has gaps on the public side: they would count as values, without a word."""
    for name, declared in schema.items():
        if declared.missing or name not in public or public.kind(name) is None:
            continue
        column = public.column(name)
        if column.missing.any():
            raise SettingError(
                f"column {name!r} is declared without missing values (missing=False), and {column.missing.mean():.0%} of "
                "its public values are missing. A mean would count them as values. Expected missing=True."
            )


def _require_same_columns(rows: Any, public: RowTable) -> None:
    """Every question must make sense on both sides. Names and kinds only; both are public."""
    difference: str | None
    if isinstance(rows, Frame):
        difference = public.check_like(rows.table())
    else:
        shape = RowTable({name: np.zeros(1) for name in rows.usable}) if rows.usable else public
        names = RowTable({name: np.zeros(1) for name in public}) if len(public) else shape
        difference = names.check_like(shape)
    if difference is not None:
        raise PriorError(
            f"the prior {difference} Expected the same columns on both sides, so that every question can be asked of "
            "both. Declare the columns to use, which need not be all: schema=eh.Schema.propose(public_rows); in the shell "
            "`everhold schema PUBLIC_FILE --out schema.toml`, then --schema schema.toml. Or rename or drop columns. A "
            "unit's column, such as patient_id, need not be declared."
        )
