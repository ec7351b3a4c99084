"""Fields of frozen dataclasses can be set where a value is made, and nowhere else."""

from dataclasses import FrozenInstanceError, dataclass

import pytest

from hush.core.values import assign


@dataclass(frozen=True, slots=True)
class Doubled:
    number: int

    def __post_init__(self) -> None:
        assign(self, number=2 * self.number)


def test_fields_are_set_once() -> None:
    value = Doubled(3)
    assert value.number == 6
    with pytest.raises(FrozenInstanceError):
        value.number = 7  # type: ignore[misc]
