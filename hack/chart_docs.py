"""Writes the chart's README.md and values.schema.json, both from the commented values.yaml.

In values.yaml, a comment that begins with `# --` describes the key below it, and `# ---- ` begins a section. `@schema {...}` at the
comment's end adds to the JSON Schema of the key what its default does not say. A mapping with described keys is closed: no other key is
allowed in it.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CHART = Path(__file__).resolve().parent.parent / "charts" / "schedcache"
TYPES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class Value(NamedTuple):
    """A described key of values.yaml."""

    path: tuple[str, ...]
    section: str
    text: str
    schema: dict[str, Any]
    default: Any


class ValuesError(ValueError):
    """values.yaml has a key that nothing describes, or a description of no key."""


def read(text: str) -> list[Value]:
    """The described keys in their order.

    Raises:
        ValuesError: a key without a description that is not above described ones; the message names it.
    """
    defaults = yaml.safe_load(text)
    found: list[Value] = []
    section = ""
    comment: list[str] = []
    open_keys: list[tuple[int, str]] = []
    inside: int | None = None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if heading := re.match(r"# ---- (.+)$", line):
            section, comment = heading[1], []
        elif line.lstrip().startswith("#"):
            comment.append(line.lstrip()[1:].strip())
        elif key := re.match(r" *([A-Za-z]\w*):", line):
            if inside is not None and indent > inside:
                continue
            inside = None
            open_keys = [*((depth, name) for depth, name in open_keys if depth < indent), (indent, key[1])]
            path = tuple(name for _, name in open_keys)
            if any(part.startswith("--") for part in comment):
                default = defaults
                for name in path:
                    default = default[name]
                found.append(_value(path, section, comment, default))
                inside = indent
            comment = []
        elif not line.strip():
            comment = []
    missing = [".".join(path) for path in _leaves(defaults, {value.path for value in found})]
    if missing:
        raise ValuesError(f"values.yaml: nothing describes {', '.join(missing)}")
    return found


def _value(path: tuple[str, ...], section: str, comment: list[str], default: object) -> Value:
    _, _, described = " ".join(comment).partition("-- ")
    text, _, schema = described.partition(" @schema ")
    return Value(path, section, text.strip(), json.loads(schema or "{}"), default)


def _leaves(value: object, described: set[tuple[str, ...]], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths that neither are described nor lie in something that is."""
    if path in described:
        return
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, described, (*path, key))
    else:
        yield path


def schema(values: list[Value]) -> str:
    """values.schema.json."""
    root = _closed()
    # Helm gives a chart that others depend on whatever they keep there.
    root["properties"]["global"] = {"type": "object"}
    for value in values:
        at = root
        for name in value.path[:-1]:
            at = at["properties"].setdefault(name, _closed())
        at["properties"][value.path[-1]] = _schema_of(value)
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **root}, indent=2) + "\n"


def _closed() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _schema_of(value: Value) -> dict[str, Any]:
    if value.default is None and "type" not in value.schema:
        raise ValuesError(f"values.yaml: {'.'.join(value.path)} is null, so its @schema has to have a type")
    kind = {} if value.default is None else {"type": TYPES[type(value.default)]}
    if kind.get("type") == "number" and isinstance(value.default, int):
        kind = {"type": "integer"}
    return {"description": value.text, **kind, **value.schema}


def readme(values: list[Value], template: str) -> str:
    """README.md: the template with a table for each section in place of `@VALUES@`."""
    tables = []
    for section in dict.fromkeys(value.section for value in values):
        rows = [_row(value) for value in values if value.section == section]
        tables.append("\n".join([f"### {section}", "", "| value | default | |", "|---|---|---|", *rows]))
    return template.replace("@VALUES@", "\n\n".join(tables))


def _row(value: Value) -> str:
    default = value.default
    shown = f"`{json.dumps(default)}`" if default is not None else "`null`"
    cells = (f"`{'.'.join(value.path)}`", shown, value.text)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def generated() -> dict[Path, str]:
    """What the files should have in them."""
    values = read((CHART / "values.yaml").read_text())
    return {
        CHART / "values.schema.json": schema(values),
        CHART / "README.md": readme(values, (CHART / "README.md.tmpl").read_text()),
    }


if __name__ == "__main__":
    for path, content in generated().items():
        path.write_text(content)
        sys.stdout.write(f"wrote {path.relative_to(CHART.parent.parent)}\n")
