"""Values are dataclasses like those of the standard library: by example, and for every dataclass of hush."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from typing import Any, ClassVar

import pytest

import hush
from hush.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A frozen value."""

    kind: ClassVar[str] = "frozen"
    x: int
    y: list[int] = dataclasses.field(default_factory=list, hash=False)
    z: str = dataclasses.field(default="", compare=False, repr=False)
    doubled: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived(Frozen):
    """A frozen value with one field more."""

    w: float = 0.5


@dataclass(slots=True)
class Changing:
    """A value that may change."""

    x: int
    y: int = 1


@dataclass(frozen=True)
class Open:
    """A frozen value with a dictionary, positional arguments, and its own hash and equality."""

    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Open)

    def __hash__(self) -> int:
        return 7


def test_a_value_is_made_compared_hashed_and_shown() -> None:
    value = Frozen(x=3, z="hidden")
    assert repr(value) == "Frozen(x=3, y=[], doubled=6)"
    assert value == Frozen(x=3, z="other")
    assert value != Frozen(x=4)
    assert value != Derived(x=3)
    assert hash(value) == hash(Frozen(x=3, y=[1]))
    assert Frozen(x=1).y is not Frozen(x=1).y
    assert Derived(x=1, w=2).doubled == 2
    assert Changing(1) == Changing(1, 1)
    assert Open(1) == Open(2)
    assert hash(Open(1)) == 7
    with pytest.raises(TypeError, match="unhashable"):
        hash(Changing(1))


def test_what_is_frozen_stays() -> None:
    value = Derived(x=3)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        value.x = 4  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'w'"):
        del value.w
    with pytest.raises(dataclasses.FrozenInstanceError):
        Open(1).y = 2  # type: ignore[attr-defined]
    changing = Changing(1)
    changing.x = 5
    assert changing == Changing(5)


def test_pickle_copy_replace_and_match() -> None:
    value = Derived(x=3, y=[1, 2], w=0.25)
    for copied in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert copied == value
    assert dataclasses.replace(value, x=4).doubled == 8
    assert dataclasses.asdict(Changing(1)) == {"x": 1, "y": 1}
    match Changing(3):
        case Changing(x, y):
            assert (x, y) == (3, 1)


def test_wrong_arguments_are_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'x'"):
        Frozen()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'q'"):
        Frozen(x=1, q=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="non-default argument follows"):

        @dataclass(frozen=True)
        class Wrong:
            """A field without a default after one with."""

            x: int = 0
            y: int  # type: ignore[misc]


def _classes() -> list[type]:
    """Return every dataclass of the modules that need no optional package."""
    found: dict[int, type] = {}
    for module in pkgutil.walk_packages(hush.__path__, "hush."):
        if module.name.startswith(("hush.server", "hush.engines.spark", "hush.cli.__main__")):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:
            continue
        for value in vars(loaded).values():
            if isinstance(value, type) and value.__module__ == module.name and "__dataclass_fields__" in vars(value):
                found[id(value)] = value
    return list(found.values())


def _like(cls: type) -> Any:
    """Return the standard library's dataclass with the same fields."""
    fields = [
        (
            field.name,
            field.type,
            dataclasses.field(
                **{"default": field.default} if field.default_factory is dataclasses.MISSING else {},  # type: ignore[arg-type]
                **{"default_factory": field.default_factory}
                if field.default_factory is not dataclasses.MISSING
                else {},  # type: ignore[arg-type]
                init=field.init,
                kw_only=field.kw_only,
            ),
        )
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
    ]
    return dataclasses.make_dataclass(cls.__name__, fields)


def test_signatures_are_those_of_the_standard_library() -> None:
    classes = [cls for cls in _classes() if "__signature__" in vars(cls)]  # whose __init__ is made by the decorator
    assert len(classes) > 150
    for cls in classes:
        ours, theirs = (list(inspect.signature(kind).parameters.values()) for kind in (cls, _like(cls)))
        assert [(one.name, one.kind, one.annotation) for one in ours] == [
            (one.name, one.kind, one.annotation) for one in theirs
        ], cls
        assert [one.default is inspect.Parameter.empty for one in ours] == [
            one.default is inspect.Parameter.empty for one in theirs
        ], cls
