"""Any dump at all, from the structs' own fields; and one small enough to be read."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from schedcache.dump import Dump, InFlightEntry, load_dump
from schedcache.dump.document import API_VERSION, KIND, Time

EXAMPLE = b"""{
 "apiVersion": "schedcache/v1", "kind": "Dump", "takenAt": "2026-08-01T12:30:15.250000Z", "generation": 7,
 "resourceVersions": {"Pod": "17"}, "assumed": ["u1"],
 "queue": {
  "active": [], "backoff": ["u2"], "errorBackoff": [], "unschedulable": [], "inFlight": ["u3"],
  "inFlightEvents": [{"pod": "u3"}, {"event": "NodeAdd"}], "schedulingCycle": 3, "nominated": {"n1": ["u2"]},
  "pods": {"u2": {
   "name": "default/waits", "attempts": 1, "unschedulableCount": 1, "consecutiveErrors": 0,
   "unschedulablePlugins": ["NodeResourcesFit"], "pendingPlugins": [], "gatedBy": "",
   "timestamp": "2026-08-01T12:30:14Z", "initialAttempt": "2026-08-01T12:30:13Z", "flushed": false,
   "resourceVersion": "9", "backoffUntil": "2026-08-01T12:30:16Z"}}},
 "nodes": {"n1": {
  "present": true, "pods": ["u1"], "podsWithAffinity": [], "podsWithRequiredAntiAffinity": [],
  "usedPorts": [["0.0.0.0", "TCP", 80]],
  "requested": {"milliCpu": 500, "memory": 1024, "ephemeralStorage": 0, "scalar": {"example.com/gpu": 1}},
  "nonZeroRequested": {"milliCpu": 500, "memory": 1024},
  "allocatable": {"milliCpu": 4000, "memory": 8192, "ephemeralStorage": 0, "scalar": {}, "allowedPodNumber": 110},
  "imageStates": {"web:1": {"size": 100, "numNodes": 1}}, "pvcRefCounts": {"default/data": 1}}},
 "pods": {"u1": {
  "namespace": "default", "name": "web", "node": "n1", "state": "assumed", "schedulerName": "schedcache", "priority": 0,
  "phase": "Pending", "deleting": false, "nominatedNodeName": "", "resourceVersion": "8", "bindingFinished": true,
  "assumedDeadline": "2026-08-01T12:30:45Z"}},
 "stories": [{"time": "2026-08-01T12:30:15Z", "operation": "assume_pod", "uid": "u1", "node": "n1", "generation": 7, "cause": ""}]
}"""


def structs() -> list[type[msgspec.Struct]]:
    """Dump and all that it is made of, each once, from the top."""
    found: list[Any] = [Dump]
    for struct in found:
        for field in msgspec.structs.fields(struct):
            found += [part for part in _parts(field.type) if part not in found]
    return found


def _parts(type_: Any) -> list[Any]:
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return [type_]
    return [part for argument in get_args(type_) for part in _parts(argument)]


def of_type(type_: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    # Within the years that every time zone can show.
    times = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  bounds are naive by contract
    plain = {
        str: st.text(max_size=5),
        int: st.integers(-(2**63), 2**63 - 1),
        bool: st.booleans(),
        type(None): st.none(),
        Time: times,
    }
    if type_ in plain:
        return plain[type_]
    if type_ is InFlightEntry:
        return st.builds(InFlightEntry, pod=plain[str]) | st.builds(InFlightEntry, event=plain[str])
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return st.one_of(*map(of_type, arguments))
    if origin is Mapping:
        return st.dictionaries(plain[str], of_type(arguments[1]), max_size=2)
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(of_type(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of_type, arguments))
    return st.builds(type_, **{field.name: of_type(field.type) for field in msgspec.structs.fields(type_)})


def dumps() -> st.SearchStrategy[Dump]:
    fields = {field.name: of_type(field.type) for field in msgspec.structs.fields(Dump)}
    return st.builds(Dump, **fields | {"api_version": st.just(API_VERSION), "kind": st.just(KIND)})


def example() -> Dump:
    return load_dump(EXAMPLE)
