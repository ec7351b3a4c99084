"""Whole releases by way of a service: the curator's own tests pass, and what a service adds."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from served import protected_elsewhere

import hush
from hush.accounting import LaplaceEvent
from hush.client import RemoteCurator
from hush.core import InvalidValueError
from hush.curator.opening import protect
from hush.ledger import LedgerError

CURATOR = Path(__file__).parents[1] / "curator"


def loaded(name: str) -> ModuleType:
    """Return a module of the curator's tests."""
    spec = importlib.util.spec_from_file_location(f"remote_{name}", CURATOR / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RELEASES, MODELS = loaded("test_releases"), loaded("test_model_release")
SAME = [
    (RELEASES, "test_all_tables_at_once"),
    (RELEASES, "test_conditions_and_roll_ups_have_error_bars"),
    (RELEASES, "test_synthetic_rows_lie_on_the_policys_grid"),
    (RELEASES, "test_synthetic_counts_are_honest_about_what_is_known"),
    (RELEASES, "test_a_release_is_kept_and_repeated_for_nothing"),
    (RELEASES, "test_the_price_is_charged_before_and_within_the_budget"),
    (RELEASES, "test_parents_are_given_children"),
    (RELEASES, "test_ranges_and_children_are_explained_before_they_are_paid"),
    (MODELS, "test_a_request_is_replayed_free"),
    (MODELS, "test_clusters_and_components_of_numbers"),
    (MODELS, "test_explaining_costs_nothing_and_says_the_price_and_the_noise"),
    (MODELS, "test_a_training_run_is_charged_before_it_starts_and_stated_by_the_caller"),
]


@pytest.mark.parametrize(("module", "name"), SAME, ids=[name for _, name in SAME])
def test_the_curators_own_tests_pass(module: ModuleType, name: str, tmp_path: Path, monkeypatch) -> None:
    folders = iter(range(10))

    def elsewhere(frame: pa.Table, **options: Any) -> Any:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        return protected_elsewhere(folder, frame, **options)

    monkeypatch.setattr(module, "protect", elsewhere)
    getattr(module, name)()


FRAME = pa.table({"age": [row % 90 for row in range(500)], "sex": ["FM"[row % 2] for row in range(500)]})
DECLARED: dict[str, Any] = {
    "bounds": {"age": (0, 100)},
    "values": {"sex": ["F", "M"]},
    "budget": {"epsilon": "20", "delta": "1e-6"},
}


@contextmanager
def both(folder: Path) -> Iterator[tuple[RemoteCurator, hush.Curator]]:
    with protected_elsewhere(folder, FRAME, **DECLARED) as there, protect(FRAME, **DECLARED) as here:
        yield there, here


def test_explanations_are_word_for_word_those_of_a_local_curator(tmp_path: Path) -> None:
    rows, age = "SELECT age, sex FROM data", "SELECT age FROM data"
    with both(tmp_path) as places:
        for what, arguments, terms in [
            ("explain_marginals", ("data", ["age", "sex"]), {"degree": 1}),
            ("explain_synth", (rows,), {"certify": "0.1"}),
            ("explain_ranges", (age,), {}),
            ("explain_fit", (rows,), {"target": "age"}),
        ]:
            there, here = (getattr(place, what)(*arguments, epsilon="1/3", **terms) for place in places)
            assert (str(there), there.price, there.caveats) == (str(here), here.price, here.caveats)
            assert there.to_json() == here.to_json()
            if hasattr(here, "errors"):
                assert there.errors() == here.errors()


def test_refusals_are_word_for_word_those_of_a_local_curator(tmp_path: Path) -> None:
    rows = "SELECT age, sex FROM data"
    mistakes = [
        ("marginals", ("data", ["age"]), {"degree": 3, "epsilon": 1}),
        ("marginals", ("data", ["agee"]), {"epsilon": 1}),
        ("marginals", ("data", None), {"epsilon": 1}),
        ("marginals", ("data", ["age", "sex"]), {"epsilon": 1, "confidence": 2.0}),
        ("synth", (rows,), {"epsilon": 1, "certify": 2}),
        ("synth", (rows,), {}),
        ("synth", (5,), {"epsilon": 1}),
        ("ranges", (rows,), {"epsilon": 1}),
        ("ranges", ("SELECT sex FROM data",), {"epsilon": 1}),
        ("ranges", ("SELECT age FROM data",), {"epsilon": 1000}),
        ("fit", (rows,), {"epsilon": 1}),
        ("fit", (rows,), {"epsilon": 1, "target": "age", "model": "oracle"}),
        ("fit", (rows,), {"epsilon": 1, "target": "age", "clusters": 3}),
        ("fit", (rows,), {"epsilon": 1, "target": "agee"}),
    ]
    with both(tmp_path) as places:
        for what, arguments, terms in mistakes:
            told = []
            for place in places:
                with pytest.raises(hush.HushError) as refusal:
                    getattr(place, what)(*arguments, **terms)
                told.append((str(refusal.value).replace("me's", "data's"), refusal.value.code))
            assert told[0] == told[1], (what, terms)
        assert places[0].history() == []


def test_a_remote_curator_shows_itself_as_a_local_one(tmp_path: Path) -> None:
    with both(tmp_path) as (remote, local):
        shown = repr(remote).splitlines()
        assert shown[0].startswith("<RemoteCurator of me at 127.0.0.1: data")
        assert set(repr(local).splitlines()[1:]) <= set(
            shown[1:]
        )  # one more: the analyst of the service has an own budget
    assert repr(remote).startswith("<RemoteCurator of me at 127.0.0.1> (")


def test_synthetic_rows_as_a_data_frame(tmp_path: Path) -> None:
    with both(tmp_path) as (_, local):
        rows = local.synth("SELECT age, sex FROM data", epsilon=1)
        assert rows.to_pandas().to_dict("list") == rows.table.to_pydict()


def test_a_release_is_had_again_by_its_receipt_even_when_the_policy_has_changed(tmp_path: Path) -> None:
    rows = "SELECT age, sex FROM data"
    with protected_elsewhere(tmp_path, FRAME, **DECLARED) as curator:
        tables = curator.marginals("data", ["age", "sex"], epsilon=1)
        made = curator.synth(rows, epsilon=1, request="rows")
        ranges = curator.ranges("SELECT age FROM data", epsilon=1)
        model = curator.fit(rows, target="age", epsilon=1)
        answer = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon=1)
        policy = tmp_path / "hush.toml"
        policy.write_text(policy.read_text().replace('"F", "M"', '"F", "M", "X"').replace("'F', 'M'", "'F', 'M', 'X'"))
        again = [curator.released(one.receipt) for one in (tables, made, ranges, model)]
        assert again[0]["age", "sex"].table.equals(tables["age", "sex"].table)
        assert again[1].table.equals(made.table)
        assert again[2].quantiles() == ranges.quantiles()
        assert again[3].to_json() == model.to_json()
        assert tables.remaining.epsilon > made.remaining.epsilon
        with pytest.raises(LedgerError, match="no whole release"):
            curator.released(answer.receipt)
        with pytest.raises(LedgerError, match="no table but a whole release"):
            curator.answer(tables.receipt)
        assert len(curator.history()) == 5


