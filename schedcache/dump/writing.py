"""A dump as JSON, in pieces that are small enough for other work to run in between."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from schedcache.dump.document import Dump, QueueState

_PIECE = 100
"""Members of a map in one piece: a millisecond or two."""


def pieces(dump: Dump) -> Iterator[bytes]:
    """Pieces of JSON that together are the dump.

    Members of its maps are fetched as they are written, so the maps need not hold them: see `schedcache.server.dump`.
    """
    yield from _struct_pieces(dump)


def _struct_pieces(part: Dump | QueueState) -> Iterator[bytes]:
    text = b"{"
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if value is field.default:
            continue
        text += msgspec.json.encode(field.encode_name) + b":"
        if isinstance(value, Mapping | QueueState):
            yield text
            yield from _struct_pieces(value) if isinstance(value, QueueState) else _map_pieces(value)
            text = b""
        else:
            text += msgspec.json.encode(value)
        text += b","
    yield text[:-1] + b"}"


def _map_pieces(members: Mapping[str, Any]) -> Iterator[bytes]:
    left = iter(members.items())
    opening = b"{"
    while some := dict(islice(left, _PIECE)):
        yield opening + msgspec.json.encode(some)[1:-1]
        opening = b","
    yield b"}" if opening == b"," else b"{}"
