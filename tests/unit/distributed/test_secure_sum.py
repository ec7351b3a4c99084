"""Secure sums: exact where noise is nil, whoever drops out; refused, never under-noised, where too many do."""

import itertools
import json

import numpy as np
import pytest
from secure_sums import STEPS, Play

from hush.core import InvalidValueError
from hush.distributed import AggregationError, Aggregator, Party, Session, new_key
from hush.distributed.messages import PRIME, Message, rebuild, split


def rows(count, length=3):
    return np.arange(count * length).reshape(count, length) - 7


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("count", [1, 2])
def test_the_sum_is_exact_whoever_is_lost_at_any_step(step, count):
    play = Play(rows(8), dropouts=2, colluding=3)
    lost = dict.fromkeys(list(play.parties)[2 : 2 + count], step)
    total = play.run(lost)
    held = [i for i, name in enumerate(play.parties) if name in total.survivors]
    assert total.values.tolist() == rows(8)[held].sum(axis=0).tolist()
    assert len(held) == (8 if step in {"confirm", "reveal"} else 8 - count)


@pytest.mark.parametrize("step", STEPS[:3])
def test_too_many_dropouts_end_in_a_refusal(step):
    play = Play(rows(6), dropouts=1, colluding=1)
    with pytest.raises(AggregationError, match="must be"):
        play.run(dict.fromkeys(list(play.parties)[:2], step))


@pytest.mark.parametrize(("step", "count"), [("confirm", 4), ("reveal", 6)])
def test_a_quorum_and_a_threshold_are_needed(step, count):
    play = Play(rows(8), dropouts=2, colluding=3)
    with pytest.raises(AggregationError, match="No sum"):
        play.run(dict.fromkeys(list(play.parties)[:count], step))


def test_losses_at_different_steps():
    for first, second in itertools.product(STEPS, STEPS):
        play = Play(rows(9, 2), dropouts=2, colluding=2)
        names = list(play.parties)
        total = play.run({names[0]: first, names[5]: second})
        held = [i for i, name in enumerate(names) if name in total.survivors]
        assert total.values.tolist() == rows(9, 2)[held].sum(axis=0).tolist()


def test_counters_are_moved_into_the_bound():
    play = Play([[10**6], [-(10**6)], [3]], bound=100)
    assert play.run().values.tolist() == [3]


def to(play, step):
    """Play up to a step and return what its parties are about to hear."""
    aggregator, parties = play.aggregator, play.parties
    heard = aggregator.roster([party.advertise() for party in parties.values()])
    if step == "share":
        return heard
    heard = aggregator.pieces([party.share(heard) for party in parties.values()])
    if step == "mask":
        return heard
    heard = aggregator.survivors([party.mask(heard[name]) for name, party in parties.items()])
    if step == "confirm":
        return heard
    return aggregator.confirmations([party.confirm(heard) for party in parties.values()])


def test_no_party_takes_a_step_twice():
    play = Play(rows(4))
    heard = to(play, "confirm")
    party = play.parties["party-000"]
    party.confirm(heard)
    with pytest.raises(AggregationError, match="twice or out of order"):
        party.confirm(heard)


def test_a_party_signs_no_list_that_leaves_too_few():
    play = Play(rows(6), dropouts=1, colluding=1)
    to(play, "confirm")
    short = play.aggregator.say("survivors", [f"party-00{i}" for i in range(4)])
    with pytest.raises(AggregationError, match="noise needs 5"):
        play.parties["party-000"].confirm(short)


