"""A contest's board as a page that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from everhold.contest.board import RANKS_SAY
from everhold.queries.interval import Interval
from everhold.report.interval_svg import interval_svg
from everhold.report.percent import with_to

if TYPE_CHECKING:
    from everhold.contest.board import Board

__all__ = ["board_html", "board_table"]

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#111;background:#fff}table{border-collapse:collapse;width:100%}th,td{padding:.35rem .6rem;text-align:left;"
    "border-bottom:1px solid #ccc;font-variant-numeric:tabular-nums}td.n,th.n{text-align:right}.bar{stroke:#1d4ed8}"
    ".dot{fill:#1d4ed8}.axis{stroke:#999}.note{color:#444}.wide{overflow-x:auto}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}th,td{border-color:#444}.bar{stroke:#8ab4ff}"
    ".dot{fill:#8ab4ff}.note{color:#bbb}}"
)


def board_table(board: Board) -> str:
    """Ranks, and intervals drawn to one scale. Why somebody is not ranked is for that entrant alone, and not here."""
    places = board.places
    low = min((place.low for place in places), default=0.0)
    high = max((place.high for place in places), default=1.0)
    rows = "".join(
        f"<tr><td class='n' data-label='rank'>{place.rank_text}</td><td class='first'>{escape(place.entrant)}</td>"
        f"<td class='n' data-label='score'>{place.value:.4g}</td>"
        f"<td class='nowrap' data-label='interval'>{with_to(str(Interval(place.low, place.high)))}</td>"
        f"<td class='drawn'>{interval_svg(place.value, place.low, place.high, bottom=low, top=high, wide=160.0)}</td>"
        f"<td class='n' data-label='certified better than'>{place.beats:,} of {place.others:,}</td>"
        f"<td class='n' data-label='submissions'>{place.submissions:,}</td></tr>"
        for place in places
    )
    empty = "" if rows else "<tr><td colspan='7'>No submission was scored yet.</td></tr>"
    return (
        "<table class='stack'><thead><tr><th class='n'>rank</th><th>entrant</th><th class='n'>score</th>"
        "<th>interval</th><th></th><th class='n'>certified better than</th><th class='n'>submissions</th></tr></thead>"
        f"<tbody>{rows}{empty}</tbody></table>"
    )


def board_html(board: Board) -> str:
    """A page that stands alone: the table, and what it all means."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(board.rules.title)}</title><style>{_STYLE}</style></head><body><h1>{escape(board.rules.title)}</h1>"
        f"<p class='note'>{'Final ranks. ' if board.final else ''}Scored by {escape(board.rules.metric)}, "
        f"{'larger' if board.rules.larger_is_better else 'smaller'} is better. {escape(RANKS_SAY)}</p>"
        f"<div class='wide'>{board_table(board)}</div>"
        f"<p class='note'>{escape(board.rules.reveals)}</p>"
        f"<p class='note'>Ledger head {escape(board.head)}, price so far {board.price:.1f} nats.</p></body></html>\n"
    )
