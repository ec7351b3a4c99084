"""Local mechanisms: their laws by enumeration, their decoders against brute force, their figures against formulas."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hush import local
from hush.core import InvalidValueError
from hush.local import HeavyHitters, LocalMean, LocalVectorMean, ProjectiveGeometry
from hush.local.frequencies import _numbers, _points, _vectors, frequency
from hush.local.means import _best, _moments, _threshold, vectors_of
from hush.mechanisms.randomized_response import _binomial


@pytest.mark.parametrize(("field", "length"), [(2, 5), (3, 4), (5, 3), (7, 3)])
def test_points_and_vectors_name_each_other(field, length):
    numbers = np.arange(_points(field, length))
    vectors = _vectors(numbers, field, length)
    assert len({tuple(vector) for vector in vectors.tolist()}) == len(numbers)
    for multiple in range(1, field):
        assert (_numbers(vectors * multiple % field, field) == numbers).all()
    products = vectors @ vectors.T % field == 0
    assert set(products.sum(axis=1).tolist()) == {_points(field, length - 1)}
    common = products.astype(int) @ products.T
    assert set(common[~np.eye(len(numbers), dtype=bool)].tolist()) == {_points(field, length - 2)}


@pytest.mark.parametrize("epsilon", ["0.3", "1", "2.5"])
def test_decoding_by_fourier_transform_counts_orthogonal_reports(epsilon):
    oracle = ProjectiveGeometry(epsilon=epsilon, categories=30)
    reports = oracle.release([i % 30 for i in range(600)])
    own = _vectors(np.arange(30), oracle.field, oracle.length)
    points = _vectors(reports, oracle.field, oracle.length)
    assert (((own @ points.T) % oracle.field == 0).sum(axis=1) == oracle._supports(reports)[0]).all()


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 1.5, 2, 3, 4])
def test_projective_geometry_is_nearly_optimal(epsilon):
    """Against subset selection, the smallest variance known: 4e^ε/(e^ε-1)² for many categories."""
    optimum = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
    ratio = ProjectiveGeometry(epsilon=epsilon, categories=100_000).variance(count=1) / optimum
    assert 0.999 < ratio < (1.02 if epsilon == 2 else 1.025)


@pytest.mark.parametrize("epsilon", ["0.2", "1", "3"])
def test_the_windows_of_means_are_private_and_unbiased(epsilon):
    """By the law itself: the ratio of two windows' masses is e^ε, and the estimate's mean is the value."""
    _, bit, wide = _best(float(Fraction(epsilon)))
    for window in (bit, wide):
        reports = np.arange(window.reports)
        laws = []
        for begin in {0, 1, (window.reports - window.width) // 2, window.reports - window.width}:
            law = np.full(window.reports, window.base)
            law[begin : begin + window.width] *= window.odds
            assert law.sum() == pytest.approx(1)
            value = 2 * begin / (window.reports - window.width) - 1
            assert law @ window.estimate(reports) == pytest.approx(value, abs=1e-9)
            spread = law @ (window.estimate(reports) - value) ** 2
            assert spread == pytest.approx(window.variance(value), rel=1e-9)
            laws.append(law)
        largest = max((a / b).max() for a in laws for b in laws)
        assert math.log(largest) == pytest.approx(float(Fraction(epsilon)))


@pytest.mark.parametrize(("epsilon", "published"), [(0.5, 16.671), (1, 4.683), (2, 1.228), (4, 0.241)])
def test_means_are_never_worse_than_the_better_of_duchi_and_piecewise(epsilon, published):
    assert LocalMean(epsilon=epsilon, lower=-1, upper=1).variance(count=1) <= published * 1.001


@pytest.mark.parametrize("answer", ["text", None, 10**400, object()])
def test_a_vector_without_numbers_changes_no_other_report(answer):
    mechanism = local.vector_mean(epsilon=12, dimensions=2)
    rows = np.array([[1.0, 0.0]] * 500, dtype=object)
    rows[0, 0] = answer
    directions = mechanism._directions(rows)
    # A vector of full length is never turned round, so the directions of the others are certain.
    assert directions[1:].tolist() == [[1.0, 0.0]] * 499
    assert np.isfinite(directions[0]).all()


def test_vector_means_reach_the_published_error():
    for epsilon, published in ((1, 633), (2, 161.7), (4, 43.5), (8, 13.3)):
        mechanism = LocalVectorMean(epsilon=epsilon, dimensions=100)
        assert mechanism.squared_error(count=1) == pytest.approx(published, rel=2e-3)


def test_the_threshold_of_vectors_is_where_the_error_is_smallest():
    best = _threshold(4.0, 100)
    at = [99 / _moments(gamma, 4.0)[0] ** 2 for gamma in (best - 0.05, best, best + 0.05)]
    assert at[1] == min(at)


def test_vectors_are_made_anew_from_their_seed():
    seeds = np.array([1, 2, 2**64 - 1], dtype=np.uint64)
    made = vectors_of(seeds, 7)
    assert (made == vectors_of(seeds[::-1], 7)[::-1]).all()
    assert made.shape == (3, 7)
    assert (vectors_of(seeds, 6) == made[:, :6]).all()


@pytest.mark.parametrize("answer", [None, math.nan, "x", object(), 10**400, -5, True])
def test_any_answer_gives_a_report(answer):
    mean = LocalMean(epsilon=1, lower=0, upper=1)
    assert mean.release(answer) in mean.reports
    assert 0 <= ProjectiveGeometry(epsilon=1, categories=9).release(answer) < 31 * 31
    survey = local.heavy_hitters(epsilon=1, length=2)
    survey.first().release(answer)


def test_short_words_are_found_at_an_epsilon_of_plain_responses():
    """Their padding is part of the candidate: an array of bytes once lost it. Of 300 people all but some tell."""
    survey = HeavyHitters(epsilon=14, length=3, keep=1)
    assert type(survey.first().oracle).__name__ == "RandomizedResponse"
    assert survey.run(["a"] * 300).words == ("a",)


def test_vectors_that_are_none_count_as_zero():
    mechanism = LocalVectorMean(epsilon=4, dimensions=3)
    rows = np.array([[math.nan, 0, 0], [math.inf, 1, 1], [1e300, 1e300, 0], [0, 0, 0]])
    assert len(mechanism.release(rows)) == 4
    with pytest.raises(InvalidValueError, match="vectors of 3"):
        mechanism.release([1.0, 2.0])


@pytest.mark.parametrize("reports", [[-1], [10**9], [[5, 10**7]]])
def test_reports_that_could_not_have_come_from_the_mechanism(reports):
    for mechanism in (ProjectiveGeometry(epsilon=1, categories=9), LocalMean(epsilon=1, lower=0, upper=1)):
        with pytest.raises(InvalidValueError):
            mechanism.estimate(reports)


def test_bad_parameters():
    for bad in (0, -1, "x", math.inf, None):
        for make in (
            lambda bad=bad: LocalMean(epsilon=bad, lower=0, upper=1),
            lambda bad=bad: LocalVectorMean(epsilon=bad, dimensions=3),
            lambda bad=bad: local.heavy_hitters(epsilon=bad, length=3),
            lambda bad=bad: local.heavy_hitters(epsilon=1, length=bad),
        ):
            with pytest.raises(InvalidValueError):
                make()
    with pytest.raises(InvalidValueError, match="above the lower"):
        LocalMean(epsilon=1, lower=3, upper=3)
    with pytest.raises(InvalidValueError, match="at most 12"):
        LocalVectorMean(epsilon=13, dimensions=3)


def test_two_cells_of_a_hash_are_no_binary_response_to_the_shuffler():
    """Each report shows its own hash function, so that more is seen than how many cells were 1."""
    hashing = local.LocalHashing(epsilon="0.4", categories=50)
    assert hashing.cells == 2
    response = local.frequency(epsilon="0.4", categories=2)
    assert local.shuffled(response.event, reports=2000).binary
    assert not local.shuffled(hashing.event, reports=2000).binary


def test_forms_of_nonsense():
    for categories in ('"abc"', "5", '["a", 3]', '{"a": 1}'):
        text = f'{{"version": 1, "question": "q", "kind": "frequency", "epsilon": "1", "categories": {categories}}}'
        with pytest.raises(InvalidValueError):
            local.Form.from_json(text)


@pytest.mark.parametrize("count", [30, 1000])
@pytest.mark.parametrize(("epsilon", "categories"), [(0.5, 2), (1, 50), (3, 10), (6, 100)])
def test_half_widths_of_frequencies_hold_and_are_no_wider_than_they_must(count, epsilon, categories):
    """Coverage is summed over the law of the supports, not simulated: there is no false alarm."""
    oracle = frequency(epsilon=epsilon, categories=categories)
    p, q = oracle.support
    before = oracle.error(count=count)
    for holders in {0, 1, count // 10, count // 2, count}:
        (first, held), (second, others) = _binomial(holders, p), _binomial(count - holders, q)
        law = np.convolve(held, others)
        estimates = ((first + second + np.arange(len(law))) / count - q) / (p - q)
        likely = law > 1e-7
        law, estimates, share = law[likely], estimates[likely], holders / count
        after = oracle.errors(estimates, count=count)
        assert law[np.abs(estimates - share) <= after].sum() >= 0.95
        assert law[np.abs(estimates - share) <= before].sum() >= 0.95
        flips = count * (share * p * (1 - p) + (1 - share) * q * (1 - q))
        if flips >= 5:  # where fewer coins flip, whole numbers are too coarse for any 95 %
            assert law @ after <= 1.15 * 1.959964 * math.sqrt(flips) / count / (p - q)
    assert before <= 1.2 * 1.959964 * math.sqrt(max(p * (1 - p), q * (1 - q), 4 / count) / count) / (p - q)


def test_rare_categories_have_small_half_widths():
    oracle = frequency(epsilon=6, categories=300)
    errors = oracle.errors(np.array([0.0, 0.5]), count=10_000)
    assert errors[1] > 5 * errors[0]  # both were as wide as the largest
    assert oracle.errors(np.zeros(3), 1 - 1e-9, count=10_000, categories=300)[0] > 2 * errors[0]
    truth = frequency(epsilon=1000, categories=3)
    assert truth.errors(np.array([1.0, 0.0]), count=10).tolist() == [0.0, 0.0]


def test_a_column_of_nobody_has_no_report_and_the_middle_as_its_mean() -> None:
    means = local.mean(epsilon=1, lower=0, upper=10)
    assert (list(means.release([])), means.estimate(means.release([]))) == ([], 5.0)
