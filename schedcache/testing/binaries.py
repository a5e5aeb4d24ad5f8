"""Finds the programs of a real control plane, fetches them, or builds them from the Go module that ships with this package."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from schedcache.testing.processes import SupervisedProcess, exclusive_lock
from schedcache.testing.progress import TERMINAL_INTERVAL_SECONDS, ProgressReport
from schedcache.testing.releases import PROGRAMS, FetchError, controlplane_cache, fetch_release, release_folder

MODULE = Path(__file__).with_name("controlplane")
MODULE_FILES = ("go.mod", "go.sum", "tools.go")

PACKAGES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
"""Program -> Go package it is built from."""

CONTROL_PLANE = ("etcd", "kube-apiserver")


class BinaryError(RuntimeError):
    """A program could not be found, fetched or built; the message says what to install or set."""


def find_binaries(names: Iterable[str] = CONTROL_PLANE, progress: TextIO | None = None) -> dict[str, Path]:
    """Paths of control-plane programs, which are fetched or built first if necessary.

    Looked for in the folder ``$KUBEBUILDER_ASSETS`` (setup-envtest's), in ``$PATH``, then among what was built or fetched before.
    etcd, kube-apiserver and kubectl that are missing are fetched as envtest releases them, of the same minor of Kubernetes
    as the module, unless ``$SCHEDCACHE_ENVTEST_URL`` is ``off``; it may also be the URL of a mirror. Where that fails, which takes
    seconds, and for kube-scheduler, they are built with Go, once per version of the module: about four minutes for the API
    server on two cores. Processes that do so at the same time wait for one another.

    Args:
        names: keys of :data:`PACKAGES`.
        progress: stream for progress while something is fetched or built: one line kept up to date on a terminal, plain lines
            elsewhere. Default: standard error.

    Raises:
        KeyError: a name that is not in :data:`PACKAGES`.
        BinaryError: a build failed, or Go is not installed.
    """
    found = {name: find_binary(name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        found.update(make_binaries(missing, sys.stderr if progress is None else progress))
    return {name: path for name, path in found.items() if path is not None}


def find_binary(name: str) -> Path | None:
    """Path of a program of :data:`PACKAGES` that exists already."""
    if name not in PACKAGES:
        raise KeyError(f"unknown program {name!r}, expected one of {', '.join(PACKAGES)}")
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in (assets, os.environ.get("PATH"), str(cache_folder()), str(release_folder())):
        path = shutil.which(name, path=folder) if folder else None
        if path is not None:
            return Path(path).absolute()
    return None


def kubernetes_version() -> str:
    """The version of Kubernetes that the module builds, such as ``v1.37.2``."""
    match = re.search(r"^\s*k8s\.io/kubernetes (v\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise BinaryError(f"{MODULE / 'go.mod'} requires no k8s.io/kubernetes")
    return match[1]


def cache_folder() -> Path:
    """Where programs are built: ``$XDG_CACHE_HOME/schedcache/controlplane/KEY``; another module or platform is another key."""
    digest = hashlib.sha256(b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()
    return controlplane_cache() / f"{kubernetes_version()}-{digest[:12]}-{sys.platform}-{platform.machine()}"


def make_binaries(names: Sequence[str], progress: TextIO) -> dict[str, Path]:
    """Fetch programs, or else build them into the cache folder; those that are there by now are left as they are.

    Raises:
        BinaryError: Go is not installed or the build failed. Nothing half-made is left behind.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    report = ProgressReport(progress)
    with exclusive_lock(folder / "lock", lambda: report.line(f"waiting for another process that builds into {folder}")):
        # Whoever made these was killed: we hold the lock they held.
        for leftover in folder.glob("build-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        if any(name in PROGRAMS and find_binary(name) is None for name in names):
            try:
                fetch_release(report)
            except FetchError as error:
                report.line(f"not fetched: {error}")
        return {name: find_binary(name) or build_binary(name, folder, report) for name in names}


def build_binary(name: str, folder: Path, report: ProgressReport) -> Path:
    """Build one program. The caller holds the folder's lock."""
    if shutil.which("go") is None:
        raise BinaryError(
            f"{name} was not found in $KUBEBUILDER_ASSETS, $PATH or {folder}, was not fetched, and Go, which could build it, is "
            f"not installed. Install Go {go_version()} or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a "
            "folder with etcd and kube-apiserver, such as the one setup-envtest prints."
        )
    target = folder / name
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as directory:
        work = Path(directory)
        for file in MODULE_FILES:
            shutil.copyfile(MODULE / file, work / file)
        compile_package(name, work, report)
        (work / name).replace(target)
    return target


def go_version() -> str:
    """The version of Go that the module asks for."""
    match = re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    return match[1] if match else "1.26"


def build_command(name: str, output: Path) -> list[str]:
    """``go build`` with the version that the API server reports stamped in, as Kubernetes' own release build does."""
    version = kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())
    # -v names each package as it is compiled: that is the progress shown.
    return ["go", "build", "-v", "-trimpath", "-ldflags", f"-s -w {flags}", "-o", str(output), PACKAGES[name]]


def compile_package(name: str, work: Path, report: ProgressReport) -> None:
    """Run ``go build`` in ``work``, which holds the module; the program appears there under its name."""
    # GOWORK, GO111MODULE: whatever go.work or GOPATH the user has, this is a module of its own.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on"}
    log = work / "build.log"
    build = SupervisedProcess(build_command(name, work / name), log, environment=environment, directory=work)
    try:
        with log.open(errors="replace") as output:
            status = follow_build(name, build, output, report)
    finally:
        build.kill()
        report.finish()
    if status != 0:
        raise BinaryError(
            f"go build of {name} {kubernetes_version()} failed. It needs Go {go_version()} or newer (https://go.dev/dl), "
            f"a Go module proxy it can reach, and about 4 GB for Go's caches. Its last lines:\n{build.log_tail()}"
        )
    report.line(f"built {name} {kubernetes_version()} in {report.elapsed()}")


def follow_build(name: str, build: SupervisedProcess, output: TextIO, report: ProgressReport) -> int:
    """Show how far the build is until it ends; its exit status."""
    report.start(
        f"building {name} {kubernetes_version()} with Go, once (the API server takes about 4 minutes on two cores)"
    )
    compiled = downloaded = 0
    while True:
        try:
            status: int | None = build.wait(TERMINAL_INTERVAL_SECONDS)
        except subprocess.TimeoutExpired:
            status = None
        for line in output:
            if line.startswith("go: downloading"):
                downloaded += 1
            else:
                compiled += 1
        if status is not None:
            return status
        report.show(f"building {name}: {downloaded} modules downloaded, {compiled} packages compiled")
