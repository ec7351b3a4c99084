"""One-way counts made useful: noise taken out, negative counts moved away, codes put into private bins.

All of it is post-processing of noisy counts and costs nothing.

**Smoothing** of ordered columns. Haar wavelets turn counts into differences of neighbouring blocks; the noise is as
large in each coefficient, while most of a smooth distribution sits in few. Coefficients below 0.85·σ·√(2 ln n) are set
to 0 (hard thresholds: Donoho, Johnstone 1994), averaged over shifts (Coifman, Donoho 1995), on counts that are
continued by their mirror image. Spikes stay, for they are above any threshold.

**Bins.** Neighbouring codes of an ordered column are merged until a bin holds max(N/resolution, 6σ) rows, where the
resolution grows with the root of N over the noise (`hush.synth.synthesis`): a pair's noise grows with its cells, and
fine bins leave room for fewer pairs. A code that holds as much stays alone. Rare values of other columns, below 3σ, go
into one bin. Pairs of columns are then measured on bins, and the codes within a bin are drawn from the smoothed one-way
counts: the model of bins loses nothing that was measured.

>>> bins = merge(np.array([50.0, 1, 1, 1, 1, 60]), floor=5.0, ordered=True)
>>> bins.tolist()
[0, 1, 1, 1, 1, 2]
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hush.mechanisms.estimators.postprocess import nonnegative

Floats = npt.NDArray[np.float64]
Bins = npt.NDArray[np.int64]
_SHORT = 8
_SHIFTS = 32
_THRESHOLD = 0.85
MAX_BINS = 64


def smoothed(counts: Floats, deviation: float) -> Floats:
    """Return noisy counts of an ordered column with the noise thresholded away.

    >>> noisy = np.array([10.0, -12, 9, 11, 8, 12, 9, 10] * 4)
    >>> float(np.abs(smoothed(noisy, 10.0) - noisy.mean()).max()) < 3
    True
    """
    if len(counts) < _SHORT:
        return counts.astype(np.float64)
    # Shifts go round in a circle: without the mirror image the two ends would meet in a jump.
    mirrored = np.concatenate([counts, counts[::-1]]).astype(np.float64)
    length = 1 << (len(mirrored) - 1).bit_length()
    padded = np.resize(mirrored, length)
    # The universal threshold σ·√(2 ln n) is about the largest of n pure noises.
    limit = _THRESHOLD * deviation * math.sqrt(2 * math.log(len(counts)))
    total = np.zeros(length)
    turns = min(length, _SHIFTS)
    for shift in range(turns):
        total += np.roll(_thresholded(np.roll(padded, shift), limit), -shift)
    return np.asarray(total[: len(counts)] / turns)


def _thresholded(values: Floats, limit: float) -> Floats:
    details = []
    root = math.sqrt(2)
    while len(values) > 1:
        even, odd = values[0::2], values[1::2]
        # Over √2 the transform is orthonormal: the noise is as large in every coefficient, and one limit does for all.
        detail = (even - odd) / root
        details.append(np.where(np.abs(detail) > limit, detail, 0.0))
        values = (even + odd) / root
    for detail in reversed(details):
        finer = np.empty(2 * len(values))
        finer[0::2], finer[1::2] = (values + detail) / root, (values - detail) / root
        values = finer
    return values


def settled(noisy: Floats, total: float, deviation: float, *, ordered: bool, null: bool) -> Floats:
    """Return non-negative counts that add up to the total: smoothed where codes are ordered, without that of NULL."""
    counts = noisy.astype(np.float64)
    if ordered:
        values = counts[:-1] if null else counts
        # NULL, the last code, has no neighbours to be averaged with.
        counts = np.append(smoothed(values, deviation), counts[-1:]) if null else smoothed(values, deviation)
    return nonnegative(counts, total=max(total, 0.0))


def merge(counts: Floats, *, floor: float, ordered: bool, null: bool = False) -> Bins:
    """Return the bin of each code; bins are numbered from 0, in the order of codes."""
    values = counts[:-1] if null else counts
    bins = _neighbours(values, floor) if ordered else _rare(values, floor)
    return np.append(bins, bins.max(initial=-1) + 1) if null else bins


def _neighbours(counts: Floats, floor: float) -> Bins:
    bins = np.zeros(len(counts), dtype=np.int64)
    current, mass = 0, 0.0
    for code, count in enumerate(counts.tolist()):
        if count >= floor and mass > 0:  # a spike keeps to itself
            current, mass = current + 1, 0.0
        bins[code] = current
        mass += count
        if mass >= floor:
            current, mass = current + 1, 0.0
    last = int(bins[-1])
    # What is left at the end may be too little for a bin of its own.
    if last and float(counts[bins == last].sum()) < floor / 2:
        bins[bins == last] = last - 1
    return bins


def _rare(counts: Floats, floor: float) -> Bins:
    common = counts >= floor
    if np.count_nonzero(common) > MAX_BINS:
        common = np.zeros(len(counts), dtype=np.bool_)
        common[np.argsort(-counts, kind="stable")[:MAX_BINS]] = True
    # A bin of one rare value would merge nothing.
    if np.count_nonzero(~common) <= 1:
        return np.arange(len(counts), dtype=np.int64)
    bins = np.full(len(counts), np.count_nonzero(common), dtype=np.int64)
    bins[common] = np.arange(np.count_nonzero(common))
    return bins
