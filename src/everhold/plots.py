"""Pictures of results by matplotlib, in one look. Axes are drawn around the intervals; the full range is context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from everhold.errors import DataError, MissingExtra, SettingError
from everhold.results import axis_around, moment_text

if TYPE_CHECKING:
    from everhold.results import Estimate

__all__ = ["Point", "draw_session", "forest", "legend", "new_figure", "panels", "session_figure", "widths_figure"]

_QUIET, _SURPRISE, _READ, _PRICE, _GREY = "#2563eb", "#c2410c", "#7c3aed", "#047857", "#9ca3af"
_MOST_LINES = 200
_WIDEST_LABEL = 44  # letters beside a picture


class Point(NamedTuple):
    """One answer of a session, on the scale from 0 to 1.

    Attributes:
        kind: 'quiet', 'surprise' or 'read'.
    """

    round: int
    value: float
    low: float
    high: float
    price: float
    kind: str

    @classmethod
    def of(cls, share: Any) -> Point:
        """An answer on the scale of a share: `answer.as_share()`."""
        kind = "surprise" if share.surprise else "quiet" if share.act == "ask" else "read"
        return cls(share.round, share.value, share.low, share.high, share.price, kind)


def _axes(
    ax: Any, wide: float, high: float, rows: int = 1, ratios: Sequence[float] | None = None, *, shared: bool = True
) -> list[Any]:
    """New axes, or the given one. No window is opened, and pyplot is used only where the caller already does."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("a plot", "plot")
    if ax is not None:
        return _given(ax)
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        rows, 1, figsize=(wide, high), layout="constrained", sharex=shared and rows > 1, height_ratios=ratios, squeeze=False
    )
    del figure
    return [row[0] for row in axes]


def _given(ax: Any) -> list[Any]:
    """A caller's axes, one or several."""
    axes = list(ax) if isinstance(ax, list | tuple) else [ax]
    for one in axes:
        if not hasattr(one, "set_xlim"):
            hint = " To write a file: plot().figure.savefig('FILE.png')." if isinstance(one, str | PathLike) else ""
            raise SettingError(f"ax is {one!r}. Expected axes of matplotlib, or nothing for a new figure.{hint}")
    return axes


def _plain(ax: Any) -> None:
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(length=0)


def _label(result: Any, index: int) -> str:
    for name in ("label", "question", "what", "metric", "name"):
        if isinstance(found := getattr(result, name, None), str) and found:
            return found
    return f"round {result.round}" if getattr(result, "round", 0) else f"{index + 1}"


def forest(
    results: Mapping[str, Any] | Iterable[Any] | Estimate,
    *,
    labels: Sequence[str] | None = None,
    title: str = "",
    reference: float | None = None,
    ax: Any = None,
) -> Any:
    """A forest plot: a line for each result, with its value and its interval. Returns the axes.

    Args:
        results: answers, findings, scores, tables, or any of these by name. Shares, dates and numbers have panels of their
            own where no axes are given.
        labels: of the lines; by default what was asked.
        title: above the picture.
        reference: a value to compare with, drawn as a line.
        ax: matplotlib's axes to draw in; by default a new figure.
    """
    names, shown = _lines(results)
    names = names if labels is None else [str(label) for label in labels]
    if len(names) != len(shown):
        raise SettingError(f"there are {len(names)} labels for {len(shown)} results. Expected one for each.")
    if not shown or not all(hasattr(result, "low") and hasattr(result, "high") for result in shown):
        raise SettingError("a forest plot needs results with intervals: answers, findings, scores or a table by groups.")
    if len(shown) > _MOST_LINES:
        raise SettingError(f"there are {len(shown):,} results; a forest plot has room for {_MOST_LINES}.")
    if ax is None and len(kinds := list(dict.fromkeys(map(_scale, shown)))) > 1:
        places = [[place for place, result in enumerate(shown) if _scale(result) == kind] for kind in kinds]
        axes = panels([len(group) for group in places])
        for number, (group, panel) in enumerate(zip(places, axes, strict=True)):
            lines = {place: shown[place] for place in group}
            _draw(panel, list(lines.values()), [names[place] for place in lines], "" if number else title, reference)
        return axes[0]
    (ax,) = _axes(ax, 7.0, 0.9 + 0.32 * len(shown))
    return _draw(ax, shown, names, title, reference)


