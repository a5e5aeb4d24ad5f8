"""What the pages write as `code` is there: modules, classes, functions, flags, files, make targets, messages."""

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache

import pytest
import yaml

import schedcache
from schedcache.cli.commands import make_parser
from tests.packaging import pages

ROOT = pages.ROOT
SKIPPED_PAGES = ("docs/mutation.md",)
"""Its spans are mutants; the functions that it names are looked up below."""

FOREIGN = {
    "kube-scheduler and Kubernetes": (
        "/metrics/resources /metrics/slis AssignedPodAdd AssignedPodDelete OutOfcpu disabled_metrics_total"
        " apiserver_flowcontrol_rejected_requests_total"
        " hidden_metrics_total incomplete kube_pod_resource_limit kube_pod_resource_request kubernetes_build_info"
        " kubernetes_feature_enabled kubernetes_healthcheck kubernetes_healthchecks_total pods/portforward"
        " kube-system/kube-scheduler pods/status registered_metrics_total remove_assumed_pod rest_client_* workqueue_*"
        " X-Remote-User X-Remote-Group X-Remote-Extra-... --tls-sni-cert-key --tls-curve-preferences"
        " --http2-max-streams-per-connection --disable-http2-serving --permit-port-sharing --permit-address-sharing"
    ),
    "clients, tools and formats": "~=0.1.0 MAJOR.MINOR.PATCH DeprecationWarning NAMESPACE/NAME fromdate"
    " [Unreleased] data/csv noqa openb_pod_list_gpuspec33 process_* ~/.kube/config CLOCK_MONOTONIC"
    " linux/amd64 linux/arm64 org.opencontainers.image.* /opt/schedcache/sbom.cdx.json schedcache.crt schedcache.key",
}
"""Names that are not ours, by whose they are."""


@cache
def parsers():
    parser = make_parser()
    (commands,) = (
        action for action in parser._actions if hasattr(action, "choices") and isinstance(action.choices, dict)
    )
    return {"": parser, **commands.choices}


@cache
def flags():
    return {flag for parser in parsers().values() for action in parser._actions for flag in action.option_strings}


@cache
def make_targets():
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def trees():
    folders = ("schedcache", "hack", "bench", "examples")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [(path, ast.parse(path.read_text())) for path in files]


def _documentation(tree):
    """Strings that are statements: docstrings, of attributes too."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


@cache
def literals():
    """Every string of the code that is no documentation, and what is deployed and built with."""
    found = []
    for _, tree in trees():
        skipped = _documentation(tree)
        found += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped
        ]
    others = ["Makefile", "pyproject.toml", "hack/image", *ROOT.glob("deploy/**/*.yaml")]
    return "\n".join([*found, *((ROOT / other).read_text() for other in others)])


@cache
def vocabulary():
    """Identifiers of the code, in the camelCase of Kubernetes' JSON too, and the words of its strings."""
    found = set(re.findall(r"[A-Za-z_][\w-]*", literals()))
    for path, tree in trees():
        found.add(path.stem)
        for node in ast.walk(tree):
            for field in ("id", "attr", "name", "arg", "asname"):
                if isinstance(value := getattr(node, field, None), str):
                    found.update(value.split("."))
    return found | {re.sub(r"_(\w)", lambda letter: letter[1].upper(), name) for name in found}


@cache
def classes():
    found = {}
    for module in pkgutil.walk_packages(schedcache.__path__, "schedcache."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, type) and value.__module__.startswith("schedcache."):
                    found.setdefault(name, []).append(value)
    return found


def resolves(dotted):
    try:
        pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def is_member(class_name, member):
    if class_name not in classes():
        return is_said(f"{class_name}.{member}")
    bodies = [
        node
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == class_name
    ]
    # What is only assigned in __init__ is no attribute of the class.
    assigned = {node.attr for body in bodies for node in ast.walk(body) if isinstance(node, ast.Attribute)}
    return member in assigned or any(hasattr(cls, member) for cls in classes()[class_name])


def takes(class_name, arguments):
    """Whether a class of ours is made with arguments of these names; a Protocol is not made at all."""
    named = classes().get(class_name, ())
    if not named or any(getattr(cls, "_is_protocol", False) for cls in named):
        return is_said(f"{class_name}({arguments})")
    names = {name.split("=")[0] for name in arguments.split(", ")} - {"..."}
    return any(names <= inspect.signature(cls).parameters.keys() for cls in named)


def is_file(path, page):
    bases = (ROOT, ROOT / "schedcache", (ROOT / page).parent)
    return any((base / path).exists() for base in bases) or ("/" not in path and any(ROOT.glob(f"tests/**/{path}")))


def is_path(path, page):
    """A file, or what a string of the code is from its first character to its last."""
    return is_file(path, page) or path in literals().splitlines()


def is_said(span):
    """An expression, statement or signature whose identifiers are the code's; or the very words of a string."""
    for code in (span, f"{span}: pass", span.removeprefix("async ")):
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue
        fields = ("id", "attr", "arg")
        names = [getattr(node, field, None) for node in ast.walk(tree) for field in fields]
        if all(name in vocabulary() for name in names if name is not None):
            return True
    return span in literals()


