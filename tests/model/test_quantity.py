"""Quantities: every form that Kubernetes reads, exactly, and no guess at others."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedcache.model import MalformedObjectError, QuantityError, parse_quantity
from schedcache.model.quantity import MAX_UNITS, NANOS, to_milli, to_units
from schedcache.testing import make_node, make_pod

SUFFIXES = {"n": "1e-9", "u": "1e-6", "m": "1e-3", "": "1", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "P": "1e15",
            "E": "1e18", "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("129e6", 129_000_000 * NANOS),
        ("128974848000m", 128_974_848 * NANOS),
        ("123Mi", 128_974_848 * NANOS),
        ("1k", 1000 * NANOS),
        ("0.5", NANOS // 2),
        ("100m", NANOS // 10),
        ("2e3", 2000 * NANOS),
        ("2E", 2 * 10**18 * NANOS),
        ("1.5Gi", 1_610_612_736 * NANOS),
        ("1500m", 1_500_000_000),
        ("0", 0),
        (".5", NANOS // 2),
        ("5.", 5 * NANOS),
        ("+1", NANOS),
        ("-1", -NANOS),
        ("100u", 100_000),
        ("1n", 1),
        ("0.5n", 1),
        ("-0.5n", -1),
        ("1e-3", 1_000_000),
        ("1E3", 1000 * NANOS),
        ("1e+3", 1000 * NANOS),
        ("0001", NANOS),
        ("0.000000001Ki", 1024),
        ("0.0000000001Ki", 103),
        ("0e99999999", 0),
        ("1e-99999999", 1),
        ("0e-99999999", 0),
        ("9223372036854775807", MAX_UNITS * NANOS),
        ("9223372036854775808", MAX_UNITS * NANOS),
        ("1e99999999", MAX_UNITS * NANOS),
        ("-9999E", -MAX_UNITS * NANOS),
        ("8Ei", MAX_UNITS * NANOS),
        ("1Gi ", 2**30 * NANOS),
        ("  -1m", -(10**6)),
        ("\u00a02\u3000", 2 * NANOS),
    ],
)
def test_legal_forms(text, nanos):
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    "text",
    ["1K", "10 Mi", "1ki", "0x10", "1e3Ki", "1.2.3", "1e", "1e3.5", "+ 1", "1m1", "NaN", "Inf", "1,5", "--1", "1kk", "1mi", "\u0661",
     "1\n", "\t1", "m1", "e", "e-", "1e9223372036854775808", "0e-9223372036854775809"],
)  # fmt: skip
def test_illegal_forms(text):
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["", " ", "Mi", "Pi", ".", "+", "-m", "E", "E+2", "e3", ".Ki"])
def test_without_digits_it_is_none(text):
    """Kubernetes takes some of these for 0: a Pod that asks for "Mi" of memory meant something else."""
    with pytest.raises(QuantityError, match="has no digits; expected a number with an optional suffix"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "milli", "units"),
    [
        ("1500m", 1500, 2),
        ("100u", 1, 1),
        ("1", 1000, 1),
        ("0.1", 100, 1),
        ("0", 0, 0),
        ("-1500m", -1500, -2),
        ("1n", 1, 1),
    ],
)
def test_rounding_is_away_from_zero(text, milli, units):
    assert (to_milli(parse_quantity(text)), to_units(parse_quantity(text))) == (milli, units)


def recorded():
    """What ParseQuantity, Value and MilliValue of apimachinery 0.37.2 make of a text; "-": more than 64 bits hold."""
    lines = (Path(__file__).parent / "quantities.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines]


def test_what_fits_into_64_bits_has_kubernetes_value_and_milli_value():
    found = {text: (to_units(parse_quantity(text)), to_milli(parse_quantity(text))) for text, _, _ in recorded()}
    assert len(found) > 200
    for text, value, milli in recorded():
        assert found[text][0] == int(value), text
        assert milli == "-" or found[text][1] == int(milli), text


@pytest.mark.parametrize("text", ["8Ei", "10E", "1e30", "9223372036854775808", "99999999999999999999Gi"])
def test_more_than_64_bits_is_the_most_that_they_hold(text):
    """Kubernetes makes that of a binary suffix alone; of 10E and 1e30 its Value is 0, of 2**63 -2**63."""
    assert to_units(parse_quantity(text)) == MAX_UNITS
    assert to_milli(parse_quantity(text)) == MAX_UNITS * 1000


@given(st.integers(0, 10**9), st.text("0123456789", max_size=6), st.sampled_from(sorted(SUFFIXES)))
def test_agrees_with_decimal_arithmetic(whole, fraction, suffix):
    exact = Decimal(f"{whole}.{fraction or 0}") * Decimal(SUFFIXES[suffix]) * NANOS
    expected = min(int(exact.to_integral_value(rounding="ROUND_CEILING")), MAX_UNITS * NANOS)
    text = f"{whole}.{fraction}{suffix}" if fraction else f"{whole}{suffix}"
    assert parse_quantity(text) == expected
    assert parse_quantity("-" + text) == -expected


@pytest.mark.parametrize("text", ["1K", "10 Mi", "1ki", "", "0x10", "1e3Ki", "Mi", "1" * 5000, "1e" + "9" * 5000])
def test_an_illegal_amount_names_the_object_and_the_field(text):
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": text}}}
    with pytest.raises(
        MalformedObjectError, match=r"^Pod ns/p: spec\.containers\[1\]\.resources\.requests\.memory: "
    ) as error:
        make_pod("p", namespace="ns", containers=[{"name": "ok"}, container])
    assert (error.value.kind, error.value.name) == ("Pod", "ns/p")
    assert error.value.field == "spec.containers[1].resources.requests.memory"
    with pytest.raises(MalformedObjectError, match=r"^Node n: status\.allocatable\.memory: "):
        make_node("n", memory=text)


@pytest.mark.parametrize(("value", "milli"), [(2, 2000), (0.5, 500), (None, 0), ("2", 2000), (1e3, 10**6)])
def test_numbers_of_manifests_are_read_too(value, milli):
    pod = make_pod("p", requests={"cpu": value})
    assert pod.requests.resource.milli_cpu == milli
