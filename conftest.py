"""Run the examples of the documentation and of the docstrings as tests."""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from sybil.sybil import SybilCollection

_FLAGS = ELLIPSIS | NORMALIZE_WHITESPACE

pytest_collect_file = SybilCollection(
    [
        Sybil(
            parsers=[PythonCodeBlockParser(doctest_optionflags=_FLAGS), SkipParser()],
            patterns=["README.md", "docs/*.md"],
        ),
        Sybil(
            parsers=[DocTestParser(_FLAGS)],
            path="src",
            pattern="*.py",
            document_types={".py": PythonDocStringDocument},
        ),
    ]
).pytest()
