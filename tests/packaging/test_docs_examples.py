"""Examples of the pages: what a test can run is run, the rest is at least what the program would understand.

docs/embedding.md has a test of its own, which runs all of it.
"""

import inspect
import itertools
import re
import shlex
import tomllib

import pytest
import yaml

import schedcache
from schedcache.cli.commands import make_parser
from schedcache.config import load_config
from schedcache.config.installed import ENTRY_POINT_GROUP
from schedcache.plugins.default_plugins import default_registry
from schedcache.simulation import offline, profiles, simulate
from schedcache.testing import World, make_node, make_pod, node_manifest, pod_manifest
from tests.packaging import pages
from tests.packaging.test_docs_names import chart_values

ROOT = pages.ROOT
BLOCKS = [block for page in pages.names() for block in pages.blocks(page)]
MAKE_VARIABLES = {*re.findall(r"\$\{(\w+):?-", (ROOT / "hack/image").read_text()), "ARGS", "N", "SEED", "KEEP", "BUG"}


def blocks_of(language, *only):
    found = [block for block in BLOCKS if block.language == language and (not only or block.page in only)]
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in found]


def test_every_block_says_what_it_is():
    assert {block.language for block in BLOCKS} <= {"python", "sh", "text", "toml", "yaml"}
    # An indented block says nothing, and nobody runs it.
    for page in pages.written():
        assert re.search(r"\n\n    \S", pages.without_fences(page)) is None, page


def _make(arguments):
    targets = {word for word in arguments if "=" not in word}
    assert targets <= set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {word.split("=")[0] for word in arguments} - targets <= MAKE_VARIABLES


def _schedcache(arguments):
    make_parser().parse_args(arguments)


def _kubectl(arguments):
    if "apply" in arguments:
        assert (ROOT / arguments[arguments.index("-f") + 1]).exists()
    deployed = "\n".join(path.read_text() for path in ROOT.glob("deploy/*/deployment.yaml"))
    for name in re.findall(r"deployment/([\w-]+)", " ".join(arguments)):
        assert f"name: {name}\n" in deployed
    for overrides in re.findall(r"--overrides=(.*)", "\n".join(arguments)):
        assert yaml.safe_load(overrides)["spec"] == {"schedulerName": "schedcache"}


def _curl(arguments):
    (path,) = re.findall(r"(?:localhost|127\.0\.0\.1):(?:10251|10259|PORT)(/[^?\s]+)", " ".join(arguments))
    assert path in ("/dump", "/metrics", "/compare")


def _helm(arguments):
    chart = [word for word in arguments if "/" in word and not word.startswith("-") and "=" not in word]
    assert arguments[0] in ("install", "test", "upgrade", "uninstall")
    assert all((ROOT / path / "Chart.yaml").exists() for path in chart)
    assert {word.split("=")[0] for word in arguments if "=" in word} <= chart_values()


CHECKS = {"helm": _helm, "make": _make, "schedcache": _schedcache, "kubectl": _kubectl, "curl": _curl}
OTHERS = {"cd", "docker", "git", "grep", "jq", "kopf", "mutmut", "pip", "python", "python3.11"}
"""Programs that are not ours, at work on nothing that could be checked."""


def _programs(command):
    """Each program of a line with its arguments, without the variables that are set for it."""
    lexer = shlex.shlex(re.sub(r"[<>]", "", command), posix=True, punctuation_chars="|&")
    lexer.whitespace_split = True
    for operator, words in itertools.groupby(lexer, lambda word: word in ("|", "&&", "&")):
        if not operator:
            program, *arguments = itertools.dropwhile(re.compile(r"[A-Z]+=").match, words)
            yield program.rpartition("/")[2], arguments


@pytest.mark.parametrize("block", blocks_of("sh"))
def test_commands_are_such_as_their_program_takes(block):
    here_documents = re.sub(r"cat >>.*?\nTOML\n", "", block.code, flags=re.DOTALL)
    for command in block._replace(code=here_documents).commands():
        for program, arguments in _programs(command):
            assert program in CHECKS.keys() | OTHERS, command
            if program in CHECKS:
                CHECKS[program](arguments)


