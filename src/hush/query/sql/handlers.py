"""Node classes that need more than a table: one function each, from a sqlglot node to our expression."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Expression, Literal, Op
from hush.query.functions import all_of, call, cast, constant, folded, negated
from hush.query.functions.dates import TIME_UNITS
from hush.query.functions.regular import cost_of, flags_of, whole
from hush.query.functions.rules import is_null
from hush.query.parameters import number_literal
from hush.query.sql.calls import CASTS, DATE_FIELDS, INTEGERS, UNKNOWN_TO_PARSER, refuse_function
from hush.query.sql.intervals import interval, moved
from hush.query.sql.nodes import WRITTEN, is_set, only, refuse, shown
from hush.query.sql.scope import Resolver
from hush.query.types import Kind

_LONGEST = 2**31 - 1


def _column(to: Resolver, node: exp.Column) -> Expression:
    if isinstance(node.this, exp.Star):
        raise refuse(node.this)
    if is_set(node.args.get("db")) or is_set(node.args.get("catalog")):
        raise QuestionError(f"Only table.column can be named; got {shown(node)}.")
    only(node, "this", "table")
    return to.column(node)


def _paren(to: Resolver, node: exp.Paren) -> Expression:
    only(node, "this")
    return to.convert(node.this)


def _literal(_to: Resolver, node: exp.Literal) -> Expression:
    only(node, "this", "is_string")
    text = str(node.this)
    return constant(text) if node.is_string else constant(number_literal(text))


def _boolean(_to: Resolver, node: exp.Boolean) -> Expression:
    only(node, "this")
    return constant(bool(node.this))


def _null(_to: Resolver, node: exp.Null) -> Expression:
    only(node)
    return constant(None)


def _placeholder(to: Resolver, node: exp.Placeholder) -> Expression:
    only(node, "this")
    return to.context.binder.bind(str(node.this or ""))


def _negative(to: Resolver, node: exp.Neg) -> Expression:
    only(node, "this")
    return negated(to.convert(node.this))


def _add(to: Resolver, node: exp.Add) -> Expression:
    only(node, "this", "expression")
    for moment, by in ((node.this, interval(node.expression)), (node.expression, interval(node.this))):
        if by is not None:
            return moved(to, moment, by)
    return folded(Op.ADD, to.convert(node.this), to.convert(node.expression))


def _date_add(to: Resolver, node: exp.DateAdd) -> Expression:
    only(node, "this", "expression")
    by = interval(node.expression)
    if by is None:
        raise QuestionError(f"An interval is needed; got {shown(node)}.", "Write DATE_ADD(d, INTERVAL 1 MONTH).")
    return moved(to, node.this, by)


def _subtract(to: Resolver, node: exp.Sub) -> Expression:
    only(node, "this", "expression")
    by = interval(node.expression)
    if by is not None:
        return moved(to, node.this, by, -1)
    left, right = to.convert(node.this), to.convert(node.expression)
    if left.type.kind is Kind.DATE and right.type.kind is Kind.DATE:
        return call(Op.DATE_DIFF, constant("day"), right, left)
    return folded(Op.SUBTRACT, left, right)


def _and(to: Resolver, node: exp.And) -> Expression:
    only(node, "this", "expression")
    return all_of([to.condition(node.this), to.condition(node.expression)])


def _between(to: Resolver, node: exp.Between) -> Expression:
    if is_set(node.args.get("symmetric")):
        low, high = shown(node.args["low"]), shown(node.args["high"])
        raise QuestionError(
            "BETWEEN SYMMETRIC is not supported.", f"Write BETWEEN LEAST({low}, {high}) AND GREATEST({low}, {high})."
        )
    only(node, "this", "low", "high")
    value = to.convert(node.this)
    lower = call(Op.GREATER_EQUAL, value, to.convert(node.args["low"]))
    return call(Op.AND, lower, call(Op.LESS_EQUAL, value, to.convert(node.args["high"])))


def _equal(to: Resolver, node: exp.Expr) -> Expression:
    """Compare values, or rows of values part by part: (a, b) = (1, 2). In these, NULL is a value."""
    only(node, "this", "expression")
    if isinstance(node.this, exp.Tuple) or isinstance(node.expression, exp.Tuple):
        same = _same_rows([to.convert(part) for part in _parts(node.this)], to, node.expression)
        return same if isinstance(node, exp.EQ) else call(Op.NOT, same)
    op = Op.EQUAL if isinstance(node, exp.EQ) else Op.NOT_EQUAL
    return call(op, to.convert(node.this), to.convert(node.expression))


def _parts(node: object) -> list[exp.Expr]:
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Tuple):
        raise QuestionError(f"A row of values is needed; got {shown(node)}.", "Write (a, b) IN ((1, 2), (3, 4)).")
    only(node, "expressions")
    return list(node.expressions)


def _same_rows(values: list[Expression], to: Resolver, other: object) -> Expression:
    others = [to.convert(part) for part in _parts(other)]
    if len(others) != len(values) or not values:
        raise QuestionError(f"A row of {len(values)} values is compared with one of {len(others)}.")
    return _surely(all_of([_same_values(one, two) for one, two in zip(values, others, strict=True)]))


def _any(conditions: list[Expression]) -> Expression:
    """Return a disjunction that is no deeper than it must be."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return call(Op.OR, _any(conditions[:half]), _any(conditions[half:]))


