"""Tables of the pages that list what there is: flags, metrics, endpoints, packages, errors, extension points."""

import inspect
import re
import tomllib

import aiohttp
import pytest
import yaml

from schedcache.app.health import health_of
from schedcache.app.leader_election import leader_election_of
from schedcache.app.program import assembled
from schedcache.app.running import main_routes
from schedcache.app.serving import serve
from schedcache.app.settings import Settings, configuration_of
from schedcache.cache import errors
from schedcache.cli.commands import make_parser
from schedcache.cli.flag_settings import settings_of
from schedcache.cli.log_metrics import LogCollector
from schedcache.cli.log_output import LogOutput
from schedcache.framework import interface
from schedcache.model import Node, Pod
from schedcache.server.access.metrics import AccessCollector
from schedcache.server.access.reviewing import ReviewStats
from tests.packaging import pages

ROOT = pages.ROOT
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "nowhere",
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
    "clusters": [{"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "nobody", "user": {}}],
}


def run_actions():
    (commands,) = (action for action in make_parser()._actions if isinstance(action.choices, dict))
    actions = commands.choices["run"]._actions
    return {flag: action for action in actions for flag in action.option_strings if flag not in ("-h", "--help")}


def defaults():
    """Of each flag of `run`, as the README should give it: what the parser says, or what comes of saying nothing."""
    settings = settings_of(make_parser().parse_args(["run"]))
    unsaid = {
        "--kube-api-qps": f"{settings.qps:g}",
        "--kube-api-burst": f"{settings.burst}",
        "--scheduler-name": settings.profiles[0].scheduler_name,
        "--leader-elect": str(settings.configuration.leader_election.leader_elect).lower(),
        "--leader-elect-lease-duration": str(settings.configuration.leader_election.lease_duration),
        "--leader-elect-renew-deadline": str(settings.configuration.leader_election.renew_deadline),
        "--leader-elect-retry-period": str(settings.configuration.leader_election.retry_period),
        "--leader-elect-resource-lock": settings.configuration.leader_election.resource_lock,
        "--leader-elect-resource-name": settings.leader_election.resource_name,
        "--leader-elect-resource-namespace": settings.leader_election.resource_namespace,
        "--authentication-skip-lookup": str(settings.access.skip_lookup).lower(),
        "--authentication-tolerate-lookup-failure": str(settings.access.tolerate_lookup_failure).lower(),
        "--authentication-token-webhook-cache-ttl": f"{settings.access.token_ttl_seconds:g}s",
        "--authorization-webhook-cache-authorized-ttl": f"{settings.access.authorized_ttl_seconds:g}s",
        "--authorization-webhook-cache-unauthorized-ttl": f"{settings.access.unauthorized_ttl_seconds:g}s",
        "--authorization-always-allow-paths": ",".join(settings.access.always_allow_paths),
        "--requestheader-username-headers": ",".join(settings.access.requestheader_username_headers),
        "--requestheader-group-headers": ",".join(settings.access.requestheader_group_headers),
        "--requestheader-extra-headers-prefix": ",".join(settings.access.requestheader_extra_headers_prefix),
    }
    found = {flag: action.default or None for flag, action in run_actions().items()}
    return {flag: unsaid.get(flag, "" if default is None else str(default)) for flag, default in found.items()}


def test_the_readme_lists_the_flags_of_run_with_their_defaults():
    listed = {}
    for cell, default, _ in pages.rows(pages.section("README.md", "### Flags of `schedcache run`")):
        for flag in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cell):
            listed[flag] = default.strip("`")
    assert listed == defaults()


def test_help_gives_the_defaults_that_there_are():
    expected = defaults()
    for flag, action in run_actions().items():
        told = re.search(r"\(default:? (\S+?)[,;]?[\s)]", action.help % vars(action))
        assert told is None or told[1] in (expected[flag], "not"), flag


