"""Upper and lower case: a fixed table, the same in every engine.

Case mapping differs between languages, libraries and Unicode versions. This table maps one letter to one letter, for
Latin, Greek, Cyrillic and Armenian, and leaves everything else unchanged: `ß` stays `ß`.
"""

from __future__ import annotations

__all__ = ["CAPITAL", "SMALL", "lower_case", "upper_case"]

_RANGES = ((0x41, 0x5A), (0xC0, 0xDE), (0x100, 0x17F), (0x386, 0x3AB), (0x400, 0x52F), (0x531, 0x556))


def _pairs() -> tuple[str, str]:
    capital, small = [], []
    for first, last in _RANGES:
        for letter in map(chr, range(first, last + 1)):
            lower = letter.lower()
            if lower != letter and len(lower) == 1 and lower.upper() == letter:
                capital.append(letter)
                small.append(lower)
    return "".join(capital), "".join(small)


CAPITAL, SMALL = _pairs()
_DOWN = str.maketrans(CAPITAL, SMALL)
_UP = str.maketrans(SMALL, CAPITAL)


def lower_case(text: str) -> str:
    """The text in lower case.

    >>> lower_case("ÅRHUS"), lower_case("ΣΟΦΙΑ"), lower_case("Straße")
    ('århus', 'σοφια', 'straße')
    """
    return text.translate(_DOWN)


def upper_case(text: str) -> str:
    """The text in upper case.

    >>> upper_case("århus"), upper_case("Straße")
    ('ÅRHUS', 'STRAßE')
    """
    return text.translate(_UP)
