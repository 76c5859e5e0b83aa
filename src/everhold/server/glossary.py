"""Words that the page explains beside its numbers, as the glossary in docs/glossary.md has them."""

from __future__ import annotations

import re
from html import escape

from markupsafe import Markup

__all__ = ["GLOSSARY", "TEXTS"]

TEXTS = {
    "Forecast": (
        "What the public side expects of a question. It comes from the *sketch*, everhold's public estimate of the "
        "data, which starts as the prior and learns from every surprise and reading. With `expect=` you give a "
        "forecast of your own instead."
    ),
    "Ask": (
        "To ask is to check a forecast against the private rows. If they agree within the *tolerance*, the answer is "
        "the forecast: the ask is *quiet* and costs very little. everhold chooses the tolerance from the number of "
        "rows: for a share about one percentage point with 20,000 rows, half of that with 100,000."
    ),
    "Surprise": (
        "An ask whose forecast differs from the private rows by more than the tolerance. The answer then uses the "
        "private rows, rounded, and it costs several nats."
    ),
    "Reading": (
        "The private rows' own value, up to rounding, with a narrow interval (`read`, `read_many`). What is disclosed is "
        "a *cell*, a short range that contains the value, and that makes later intervals wider."
    ),
    "Interval": (
        "The range `[low, high]` that comes with each answer. All intervals of a session are *simultaneously valid*: "
        "with the session's confidence (95 % unless you choose another), every one of them contains the true value in "
        "the population, however the questions were chosen."
    ),
    "Price": (
        "The number that an interval is computed with (`answer.price`): it grows with what was disclosed before it, "
        "and the smaller the part of the failure probability is that it may spend. The higher the price, the wider "
        "the interval. Its unit is the *nat*, a unit of information: 1 nat is about 1.44 bits."
    ),
    "Charge": "What an act adds to the price of everything after it.",
}
"""In Markdown, as in the glossary; a test compares the two."""


def _html(text: str) -> Markup:
    """Markdown's emphasis and code as HTML."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", marked))


GLOSSARY = {word: _html(text) for word, text in TEXTS.items()}
"""The same as HTML."""
