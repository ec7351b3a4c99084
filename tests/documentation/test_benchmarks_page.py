"""`benchmarks/run.py` writes docs/benchmarks.md: what programs printed, where it was measured, and nothing is lost."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    specification = importlib.util.spec_from_file_location("run_benchmarks", _ROOT / "benchmarks" / "run.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    (tmp_path / "quick.py").write_text('"""A quick thing."""\n\nprint("ratio 0.5 against π")\n', "utf-8")
    (tmp_path / "missed.py").write_text(
        '"""A missed thing.\n\nMore."""\n\nprint("3 MISSED")\nraise SystemExit(1)\n', "utf-8"
    )
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "PAGE", tmp_path / "benchmarks.md")
    return module


def test_a_page_has_what_every_program_printed_and_where(bench: ModuleType) -> None:
    assert bench.main([]) == 1
    sections = bench.sections_of(bench.PAGE.read_text("utf-8"))
    assert sorted(sections) == ["missed", "quick"]
    assert sections["quick"].startswith("A quick thing.\n\nMeasured on 2")
    assert "```text\nratio 0.5 against π\n```" in sections["quick"]
    assert " cores, " in sections["quick"]
    assert "Python 3." in sections["quick"]
    assert "ended with status 1" in sections["missed"]
    assert "ended with" not in sections["quick"]


def test_a_run_of_one_program_keeps_the_other_sections(bench: ModuleType) -> None:
    bench.PAGE.write_text(bench.page({"earlier": "Figures.", "quick": "Old."}), "utf-8")
    assert bench.main(["quick"]) == 0
    sections = bench.sections_of(bench.PAGE.read_text("utf-8"))
    assert sections["earlier"] == "Figures."
    assert "ratio 0.5" in sections["quick"]


def test_an_unknown_program_runs_and_writes_nothing(bench: ModuleType) -> None:
    assert bench.main(["quik"]) == 2
    assert not bench.PAGE.exists()


def test_the_page_of_the_documentation_is_one_that_can_be_continued(bench: ModuleType) -> None:
    text = (_ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert bench.page(bench.sections_of(text)) == text


def test_readme_has_six_figures_that_all_point_the_same_way() -> None:
    table = (
        (_ROOT / "README.md").read_text("utf-8").partition("| hush | against | times better |")[2].partition("\n\n")[0]
    )
    figures = [row.split("|")[3].strip() for row in table.strip().splitlines()[1:]]
    assert len(figures) == 6
    assert all(re.fullmatch(r"[\d.]+ times (?:faster|closer|smaller error)", figure) for figure in figures)
