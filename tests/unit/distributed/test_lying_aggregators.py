"""Aggregators and parties that lie: different stories for different parties, old messages, messages of any shape."""

import itertools

import numpy as np
import pytest
from secure_sums import STEPS, Play

from hush.distributed import AggregationError, LaplaceShare, Party
from hush.distributed.messages import Message, rebuild
from hush.distributed.network import _largest

SHAPES = (None, 0, "x", [], {}, [1], [[]], {"a": 1}, {"talk": 5, "mask": 5}, {"pieces": 3, "seed": 1}, [None], 1.5)


def texts(messages):
    return [message.to_bytes().decode() for message in messages]


def played(play, step):
    """Play all parties honestly up to a step and return the messages of that step."""
    takes = (play.aggregator.roster, play.aggregator.pieces, play.aggregator.survivors, play.aggregator.confirmations)
    answers = [party.advertise() for party in play.parties.values()]
    for name, take in zip(STEPS[1 : STEPS.index(step) + 1], takes, strict=False):
        heard = take(answers)
        answers = [
            getattr(party, name)(heard[label] if isinstance(heard, dict) else heard)
            for label, party in play.parties.items()
        ]
    return answers


def test_signatures_of_an_earlier_run_count_for_nothing():
    """Parties that join again after a broken run have fresh keys, and what was signed before is not about those."""
    play = Play(np.arange(8).reshape(4, 2), dropouts=1)
    old = played(play, "confirm")
    play.again()
    fresh = played(play, "confirm")
    told = play.aggregator.say("confirmations", texts([*old[:3], fresh[3]]))
    with pytest.raises(AggregationError, match="another run"):
        play.parties["party-003"].reveal(told)


def test_different_rosters_for_different_parties_reveal_nothing():
    play = Play(np.arange(10).reshape(5, 2), dropouts=1)
    names = list(play.parties)
    keys = dict(zip(names, texts(party.advertise() for party in play.parties.values()), strict=True))
    rosters = {name: names if i < 2 else names[1:] if i else names[:-1] for i, name in enumerate(names)}
    shares = {}
    for name in names[1:]:
        roster = play.aggregator.say("roster", [keys[other] for other in rosters[name]])
        shares[name] = play.parties[name].share(roster).body["pieces"]
    for name in names[1:]:
        pieces = {other: sealed[name] for other, sealed in shares.items() if other != name}
        play.parties[name].mask(play.aggregator.say("pieces", pieces))
    listed = play.aggregator.say("survivors", names[1:])
    signed = [play.parties[name].confirm(listed) for name in names[1:]]
    with pytest.raises(AggregationError, match="two rosters"):
        play.parties[names[1]].reveal(play.aggregator.say("confirmations", texts(signed)))
    with pytest.raises(AggregationError, match="signed the list"):
        play.parties[names[2]].reveal(play.aggregator.say("confirmations", texts(signed[1:3])))


def test_pieces_that_only_some_parties_get_leave_masks_in_every_sum():
    """One party never gets another's pieces, so only one side adds their mask: no part of the sum comes out."""
    play = Play(np.arange(10).reshape(5, 2) + 100, dropouts=1)
    names = list(play.parties)
    sealed = play.aggregator.pieces(played(play, "share"))
    bodies = {name: dict(message.body) for name, message in sealed.items()}
    del bodies[names[0]][names[1]]
    vectors = [play.parties[name].mask(play.aggregator.say("pieces", bodies[name])) for name in names]
    listed = play.aggregator.survivors(vectors)
    with pytest.raises(AggregationError, match="not a list of parties"):
        play.parties[names[0]].confirm(listed)
    # The other four are a quorum, and reveal what belongs to the list of all five.
    signed = [play.parties[name].confirm(listed) for name in names[1:]]
    told = play.aggregator.confirmations(signed)
    total = play.aggregator.unmask([play.parties[name].reveal(told) for name in names[1:]])
    assert np.abs(total.values.astype(float)).max() > 10**6  # uniform on 2⁶⁴: smaller with probability 10⁻²⁵


def test_no_party_alone_holds_the_secrets_of_another():
    """Also when nobody colludes; a party may still listen on the aggregator's line."""
    play = Play(np.zeros((4, 1), dtype=int))
    assert play.session.threshold == 2
    answers = played(play, "share")
    heard = play.aggregator.pieces(answers)
    for name, party in play.parties.items():
        party.mask(heard[name])
    secrets = {name: (party._mask_key.private_bytes_raw(), party._seed) for name, party in play.parties.items()}
    for (holder, party), (owner, pair) in itertools.product(play.parties.items(), secrets.items()):
        if holder != owner:
            number = play.session.numbers()[holder]
            assert all(
                rebuild({number: piece}) != secret for piece, secret in zip(party._pieces[owner], pair, strict=True)
            )


