"""What is no dump is refused, with the field and what was expected there, and never with anything but DumpError."""

import contextlib
import copy
import json
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from schedcache.dump import Dump, DumpError, load_dump
from tests.dump.support import EXAMPLE

DOCUMENT = json.loads(EXAMPLE)
OPTIONAL = ("stories", "queue.pods[u2].backoffUntil")
MAPS = (
    "resourceVersions",
    "queue.nominated",
    "queue.pods",
    "nodes",
    "pods",
    ".scalar",
    ".imageStates",
    ".pvcRefCounts",
)


def refusal(text: bytes | str, source: str = "dump") -> DumpError:
    with pytest.raises(DumpError) as raised:
        load_dump(text, source)
    return raised.value


def changed(**fields: Any) -> str:
    return json.dumps({**DOCUMENT, **fields})


def places(value: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every field and member below a value: as DumpError names it, what it is in, and under which key."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in members:
        in_brackets = isinstance(value, list) or at.endswith(MAPS)
        path = f"{at}[{key}]" if in_brackets else f"{at}.{key}".removeprefix(".")
        yield path, value, key
        yield from places(item, path)


PATHS = [path for path, _, _ in places(DOCUMENT) if path not in ("kind", "apiVersion")]


def spoiled(path: str, *put: Any) -> str:
    """The example with another value at the path, or without any."""
    document = copy.deepcopy(DOCUMENT)
    container, key = next((container, key) for found, container, key in places(document) if found == path)
    del container[key]
    if isinstance(container, list):
        container[key:key] = put
    elif put:
        container[key] = put[0]
    return json.dumps(document)


REQUIRED = [path for path in PATHS if not path.endswith("]") and path not in OPTIONAL and "inFlightEvents[" not in path]


@pytest.mark.parametrize("path", REQUIRED)
def test_a_missing_field_is_named(path):
    error = refusal(spoiled(path))
    assert (error.field, error.problem) == (path, "expected a value, but it is missing")


@pytest.mark.parametrize("path", PATHS)
def test_a_value_of_another_type_is_named(path):
    error = refusal(spoiled(path, 1.5))
    assert error.field == path
    assert error.problem.startswith("expected ")
    assert error.problem.endswith("got `float`")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [({}, "expected either `pod` or `event`"), ({"pod": "u", "event": "NodeAdd"}, "expected either `pod` or `event`")],
)
def test_an_entry_in_flight_is_a_pod_or_an_event(entry, problem):
    error = refusal(spoiled("queue.inFlightEvents[1]", entry))
    assert (error.field, error.problem) == ("queue.inFlightEvents[1]", problem)


@pytest.mark.parametrize("time", ["2026-08-01T12:30:15", "2026-08-01", "1000.5", "", "0000-00-00T00:00:00Z"])
def test_a_time_has_a_date_and_a_zone(time):
    error = refusal(changed(takenAt=time))
    assert error.field == "takenAt"
    assert "datetime" in error.problem or "RFC3339" in error.problem


def test_the_member_of_a_map_that_is_at_fault_is_named_among_many():
    nodes = {f"n{i}": DOCUMENT["nodes"]["n1"] for i in range(50)}
    nodes["n30"] = {**nodes["n30"], "requested": {**nodes["n30"]["requested"], "scalar": {"a": 1, "b.c/d": "2"}}}
    error = refusal(changed(nodes=nodes), "cluster.json")
    assert str(error) == "cluster.json: nodes[n30].requested.scalar[b.c/d]: expected `int`, got `str`"


@pytest.mark.parametrize(
    ("document", "field", "problem"),
    [
        ({"kind": "PodList", "apiVersion": "v1", "items": []}, "kind", "expected 'Dump', got 'PodList'"),
        ({"apiVersion": "schedcache/v1", "nodes": 5}, "kind", "expected 'Dump', but it is missing"),
        ({"kind": ["Dump"]}, "kind", "expected 'Dump', got ['Dump']"),
        ({"kind": "Dump", "nodes": 5}, "apiVersion", "expected 'schedcache/v1', but it is missing"),
        ({"kind": "Dump", "apiVersion": "v1"}, "apiVersion", "expected 'schedcache/v1', got 'v1'"),
        (
            {"kind": "Dump", "apiVersion": "schedcache/v0"},
            "apiVersion",
            "expected 'schedcache/v1', got 'schedcache/v0'",
        ),
        (
            {"kind": "Dump", "apiVersion": "schedcache/v2", "nodes": 5},
            "apiVersion",
            "expected 'schedcache/v1', got 'schedcache/v2', which needs a newer schedcache",
        ),
        ([], "", "expected `object`, got `array`"),
        (None, "", "expected `object`, got `null`"),
    ],
)
def test_kind_and_version_are_looked_at_first(document, field, problem):
    error = refusal(json.dumps(document))
    assert (error.field, error.problem) == (field, problem)


def test_a_huge_version_is_not_printed_in_full():
    error = refusal(changed(apiVersion="schedcache/v" + "9" * 10_000))
    assert "newer" in error.problem
    assert len(error.problem) < 200


def test_a_truncated_dump_is_refused_wherever_it_ends():
    for end in range(len(EXAMPLE)):
        error = refusal(EXAMPLE[:end])
        assert error.field == ""
        assert error.problem.startswith("expected the JSON of a dump, but it is cut short")


@pytest.mark.parametrize(
    "text", [b"\xff\xfe", "\ud800", b'{"kind": "\xff"}', EXAMPLE.replace(b'"web"', b'"w\xffb"'), b"apiVersion: v1"]
)
def test_what_is_no_json_is_refused(text):
    assert refusal(text).problem.startswith("expected the JSON of a dump")


def test_deep_nesting_is_refused():
    assert "nested" in refusal(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}").problem


@hypothesis.given(st.data())
def test_nothing_else_is_ever_raised(data):
    at = data.draw(st.integers(0, len(EXAMPLE) - 1))
    until = data.draw(st.integers(at, min(at + 20, len(EXAMPLE))))
    put = data.draw(
        st.binary(max_size=4)
        | st.sampled_from([b"null", b'"', b"}", b"-1", b"1e400", b'"9999-12-31T23:59:59.9999999Z"'])
    )
    with contextlib.suppress(DumpError):
        assert isinstance(load_dump(EXAMPLE[:at] + put + EXAMPLE[until:]), Dump)


@pytest.mark.parametrize("again", ['"nodes": {}', '"nodes": 5', '"queue": 5, "queue": {"pods": {"x": 5}, "pods": 5}'])
def test_a_name_given_twice_is_refused_as_well(again):
    text = changed(nodes={"n1": 5})[:-1] + f", {again}}}"
    assert refusal(text).problem.startswith(("expected `object`", "expected a value"))
