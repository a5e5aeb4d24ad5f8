"""What a package exports is imported from the package: by the plugins in the tree, by the examples, and on the plugins' page."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import schedcache.framework
from schedcache.framework import interface

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "schedcache/plugins").rglob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]
PAGE = ROOT / "docs/plugins.md"


def door_of(module, name):
    """The package that exports the name of a module inside it, None where none does."""
    parts = module.split(".")
    for end in range(2, len(parts)):
        package = ".".join(parts[:end])
        if name in getattr(importlib.import_module(package), "__all__", ()):
            return package
    return None


def side_doors(source):
    """Names that the source takes from a module although its package exports them."""
    imports = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    found = ((node.module, alias.name) for node in imports for alias in node.names)
    return [
        f"{name} of {module}: import it from {door}"
        for module, name in found
        if module.startswith("schedcache.") and (door := door_of(module, name))
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_a_package_exports_is_imported_from_it(file):
    assert side_doors(file.read_text()) == []


def test_a_side_door_is_found():
    assert side_doors("from schedcache.framework.status import Status, _LABELS") == [
        "Status of schedcache.framework.status: import it from schedcache.framework"
    ]
    assert side_doors("from schedcache.cache.terms.term import PodTerm") == [
        "PodTerm of schedcache.cache.terms.term: import it from schedcache.cache.terms"
    ]
    assert side_doors("from schedcache.model import Pod\nfrom schedcache.model.labels import IN") == []


def test_every_extension_point_is_at_the_frameworks_door():
    points = {
        name for name, value in vars(interface).items() if getattr(value, "_is_protocol", False) and name != "Protocol"
    }
    assert "FilterPlugin" in points
    assert points <= set(schedcache.framework.__all__)


def test_the_plugins_page_uses_the_door():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) > 1
    assert [problem for block in blocks for problem in side_doors(block)] == []


def test_names_on_the_plugins_page_exist():
    """Whatever its table of the door names is there."""
    table = PAGE.read_text().split("## What to import", 1)[1].split("##", 1)[0]
    rows = re.findall(r"^\| `(schedcache[\w.]*)` \| (.*) \|$", table, re.MULTILINE)
    assert {package for package, _ in rows} >= {"schedcache.framework", "schedcache.model", "schedcache.cache"}
    for package, text in rows:
        names = re.findall(r"`(\w+)`", text)
        assert names
        assert set(names) <= set(importlib.import_module(package).__all__), package
