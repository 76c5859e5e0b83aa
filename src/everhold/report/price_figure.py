"""A picture of what a score is worth: the intervals, and how they widen with the number of looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.plots import new_figure
from everhold.queries.price import price

if TYPE_CHECKING:
    from everhold.queries.price import Disclosure, ScorePrice

__all__ = ["draw_price"]

_COLOURS: dict[Disclosure, str] = {"nothing": "#047857", "fixed": "#2563eb", "kept": "#c2410c", "scores": "#6b7280"}
_NAMES: dict[Disclosure, str] = {
    "nothing": "one look",
    "fixed": "candidates fixed beforehand",
    "kept": "only “kept or not” was seen",
    "scores": "every score was seen",
}
_POINTS = 25


def draw_price(score_price: ScorePrice, path: str | Path) -> None:
    """Write the picture; the file's ending says which kind: png, svg, pdf.

    Raises:
        MissingExtra: without matplotlib.
        DataError: matplotlib does not know the kind of file.
    """
    figure = new_figure(path, (10.0, 4.2))
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    figure.suptitle(score_price.headline, x=0.01, ha="left", fontsize=12, fontweight="bold")
    _bars(left, score_price)
    _growth(right, score_price)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _bars(axes: Any, score_price: ScorePrice) -> None:
    for place, line in enumerate(score_price.lines):
        colour = _COLOURS[line.disclosed]
        axes.plot([line.interval.low, line.interval.high], [-place] * 2, color=colour, lw=7, solid_capstyle="butt")
        axes.plot([score_price.score], [-place], "o", color="white", mec=colour, ms=6)
        axes.annotate(
            line.name,
            (0.0, -place),
            (0, 9),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=colour,
            fontsize=9,
        )
    ends = [end for line in score_price.lines for end in (line.interval.low, line.interval.high)]
    margin = 0.03 * (max(ends) - min(ends))
    axes.set_xlim(min(ends) - margin, max(ends) + margin)
    axes.set_ylim(-len(score_price.lines) + 0.6, 0.6)
    axes.axvline(score_price.score, color="#9ca3af", lw=0.8, zorder=0)
    axes.set_yticks([])
    axes.set_xlabel(f"{'share of right rows' if score_price.low is None else 'mean'} in the population")
    axes.set_title(f"{score_price.rows:,} rows, confidence {score_price.confidence:g}", fontsize=10, loc="left")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _growth(axes: Any, score_price: ScorePrice) -> None:
    """Half-widths over the number of looks, with the same part of them kept."""
    most = max(score_price.looks * 10, 100)
    looks = sorted({*np.unique(np.geomspace(1, most, _POINTS).round().astype(int)).tolist(), score_price.looks})
    part = None if score_price.kept_looks is None else score_price.kept_looks / score_price.looks
    prices = [_again(score_price, number, None if part is None else round(part * number)) for number in looks]
    for line in score_price.lines:
        if line.disclosed == "scores":
            continue
        heights = [at_looks[line.disclosed].interval.half_width for at_looks in prices]
        axes.plot(looks, heights, color=_COLOURS[line.disclosed], lw=2, label=_NAMES[line.disclosed])
        axes.plot([score_price.looks], [line.interval.half_width], "o", color=_COLOURS[line.disclosed], ms=6)
    axes.set_xscale("log")
    axes.set_ylim(0, None)
    axes.set_xlabel("looks" + ("" if part is None else f", {100 * part:.0f} % of them kept"))
    axes.set_title("half-width of the interval", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _again(score_price: ScorePrice, looks: int, kept: int | None) -> ScorePrice:
    return price(
        rows=score_price.rows,
        looks=looks,
        kept=kept,
        score=score_price.score,
        confidence=score_price.confidence,
        low=score_price.low,
        high=score_price.high,
    )
