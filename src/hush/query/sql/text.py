"""From text to sqlglot's tree, within limits: length, tokens, nesting.

The limits come before the work, so that no text can exhaust the stack or the machine. A text over which the parser
stumbles is refused as text that is not SQL. Parameters are numbered here: ``?`` is ``$1``, ``$2``, … in the order
of the text. Values never enter the text.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import binary_range_parser
from sqlglot.tokenizer_core import Token, TokenType

from hush.core import HushError
from hush.query.errors import QuestionError
from hush.query.sql.allow_list import AROUND, DROPPED, INSTEAD, STATEMENTS, WRITTEN, called

DEFAULT = "duckdb"
DIALECTS = (DEFAULT, "bigquery", "snowflake", "postgres", "spark", "tsql")
MAX_LENGTH = 50_000
MAX_TOKENS = 10_000
MAX_NESTING = 24
MAX_DEPTH = 100
MAX_JOINS = 16

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
_LEADING = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM}
PRIVACY = re.compile(r"(?i)DIFFERENTIAL_PRIVACY|ANONYMIZATION")
PER_UNIT = "HUSH_PER_UNIT"
"""The function that bounds what a unit contributes to a group, as CLIP bounds a row."""
_BOUNDING = {"contribution_bounds_per_row": "CLIP", "contribution_bounds_per_group": PER_UNIT}
_NUMBERS = {TokenType.NUMBER, TokenType.L_PAREN, TokenType.PLACEHOLDER, TokenType.PARAMETER}


@contextlib.contextmanager
def refusals(text: str = "", otherwise: str = "The question could not be understood.") -> Iterator[None]:
    """Refuse a text or a tree that makes the parser or a reader fail, and keep the parser's log quiet.

    A tree of an unknown shape is refused like anything that is not understood. The tests check that none is known. A
    refusal that has a place gets the text in which it is counted.
    """
    logger = logging.getLogger("sqlglot")
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    except QuestionError as error:
        if error.place is not None and not error.text:
            error.text = text
        raise
    except (HushError, MemoryError):
        raise
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        where = f" at line {details['line']}, column {details['col']}" if details.get("line") else ""
        near = f", near {details['highlight'][:40]!r}" if details.get("highlight") else ""
        refusal = QuestionError(f"This is not SQL that can be read{where}{near}.")
        if details.get("highlight"):
            start, word = str(details.get("start_context") or ""), str(details["highlight"])
            refusal.place = len(start), len(start) + len(word) - 1
            refusal.text = f"{start}{word}{details.get('end_context') or ''}"
        raise refusal from None
    except TokenError:
        raise QuestionError("This is not SQL that can be read: a quote or comment is not closed.") from None
    except RecursionError:
        raise QuestionError("The question is nested too deeply.", "Name its parts with WITH.") from None
    except Exception as error:
        raise QuestionError(otherwise) from error
    finally:
        logger.disabled = disabled


@refusals(otherwise="This is not SQL that can be read.")
def read_query(text: str, dialect: str = DEFAULT) -> exp.Query:
    """Return the one query that a text consists of, as a dialect reads it."""
    if dialect == DEFAULT and isinstance(text, str) and "[" in text:
        text = _with_quoted_names(text)
    tokens = _checked_tokens(text, dialect)
    first = tokens[0]
    if first.token_type not in _LEADING:
        raise QuestionError(
            f"A question starts with SELECT or WITH; got {first.text[:40]!r}. {STATEMENTS}",
            INSTEAD.get(first.text.upper(), ""),
        )
    trees = _parse(text, tokens, dialect)
    statements = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(statements) != 1:
        raise QuestionError(f"Got {len(statements)} statements. {STATEMENTS}", "Ask them one by one.")
    node = statements[0]
    if not isinstance(node, exp.Query):
        raise QuestionError(f"{type(node).__name__} is not a question. {STATEMENTS}")
    _check_nodes(node)
    return node


@refusals(otherwise="This is not SQL that can be read.")
def read_expression(text: str, first_parameter: int = 1) -> exp.Expr:
    """Return the one expression that a text consists of; its first ``?`` is ``$first_parameter``."""
    trees = _parse(text, _checked_tokens(text, DEFAULT, first_parameter), DEFAULT)
    if len(trees) != 1 or trees[0] is None or isinstance(trees[0], (exp.Query, exp.DDL, exp.Command)):
        raise QuestionError(f"{text[:60]!r} is not one expression.", "Write for instance age >= ? or AVG(cost).")
    _check_nodes(trees[0])
    return trees[0]


def count_parameters(text: str) -> int:
    """Return the number of ``?`` in a text."""
    return sum(token.token_type is TokenType.PLACEHOLDER for token in _checked_tokens(text))


def _with_quoted_names(text: str) -> str:
    """Return a text in which ``[name]`` is ``"name"``: a list of one column has no use here.

    >>> _with_quoted_names("SELECT [first name], x[i] FROM [t]")
    'SELECT "first name", x[i] FROM "t"'
    """
    characters, tokens = list(text), _checked_tokens(text)
    for index, token in enumerate(tokens):
        if token.token_type is not TokenType.L_BRACKET:
            continue
        closing = next((t for t in tokens[index : index + 9] if t.token_type is TokenType.R_BRACKET), token)
        indexed = index > 0 and tokens[index - 1].end + 1 == token.start and text[token.start - 1].isalnum()
        if not indexed and re.fullmatch(r"[^\W\d][\w $#-]*", text[token.end + 1 : closing.start]):
            characters[token.start] = characters[closing.start] = '"'
    return "".join(characters)


def _checked_tokens(text: object, dialect: str = DEFAULT, first_parameter: int = 1) -> list[Token]:
    """Return the tokens of a text within the limits, each ``?`` with its number as its text.

    The limits bound the parser's time and recursion. What is nested is counted by brackets and by signs and words that
    stand before an operand.
    """
    if not isinstance(text, str):
        raise QuestionError(f"A question is text; got {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        raise QuestionError(f"The question has {len(text):,} characters; the limit is {MAX_LENGTH:,}.")
    if re.search("[\x00\ud800-\udfff]", text):
        raise QuestionError("The question holds characters that are not text.")
    tokens = list(Dialect.get_or_raise(dialect).tokenize(text))
    if not tokens:
        raise QuestionError("The question is empty.", "Ask for instance SELECT COUNT(*) FROM a table.")
    if len(tokens) > MAX_TOKENS:
        raise QuestionError(f"The question has {len(tokens):,} words and signs; the limit is {MAX_TOKENS:,}.")
    depth = prefixes = joins = 0
    for token in tokens:
        joins += token.token_type is TokenType.JOIN
        prefixes = prefixes + 1 if token.token_type in _PREFIX else 0
        if token.token_type in _OPEN:
            depth += 1
        elif token.token_type in _CLOSE:
            depth = max(depth - 1, 0)
        elif token.token_type is TokenType.PLACEHOLDER:
            token.text = str(first_parameter)
            first_parameter += 1
        if depth + prefixes > MAX_NESTING:
            raise QuestionError(f"The question is nested more than {MAX_NESTING} deep.", "Name its parts with WITH.")
    if joins > MAX_JOINS:
        raise QuestionError(f"The question has more than {MAX_JOINS} JOINs.")
    return tokens


class PrivacyClause(exp.Expression):
    """BigQuery's ``WITH DIFFERENTIAL_PRIVACY OPTIONS (…)`` after SELECT, which stands where a hint may."""

    arg_types = {"expressions": False}  # noqa: RUF012 - as sqlglot declares them


