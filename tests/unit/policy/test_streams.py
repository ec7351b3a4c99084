"""Declared streams in a policy: what is right is read exactly, and a mistake is told with its line."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hush.core import HushError
from hush.policy.document import PolicyError
from hush.policy.file import Policy

HEAD = """
[data.clinic]
budget = { epsilon = "4", delta = "1e-7" }
tables.visits = { source = "visits.parquet", columns.age = { type = "integer", lower = 0, upper = 120 } }
[analysts.alice]
data = ["clinic"]
[streams.weekly]
"""
RIGHT = {
    "sql": '"SELECT COUNT(*) AS n FROM visits"',
    "epsilon": '"0.1"',
    "every": '"14 days"',
    "first": "2026-11-16T06:00:00+01:00",
    "releases": "12",
    "late": '"skip"',
    "readers": '["alice"]',
    "confidence": "0.9",
}


def text(**words: str | None) -> str:
    lines = {key: word for key, word in {**RIGHT, **words}.items() if word is not None}
    return HEAD + "\n".join(f"{key} = {word}" for key, word in lines.items())


def test_a_declared_stream_is_read_exactly() -> None:
    asked = Policy.parse(text()).streams["weekly"]
    assert (asked.data, asked.question) == ("clinic", "SELECT COUNT(*) AS n FROM visits")
    assert (asked.epsilon, asked.confidence) == (Fraction(1, 10), Fraction(9, 10))
    assert asked.schedule.slot(1) == "2026-11-30T05:00:00.000000Z"
    assert (asked.late, asked.readers) == (False, ("alice",))
    plain = Policy.parse(text(late=None, readers=None, epsilon=None, total_epsilon="1")).streams["weekly"]
    assert (plain.late, plain.readers, plain.total_epsilon) == (True, "analysts", 1)
    assert Policy.parse(text(readers='"public"', epsilon=None, rho='"1/1000"')).streams["weekly"].rho == Fraction(
        1, 1000
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"sql": None}, "hush.toml:7: streams.weekly needs sql."),
        ({"sql": '" "'}, "streams.weekly.sql must be a text of 1 to"),
        ({"epsilon": None}, "streams.weekly.epsilon must be given, or one of total_epsilon, rho instead"),
        ({"epsilon": '"-1"'}, "hush.toml:9: streams.weekly.epsilon must be"),
        ({"rho": "1"}, "streams.weekly.epsilon must be given, or one of total_epsilon, rho instead"),
        ({"every": '"hour"'}, "hush.toml:10: streams.weekly.every must be day, week, month or year"),
        ({"first": '"tomorrow"'}, "streams.weekly.first must be a date such as 2026-11-16"),
        ({"first": "2026-11-16T06:00:00"}, "streams.weekly.first must be a date such as 2026-11-16"),
        ({"releases": "0"}, "hush.toml:12: streams.weekly.releases must be"),
        ({"late": '"never"'}, 'streams.weekly.late must be "make" or "skip"'),
        ({"readers": '["bob"]'}, "streams.weekly.readers must be analysts of clinic, or public; got ['bob']"),
        ({"readers": '["alice", "alise"]'}, "hush.toml:14: streams.weekly.readers must be"),
        ({"readers": '["alice", "alise"]'}, "'alise' is no analyst of clinic. Did you mean 'alice'?"),
        ({"readers": '[["alice"]]'}, "hush.toml:14: streams.weekly.readers must be a list of names"),
        ({"readers": "[{ a = 1 }]"}, "hush.toml:14: streams.weekly.readers must be a list of names"),
        ({"readers": '"everyone"'}, "streams.weekly.readers must be a list of names, analysts or public"),
        ({"readers": "[]"}, "streams.weekly.readers must be a list of names, analysts or public"),
        ({"confidence": "2"}, "streams.weekly.confidence must be"),
        ({"data": '"clinics"'}, "streams.weekly.data must be one of clinic; got 'clinics'. Did you mean 'clinic'?"),
        ({"releases": None, "realeases": "3"}, "unknown key 'realeases' in streams.weekly. Did you mean 'releases'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(words: dict[str, str | None], said: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.parse(text(**words))
    assert said in str(error.value)


def test_a_name_is_part_of_an_address() -> None:
    with pytest.raises(PolicyError, match="must be 1 to 64 letters, digits, - and _"):
        Policy.parse(text().replace("[streams.weekly]", '[streams."a/b"]'))


def test_all_mistakes_are_collected() -> None:
    mistakes: list[HushError] = []
    policy = Policy.parse(text(every='"hour"') + '\n[streams.other]\nsql = "SELECT 1"', mistakes=mistakes)
    assert len(mistakes) == 2
    assert policy.streams == {}


def test_the_section_of_before_means_the_same() -> None:
    assert Policy.parse(text().replace("[streams.weekly]", "[standing.weekly]")).streams == Policy.parse(text()).streams
    for other in ("weekly", "Weekly"):
        twice = text() + f"\n[standing.{other}]\n" + "\n".join(f"{key} = {word}" for key, word in RIGHT.items())
        with pytest.raises(PolicyError, match="two streams are called"):
            Policy.parse(twice)
