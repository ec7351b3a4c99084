"""The text of a statement.

sqlglot writes any tree in any dialect, and takes as long as DuckDB takes to answer a small question. The statements of
a question consist of the few nodes that `hush.engines.sql.build` makes, and are written here for DuckDB, character by
character as sqlglot would (a test compares the two). A node may stand in several places: its text is made once, and
nothing has to be copied. A node that is not known here is an error, found by the first question that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlglot import exp

from hush.query.plan.errors import UnplannableError

MOST = 500_000
"""A question with longer SQL than this many characters is refused; the length depends on the question alone."""

_Write = Callable[[Any], str]


class Texts:
    """Texts of nodes, each written once. The nodes must not change any more."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[exp.Expr, str]] = {}  # the node is kept so that its id stays its own

    def of(self, node: exp.Expr) -> str:
        """Return a node as SQL."""
        known = self._known.get(id(node))
        if known is not None:
            return known[1]
        text = _WRITERS[type(node)](node.args, self.of)
        if len(text) > MOST:
            raise UnplannableError("the question is too large; split it or simplify its expressions")
        self._known[id(node)] = (node, text)
        return text


def written(node: exp.Expr) -> str:
    """Return a tree as SQL."""
    return Texts().of(node)


def _list(nodes: Any, of: _Write) -> str:
    return ", ".join([of(node) for node in nodes])


def _identifier(args: dict[str, Any], _: _Write) -> str:
    return '"' + str(args["this"]).replace('"', '""') + '"'


def _column(args: dict[str, Any], of: _Write) -> str:
    table = args.get("table")
    return of(args["this"]) if table is None else f"{of(table)}.{of(args['this'])}"


def _literal(args: dict[str, Any], _: _Write) -> str:
    return "'" + str(args["this"]).replace("'", "''") + "'" if args["is_string"] else str(args["this"])


@lru_cache(maxsize=64)
def _type(node: exp.DataType) -> str:
    return node.sql("duckdb")


def _cast(args: dict[str, Any], of: _Write) -> str:
    return f"CAST({of(args['this'])} AS {_type(args['to'])})"


def _try_cast(args: dict[str, Any], of: _Write) -> str:
    return f"TRY_CAST({of(args['this'])} AS {_type(args['to'])})"


def _case(args: dict[str, Any], of: _Write) -> str:
    parts = [f"WHEN {of(one.args['this'])} THEN {of(one.args['true'])}" for one in args["ifs"]]
    default = args.get("default")
    if default is not None:
        parts.append(f"ELSE {of(default)}")
    return f"CASE {' '.join(parts)} END"


def _between(args: dict[str, Any], of: _Write) -> str:
    return f"{of(args['this'])} BETWEEN {of(args['low'])} AND {of(args['high'])}"


def _in(args: dict[str, Any], of: _Write) -> str:
    return f"{of(args['this'])} IN ({_list(args['expressions'], of)})"


def _call(args: dict[str, Any], of: _Write) -> str:
    return f"{args['this'].upper()}({_list(args['expressions'], of)})"


def _filter(args: dict[str, Any], of: _Write) -> str:
    return f"{of(args['this'])} FILTER(WHERE {of(args['expression'].args['this'])})"


def _window(args: dict[str, Any], of: _Write) -> str:
    parts = []
    if args.get("partition_by"):
        parts.append(f"PARTITION BY {_list(args['partition_by'], of)}")
    if args.get("order") is not None:
        parts.append(of(args["order"]))
    frame = args.get("spec")
    if frame is not None:
        parts.append(f"{frame.args['kind']} BETWEEN {frame.args['start']} AND {frame.args['end']}")
    return f"{of(args['this'])} OVER ({' '.join(parts)})"


def _order(args: dict[str, Any], of: _Write) -> str:
    # NULLs come last, as DuckDB does it unasked
    items = [item.args["this"] if isinstance(item, exp.Ordered) else item for item in args["expressions"]]
    return f"ORDER BY {_list(items, of)}"


def _alias(args: dict[str, Any], of: _Write) -> str:
    alias = args["alias"]
    return of(alias.args["this"] if isinstance(alias, exp.TableAlias) else alias)


def _table(args: dict[str, Any], of: _Write) -> str:
    return f"{of(args['this'])} AS {_alias(args, of)}"


def _subquery(args: dict[str, Any], of: _Write) -> str:
    return f"({of(args['this'])}) AS {_alias(args, of)}"


