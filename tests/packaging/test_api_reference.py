"""docs/api.md is what the code says, and every public name is on it."""

import ast
import importlib
import subprocess
import sys

from tests.packaging import pages

ROOT = pages.ROOT
SCRIPT = ROOT / "hack" / "api_reference.py"


def script():
    """The names that the script defines at its top."""
    found = {}
    for node in ast.parse(SCRIPT.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("CHAPTERS", "INTERNAL"):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def shown():
    return {module for modules in script()["CHAPTERS"].values() for module in modules}


def test_the_page_is_what_make_docs_writes():
    code = "import api_reference, sys; sys.stdout.write(api_reference.reference())"
    done = subprocess.run([sys.executable, "-c", code], cwd=SCRIPT.parent, capture_output=True, text=True, check=True)
    assert done.stdout == pages.text("docs/api.md"), "docs/api.md is not what the code says: run make docs"


def test_every_module_with_public_names_is_on_the_page():
    with_names = set()
    for path in sorted((ROOT / "schedcache").rglob("*.py")):
        names = [target.id for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)
                 for target in node.targets if isinstance(target, ast.Name)]  # fmt: skip
        if "__all__" in names:
            with_names.add(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    assert shown() | set(script()["INTERNAL"]) == with_names


def test_what_is_public_is_there_sorted_and_documented():
    for name in shown():
        module = importlib.import_module(name)
        assert module.__doc__
        assert len(set(module.__all__)) == len(module.__all__)
        for public in module.__all__:
            value = getattr(module, public)
            if getattr(value, "__module__", "").startswith("schedcache.") and callable(value):
                assert value.__doc__, f"{name}.{public}"