def test_streams_are_paid_once_and_released_at_their_own_pace(tmp_path: Path) -> None:
    frame = pa.table({"id": list(range(300)), "day": [row % 10 for row in range(300)]})
    declared = {"unit": "id", "bounds": {"day": (0, 99)}, "budget": {"epsilon": "20", "delta": "1e-6"}}
    sql = "SELECT day, COUNT(*) AS n FROM data GROUP BY day"
    with protected_elsewhere(tmp_path, frame, **declared) as curator:
        terms = {"horizon": "50 periods", "epsilon": "2"}
        assert curator.stream.explain(sql, **terms)["periods"] == 50
        assert curator.stream.names() == []
        stream = curator.stream.create(sql, name="daily", request="first", **terms)
        assert curator.stream.create(sql, name="daily", request="first", **terms).receipt == stream.receipt
        with pytest.raises(hush.HushError, match="already") as refusal:
            curator.stream.create(sql, name="daily", **terms)
        assert refusal.value.code == "stream"
        assert (stream.advance(4), stream.advance(4), stream.released) == (5, 5, 5)
        answer = stream.answer
        assert [column.name for column in answer.columns] == ["day", "n", "last_7", "total"]
        assert (len(answer), stream.table.num_rows, answer.receipt) == (5, 5, stream.receipt)
        assert curator.stream.open("daily").answer == answer
        assert len(curator.history()) == 1
        stream.stop()
        with pytest.raises(hush.HushError, match="has ended"):
            stream.advance(9)
        with pytest.raises(hush.HushError, match="there are: daily"):
            curator.stream.open("weekly")
        with pytest.raises(InvalidValueError, match="name"):
            curator.stream.create(sql, name="../x", **terms)


def test_an_event_that_is_no_event(tmp_path: Path) -> None:
    with protected_elsewhere(tmp_path, FRAME, **DECLARED) as curator:
        assert curator.record(LaplaceEvent(scale=10), "elsewhere").receipt
        with pytest.raises(InvalidValueError, match="event"):
            curator.record("laplace", "elsewhere")