@pytest.fixture
async def program(tmp_path):
    """Assembled and not run: it talks to nobody."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(NOWHERE))
    configuration = configuration_of(None, None)
    settings = Settings(
        configuration=configuration, kubeconfig=str(kubeconfig), leader_election=leader_election_of(configuration)
    )
    async with assembled(settings) as program:
        program.registry.register(LogCollector(LogOutput(2)))
        program.registry.register(AccessCollector(ReviewStats(), lambda: 0.0))
        yield program


def exported(registry):
    """Names of the metrics with their labels, as Prometheus sees them."""
    found = {}
    for collector in registry._collector_to_names:
        for family in [collector] if hasattr(collector, "_labelnames") else collector.collect():
            name = family._name if hasattr(family, "_name") else family.name
            suffix = "_total" if (getattr(family, "_type", None) or family.type) == "counter" else ""
            found[f"{name}{suffix}"] = tuple(getattr(family, "_labelnames", ()))
    return {name: labels for name, labels in found.items() if not name.startswith("process_")}


async def test_the_metrics_that_the_pages_name_are_those_that_there_are(program):
    there = exported(program.registry)
    named = {
        name
        for page in pages.written()
        for name in re.findall(r"(?<![\w.])(?:scheduler|rest_client)_[a-z_]+[a-z]\b(?!\.)", pages.text(page))
    }
    # A module, and a benchmark of Kubernetes.
    named -= {"scheduler_cache", "scheduler_perf", "scheduler_name"}
    assert named - there.keys() == set()
    operations = set(
        re.findall(
            r"`((?:scheduler|leader_election|rest_client)_[a-z_]+[a-z])\b",
            pages.section("docs/operations.md", "## Metrics"),
        )
    )
    assert operations == there.keys()


async def test_our_own_metrics_have_the_labels_that_are_listed(program):
    there = exported(program.registry)
    table = pages.section("docs/operations.md", "## Metrics").split("Our own")[1]
    listed = {
        row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in pages.rows(table) if row[0].startswith("`")
    }
    assert len(listed) > 15
    assert listed == {name: set(there[name]) for name in listed}


async def test_the_endpoints_that_the_pages_list_are_those_that_answer(program):
    health, name = health_of(program), ""
    main = {route.path for route in main_routes(program, health)}
    probes = {route.path for route in health.routes()}
    listed = {}
    for port, path, _ in pages.rows(pages.section("docs/operations.md", "## Endpoints").split("###")[0]):
        flag = re.match(r"`--[\w-]+`", port)
        name = flag[0].strip("`") if flag else name
        listed.setdefault(name, set()).update(re.findall(r"`(/\w+)`", path))
    assert {port: paths for port, paths in listed.items() if paths} == {"--secure-port": main, "--probe-port": probes}
    security = {
        row[0].strip("`"): set(re.findall(r"`(/\w+)`", row[1]))
        for row in pages.rows(pages.section("SECURITY.md", "## What it serves"))
        if row[0] != "port"
    }
    assert security == {"--secure-port": main, "--port": main, "--probe-port": probes}


async def test_the_checks_of_readiness_that_the_pages_name_are_there(program):
    checks = set(health_of(program).ready())
    readiness = pages.section("docs/watch.md", "### Readiness")
    assert set(re.findall(r"`([a-z-]+)` (?:says|fails)", readiness)) <= checks


async def test_the_dump_keeps_to_itself_what_security_says(program):
    assert "It has no labels, annotations, environment variables, commands or secrets" in pages.prose("SECURITY.md")
    marks = {"labels": {"label": "hidden-1"}, "annotations": {"annotation": "hidden-2"}}
    container = {
        "name": "main",
        "command": ["hidden-3"],
        "args": ["hidden-4"],
        "env": [{"name": "hidden-5", "value": "hidden-6"}],
        "envFrom": [{"secretRef": {"name": "hidden-7"}}],
    }
    spec = {
        "nodeName": "a-node",
        "containers": [container],
        "volumes": [{"name": "v", "secret": {"secretName": "hidden-8"}}],
    }
    sink = program.scheduler.handlers
    sink.on_add("Node", Node.from_dict({"metadata": {"name": "a-node", "uid": "1", **marks}}))
    sink.on_add(
        "Pod", Pod.from_dict({"metadata": {"name": "a-pod", "namespace": "d", "uid": "2", **marks}, "spec": spec})
    )
    waiting = {"schedulerName": "schedcache", "containers": [container]}
    sink.on_add(
        "Pod", Pod.from_dict({"metadata": {"name": "waits", "namespace": "d", "uid": "3", **marks}, "spec": waiting})
    )
    routes = main_routes(program, health_of(program))
    async with (
        serve(routes, "127.0.0.1", 0, "--port") as port,
        aiohttp.request("GET", f"http://127.0.0.1:{port}/dump?stories=all") as answer,
    ):
        dump = await answer.text()
    assert all(name in dump for name in ("a-node", "a-pod", "waits"))
    assert "hidden" not in dump


def packages():
    return {path.parent.name for path in (ROOT / "schedcache").glob("*/__init__.py")}


def layers():
    """From bottom to top; packages of one layer stand in one set."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layered,) = (contract for contract in contracts if contract["id"] == "layers")
    return [set(re.findall(r"\w+", layer)) for layer in reversed(layered["layers"])]


@pytest.mark.parametrize(
    ("page", "heading", "prefix"), [("README.md", "## Layout", "schedcache."), ("docs/design.md", "## Layers", "")]
)
def test_the_layout_lists_the_packages_from_bottom_to_top(page, heading, prefix):
    listed = [row for row in pages.rows(pages.section(page, heading)) if row[0].startswith("`")]
    order = [row[0].strip("`").removeprefix(prefix) for row in listed]
    assert set(order) == packages()
    height = {name: number for number, layer in enumerate(layers()) for name in layer}
    assert order == sorted(order, key=height.__getitem__)
    parts = {path.parent.name for path in (ROOT / "schedcache/kube").glob("*/__init__.py")}
    (kube,) = (row[1] for row in listed if row[0] == f"`{prefix}kube`")
    assert set(re.findall(r"`(\w+)`", kube)) - packages() == parts - packages()


def test_refusals_of_the_cache_are_the_errors_that_there_are():
    listed = dict(re.findall(r"`(\w+Error)`[, (]+`(\w+)`", pages.text("docs/states.md")))
    assert len(listed) > 10
    assert listed == {name: getattr(errors, name).kind for name in listed}


def extension_points():
    """Each method of the Protocols that plugins implement, with its parameters."""
    protocols = [
        value for value in vars(interface).values() if inspect.isclass(value) and interface.Plugin in value.__mro__
    ]
    return {
        name: list(inspect.signature(method).parameters)[1:]
        for protocol in protocols
        for name, method in vars(protocol).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


def test_the_extension_points_are_those_of_the_framework():
    there = extension_points()
    assert len(there) > 15
    page = pages.section("docs/plugins.md", "## Extension points")
    called = dict(re.findall(r"`(?:async )?(\w+)\(([\w, .]*)\)`", page))
    assert there.keys() - called.keys() == set()
    told = {name: parameters.split(", ") for name, parameters in called.items() if parameters and parameters != "..."}
    assert {name: told[name] for name in told if name in there} == {name: there[name] for name in told if name in there}
