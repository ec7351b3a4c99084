"""BigQuery's and Snowflake's own words for differential privacy, so that their questions run as they are.

BigQuery says ``SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 2, …)``. Its ε and δ are
the question's price, its groups the limit ``max_groups``, and its privacy unit must be the policy's. An aggregate's
``contribution_bounds_per_row => (0, 9)`` is CLIP; ``contribution_bounds_per_group => (0, 9)`` clips what one unit adds
to a group, which is asked here by aggregating within the unit first::

    SELECT city, SUM(x, contribution_bounds_per_group => (0, 9)) AS s FROM t GROUP BY city
    SELECT city, SUM(CLIP(s, 0, 9)) AS s FROM (SELECT id, city, SUM(x) AS s FROM t GROUP BY id, city) GROUP BY city

Snowflake's ``DP_INTERVAL_LOW(alias)`` and ``DP_INTERVAL_HIGH(alias)`` are the ends of a result's error bar.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from hush.core import InvalidValueError, exact
from hush.core.values import dataclass
from hush.query.errors import QuestionError
from hush.query.sql.nodes import identifier, is_set, shown
from hush.query.sql.reading import only_words

INTERVALS = {"DP_INTERVAL_LOW": "low", "DP_INTERVAL_HIGH": "high"}
_CLAUSE = re.compile(r"(?is)\bSELECT\s+WITH\s+(?:DIFFERENTIAL_PRIVACY|ANONYMIZATION)\s+OPTIONS\s*\(([^()]*)\)")
_OPTION = re.compile(r"(?s)\s*(\w+)\s*=\s*([^,]+?)\s*(?:,|$)")
_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_BOUNDS = re.compile(
    rf"(?is),\s*contribution_bounds_per_(row|group)\s*=>\s*\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)\s*\)"
)
_WORDS = re.compile(r"(?i)DIFFERENTIAL_PRIVACY|ANONYMIZATION|contribution_bounds_per_")
PER_UNIT = "HUSH_PER_UNIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyOptions:
    """What a question says of its own price and limits."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups: int | None = None
    unit: str | None = None


def privacy_options(text: str, dialect: str) -> tuple[str, PrivacyOptions]:
    """Return a question without BigQuery's privacy clause, and what the clause says.

    >>> text, said = privacy_options("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM t", "bigquery")
    >>> text, said.epsilon
    ('SELECT COUNT(*) FROM t', Fraction(1, 1))
    """
    if dialect != "bigquery" or not isinstance(text, str):
        return text, PrivacyOptions()
    if not _WORDS.search(text):
        return text, PrivacyOptions()
    words = only_words(text, dialect)
    found = list(_CLAUSE.finditer(words))
    if len(found) > 1:
        raise QuestionError("The question has two privacy clauses.", "Write one, at its first SELECT.")
    options = PrivacyOptions()
    for clause in found:
        options = _options(words, clause.span(1), text)
        text = text[: clause.start()] + "SELECT" + text[clause.end() :]
    return _with_bounds(text, dialect), options


def _options(words: str, place: tuple[int, int], text: str) -> PrivacyOptions:
    """Return what a clause says at a place: numbers as words, without comments, and names as they stand in the text."""
    said: dict[str, str] = {}
    for match in _OPTION.finditer(words, *place):
        name = match.group(1).lower()
        if name in said:
            raise QuestionError(f"The privacy option {name} is given twice.", "Say it once.")
        said[name] = text[slice(*match.span(2))] if name == "privacy_unit_column" else match.group(2)
    known = {"epsilon", "delta", "max_groups_contributed", "privacy_unit_column", "kappa"}
    other = sorted(said.keys() - known)
    if other or not said:
        raise QuestionError(f"The privacy option {', '.join(other) or '()'} is not known.", "Leave it out.")
    if {"max_groups_contributed", "kappa"} <= said.keys():
        raise QuestionError("max_groups_contributed and kappa are two names of one option.", "Say it once.")
    groups = said.get("max_groups_contributed", said.get("kappa"))
    most = None if groups in {None, "NULL", "null"} else _number(str(groups), "max_groups_contributed")
    if most is not None and most.denominator != 1:
        raise QuestionError(f"max_groups_contributed is a whole number; got {groups}.")
    unit = said.get("privacy_unit_column")
    return PrivacyOptions(
        epsilon=None if "epsilon" not in said else _number(said["epsilon"], "epsilon"),
        delta=None if "delta" not in said else _number(said["delta"], "delta"),
        max_groups=None if most is None else int(most),
        unit=None if unit is None else unit.strip("`").split(".")[-1].strip("`"),
    )


def _number(text: str, name: str) -> Fraction:
    try:
        return exact(text, name)
    except InvalidValueError as error:
        raise QuestionError(str(error)) from None


def _with_bounds(text: str, dialect: str) -> str:
    """Return a text in which the bounds of an aggregate stand around its argument."""
    for _ in range(200):
        words = only_words(text, dialect)
        match = _BOUNDS.search(words)
        if match is None:
            return text
        kind, low, high = match.groups()
        start = _opening(words, match.start())
        argument = text[start + 1 : match.start()].strip()
        function = "CLIP" if kind.lower() == "row" else PER_UNIT
        argument = "1" if argument == "*" else argument
        text = f"{text[: start + 1]}{function}({argument}, {low}, {high})){text[match.end() :]}"
    raise QuestionError("The question has too many contribution bounds.")


