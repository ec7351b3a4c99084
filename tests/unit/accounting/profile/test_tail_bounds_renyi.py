"""Rényi divergences turned into (ε, δ)."""

from hush.accounting import (
    GaussianEvent,
    PoissonGaussianEvent,
    RenyiEvent,
    compose,
)


def test_sharp_sampled_noise_next_to_renyi_points_costs_hardly_more_than_unsampled() -> None:
    # The order is sought for the sampled law; at that order the unsampled divergence may have to do.
    points = RenyiEvent(points=[(2, "0.03"), (8, "0.6"), (32, "1.8")])
    sampled = compose([points, PoissonGaussianEvent(rate="0.48", sigma="0.0078")])
    plain = compose([points, GaussianEvent(sigma="0.0078")])
    assert sampled.epsilon("1e-5").upper <= plain.epsilon("1e-5").upper * 1.001
