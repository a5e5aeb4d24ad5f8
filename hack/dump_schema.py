"""Writes the JSON Schema of dumps, as the structs of `schedcache.dump` have it: `make docs` calls it."""

import json
import pathlib

from schedcache.dump.schema import FILE, made_schema

path = pathlib.Path(__file__).resolve().parent.parent / "schedcache" / "dump" / FILE
path.write_text(json.dumps(made_schema(), indent=2) + "\n", encoding="utf-8")
print(f"{path.name} is written")