def _opening(text: str, end: int) -> int:
    """Return where the call begins whose arguments end here."""
    depth = 0
    for place in range(end - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth < 0:
            return place
    raise QuestionError("contribution_bounds_per_group stands inside an aggregate.")


def within_units(tree: exp.Expr, unit: str | None) -> exp.Expr:
    """Return a question whose aggregates are bounded by unit and group, with these aggregated within the unit first."""
    marked = [node for node in tree.find_all(exp.Anonymous) if str(node.this).upper() == PER_UNIT]
    if not marked:
        return tree
    if not isinstance(tree, exp.Select):
        raise QuestionError("contribution_bounds_per_group stands in the outermost SELECT alone.", "Use CLIP.")
    if unit is None:
        raise QuestionError("Every row is a unit here, which has one row in a group.", "Use CLIP(x, low, high).")
    group = tree.args.get("group")
    aliases = {item.alias.casefold(): item.this for item in tree.expressions if isinstance(item, exp.Alias)}
    keys = [_key(node, tree, aliases) for node in (() if group is None else group.expressions)]
    inner = exp.Select(
        expressions=[
            exp.alias_(exp.column(unit), "unit_"),
            *(exp.alias_(key.copy(), f"key_{at}") for at, key in enumerate(keys)),
        ],
        from_=tree.args.get("from_"),
        joins=tree.args.get("joins"),
        where=tree.args.get("where"),
        group=exp.Group(expressions=[exp.column(unit), *(key.copy() for key in keys)]),
    )
    outer = tree.copy()
    for name in ("from_", "joins", "where", "group"):
        outer.set(name, None)

    def one(node: exp.Expr) -> exp.Expr:
        for at, key in enumerate(keys):
            if node == key:
                return exp.column(f"key_{at}")
        if isinstance(node, exp.AggFunc):
            mark = node.this
            if not (isinstance(mark, exp.Anonymous) and str(mark.this).upper() == PER_UNIT):
                raise QuestionError(
                    f"{shown(node)} has no contribution_bounds_per_group, which the others have.",
                    "Give all aggregates such bounds, or none.",
                )
            if not isinstance(node, exp.Sum | exp.Count | exp.Avg):
                raise QuestionError("contribution_bounds_per_group is for COUNT, SUM and AVG.", "Use CLIP.")
            argument, low, high = mark.expressions
            name = f"bounded_{len(inner.expressions)}"
            plain = node.copy()
            plain.set("this", exp.Star() if isinstance(node, exp.Count) and argument.is_int else argument.copy())
            inner.append("expressions", exp.alias_(plain, name))
            clipped = exp.Anonymous(this="CLIP", expressions=[exp.column(name), low.copy(), high.copy()])
            return exp.Avg(this=clipped) if isinstance(node, exp.Avg) else exp.Sum(this=clipped)
        return node

    labels = [item.alias_or_name or f"column_{at}" for at, item in enumerate(outer.expressions, start=1)]
    items = [item.this if isinstance(item, exp.Alias) else item for item in outer.expressions]
    outer.set(
        "expressions", [exp.alias_(item.transform(one), label) for item, label in zip(items, labels, strict=True)]
    )
    for name in ("having", "order"):
        if is_set(outer.args.get(name)):
            outer.set(name, outer.args[name].transform(one))
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("units_")))))
    if keys:
        outer.set("group", exp.Group(expressions=[exp.column(f"key_{at}") for at in range(len(keys))]))
    return outer


def _key(node: exp.Expr, select: exp.Select, aliases: dict[str, exp.Expr]) -> exp.Expr:
    if isinstance(node, exp.Literal) and node.is_int:
        item: exp.Expr = select.expressions[int(node.name) - 1]
        inner: exp.Expr = item.this if isinstance(item, exp.Alias) else item
        return inner
    if isinstance(node, exp.Column) and not is_set(node.args.get("table")) and node.name.casefold() in aliases:
        return aliases[node.name.casefold()]
    return node


def intervals(tree: exp.Expr) -> tuple[exp.Expr, tuple[tuple[str, str], ...]]:
    """Return a question in which DP_INTERVAL_LOW(x) is x, and which results are ends of error bars."""
    if not isinstance(tree, exp.Select):
        return tree, ()
    aliases = {item.alias.casefold(): item.this for item in tree.expressions if isinstance(item, exp.Alias)}
    items, found = [], []
    for item in tree.expressions:
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Anonymous) and str(node.this).upper() in INTERVALS:
            end = INTERVALS[str(node.this).upper()]
            if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Column):
                raise QuestionError(f"{shown(node)} takes the name of a result.", "Write DP_INTERVAL_LOW(n).")
            name = identifier(node.expressions[0].this)
            if name.casefold() not in aliases:
                raise QuestionError(f"There is no result '{name}' for {shown(node)}.", f"Name it: … AS {name}.")
            label = item.alias if isinstance(item, exp.Alias) else f"{name}_{end}"
            found.append((label, end))
            items.append(exp.alias_(aliases[name.casefold()].copy(), label))
        else:
            items.append(item)
    if not found:
        return tree, ()
    plain = tree.copy()
    plain.set("expressions", items)
    return plain, tuple(found)