def test_two_lists_of_survivors_reveal_nothing():
    """An aggregator that tells parties different lists gets no quorum under either, and no reveal."""
    play = Play(rows(8), dropouts=2, colluding=2)
    to(play, "confirm")
    names = list(play.parties)
    lists = [sorted(names[:7]), sorted(names[1:])]
    signed = [
        play.parties[name].confirm(play.aggregator.say("survivors", lists[i % 2 if 0 < i < 7 else i // 7]))
        for i, name in enumerate(names)
    ]
    for which in (0, 1):
        mine = [message for i, message in enumerate(signed) if (i % 2 if 0 < i < 7 else i // 7) == which]
        assert len(mine) < play.session.quorum
        told = play.aggregator.say("confirmations", [message.to_bytes().decode() for message in mine])
        with pytest.raises(AggregationError, match="signed the list"):
            play.parties[mine[0].sender].reveal(told)
    mixed = play.aggregator.say("confirmations", [message.to_bytes().decode() for message in signed])
    with pytest.raises(AggregationError, match="two rosters or lists"):
        play.parties[names[2]].reveal(mixed)


def test_the_quorum_leaves_no_room_for_two_lists():
    """However honest parties are split over two lists, colluding ones signing both, one list lacks a quorum."""
    for count in range(3, 40):
        for colluding in range(count - 1):
            quorum = (count + colluding) // 2 + 1
            honest = count - colluding
            assert all(min(a, honest - a) + colluding < quorum for a in range(honest + 1))


def test_a_signature_of_another_session_counts_for_nothing():
    play, other = Play(rows(3)), Play(rows(3))
    roster = to(other, "share")
    play.parties["party-000"].advertise()
    with pytest.raises(AggregationError, match="does not verify"):
        play.parties["party-000"].share(roster)


def test_changed_vectors_and_strangers_are_refused():
    play = Play(rows(4))
    heard = to(play, "mask")
    answers = [party.mask(heard[name]) for name, party in play.parties.items()]
    changed = Message(answers[0].kind, answers[0].sender, "00" * 24, answers[0].signature)
    with pytest.raises(AggregationError, match="does not verify"):
        play.aggregator.survivors([changed, *answers[1:]])
    stranger = Message("mask", "somebody", "00" * 24, answers[0].signature)
    with pytest.raises(AggregationError, match="no party of this step"):
        play.aggregator.survivors([stranger, *answers[1:]])
    with pytest.raises(AggregationError, match="twice"):
        play.aggregator.survivors([answers[1], answers[1], *answers[2:]])


def test_a_vector_of_another_length_is_refused():
    play = Play(rows(3))
    heard = to(play, "mask")
    answers = [party.mask(heard[name]) for name, party in play.parties.items()]
    short = Message.signed("mask", "party-000", "00" * 16, session=play.session.digest, key=play.keys["party-000"][0])
    with pytest.raises(AggregationError, match="2 counters"):
        play.aggregator.survivors([short, *answers[1:]])


def test_false_pieces_give_no_sum():
    play = Play(rows(5), dropouts=1, colluding=1)
    heard = to(play, "reveal")
    answers = [party.reveal(heard) for party in play.parties.values()]
    body = json.loads(json.dumps(answers[0].body))
    body["seeds"]["party-003"] = f"{PRIME - 5:x}"
    false = Message.signed("reveal", "party-000", body, session=play.session.digest, key=play.keys["party-000"][0])
    with pytest.raises(AggregationError, match="do not belong together"):
        play.aggregator.unmask([false, *answers[1:]])


def test_pieces_below_the_threshold_rebuild_nothing():
    secret = bytes(range(32))
    pieces = split(secret, holders=range(1, 8), threshold=4)
    for chosen in itertools.combinations(pieces, 4):
        assert rebuild({x: pieces[x] for x in chosen}) == secret
    assert all(rebuild({x: pieces[x] for x in chosen}) != secret for chosen in itertools.combinations(pieces, 3))


@pytest.mark.parametrize("change", [
    {"dropouts": 3}, {"colluding": 5}, {"dropouts": 2, "colluding": 2}, {"epsilon": 0}, {"delta": 2}, {"name": ""},
    {"length": 0}, {"sensitivity": 0}, {"bound": 0}, {"aggregator": b"short"}, {"parties": {"one": bytes(32)}},
    {"delta": "1e-6", "sensitivity": 2, "length": 3}, {"epsilon": 10**6}, {"aggregator": bytes(32)},
    {"parties": {"the aggregator": b"x" * 32, "p": b"y" * 32}}, {"parties": {"a\0b": b"x" * 32, "p": b"y" * 32}},
    {"parties": {"": b"x" * 32, "p": b"y" * 32}}, {"parties": {"a" * 65: b"x" * 32, "p": b"y" * 32}},
    {"parties": {"\ud800": b"x" * 32, "p": b"y" * 32}}, {"parties": {5: b"x" * 32, 6: b"y" * 32}},
])  # fmt: skip
def test_sessions_that_cannot_be(change):
    good = {
        "name": "s", "parties": {f"p{i}": bytes([i]) * 32 for i in range(6)}, "aggregator": b"a" * 32, "epsilon": 1,
    }  # fmt: skip
    with pytest.raises(InvalidValueError):
        Session(**(good | change))


def test_sessions_read_back_and_refuse_nonsense():
    session = Play(rows(4), delta="1e-6", epsilon=1).session
    assert Session.from_json(session.to_json()) == session
    assert Session.from_json(session.to_json()).digest == session.digest
    for text in ("", "[]", "{}", "null", '{"version": 2}', session.to_json().replace('"version":1', '"version":9')):
        with pytest.raises(InvalidValueError):
            Session.from_json(text)


def test_parties_of_nonsense():
    play = Play(rows(3))
    session, key = play.session, play.keys["party-000"][0]
    for values in ([1, 2], ["a", 1, 2], [1.5, 2, 3], [None, 1, 2]):
        with pytest.raises(InvalidValueError):
            Party(session, name="party-000", key=key, values=values)
    with pytest.raises(InvalidValueError):
        Party(session, name="nobody", key=key, values=[1, 2, 3])
    for other in (new_key()[0], play.keys["party-001"][0], b"short", "text"):
        with pytest.raises(InvalidValueError, match="key"):
            Party(session, name="party-000", key=other, values=[1, 2, 3])
        with pytest.raises(InvalidValueError, match="key"):
            Aggregator(session, key=other)


def test_garbage_is_no_message():
    for data in (b"", b"{}", b"[1]", b'{"kind": 1}', b"\xff", b'{"kind":"a","sender":"b","body":1,"signature":"zz"}'):
        with pytest.raises(AggregationError, match="malformed"):
            Message.from_bytes(data)