def _in(to: Resolver, node: exp.In) -> Expression:
    if isinstance(node.this, exp.Tuple) and node.args.get("expressions"):
        only(node, "this", "expressions")
        values = [to.convert(part) for part in _parts(node.this)]
        return _any([_same_rows(values, to, row) for row in node.expressions])
    if is_set(node.args.get("query")) or is_set(node.args.get("unnest")):
        raise QuestionError(
            f"IN (SELECT …) is not supported: {shown(node)}.",
            "Join on the unit, join a public table, or write the list out.",
        )
    listed = node.args.get("field")
    if isinstance(listed, exp.Placeholder):
        only(node, "this", "field")
        value, items = to.convert(node.this), _list(to, listed)
        return call(Op.IN, value, *items) if items else constant(False)  # nothing is in an empty list, not even NULL
    if is_set(listed):
        raise QuestionError(f"IN needs a list; got {shown(node)}.", "Write x IN ('a', 'b'), or x IN ? with a list.")
    only(node, "this", "expressions")
    if node.args.get("expressions") is None:
        raise refuse(node)
    value = to.convert(node.this)
    return call(Op.IN, value, *map(to.convert, node.expressions)) if node.expressions else constant(False)


def _list(to: Resolver, node: exp.Placeholder) -> list[Literal]:
    only(node, "this")
    return to.context.binder.bind_list(str(node.this or ""))


def _decode(to: Resolver, node: exp.DecodeCase) -> Expression:
    """Read DECODE(x, search, result, …, otherwise) as a CASE in which NULL equals NULL."""
    only(node, "expressions")
    value, *rest = node.expressions or [None]
    if len(rest) < 2:
        raise QuestionError("DECODE needs a value and a result.", "Write DECODE(x, 'a', 1, 'b', 2, 0).")
    parts: list[Expression] = []
    for search, result in zip(rest[:-1:2], rest[1::2], strict=False):
        parts += [_same(to, exp.NullSafeEQ(this=value.copy(), expression=search)), to.convert(result)]
    return call(Op.CASE, *parts, to.convert(rest[-1]) if len(rest) % 2 else constant(None))


def _same(to: Resolver, node: exp.Expr) -> Expression:
    """IS [NOT] DISTINCT FROM: equality in which NULL equals NULL, and which is never NULL itself."""
    only(node, "this", "expression")
    found = _surely(_same_values(to.convert(node.this), to.convert(node.expression)))
    return call(Op.NOT, found) if isinstance(node, exp.NullSafeNEQ) else found