class _LimitedParser:
    """A parser with a limit of steps, because sqlglot's backtracking doubles with each JOIN without ON."""

    JOINS_HAVE_EQUAL_PRECEDENCE = True  # a comma in FROM is a CROSS JOIN, and so told from a JOIN that lacks its ON
    steps_left = 0
    aside: list[exp.Kwarg]
    """Bounds of BigQuery that belong to the function which is being read."""

    if TYPE_CHECKING:
        _curr: Any
        _next: Any
        _index: int
        _tokens: list[Token]
        raise_error: Any

    def _advance(self, times: int = 1) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise QuestionError("The question takes too long to read.", "Write each JOIN with its own ON or USING.")
        super()._advance(times)  # type: ignore[misc]

    def _parse_limit(self, this: exp.Expr | None = None, top: bool = False, skip_limit_token: bool = False) -> Any:
        """Read ``SELECT TOP 3 …`` as well, which some dialects have in place of LIMIT; TOP may also be a column."""
        word, count = self._curr, self._next
        is_top = word is not None and word.text.upper() == "TOP" and word.token_type is not TokenType.IDENTIFIER
        if top and not skip_limit_token and is_top and count is not None and count.token_type in _NUMBERS:
            self._advance()
            skip_limit_token = True
        return super()._parse_limit(this, top=top, skip_limit_token=skip_limit_token)  # type: ignore[misc]

    def _parse_function_call(self, *arguments: Any, **options: Any) -> exp.Expr | None:
        """Keep a function's name as the question wrote it, and whether an argument was dropped."""
        name, start = "" if self._curr is None else str(self._curr.text), self._index
        before = len(self.aside)
        node: exp.Expr | None = super()._parse_function_call(*arguments, **options)  # type: ignore[misc]
        bounds = self.aside[before:]
        del self.aside[before:]
        function = node
        while isinstance(function, AROUND):
            function = function.this
        if not isinstance(function, exp.Func) or not name.isidentifier():
            return node
        function.meta.setdefault(WRITTEN, name[:60])
        # commas between the call's own parentheses, against the arguments that the parser has understood
        depth = commas = 0
        for token in self._tokens[start : self._index]:
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            commas += token.token_type is TokenType.COMMA and depth == 1
            if token.token_type is TokenType.R_PAREN and depth == 0:
                break
        count = 0
        for value in function.args.values() if commas else ():
            for argument in value if isinstance(value, list) else [value]:
                count += len(argument.expressions) if isinstance(argument, exp.Distinct) else argument is not None
        for bound in bounds:
            count += 1
            # CLIP(*) is no SQL; COUNT(1) counts the same rows
            bounded = exp.Literal.number(1) if isinstance(function.this, exp.Star) else function.this
            ends = [bounded, *bound.expression.expressions]
            function.set("this", exp.Anonymous(this=_BOUNDING[bound.name.lower()], expressions=ends))
        function.meta[DROPPED] = count < commas + 1 if commas else False
        return node


