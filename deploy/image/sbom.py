"""The software bill of materials of the image, as CycloneDX: Python packages with the hashes of their wheels, and the base's."""

import datetime as dt
import email
import email.message
import functools
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

SPEC_VERSION = "1.6"
Component = dict[str, Any]


def document(context: pathlib.Path, site: pathlib.Path, copied: Iterable[pathlib.Path]) -> str:
    """JSON text; the same input gives the same text.

    Args:
        context: has `wheels/`.
        site: where they are installed.
        copied: files of the base that are in the image.
    """
    components = [*python_components(context / "wheels", site), *base_components(copied)]
    [ours] = [component for component in components if component["name"] == "schedcache"]
    rest = sorted((one for one in components if one is not ours), key=lambda one: one["bom-ref"])
    moment = dt.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), dt.UTC)
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**ours, "type": "application"},
        },
        "components": rest,
        "dependencies": [{"ref": ours["bom-ref"], "dependsOn": [one["bom-ref"] for one in rest]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{serial}"}, indent=1, sort_keys=True) + "\n"


def python_components(wheels: pathlib.Path, site: pathlib.Path) -> Iterator[Component]:
    """What is installed in `site`."""
    for info in sorted(site.glob("*.dist-info")):
        metadata = email.message_from_string((info / "METADATA").read_text(encoding="utf-8"))
        name, version = metadata["Name"].lower().replace("_", "-"), metadata["Version"]
        component = made(name, version, f"pkg:pypi/{name}@{version}")
        component["hashes"] = [
            {"alg": "SHA-256", "content": hashlib.sha256(wheel_of(info, wheels).read_bytes()).hexdigest()}
        ]
        if licence := metadata["License-Expression"]:
            component["licenses"] = [{"expression": licence}]
        elif names := licence_names(metadata):
            component["licenses"] = [{"license": {"name": name}} for name in names]
        yield component


def licence_names(metadata: email.message.Message) -> list[str]:
    """As older packages tell them: in a field of its own, which some put the whole text into, or among the classifiers."""
    field = metadata["License"]
    if field and "\n" not in field:
        return [field]
    classifiers = [value.split(" :: ") for value in metadata.get_all("Classifier", ())]
    return [parts[-1] for parts in classifiers if parts[0] == "License"]


def wheel_of(info: pathlib.Path, wheels: pathlib.Path) -> pathlib.Path:
    """The wheel that was installed, of those for several platforms: the one with the installed one's tags."""
    tags = set(email.message_from_string((info / "WHEEL").read_text(encoding="utf-8")).get_all("Tag", ()))
    [found] = [
        wheel for wheel in wheels.glob("*.whl") if same_release(wheel, info) and not tags.isdisjoint(tags_of(wheel))
    ]
    return found


def same_release(wheel: pathlib.Path, info: pathlib.Path) -> bool:
    """Whether both are of one name and version."""
    name, version, *_ = wheel.name.split("-")
    return f"{name}-{version}".lower() == info.name.removesuffix(".dist-info").lower()


def tags_of(wheel: pathlib.Path) -> set[str]:
    """The tags that a wheel's name stands for: each part may have several."""
    pythons, abis, platforms = (part.split(".") for part in wheel.stem.split("-")[-3:])
    return {f"{python}-{abi}-{target}" for python in pythons for abi in abis for target in platforms}


def base_components(copied: Iterable[pathlib.Path]) -> Iterator[Component]:
    """The base's packages that files were taken of, by dpkg's word; Python itself if it is of none."""
    release = platform.freedesktop_os_release()
    yield {"type": "operating-system", "name": release["ID"], "version": release.get("VERSION_ID", ""), "bom-ref": "os"}
    owners = {file: package_of(file) for file in copied}
    if any("python" in file.name and not owner for file, owner in owners.items()):
        version = platform.python_version()
        yield made("python", version, f"pkg:generic/python@{version}")
    for package in sorted({owner for owner in owners.values() if owner}):
        name, version, architecture = query("-W", "-f", "${Package} ${Version} ${Architecture}", package).split()
        # A package URL has : and + only for its own purposes.
        encoded = urllib.parse.quote(version, safe="")
        yield made(name, version, f"pkg:deb/{release['ID']}/{name}@{encoded}?arch={architecture}")


@functools.cache
def package_of(file: pathlib.Path) -> str:
    """The package that owns a file, "" for none. With /usr merged, dpkg may know it by either path."""
    found = query("-S", str(file), str(file.resolve()), str(pathlib.Path("/usr", *file.parts[1:])))
    return found.partition(": ")[0]


def query(*arguments: str) -> str:
    """What dpkg-query knows of it, "" if there is no dpkg."""
    try:
        done = subprocess.run(["dpkg-query", *arguments], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def made(name: str, version: str, purl: str) -> Component:
    """A library, by name, version and package URL."""
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