def _same_values(one: Expression, other: Expression) -> Expression:
    """Return whether two values are equal, or both NULL; NULL itself where one is NULL and the other cannot be."""
    if is_null(one) or is_null(other):
        return call(Op.IS_NULL, one if is_null(other) else other)
    equal = call(Op.EQUAL, one, other)
    if not (one.type.nullable and other.type.nullable):
        return equal
    return call(Op.COALESCE, equal, call(Op.AND, call(Op.IS_NULL, one), call(Op.IS_NULL, other)))


def _surely(condition: Expression) -> Expression:
    """Return a condition that is false where it would be NULL."""
    return call(Op.COALESCE, condition, constant(False)) if condition.type.nullable else condition


def _escape(to: Resolver, node: exp.Escape) -> Expression:
    only(node, "this", "expression")
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise refuse(node)
    escape = to.convert(node.expression)
    mark = escape.value if isinstance(escape, Literal) else None
    if not isinstance(mark, str) or (isinstance(node.this, exp.ILike) and mark.isalpha()):
        raise QuestionError(f"ESCAPE takes one character; got {shown(node.expression)}.", "Write ESCAPE '!'.")
    return _like(to, node.this, *([escape] if mark else []))


def _is(to: Resolver, node: exp.Is) -> Expression:
    only(node, "this", "expression", "negate")
    value = to.convert(node.this)
    if isinstance(node.expression, exp.Null):
        found: Expression = call(Op.IS_NULL, value)
    elif isinstance(node.expression, exp.Boolean):
        wanted = value if node.expression.this else call(Op.NOT, value)
        found = call(Op.COALESCE, wanted, constant(False))
    else:
        raise refuse(node)
    return call(Op.NOT, found) if node.args.get("negate") else found


def _like(to: Resolver, node: exp.Expr, *escape: Expression) -> Expression:
    only(node, "this", "expression", "negate")
    value, pattern = to.convert(node.this), to.convert(node.expression)
    if isinstance(node, exp.ILike):
        text = pattern.value if isinstance(pattern, Literal) else None
        if not isinstance(text, str) or not text.isascii():
            raise QuestionError("ILIKE needs a constant pattern of ASCII characters.", "Use LIKE.")
        value, pattern = call(Op.LOWER, value), constant(text.lower())
    found = call(Op.LIKE, value, pattern, *escape)
    return call(Op.NOT, found) if node.args.get("negate") else found


def _regular(to: Resolver, node: exp.Expr) -> Expression:
    """Return ``REGEXP_MATCHES(x, 'a+')``, and what matches a whole text: REGEXP_FULL_MATCH and SIMILAR TO."""
    only(node, "this", "expression", "flag", "options", "full_match")
    value, pattern = to.convert(node.this), to.convert(node.expression)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise QuestionError(f"A regular expression needs a constant pattern; got {shown(node.expression)}.")
    given = node.args.get("flag") or node.args.get("options")
    flags = constant("i" if isinstance(node, exp.RegexpILike) else "") if given is None else to.convert(given)
    if isinstance(node, exp.RegexpFullMatch) and WRITTEN not in node.meta and not whole(pattern.value):
        raise QuestionError(
            "x ~ 'pattern' means a match of the whole text before DuckDB 2, and of a part of it from there on.",
            f"Write REGEXP_MATCHES({shown(node.this)}, {shown(node.expression)}) for a part, or REGEXP_FULL_MATCH.",
        )
    if isinstance(node, exp.RegexpFullMatch | exp.SimilarTo):
        plain, inner = flags_of(pattern.value)
        cost_of(plain, inner)  # refused as it was written: "a)|(b" is none, though in brackets it would be
        pattern = constant(f"{f'(?{inner})' if inner else ''}^(?:{plain})$")
    return call(Op.REGEXP_MATCHES, value, pattern, flags)


def _case(to: Resolver, node: exp.Case) -> Expression:
    only(node, "this", "ifs", "default")
    operand = to.convert(node.this) if is_set(node.args.get("this")) else None
    parts: list[Expression] = []
    here = to
    for branch in node.args["ifs"]:
        only(branch, "this", "true")
        if operand is None:
            condition = here.condition(branch.this)
        else:
            condition = call(Op.EQUAL, operand, here.convert(branch.this))
        parts += [condition, here.assuming(condition).convert(branch.args["true"])]
        here = here.unless(condition)  # the next branch is also for rows where it is NULL
    default = node.args.get("default")
    return call(Op.CASE, *parts, constant(None) if default is None else here.convert(default))


