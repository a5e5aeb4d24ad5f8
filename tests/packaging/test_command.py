"""The command as it is installed: what the README and the manifests say about it is so."""

import pathlib
import re
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(sys.executable).with_name("schedcache")


def output(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def usage() -> str:
    return output(COMMAND, "run", "--help")


def flags(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def test_command_and_module_are_the_same(usage):
    assert output(sys.executable, "-m", "schedcache", "run", "--help") == usage


@pytest.mark.parametrize("folder", ["scheduler", "observe"])
def test_the_manifests_use_flags_that_exist(folder, usage):
    deployment = yaml.safe_load((ROOT / "deploy" / folder / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    assert command == "run"
    assert {argument.split("=")[0] for argument in arguments} <= flags(usage)
