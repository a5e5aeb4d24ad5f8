"""What the Dockerfile says, and what hack/image asks of pip and Docker, with neither of them there."""

import hashlib
import importlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.packaging import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
SCRIPT = (ROOT / "hack/image").read_text()
WHEEL = b"wheel"
PYTHON = """#!/bin/bash
case "$*" in
-c*) echo 1.2.3 ;;
*"pip download"*) echo "pip $*" >>calls; mkdir -p deploy/build/wheels ;;
*"pip wheel"*) echo "pip $*" >>calls; printf wheel >deploy/build/wheels/schedcache-1.2.3-py3-none-any.whl ;;
esac
"""
DOCKER = """#!/bin/bash
case $1 in
version) echo ${ENGINE:-amd64} ;;
create) echo "docker $*" >>calls; echo container ;;
*) echo "docker $*" >>calls ;;
esac
"""


@pytest.fixture
def tree(tmp_path):
    """What the script needs of a clone, and programs that note how they were called."""
    for folder in ("hack", "requirements", "deploy", "bin", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "hack/image", tmp_path / "hack")
    (tmp_path / "requirements/run.txt").write_text("numpy==2 --hash=sha256:00\n")
    for path, text in ((".venv/bin/python", PYTHON), ("bin/docker", DOCKER)):
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    return tmp_path


def run(tree, **settings):
    environment = {"PATH": f"{tree / 'bin'}:{os.environ['PATH']}", "SOURCE_DATE_EPOCH": "1700000000", **settings}
    done = subprocess.run([tree / "hack/image"], env=environment, capture_output=True, text=True, check=False)
    calls = tree / "calls"
    made = calls.read_text().splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return done, [call for call in made if call.startswith("pip")], [call for call in made if call.startswith("docker")]


def test_one_platform_is_the_engine_s(tree):
    done, pip, docker = run(tree, ENGINE="arm64")
    assert done.returncode == 0, done.stderr
    assert "--require-hashes" in pip[0]
    assert "--platform manylinux_2_28_aarch64" in pip[0]
    assert "--python-version 3.11" in pip[0]
    build, create, copy, remove = docker
    assert build.startswith("docker build --build-arg BASE=python:3.11-slim --build-arg SOURCE_DATE_EPOCH=1700000000")
    assert "--tag localhost/schedcache:1.2.3 " in build
    assert "--label org.opencontainers.image.version=1.2.3" in build
    assert "--label org.opencontainers.image.created=2023-11-14T22:13:20Z" in build
    assert create == "docker create localhost/schedcache:1.2.3"
    assert copy == "docker cp container:/opt/schedcache/sbom.cdx.json deploy/build/sbom.cdx.json"
    assert remove == "docker rm container"


def test_our_own_wheel_is_installed_by_its_hash_as_well(tree):
    run(tree)
    assert (tree / "deploy/build/requirements.txt").read_text().splitlines() == [
        "numpy==2 --hash=sha256:00",
        f"schedcache==1.2.3 --hash=sha256:{hashlib.sha256(WHEEL).hexdigest()}",
    ]


def test_wheels_are_fetched_again_only_when_something_else_is_wanted(tree):
    assert len(run(tree)[1]) == 2
    assert ["download" in call for call in run(tree)[1]] == [False]
    (tree / "requirements/run.txt").write_text("numpy==3 --hash=sha256:00\n")
    assert len(run(tree)[1]) == 2
    assert len(run(tree, PYTHON_VERSION="3.13", BASE="python:3.13-slim")[1]) == 2


def test_several_platforms_are_built_and_pushed_at_once(tree):
    both = "linux/amd64,linux/arm64"
    done, pip, docker = run(tree, PLATFORMS=both, PUSH="1", IMAGE="registry.example/schedcache:1")
    assert done.returncode == 0, done.stderr
    assert [machine in call for call, machine in zip(pip, ("x86_64", "aarch64"), strict=False)] == [True, True]
    [build] = docker
    assert build.startswith("docker buildx build ")
    assert f"--platform {both} --output type=image,push=true,rewrite-timestamp=true" in build


def test_several_platforms_cannot_be_kept_by_the_engine(tree):
    done, _, docker = run(tree, PLATFORMS="linux/amd64,linux/arm64")
    assert done.returncode == 1
    assert "set PUSH=1" in done.stderr
    assert docker == []


def test_a_platform_without_wheels_is_refused(tree):
    done, pip, docker = run(tree, PLATFORMS="linux/s390x")
    assert done.returncode == 1
    assert done.stderr == "linux/s390x: only linux/amd64 and linux/arm64 have wheels of all dependencies\n"
    assert pip == docker == []


def test_an_image_is_pushed_on_request(tree):
    assert "docker push registry.example/schedcache:1" in run(tree, PUSH="1", IMAGE="registry.example/schedcache:1")[2]
    assert not any("push" in call for call in run(tree)[2])


def test_the_last_stage_starts_from_nothing_and_runs_without_a_shell():
    stage = DOCKERFILE.rpartition("\nFROM ")[2]
    assert stage.startswith("scratch\n")
    assert "RUN" not in stage
    assert re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", stage, re.MULTILINE) == [
        '["python3", "-m", "schedcache"]',
        '["run"]',
    ]
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", stage))
    labels |= set(re.findall(r"^label (\S+) ", SCRIPT, re.MULTILINE))
    assert labels == {"title", "description", "licenses", "version", "revision", "created", "base.name"}


def test_every_base_is_an_argument_and_no_step_needs_the_network():
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["$BASE", "scratch"]
    assert re.findall(r"^ARG BASE=(\S+)", DOCKERFILE, re.MULTILINE) == [re.search(r"BASE:-(.*)\}", SCRIPT)[1]]
    [step] = re.findall(r"^RUN (.*)$", DOCKERFILE, re.MULTILINE)
    assert step.endswith("python3 -B /context/assemble.py /context /layers")
    assembling = (ROOT / "deploy/image/assemble.py").read_text()
    assert all(option in assembling for option in ('"--no-index"', '"--require-hashes"', '"--no-deps"'))


def test_the_page_lists_the_settings():
    settings = re.findall(r"^#   ([A-Z_]+) +(\S+?)(?:[ ,]|$)", SCRIPT, re.MULTILINE)
    rows = re.findall(r"^\| `([A-Z_]+)` \| `?([^`|]*)", pages.text("docs/image.md"), re.MULTILINE)
    assert [name for name, _ in settings] == [name for name, _ in rows]
    assert dict(settings)["BASE"] == dict(rows)["BASE"]
    assert dict(settings)["PYTHON_VERSION"] == dict(rows)["PYTHON_VERSION"].strip()


def test_the_context_is_what_the_dockerfile_copies():
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = re.findall(r"^COPY (deploy/.*) /context/$", DOCKERFILE, re.MULTILINE)
    assert sorted(allowed) == sorted(folder.rstrip("/") for folder in copied[0].split())


def test_a_library_that_is_missing_stops_the_build(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "deploy/image"))
    assemble = importlib.import_module("assemble")
    listed = "\tlinux-vdso.so.1 (0x7)\n\tlibc.so.6 => /lib/libc.so.6 (0x7)\n\t/lib64/ld.so (0x7)\n"
    monkeypatch.setattr(assemble.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=listed))
    assert [str(path) for path in assemble.libraries(pathlib.Path("x"))] == ["/lib/libc.so.6", "/lib64/ld.so"]
    listed += "\tlibgone.so => not found\n"
    with pytest.raises(SystemExit, match="x lacks libraries"):
        list(assemble.libraries(pathlib.Path("x")))
