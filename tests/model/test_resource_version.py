"""Which of two resourceVersions is the later one, and where nobody can tell."""

import pytest

from schedcache.model import compare_resource_versions


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [
        ("10", "9", 1),
        ("9", "9", 0),
        ("18446744073709551616", "18446744073709551615", 1),
        ("340282366920938463463374607431768211456", "9", 1),
        ("a", "a", 0),
        ("a", "b", None),
        ("5", "", None),
        ("", "", 0),
        ("010", "9", None),
        ("0", "9", None),
        ("-1", "9", None),
        ("\u0661\u0660", "9", None),
        ("\u00b2", "9", None),
        ("10\n", "9", None),
    ],
)
def test_versions_are_compared_as_numbers_where_they_are_such_as_kubernetes_gives(one, other, order):
    assert compare_resource_versions(one, other) == order
    assert compare_resource_versions(other, one) == (None if order is None else -order)
