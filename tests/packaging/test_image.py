"""The image's file system, assembled from what is installed here: no engine is needed for that."""

import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

import schedcache
from schedcache.testing import SupervisedProcess, pod_manifest, wait_until

pytestmark = pytest.mark.long  # assembling it takes some ten seconds

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = "opt/schedcache"
PODS = "/api/v1/namespaces/default/pods"
EPOCH = 1_700_000_000
LIMIT_BYTES = 220_000_000
# Assembled by the Python that .venv is made from, as the base image's would; pip is left out, which would need an index.
ASSEMBLE = f"""
import os, pathlib, shutil, sys
sys.path.insert(0, {str(ROOT / "deploy/image")!r})
import assemble, checks
assemble.install = lambda context, site: shutil.copytree(context / "installed", site)
if os.geteuid():
    # Both need the right to chroot.
    assemble.index_libraries = checks.run = lambda *_: None
context, target = map(pathlib.Path, sys.argv[1:])
assemble.main(context, target)
"""


def requirements():
    text = (ROOT / "requirements/run.txt").read_text()
    found = (Requirement(line.split(" \\")[0]) for line in text.splitlines() if re.match(r"[a-z]", line))
    return {one.name: str(one.specifier).removeprefix("==") for one in found if not one.marker or one.marker.evaluate()}