def _join(args: dict[str, Any], of: _Write) -> str:
    words = [args[word] for word in ("side", "kind") if args.get(word)]
    on = args.get("on")
    return " ".join([*words, "JOIN", of(args["this"]), *([] if on is None else ["ON", of(on)])])


def _union(args: dict[str, Any], of: _Write) -> str:
    return f"{of(args['this'])} UNION ALL {of(args['expression'])}"


def _select(args: dict[str, Any], of: _Write) -> str:
    parts = []
    if args.get("with_") is not None:
        parts.append(of(args["with_"]))
    parts.append("SELECT DISTINCT" if args.get("distinct") is not None else "SELECT")
    parts.append(_list(args["expressions"], of))
    if args.get("from_") is not None:
        parts.append(f"FROM {of(args['from_'].args['this'])}")
    parts += [of(join) for join in args.get("joins") or ()]
    for word, key in (("WHERE", "where"), ("HAVING", "having")):
        if key == "having" and args.get("group") is not None:
            parts.append(f"GROUP BY {_list(args['group'].args['expressions'], of)}")
        if args.get(key) is not None:
            parts.append(f"{word} {of(args[key].args['this'])}")
    if args.get("order") is not None:
        parts.append(of(args["order"]))
    if args.get("limit") is not None:
        parts.append(f"LIMIT {of(args['limit'].args['expression'])}")
    return " ".join(parts)


def _with(args: dict[str, Any], of: _Write) -> str:
    parts = []
    for one in args["expressions"]:
        how = "AS MATERIALIZED" if one.args.get("materialized") else "AS"
        parts.append(f"{_alias(one.args, of)} {how} ({of(one.args['this'])})")
    return f"WITH {', '.join(parts)}"


def _infix(word: str) -> Callable[[dict[str, Any], _Write], str]:
    def write(args: dict[str, Any], of: _Write) -> str:
        return f"{of(args['this'])} {word} {of(args['expression'])}"

    return write


def _around(before: str, after: str = "") -> Callable[[dict[str, Any], _Write], str]:
    def write(args: dict[str, Any], of: _Write) -> str:
        return f"{before}{of(args['this'])}{after}"

    return write


_WRITERS: dict[type[exp.Expr], Callable[[dict[str, Any], _Write], str]] = {
    exp.Identifier: _identifier,
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Cast: _cast,
    exp.TryCast: _try_cast,
    exp.Case: _case,
    exp.Between: _between,
    exp.In: _in,
    exp.Anonymous: _call,
    exp.Filter: _filter,
    exp.Window: _window,
    exp.Order: _order,
    exp.Table: _table,
    exp.Subquery: _subquery,
    exp.Join: _join,
    exp.Union: _union,
    exp.Select: _select,
    exp.With: _with,
    exp.Null: lambda *_: "NULL",
    exp.Star: lambda *_: "*",
    exp.Boolean: lambda args, _: "TRUE" if args["this"] else "FALSE",
    exp.Alias: lambda args, of: f"{of(args['this'])} AS {of(args['alias'])}",
    exp.Coalesce: lambda args, of: f"COALESCE({_list([args['this'], *args['expressions']], of)})",
    exp.Array: lambda args, of: f"[{_list(args['expressions'], of)}]",
    exp.Distinct: lambda args, of: f"DISTINCT {_list(args['expressions'], of)}",
    exp.Paren: _around("(", ")"),
    exp.Neg: _around("-"),
    exp.Not: _around("NOT "),
    exp.Count: _around("COUNT(", ")"),
    exp.Sum: _around("SUM(", ")"),
    exp.Min: _around("MIN(", ")"),
    exp.Max: _around("MAX(", ")"),
    exp.Add: _infix("+"),
    exp.Sub: _infix("-"),
    exp.Mul: _infix("*"),
    exp.Div: _infix("/"),
    exp.IntDiv: _infix("//"),
    exp.Mod: _infix("%"),
    exp.DPipe: _infix("||"),
    exp.EQ: _infix("="),
    exp.NEQ: _infix("<>"),
    exp.LT: _infix("<"),
    exp.LTE: _infix("<="),
    exp.GT: _infix(">"),
    exp.GTE: _infix(">="),
    exp.And: _infix("AND"),
    exp.Or: _infix("OR"),
    exp.Is: _infix("IS"),
    exp.Like: _infix("LIKE"),
    exp.NullSafeEQ: _infix("IS NOT DISTINCT FROM"),
}