@pytest.mark.parametrize("command", ["schedcache run --kube-qps 3", "make tests", "kubectl apply -f deploy/none"])
def test_a_command_that_does_not_exist_would_be_seen(command):
    ((program, arguments),) = _programs(command)
    with pytest.raises((AssertionError, SystemExit)):
        CHECKS[program](arguments)


@pytest.mark.parametrize("block", blocks_of("yaml", "docs/plugins.md"))
def test_a_configuration_is_sound(block):
    assert load_config(block.code, block.page).config.profiles


@pytest.mark.parametrize("block", blocks_of("toml"))
def test_an_entry_point_is_in_the_group_that_is_looked_at(block):
    (group,) = tomllib.loads(block.code)["project"]["entry-points"]
    assert group == ENTRY_POINT_GROUP


def _pod(name, node_name=""):
    return pod_manifest(name, node_name, scheduler_name="default-scheduler", cpu="1900m")


def _answer(monkeypatch, plugin, objects):
    registry = default_registry()
    registry.register(plugin.name, plugin)
    monkeypatch.setattr(offline, "installed_registry", lambda: registry)
    monkeypatch.setattr(profiles, "installed_names", lambda: {plugin.name})
    plugins = {"multiPoint": {"enabled": [{"name": plugin.name, "weight": 100}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    return simulate(objects, _pod("new"), {"profiles": [profile]})


def _names_of(page, words, **names):
    """What the block with these words defines."""
    (code,) = (block.code for block in pages.blocks(page) if block.language == "python" and words in block.code)
    exec(code, names)
    return names


def test_the_plugin_of_the_readme_prefers_quiet_nodes(monkeypatch):
    plugin = _names_of("README.md", "class PreferQuietNodes")["PreferQuietNodes"]
    answer = _answer(monkeypatch, plugin, [node_manifest("busy"), node_manifest("quiet"), _pod("a", "busy")])
    assert answer["selected"] == ["quiet"]
    assert answer["scores"]["busy"]["plugins"]["PreferQuietNodes"] == 9900


def test_the_plugin_for_one_node_at_a_time_rejects_as_the_page_says(monkeypatch):
    plugin = _names_of("docs/plugins.md", "class MaintenanceWindow")["MaintenanceWindow"]
    nodes = [node_manifest("a", annotations={"example.com/maintenance": "planned"}), node_manifest("b")]
    answer = _answer(monkeypatch, plugin, nodes)
    assert answer["feasible"] == ["b"]
    assert answer["rejected"]["a"]["reasons"] == ["node(s) were about to be serviced"]


async def test_the_tests_of_a_plugin_pass():
    plugin = _names_of("docs/plugins.md", "class MaintenanceWindow")["MaintenanceWindow"]
    names = _names_of("docs/plugins.md", "World(", MaintenanceWindow=plugin)
    tests = [found for name, found in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        if inspect.iscoroutine(running := test()):
            await running


async def test_the_hint_wakes_a_pod_when_the_maintenance_is_over_and_not_before():
    page = "docs/plugins.md"
    plugin = _names_of(page, "class MaintenanceWindow")["MaintenanceWindow"]
    patient = _names_of(page, "class PatientWindow", MaintenanceWindow=plugin)["PatientWindow"]
    planned = make_node("a", annotations={"example.com/maintenance": "planned"})
    async with World(plugins=[patient]) as world:
        world.add(planned, make_pod("web-0"))
        await world.settle()
        world.add(make_node("b", annotations=planned.annotations))
        await world.advance(20)
        assert len(world.notes("web-0")) == 1
        world.add(make_node("c"))
        await world.advance(20)
        assert world.node_of("web-0") == "c"


def test_the_plugin_for_all_nodes_at_once_works_on_columns(monkeypatch):
    plugin = _names_of("docs/plugins.md", "class Headroom")["Headroom"]
    answer = _answer(monkeypatch, plugin, [node_manifest("full"), node_manifest("free"), _pod("a", "full")])
    assert answer["feasible"] == ["free"]
    assert answer["rejected"]["full"]["reasons"] == ["node(s) keep 10% of their cpu free"]


def test_the_image_that_is_built_is_of_this_version():
    for page in ("docs/getting-started.md", "docs/image.md"):
        assert set(re.findall(r"schedcache:(\d[\w.]*\d)", pages.text(page))) == {schedcache.__version__}
