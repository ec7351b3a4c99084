r"""Heavy hitters: the most common words of a domain too large to list, from one report per person.

Prefix extension (Wang, Li, Jha 2019). A word is a text of at most ``length`` bytes, padded with zeros. People are split
into g groups at random. Group i answers about the first i/g of the word, and only whether it begins with one of the
*candidates* of its round: the ``keep`` best prefixes of the round before, each extended by every possible next piece.
Whoever has another word answers "none of these", which a frequency oracle can report. So each person reports once, with
all of ε, to an oracle over keep·256 categories or fewer; rounds are interactive, because a round's candidates come from
the round before.

The estimates of the last round are unbiased for the whole population, with half-widths from its own reports; over all
candidates of a round at once by a union bound. A frequent word is lost only if its prefix falls out of the best
``keep`` of a round.

>>> survey = HeavyHitters(epsilon=4, length=2, keep=8)
>>> found = survey.run(["ab"] * 3000 + ["cd"] * 2000 + ["xy"] * 10)
>>> found.words[:2]
('ab', 'cd')
>>> bool(abs(found.frequencies[0] - 0.5988) < found.error)
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import Event
from hush.core import InvalidValueError, Number, integer
from hush.core.numbers import assign
from hush.local.frequencies import ProjectiveGeometry, SubsetSelection, frequency
from hush.mechanisms.base import ReadableRepr, confidence_level, ordinary
from hush.mechanisms.randomized_response import RandomizedResponse

_BYTE_VALUES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: the prefixes that people of its group are asked about."""

    number: int
    """The number of the round, from 1 on, which is the length of its prefixes in bytes."""
    candidates: tuple[bytes, ...]
    categories: Mapping[bytes, int]
    """The category of each candidate, from 1 on; 0 stands for every other word."""
    oracle: RandomizedResponse | SubsetSelection | ProjectiveGeometry

    def release(self, word: str | bytes) -> Any:
        """Return a person's report about their word."""
        return self.oracle.release(self._category(word))

    def release_all(self, words: Iterable[str | bytes]) -> Any:
        """Return the reports of several people."""
        return self.oracle.release([self._category(word) for word in words])

    def _category(self, word: Any) -> int:
        # Anything but text or bytes counts as the empty word, which is all zeros.
        data = word.encode("utf-8", "replace") if isinstance(word, str) else word if isinstance(word, bytes) else b""
        return self.categories.get(data.ljust(self.number, b"\0")[: self.number], 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HittersFound:
    """The words found, the most common first, with estimated frequencies."""

    words: tuple[str, ...]
    frequencies: npt.NDArray[np.float64]
    error: float
    """A half-width that holds for all words at once."""
    confidence: float


@dataclass(frozen=True, slots=True, init=False, repr=False)
class HeavyHitters(ReadableRepr):
    """A survey for the most common words.

    >>> HeavyHitters(epsilon=4, length=8).rounds
    8
    """

    epsilon: Fraction
    """The local privacy of each person's one report."""
    length: int
    """The longest word in bytes; longer ones are cut."""
    keep: int
    """How many prefixes go on from round to round."""

    def __init__(self, *, epsilon: Number, length: int, keep: int = 32) -> None:
        assign(
            self,
            epsilon=ordinary(epsilon, "epsilon"),
            length=integer(length, "length", minimum=1, maximum=64),
            keep=integer(keep, "keep", minimum=1, maximum=4096),
        )

    @property
    def rounds(self) -> int:
        """The number of rounds, and of groups of people: one per byte."""
        return self.length

    @property
    def event(self) -> Event:
        """The privacy event of a person's one report."""
        return self.first().oracle.event

    def first(self) -> Round:
        """Return the first round: every first byte is a candidate."""
        return self._round(1, (b"",))

    def _round(self, number: int, prefixes: tuple[bytes, ...]) -> Round:
        candidates = tuple(prefix + bytes([piece]) for prefix in prefixes for piece in range(_BYTE_VALUES))
        oracle = frequency(epsilon=self.epsilon, categories=len(candidates) + 1)
        categories = {candidate: code for code, candidate in enumerate(candidates, start=1)}
        return Round(number=number, candidates=candidates, categories=categories, oracle=oracle)

    def next(self, done: Round, reports: Any) -> Round:
        """Return the round after ``done``; its candidates extend the most common prefixes of the reports."""
        if done.number >= self.rounds:
            raise InvalidValueError("done", got=done.number, allowed=f"a round before the last, {self.rounds}")
        # The first category is "none of these" and has no next piece.
        order = np.argsort(-done.oracle.estimate(reports)[1:], kind="stable")[: self.keep]
        return self._round(done.number + 1, tuple(done.candidates[i] for i in order))

    def found(self, last: Round, reports: Any, *, confidence: Number = Fraction(19, 20)) -> HittersFound:
        """Return the words of the last round with a frequency above its half-width."""
        count = len(reports)
        estimates = last.oracle.estimate(reports)[1:]
        level = confidence_level(confidence)
        best = np.argsort(-estimates, kind="stable")[: self.keep]
        # The union bound is over all candidates, not the best ones only: which are best was read from the same reports.
        errors = last.oracle.errors(estimates[best], level, count=max(1, count), categories=len(last.candidates))
        order = [int(i) for i, half_width in zip(best, errors, strict=True) if estimates[i] > half_width]
        error = float(errors.max())
        # A cut may fall within a character of several bytes, which cannot be decoded alone.
        words = tuple(last.candidates[i].rstrip(b"\0").decode("utf-8", "replace") for i in order)
        return HittersFound(words=words, frequencies=estimates[order], error=error, confidence=float(level))

    def run(self, words: Iterable[str | bytes], *, confidence: Number = Fraction(19, 20)) -> HittersFound:
        """Play the whole survey on words that are all at hand: each person takes part in one random round."""
        people = list(words)
        # Random groups: by the order of people, a group could have words of its own kind.
        groups = noise.uniform_integer(self.rounds, len(people))
        current = self.first()
        while True:
            members = np.flatnonzero(groups == current.number - 1)
            reports = current.release_all([people[i] for i in members])
            if current.number == self.rounds:
                return self.found(current, reports, confidence=confidence)
            current = self.next(current, reports)
