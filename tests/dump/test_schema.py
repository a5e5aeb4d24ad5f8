"""The JSON Schema: what the structs say, true of every dump, and false of what is none."""

import json

import jsonschema
import pytest
from hypothesis import given

from schedcache.dump import json_schema, pieces
from schedcache.dump.schema import made_schema
from tests.dump.support import EXAMPLE, dumps

VALIDATOR = jsonschema.Draft202012Validator(json_schema(), format_checker=jsonschema.FormatChecker())


def problems(document):
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in VALIDATOR.iter_errors(document)]


def test_the_file_is_what_make_docs_writes():
    assert json_schema() == made_schema()
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_example_is_valid():
    assert problems(json.loads(EXAMPLE)) == []


@given(dumps())
def test_every_dump_is_valid(dump):
    assert problems(json.loads(b"".join(pieces(dump)))) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda dump: dump.pop("queue"), "'queue' is a required property"),
        (lambda dump: dump.update(kind="PodList"), "kind: 'Dump' was expected"),
        (lambda dump: dump.update(apiVersion="schedcache/v2"), "apiVersion: 'schedcache/v1' was expected"),
        (lambda dump: dump["nodes"]["n1"]["requested"].update(milliCpu="500m"), "nodes.n1.requested.milliCpu"),
        (lambda dump: dump["queue"]["inFlightEvents"].append({}), "queue.inFlightEvents.2"),
        (lambda dump: dump.update(stories=None), "stories: None is not of type 'array'"),
        (lambda dump: dump.update(filter={"fields": [1]}), "filter.fields.0"),
    ],
)
def test_what_is_no_dump_is_not(change, says):
    dump = json.loads(EXAMPLE)
    change(dump)
    assert any(says in problem for problem in problems(dump)), problems(dump)


def test_later_fields_are_allowed():
    dump = json.loads(EXAMPLE)
    dump["more"] = dump["pods"]["u1"]["more"] = 1
    assert problems(dump) == []
