"""docs/dump.md against the structs, and what the pages ask of a dump with jq."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest

from schedcache.cache.stories import CAPACITY
from schedcache.dump import API_VERSION, KIND, STATES
from schedcache.dump.document import Time
from tests.dump.support import EXAMPLE, structs

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "dump.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def documented(section: str) -> list[tuple[str, str, bool]]:
    """Field, type and whether it is optional, as the section's table has them."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.*?) ?\|$", SECTIONS[section], re.MULTILINE)
    return [(field, type_, "*optional*" in meaning) for field, type_, meaning in rows]


def described(type_: Any) -> str:
    """A field's type in the page's words."""
    plain = {str: "text", int: "number", bool: "true or false", Time: "time", type(None): "null"}
    if type_ in plain:
        return plain[type_]
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return " or ".join(map(described, arguments))
    if origin is Mapping:
        return f"object of {described(arguments[1])}"
    if origin is tuple and arguments[1:] == (...,):
        return f"list of {described(arguments[0])}"
    if origin is tuple:
        return f"[{', '.join(map(described, arguments))}]"
    return f"`{type_.__name__}`"


def test_every_struct_has_its_section_and_no_other_has():
    assert sorted(SECTIONS) == sorted(struct.__name__ for struct in structs())


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: struct.__name__)
def test_every_field_is_documented_with_its_type_and_none_more(struct):
    fields = []
    for field in msgspec.structs.fields(struct):
        # What may be left out is never written as null.
        type_ = described(field.type) if field.required else described(field.type).removesuffix(" or null")
        fields.append((field.encode_name, type_, not field.required))
    assert documented(struct.__name__) == fields


def test_the_states_of_a_pod():
    table = SECTIONS["PodState"].partition("| state | meaning |")[2]
    assert tuple(re.findall(r"^\| `([\w ]+)` \|", table, re.MULTILINE)) == STATES


def test_version_kind_and_figures():
    assert f"| `apiVersion` | text | `{API_VERSION}` |" in PAGE
    assert f"| `kind` | text | `{KIND}` |" in PAGE
    assert f"the last {CAPACITY:,} transitions" in PAGE


def test_its_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump.json").write_bytes(EXAMPLE)
    found: dict[str, Any] = {}
    for program in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(program, found)
    assert found["free"] == {"n1": 3500}
    assert found["long_waiting"] == []


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_jq_asks_for_fields_that_there_are(page):
    names = {field.encode_name for struct in structs() for field in msgspec.structs.fields(struct)}
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if re.search(r"\bjq\b", line) and "dump" in line:
            program = re.sub(r"^.*\bjq\b", "", line).replace("dump.json", "")
            asked = re.findall(r"\.([a-zA-Z_]\w*)|[{,] ?(\w+)(?=[,}])", program)
            assert asked, line
            assert {name for pair in asked for name in pair if name} <= names, line
