"""The JSON Schema of dumps: made from the structs, and kept beside them as a file for those who do not use Python."""

from importlib.resources import files
from typing import Any

import msgspec

from schedcache.dump.document import API_VERSION, KIND, SELECTABLE_FIELDS, Dump, InFlightEntry

FILE = "dump.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema that is shipped, JSON Schema 2020-12. It allows fields that it does not know, as readers should."""
    schema: dict[str, Any] = msgspec.json.decode(files("schedcache.dump").joinpath(FILE).read_bytes())
    return schema


def made_schema() -> dict[str, Any]:
    """The schema as the structs have it now; `hack/dump_schema.py` writes it into the file."""
    schema = msgspec.json.schema(Dump)
    parts = schema["$defs"]
    for part in parts.values():
        for name, described in part["properties"].items():
            # Fields with a default are left out, and never null.
            if name not in part["required"] and "anyOf" in described:
                part["properties"][name] = described["anyOf"][0]
            part["properties"][name].pop("default", None)
    document = parts["Dump"]["properties"]
    document["apiVersion"]["const"], document["kind"]["const"] = API_VERSION, KIND
    parts["DumpFilter"]["properties"]["fields"]["items"]["examples"] = list(SELECTABLE_FIELDS)
    parts[InFlightEntry.__name__]["oneOf"] = [{"required": [name]} for name in ("pod", "event")]
    return {"$schema": _DIALECT, "title": f"{API_VERSION} {KIND}", **schema}
