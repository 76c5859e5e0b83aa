"""The public side of a session, made ready: rows as declared, and the mechanism over them."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from everhold.data.schema import Schema
from everhold.data.units import Units
from everhold.errors import SettingError
from everhold.mechanism.estimator import Draws, FreshEstimator, PoolEstimator
from everhold.mechanism.everhold import Everhold
from everhold.mechanism.private import PrivateEverhold
from everhold.mechanism.tolerance import Anytime
from everhold.priors.pool import Pool, Prior
from everhold.queries.rng import stream_rng
from everhold.statistics.declared import DeclaredColumns

if TYPE_CHECKING:
    from everhold.data.table import RowTable
    from everhold.session.settings import Settings

__all__ = ["PublicSide", "build_mechanism", "declared_columns"]

_LOOK_AT = 2048  # fresh rows that a schema is proposed from


class PublicSide:
    """The prior made ready: a pool drawn once, or a way to draw; its rows as the schema declares them."""

    def __init__(self, prior: Prior, seed: int, schema: Schema | None, unit: str | None) -> None:
        self._prior = prior
        self._declared = schema
        self.unit = unit
        self.density = prior.density
        self.pool: Pool | None = None if prior.fresh else self._conformed(prior.pool(stream_rng(seed, "pool")))
        self.columns: RowTable = (self.pool or self.draw_pool(stream_rng(seed, "columns"), _LOOK_AT)).rows
        self.schema = schema if schema is not None else Schema.propose(self.columns, unit=unit)
        if unit is not None:
            self.pool = self._by_unit(unit)

    def _conformed(self, pool: Pool) -> Pool:
        if self._declared is None:
            return pool
        return Pool(self._declared.conform(pool.rows, what="the prior"), pool.weights, pool.draws)

    def _by_unit(self, unit: str) -> Pool:
        if self.pool is None or self.pool.weights is not None:
            raise SettingError("unit=... works with a prior of fixed rows without weights: eh.Reference(...) or eh.Split().")
        rows = self.pool.rows.by_unit(unit) if unit in self.pool.rows else None
        if rows is None:
            rows = self.pool.rows.take(np.arange(self.pool.rows.row_count))
            rows.units = Units(np.arange(rows.row_count), rows.row_count)
        return Pool(rows, None, float(rows.size))

    def draw_pool(self, rng: np.random.Generator, size: int) -> Pool:
        """Fresh rows, as declared."""
        return self._conformed(self._prior.draw(rng, size))

    def draw(self, rng: np.random.Generator, size: int) -> Draws:
        """Fresh rows for an estimator."""
        return Draws.of(self.draw_pool(rng, size))


def build_mechanism(rows: int, public: PublicSide, settings: Settings) -> Everhold:
    """Everhold's mechanism in its first state."""
    rule = settings.make_rule(public.density)
    estimator: PoolEstimator | FreshEstimator
    if public.pool is not None:
        estimator = PoolEstimator(Draws.of(public.pool), rule)
    else:
        estimator = FreshEstimator(public.draw, rule, seed=settings.seed, accuracy=2.0 / sqrt(rows))
    if settings.privacy is not None:
        return PrivateEverhold(
            rows=rows,
            estimator=estimator,
            terms=settings.privacy,
            policy=settings.tolerance if isinstance(settings.tolerance, Anytime) else None,
            failure_probability=1.0 - settings.confidence,
            known_rows=settings.known_rows,
            horizon=settings.rounds,
            units=public.unit is not None,
        )
    return Everhold(
        rows=rows,
        estimator=estimator,
        policy=settings.tolerance_policy(),
        failure_probability=1.0 - settings.confidence,
        known_rows=settings.known_rows,
        horizon=settings.rounds,
        units=public.unit is not None,
    )


def declared_columns(mechanism: Everhold, schema: Schema, most_cells: int) -> DeclaredColumns:
    """The declared columns, with what statistics may know of the public side: the prior, which never changes."""
    return DeclaredColumns(
        schema, most_cells, mechanism.composites, lambda query: 0.5 * (1.0 + mechanism.prior(query)), mechanism.draws
    )
