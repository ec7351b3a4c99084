"""Values: the dataclasses of the standard library, made without generating code that may never run.

hush has some two hundred and fifty frozen dataclasses, and a command such as ``hush ask`` needs most of their modules
and few of their methods. ``dataclasses.dataclass`` writes and compiles six functions for each: half a millisecond, a
fifth of all that such a command computes. This `dataclass` lets the standard library collect the fields (and slots),
and adds the same methods: ``__init__``, ``__eq__`` and ``__hash__`` are compiled when they are first called, and the
others are closures over the names of the fields. What it makes is a dataclass to `dataclasses.fields`,
`dataclasses.replace`, ``match`` and pickle. A type checker sees the standard library's.

>>> @dataclass(frozen=True, slots=True, kw_only=True)
... class Point:
...     "A point."
...     x: int
...     y: int = 0
>>> Point(x=1), Point(x=1) == Point(x=1, y=0), str(inspect.signature(Point))
(Point(x=1, y=0), True, "(*, x: 'int', y: 'int' = 0) -> None")
>>> Point(x=1).x = 2
Traceback (most recent call last):
...
dataclasses.FrozenInstanceError: cannot assign to field 'x'
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414, TID251 - offered to whoever imports it here
else:

    def dataclass(
        *,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - the standard library's name
        eq: bool = True,
        frozen: bool = False,
        kw_only: bool = False,
        slots: bool = False,
    ) -> Callable[[type], type]:
        """Return the decorator that makes a class a dataclass, with the standard library's meaning of each word."""

        def made(cls: type) -> type:
            own = {name: cls.__dict__.get(name, MISSING) for name in ("__init__", "__repr__", "__eq__", "__hash__")}
            collect = dataclasses.dataclass(  # noqa: TID251 - the one place that does
                init=False, repr=False, eq=False, kw_only=kw_only, slots=slots
            )
            result = collect(cls)
            fields = dataclasses.fields(result)
            if init and own["__init__"] is MISSING:
                _set_init(result, fields, frozen=frozen, slots=slots)
            if repr and own["__repr__"] is MISSING:
                result.__repr__ = _repr([field.name for field in fields if field.repr])
            if eq:
                _set_equality(result, fields, own, frozen=frozen)
            if frozen:
                _freeze(result, fields, slots=slots)
            return result

        return made


def assign(value: object, /, **fields: Any) -> None:
    """Set fields of a frozen dataclass, in its own ``__init__`` or ``__post_init__``."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)


class _Signature:
    """What `inspect.signature` finds on a class: the signature of its ``__init__``, compiled for the purpose."""

    def __get__(self, value: object, owner: Any) -> inspect.Signature:
        if value is not None:
            raise AttributeError("__signature__")
        init = getattr(owner.__init__, "compile", lambda: owner.__init__)()
        signature = inspect.signature(init)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def _set_init(cls: Any, fields: tuple[Field[Any], ...], *, frozen: bool, slots: bool) -> None:
    """Give a class an ``__init__`` that puts the compiled one in its place when it is first called."""

    def compile_init() -> Any:
        cls.__init__ = _compiled(cls, fields, frozen=frozen, slots=slots)
        return cls.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of this name
        compile_init()(self, *args, **kwargs)

    __init__.compile = compile_init  # type: ignore[attr-defined]
    cls.__init__ = __init__
    cls.__signature__ = _Signature()
    required = [_default(field) is MISSING for field in fields if field.init and not field.kw_only]
    if required != sorted(required, reverse=True):
        raise TypeError(f"non-default argument follows default argument in {cls.__name__}")


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory


def _compiled(cls: Any, fields: tuple[Field[Any], ...], *, frozen: bool, slots: bool) -> Any:
    """Return the ``__init__`` that the standard library would have written."""
    plain = [field for field in fields if field.init and not field.kw_only]
    named = [field for field in fields if field.init and field.kw_only]
    lines, known = [], {"_put": object.__setattr__, "_absent": MISSING}
    for field in fields:
        name = field.name
        known[f"_default_{name}"] = _default(field)
        value = name
        if field.default_factory is not MISSING:
            value = f"_default_{name}() if {name} is _absent else {name}" if field.init else f"_default_{name}()"
        elif not field.init:
            if not slots or field.default is MISSING:
                continue
            value = f"_default_{name}"
        lines.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ["self", *map(_parameter, plain), *(["*", *map(_parameter, named)] if named else [])]
    text = f"def _make({', '.join(known)}):\n def __init__({', '.join(parameters)}):\n  "
    text += "\n  ".join(lines or ["pass"]) + "\n return __init__"
    module = sys.modules.get(cls.__module__)
    made: dict[str, Any] = {}
    exec(text, {} if module is None else module.__dict__, made)  # noqa: S102 - names of fields, as dataclasses does
    init = made["_make"](**known)
    init.__annotations__ = {field.name: field.type for field in (*plain, *named)} | {"return": None}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _parameter(field: Field[Any]) -> str:
    name = field.name
    if _default(field) is MISSING:
        return name
    return f"{name}=" + (f"_default_{name}" if field.default_factory is MISSING else "_absent")


def _repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807 - it becomes the method of this name
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return __repr__


def _set_equality(cls: Any, fields: tuple[Field[Any], ...], own: dict[str, Any], *, frozen: bool) -> None:
    """Compare by fields, unless the class says how; and hash likewise, if nothing can change."""
    compared = [field.name for field in fields if field.compare]
    hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    by_fields = own["__eq__"] is MISSING
    by_hash = frozen and (own["__hash__"] is MISSING or (own["__hash__"] is None and not by_fields))

    def compile_both() -> None:
        made: dict[str, Any] = {}
        exec(  # noqa: S102 - names of fields, as dataclasses does
            "def __eq__(self, other):\n"
            f" return {_tuple('self', compared)} == {_tuple('other', compared)}"
            " if other.__class__ is self.__class__ else NotImplemented\n"
            f"def __hash__(self):\n return hash({_tuple('self', hashed)})",
            made,
        )
        if by_fields:
            cls.__eq__ = made["__eq__"]
        if by_hash:
            cls.__hash__ = made["__hash__"]

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807 - it becomes the method of this name
        compile_both()
        return cls.__eq__(self, other)

    def __hash__(self: Any) -> int:  # noqa: N807 - it becomes the method of this name
        compile_both()
        return cls.__hash__(self)  # type: ignore[no-any-return]

    if by_fields:
        cls.__eq__ = __eq__
    if by_hash:
        cls.__hash__ = __hash__
    elif not frozen and own["__hash__"] is MISSING:
        cls.__hash__ = None


def _tuple(of: str, names: list[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


def _freeze(cls: Any, fields: tuple[Field[Any], ...], *, slots: bool) -> None:
    """Refuse to set and to delete; and let pickle set what nobody else may."""
    names = frozenset(field.name for field in fields)

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807 - it becomes the method of this name
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807 - it becomes the method of this name
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    if slots and "__getstate__" not in cls.__dict__:
        cls.__getstate__ = _state
    if slots and "__setstate__" not in cls.__dict__:
        cls.__setstate__ = _set_state


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
