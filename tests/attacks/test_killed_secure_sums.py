"""Processes of a secure sum are killed at every moment: the exact noisy sum comes out, or none, never less noise.

ε is so large that the noise is 0 but with probability e⁻¹⁰⁰⁰: sums can be checked exactly. How much noise there would
be is told by the survivors: each honest one's vector holds a full share, whatever happens later.
"""

import pytest
from sum_processes import Processes

VALUES = [[3, -5, 2**31], [100, 0, -1], [7, 7, 7], [0, 1, 2], [50, -60, 70]]
STEPS = ("advertise", "share", "mask", "confirm", "reveal")
TOLD = ("roster", "pieces", "survivors", "confirmations", "result")


@pytest.fixture
def five():
    return Processes(VALUES, epsilon=1000, dropouts=1, colluding=1)


def assert_sum_of_survivors(processes, result):
    """A result is the exact sum over its survivors, who are enough for the noise."""
    names = list(processes.keys)
    assert len(result["survivors"]) >= processes.session.survivors
    rows = [VALUES[names.index(name)] for name in result["survivors"]]
    assert result["values"] == [sum(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_party_is_killed(five, step, after):
    total, results = five.run(
        deaths={"party-002": (step, after)}, seconds=5 if (step, after) == ("advertise", False) else 30
    )
    assert five.killed == 1
    assert_sum_of_survivors(five, total)
    sent = STEPS.index(step) + after > STEPS.index("mask")
    assert ("party-002" in total["survivors"]) == sent
    del results["party-002"]
    for result in results.values():
        assert_sum_of_survivors(five, result)


@pytest.mark.parametrize("step", STEPS)
def test_two_parties_are_killed_where_one_may_be(five, step):
    deaths = {"party-000": (step, False), "party-004": (step, False)}
    total, results = five.run(deaths=deaths, seconds=5 if step == "advertise" else 30)
    assert five.killed == 2
    if step == "reveal":  # the noise of all five is in the sum, and a threshold is left to unmask it
        assert_sum_of_survivors(five, total)
        assert len(total["survivors"]) == 5
    else:
        assert "must be. No sum is released" in total
        assert all(result is None or "gone or silent" in result for result in results.values())


@pytest.mark.parametrize("passed", [0, 2])
@pytest.mark.parametrize("kind", TOLD)
def test_the_aggregator_is_killed(five, kind, passed):
    """Having told nobody, or two of five parties, what it tells at a step."""
    total, results = five.run(aggregator_death=(kind, False, passed), seconds=30)
    assert five.killed == 1
    assert total is None
    told = [result for result in results.values() if isinstance(result, dict)]
    assert len(told) == (passed if kind == "result" else 0)
    for result in told:
        assert_sum_of_survivors(five, result)
    assert all("nothing more was revealed" in result for result in results.values() if isinstance(result, str))


def test_a_party_never_comes(five):
    total, _ = five.run(absent=["party-001"], seconds=5)
    assert_sum_of_survivors(five, total)
    total, results = five.run(absent=["party-001", "party-003"], seconds=1)
    assert "only 3 of 5" in total
    assert all("gone or silent" in result for result in results.values())
