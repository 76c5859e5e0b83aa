"""Hints: what to write in place of spellings from SQL, R or Python."""

from __future__ import annotations

__all__ = ["CHARACTERS", "FUNCTIONS", "OPERATORS"]

CHARACTERS = {
    "&": " Write AND.",
    "|": " Write OR; texts cannot be joined.",
    "!": " Write NOT.",
    "^": " Powers are products: write x * x, or exp(2 * ln(x)).",
    "~": " Regular expressions are not supported: write LIKE 'start%', '%end' or '%middle%'.",
    "`": ' Put names with spaces in double quotes: "blood pressure".',
    "[": ' Put names with spaces in double quotes: "blood pressure".',
    ".": " There are no methods: write x IS NULL for x.isna(), lower(x) for x.str.lower().",
    ";": " A question is one expression without a semicolon at its end.",
    ":": " Casts are not supported: declare the column's kind in the schema.",
    "?": " Parameters are not supported: write the value itself.",
    "$": " Parameters are not supported: write the value itself.",
}

FUNCTIONS = {
    "log": "Write ln(x) for the natural logarithm, or ln(x) / 2.302585092994046 for base 10.",
    "log10": "Write ln(x) / 2.302585092994046.",
    "log2": "Write ln(x) / 0.6931471805599453.",
    "power": "Powers are products: write x * x, or exp(2 * ln(x)).",
    "pow": "Powers are products: write x * x, or exp(2 * ln(x)).",
    "extract": "Write year(d), month(d), day(d), weekday(d) or hour(d).",
    "date_part": "Write year(d), month(d), day(d), weekday(d) or hour(d).",
    "date_trunc": "Compare with dates: d >= '2024-05-01' AND d < '2024-06-01'; or write year(d), month(d).",
    "substr": "Write LIKE 'start%', '%end' or '%middle%'.",
    "substring": "Write LIKE 'start%', '%end' or '%middle%'.",
    "left": "Write LIKE 'start%'.",
    "right": "Write LIKE '%end'.",
    "cast": "Casts are not supported: declare the column's kind in the schema.",
    "concat": "Texts cannot be joined: compare the columns one by one, joined by AND.",
    "ifnull": "Write coalesce(x, y).",
    "nvl": "Write coalesce(x, y).",
    "isnull": "Write x IS NULL.",
    "if": "Write CASE WHEN ... THEN ... ELSE ... END.",
    "iif": "Write CASE WHEN ... THEN ... ELSE ... END.",
    "now": "Write the date itself: '2024-05-01'.",
}

OPERATORS = {
    "ILIKE": " Write lower(name) LIKE 'start%'.",
    "SIMILAR": " Regular expressions are not supported: write LIKE 'start%', '%end' or '%middle%'.",
    "REGEXP": " Regular expressions are not supported: write LIKE 'start%', '%end' or '%middle%'.",
    "RLIKE": " Regular expressions are not supported: write LIKE 'start%', '%end' or '%middle%'.",
    "CONTAINS": " Write LIKE '%middle%'.",
    "XOR": " Write a <> b for two yes/no columns.",
    "MOD": " Write a % b.",
    "DIV": " Write floor(a / b).",
    "**": " Powers are products: write x * x, or exp(2 * ln(x)).",
}
