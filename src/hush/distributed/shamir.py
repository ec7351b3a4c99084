r"""Shamir's secret sharing over the field of 2⁵²¹-1 elements.

A secret a₀ is the constant term of a random polynomial of degree t-1; party x holds its value at x. Any t values give
the polynomial back by Lagrange's formula, and t-1 say nothing: for each secret there is exactly one polynomial that
fits them (Shamir 1979).

>>> pieces = split(b"a secret of thirty-two bytes....", holders=[1, 2, 3, 4], threshold=3)
>>> rebuild({x: pieces[x] for x in (4, 1, 3)})
b'a secret of thirty-two bytes....'
>>> rebuild({x: pieces[x] for x in (4, 1)}) is None
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hush.noise.bits import system_bits
from hush.noise.uniform import draw_uniform_integer

__all__ = ["PRIME", "rebuild", "split"]

PRIME = 2**521 - 1
_SECRET_BYTES = 32


def split(secret: bytes, *, holders: Iterable[int], threshold: int) -> dict[int, int]:
    """Return each holder's piece of a secret of 32 bytes."""
    bits = system_bits()
    terms = [int.from_bytes(secret), *(draw_uniform_integer(PRIME, bits) for _ in range(threshold - 1))]
    return {x: _value(terms, x) for x in holders}


def _value(terms: list[int], x: int) -> int:
    value = 0
    for term in reversed(terms):
        value = (value * x + term) % PRIME
    return value


def rebuild(pieces: Mapping[int, int]) -> bytes | None:
    """Return the secret behind at least as many pieces as its threshold, None where they do not belong together."""
    secret = sum(piece * weight for piece, weight in zip(pieces.values(), _weights(tuple(pieces)), strict=True)) % PRIME
    return secret.to_bytes(_SECRET_BYTES) if secret < 2 ** (8 * _SECRET_BYTES) else None


def _weights(holders: tuple[int, ...]) -> list[int]:
    """Return Lagrange's coefficients at 0."""
    weights = []
    for x in holders:
        above, below = 1, 1
        for other in holders:
            if other != x:
                above, below = above * other % PRIME, below * (other - x) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights
