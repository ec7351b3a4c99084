"""docs/architecture.md is in step with the source: it names every package, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "architecture.md").read_text("utf-8")
_SOURCE = _ROOT / "src" / "hush"
_PACKAGES = sorted(path.parent.relative_to(_ROOT).as_posix() for path in _SOURCE.rglob("*/__init__.py"))
_PATHS = sorted(set(re.findall(r"`((?:src/hush|tests|benchmarks|docs)(?:/[\w.]+)*)`", _PAGE)))
_ROWS = re.findall(r"^\| `(src/hush/[\w/]+)` \| (.*) \|$", _PAGE, re.MULTILINE)


@pytest.mark.parametrize("package", _PACKAGES)
def test_every_package_is_on_the_page(package: str) -> None:
    layer = package.removeprefix("src/hush/").partition("/")[0]
    assert re.search(rf"^\| [^|]*`{layer}`", _PAGE, re.MULTILINE), "the table of layers lacks it"
    parent, _, name = package.rpartition("/")
    named = package in _PATHS or f"`{name}`" in dict(_ROWS).get(parent, "")
    assert named, "the map of folders lacks it"


@pytest.mark.parametrize("path", [path for path in _PATHS if "NAME" not in path])
def test_what_the_page_names_is_there(path: str) -> None:
    assert (_ROOT / path).exists()


@pytest.mark.parametrize(("folder", "modules"), _ROWS, ids=[folder for folder, _ in _ROWS])
def test_modules_of_the_map_are_in_their_folder(folder: str, modules: str) -> None:
    names = [name for name in re.findall(r"`(\w+)`", modules) if name.islower()]
    missing = [
        name for name in names if not list((_ROOT / folder).glob(name)) + list((_ROOT / folder).glob(f"{name}.py"))
    ]
    assert set(missing) <= {"compose"}  # a function


def test_files_named_after_a_path_lie_beside_it() -> None:
    for step in re.split(r"\n(?=\d\. |\| )|\n\n", _PAGE.partition("## Where is …?")[2]):
        paths = [_ROOT / path for path in re.findall(r"`(src/hush(?:/\w+)*)(?:/\w+\.py)?`", step)]
        for name in re.findall(r"`(\w+\.py)`", step):
            if name != "errors.py":  # every package has one
                assert any((path / name).exists() for path in paths), name


def test_names_in_brackets_are_in_the_file_before_them() -> None:
    """``direction.py`` (`chosen`), also where the line above says in which folder such a file lies."""
    missing = []
    for step in re.split(r"\n(?=\| )", _PAGE.partition("## Where is …?")[2].partition("\n## ")[0]):
        folders = re.findall(r"`(src/hush(?:/\w+)*)(?:/\w+\.py)?`", step)
        for path, words in re.findall(r"`([\w/]+\.py)` \(([^)]*)\)", step):
            files = [_ROOT / path] if path.startswith("src/") else [_ROOT / folder / path for folder in folders]
            text = "".join(file.read_text("utf-8") for file in files if file.is_file())
            names = [name for word in re.findall(r"`([\w.]+)`", words) for name in word.removesuffix(".py").split(".")]
            missing += [(path, name) for name in names if not re.search(rf"\b{name}\b", text)]
    assert missing == []
