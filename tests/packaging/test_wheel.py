"""The wheel, as pip installs it: the package with its data, the command, and nothing of the tests."""

import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import schedcache

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    # Built from a copy: setuptools leaves build/ beside what it builds.
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "schedcache", source / "schedcache", ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        target,
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob("*.whl")
    assert path.name == f"schedcache-{schedcache.__version__}-py3-none-any.whl"
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_module_and_data_file_of_the_package(wheel):
    packaged = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "schedcache").rglob("*") if path.is_file()}
    assert packaged == {name for name in files if "__pycache__" not in name}
    assert "schedcache/py.typed" in packaged
    assert {"go.mod", "go.sum"} <= {pathlib.Path(name).name for name in packaged if "/testing/controlplane/" in name}


def test_the_wheel_carries_the_command_and_the_licence(wheel):
    info = f"schedcache-{schedcache.__version__}.dist-info"
    commands = wheel.read(f"{info}/entry_points.txt").decode()
    assert "schedcache = schedcache.cli:main" in commands
    assert "kubectl-schedcache = schedcache.cli:main" in commands
    assert b"Apache License" in wheel.read(f"{info}/licenses/LICENSE")


def test_the_installed_version_is_the_package_s_own():
    assert importlib.metadata.version("schedcache") == schedcache.__version__
