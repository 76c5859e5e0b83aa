"""What a private study needs of its rows, its prior and its questions, and refuses otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.data.duckdb_files import Files
from everhold.data.source import Frame
from everhold.errors import DataError, PrivacyError, SettingError
from everhold.priors.split import Split
from everhold.queries.expression import BoundedMean, Expression
from everhold.queries.expression.composites import COMPOSITES
from everhold.queries.expression.question import without_values
from everhold.queries.query import Query, RowValues
from everhold.statistics import is_statistic

if TYPE_CHECKING:
    from everhold.bounds.privacy import PrivacyTerms
    from everhold.data.source import Source

__all__ = ["require_private_rows", "require_private_setup", "require_text_question"]


def require_private_setup(data: object, prior: object, schema: object) -> None:
    """Refuse what no noise can make private, before a row is read."""
    if isinstance(prior, Split):
        raise SettingError(
            "eh.Split makes a part of the private rows public, which no privacy can undo. Expected public rows from "
            "elsewhere: eh.Reference(...), eh.Labels(...), eh.Marginals(...) or eh.Sampler(...), none of them made from "
            "the private rows."
        )
    if schema is None:
        raise SettingError(
            "a private study needs a declared schema: schema=eh.Schema.propose(public_rows), checked by you, or its file. "
            "In the shell `everhold schema PUBLIC_FILE --out schema.toml` writes one for --schema. "
            "What a value means must not depend on the other rows."
        )
    if isinstance(data, int | np.integer):
        raise SettingError(
            "a private study answers questions given as text, and needs the rows themselves. Expected a file, a frame, or a "
            "mapping of columns."
        )


def require_private_rows(terms: PrivacyTerms, rows: Source, size: int, unit: str | None) -> None:
    """Refuse a δ that is too large for so many rows, and rows without a value of the unit. For the custodian alone."""
    if terms.promise.delta >= 1.0 / size:
        raise SettingError(
            f"delta is {terms.promise.delta:g} for {size:,} private rows. Expected far less than 1/{size:,}: a mechanism "
            "that publishes one row at random has a delta of 1/rows."
        )
    if not isinstance(rows, Files | Frame):
        raise SettingError(
            "a private study reads rows in memory or in files: how much one row can move a sum in another engine, and what "
            "its errors say, is not tested. Expected CSV or Parquet files, a frame or a mapping of columns."
        )
    if unit is not None and rows.unnamed_units(unit):
        raise DataError(
            f"column {unit!r} has rows without a value. Expected the person (or other unit) of every row: rows of nobody "
            "could be several rows of one person, and privacy is promised for each person."
        )


def require_text_question(question: object) -> None:
    """Refuse callables and given values: what they do with all rows together cannot be known."""
    if isinstance(question, (str, RowValues, *COMPOSITES)) or is_statistic(question):
        return
    if isinstance(question, Query) and isinstance(without_values(question), Expression | BoundedMean):
        return
    raise PrivacyError(
        "a private study takes questions given as text, and statistics: their value on a row depends on that row alone. A "
        'callable or eh.Values(...) could depend on all rows. Expected text such as "age > 40". Nothing was charged.'
    )
