"""Helm at work on our chart, without a cluster."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "schedcache"
HELM = ROOT / "hack" / "helm"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
RELEASE = "schedcache"
NAMESPACE = "kube-system"


class HelmError(RuntimeError):
    """Helm refused; the message is what it said."""


def helm(*arguments: str | Path, stdin: str = "") -> str:
    """Standard output of Helm. Raises HelmError."""
    command = [str(HELM), *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HelmError(done.stderr)
    return done.stdout


@cache
def _rendered(values: str, release: str, namespace: str) -> str:
    return helm("template", release, CHART, "--namespace", namespace, "--values", "-", stdin=values)


def render(
    values: dict[str, Any] | Path | None = None, *, release: str = RELEASE, namespace: str = NAMESPACE
) -> list[dict[str, Any]]:
    """The objects that the chart makes of some values or of a file of them. Raises HelmError."""
    text = values.read_text() if isinstance(values, Path) else yaml.safe_dump(values or {})
    return [found for found in yaml.safe_load_all(_rendered(text, release, namespace)) if found is not None]


def of_kind(kind: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a kind, without the hooks."""
    return [found for found in objects if found["kind"] == kind and not is_hook(found)]


def one(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The only one of a kind that is no hook; of several, the one that is called like the Deployment."""
    found = of_kind(kind, objects)
    if len(found) > 1:
        name = one("Deployment", objects)["metadata"]["name"]
        found = [item for item in found if item["metadata"]["name"] == name]
    (only,) = found
    return only


def is_hook(found: dict[str, Any]) -> bool:
    """Whether Helm makes it only for a test."""
    return "helm.sh/hook" in found["metadata"].get("annotations", {})


def pod_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the Deployment's pods."""
    spec: dict[str, Any] = one("Deployment", objects)["spec"]["template"]["spec"]
    return spec


def container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Their only one."""
    (found,) = pod_spec(objects)["containers"]
    only: dict[str, Any] = found
    return only
