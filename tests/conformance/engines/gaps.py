"""What engines cannot do, or do otherwise than DuckDB, with the reason. Nothing else may differ."""

from __future__ import annotations

_WIDE = "DuckDB hands out listed keys of 128 bits that doubles tell apart; servers hand out 64 bits"
REFUSALS = {
    "postgresql": {
        "POWER with an exponent that is no constant": "a power may overflow, and PostgreSQL raises then",
        "the remainder of numbers with a point": "PostgreSQL has no remainder of floats, and numeric loses digits",
        "a cast from DOUBLE to VARCHAR": "PostgreSQL writes 1 where DuckDB writes 1.0",
        "a cast from FLOAT to VARCHAR": "PostgreSQL writes 1 where DuckDB writes 1.0",
        "a cast from": "of types between which DuckDB has no cast either, or none that this package guards",
        "the values summed have no bounds": "refused on every engine alike",
        "regular expressions": "its matcher goes back, so one text can stall it",
        "SUBSTRING from the end": "PostgreSQL counts otherwise before the first character",
        "use another function": "functions that no one has shown to mean the same, and to fail for no value",
        "the question is too large": "PostgreSQL takes gigabytes to plan an expression of so many branches",
        "the engine cannot express this question": "types that the server does not bring together",
        "whole numbers beyond 64 bits": _WIDE,
    },
    "spark": {
        "a cast from DOUBLE to VARCHAR": "Spark writes 1.0E20 where DuckDB writes 1e+20",
        "a cast from FLOAT to VARCHAR": "as of DOUBLE",
        "a cast from": "of types between which DuckDB has no cast either, or none that this package guards",
        "the values summed have no bounds": "refused on every engine alike",
        "regular expressions": "Java's matcher goes back, so one text can stall it",
        "SUBSTRING from the end": "Spark counts otherwise before the first character",
        "use another function": "functions that no one has shown to mean the same, and to fail for no value",
        "the question is too large": "Spark takes minutes to plan an expression of so many branches",
        "whole numbers beyond 64 bits": _WIDE,
    },
}
REFUSALS["sail"] = {
    **REFUSALS["spark"],
    "the engine cannot express this question": "joins on conditions that Sail's planner does not take",
}
"""Parts of the messages with which engines may refuse what DuckDB answers."""
NUMBERS = {
    "postgresql": "products and quotients beyond 1e150 are NULL, operands below 1e-150 count as 0: its floats raise",
    "spark": "EXP, LN, POWER and LOG may differ in the last bit; UPPER and LOWER of some letters differ",
}
"""Where numbers may differ: the values below are left out of tables that are compared, not of those that may fail."""
EXTREMES = {1e308: 1e100, -1e308: -1e100, 5e-324: 1e-100}
FUNCTIONS: dict[str, frozenset[str]] = {
    "postgresql": frozenset(
        {
            *("free % 2", "POWER(free, age)", "CAST(free AS VARCHAR)", "REGEXP_MATCHES(name, 'a.?b')"),
            *("STRPTIME(name, '%Y-%m-%d')", "STRPTIME(name, '%Y')"),
        }
    ),
    "spark": frozenset(
        {
            *("CAST(free AS VARCHAR)", "REGEXP_MATCHES(name, 'a.?b')", "STRPTIME(name, '%Y-%m-%d')"),
            *("STRPTIME(name, '%Y')", "STRFTIME(day, '%Y-%m')", "STRFTIME(at, '%H:%M:%S.%f %I%p%%')"),
            *("STRFTIME(day, '%A %a, %B %b%d%j%u%w')", "DAYNAME(day)", "SPLIT_PART(name, '-', 1)"),
            "STRFTIME(at, 'it''s \\\"day\\\" %d%j of %G-W%V \\\\ %y YYYY')",
            *("SPLIT_PART(name, 'a', 2)", "SPLIT_PART(name, '.', 900)"),
        }
    ),
}
FUNCTIONS["sail"] = FUNCTIONS["spark"]
"""Expressions of `test_functions` that engines refuse, for a reason in `REFUSALS`."""
TEXTS = {"spark": frozenset({"1_000", "0x1F", "\u0130", "\u00df", "\u0149", "\u0391\u03a3", "\ufb01"})}
TEXTS["sail"] = TEXTS["spark"]
"""Texts that engines read, or whose case they change, otherwise by declaration; they are left out of comparisons."""
LAST_BIT = {"spark": frozenset({"EXP", "LN", "LOG", "POWER"})}
LAST_BIT["sail"] = LAST_BIT["spark"]
"""Functions whose values are compared to twelve digits: engines have mathematics of their own."""
