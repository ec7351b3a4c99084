"""What a client does by itself: where it connects, what it sends again, and how it tells what a service says."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from served import certificate, clinic_with, protected_elsewhere, running

import hush
from hush.client import RemoteCurator, RemoteError, connect
from hush.client.transport import Connection
from hush.core import BudgetExceededError, InvalidValueError
from hush.query.errors import QuestionError
from hush.query.parameters import from_wire, to_wire
from hush.server.auth.people import People
from hush.server.settings import ServiceSettings

COUNT = "SELECT COUNT(*) AS n FROM data"
MISSPELT = "hush_x"


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[RemoteCurator]:
    frame = pa.table({"age": list(range(100))})
    with protected_elsewhere(tmp_path, frame, bounds={"age": (0, 100)}, budget="5") as made:
        yield made


def test_a_response_that_was_lost_is_asked_for_again_and_paid_once(curator: RemoteCurator, monkeypatch) -> None:
    lost, once = [2], Connection._once

    def unlucky(self: Connection, method: str, *arguments: object) -> object:
        response = once(self, method, *arguments)
        if method == "POST" and lost[0]:
            lost[0] -= 1
            raise ConnectionResetError
        return response

    monkeypatch.setattr(Connection, "_once", unlucky)
    answer = curator.ask(COUNT, epsilon=1)
    assert lost == [0]
    assert [release.outcome for release in curator.history()] == ["answered"]
    assert curator.answer(answer.receipt) == answer
    assert answer.remaining is not None
    assert answer.remaining.epsilon == 4
    assert str(answer.spending) == "20% of the budget of data; 80% of it is left"


def test_a_service_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(RemoteError, match="cannot be reached"):
        connect(f"http://127.0.0.1:{port}", token=MISSPELT)


@pytest.mark.parametrize(
    "address", ["", "clinic", "ftp://localhost", "http://hush.example", "http://192.0.2.1:8000", "https://x/?token=1"]
)
def test_tokens_do_not_travel_in_the_clear(address: str) -> None:
    with pytest.raises(InvalidValueError, match="address"):
        connect(address, token=MISSPELT)


def test_https_is_for_certificates_that_are_trusted(tmp_path: Path) -> None:
    policy = clinic_with(tmp_path, pa.table({"age": [1, 2]}), bounds={"age": (0, 100)}, budget="5")
    people = People(tmp_path / "hush.people")
    token = people.make_token("me")[1]
    people.close()
    trusted, key = certificate(tmp_path)
    settings = ServiceSettings(policy=str(policy), people=str(tmp_path / "hush.people"), tick=0, secure=True)
    with running(settings, tls=(trusted, key)) as address:
        with connect(address, token=token, certificates=trusted) as curator:
            assert len(curator.ask(COUNT, epsilon=1)) == 1
        with pytest.raises(RemoteError, match="certificate"):
            connect(address, token=token)


@pytest.mark.parametrize("token", ["", "two\r\nlines: x", "ä"])
def test_tokens_that_are_none(token: str) -> None:
    with pytest.raises(InvalidValueError, match="token"):
        connect("https://hush.example", token=token)


def test_a_token_that_is_not_valid(curator: RemoteCurator) -> None:
    address = f"http://{curator._service.host}:{curator._service._port}"
    with pytest.raises(RemoteError, match="The token is not valid") as refusal:
        connect(address, token=MISSPELT)
    assert refusal.value.code == "sign-in"


def test_errors_are_those_of_a_local_curator(curator: RemoteCurator) -> None:
    with pytest.raises(BudgetExceededError, match=r"takes .*, but .* is left"):
        curator.ask(COUNT, epsilon=6)
    with pytest.raises(InvalidValueError) as refusal:
        curator.ask(COUNT, epsilon=-1)
    assert refusal.value.parameter == "epsilon"
    for parameters in ("30", 30, [object()]):
        with pytest.raises(QuestionError):
            curator.ask(COUNT, parameters, epsilon=1)
    assert curator.history() == []
    curator.close()
    with pytest.raises(hush.HushError, match="closed"):
        curator.budget()


MISTAKES = [
    (5, {"epsilon": 1}),
    ("", {"epsilon": 1}),
    ("SELEC", {"epsilon": 1}),
    ("SELECT * FROM data", {"epsilon": 1}),
    ("SELECT COUNT(*) FROM dat", {"epsilon": 1}),
    ("SELECT SUM(agee) FROM data", {"epsilon": 1}),
    ("SELECT COUNT(*) AS n FROM data WHERE age > ?", {"epsilon": 1}),
    ("SELECT COUNT(*) AS n FROM data WHERE age > ?", {"epsilon": 1, "parameters": [1, 2]}),
    ("SELECT COUNT(*) AS n FROM data WHERE age > $a", {"epsilon": 1, "parameters": {"b": 2}}),
    ("SELECT COUNT(*) AS n FROM data WHERE age > ?", {"epsilon": 1, "parameters": [float("nan")]}),
    (COUNT, {}),
    (COUNT, {"epsilon": 1, "accuracy": 5}),
    (COUNT, {"epsilon": 0}),
    (COUNT, {"epsilon": "x"}),
    (COUNT, {"epsilon": "1e400"}),
    (COUNT, {"epsilon": 1, "confidence": 2}),
    (COUNT, {"epsilon": 1, "delta": -1}),
    (COUNT, {"accuracy": (1, 2, 3)}),
    (COUNT, {"accuracy": "x"}),
    (COUNT, {"epsilon": 1, "data": "klinik"}),
    (COUNT, {"epsilon": 1, "max_rows": 0}),
    (COUNT, {"epsilon": 1, "max_rows": "many"}),
    (COUNT, {"epsilon": 1, "request": ""}),
    (COUNT, {"epsilon": 1, "request": "two\nlines"}),
]


def test_refusals_are_word_for_word_those_of_a_local_curator(curator: RemoteCurator) -> None:
    with hush.protect(pa.table({"age": [1]}), bounds={"age": (0, 100)}, budget="5") as local:
        for question, options in MISTAKES:
            told = []
            for place in (local, curator):
                with pytest.raises(hush.HushError) as refusal:
                    place.ask(question, **options)
                told.append((type(refusal.value), str(refusal.value), refusal.value.code, refusal.value.exit_status))
            kinds = told[0][0], told[1][0]
            assert told[0][1:] == told[1][1:], (question, options)
            assert issubclass(*kinds), (question, options)  # a subclass may have its parent's code
    assert curator.history() == []


def test_explanations_are_those_of_a_local_curator(curator: RemoteCurator) -> None:
    question = "SELECT COUNT(*) AS n, AVG(age) AS m, MEDIAN(age) AS d FROM data"
    with hush.protect(pa.table({"age": [1]}), bounds={"age": (0, 100)}, budget="5") as local:
        there, here = (place.explain(question, epsilon="1/3") for place in (curator, local))
    assert there.to_json() == here.to_json()
    assert (str(there), there.lines(), there._repr_html_()) == (str(here), here.lines(), here._repr_html_())
    assert (there.price, there.events, there.caveats, there.keys) == (here.price, here.events, here.caveats, here.keys)
    for what in ("errors", "errors_if_settled", "errors_times_rows", "rows_off", "rows_needed", "drawable"):
        assert getattr(there, what)() == getattr(here, what)()


def test_several_prices_are_explained_in_one_request(curator: RemoteCurator) -> None:
    explained = curator.at_prices(COUNT, epsilons=["0.5", 1], confidence="0.9")
    assert [str(explanation.price) for explanation in explained] == ["ε=0.5", "ε=1"]
    for explanation in explained:
        alone = curator.explain(COUNT, epsilon=explanation.price.epsilon, confidence="0.9")
        assert explanation.errors() == alone.errors()


def test_what_bounds_cut_is_estimated_elsewhere_too(tmp_path: Path) -> None:
    """Half of 400 units have one row, the others three: of 800 rows 200 lie beyond two. Fails by chance below 1e-6."""
    frame = pa.table({"id": [*range(200), *(200 + number // 3 for number in range(600))], "city": ["a"] * 800})
    options = {"unit": "id", "values": {"city": ["a"]}, "budget": "1000", "max_rows": 2}
    with protected_elsewhere(tmp_path, frame, **options) as curator:
        found = curator.bounding("data", epsilon=100)
        assert (found.limit, found.proposal, found.price.epsilon) == (2, 3, 100)
        assert found.share == pytest.approx(0.25, abs=0.02)
        assert [str(made.number) for made in curator.history()] == [*reversed(found.receipts)]
        assert curator.bounding("data", by="city", epsilon=100).limit == 1
        with pytest.raises(QuestionError, match="There is no table 'dat'"):
            curator.bounding("dat", epsilon=1)
        with pytest.raises(QuestionError, match="has no column"):
            curator.bounding("data", by="town", epsilon=1)


def test_tables_and_names(curator: RemoteCurator) -> None:
    assert curator.tables() == {"data": {"age": "integer"}}
    assert curator.analyst == "me"


def test_values_travel_as_they_are() -> None:
    values = [1, 2.5, "x", None, True, dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4), Fraction(1, 3), [1, "a"]]
    assert from_wire(to_wire(values)) == values
    for wrong in ({"number": 5}, {"number": None}, {"a": "1"}):
        with pytest.raises(InvalidValueError):
            from_wire([wrong])
    assert from_wire(to_wire([Decimal("1.5"), np.int64(3), np.array([1, 2])])) == [Fraction(3, 2), 3, [1, 2]]
    assert from_wire(to_wire([float("nan")]))[0] != from_wire(to_wire([float("nan")]))[0]