def _lines(results: Any) -> tuple[list[str], list[Any]]:
    """Names and results, one for each line; a table is a line for each of its cells."""
    if hasattr(results, "low") and hasattr(results, "high"):
        results = [results]
    entries = results.items() if isinstance(results, Mapping) else [(None, result) for result in results]
    names, shown = [], []
    for index, (name, result) in enumerate(entries):
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], tuple):  # from a table
            name, result = " × ".join(result[0]), result[1]
        if hasattr(result, "labels") and hasattr(result, "cells"):
            inside = [(" × ".join(label), cell) for label, cell in zip(result.labels, result.cells, strict=True)]
            names += [f"{name or _label(result, index)}: {label}" for label, _ in inside]
            shown += [cell for _, cell in inside]
        else:
            names.append(_label(result, index) if name is None else str(name))
            shown.append(result)
    return names, shown


def _scale(result: Any) -> str:
    """What shares an axis: shares, dates, and numbers with one unit."""
    if isinstance(unit := getattr(result, "axis", None), str):
        return unit
    if getattr(result, "unit", None) == "date":
        return "date"
    return "share" if getattr(result, "scale", None) == "share" else "number"


def _draw(ax: Any, shown: Sequence[Any], names: Sequence[str], title: str, reference: float | None) -> Any:
    left, right = axis_around([(result.low, result.high) for result in shown])
    if all(_scale(result) == "share" for result in shown):
        left, right = max(left, 0.0), min(right, 1.0)
    if reference is not None:
        left, right = min(left, reference), max(right, reference)
        ax.axvline(reference, color=_GREY, linewidth=1, zorder=0)
    for place, result in enumerate(shown):
        colour = _SURPRISE if getattr(result, "surprise", False) else _QUIET
        ends = [max(result.low, left), min(result.high, right)]
        ax.plot(ends, [place, place], color=colour, linewidth=3, alpha=0.5, solid_capstyle="butt")
        for end, marker in zip((result.low, result.high), ("<", ">"), strict=True):
            if not isfinite(end):  # open: the arrow says that it goes on
                ax.plot([left if end < 0 else right], [place], marker=marker, color=colour, markersize=5)
        if result.value == result.value:
            inside = "white" if getattr(result, "is_forecast", False) else colour
            ax.plot([result.value], [place], marker="o", color=colour, markerfacecolor=inside, markersize=6)
    ax.set_yticks(range(len(shown)), [_cut(name) for name in names])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlim(left, right)
    if all(getattr(result, "unit", None) == "date" for result in shown):
        ax.set_xticks([left + part * (right - left) / 3 for part in range(4)])
        ax.xaxis.set_major_formatter(lambda micros, _: moment_text(micros))
    ax.grid(axis="x", color="#e5e7eb")
    ax.set_axisbelow(True)
    if title:
        ax.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    _plain(ax)
    return ax


def _cut(name: str) -> str:
    """A label with room for the picture beside it."""
    return name if len(name) <= _WIDEST_LABEL else f"{name[: _WIDEST_LABEL // 2]} … {name[-_WIDEST_LABEL // 2 + 3 :]}"


def panels(lines: Sequence[int]) -> list[Any]:
    """New axes, one below the other, each with room for so many lines of a forest plot and a scale of its own."""
    high = 0.4 + sum(0.7 + 0.32 * count for count in lines)
    return _axes(None, 7.0, high, len(lines), [1.0 + count for count in lines], shared=False)


