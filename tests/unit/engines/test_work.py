"""How much of a text is read: about as much as the work of a row allows, by public figures alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hush.engines.work import ALONE, HELD, LENGTHS, PER_ROW, Cost, Spread, bounded

if TYPE_CHECKING:
    from hush.engines.sql.relations import Bounds


def length(per_character: int, *, carried: int = 0, rows: int = 10**5) -> int:
    """Return how much is read of a text, of which each character costs so many nanoseconds, and is held so often."""

    def write(bounds: Bounds) -> tuple[int, Cost]:
        work, held = 1000 + per_character * bounds.text, carried * bounds.text
        return bounds.text, Cost(work=work, carried=held, counted=0, texts=1)

    return bounded(write, Spread(rows, lambda _: 0))[0]


@pytest.mark.parametrize("per_character", [1, 4, 9, 17, 40, 90, 190, 370, 700])
def test_the_longest_text_that_the_work_of_a_row_allows_is_read(per_character: int) -> None:
    fitting = [text for text in LENGTHS if 1000 + per_character * text <= PER_ROW]
    assert length(per_character) == max(fitting)


@pytest.mark.parametrize("squared", [0.001, 0.02, 0.7, 2, 7])
def test_work_that_grows_with_the_square_of_the_length_leaves_no_length_out(squared: float) -> None:
    """A text is looked for in another, as in INSTR(s, t)."""
    tried = []

    def write(bounds: Bounds) -> tuple[int, Cost]:
        tried.append(bounds.text)
        work = 1000 + 3 * bounds.text + int(squared * bounds.text**2)
        return bounds.text, Cost(work=work, carried=0, counted=0, texts=1)

    fitting = [text for text in LENGTHS if 1000 + 3 * text + int(squared * text**2) <= PER_ROW]
    assert bounded(write, Spread(10**5, lambda _: 0))[0] == max(fitting)
    assert len(tried) <= 4


@pytest.mark.parametrize("carried", [1, 2, 5, 12])
def test_no_more_is_held_of_a_row_than_its_share(carried: int) -> None:
    assert length(1, carried=carried) == max(text for text in LENGTHS if carried * text <= HELD)


@pytest.mark.parametrize("per_character", [1, 370, 9_000, 30_000, 90_000, 700_000])
def test_where_a_row_is_a_unit_its_own_limit_counts(per_character: int) -> None:
    fitting = [text for text in LENGTHS if 1000 + per_character * text <= ALONE]
    assert length(per_character, carried=50, rows=1) == max(fitting)
