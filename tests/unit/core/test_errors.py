"""The error tree and the neighbours: messages come out whatever the value."""

import importlib
import pickle
import pkgutil
from fractions import Fraction

import numpy as np
import pytest

import hush
from hush.core import HushError, InvalidValueError, Neighbours, OffGridError, PrecisionError, Unit
from hush.core.errors import shown


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "value",
    [10**5000, Fraction(1, 10**5000), "x" * 10**6, Unprintable(), "a\nb", [1] * 10**5],
    ids=lambda value: type(value).__name__,
)
def test_any_value_can_be_shown(value):
    text = shown(value)
    assert len(text) <= 80
    assert "\n" not in text


def test_the_tree():
    assert issubclass(InvalidValueError, HushError)
    assert issubclass(InvalidValueError, ValueError)
    assert issubclass(OffGridError, InvalidValueError)
    assert issubclass(PrecisionError, HushError)
    assert len({HushError.code, InvalidValueError.code, OffGridError.code, PrecisionError.code}) == 4


def test_errors_cross_processes():
    error = OffGridError("price", got=3, allowed="even", hint="Try 2.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is OffGridError
    assert (str(copy), copy.got, copy.hint) == (str(error), 3, "Try 2.")


def test_neighbours():
    assert Neighbours.parse("add-remove").units_touched == 1
    assert Neighbours.parse(Neighbours.REPLACE) is Neighbours.parse("replace")
    for nonsense in ("swap", None, 1, np.array([1, 2]), ["replace"]):
        with pytest.raises(InvalidValueError, match="'neighbours' parameter must be 'add-remove' or 'replace'"):
            Neighbours.parse(nonsense)


def test_units():
    assert Unit.of("id").column == "id"
    assert Unit.row().column is None
    for nonsense in ("", "  ", 3, b"id"):
        with pytest.raises(InvalidValueError, match="'column'"):
            Unit.of(nonsense)


@pytest.mark.parametrize("package", [hush, hush.noise])
def test_public_names_exist_once_and_sorted(package):
    names = package.__all__
    assert len(set(names)) == len(names)
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    for name in names:
        assert hasattr(package, name)


CODES = """
account-exists aggregation allowance-exceeded approval-needed audit bad-request budget-exceeded busy
cancelled closed engine forbidden forked internal invalid-value ledger ledger-busy ledger-damaged
ledger-full ledger-missing ledger-rolled-back ledger-unavailable made-up measurements missing-charts
needs-delta no-description no-policy not-allowed not-fitted notebook off-grid people policy policy-edit
precision question remote request-conflict request-unanswered second-owner service sign-in source storage
stream too-many too-many-requests too-much-work unbounded unknown unknown-account unknown-event
unknown-receipt unknown-stream unplannable unpriced-search
"""
"""Programs depend on them: a class that gets another name keeps its code."""


def test_codes_are_those_that_were_published():
    for module in pkgutil.walk_packages(hush.__path__, "hush."):
        importlib.import_module(module.name)
    classes = [HushError]
    for kind in classes:
        classes += kind.__subclasses__()
    assert {kind.code for kind in classes[1:] if kind.__module__.startswith("hush.")} == set(CODES.split())