def _if(to: Resolver, node: exp.If) -> Expression:
    only(node, "this", "true", "false")
    condition = to.condition(node.this)
    otherwise = node.args.get("false")
    return call(
        Op.CASE,
        condition,
        to.assuming(condition).convert(node.args["true"]),
        constant(None) if otherwise is None else to.convert(otherwise),
    )


def _log(to: Resolver, node: exp.Log) -> Expression:
    only(node, "this", "expression")
    base, value = node.this, node.args.get("expression")
    if value is None:
        base, value = None, node.this
    return call(Op.LOG, constant(Fraction(10)) if base is None else to.convert(base), to.convert(value))


def _substring(to: Resolver, node: exp.Substring) -> Expression:
    only(node, "this", "start", "length")
    size = node.args.get("length")
    start = node.args.get("start")
    return call(
        Op.SUBSTRING,
        to.convert(node.this),
        constant(Fraction(1)) if start is None else to.convert(start),
        constant(Fraction(_LONGEST)) if size is None else to.convert(size),
    )


def _concat(to: Resolver, node: exp.Expr) -> Expression:
    if isinstance(node, exp.DPipe):
        only(node, "this", "expression", "safe")
        parts = [to.convert(node.this), to.convert(node.expression)]
    else:  # CONCAT() skips NULLs
        only(node, "expressions", "safe", "coalesce")
        parts = [to.convert(item) for item in node.expressions]
        for item, part in zip(node.expressions, parts, strict=True):
            if part.type.kind is not Kind.TEXT and not is_null(part):
                raise QuestionError(
                    f"CONCAT needs text; got {shown(item)}, which is {part.type.kind.value}.",
                    f"Write CAST({shown(item)} AS VARCHAR).",
                )
        parts = [call(Op.COALESCE, part, constant("")) if part.type.nullable else part for part in parts]
    found = call(Op.CONCAT, *parts)
    to.context.check_copies(found)
    return found


def _trim(to: Resolver, node: exp.Trim) -> Expression:
    """TRIM(x), LTRIM(x), RTRIM(x), and TRIM(LEADING FROM x): blanks alone."""
    if is_set(node.args.get("expression")):
        raise QuestionError(f"Only blanks can be trimmed; got {shown(node)}.", "Use REPLACE(x, 'text', '') for others.")
    only(node, "this", "position")
    side = str(node.args.get("position") or "BOTH").upper()
    return call({"BOTH": Op.TRIM, "LEADING": Op.LTRIM, "TRAILING": Op.RTRIM}[side], to.convert(node.this))


def _replace(to: Resolver, node: exp.Replace) -> Expression:
    only(node, "this", "expression", "replacement")
    return call(
        Op.REPLACE,
        to.convert(node.this),
        to.convert(node.expression),
        to.convert(node.args["replacement"]) if is_set(node.args.get("replacement")) else constant(""),
    )


def _extract(to: Resolver, node: exp.Extract) -> Expression:
    only(node, "this", "expression")
    return _part(to, _word(node.this), node.expression)


def _part(to: Resolver, name: str, node: object) -> Expression:
    if name not in DATE_FIELDS:
        allowed = ", ".join(sorted(DATE_FIELDS))
        raise QuestionError(f"Of a date can be taken: {allowed}; got {name[:40]}.")
    return call(DATE_FIELDS[name], to.convert(node))


def _truncate(to: Resolver, node: exp.Expr) -> Expression:
    only(node, "this", "unit", "input_type_preserved")
    unit = _word(node.args.get("unit"))
    op = Op.TRUNCATE_TIME if unit in TIME_UNITS else Op.TRUNCATE_DATE
    return call(op, constant(unit), to.convert(node.this))


