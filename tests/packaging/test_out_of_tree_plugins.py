"""A plugin from a package of its own: installed for real, found by its entry point, used by a profile."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedcache.cache import ClusterObjects
from schedcache.framework import Handle, Registry, RegistryError
from schedcache.framework import registry as registry_module
from schedcache.plugins.default_plugins import installed_registry
from schedcache.queue import Nominator

EXAMPLE = Path(__file__).parents[2] / "examples" / "out-of-tree-plugins"


@pytest.fixture(scope="module", params=["install", "wheel"])
def installed(request, tmp_path_factory):
    """For PYTHONPATH: a folder with the example package as pip installs it, or its wheel, as the chart mounts one."""
    folder = tmp_path_factory.mktemp("example")
    source = shutil.copytree(EXAMPLE, folder / "source")
    target = folder / "site"
    where = {"install": "--target", "wheel": "--wheel-dir"}[request.param]
    pip = [sys.executable, "-m", "pip", request.param, "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", where, target, source], check=True)
    if request.param == "install":
        return target
    (wheel,) = target.glob("*-py3-none-any.whl")
    return wheel


def run(installed, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False
    )


def test_the_examples_own_tests_pass(installed):
    result = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "failed" not in result.stdout


def test_the_command_knows_installed_plugins(installed, tmp_path):
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: MaintenanceWindow}]}}\n"
    )
    (tmp_path / "cluster.yaml").write_text(
        "{kind: Node, metadata: {name: a, annotations: {example.com/maintenance: planned}}, status: {capacity: {pods: 1}}}"
    )
    (tmp_path / "pod.yaml").write_text("{kind: Pod, metadata: {name: p}, spec: {containers: []}}")
    result = run(
        installed,
        *("-m", "schedcache", "simulate", "--cluster", str(tmp_path / "cluster.yaml")),
        *("--pod", str(tmp_path / "pod.yaml"), "--config", str(tmp_path / "config.yaml")),
    )
    assert result.returncode == 1, result.stderr
    assert "1 node(s) were about to be serviced" in result.stdout


class EntryPoint:
    """What importlib.metadata finds of a package that is broken."""

    name, value = "Broken", "broken_package:Plugin"

    @staticmethod
    def load():
        raise ImportError("No module named 'broken_package'")


def test_a_broken_package_harms_only_those_who_use_it(monkeypatch):
    monkeypatch.setattr(registry_module, "installed_plugins", lambda: (EntryPoint,))
    registry = installed_registry()
    assert "NodeName" in registry
    with pytest.raises(RegistryError, match=r"plugin 'Broken' \(broken_package:Plugin\) cannot be loaded: No module"):
        registry["Broken"](None, Handle(cluster_objects=ClusterObjects(), nominator=Nominator()))


def test_two_plugins_cannot_have_one_name(monkeypatch):
    monkeypatch.setattr(registry_module, "installed_plugins", lambda: (EntryPoint, EntryPoint))
    with pytest.raises(RegistryError, match="a plugin named 'Broken' is already registered"):
        Registry().register_installed()
