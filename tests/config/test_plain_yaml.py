"""YAML as Kubernetes' own library reads it, each document with the lines of its fields."""

import pytest

from schedcache.config.plain_yaml import PlainYAMLError, documents
from schedcache.config.problems import Lines, Problem


def value(text):
    [document] = documents(f"a: {text}")
    return document.value["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, True) for text in ("true", "True", "yes", "Yes", "on", "ON")],
        *[(text, False) for text in ("false", "FALSE", "no", "No", "off")],
        *[(text, None) for text in ("", "~", "null", "Null", "NULL")],
        *[("010", 8), ("0o10", 8), ("0x10", 16), ("0b11", 3), ("08", 8), ("+4", 4), ("-1", -1), ("1_000", 1000)],
        *[("1e1", 10), ("4.0", 4), ("1.5", 1.5), (".5", 0.5), ("1.", 1), ("1e30", 1e30), ("12345e7", 123450000000)],
        (".inf", float("inf")),
        (str(2**70), 2**70),
    ],
)
def test_scalars_that_are_no_texts(text, expected):
    assert value(text) == expected
    assert type(value(text)) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "y",
        "n",
        "yess",
        "nullx",
        "1:30",
        "2020-01-01",
        "1.2.3",
        "10.0.0.1",
        "500m",
        "1Gi",
        "0x",
        "1e",
        "1e400",
        "-x",
        "+",
        ".",
        "e5",
    ],
)
def test_other_scalars_are_texts(text):
    assert value(text) == text


def test_documents_come_with_their_lines():
    first, empty, last = documents("a: 1\n---\n---\nb:\n- c: 2\n")
    assert (first.value, empty.value, last.value) == ({"a": 1}, None, {"b": [{"c": 2}]})
    assert Lines("f", last.root).describe(Problem(("b", 0, "c"), "wrong")) == "f:5: b[0].c: wrong"


def test_a_field_that_is_merged_in_and_given_anew_is_where_it_was_given():
    [document] = documents("one: &one\n  a: 1\n  b: 1\ntwo:\n  <<: *one\n  a: 2\n")
    lines = Lines("f", document.root)
    assert [lines.of(("two", field)) for field in ("a", "b")] == [6, 3]


def test_json_may_be_indented_with_tabs():
    [document] = documents('\t{"a":\n\t\t"b\\tc"}')
    assert document.value == {"a": "b\tc"}
    with pytest.raises(PlainYAMLError, match="line 3: found character"):
        list(documents("{a: b,\n\tc: d}\n\t- e"))
