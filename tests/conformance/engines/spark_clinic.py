"""A clinic whose visits Spark reads, and what a fault in the middle of a question must come to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benches import POLICY

from hush.curator.curator import Curator
from hush.curator.opening import open_policy
from hush.engines.errors import EngineError

QUESTION = "SELECT city, SUM(cost) AS s FROM visits GROUP BY city"
ROWS = {
    "id": [at % 200 for at in range(1000)],
    "city": ["abc"[at % 3] for at in range(1000)],
    "name": [f"n{at % 4}" for at in range(1000)],
    "cost": [(at % 100) / 4 for at in range(1000)],
    "secret": ["hidden word"] * 1000,
}


class Clinic:
    """A folder with files of visits, and a policy over one of them."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.file = folder / "visits.parquet"
        pq.write_table(pa.table(ROWS), self.file)

    def open(self, source: str | None = None) -> Curator:
        path = self.folder / "hush.toml"
        policy = POLICY.replace('epsilon = "100"', 'epsilon = "1000"')
        path.write_text(policy.format(address=self.address, source=source or self.file, groups=2))
        return open_policy(path, create=True)


def views_of(curator: Curator) -> list[str]:
    """Return the views that are left in the curator's session."""
    session = curator.data_sets["clinic"].engine.connection.server._opened()
    return [row["tableName"] for row in session.sql("SHOW TABLES").collect() if row["isTemporary"]]


def assert_charged_once(curator: Curator, fault: Callable[[], object], repair: Callable[[], object]) -> None:
    """A fault after the charge is one public error; the question is charged, and the next one works."""
    engine = type(curator.data_sets["clinic"].engine)
    execute = engine.execute

    def failing(self, compiled, choose=None):
        fault()
        return execute(self, compiled, choose)

    before = curator.session.accounts("clinic").remaining
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "execute", failing)
        with pytest.raises(EngineError, match="could not compute this answer"):
            curator.ask(QUESTION, epsilon="2")
    assert curator.session.accounts("clinic").remaining != before
    repair()
    assert len(curator.ask(QUESTION, epsilon="3").rows()) == 3
    assert not views_of(curator)
