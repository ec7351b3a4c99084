"""One file, one table: no rows under two budgets, twice in one question, or public and private.

Two data sets that read one file would each spend a budget on the same people. Two tables of one data set that read one
file would count them twice where both are asked, so that a row changes an answer by two where one is declared. A file
that is public in one place is not protected in another. All of these are refused, whatever the paths look like
(`hush.engines.identity`); only public tables may share a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations

from hush.core import HushError
from hush.curator.policy import Policy
from hush.engines.errors import SourceError
from hush.engines.identity import overlap
from hush.engines.sources import Source


def refuse_sharing(policy: Policy) -> None:
    """Refuse a policy that reads one file under two names; files that cannot be read are another's concern."""
    for mistake in shared(policy):
        raise mistake


def shared(policy: Policy) -> Iterator[HushError]:
    """Yield an error for every two tables of a policy that read the same rows."""
    opened: list[tuple[str, str, bool, Source]] = []
    for data_set in policy.data.values():
        for name, table in data_set.tables.items():
            with suppress(SourceError):
                source = Source.of(str(policy.directory / table.source))
                opened.append((data_set.name, name, table.table.public, source))
    for (data, name, public, source), (other, later, also, same) in combinations(opened, 2):
        if (public and also) or not _overlap(source, name, same, later):
            continue
        file = "the same rows" if source.path is None else f"the same rows of {source.path.name}"
        yield policy.document.error(
            ("data", other, "tables", later, "source"),
            f"table '{later}' of {other} reads {file} as table '{name}' of {data}{_why(data, public, other, also)}.",
            "Name each file once: delete one of the two tables, or let it read a file of its own.",
        )


def _why(data: str, public: bool, other: str, also: bool) -> str:
    if public or also:
        return f", and {'the former' if also else 'the latter'} is public, so nothing of them would be protected"
    if data != other:
        return ", so they would have two budgets"
    return ", so they would count twice in a question about both"


def check_frames(sources: Mapping[str, Source], private: str) -> None:
    """Refuse public tables that are the private one."""
    for name, source in sources.items():
        if name != private and _overlap(sources[private], private, source, name):
            raise SourceError(
                f"the public table {name!r} has the same rows as the private table {private!r}, so nothing of them "
                "would be protected; leave it out of public, or give it rows of its own"
            )


def _overlap(one: Source, name: str, other: Source, other_name: str) -> bool:
    try:
        return overlap(one, name, other, other_name)
    except SourceError:  # one file at least, of which nothing better is known
        return True