class _BigQueryParser(_LimitedParser):
    """A parser of BigQuery's own clauses for differential privacy."""

    def _parse_hint(self) -> Any:
        """Read BigQuery's privacy clause, too."""
        if self._curr is None or self._next is None or not PRIVACY.fullmatch(self._next.text):
            return super()._parse_hint()  # type: ignore[misc]
        self._advance(2)
        options = self._parse_function_call(anonymous=True)
        if isinstance(options, exp.Anonymous) and options.name.upper() == "OPTIONS":
            return PrivacyClause(expressions=options.expressions)
        return self.raise_error("Expected OPTIONS (…)")

    def _parse_lambda(self, alias: bool = False) -> Any:
        """Keep ``contribution_bounds_per_row => (0, 9)`` aside, for the function that it is an argument of."""
        node = super()._parse_lambda(alias)  # type: ignore[misc]
        if not isinstance(node, exp.Kwarg) or node.name.lower() not in _BOUNDING:
            return node
        self.aside.append(node)
        return None


@cache
def _parser(dialect: str) -> type[Any]:
    """Return the parser of a dialect, with a limit of steps."""
    parser: type[Any] = Dialect.get_or_raise(dialect).parser_class
    functions, ranges = dict(parser.FUNCTIONS), dict(parser.RANGE_PARSERS)
    if dialect == DEFAULT:
        functions["DECODE"] = lambda arguments: exp.DecodeCase(expressions=arguments)
        ranges[TokenType.TILDE] = binary_range_parser(exp.RegexpFullMatch)
    # a token of ? has its number as its text
    numbered = {TokenType.PLACEHOLDER: lambda parser: exp.Placeholder(this=parser._prev.text)}  # noqa: SLF001
    placeholders = {**parser.PLACEHOLDER_PARSERS, **numbered}
    tables = {"FUNCTIONS": functions, "RANGE_PARSERS": ranges, "PLACEHOLDER_PARSERS": placeholders}
    limited = _BigQueryParser if dialect == "bigquery" else _LimitedParser
    return type(f"_{dialect.title()}Parser", (limited, parser), tables)


def _parse(text: str, tokens: list[Token], dialect: str) -> list[exp.Expr | None]:
    parser = _parser(dialect)(dialect=Dialect.get_or_raise(dialect))
    parser.aside = []
    parser.steps_left = 1000 + 20 * len(tokens)  # some two for each token are usual
    return list(parser.parse(tokens, text))


def _check_nodes(tree: exp.Expr) -> None:
    """Refuse a tree that is too deep, by a walk without recursion, and spell some of its nodes more plainly.

    x <> ALL (SELECT …) is NOT IN, x = ANY (SELECT …) is IN, and N'text' is a text.
    """
    unusual: list[exp.Expr] = []
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise QuestionError(
                f"The question is nested more than {MAX_DEPTH} deep.",
                "Long chains of OR become IN (list); parts can be named with WITH.",
            )
        if node.meta.get(DROPPED):
            raise QuestionError(f"{called(node)} has more arguments than are understood.", "Leave some out.")
        if isinstance(node, exp.National | exp.All | exp.Any):
            unusual.append(node)
        stack += zip(node.iter_expressions(), repeat(depth + 1), strict=False)
    for node in unusual:
        test, query = node.parent, node.this
        if isinstance(node, exp.National):
            node.replace(exp.Literal.string(str(query)))
        elif isinstance(test, exp.NEQ if isinstance(node, exp.All) else exp.EQ) and test.expression is node:
            query = query.this if isinstance(query, exp.Subquery | exp.Paren) else query
            if isinstance(query, exp.Query):
                plain: exp.Expr = exp.In(this=test.this, query=exp.Subquery(this=query))
                test.replace(exp.Not(this=plain) if isinstance(node, exp.All) else plain)
