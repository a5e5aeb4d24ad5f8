"""The lock files: everything by hash, nothing from a particular index, the same versions in the image and in the tests."""

import pathlib
import re
import tomllib

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = ROOT / "requirements/run.txt"
DEV = ROOT / "requirements/dev.txt"


def entries(path: pathlib.Path) -> list[str]:
    """The requirements of a file, each on one line, without comments."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    return [entry for entry in "\n".join(lines).replace("\\\n", " ").splitlines() if entry.strip()]


def pins(path: pathlib.Path) -> dict[str, str]:
    """Version by normalised name."""
    found = {}
    for entry in entries(path):
        requirement = Requirement(entry.split(" --hash")[0])
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", entry
        found[normalised(requirement.name)] = specifier.version
    return found


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", [RUN, DEV], ids=["run", "dev"])
def test_every_requirement_is_pinned_by_hash_and_from_no_particular_place(path):
    for entry in entries(path):
        assert re.fullmatch(r"[a-z0-9-]+==[^ ]+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+ *", entry), entry
    assert "://" not in path.read_text()


@pytest.mark.parametrize(
    ("wanted", "path"),
    [(PROJECT["project"]["dependencies"], RUN), (PROJECT["dependency-groups"]["dev"], DEV)],
    ids=["run", "dev"],
)
def test_direct_dependencies_are_locked_within_their_bounds(wanted, path):
    locked = pins(path)
    for requirement in map(Requirement, wanted):
        assert locked[normalised(requirement.name)] in requirement.specifier, requirement


def test_the_tests_run_with_the_versions_of_the_image():
    assert pins(RUN).items() <= pins(DEV).items()


def test_wheels_are_built_by_the_locked_backend():
    (backend,) = PROJECT["build-system"]["requires"]
    assert backend == f"setuptools=={pins(DEV)['setuptools']}"
