"""What an aggregator sees, alone and pooled with as many parties as the session allows: uniform words, and full noise.

Each check rejects with probability below 10⁻⁷ where all is well, those of uniform bytes below 10⁻⁹, as there are many.
"""

import itertools
from math import prod

import numpy as np
import pytest
from noise_checks import ALPHA, laplace_survival, shape
from scipy import stats
from secure_sums import Play

from hush.distributed import LaplaceShare
from hush.distributed.messages import PRIME, rebuild
from hush.distributed.party import pairwise_mask, self_mask

RARE = 1e-9


@pytest.fixture
def drawn(monkeypatch):
    """Keep every share of noise that a party draws, in the order of drawing."""
    shares, draw = [], LaplaceShare.draw
    monkeypatch.setattr(LaplaceShare, "draw", lambda self, size=None: shares.append(draw(self, size)) or shares[-1])
    return shares


def weights_at_zero(holders):
    """Return Lagrange's coefficients at 0."""
    ratios = [[(other, other - holder) for other in holders if other != holder] for holder in holders]
    return [prod(above * pow(below, -1, PRIME) for above, below in pairs) % PRIME for pairs in ratios]


def words(message):
    return np.frombuffer(bytes.fromhex(message.body), dtype="<u8")


def vectors(play):
    return {message.sender: words(message) for message in play.messages if message.kind == "mask"}


def uniform(numbers):
    """Return the p-value of the bytes of words under the uniform law, each of the eight places by itself."""
    places = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)
    return min(stats.chisquare(np.bincount(places[:, i], minlength=256)).pvalue for i in range(8))


@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_the_pool_faces_the_full_noise(drawn, epsilon):
    """Two parties pool their noise with the aggregator and one more is lost: exactly the curator's noise is left."""
    length, pooled = 100_000, ["party-001", "party-004"]
    play = Play(np.zeros((7, length), dtype=int), dropouts=1, colluding=2, epsilon=epsilon)
    total = play.run({"party-006": "mask"})
    assert len(drawn) == 6
    known = sum(share for name, share in zip(play.parties, drawn, strict=False) if name in pooled)
    assert shape(total.values - known, laplace_survival(float(play.session.share.scale))) > ALPHA
    # One more party in the pool than the session allows for is noticed, so that the check above could fail.
    assert shape(total.values - known - drawn[0], laplace_survival(float(play.session.share.scale))) < ALPHA


def test_the_pool_cannot_unmask_a_single_vector():
    """All that t-1 parties hold: their own secrets, and t-1 pieces of everybody's. A victim's vector stays uniform."""
    play = Play(np.zeros((6, 20_000), dtype=int), dropouts=1, colluding=2)
    play.run()
    pooled, victim = ["party-000", "party-003"], "party-002"
    seen = vectors(play)[victim].copy()
    keys = {
        message.sender: bytes.fromhex(message.body["mask"]) for message in play.messages if message.kind == "advertise"
    }
    for name in pooled:  # the masks between the victim and the pool are known to the pool
        seen -= pairwise_mask(play.parties[victim]._mask_key, keys[name], victim, name, play.session)
    seed = play.parties[victim]._seed
    assert uniform(seen) > RARE
    # The seed comes out in the end, as the victim is on the list: the masks towards honest parties still hide it.
    assert uniform(seen - self_mask(seed, play.session)) > RARE
    held = {play.session.numbers()[name]: play.parties[name]._pieces[victim] for name in pooled}
    assert play.session.threshold == 3
    for which in (0, 1):
        pieces = {number: pair[which] for number, pair in held.items()}
        assert rebuild(pieces) not in {seed, play.parties[victim]._mask_key.private_bytes_raw()}
        # They fit every secret: a third piece, of a holder who does not pool, makes any of them.
        *weights, last = weights_at_zero((*pieces, 5))
        told = sum(piece * weight for piece, weight in zip(pieces.values(), weights, strict=True))
        for secret in (bytes(32), b"x" * 32, seed):
            third = (int.from_bytes(secret) - told) * pow(last, -1, PRIME) % PRIME
            assert rebuild(pieces | {5: third}) == secret


def test_the_transcript_is_uniform():
    """The same counters in every party; vectors, their pairwise differences and partial sums look like noise alone."""
    play = Play(np.full((5, 20_000), 12345), dropouts=1, colluding=1)
    total = play.run()
    assert (total.values == 5 * 12345).all()
    sent = list(vectors(play).values())
    assert all(uniform(vector) > RARE for vector in sent)
    for size in (2, 3, 4, 5):
        for chosen in itertools.combinations(sent, size):
            assert uniform(sum(chosen[1:], start=chosen[0])) > RARE
    assert uniform(sent[0] - sent[1]) > RARE
    # The check finds what is not uniform: the true sum.
    assert uniform(total.values.view(np.uint64)) < RARE


def test_two_runs_of_the_same_counters_share_nothing():
    play = Play(np.full((3, 5_000), 7))
    play.run()
    first = vectors(play)
    play.again().run()
    second = vectors(play)
    for name in play.parties:
        assert uniform(first[name] - second[name]) > RARE