def install(site, wheels):
    """As pip would from wheels; the wheels themselves are only names with some content."""
    for name in requirements():
        distribution = importlib.metadata.distribution(name)
        info = next(file.parts[0] for file in distribution.files if file.parts[0].endswith(".dist-info"))
        for file in distribution.files:
            if ".." not in file.parts and file.suffix != ".pyc":
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), site / file)
        tag = re.search(r"^Tag: (\S+)", distribution.read_text("WHEEL"), re.MULTILINE)[1]
        (wheels / f"{info.removesuffix('.dist-info')}-{tag}.whl").write_text(name)
        # Of another platform, as for an image of several.
        (wheels / f"{info.removesuffix('.dist-info')}-cp311-cp311-manylinux_2_28_other.whl").write_text("other")
    shutil.copytree(ROOT / "schedcache", site / "schedcache", ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"schedcache-{schedcache.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Name: schedcache\nVersion: {schedcache.__version__}\nLicense-Expression: Apache-2.0\n"
    )
    (info / "WHEEL").write_text("Tag: py3-none-any\n")
    (wheels / f"schedcache-{schedcache.__version__}-py3-none-any.whl").write_text("schedcache")
    (site / "bin").mkdir()
    (site / "bin/schedcache").write_text("#!/usr/bin/python3\n")


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    context = tmp_path_factory.mktemp("context")
    (context / "wheels").mkdir()
    install(context / "installed", context / "wheels")
    target = tmp_path_factory.mktemp("image") / "layers"
    environment = {
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "PYTHONHASHSEED": "0",
    }
    command = [sys._base_executable, "-B", "-c", ASSEMBLE, context, target]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def files(layers):
    """Every file of the image and its path in it."""
    return {
        path.relative_to(layer).as_posix(): path
        for layer in layers.iterdir()
        for path in layer.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture(scope="module")
def bill(files):
    return json.loads(files[f"{SITE}/sbom.cdx.json"].read_text())


def test_there_is_a_layer_for_each_pace_of_change(layers):
    assert sorted(layer.name for layer in layers.iterdir()) == ["dependencies", "python", "schedcache"]
    assert {path.name for path in (layers / "schedcache" / SITE).iterdir()} == {
        "bin",
        "sbom.cdx.json",
        "schedcache",
        f"schedcache-{schedcache.__version__}.dist-info",
    }
    assert not any("schedcache" in path.name for path in (layers / "dependencies" / SITE).iterdir())
    assert [path.name for path in (layers / "dependencies").iterdir()] == ["opt"]
    assert not (layers / "python/opt").exists()


def test_it_is_small(files):
    assert sum(path.stat().st_size for path in files.values() if not path.is_symlink()) < LIMIT_BYTES


def test_nothing_is_in_it_that_is_never_run(files):
    names = {pathlib.PurePosixPath(name).name for name in files}
    assert names.isdisjoint({"sh", "bash", "dash", "pip", "pip3", "dpkg", "apt", "ld", "gcc"})
    unused = re.compile(r"(^|/)(pip|setuptools|ensurepip|idlelib|tkinter|tests?|f2py)/|\.(pyi|a|h|c|pyx)$|_test\.py$")
    assert [name for name in files if unused.search(name)] == []
    assert not any(name.startswith(f"{SITE}/kubernetes/aio/") for name in files)
    assert sum(name.startswith(f"{SITE}/kubernetes/client/models/") and name.endswith(".py") for name in files) < 10
    assert [name for name in names if name.startswith("python3")] != []
    assert [name for name in files if name.startswith(f"{SITE}/bin/")] == [f"{SITE}/bin/schedcache"]


def test_each_module_has_bytecode_once_and_it_is_never_checked(files):
    compiled = {name: path for name, path in files.items() if name.endswith(".pyc")}
    cache = re.compile(r"(.*/)__pycache__/([^/]+)\.cpython-\d+\.pyc")
    assert len({cache.fullmatch(name).groups() for name in compiled}) == len(compiled)
    assert {"".join(cache.fullmatch(name).groups()) + ".py" for name in compiled} <= files.keys()
    ours = [name for name in files if name.startswith(f"{SITE}/schedcache/") and name.endswith(".py")]
    assert len(ours) == sum(name.startswith(f"{SITE}/schedcache/") for name in compiled)
    # PEP 552: 0b01 is a hash instead of a time, 0b10 that it is checked.
    assert {path.read_bytes()[4:8] for path in compiled.values()} == {b"\x01\x00\x00\x00"}
    assert (
        b"/opt/schedcache/schedcache/cli/"
        in compiled[f"{SITE}/schedcache/cli/__pycache__/{pyc('__init__')}"].read_bytes()
    )


def pyc(module):
    return f"{module}.{sys.implementation.cache_tag}.pyc"


def test_times_and_rights_do_not_depend_on_who_builds(layers):
    for path in layers.rglob("*"):
        status = path.lstat()
        assert status.st_mtime == 315_532_800, path
        if not path.is_symlink():
            mode = status.st_mode & 0o7777
            assert mode in ({0o755, 0o1777} if path.is_dir() else {0o644, 0o755}), path
            assert mode != 0o1777 or path == layers / "python/tmp"


def test_links_lead_to_files_of_the_image(files):
    links = {name: str(path.readlink()) for name, path in files.items() if path.is_symlink()}
    assert any(name.endswith("/bin/python3") for name in links)
    for name, target in links.items():
        assert (
            os.path.normpath(f"/{pathlib.PurePosixPath(name).parent}/{target}" if target[0] != "/" else target)[1:]
            in files
        )


def test_the_user_has_no_name_that_only_the_build_knows(files):
    assert "nonroot:x:65532:65532:" in files["etc/passwd"].read_text()
    assert re.findall(r"^USER (.*)$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE) == ["65532:65532"]


def test_each_list_of_files_names_those_that_are_there(layers):
    site = layers / "dependencies" / SITE
    records = list(site.glob("*.dist-info/RECORD"))
    assert len(records) == len(requirements())
    for record in records:
        listed = [line.rsplit(",", 2)[0] for line in record.read_text().splitlines()]
        assert [name for name in listed if not (site / name).exists() and not name.startswith("..")] == []


def alone(layers):
    """An environment in which the image's packages come first."""
    sites = os.pathsep.join(str(layers / layer / SITE) for layer in ("schedcache", "dependencies"))
    return {**os.environ, "PYTHONPATH": sites, "PYTHONDONTWRITEBYTECODE": "1"}


def run_with(layers, program, *arguments, cwd=ROOT):
    """A program of the tests' Python that imports the image's packages first."""
    return subprocess.run(
        [sys.executable, *arguments, "-c", program],
        env=alone(layers),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_client_that_is_left_reads_every_kind_of_credentials(layers):
    """The tests of credentials, with the image's client."""
    program = f"""
import sys, kubernetes, pytest
assert kubernetes.__file__.startswith({str(layers)!r}), kubernetes.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not controlplane", "tests/kube/test_credentials.py"]))
"""
    done = run_with(layers, program)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_can_be_imported_without_anything_else(layers, tmp_path):
    program = """
import importlib, pkgutil, sys, schedcache
for module in pkgutil.walk_packages(schedcache.__path__, "schedcache."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(len([name for name in sys.modules if name.startswith("schedcache.")]))
"""
    done = run_with(layers, program, "-S", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


@pytest.mark.controlplane
@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_a_scheduler_runs_with_what_is_left(layers, cluster, control_plane, tmp_path, source):
    """By the Python that it was assembled with, which sees nothing of .venv."""
    await cluster.make_nodes(1)
    await cluster.create(PODS, pod_manifest("pod"))
    arguments = [
        "run",
        f"--event-source={source}",
        "--leader-elect=false",
        "--port=0",
        "--kubeconfig",
        control_plane.kubeconfig,
    ]
    command = [sys._base_executable, "-S", "-m", "schedcache", *map(str, arguments)]
    scheduler = SupervisedProcess(command, tmp_path / "log", environment=alone(layers), directory=tmp_path)
    try:
        await wait_until(lambda: is_bound(cluster))
    finally:
        scheduler.kill()


async def is_bound(cluster):
    return "nodeName" in (await cluster.get(f"{PODS}/pod"))["spec"]


def test_the_bill_lists_what_is_locked_with_the_hashes_of_the_wheels(bill):
    listed = {
        component["name"]: component
        for component in bill["components"]
        if component.get("purl", "").startswith("pkg:pypi/")
    }
    assert {name: component["version"] for name, component in listed.items()} == requirements()
    for name, component in listed.items():
        assert component["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(name.encode()).hexdigest()}]
        assert component["licenses"], name
    ours = bill["metadata"]["component"]
    assert (ours["name"], ours["version"], ours["type"]) == ("schedcache", schedcache.__version__, "application")


def test_the_bill_lists_what_came_from_the_base(bill):
    kinds = {component["purl"].split("/")[0] for component in bill["components"] if "purl" in component}
    assert kinds <= {"pkg:pypi", "pkg:deb", "pkg:generic"}
    assert [component for component in bill["components"] if component["type"] == "operating-system"]
    # dpkg owns the base's Python, or else it is listed by itself.
    assert any(component["name"].startswith(("python", "libpython")) for component in bill["components"])


def test_the_bill_is_cyclonedx(bill):
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    refs = [component["bom-ref"] for component in bill["components"]]
    assert len(set(refs)) == len(refs)
    assert bill["dependencies"] == [{"ref": bill["metadata"]["component"]["bom-ref"], "dependsOn": refs}]
    versions = [component["purl"].partition("@")[2] for component in bill["components"] if "purl" in component]
    assert all(re.fullmatch(r"[\w.%~-]+(\?arch=\w+)?", version) for version in versions), (
        "a package URL has : and + encoded"
    )
