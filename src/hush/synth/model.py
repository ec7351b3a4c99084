r"""A graphical model on a junction tree: its pairs chosen, fitted to noisy marginals, sampled evenly.

**Model.** The distribution over all columns that is a product of factors on pairs of columns, p(x) ∝ exp Σ_r θ_r(x_r),
has the largest entropy among all with the same marginals. If the graph of the pairs is triangulated, its cliques form a
tree, and two passes of messages along it give every clique's exact marginal (Lauritzen, Spiegelhalter 1988; McKenna,
Sheldon, Miklau 2019 for private marginals).

**Which pairs.** Pairs of columns are chosen from noisy scores alone, so that choosing costs nothing more. The score of
a pair is the distance of its table from a public estimate, in rows: e = ‖M - M̂‖₁, on integers. One row changes it by at
most 1, for any estimate. But the scores of two pairs may move in opposite directions, so they are not monotone: noise
must cover a change of 1 up or down in each. Pairs are joined in the order of their scores, less
a penalty for their number of cells or over a power of it, as long as the cliques of the triangulated graph stay within
a number of cells. Several penalties and powers are tried.

A measured pair no longer errs by e but by its noise, c·n/√ρ over its n cells. Given all pairs that lie within cliques,
the ones to be measured and their parts of ρ maximise Σ (e_p - c·n_p/√ρ_p): parts are proportional to n_p^(2/3), so that
the noise of a set is (Σ n_p^(2/3))^(3/2)·c/√ρ, and sets are prefixes of the order of e_p/n_p^(2/3). With Laplace noise
likewise, with n_p^(1/2) and a square (`hush.synth.measurements`).

>>> graph = choose(4, [2, 2, 2, 2], {(0, 1): 90.0, (2, 3): 80.0, (0, 2): 1.0}, noise=1.0, power=2 / 3, limit=8)
>>> graph.measured
((0, 1), (2, 3))

**Fit.** Minimise f(μ) = ½ Σ_r Σ_cells (N μ_r - y_r)²/σ_r² over the marginals μ of such distributions: mirror descent
moves θ_r against (N μ_r - y_r)/σ_r², with Nesterov's momentum, which starts anew where f rises. It begins at the
independent model. The number of steps is part of the estimator: a fit to the end would follow the noise.

**Sampling.** The clique marginals of a junction tree are all that is needed: rows are drawn clique by clique, each new
column given its separator. For a separator cell with g rows the counts of the new cells are g·p rounded by systematic
sampling: cumulative sums are shifted by an offset and cut, so every count is within 1 of its expectation. The offsets
of neighbouring separator cells are spread over [0, 1) by the golden ratio. Rows of one separator cell are taken in a
random order, for else columns that are independent given the separator would come out alike.

>>> tree = junction_tree(3, [(0, 1), (1, 2)], [2, 2, 2])
>>> [clique.columns for clique in tree]
[(0, 1), (1, 2)]
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from hush.core.work import check_wanted

Floats = npt.NDArray[np.float64]
Places = tuple[int, ...]
"""Columns by their places."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_WARM = 14
"""The percentage of steps that are quick ones."""
_TINY = 1e-290
"""Smaller masses count as zero: a division by one of them would overflow, and no row could be drawn."""
_LEAST = 0.3
"""No one-way count is taken to be smaller where the fit begins."""


_PENALTIES = (0.0, 0.1, 0.4, 0.8)
POWERS = (0.15, 0.3, 0.5, 0.7)
_FAILURES = 200
"""After this number of pairs in a row that would make a clique too large, the others are not tried."""


@dataclass(frozen=True, slots=True)
class Clique:
    """Columns that the model joins directly, and those it shares with an earlier clique."""

    columns: Places
    parent: int | None
    separator: Places


def eliminate(columns: int, edges: Sequence[Places], sizes: Sequence[int]) -> list[Places]:
    """Return the maximal cliques of a triangulation, found by eliminating the column with the smallest clique first."""
    neighbours: list[set[int]] = [set() for _ in range(columns)]
    for first, other in edges:
        neighbours[first].add(other)
        neighbours[other].add(first)
    logs = [math.log(size) if size > 1 else 1e-9 for size in sizes]
    left = set(range(columns))
    weight = {node: logs[node] + sum(logs[other] for other in neighbours[node]) for node in left}
    cliques: list[Places] = []
    while left:
        node = min(left, key=lambda column: (weight[column], column))
        around = neighbours[node]
        clique = tuple(sorted({node, *around}))
        if not any(set(clique) <= set(maximal) for maximal in cliques):
            cliques.append(clique)
        left.remove(node)
        for other in around:
            neighbours[other] |= around
            neighbours[other] -= {node, other}
        for other in around:
            weight[other] = logs[other] + sum(logs[near] for near in neighbours[other])
    return cliques


