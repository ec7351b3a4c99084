r"""Selection: which pairs of columns the model joins, and which pairs are measured.

Both are chosen from noisy scores alone, so that choosing costs nothing more. The score of a pair is the distance of its
table from a public estimate, in rows: e = ‖M - M̂‖₁, on integers. One row changes it by at most 1, for any estimate. But
the scores of two pairs may move in opposite directions, so they are not monotone: noise must cover a change of 1 up or
down in each (`score_sensitivities`).

**Graph.** Pairs are taken in the order of their scores, less a penalty for their number of cells or over a power of it,
as long as the cliques of the triangulated graph stay within a number of cells. Several penalties and powers are tried.

**Measured pairs.** A measured pair no longer errs by e but by its noise, c·n/√ρ over its n cells. Given all pairs that
lie within cliques, the ones to be measured and their parts of ρ maximise Σ (e_p - c·n_p/√ρ_p): parts are proportional
to n_p^(2/3), so that the noise of a set is (Σ n_p^(2/3))^(3/2)·c/√ρ, and sets are prefixes of the order of
e_p/n_p^(2/3). With Laplace noise likewise, with n_p^(1/2) and a square (`hush.synth.measurements`).

>>> graph = choose(4, [2, 2, 2, 2], {(0, 1): 90.0, (2, 3): 80.0, (0, 2): 1.0}, noise=1.0, power=2 / 3, limit=8)
>>> graph.measured
((0, 1), (2, 3))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from hush.core.work import check_wanted
from hush.synth.model import Places, eliminate, fits

_PENALTIES = (0.0, 0.1, 0.4, 0.8)
POWERS = (0.15, 0.3, 0.5, 0.7)
_FAILURES = 200
"""After this number of pairs in a row that would make a clique too large, the others are not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The pairs that a model joins, and the pairs that are measured."""

    edges: tuple[Places, ...]
    measured: tuple[Places, ...]
    gain: float
    """By how many rows the measured pairs are expected to err less than before."""


def score_sensitivities(pairs: int, rows: int, touched: int) -> tuple[Fraction, Fraction]:
    """Return Δ₂² and Δ₁ of all scores together: each may move by ``rows·touched``, up or down."""
    each = rows * touched
    return Fraction(pairs * each * each), Fraction(pairs * each)


def choose(
    columns: int,
    sizes: Sequence[int],
    scores: Mapping[Places, float],
    *,
    noise: float,
    power: float,
    limit: int,
    powers: Sequence[float] = POWERS,
    least: float = 0.0,
    held: Iterable[Places] = (),
) -> Graph:
    """Return the graph with the largest gain.

    Parameters
    ----------
    scores
        By how many rows each pair errs, as far as is known.
    noise
        The mean size of the noise on a count that takes all of what is to be spent on measuring.
    power
        2/3 for Gaussian and 1/2 for Laplace noise.
    limit
        How many cells a clique may have.
    powers
        Pairs are also taken in the order of their scores over these powers of their cells.
    least
        Pairs with smaller scores are not joined.
    held
        Pairs that are joined in any case, because they were measured before.
    """
    cells = {pair: sizes[pair[0]] * sizes[pair[1]] for pair in scores}
    best: Graph | None = None
    ranks = [{pair: penalty * noise * cells[pair] - scores[pair] for pair in scores} for penalty in _PENALTIES]
    # No rank is best for all tables; each one only proposes a graph, and the expected gain decides.
    ranks += [{pair: -scores[pair] / cells[pair] ** power for pair in scores} for power in powers]
    for rank in ranks:
        # Ties go by place, for a kept release must find the same graph again.
        order = sorted(scores, key=lambda pair: (rank[pair], pair))
        edges = _grown(columns, sizes, [pair for pair in order if scores[pair] > least], limit, list(held))
        # Triangulation joins more pairs than were asked for: these may be measured too, and no clique grows.
        inside = {pair for clique in eliminate(columns, edges, sizes) for pair in combinations(clique, 2)}
        measured, gain = _worthwhile(inside & scores.keys(), scores, cells, noise, power)
        if best is None or gain > best.gain:
            best = Graph(edges=tuple(sorted(edges)), measured=measured, gain=gain)
    assert best is not None  # noqa: S101 - there are penalties
    return best


def _grown(
    columns: int, sizes: Sequence[int], order: Sequence[Places], limit: int, edges: list[Places]
) -> list[Places]:
    failures = 0
    joined = set(edges)
    for pair in order:
        check_wanted()
        if pair in joined:
            continue
        if fits(columns, [*edges, pair], sizes, limit):
            edges.append(pair)
            failures = 0
        else:
            failures += 1
            if failures > _FAILURES:
                break
    return edges


def _worthwhile(
    pairs: Iterable[Places], scores: Mapping[Places, float], cells: Mapping[Places, int], noise: float, power: float
) -> tuple[tuple[Places, ...], float]:
    """Return the pairs to be measured, and by how many rows they will err less."""
    order = sorted(pairs, key=lambda pair: (-scores[pair] / cells[pair] ** power, pair))
    best, count, error, weight = 0.0, 0, 0.0, 0.0
    for rank, pair in enumerate(order, start=1):
        error += scores[pair]
        weight += cells[pair] ** power
        # Shares ∝ n^power give the whole set the noise c·(Σ n^power)^(1/power).
        gain = error - noise * weight ** (1 / power)
        if gain > best:
            best, count = gain, rank
    return tuple(sorted(order[:count])), best
