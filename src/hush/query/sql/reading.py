"""From text to sqlglot's tree, within limits: length, tokens, nesting, number of nodes.

The limits come before the work, so that no text can exhaust the stack or the machine; what the parser itself stumbles
over is refused like any other text that is not SQL. Parameters are marked here: each ``?`` becomes ``$1``, ``$2``, …
by its place in the text. Values never enter the text.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import binary_range_parser
from sqlglot.tokenizer_core import Token, TokenType

from hush.query.errors import QuestionError
from hush.query.sql.dialects import DEFAULT, check_dialect, translated
from hush.query.sql.nodes import AROUND, INSTEAD, STATEMENTS, WRITTEN, children

DIALECT = DEFAULT
MAX_LENGTH = 50_000
MAX_TOKENS = 10_000
MAX_NESTING = 24
MAX_DEPTH = 100
MAX_NODES = 20_000
MAX_JOINS = 16

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
_QUOTES = ("STRING", "RAW_STRING", "BYTE_STRING", "HEREDOC_STRING", "UNICODE_STRING", "IDENTIFIER")
_QUOTED = {TokenType[name] for name in _QUOTES}
_LEADING = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM}


def read_query(text: str, dialect: str = DIALECT) -> exp.Query:
    """Return the one query that a text consists of, as a dialect reads it."""
    dialect = check_dialect(dialect)
    text, tokens = _tokens(text) if dialect == DIALECT else (text, _checked(text, dialect))
    first = tokens[0]
    if first.token_type not in _LEADING:
        raise QuestionError(
            f"A question starts with SELECT or WITH; got {first.text[:40]!r}. {STATEMENTS}",
            INSTEAD.get(first.text.upper(), ""),
        )
    statements = [
        node for node in _parse(text, tokens, dialect) if node is not None and not isinstance(node, exp.Semicolon)
    ]
    if len(statements) != 1:
        raise QuestionError(f"Got {len(statements)} statements. {STATEMENTS}", "Ask them one by one.")
    node = statements[0]
    if not isinstance(node, exp.Query):
        raise QuestionError(f"{type(node).__name__} is not a question. {STATEMENTS}")
    _check_size(node)
    found = translated(node, dialect)
    assert isinstance(found, exp.Query)  # noqa: S101 - a query stays one
    return found


def read_expression(text: str, first_parameter: int = 1) -> exp.Expr:
    """Return the one expression that a text consists of; its first ``?`` is ``$first_parameter``."""
    text, tokens = _tokens(text, first_parameter)
    statements = _parse(text, tokens)
    if len(statements) != 1 or statements[0] is None or isinstance(statements[0], (exp.Query, exp.DDL, exp.Command)):
        raise QuestionError(f"{text[:60]!r} is not one expression.", "Write for instance age >= ? or AVG(cost).")
    _check_size(statements[0])
    return statements[0]


def numbered(text: str) -> str:
    """Return the text that places are counted in: each ``?`` of it has a number."""
    return _tokens(text)[0]


def only_words(text: str, dialect: str) -> str:
    """Return a text of the same length in which comments are blanks, and all between quotes are underscores.

    So a search finds what was written as SQL alone, at its place.

    >>> only_words("SELECT 'a, b', x -- c", "bigquery")
    'SELECT ______, x     '
    """
    found, last = [], 0
    for token in _checked(text, dialect):
        part = text[token.start : token.end + 1]
        found += [" " * (token.start - last), part if token.token_type not in _QUOTED else "_" * len(part)]
        last = token.end + 1
    return "".join([*found, " " * (len(text) - last)])


def count_parameters(text: str) -> int:
    """Return how many ``?`` a text has."""
    return sum(token.token_type is TokenType.PLACEHOLDER for token in _checked(text))


def size(node: exp.Expr) -> int:
    """Return the number of nodes."""
    return sum(1 for _ in node.walk())


def _tokens(text: str, first_parameter: int = 1) -> tuple[str, list[Token]]:
    """Return the text with numbered parameters, and its tokens."""
    tokens = _checked(text)
    numbered, last = [], 0
    for token in tokens:
        if token.token_type is TokenType.PLACEHOLDER:
            numbered += [text[last : token.start], f" ${first_parameter} "]
            last, first_parameter = token.end + 1, first_parameter + 1
    if not numbered:
        return text, tokens
    renamed = "".join([*numbered, text[last:]])
    with _refusing():
        return renamed, list(Dialect.get_or_raise(DIALECT).tokenize(renamed))


def _checked(text: object, dialect: str = DIALECT) -> list[Token]:
    """Return the tokens of a text that keeps within the limits."""
    if not isinstance(text, str):
        raise QuestionError(f"A question is text; got {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        raise QuestionError(f"The question has {len(text):,} characters; the limit is {MAX_LENGTH:,}.")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise QuestionError("The question holds characters that are not text.")
    with _refusing():
        tokens = list(Dialect.get_or_raise(dialect).tokenize(text))
    if not tokens:
        raise QuestionError("The question is empty.", "Ask for instance SELECT COUNT(*) FROM a table.")
    if len(tokens) > MAX_TOKENS:
        raise QuestionError(f"The question has {len(tokens):,} words and signs; the limit is {MAX_TOKENS:,}.")
    _check_nesting(tokens)
    return tokens


def _check_nesting(tokens: list[Token]) -> None:
    if sum(token.token_type is TokenType.JOIN for token in tokens) > MAX_JOINS:
        raise QuestionError(f"The question has more than {MAX_JOINS} JOINs.")
    depth = run = 0
    for token in tokens:
        run = run + 1 if token.token_type in _PREFIX else 0
        if token.token_type in _OPEN:
            depth += 1
        elif token.token_type in _CLOSE:
            depth = max(depth - 1, 0)
        if depth + run > MAX_NESTING:
            raise QuestionError(f"The question is nested more than {MAX_NESTING} deep.", "Name its parts with WITH.")


class _Counts:
    """Makes a parser give up: sqlglot goes back and tries again, for JOINs without ON twice as often with each one."""

    JOINS_HAVE_EQUAL_PRECEDENCE = True  # a comma in FROM is a CROSS JOIN, and so told from a JOIN that lacks its ON
    steps_left = 0

    if TYPE_CHECKING:
        _curr: Any
        _next: Any

    def _advance(self, times: int = 1) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise QuestionError("The question takes too long to read.", "Write each JOIN with its own ON or USING.")
        super()._advance(times)  # type: ignore[misc]

    def _parse_limit(self, this: exp.Expr | None = None, top: bool = False, skip_limit_token: bool = False) -> Any:
        """Read ``SELECT TOP 3 …`` as well, which some dialects have in place of LIMIT."""
        if top and not skip_limit_token and self._is_top():
            self._advance()
            skip_limit_token = True
        return super()._parse_limit(this, top=top, skip_limit_token=skip_limit_token)  # type: ignore[misc]

    def _is_top(self) -> bool:
        """Return whether the next words are TOP and a number, and not a column of that name."""
        word, count = self._curr, self._next
        if word is None or count is None or word.text.upper() != "TOP" or word.token_type is TokenType.IDENTIFIER:
            return False
        return count.token_type in {TokenType.NUMBER, TokenType.L_PAREN, TokenType.PLACEHOLDER, TokenType.PARAMETER}

    def _parse_function_call(self, *arguments: Any, **options: Any) -> exp.Expr | None:
        """Keep a function's name as it was written: the parser has names of its own for many."""
        name = "" if self._curr is None else str(self._curr.text)
        found: exp.Expr | None = super()._parse_function_call(*arguments, **options)  # type: ignore[misc]
        inner = found
        while isinstance(inner, AROUND):
            inner = inner.this
        if isinstance(inner, exp.Func) and name.isidentifier():
            inner.meta.setdefault(WRITTEN, name[:60])
        return found


@cache
def _parser(dialect: str) -> type[Any]:
    """Return the parser of a dialect, made to give up."""
    known: type[Any] = Dialect.get_or_raise(dialect).parser_class
    more = {"DECODE": lambda arguments: exp.DecodeCase(expressions=arguments)} if dialect == DIALECT else {}
    ranges = {TokenType.TILDE: binary_range_parser(exp.RegexpFullMatch)} if dialect == DIALECT else {}
    tables = {"FUNCTIONS": {**known.FUNCTIONS, **more}, "RANGE_PARSERS": {**known.RANGE_PARSERS, **ranges}}
    return type(f"_{dialect.title()}Parser", (_Counts, known), tables)


def _parse(text: str, tokens: list[Token], dialect: str = DIALECT) -> list[exp.Expr | None]:
    with _refusing():
        parser = _parser(dialect)(dialect=Dialect.get_or_raise(dialect))
        parser.steps_left = 1000 + 20 * len(tokens)  # some two for each token are usual
        return list(parser.parse(tokens, text))


def _check_size(node: exp.Expr) -> None:
    """Refuse a tree that is too deep or too large; found without recursion."""
    count, stack = 0, [(node, 1)]
    while stack:
        here, depth = stack.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise QuestionError(
                f"The question is nested more than {MAX_DEPTH} deep.",
                "Long chains of OR become IN (list); parts can be named with WITH.",
            )
        stack.extend((child, depth + 1) for child in children(here))
    if count > MAX_NODES:
        raise QuestionError(f"The question has {count:,} parts; the limit is {MAX_NODES:,}.")


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Turn every failure of the parser into a refusal, and keep its log quiet."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    except QuestionError:
        raise
    except ParseError as error:
        place = error.errors[0] if error.errors else {}
        where = f" at line {place['line']}, column {place['col']}" if place.get("line") else ""
        near = f", near {place['highlight'][:40]!r}" if place.get("highlight") else ""
        refusal = QuestionError(f"This is not SQL that can be read{where}{near}.")
        if place.get("highlight"):
            start, word = str(place.get("start_context") or ""), str(place["highlight"])
            refusal.place = len(start), len(start) + len(word) - 1
            refusal.text = f"{start}{word}{place.get('end_context') or ''}"
        raise refusal from None
    except TokenError:
        raise QuestionError("This is not SQL that can be read: a quote or comment is not closed.") from None
    except RecursionError:
        raise QuestionError("The question is nested too deeply.", "Name its parts with WITH.") from None
    except Exception as error:
        raise QuestionError("This is not SQL that can be read.") from error
    finally:
        logger.disabled = before