RULES = (
    (r"make (\S+)", lambda found, _: found[1] in make_targets()),
    (r"kubectl apply -f (\S+)$", lambda found, page: is_file(found[1], page)),
    (r"(\w[\w-]+) FILE$", lambda found, _: found[1] in parsers()),
    (r"\.\w+ \| ", lambda *_: True),  # jq, which tests/dump/test_page.py knows
    (r"\??(\w+)=[A-Z/]+$", lambda found, _: found[1] in vocabulary()),
    (r"\?(\w+)", lambda found, _: found[1] in vocabulary()),
    (r"schedcache ([\w-]+)", lambda found, _: found[1] in parsers()),
    (r"(?:\.venv/bin/)?python -m (\S+)", lambda found, _: resolves(found[1])),
    (r"(?:\.venv/bin/)?python (\S+)", lambda found, page: is_file(found[1], page)),
    (r"from (\S+) import (\w+)$", lambda found, _: resolves(f"{found[1]}.{found[2]}")),
    # Of a command, or of a program in bench/ or hack/.
    (r"--?[a-z][\w-]*", lambda found, _: found[0] in flags() or found[0] in literals().splitlines()),
    (r"(\S+\.py) (--\S+)$", lambda found, page: is_file(found[1], page) and is_there(found[2], page)),
    (r"\$(\w+)$", lambda found, _: found[1] in vocabulary()),
    (r"(scheduler_\w+)", lambda found, _: found[1].startswith("scheduler_")),  # test_docs_surface.py knows them all
    (r"schedcache(\.\w+)+$", lambda found, _: resolves(found[0])),
    (r"(/[a-z]+)+$", lambda found, _: found[0] in literals().splitlines()),
    (r"[\w./-]*(/|\.(md|py|yaml|toml|gz|jsonl)$)[\w./-]*$", lambda found, page: is_path(found[0], page)),
    (r"([A-Z]\w+)\((\w[\w=., ]*)\)$", lambda found, _: takes(found[1], found[2])),
    (r"([A-Z]\w+)\.(\w+)", lambda found, _: is_member(found[1], found[2])),
    (r".", lambda found, _: is_said(found.string)),
)
"""The first whose pattern begins a span decides whether what it names is there."""


@cache
def chart_values():
    """Paths into the chart's values.yaml, with dots."""

    def paths(value, path=()):
        for name, inner in value.items() if isinstance(value, dict) else ():
            yield ".".join((*path, name))
            yield from paths(inner, (*path, name))

    return set(paths(yaml.safe_load((ROOT / "charts/schedcache/values.yaml").read_text())))


def is_there(span, page):
    return span.split(":")[0] in chart_values() or next(
        bool(decides(found, page)) for pattern, decides in RULES if (found := re.match(pattern, span)) is not None
    )


def foreign():
    return {name: whose for whose, listed in FOREIGN.items() for name in listed.split()}


@pytest.mark.parametrize("page", [page for page in pages.written() if page not in SKIPPED_PAGES])
def test_what_is_written_as_code_is_there(page):
    excused = foreign()
    assert [span for span in pages.spans(page) if not is_there(span, page) and span not in excused] == []


def test_nothing_is_excused_that_no_page_writes_or_that_is_ours():
    written = {span: page for page in pages.written() for span in pages.spans(page)}
    assert [name for name in foreign() if name not in written or is_there(name, written[name])] == []


@pytest.mark.parametrize(
    "wrong",
    ["make tests", "schedcache walk", "--kubeconf", "schedcache.cache.Cache", "docs/none.md", "SchedulerCache.add_pods",
     "cache.asumed_pods", "leaderElection.enable", "sorted_out(state)", "serving metrics and dumps"],
)  # fmt: skip
def test_a_name_that_is_not_there_would_be_seen(wrong):
    assert not is_there(wrong, "README.md")


def test_the_tests_that_parity_rests_on_are_there():
    page = pages.text("docs/upstream-parity.md")
    cases = (ROOT / "tests/cache/vectors/hand.jsonl").read_text()
    vectors = {
        name
        for listed in re.findall(r"vector: ([a-z][\w*, -]*)", page)
        for name in re.split(r",? (?:to )?", listed.strip())
    }
    wanted = [f'"name":"{name}"'.replace('*"', "") for name in vectors if name[0] != "-"]
    assert len(wanted) > 50
    assert [name for name in wanted if name not in cases] == []
    named = re.findall(r"((?:tests/\w+/)?test_\w+\.py)(?:::(\w+))?", page)
    assert len(named) > 50
    missing = []
    for file, test in named:
        found = [ROOT / file] if "/" in file else list(ROOT.glob(f"tests/*/{file}"))
        if not any(path.exists() and re.search(rf"(def|class) {test}\b", path.read_text()) for path in found):
            missing.append((file, test))
    assert missing == []


def test_the_mutants_are_of_functions_that_exist():
    table = pages.section("docs/mutation.md", "## What survives, and why")
    named = {row[0] for row in pages.rows(table) if row[0] != "function"}
    assert len(named) > 40
    missing = [name for name in named if not resolves(f"schedcache.cache.{name}")]
    assert missing == []
