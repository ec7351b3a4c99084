"""Random worlds: tables with nasty values, neighbours of them, and questions over them.

A world has three private tables of one unit (``visits`` holds it, ``orders`` finds it through a foreign key, ``items``
through ``orders``), two tables whose rows are units (``answers``, ``ballots``), and a public one (``regions``). Some
keys are not unique, and some orders belong to several units or to none. `sentences` asks about all this in SQL.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction as F  # noqa: N817 - every bound is one
from random import Random

from hush.core import Neighbours
from hush.query.expressions import Column, Expression, Op
from hush.query.functions import call, constant
from hush.query.question import Aggregate, AggregateKind, Question
from hush.query.relations import (
    Constants,
    ExactAggregate,
    ExactKind,
    Filter,
    Join,
    JoinKind,
    OwnWindow,
    PerUnit,
    Project,
    Relation,
    RowOrder,
    Scan,
    UnionAll,
    WindowKind,
    WithWindows,
    columns,
)
from hush.query.schema import Hop, Schema, Table, UnitPath
from hush.query.types import Kind, Type

AGE = Type(Kind.INTEGER, True, F(0), F(9), F(1), lists_null=True)
COST = Type(Kind.DECIMAL, True, F(-5), F(5), F(1, 2))
FREE = Type(Kind.DECIMAL, True)
CITY = Type(Kind.TEXT, True, values=("a", "b", "c"))
ITEM = Type(Kind.TEXT, True, values=("a", "b", "c"), lists_null=True)
"""NULL is a public key of this, and of what is computed from it."""
NAME = Type(Kind.TEXT, True)
FLAG = Type(Kind.BOOLEAN, True, lists_null=True)
DAY = Type(Kind.DATE, True, F(0), F(30), F(1))
WIDE = Type(Kind.INTEGER, True, F(-(2**62)), F(2**62), F(1))
BIG = Type(Kind.INTEGER, True, F(0), F(2**64), F(1))
AT = Type(Kind.TIMESTAMP, True)

VISITS = {
    "age": AGE, "cost": COST, "free": FREE, "city": CITY, "name": NAME, "flag": FLAG, "day": DAY, "wide": WIDE,
    "big": BIG, "at": AT,
}  # fmt: skip
ORDERS = {"price": COST, "item": ITEM, "visit": Type(Kind.INTEGER, True)}
GRADE = Type(Kind.INTEGER, False, F(1), F(9), F(1), (F(1), F(2), F(9)))
ANSWERS = {"score": AGE, "choice": CITY, "note": NAME, "grade": GRADE}
ITEMS = {"weight": COST, "label": NAME}
BALLOTS = {"points": COST, "party": NAME}
REGIONS = {"town": NAME, "region": NAME, "factor": Type(Kind.DECIMAL, True, F(0), F(2), F(1, 2))}

NASTY = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e308, -1e308, 5e-324, 2.25, -3.5, None, 1.0, 4.999]
INTEGERS = [None, 0, 1, 2, 5, 9, -1, 10, 2**63 - 1, -(2**63), 7]
TEXTS = [None, "a", "b", "c", "zz", "", "é", "A", "%", "'; DROP TABLE x"]
DAYS = [None, dt.date(1970, 1, 1), dt.date(1970, 1, 15), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 2, 20)]

SHARED = 777
"""A key that visits of several units may have, and that orders of nobody in particular refer to."""
BIGS = [None, 0, 3, 2**63, 2**64 - 1]
TIMES = [None, dt.datetime(1970, 1, 2, 3, 4, 5), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]

STORED = {
    "visits": {"id": "BIGINT", "key": "BIGINT", "age": "BIGINT", "cost": "DOUBLE", "free": "DOUBLE", "city": "VARCHAR",
               "name": "VARCHAR", "flag": "BOOLEAN", "day": "DATE", "wide": "BIGINT", "big": "UBIGINT",
               "at": "TIMESTAMP"},
    "orders": {"number": "BIGINT", "ref": "BIGINT", "price": "DOUBLE", "item": "VARCHAR", "visit": "BIGINT"},
    "items": {"order": "BIGINT", "weight": "DOUBLE", "label": "VARCHAR"},
    "answers": {"score": "BIGINT", "choice": "VARCHAR", "note": "VARCHAR", "grade": "BIGINT"},
    "ballots": {"points": "VARCHAR", "party": "VARCHAR"},
    "regions": {"town": "VARCHAR", "region": "VARCHAR", "factor": "DOUBLE"},
}  # fmt: skip


def schema(rng: Random) -> Schema:
    """Return a schema with random limits."""
    unit = UnitPath(column="id")
    path = UnitPath(column="id", hops=(Hop(column="ref", table="visits", key="key"),))
    farther = UnitPath(column="id", hops=(Hop(column="order", table="orders", key="number"), *path.hops))

    def limit(name: str, types: dict[str, Type], where: UnitPath | None, *keys: str) -> Table:
        return Table(
            name=name,
            columns=types,
            unit=where,
            keys=dict.fromkeys(keys, Type(Kind.INTEGER, True, step=F(1))),
            max_rows=rng.choice([1, 1, 2, 3, 1000]),
            max_groups=rng.choice([1, 2, 3, 100]),
        )

    return Schema(
        data="d",
        tables={
            "visits": limit("visits", VISITS, unit, "key"),
            "orders": limit("orders", ORDERS, path, "number", "ref"),
            "items": limit("items", ITEMS, farther, "order"),
            "answers": limit("answers", ANSWERS, None),
            "ballots": limit("ballots", BALLOTS, None),
            "regions": Table(name="regions", columns=REGIONS, public=True),
        },
        neighbours=rng.choice([Neighbours.ADD_REMOVE, Neighbours.REPLACE]),
        unit="id",
    )


Rows = dict[str, list[tuple[object, ...]]]


def unit_rows(rng: Random, unit: int | None) -> Rows:
    """Return all rows of one unit; row keys are its own."""
    many = rng.choice([0, 1, 1, 2, 3, 6])
    keys = [rng.choice([None, at - 100]) if unit is None else unit * 100 + at for at in range(many)]
    keys = [SHARED if rng.random() < 0.1 else key for key in keys]
    visits = [
        (unit, key, rng.choice(INTEGERS), rng.choice(NASTY), rng.choice(NASTY), rng.choice(TEXTS), rng.choice(TEXTS),
         rng.choice([None, True, False]), rng.choice(DAYS), rng.choice(INTEGERS), rng.choice(BIGS), rng.choice(TIMES))
        for key in keys
    ]  # fmt: skip
    own = [key for key in keys if key != SHARED]  # what leaves with this unit belongs to no other
    orders = [order_row(rng, own, (unit or 0) * 100 + at) for at in range(rng.choice([0, 1, 2, 4])) if own]
    items = [item_row(rng, [row[0] for row in orders]) for _ in range(rng.choice([0, 1, 3])) if orders]
    return {"visits": visits, "orders": orders, "items": items, "answers": []}


def order_row(rng: Random, keys: list[int | None], number: int) -> tuple[object, ...]:
    return (number, rng.choice(keys), rng.choice(NASTY), rng.choice(TEXTS), rng.choice(INTEGERS))


def item_row(rng: Random, orders: list[object]) -> tuple[object, ...]:
    return (rng.choice(orders), rng.choice(NASTY), rng.choice(TEXTS))


def answer_row(rng: Random) -> tuple[object, ...]:
    return (rng.choice(INTEGERS), rng.choice(TEXTS), rng.choice(TEXTS), rng.choice(INTEGERS))


def ballot_row(rng: Random) -> tuple[object, ...]:
    return (rng.choice([*map(str, NASTY), "1e400", "x", "", "0x10"]), rng.choice(TEXTS))


def world(rng: Random) -> tuple[Rows, Rows, Rows]:
    """Return a world, the same without one unit, and the same with that unit replaced by another."""
    units = rng.choice([1, 2, 3, 5])
    people = [unit_rows(rng, unit) for unit in range(units)]
    nobody = unit_rows(rng, None)
    answers = [answer_row(rng) for _ in range(rng.choice([1, 2, 5]))]
    ballots = [ballot_row(rng) for _ in range(rng.choice([1, 2, 4]))]
    voter = rng.random() < 0.4  # whose row goes where rows are units: one of the ballots, or one of the answers
    regions = [
        (rng.choice(["a", "b", "zz", None]), rng.choice(["north", "south", None]), rng.choice([0.5, 2.0, None]))
        for _ in range(rng.choice([0, 1, 3, 5]))
    ]

    loose = [order_row(rng, [None, SHARED, 0, 100, 201], 900 + at) for at in range(rng.choice([0, 0, 2]))]
    stray = [item_row(rng, [900, 901, 0, 100, None]) for _ in range(rng.choice([0, 0, 2]))]

    def together(members: list[Rows], given: list[tuple[object, ...]], cast: list[tuple[object, ...]]) -> Rows:
        rows: Rows = {"answers": list(given), "ballots": list(cast), "regions": regions}
        rows |= {"visits": [], "orders": list(loose), "items": list(stray)}
        for member in [*members, nobody]:
            for table in ("visits", "orders", "items"):
                rows[table] += member[table]
        for table in ("visits", "orders", "items", "answers", "ballots"):
            rng.shuffle(rows[table])
        return rows

    other = unit_rows(rng, units)
    fewer, fewer_ballots = (answers, ballots[1:]) if voter else (answers[1:], ballots)
    new, new_ballots = ([], [ballot_row(rng)]) if voter else ([answer_row(rng)], [])
    return (
        together(people, answers, ballots),
        together(people[1:], fewer, fewer_ballots),
        together([*people[1:], other], [*fewer, *new], [*fewer_ballots, *new_ballots]),
    )


# questions


def scan(rng: Random, table: str) -> Scan:
    types = {
        "visits": VISITS, "orders": ORDERS, "items": ITEMS, "answers": ANSWERS, "ballots": BALLOTS, "regions": REGIONS
    }[table]  # fmt: skip
    prefix = f"{table[0]}{rng.randrange(10**9)}_"
    return Scan(
        table=table,
        public=table == "regions",
        columns=tuple((f"{prefix}{name}", name, type_) for name, type_ in types.items()),
    )


def numbers(relation: Relation) -> list[Expression]:
    return [Column(name, type_) for name, type_ in columns(relation).items() if type_.kind.numeric]


def texts(relation: Relation) -> list[Expression]:
    return [Column(name, type_) for name, type_ in columns(relation).items() if type_.kind is Kind.TEXT]


OPERATIONS = [
    Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE, Op.MODULO, Op.POWER, Op.LEAST, Op.GREATEST, Op.NEGATE, Op.ABS,
    Op.FLOOR, Op.CEIL, Op.SQRT, Op.EXP, Op.LN, Op.SIGN, Op.ROUND, Op.COALESCE, Op.NULL_IF, Op.CASE, Op.LENGTH,
    Op.TO_INTEGER, Op.CLIP, Op.BIN,
]  # fmt: skip


def number(rng: Random, relation: Relation, depth: int = 2) -> Expression:
    """Return a random numeric expression."""
    found = numbers(relation)
    if not found or rng.random() < 0.1:
        return constant(F(rng.choice([0, 1, 2, -3, F(1, 2)])))
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(found)
    op = rng.choice(OPERATIONS)
    a, b = number(rng, relation, depth - 1), number(rng, relation, depth - 1)
    if op in {Op.NEGATE, Op.ABS, Op.FLOOR, Op.CEIL, Op.SQRT, Op.EXP, Op.LN, Op.SIGN, Op.ROUND, Op.TO_INTEGER}:
        return call(op, a)
    if op is Op.CASE:
        if rng.random() < 0.2:  # two constants that are one float
            a, b = constant(F(1, 10)), constant(F(1, 10) + F(1, 10**20))
        return call(op, condition(rng, relation, depth - 1), a, b)
    if op is Op.LENGTH:
        found_texts = texts(relation)
        return call(op, rng.choice(found_texts)) if found_texts else a
    if op is Op.CLIP:
        return call(op, a, constant(F(-2)), constant(F(7, 2)))
    if op is Op.BIN:
        return call(op, a, constant(F(0)), constant(F(8)), constant(F(4)))
    return call(op, a, b)


def condition(rng: Random, relation: Relation, depth: int = 2) -> Expression:
    """Return a random condition."""
    kind = rng.randrange(6)
    if kind == 0 and depth > 0:
        op = rng.choice([Op.AND, Op.OR])
        return call(op, condition(rng, relation, depth - 1), condition(rng, relation, depth - 1))
    if kind == 1 and depth > 0:
        return call(Op.NOT, condition(rng, relation, depth - 1))
    if kind == 2:
        return call(Op.IS_NULL, number(rng, relation, max(depth - 1, 0)))
    words = texts(relation)
    if kind == 3 and words:
        word = rng.choice(words)
        return rng.choice([call(Op.IN, word, constant("a"), constant("zz")), call(Op.LIKE, word, constant("%a%"))])
    if kind == 4 and numbers(relation):
        return call(Op.IN, rng.choice(numbers(relation)), *(constant(F(at)) for at in ("1", "5/4", "3/2", "2", "9")))
    op = rng.choice([Op.LESS, Op.GREATER_EQUAL, Op.EQUAL, Op.NOT_EQUAL])
    return call(op, number(rng, relation, max(depth - 1, 0)), number(rng, relation, max(depth - 1, 0)))


def bounded(rng: Random, relation: Relation) -> Expression:
    """Return a numeric expression with bounds."""
    expression = number(rng, relation)
    if expression.type.bounded and rng.random() < 0.7:
        return expression
    return call(Op.CLIP, expression, constant(F(rng.choice([-3, 0]))), constant(F(rng.choice([1, 4]))))


def public(rng: Random) -> Relation:
    """Return a public relation: a table, an aggregate of it, or rows that are written out."""
    towns = scan(rng, "regions")
    kind = rng.randrange(4)
    if kind == 0:
        made = tuple(
            (
                f"e{rng.randrange(10**9)}",
                ExactAggregate(kind=kind_, argument=None if kind_ is ExactKind.COUNT else of, type=type_),
            )
            for of in numbers(towns)[:1]
            for kind_, type_ in (
                (ExactKind.COUNT, Type(Kind.INTEGER, False, F(0), None, F(1))),
                (ExactKind.MAX, of.type),
            )
        )
        keys = tuple((f"k{rng.randrange(10**9)}", word) for word in texts(towns)[:1])
        return PerUnit(source=towns, keys=keys, aggregates=made)
    if kind == 1:
        rows = tuple((constant(word), constant(F(number))) for word, number in (("a", 1), ("zz", 2), ("a", 3)))
        names = (f"w{rng.randrange(10**9)}", f"n{rng.randrange(10**9)}")
        types = (Type(Kind.TEXT, False, values=("a", "zz")), Type(Kind.INTEGER, False, F(1), F(3), F(1)))
        return Constants(columns=tuple(zip(names, types, strict=True)), rows=rows)
    return towns


def relation(rng: Random, *, rows_are_units: bool, depth: int = 2) -> Relation:
    """Return a random private relation."""
    shapes = ["scan", "filter", "project", "public", "join", "union", "per unit", "per unit", "left", "windows"]
    shape = rng.choice(shapes)
    if depth == 0 or shape == "scan":
        return scan(
            rng,
            rng.choice(["answers", "answers", "ballots"])
            if rows_are_units
            else rng.choice(["visits", "visits", "orders", "items"]),
        )
    inner = relation(rng, rows_are_units=rows_are_units, depth=depth - 1)
    if shape == "filter":
        return Filter(source=inner, condition=condition(rng, inner))
    if shape == "project":
        kept = [
            (f"x{rng.randrange(10**9)}", value)
            for value in [*texts(inner)[:2], number(rng, inner), bounded(rng, inner)]
        ]
        return Project(source=inner, columns=tuple(kept))
    if shape in {"public", "left"}:
        towns = public(rng)
        words = texts(inner)
        on = ((rng.choice(words), texts(towns)[0]),) if words and rng.random() < 0.8 else ()
        extra = (
            condition(rng, Join(left=inner, right=towns, kind=JoinKind.INNER, on=on)) if rng.random() < 0.3 else None
        )
        kind = JoinKind.LEFT if shape == "left" else rng.choice([JoinKind.INNER, JoinKind.SEMI, JoinKind.ANTI])
        return Join(left=inner, right=towns, kind=kind, on=on, where=extra)
    if shape == "join" and not rows_are_units:
        other = relation(rng, rows_are_units=False, depth=0)
        return Join(left=inner, right=other, kind=rng.choice(list(JoinKind)), on=())
    if shape == "union" and not rows_are_units:
        other = relation(rng, rows_are_units=False, depth=depth - 1)
        wide = Type(Kind.DECIMAL, True, F(-9), F(9))
        first = Project(
            source=inner, columns=(("m", call(Op.CLIP, number(rng, inner), constant(F(-9)), constant(F(9)))),)
        )
        second = Project(
            source=other, columns=(("m", call(Op.CLIP, number(rng, other), constant(F(-9)), constant(F(9)))),)
        )
        return UnionAll(sources=(first, second), columns=(("m", wide),))
    if shape == "windows":
        return windowed(rng, inner)
    if shape == "per unit":
        keys = tuple((f"k{rng.randrange(10**9)}", word) for word in texts(inner)[: rng.choice([0, 0, 1])])
        argument = bounded(rng, inner)
        made = tuple(
            (
                f"e{rng.randrange(10**9)}",
                ExactAggregate(kind=kind, argument=argument, type=_exact_type(kind, argument.type)),
            )
            for kind in rng.sample(list(ExactKind), 3)
        )
        return PerUnit(source=inner, keys=keys, aggregates=made)
    return inner


def windowed(rng: Random, inner: Relation) -> Relation:
    """Return windows over the rows of each unit, in a random order."""
    argument = bounded(rng, inner)
    numbers_ = Type(Kind.INTEGER, False, F(1), None, F(1))
    types = {WindowKind.SUM: Type(Kind.DECIMAL, True), WindowKind.COUNT: Type(Kind.INTEGER, False, F(0), None, F(1))}
    made = []
    for kind in rng.sample(list(WindowKind), 2):
        alone = kind in {WindowKind.ROW_NUMBER, WindowKind.RANK, WindowKind.DENSE_RANK}
        by = RowOrder(by=number(rng, inner, 1), descending=rng.random() < 0.5, nulls_first=rng.random() < 0.5)
        window = OwnWindow(
            kind=kind,
            argument=None if alone else argument,
            partition=tuple(texts(inner)[: rng.choice([0, 0, 1])]),
            order=(by,),
            offset=rng.choice([1, 2]),
            type=numbers_ if alone else types.get(kind, argument.type.or_null()),
        )
        made.append((f"v{rng.randrange(10**9)}", window))
    return WithWindows(source=inner, windows=tuple(made))


def _exact_type(kind: ExactKind, type_: Type) -> Type:
    if kind in {ExactKind.COUNT, ExactKind.COUNT_DISTINCT}:
        return Type(Kind.INTEGER, False, F(0), None, F(1))
    if kind is ExactKind.SUM:
        return Type(Kind.DECIMAL, True)
    return Type(type_.kind if kind is not ExactKind.AVG else Kind.DECIMAL, True, type_.lower, type_.upper)


def key(rng: Random, source: Relation) -> Expression:
    """Return a random group key."""
    options = [*texts(source)]
    options += [call(Op.BIN, number(rng, source, 1), constant(F(0)), constant(F(8)), constant(F(4)))]
    options += [number(rng, source, 1), condition(rng, source, 1)]
    if texts(source):
        options.append(call(Op.UPPER, rng.choice(texts(source))))
    return rng.choice(options)


def question(rng: Random) -> Question:
    """Return a random question."""
    source = relation(rng, rows_are_units=rng.random() < 0.25)
    keys = tuple((f"key{at}", key(rng, source)) for at in range(rng.choice([0, 1, 1, 2])))
    wanted = []
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.choice(list(AggregateKind))
        first, second = bounded(rng, source), bounded(rng, source)
        where = condition(rng, source) if rng.random() < 0.3 else None
        made = Type(Kind.DECIMAL)
        match kind:
            case AggregateKind.COUNT:
                arguments: tuple[Expression, ...] = () if rng.random() < 0.5 else (number(rng, source),)
            case AggregateKind.COUNT_UNITS:
                arguments = ()
            case AggregateKind.COUNT_DISTINCT:
                arguments = (rng.choice([number(rng, source), *texts(source)]),)
            case AggregateKind.CORRELATION | AggregateKind.COVARIANCE | AggregateKind.COVARIANCE_POPULATION:
                arguments = (first, second)
            case AggregateKind.MODE:
                arguments = (call(Op.BIN, first, constant(F(0)), constant(F(8)), constant(F(4))),)
            case _:
                arguments = (first,)
        fraction = F(rng.choice(["1/2", "1/4", "9/10"])) if kind is AggregateKind.QUANTILE else None
        wanted.append(Aggregate(kind=kind, arguments=arguments, where=where, fraction=fraction, type=made))
    return Question(data="d", relation=source, keys=keys, aggregates=tuple(dict.fromkeys(wanted)), outputs=())