def legend(ax: Any, sources: Sequence[str]) -> None:
    """Below a forest plot of scores: what colours and hollow marks say of where a value comes from."""
    from matplotlib.lines import Line2D

    marks = []
    for source in sources:
        colour = _SURPRISE if source in ("surprise", "partly forecast", "charged") else _QUIET
        inside = "white" if "forecast" in source else colour
        marks.append(Line2D([], [], color=colour, marker="o", markerfacecolor=inside, linewidth=3, alpha=0.8, label=source))
    below = -0.4 / (0.32 * (ax.get_ylim()[0] + 0.5) + 0.3)  # under the numbers of the axis, however high the panel is
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, below), ncols=4, frameon=False, fontsize="small")


def session_figure(points: Sequence[Point], *, title: str = "", ax: Any = None) -> Any:
    """Answers with their intervals over rounds, and the price below them. Returns the axes of the answers.

    `ax`: matplotlib's axes of the answers, or a pair: of the answers and of the price.
    """
    axes = _axes(ax, 9.0, 5.0, 2, (3.0, 1.0))
    top = axes[0]
    for kind, colour, words in (
        ("quiet", _QUIET, "answered from the sketch"),
        ("surprise", _SURPRISE, "surprise"),
        ("read", _READ, "private reading"),
    ):
        shown = [point for point in points if point.kind == kind]
        if shown:
            rounds = [point.round for point in shown]
            top.vlines(
                rounds, [point.low for point in shown], [point.high for point in shown], color=colour, alpha=0.5, linewidth=2
            )
            top.plot(rounds, [point.value for point in shown], "o", color=colour, markersize=4, label=words)
    if points:
        top.set_ylim(*axis_around([(point.low, point.high) for point in points], 0.0, 1.0))
        top.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, frameon=False, fontsize="small")
    top.set_ylabel("share; numbers: place in their range")
    top.grid(axis="y", color="#e5e7eb")
    if title:
        top.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    _plain(top)
    if len(axes) > 1:
        low = axes[1]
        low.plot([point.round for point in points], [point.price for point in points], color=_PRICE, linewidth=2)
        low.set_ylim(0.0, 1.1 * max([point.price for point in points], default=1.0))
        low.set_ylabel("price, nats")
        low.set_xlabel("round")
        low.grid(axis="y", color="#e5e7eb")
        _plain(low)
    return top


def draw_session(points: Sequence[Point], path: Path, *, title: str = "") -> None:
    """The session's picture in a file, whose ending says which kind: png, svg, pdf."""
    figure = new_figure(path, (9.0, 5.0))
    session_figure(points, title=title, ax=list(figure.subplots(2, 1, sharex=True, height_ratios=(3.0, 1.0))))
    figure.savefig(path, dpi=150)


def new_figure(path: str | Path, size: tuple[float, float]) -> Any:
    """A figure of matplotlib for a file, without a window.

    Raises:
        MissingExtra: without matplotlib.
        DataError: matplotlib does not know the kind of file.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtra("a picture", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    if Path(path).suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        raise DataError(f"{path} is no picture that can be drawn. Expected a name that ends in .png, .svg or .pdf.")
    return figure


def widths_figure(widths: Mapping[str, float], *, chosen: str = "", title: str = "", ax: Any = None) -> Any:
    """Half-widths side by side, narrowest first; what says nothing is left out. Returns the axes."""
    shown = sorted(((name, width) for name, width in widths.items() if width < 0.5), key=lambda entry: entry[1])
    (ax,) = _axes(ax, 7.0, 0.9 + 0.36 * max(len(shown), 1))
    for place, (name, width) in enumerate(shown):
        ax.barh([place], [width], color=_QUIET if name == chosen else _GREY, height=0.6)
        ax.annotate(f" ±{width:.3g}", (width, place), va="center", fontsize="small")
    ax.set_yticks(range(len(shown)), [name for name, _ in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.2 * max((width for _, width in shown), default=1.0))
    ax.set_xlabel("half-width")
    if title:
        ax.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    _plain(ax)
    return ax
