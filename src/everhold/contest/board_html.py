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
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem;"
    "color:#111;background:#fff}table{border-collapse:collapse;width:100%}th,td{padding:.35rem .6rem;text-align:left;"
    "border-bottom:1px solid #ccc;font-variant-numeric:tabular-nums}td.n,th.n{text-align:right}.bar{stroke:#1d4ed8}"
    ".dot{fill:#1d4ed8}.axis{stroke:#999}.note{color:#444}.wide{overflow-x:auto}.nowrap{white-space:nowrap}"
    "caption{text-align:left;caption-side:bottom;padding-top:.3rem;color:#444}svg{display:block;max-width:100%}"
    "h1,p,.first{overflow-wrap:anywhere}td.n{white-space:nowrap}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}th,td{border-color:#444}.bar{stroke:#8ab4ff}"
    ".dot{fill:#8ab4ff}.note,caption{color:#bbb}}"
    # As on a server's page: on a narrow screen every line of the table is a block, and nothing is cut off.
    "@media(max-width:40rem){.stack thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}"
    ".stack,.stack tbody,.stack tr,.stack td{display:block;width:auto}"
    ".stack tr{padding:.5rem 0;border-bottom:1px solid #ccc}"
    ".stack td,.stack td.n{border:0;padding:.1rem 0;text-align:left;white-space:normal}"
    ".stack td[data-label]{display:flex;flex-wrap:wrap;gap:0 .6rem;align-items:baseline}"
    ".stack td[data-label]::before{content:attr(data-label);font-size:.85rem;min-width:6.5rem}"
    ".stack caption{display:block}.stack .first{font-weight:600}}"
)


def board_table(board: Board) -> str:
    """Ranks, and intervals drawn to one scale. Why somebody is not ranked is for that entrant alone, and not here."""
    places = board.places
    low = min((place.low for place in places), default=0.0)
    high = max((place.high for place in places), default=1.0)
    rows = "".join(
        f"<tr><td class='n' data-label='rank'>{place.rank_text}</td><td class='first'>{escape(place.entrant)}</td>"
        f"<td class='n' data-label='score'>{place.value:.4g}</td><td data-label='basis'>{place.basis}</td>"
        f"<td class='nowrap' data-label='interval'>{with_to(str(Interval(place.low, place.high)))}</td>"
        f"<td class='drawn'>{interval_svg(place.value, place.low, place.high, bottom=low, top=high, wide=160.0)}</td>"
        f"<td class='n' data-label='certified better than'>{place.beats:,} of {place.others:,}</td>"
        f"<td class='n' data-label='counts'>round {place.round:,}</td>"
        f"<td class='n' data-label='submissions'>{place.submissions:,}</td></tr>"
        for place in places
    )
    drawn = f"<caption>Intervals are drawn from {low:.4g} to {high:.4g}.</caption>" if places else ""
    empty = "" if rows else "<tr><td colspan='9'>No submission was scored yet.</td></tr>"
    return (
        f"<table class='stack'>{drawn}<thead><tr><th class='n'>rank</th><th>entrant</th><th class='n'>score</th>"
        "<th>basis</th><th>interval</th><th>drawn</th><th class='n'>certified better than</th>"
        "<th class='n'>counts</th><th class='n'>submissions</th></tr></thead>"
        f"<tbody>{rows}{empty}</tbody></table>"
    )


def board_html(board: Board) -> str:
    """A page that stands alone: the table, who is not in it, and what it all means."""
    names = ", ".join(escape(entrant) for entrant, _ in board.unranked)
    unranked = f"<p>Not ranked, because nothing of theirs has a score of its own: {names}.</p>" if names else ""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(board.title)}</title><style>{_STYLE}</style></head><body><h1>{escape(board.title)}</h1>"
        f"<p class='note'>{'Final ranks. ' if board.final else ''}Scored by {escape(board.metric)}, "
        f"{'larger' if board.larger_is_better else 'smaller'} is better. {escape(RANKS_SAY)}</p>"
        f"<div class='wide'>{board_table(board)}</div>{unranked}"
        f"<p class='note'>{escape(board.reveals)}</p>"
        f"<p class='note'>Ledger head {escape(board.head or 'not shown')}: the number of records and the hash of the last. "
        "Who notes it can find out later whether records were changed or removed.</p></body></html>\n"
    )
