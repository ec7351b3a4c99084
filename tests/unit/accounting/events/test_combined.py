"""Events made of events."""

from __future__ import annotations

import pytest

from hush.accounting import compose, event_from_json
from hush.core import InvalidValueError


def test_parts_by_row_number_are_refused_under_add_remove() -> None:
    part = {"type": "laplace", "scale": 1}
    with pytest.raises(InvalidValueError, match="shifts the position"):
        event_from_json({"type": "parallel", "events": [part], "neighbours": "add-remove", "partition": "index"})
    event = event_from_json({"type": "parallel", "events": [part] * 3, "neighbours": "replace", "partition": "index"})
    assert compose([event]).epsilon(0) == 1.0
    assert compose([event.group(2)]).epsilon(0) == 4.0
