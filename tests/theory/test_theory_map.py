"""The table of docs/theory.md is complete and true: its items, its objects and its tests exist."""

import re
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "theory.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \d+ \|", line)
]


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
    assert {int(row[0]) for row in ROWS} == set(range(1, 21))
    assert all(len(row) == 4 for row in ROWS)


def test_every_object_is_public_and_documented():
    names = {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[2])}
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
    named = {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[3])}
    assert named <= written, named - written
    # And the other way round: whatever is written for an item stands in the table.
    assert {name for name in written if name.startswith("test_item_")} <= named