def test_names_that_begin_alike():
    names = ["a", "ab", "a b", "b", "a\u0301", "\U0001f600"]
    play = Play(np.arange(12).reshape(6, 2), names=names, dropouts=1, colluding=1)
    assert play.run({"ab": "mask"}).values.tolist() == (np.arange(12).reshape(6, 2).sum(axis=0) - [2, 3]).tolist()


def test_sums_at_the_bound_are_exact():
    for count in (2, 7):
        bound = 2**62 // count // 4
        play = Play([[bound, -bound]] * count, bound=bound)
        assert play.run().values.tolist() == [bound * count, -bound * count]


def test_nothing_is_charged_before_all_is_checked_and_nothing_leaves_before_it_is_charged():
    play = Play(np.arange(6).reshape(3, 2))
    charged = []

    def refuse():
        charged.append(1)
        raise AggregationError("no budget")

    play.parties["party-000"] = Party(
        play.session, name="party-000", key=play.keys["party-000"][0], values=[1, 2], before_masking=refuse
    )
    heard = play.aggregator.pieces(played(play, "share"))
    false = dict.fromkeys(heard["party-000"].body, "00" * 148)
    with pytest.raises(AggregationError, match="do not decrypt"):
        play.parties["party-000"].mask(play.aggregator.say("pieces", false))
    assert not charged
    play.again()
    play.parties["party-000"] = Party(
        play.session, name="party-000", key=play.keys["party-000"][0], values=[1, 2], before_masking=refuse
    )
    heard = play.aggregator.pieces(played(play, "share"))
    with pytest.raises(AggregationError, match="no budget"):
        play.parties["party-000"].mask(heard["party-000"])
    assert charged == [1]
    with pytest.raises(AggregationError, match="twice or out of order"):
        play.parties["party-000"].mask(heard["party-000"])


@pytest.mark.parametrize("body", SHAPES)
@pytest.mark.parametrize(
    ("before", "kind"), list(zip(STEPS[:4], ("roster", "pieces", "survivors", "confirmations"), strict=True))
)
def test_a_party_refuses_what_has_another_shape(before, kind, body):
    play = Play(np.arange(6).reshape(3, 2))
    played(play, before)
    with pytest.raises(AggregationError):
        getattr(play.parties["party-001"], STEPS[STEPS.index(before) + 1])(play.aggregator.say(kind, body))


@pytest.mark.parametrize("body", SHAPES)
@pytest.mark.parametrize("step", [step for step in STEPS if step != "confirm"])
def test_the_aggregator_refuses_what_has_another_shape(step, body):
    play = Play(np.arange(6).reshape(3, 2))
    answers = played(play, step)
    key = play.keys["party-000"][0]
    answers[0] = Message.signed(step, "party-000", body, session=play.session.digest, key=key)
    takes = {"advertise": "roster", "share": "pieces", "mask": "survivors", "reveal": "unmask"}
    with pytest.raises(AggregationError):
        getattr(play.aggregator, takes[step])(answers)


def test_no_honest_message_is_larger_than_the_limit():
    """With the longest names, each of whose characters takes twelve bytes in JSON, and twice that inside of another."""
    names = [f"{i:04}" + "\U0001f600" * 60 for i in range(40)]
    play = Play(np.full((40, 30), -(2**50)), names=names, colluding=38, bound=2**50)
    told = []
    say = play.aggregator.say
    play.aggregator.say = lambda kind, body: told.append(say(kind, body)) or told[-1]
    total = play.run()
    play.aggregator.say("result", {"values": total.values.tolist(), "survivors": names, "transcript": "0" * 64})
    assert max(len(message.to_bytes()) for message in [*play.messages, *told]) < _largest(play.session)


def test_the_price_of_a_vector_is_the_sum_over_its_counters():
    share = LaplaceShare(sensitivity=5, epsilon=1, parties=12, honest=10)

    def one(moves):
        return LaplaceShare(sensitivity=moves, epsilon=f"{moves}/5", parties=12, honest=10).epsilon_if(honest=6)

    losses = {count: share.epsilon_if(honest=6, counters=count) for count in (1, 2, 3, 5, 9)}
    assert losses[1] == pytest.approx(one(5))
    assert losses[2] == pytest.approx(one(2) + one(3))
    assert losses[3] == pytest.approx(one(1) + 2 * one(2))
    assert losses[5] == losses[9] == pytest.approx(5 * one(1))
    assert losses[1] < losses[2] < losses[3] < losses[5]
    assert share.epsilon_if(honest=10, counters=5) == 1
