"""The dump's queue and nodes have the content of kube-scheduler's recorded states, field by field, in camelCase."""

import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from schedcache.dump import pieces
from schedcache.queue import QueueError
from schedcache.server.dump_states import Moment, node_state, queue_state
from tests.cache import test_vectors as cache_vectors
from tests.dump.support import example
from tests.queue import test_vectors as queue_vectors

TAKEN_AT = datetime(2026, 8, 1, tzinfo=UTC)
# Their keys are names that people gave.
MAPS = ("pods", "nominated", "scalar", "imageStates", "pvcRefCounts")


def camel(key: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), key)


def in_camel_case(recorded: Any, *, names: bool = False) -> Any:
    if isinstance(recorded, list):
        return [in_camel_case(item) for item in recorded]
    if not isinstance(recorded, dict):
        return recorded
    keys = {key: key if names else camel(key) for key in recorded}
    return {new: in_camel_case(recorded[key], names=new in MAPS and not names) for key, new in keys.items()}


def dated(state: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """A recorded state of the queue, with dates in the place of milliseconds."""
    for history in state["pods"].values():
        for field in [field for field in history if field.endswith("Ms")]:
            ms = history.pop(field)
            time = None if ms is None else TAKEN_AT + timedelta(milliseconds=ms - now_ms)
            history[field.removesuffix("Ms")] = msgspec.to_builtins(time)
    return state


def test_the_queue():
    compared = 0
    for case in queue_vectors.cases():
        replay = queue_vectors.Replay(case["config"])
        for step in case["steps"]:
            with contextlib.suppress(QueueError):
                replay.do(step)
            if "state" not in step["want"]:
                continue
            moment = Moment(step["at_ms"] / 1000, TAKEN_AT.timestamp())
            shown = queue_state(replay.queue.dump(), moment)
            whole = msgspec.structs.replace(example(), queue=shown)
            written = msgspec.json.decode(b"".join(pieces(whole)))["queue"]
            assert written == dated(in_camel_case(step["want"]["state"]), step["at_ms"]), case["name"]
            compared += 1
    assert compared > 1000


def test_the_nodes():
    compared = 0
    for case in cache_vectors.CASES:
        replay = cache_vectors.Replay(case)
        assert next(replay.differences(), None) is None
        for info in replay.cache.dump().nodes.values():
            written = msgspec.json.decode(msgspec.json.encode(node_state(info)))
            assert written == in_camel_case(cache_vectors.node_view(info)), case["name"]
            compared += 1
    assert compared > 1000
