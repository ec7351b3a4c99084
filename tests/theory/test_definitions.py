"""Section 1: definitions. Finite laws are enumerated, so every figure is exact."""

import itertools
import math

import numpy as np
import pytest

from hush.accounting import ApproximateDPEvent
from hush.core import InvalidValueError
from hush.mechanisms import Laplace, RandomizedResponse
from hush.sensitivity import global_sensitivity
from hush.utility import exposure, hockey_stick, is_private, privacy_loss


def worst_event(p, q, epsilon):
    events = itertools.product([0, 1], repeat=len(p))
    return max(
        sum(a for a, s in zip(p, e, strict=True) if s)
        - math.exp(epsilon) * sum(b for b, s in zip(q, e, strict=True) if s)
        for e in events
    )


def test_item_1_dp_is_a_hockey_stick_in_both_directions():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
        for epsilon in (0, 0.3, 1.0):
            assert hockey_stick(p, q, epsilon) == pytest.approx(worst_event(p, q, epsilon), abs=1e-12)
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.4, 0.4, 0.2])
    assert hockey_stick(p, q, 1) == 0
    assert hockey_stick(q, p, 1) == pytest.approx(0.2)  # one direction is not enough
    assert not is_private(p, q, epsilon=1)
    assert is_private(p, q, epsilon=1, delta="0.2")
    assert is_private(p, q, epsilon=0, delta="0.2")  # ε = 0 with δ > 0 is legal
    for bad in ([0.5, 0.6], [1.5, -0.5], [math.nan, 1], "ab", [[1.0]], None, [0.5, 0.5]):
        with pytest.raises(InvalidValueError):
            hockey_stick(bad, [1.0], 1)


def test_item_2_neighbours_change_sensitivities():
    assert (global_sensitivity("histogram"), global_sensitivity("histogram", neighbours="replace")) == (1, 2)
    assert global_sensitivity("mean", bounds=(0, 60_000), size=100, neighbours="replace") == 600


def test_item_3_the_privacy_loss_variable():
    # Two laws whose loss exceeds ε = 1 with probability 0.1 and which are (1, δ)-DP with a δ below 0.1.
    p, q = np.array([0.1, 0.9]), np.array([0.02, 0.98])
    loss = privacy_loss(p, q)
    assert loss == pytest.approx(np.log(p / q))
    delta = float((p * np.maximum(1 - np.exp(1 - loss), 0)).sum())  # E[(1 - e^{ε-Z})₊]
    assert delta == pytest.approx(hockey_stick(p, q, 1))
    tail = p[np.abs(loss) > 1].sum()
    assert tail == pytest.approx(0.1)
    assert delta < tail  # P(|Z| ≤ ε) ≥ 1-δ implies (ε,δ)-DP, and not conversely
    rng = np.random.default_rng(1)
    for _ in range(100):
        a, b = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
        z = privacy_loss(a, b)
        assert hockey_stick(a, b, 0.7) <= a[np.abs(z) > 0.7].sum() + 1e-12


def test_item_4_name_and_shame_is_zero_delta_and_exposes_somebody():
    delta, rows = 0.3, 3

    def law(data):
        """Each row is published with probability δ, else a blank."""
        outcome = {}
        for published in itertools.product([True, False], repeat=rows):
            key = tuple(value if out else None for value, out in zip(data, published, strict=True))
            chance = math.prod(delta if out else 1 - delta for out in published)
            outcome[key] = outcome.get(key, 0) + chance
        return outcome

    one, other = law((0, 0, 0)), law((1, 0, 0))
    keys = one.keys() | other.keys()
    gap = sum(max(one.get(k, 0) - other.get(k, 0), 0) for k in keys)
    assert gap == pytest.approx(delta)
    assert 1 - one[None, None, None] == pytest.approx(exposure(delta, rows)) == 1 - 0.7**3
    assert exposure("1e-3", 1000) == pytest.approx(0.6323, abs=1e-4)


def test_item_5_post_processing_and_groups():
    rng = np.random.default_rng(2)
    for _ in range(50):
        p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        channel = rng.dirichlet(np.ones(3), size=4)
        assert hockey_stick(p @ channel, q @ channel, 0.5) <= hockey_stick(p, q, 0.5) + 1e-12
    # Coins with p_k = e^ε·p_{k-1} + δ meet (ε,δ) between k-1 and k with equality, and the group's δ at Kε too.
    epsilon, delta, size = 1.0, 1e-4, 5
    coin = [0.0]
    for _ in range(size):
        coin.append(math.exp(epsilon) * coin[-1] + delta)
    for a, b in itertools.pairwise(coin):
        assert hockey_stick([b, 1 - b], [a, 1 - a], epsilon) == pytest.approx(delta)
        assert hockey_stick([a, 1 - a], [b, 1 - b], epsilon) <= delta
    tight = (math.exp(size * epsilon) - 1) / (math.exp(epsilon) - 1)
    assert tight == pytest.approx(85.79, abs=0.01)
    assert size * math.exp((size - 1) * epsilon) == pytest.approx(273, abs=0.1)  # the seed's, valid and larger
    reached = hockey_stick([coin[-1], 1 - coin[-1]], [coin[0], 1 - coin[0]], size * epsilon)
    assert reached == pytest.approx(tight * delta)
    assert float(ApproximateDPEvent(epsilon=1, delta="1e-4").group(5).delta) == pytest.approx(tight * 1e-4)


@pytest.mark.parametrize("epsilon", [0.2, 1, 3])
def test_mechanisms_meet_the_definition_by_enumeration(epsilon):
    law = RandomizedResponse(epsilon=epsilon, categories=4)
    rows = [law.probabilities(answer) for answer in range(4)]
    assert max(hockey_stick(a, b, epsilon) for a in rows for b in rows) < 1e-12
    assert max(hockey_stick(a, b, 0.99 * epsilon) for a in rows for b in rows) > 0
    noise = Laplace(sensitivity=2, epsilon=epsilon).probabilities(400)
    one, other = np.concatenate([noise, [0, 0]]), np.concatenate([[0, 0], noise])
    excess = lambda e: np.maximum(one - math.exp(e) * other, 0)[2:-2].sum()  # noqa: E731 - the ends are cut off
    assert excess(epsilon) < 1e-12
    assert excess(0.99 * epsilon) > 0
