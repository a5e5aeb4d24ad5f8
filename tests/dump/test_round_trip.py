"""What is written is read back as it was, by this version and by the next."""

import json
from datetime import timedelta
from typing import Any

import hypothesis
import msgspec

from schedcache.dump import load_dump, pieces
from tests.dump.support import EXAMPLE, dumps, example, structs


@hypothesis.given(dumps())
def test_every_dump_is_read_back_as_it_was(dump):
    assert load_dump(b"".join(pieces(dump))) == dump


@hypothesis.given(dumps())
def test_pieces_are_the_json_of_the_whole(dump):
    assert json.loads(b"".join(pieces(dump))) == json.loads(msgspec.json.encode(dump))


def test_the_example_is_written_as_it_reads():
    assert json.loads(b"".join(pieces(example()))) == json.loads(EXAMPLE)


def test_a_text_will_do_too():
    assert load_dump(EXAMPLE.decode()) == example()


def with_more_fields(value: Any, names: frozenset[str]) -> Any:
    """A later version's dump: each struct (its fields are camelCase names, a map's keys here are not) has one more."""
    if isinstance(value, list):
        return [with_more_fields(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    more = {key: with_more_fields(item, names) for key, item in value.items()}
    return more | {"addedLater": [{"x": None}]} if value and value.keys() <= names else more


def test_fields_of_a_later_version_are_ignored():
    names = frozenset(field.encode_name for struct in structs() for field in msgspec.structs.fields(struct))
    later = with_more_fields(json.loads(EXAMPLE), names)
    assert json.dumps(later).count("addedLater") == 12
    assert load_dump(json.dumps(later)) == example()


def test_times_can_be_reckoned_with():
    dump = example()
    assert dump.queue.pods["u2"].backoff_until - dump.taken_at == timedelta(milliseconds=750)
    assert dump.taken_at.utcoffset() == timedelta(0)