def _difference(to: Resolver, node: exp.DateDiff) -> Expression:
    only(node, "this", "expression", "unit", "date_part_boundary")
    unit = _word(node.args.get("unit")).removesuffix("s")
    return call(Op.DATE_DIFF, constant(unit), to.convert(node.expression), to.convert(node.this))


def _cast(to: Resolver, node: exp.Expr) -> Expression:
    only(node, "this", "to", "safe")
    target = node.args["to"]
    if not isinstance(target, exp.DataType) or target.this not in CASTS:
        raise QuestionError(
            f"There is no cast to {shown(target)}.",
            "Casts are to INTEGER, DOUBLE, DECIMAL(p, s), VARCHAR, BOOLEAN, DATE and TIMESTAMP.",
        )
    op = CASTS[target.this]
    only(target, "this", *(["expressions"] if op is Op.TO_DECIMAL else []))
    value = to.convert(node.this)
    if target.this is not exp.DataType.Type.DECIMAL:
        return _narrow(cast(op, value), INTEGERS.get(target.this))
    sizes = target.expressions  # DECIMAL is DECIMAL(18, 3), and DECIMAL(p) is DECIMAL(p, 0)
    for size in sizes:
        only(size, "this")
    digits = to.convert(sizes[1].this) if len(sizes) == 2 else constant(Fraction(0 if sizes else 3))
    if value.type.kind is Kind.BOOLEAN:
        value = call(Op.TO_INTEGER, value)
    return call(Op.TO_FIXED, value, digits, to.convert(sizes[0].this) if sizes else constant(Fraction(18)))


def _narrow(value: Expression, ends: tuple[int, int] | None) -> Expression:
    """Return a whole number that is NULL outside of the integers that a type has."""
    if ends is None or (
        value.type.bounded and ends[0] <= (value.type.lower or 0) <= (value.type.upper or 0) <= ends[1]
    ):
        return value
    low, high = (constant(Fraction(end)) for end in ends)
    inside = call(Op.AND, call(Op.GREATER_EQUAL, value, low), call(Op.LESS_EQUAL, value, high))
    return call(Op.CASE, inside, value, constant(None))


def _anonymous(to: Resolver, node: exp.Anonymous) -> Expression:
    only(node, "this", "expressions")
    name = str(node.this).upper()
    if name == "DATE_PART" and len(node.expressions) == 2:
        return _part(to, _word(node.expressions[0]), node.expressions[1])
    if name == "DAYS_BETWEEN" and len(node.expressions) == 2:
        return call(Op.DATE_DIFF, constant("day"), *(to.convert(item) for item in node.expressions))
    if name not in UNKNOWN_TO_PARSER:
        raise refuse_function(node)
    return call(UNKNOWN_TO_PARSER[name], *(to.convert(item) for item in node.expressions))


def _word(node: object) -> str:
    """Return a unit of time, which sqlglot keeps as a variable or as text."""
    if isinstance(node, exp.Var) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this).casefold()
    raise QuestionError("A unit of time is constant text.", "Write for instance DATE_TRUNC('month', d).")


SPECIAL: dict[type[exp.Expr], Callable[..., Expression]] = {
    exp.Column: _column,
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Placeholder: _placeholder,
    exp.Neg: _negative,
    exp.Add: _add,
    exp.Sub: _subtract,
    exp.And: _and,
    exp.DecodeCase: _decode,
    exp.EQ: _equal,
    exp.NEQ: _equal,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.NullSafeEQ: _same,
    exp.NullSafeNEQ: _same,
    exp.Escape: _escape,
    exp.Like: _like,
    exp.ILike: _like,
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike, exp.RegexpFullMatch, exp.SimilarTo), _regular),
    exp.Case: _case,
    exp.If: _if,
    exp.Log: _log,
    exp.Substring: _substring,
    exp.DPipe: _concat,
    exp.Concat: _concat,
    exp.Trim: _trim,
    exp.Replace: _replace,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.DateDiff: _difference,
    exp.DateAdd: _date_add,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _anonymous,
}
"""How each of these classes is read."""
