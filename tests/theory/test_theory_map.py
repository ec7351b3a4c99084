"""docs/theory.md is complete and true: its items, its objects and its tests exist."""

import re
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "theory.md"
ITEMS = {
    int(number): text
    for number, text in re.findall(
        r"^## (\d+)\. (.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
}
"""The text of each item: its statement, then its objects and its tests."""


def named(label):
    """Return the names that the items have in their lines of code, or of tests."""
    return {
        (int(number), name)
        for number, text in ITEMS.items()
        for line in re.findall(rf"^- \*\*{label}.*$", text, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", line)
    }


def find(name):
    """Return the object of a dotted public name."""
    parts = name.split(".")
    found = import_module(parts[0])
    for at, part in enumerate(parts[1:], 1):
        assert part in getattr(found, "__all__", [part]), f"{part} is not public in {'.'.join(parts[:at])}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = import_module(".".join(parts[: at + 1]))
    return found


def test_every_item_is_there():
    assert set(ITEMS) == set(range(1, 21))
    for label in ("Code:", "Tests"):
        assert {number for number, _ in named(label)} == set(ITEMS)


def test_every_object_is_public_and_documented():
    names = {name for _, name in named("Code:")}
    assert len(names) > 50
    for name in names:
        found = find(name)
        if name != "hush.Refused":  # a value; its type says what it is
            assert (found.__doc__ or "").strip(), name


def test_every_test_exists():
    written = {
        name
        for path in HERE.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    told = {name for _, name in named("Tests") if name.startswith("test_") and not name.endswith(".py")}
    assert told <= written, told - written
    # And the other way round: each test that is written for an item stands on the page.
    assert {name for name in written if name.startswith("test_item_")} <= told
