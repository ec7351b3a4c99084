"""Run the examples of the documentation and of the docstrings as tests; choose how property tests look for cases.

By default property tests try the same cases every time, so that a failure is always news of a change. `make nightly`
sets HYPOTHESIS_PROFILE=explore and looks for new ones.
"""

import os
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from hypothesis import settings
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from sybil.sybil import SybilCollection

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

_FLAGS = ELLIPSIS | NORMALIZE_WHITESPACE

pytest_collect_file = SybilCollection(
    [
        Sybil(
            parsers=[PythonCodeBlockParser(doctest_optionflags=_FLAGS), SkipParser()],
            patterns=["README.md", "docs/*.md", "docs/tutorials/*.md"],
        ),
        Sybil(
            parsers=[DocTestParser(_FLAGS)],
            path="src",
            pattern="*.py",
            document_types={".py": PythonDocStringDocument},
        ),
    ]
).pytest()