def fits(columns: int, edges: Sequence[Places], sizes: Sequence[int], limit: int) -> bool:
    """Return whether no clique of the triangulation that `eliminate` finds has more cells than the limit."""
    neighbours: list[set[int]] = [set() for _ in range(columns)]
    for first, other in edges:
        neighbours[first].add(other)
        neighbours[other].add(first)
    logs = [math.log(size) if size > 1 else 1e-9 for size in sizes]
    # A clique of exactly `limit` cells fits, whatever its sum of logarithms is rounded to.
    log_limit = math.log(limit) + 1e-6
    weight = {node: logs[node] + sum(logs[other] for other in neighbours[node]) for node in range(columns)}
    while weight:
        node = min(weight, key=lambda column: (weight[column], column))
        if weight.pop(node) > log_limit:
            return False
        around = neighbours[node]
        for other in around:
            # Only what changes is added up again: this runs for every pair that is tried.
            new = around - neighbours[other]
            neighbours[other] |= around
            neighbours[other] -= {node, other}
            weight[other] += sum(logs[near] for near in new if near != other) - logs[node]
    return True


def junction_tree(columns: int, edges: Sequence[Places], sizes: Sequence[int]) -> list[Clique]:
    """Return the cliques of a triangulated graph, each after its parent: a spanning tree of largest separators."""
    cliques = list(map(set, eliminate(columns, edges, sizes)))
    tree, places, rest = [Clique(tuple(sorted(cliques[0])), None, ())], {0: 0}, set(range(1, len(cliques)))
    while rest:
        # A spanning tree of largest separators keeps the cliques of each column connected, which messages rely on.
        pairs = ((len(cliques[new] & cliques[old]), -new, -old) for new in rest for old in places)
        _, new, old = map(abs, max(pairs))
        places[new] = len(tree)
        separator = tuple(sorted(cliques[new] & cliques[old]))
        tree.append(Clique(tuple(sorted(cliques[new])), places[old], separator))
        rest.remove(new)
    return tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The pairs that a model joins, and the pairs that are measured."""

    edges: tuple[Places, ...]
    measured: tuple[Places, ...]
    gain: float
    """By how many rows the measured pairs are expected to err less than before."""


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
) -> Graph:
    """Return the graph with the largest gain, whose cliques have at most ``limit`` cells.

    ``scores`` say by how many rows each pair errs, as far as is known; pairs with scores of ``least`` or less are not
    joined. ``noise`` is the mean size of the noise on a count that takes all of what is to be spent on measuring, and
    ``power`` is 2/3 for Gaussian and 1/2 for Laplace noise. Pairs are also taken in the order of their scores over the
    ``powers`` of their cells.
    """
    cells = {pair: sizes[pair[0]] * sizes[pair[1]] for pair in scores}
    graphs: list[Graph] = []
    ranks = [{pair: penalty * noise * cells[pair] - scores[pair] for pair in scores} for penalty in _PENALTIES]
    # No rank is best for all tables; each one only proposes a graph, and the expected gain decides.
    ranks += [{pair: -scores[pair] / cells[pair] ** power for pair in scores} for power in powers]
    for rank in ranks:
        # Ties go by place, for a kept release must find the same graph again.
        order = sorted(scores, key=lambda pair: (rank[pair], pair))
        edges, failures = list[Places](), 0
        for pair in order:
            if scores[pair] <= least or failures > _FAILURES:
                continue
            check_wanted()
            if fits(columns, [*edges, pair], sizes, limit):
                edges.append(pair)
                failures = 0
            else:
                failures += 1
        # Triangulation joins more pairs than were asked for: these may be measured too, and no clique grows.
        inside = {pair for clique in eliminate(columns, edges, sizes) for pair in combinations(clique, 2)}
        measured, gain = _worthwhile(inside & scores.keys(), scores, cells, noise, power)
        graphs.append(Graph(edges=tuple(sorted(edges)), measured=measured, gain=gain))
    return max(graphs, key=lambda graph: graph.gain)


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """A measured marginal on the model's codes: noisy counts, and the variance of each."""

    columns: Places
    counts: Floats
    variances: Floats


class TreeModel:
    """The marginals of all cliques of a junction tree, with propagation, fit and sampling."""

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Clique]) -> None:
        self.sizes = tuple(sizes)
        self.cliques = tuple(cliques)
        self.shapes = [tuple(self.sizes[column] for column in clique.columns) for clique in cliques]
        self.marginals: list[Floats] = [np.full(shape, 1 / math.prod(shape)) for shape in self.shapes]

    def holder(self, columns: Places) -> int | None:
        """Return the smallest clique that holds all the columns; None if none does."""
        holders = [index for index, clique in enumerate(self.cliques) if set(columns) <= set(clique.columns)]
        return min(holders, key=lambda index: math.prod(self.shapes[index]), default=None)

    def axes(self, index: int, columns: Places) -> tuple[int, ...]:
        """Return the axes of a clique's table that a marginal adds up."""
        return tuple(axis for axis, column in enumerate(self.cliques[index].columns) if column not in columns)

    def expanded(self, index: int, columns: Places) -> tuple[int, ...]:
        """Return the shape in which a marginal's table fits that of a clique."""
        return tuple(self.sizes[column] if column in columns else 1 for column in self.cliques[index].columns)

    def propagate(self, potentials: Sequence[Floats]) -> list[Floats]:
        """Return every clique's marginal under p(x) ∝ exp Σ potentials."""
        # The shift is a constant factor, which goes out when the root is normalised; without it e^θ could overflow.
        beliefs = [np.exp(potential - potential.max()) for potential in potentials]
        messages: list[Floats] = [np.ones(())] * len(beliefs)
        for index in range(len(beliefs) - 1, 0, -1):
            clique = self.cliques[index]
            if clique.parent is None:
                continue
            message = beliefs[index].sum(axis=self.axes(index, clique.separator))
            # Likewise a constant factor, lest products of many messages underflow.
            message /= message.max()
            messages[index] = message
            beliefs[clique.parent] *= message.reshape(self.expanded(clique.parent, clique.separator))
        for index, clique in enumerate(self.cliques):
            if clique.parent is None:
                beliefs[index] /= beliefs[index].sum()
                continue
            above = beliefs[clique.parent].sum(axis=self.axes(clique.parent, clique.separator))
            below = beliefs[index].sum(axis=self.axes(index, clique.separator))
            # The parent's table already holds this clique's message, so that is divided out again.
            ratio = np.divide(above, below, out=np.zeros_like(above), where=below > _TINY)
            beliefs[index] *= ratio.reshape(self.expanded(index, clique.separator))
        return beliefs

    def fit(
        self,
        targets: Sequence[Target],
        total: float,
        start: Sequence[Floats],
        *,
        iterations: int = 300,
        progress: Callable[[float], None] | None = None,
    ) -> float:
        """Fit the marginals to targets that lie within cliques; return half the sum of squared deviations over σ².

        Mirror descent with momentum moves the potentials of each measured marginal against its deviation, from the
        independent model of the positive one-way counts ``start``. The first steps are scaled by 1/(count + σ), like
        those of iterative proportional fitting: far away they are much quicker, but they are no descent of the loss
        and end beside its least value. The others are scaled by 1/σ².
        """
        scale = max(total, 1.0)
        held = [(target, index) for target in targets if (index := self.holder(target.columns)) is not None]
        targets = [target for target, _ in held]
        places = [(i, self.axes(i, target.columns), self.expanded(i, target.columns)) for target, i in held]
        shares = [np.maximum(counts, _LEAST) / scale for counts in start]
        base = [np.zeros(shape) for shape in self.shapes]
        for column, share in enumerate(shares):
            index = self.holder((column,))
            assert index is not None  # noqa: S101 - every column is in a clique
            base[index] += np.log(share).reshape(self.expanded(index, (column,)))

        def model_of(factors: Sequence[Floats]) -> list[Floats]:
            potentials = [part.copy() for part in base]
            for (index, _, shape), factor in zip(places, factors, strict=True):
                potentials[index] += factor.reshape(shape)
            return self.propagate(potentials)

        def gradient(marginals: Sequence[Floats]) -> tuple[float, list[Floats]]:
            loss, slopes = 0.0, []
            for (index, axes, _), target, speed in zip(places, targets, speeds, strict=True):
                gap = scale * marginals[index].sum(axis=axes) - target.counts
                loss += 0.5 * float(np.sum(gap * gap / target.variances))
                slopes.append(speed * gap)
            return loss, slopes

        speeds = []
        for target in targets:
            expected = functools.reduce(
                np.multiply.outer, [shares[column] for column in target.columns], np.asarray(scale)
            )
            speeds.append(1 / (np.maximum(target.counts, expected) + np.sqrt(target.variances)))
        factors = before = [np.zeros(target.counts.shape) for target in targets]
        self.marginals = model_of(factors)
        warm = iterations * _WARM // 100
        loss, slopes, rate, time = 0.0, list[Floats](), 1.0, 1.0
        for iteration in range(iterations):
            check_wanted()
            if iteration in {0, warm}:
                if iteration == warm:
                    speeds = [1 / target.variances for target in targets]
                loss, slopes = gradient(self.marginals)
                # No entry of a factor moves by more than 1 in the first step.
                rate, time = 1 / max([1.0, *(float(np.abs(slope).max()) for slope in slopes)]), 1.0
                before = factors
            moved = [factor - rate * slope for factor, slope in zip(factors, slopes, strict=True)]
            # Nesterov's sequence: the momentum's weight grows from 0 towards 1.
            later = (1 + math.sqrt(1 + 4 * time**2)) / 2
            inertia = (time - 1) / later
            ahead = [new + inertia * (new - old) for new, old in zip(moved, before, strict=True)]
            with np.errstate(all="ignore"):  # a step too far has no finite loss, and is not taken
                marginals = model_of(ahead)
                loss_there, slopes_there = gradient(marginals)
            if math.isfinite(loss_there) and loss_there <= loss:
                self.marginals, loss, slopes = marginals, loss_there, slopes_there
                factors, before, time = ahead, moved, later
                rate *= 1.05
            elif time > 1:
                # The momentum may be to blame: it starts anew before steps get shorter.
                time, before = 1.0, factors
            else:
                rate *= 0.5
            if progress is not None:
                progress((iteration + 1) / iterations)
        return loss


