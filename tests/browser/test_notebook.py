"""A real notebook, run by a real kernel and exported: charts are in it, and errors are a sentence."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from playwright.sync_api import Browser

nbformat = pytest.importorskip("nbformat")

CELLS = [
    """\
import pandas as pd

import hush

visits = pd.DataFrame({
    "patient": range(4000),
    "disease": ["Flu", "Flu", "Diabetes", "Injury"] * 1000,
    "week": pd.date_range("2024-01-01", periods=40, freq="7D").date.tolist() * 100,
    "cost": [float(17 * row % 900) for row in range(4000)],
})
curator = hush.protect(
    visits,
    unit="patient",
    values={"disease": ["Diabetes", "Flu", "HIV", "Injury"]},
    bounds={"cost": (0, 1000), "week": ("2024-01-01", "2024-12-31")},
    budget=10,
)""",
    'curator.ask("SELECT disease, COUNT(*) AS n, AVG(cost) AS mean_cost FROM data GROUP BY disease", epsilon="0.5")',
    'curator.ask("SELECT week, COUNT(*) AS n FROM data GROUP BY week", epsilon=2).chart()',
    'curator.ask("SELECT AVG(cost) AS mean_cost FROM data", epsilon=1).chart("What a visit costs")',
    "def helper(question):\n    return curator.ask(question, epsilon=1)",
    'helper("SELECT disease, COUNT(*) AS n\\nFROM data WHERE cots > 3 GROUP BY disease")',
    'curator.ask("SELECT COUNT(*) FROM data", epsilon=1000)',
]


@pytest.fixture(scope="module")
def notebook() -> nbformat.NotebookNode:
    from nbclient import NotebookClient

    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client's own sockets and event loops
        NotebookClient(made, timeout=120, kernel_name="python3", allow_errors=True).execute()
    return made


def test_answers_carry_table_and_chart(notebook: nbformat.NotebookNode) -> None:
    data = notebook.cells[1].outputs[0].data
    assert {"text/plain", "text/html", "image/svg+xml"} <= set(data)
    assert "mean_cost" in data["text/html"]
    assert "°" in data["text/plain"]  # nobody has HIV, and the table says that this cell says nothing
    assert data["image/svg+xml"].startswith("<svg")


def test_charts_carry_pictures(notebook: nbformat.NotebookNode) -> None:
    for cell in notebook.cells[2:4]:
        data = cell.outputs[0].data
        assert {"image/svg+xml", "text/plain"} <= set(data)
        if pytest.importorskip("resvg_py"):
            assert data["image/png"].startswith("iVBOR")


def test_mistakes_end_at_the_users_own_line(notebook: nbformat.NotebookNode) -> None:
    """Not one line of hush in between, and the place in the SQL is marked."""
    shown = notebook.cells[5].outputs[0]
    lines = "\n".join(shown.traceback).splitlines()
    assert lines[:4] == [
        "this cell, line 1",
        '    helper("SELECT disease, COUNT(*) AS n\\nFROM data WHERE cots > 3 GROUP BY disease")',
        "this cell, line 2",
        "    return curator.ask(question, epsilon=1)",
    ]
    assert lines[5:7] == ["FROM data WHERE cots > 3 GROUP BY disease", "                ^^^^"]
    assert lines[-1] == "QuestionError: There is no column 'cots' here. Did you mean 'cost'?"
    assert "src/hush" not in "\n".join(lines)
    budget = "\n".join(notebook.cells[6].outputs[0].traceback).splitlines()
    assert len(budget) == 4
    assert budget[-1].startswith("BudgetExceededError: ")


def test_the_exported_page_shows_the_charts(
    notebook: nbformat.NotebookNode, browser: Browser, build: Path, tmp_path: Path
) -> None:
    from nbconvert import HTMLExporter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        html, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
    file = tmp_path / "notebook.html"
    file.write_text(html, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1100, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.screenshot(path=build / "notebook.png", full_page=True)
    images = page.locator("img").evaluate_all(
        "images => images.map(image => [image.src.slice(0, 18), image.naturalWidth])"
    )
    assert images == [["data:image/svg+xml", 560], ["data:image/svg+xml", 640], ["data:image/svg+xml", 640]]
    context.close()
