"""Reading objects, for the tests of the model."""

import json


def both(kind, obj):
    """The object read from Python values and from JSON must be one and the same."""
    from_dict, from_json = kind.from_dict(obj), kind.from_json(json.dumps(obj).encode())
    fields = kind.__struct_fields__
    assert [getattr(from_dict, f) for f in fields] == [getattr(from_json, f) for f in fields]
    return from_dict