class Draws:
    """Random numbers that a seed determines: sampling a public model is post-processing and may be repeated.

    SHAKE-256 of the seed and of how many draws came before.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed, self._number = seed, 0

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return 64-bit words."""
        self._number += 1
        # Words are little-endian on every machine: a kept seed gives the same rows everywhere.
        stream = hashlib.shake_256(self._seed + self._number.to_bytes(8, "big")).digest(8 * count)
        return np.frombuffer(stream, dtype="<u8")

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        # The upper 53 bits are exactly a float, so 1 is never reached by rounding.
        return float(self.words(1)[0] >> np.uint64(11)) * 2.0**-53

    def order(self, count: int) -> npt.NDArray[np.int64]:
        """Return a random permutation of ``count`` indices."""
        return np.argsort(self.words(count), kind="stable")


def sample(model: TreeModel, rows: int, draws: Draws) -> npt.NDArray[np.int64]:
    """Return rows of codes, a column for each of the model's: as many of each kind as expected, up to rounding."""
    table = np.zeros((len(model.sizes), rows), dtype=np.int64)
    drawn: set[int] = set()
    for clique, marginal in zip(model.cliques, model.marginals, strict=True):
        given = [column for column in clique.columns if column in drawn]
        new = [column for column in clique.columns if column not in drawn]
        if not new:
            continue
        axes = [clique.columns.index(column) for column in (*given, *new)]
        cells = math.prod(model.sizes[column] for column in given)
        joint = marginal.transpose(axes).reshape(cells, -1)
        key = np.zeros(rows, dtype=np.int64)
        for column in given:
            key = key * model.sizes[column] + table[column]
        code = given_groups(key, joint, draws)
        table[new] = np.unravel_index(code, [model.sizes[column] for column in new])
        drawn.update(new)
    return table.T


def given_groups(key: npt.NDArray[np.int64], joint: Floats, draws: Draws) -> npt.NDArray[np.int64]:
    """Return a code for each row, drawn from the row of ``joint`` that its key names, systematically within a key."""
    check_wanted()
    groups, codes = joint.shape
    order = draws.order(len(key))
    # A stable sort of a random order: random within each key.
    order = order[np.argsort(key[order], kind="stable")]
    counts = np.bincount(key, minlength=groups).astype(np.float64)
    mass = joint.sum(axis=1, keepdims=True)
    # Rows whose key has no mass in the model need a code all the same: all are alike.
    shares = np.divide(joint, mass, out=np.full_like(joint, 1 / codes), where=mass > 0)
    offsets = (draws.uniform() + np.arange(groups) * _GOLDEN) % 1.0
    ends = np.floor(np.cumsum(shares * counts[:, None], axis=1) + offsets[:, None])
    # The offset may carry the last ends past the group; the last one is then exact whatever the sums were rounded to.
    ends = np.minimum(ends, counts[:, None])
    ends[:, -1] = counts
    sizes = np.diff(ends, axis=1, prepend=0).astype(np.int64)
    codes_in_order = np.empty(len(key), dtype=np.int64)
    codes_in_order[order] = np.repeat(np.tile(np.arange(codes), groups), sizes.ravel())
    return codes_in_order
