"""What is given to a public function by mistake is an error of hush's, in words that name the parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hush
from hush.accounting import LaplaceEvent

HUGE = 10**400


@pytest.fixture(scope="module")
def curator() -> Iterator[hush.Curator]:
    frame = pa.table({"id": range(20), "x": [1.5] * 20})
    with hush.protect(frame, unit="id", bounds={"x": (0, 2)}, budget=10) as made:
        yield made


@pytest.mark.parametrize(
    "call",
    [
        lambda: hush.compose(None),
        lambda: hush.compose("events"),
        lambda: hush.compose(-1),
        lambda: hush.compare(None, delta="1e-6"),
        lambda: hush.compare(["x"], delta="1e-6"),
        lambda: hush.best_split(LaplaceEvent, sensitivities=1, epsilon=1),
        lambda: hush.compose([LaplaceEvent(scale=1)]).delta(epsilon=HUGE),
        lambda: hush.plain(HUGE),
        lambda: hush.utility.split(["x"], epsilon=1),
        lambda: hush.learn.select(["x"], [[1]], score=len),
        lambda: hush.learn.selection_event(3),
        lambda: hush.learn.load(None),
        lambda: hush.learn.load("missing.json"),
        lambda: hush.learn.load(""),
        lambda: hush.open(None),
        lambda: hush.open(""),
    ],
)
def test_a_wrong_argument_is_refused(call: Callable[[], object], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hush.HushError):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda curator: curator.ask("SELECT COUNT(*) FROM data", epsilon=1, data=[]),
        lambda curator: curator.marginals(None, epsilon=1),
        lambda curator: curator.marginals("data", by=3, epsilon=1),
        lambda curator: curator.fit("SELECT x FROM data", target="x", model=[], epsilon=1),
        lambda curator: curator.ask("SELECT COUNT(*) FROM data", epsilon=1).save(None),
        lambda curator: curator.ask("SELECT COUNT(*) FROM data", epsilon=1).to_csv(3),
    ],
)
def test_a_curator_refuses_a_wrong_argument(call: Callable[[hush.Curator], object], curator: hush.Curator) -> None:
    with pytest.raises(hush.HushError):
        call(curator)


def test_a_model_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(hush.HushError, match=r"No such file.*model\.save\(path\)"):
        hush.learn.load(tmp_path / "missing.json")
    (tmp_path / "text.json").write_text("no JSON")
    with pytest.raises(hush.HushError, match="holds no JSON"):
        hush.learn.load(tmp_path / "text.json")


def test_a_sum_without_bounds_names_what_is_summed() -> None:
    frame = pa.table({"id": [1, 2], "free": [1.5, 2.5]})
    text = "SELECT COUNT(*) FROM (SELECT id, SUM(free) AS s FROM data GROUP BY id) AS q WHERE s > 1"
    with hush.protect(frame, unit="id", budget=1) as curator, pytest.raises(hush.HushError, match="free"):
        curator.ask(text, epsilon=1)
