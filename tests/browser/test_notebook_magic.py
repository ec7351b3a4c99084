"""``%%hush`` in a real kernel: prices without a price, an answer with one, and sentences for mistakes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")

CELLS = {
    "load": "%load_ext hush",
    "nobody": "%%hush\nSELECT COUNT(*) AS n FROM data",
    "protect": """\
import hush
visits = {"disease": ["Flu", "Flu", "Diabetes", "Injury"] * 1000}
values = {"disease": ["Diabetes", "Flu", "HIV", "Injury"]}
curator = hush.protect(visits, values=values, budget=10)""",
    "prices": "%%hush\nSELECT disease, COUNT(*) AS n FROM data GROUP BY disease",
    "ask": "%%hush --epsilon 0.5 --to answer\nSELECT disease, COUNT(*) AS n FROM data GROUP BY disease",
    "kept": "print(len(answer), answer.price.epsilon, curator.budget()[0].account.remaining().epsilon)",
    "accuracy": "%%hush --accuracy 50@0.99\nSELECT COUNT(*) AS n FROM data",
    "again": "%%hush --accuracy 50@0.99\nSELECT COUNT(*) AS n FROM data",
    "mistake": "%%hush --epsilon 0.5\nSELECT COUNT(*) AS n\nFROM data WHERE disaese = 'Flu'",
    "option": "%%hush --epsilom 0.5\nSELECT COUNT(*) AS n FROM data",
    "quote": "%%hush --reason 'why\nSELECT COUNT(*) AS n FROM data",
    "target": "%%hush --epsilon 0.5 --to 1st\nSELECT COUNT(*) AS n FROM data",
    "free_target": "%%hush --to answer\nSELECT COUNT(*) AS n FROM data",
    "second": "other = hush.protect(visits, values=values, budget=10)",
    "several": "%%hush --epsilon 0.5\nSELECT COUNT(*) AS n FROM data",
    "wrong": "%hush visits",
    "choose": "%hush other",
    "chosen": "%%hush --epsilon 0.5\nSELECT COUNT(*) AS n FROM data",
    "left": "print(other.budget()[0].account.remaining().epsilon)",
    "no slider": "import sys; sys.modules['ipywidgets'] = None; import hush.notebook; "
    "hush.notebook.find_spec = lambda name: None",
    "plain": "%%hush\nSELECT COUNT(*) AS n, AVG(disease = 'Flu') AS flu FROM data",
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    from nbclient import NotebookClient

    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS.values()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client's own sockets and event loops
        NotebookClient(made, timeout=120, kernel_name="python3", allow_errors=True).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, made.cells, strict=True)}


def test_without_a_price_it_shows_prices_and_errors(outputs: dict[str, list[Any]]) -> None:
    shown = outputs["prices"][0].data["text/plain"]
    assert "ε=0.01 " in shown
    assert "n ± " in shown
    assert "Nothing was spent" in shown
    slider = outputs["prices"][-1].data
    assert "application/vnd.jupyter.widget-view+json" in slider


def test_without_widgets_it_shows_text_alone(outputs: dict[str, list[Any]]) -> None:
    (result,) = outputs["plain"]
    assert "flu" in result.data["text/plain"]
    assert set(result.data) == {"text/plain", "text/html"}


def test_with_a_price_it_shows_the_answer_with_its_chart_and_keeps_it(outputs: dict[str, list[Any]]) -> None:
    (answer,) = outputs["ask"]
    assert {"text/plain", "text/html", "image/svg+xml"} <= set(answer.data)
    assert outputs["kept"][0].text.split() == ["4", "1/2", "19/2"]
    assert "±" in outputs["accuracy"][0].data["text/plain"]
    assert "nothing was charged" in outputs["again"][0].data["text/plain"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("nobody", "MagicError: There is no curator in this notebook."),
        ("option", "MagicError: unrecognized arguments: --epsilom 0.5. usage: %%hush"),
        ("quote", "MagicError: The options cannot be read: No closing quotation."),
        ("target", "InvalidValueError: The '--to' parameter must be the name of a variable. Got '1st' instead."),
        ("free_target", "InvalidValueError: The '--to' parameter must be given together with a price"),
        ("several", "MagicError: There are several curators: curator, other. Choose one first, such as %hush curator."),
        ("wrong", "InvalidValueError: The '%hush' parameter must be the name of a variable that holds a curator."),
        ("mistake", "QuestionError: There is no column 'disaese' here. Did you mean 'disease'?"),
    ],
)
def test_a_mistake_is_a_sentence(outputs: dict[str, list[Any]], cell: str, message: str) -> None:
    lines = "\n".join(outputs[cell][0].traceback)
    assert message in lines
    assert "site-packages" not in lines


def test_a_curator_can_be_chosen(outputs: dict[str, list[Any]]) -> None:
    assert outputs["choose"] == []
    assert "±" in outputs["chosen"][0].data["text/plain"]
    assert outputs["left"][0].text.strip() == "19/2"
