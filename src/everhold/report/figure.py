"""The figure of a session as SVG: answers with intervals over rounds, surprises, and the price."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.ledger.reader import LoggedRound

__all__ = ["session_svg"]

_WIDE, _LEFT, _RIGHT = 900, 66, 20
_TOP, _HIGH, _GAP, _PRICE = 34, 300, 46, 110
_SLIM = 600  # below this the legend stands under the picture
_PLACES = "numbers that are no shares: where they lie within their declared range"
_MOST = 2000  # rounds to draw; of more, every surprise and evenly spaced others


def session_svg(
    rounds: Sequence[LoggedRound],
    *,
    title: str = "",
    budget: float | None = None,
    most_drawn: int = _MOST,
    wide: int = _WIDE,
) -> str:
    """A self-contained picture of all rounds that follows the reader's colour scheme.

    Shares are drawn from 0 to 1; means of numbers, which are in [-1, 1], at (1 + mean)/2.

    Args:
        rounds: the rounds.
        title: the title above the picture.
        budget: the price at which a promised precision is used up, drawn as a line above the price so far.
        most_drawn: the largest number of rounds to draw; of more, every surprise and evenly spaced others.
        wide: the width in pixels; in a narrow picture the legend stands below.
    """
    slim = wide < _SLIM
    drawn = _thinned(rounds, most_drawn)
    last = max([logged.answer.round for logged in rounds], default=1)
    bottom = _TOP + _HIGH
    price_top, price_bottom = bottom + _GAP, bottom + _GAP + _PRICE
    most = max([*(logged.answer.price for logged in rounds), budget or 1.0]) * 1.05

    def x(number: float) -> float:
        return _LEFT + (wide - _LEFT - _RIGHT) * (number - 0.5) / last

    def y(value: float) -> float:
        return _TOP + _HIGH * (1.0 - value)

    def p(nats: float) -> float:
        return price_bottom - _PRICE * nats / most

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {price_bottom + (100 if slim else 40)}" role="img" '
        f'aria-label="{escape(_summary(rounds), quote=True)}" font-family="system-ui, sans-serif" font-size="13">',
        "<style>.s-ink{fill:#1f2937}.s-line{stroke:#9ca3af}.s-quiet{stroke:#2563eb;fill:#2563eb}.s-surprise{stroke:#c2410c;"
        "fill:#c2410c}.s-read{stroke:#7c3aed;fill:#7c3aed}.s-price{stroke:#047857;fill:none}"
        "@media (prefers-color-scheme: dark){.s-ink{fill:#e5e7eb}.s-line{stroke:#4b5563}"
        ".s-quiet{stroke:#60a5fa;fill:#60a5fa}.s-surprise{stroke:#fb923c;fill:#fb923c}.s-read{stroke:#c4b5fd;fill:#c4b5fd}.s-price{stroke:#34d399}}</style>",
        f'<text class="s-ink" x="{_LEFT}" y="20" font-weight="600">{escape(title)}</text>',
    ]
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_rule(y(value), wide))
        parts.append(
            f'<text class="s-ink" x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{100 * value:g} %</text>'
        )
    width = max(0.6, min(4.0, (wide - _LEFT - _RIGHT) / (2.0 * max(len(drawn), 1))))
    for logged in drawn:
        answer = logged.answer.as_share()
        kind = "s-surprise" if answer.surprise else "s-quiet" if answer.act == "ask" else "s-read"
        at = x(answer.round)
        label = f"round {answer.round}: {logged.question} = {answer.value:.4g} in {answer.interval}"
        dot = f'<circle cx="{at:.1f}" cy="{y(answer.value):.1f}" r="{max(1.6, width):.1f}" stroke="none"/>'
        parts.append(
            f'<g class="{kind}"><title>{escape(label)}</title><line x1="{at:.1f}" x2="{at:.1f}" y1="{y(answer.low):.1f}" '
            f'y2="{y(answer.high):.1f}" stroke-width="{width:.1f}" opacity="0.55"/>'
            f"{dot if answer.value == answer.value else ''}</g>"
        )
    if any(logged.answer.scale == "mean" for logged in rounds):
        words = "others than shares: place in their range" if slim else _PLACES
        parts.append(f'<text class="s-ink" x="{wide - _RIGHT}" y="{bottom + 18}" text-anchor="end">{words}</text>')
    parts.append(f'<text class="s-ink" x="{_LEFT}" y="{price_top - 10}">price in nats</text>')
    if budget is not None:
        parts.append(f'<g class="s-surprise" stroke-dasharray="6 4">{_rule(p(budget), wide, "s-end")}</g>')
        parts.append(f'<text class="s-ink" x="{wide - _RIGHT}" y="{p(budget) - 5:.1f}" text-anchor="end">used up at</text>')
    for nats in (0.0, most / 1.05):
        parts.append(_rule(p(nats), wide))
        parts.append(f'<text class="s-ink" x="{_LEFT - 8}" y="{p(nats) + 4:.1f}" text-anchor="end">{nats:.0f}</text>')
    if drawn:
        points = " ".join(f"{x(logged.answer.round):.1f},{p(logged.answer.price):.1f}" for logged in drawn)
        parts.append(f'<polyline class="s-price" points="{points}" stroke-width="2"/>')
    foot = price_bottom + 22
    parts.append(f'<text class="s-ink" x="{_LEFT}" y="{foot}">round 1</text>')
    parts.append(f'<text class="s-ink" x="{wide - _RIGHT}" y="{foot}" text-anchor="end">round {last:,}</text>')
    marks = (("s-quiet", "answered from the sketch"), ("s-surprise", "surprise"), ("s-read", "private reading"))
    places = [(_LEFT + 6, foot + 20 + 20 * k) for k in range(3)] if slim else [(wide - 480 + k, 14) for k in (0, 200, 300)]
    for (kind, label), (across, down) in zip(marks, places, strict=True):
        parts.append(f'<circle class="{kind}" cx="{across}" cy="{down}" r="5"/>')
        parts.append(f'<text class="s-ink" x="{across + 10}" y="{down + 5}">{label}</text>')
    return "".join([*parts, "</svg>"])


def _rule(height: float, wide: int, kind: str = "s-line") -> str:
    ends = f'x1="{_LEFT}" x2="{wide - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"'
    return f'<line class="{kind}" {ends} stroke-width="{0.5 if kind == "s-line" else 1.5}"/>'


def _summary(rounds: Sequence[LoggedRound]) -> str:
    surprises = sum(logged.answer.surprise for logged in rounds)
    return f"{len(rounds):,} answers with their intervals over rounds, {surprises:,} of them surprises, and the price below"


def _thinned(rounds: Sequence[LoggedRound], most: int) -> list[LoggedRound]:
    if len(rounds) <= most:
        return list(rounds)
    step = len(rounds) / most
    kept = {int(index * step) for index in range(most)} | {
        index for index, logged in enumerate(rounds) if logged.answer.surprise
    }
    return [rounds[index] for index in sorted(kept)]
