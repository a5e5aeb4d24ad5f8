"""Writes deploy/scheduler and deploy/observe, for `kubectl apply`, from the chart: one file for each of its templates."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "schedcache"
NAMESPACE = "kube-system"
RELEASES = {
    "scheduler": ("schedcache", ()),
    "observe": ("schedcache-observer", ("--values", str(CHART / "ci" / "observer-values.yaml"))),
}
"""Folder of deploy/ -> name of the release, and arguments for Helm."""
# What is true of a release only.
HELMS = re.compile(r"^ +(?:app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n", re.MULTILINE)


def rendered(folder: str) -> dict[Path, str]:
    """The files of a folder, with what should be in them."""
    name, arguments = RELEASES[folder]
    helm = str(ROOT / "hack" / "helm")
    command = (helm, "template", name, str(CHART), "--namespace", NAMESPACE, "--skip-tests", *arguments)
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", output, flags=re.MULTILINE):
        if source := re.match(r"# Source: schedcache/templates/(\S+)\n", document):
            documents.setdefault(source[1], []).append(HELMS.sub("", document[source.end() :]).strip() + "\n")
    return {
        ROOT / "deploy" / folder / file: "# Rendered from charts/schedcache: make docs.\n" + "---\n".join(parts)
        for file, parts in documents.items()
    }


if __name__ == "__main__":
    for folder in RELEASES:
        files = rendered(folder)
        for stale in set((ROOT / "deploy" / folder).glob("*.yaml")) - files.keys():
            stale.unlink()
        for path, content in files.items():
            path.write_text(content)
        sys.stdout.write(f"wrote deploy/{folder}\n")
