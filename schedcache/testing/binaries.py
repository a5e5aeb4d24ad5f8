"""Finds the programs of a real control plane, or builds them from the Go module that ships with this package."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from schedcache.testing.processes import SupervisedProcess, exclusive_lock

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
LINE_INTERVAL_SECONDS = 15.0
TERMINAL_INTERVAL_SECONDS = 0.5


class BinaryError(RuntimeError):
    """A program could neither be found nor built; the message says what to install or set."""


def find_binaries(names: Iterable[str] = CONTROL_PLANE, progress: TextIO | None = None) -> dict[str, Path]:
    """Paths of control-plane programs, which are built first if necessary.

    Looked for in the folder ``$KUBEBUILDER_ASSETS`` (setup-envtest's), in ``$PATH``, then in :func:`cache_folder`.
    What is missing is built into the cache folder with Go, once per version of the module: about four minutes for the
    API server on two cores. Processes that build at the same time wait for one another.

    Args:
        names: keys of :data:`PACKAGES`.
        progress: stream for progress while something is built: one line kept up to date on a terminal, plain lines
            elsewhere. Default: standard error.

    Raises:
        KeyError: a name that is not in :data:`PACKAGES`.
        BinaryError: a build failed, or Go is not installed.
    """
    found = {name: find_binary(name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        found.update(build_binaries(missing, sys.stderr if progress is None else progress))
    return {name: path for name, path in found.items() if path is not None}


def find_binary(name: str) -> Path | None:
    """Path of a program of :data:`PACKAGES` that exists already."""
    if name not in PACKAGES:
        raise KeyError(f"unknown program {name!r}, expected one of {', '.join(PACKAGES)}")
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in (assets, os.environ.get("PATH"), str(cache_folder())):
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
    """``$XDG_CACHE_HOME/schedcache/controlplane/KEY``; a changed module or another platform is another key."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()
    key = f"{kubernetes_version()}-{digest[:12]}-{sys.platform}-{platform.machine()}"
    return Path(cache).absolute() / "schedcache" / "controlplane" / key


def build_binaries(names: Iterable[str], progress: TextIO) -> dict[str, Path]:
    """Build programs into the cache folder; those that are there already are left as they are.

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
        return {name: build_binary(name, folder, report) for name in names}


def build_binary(name: str, folder: Path, report: "ProgressReport") -> Path:
    """Build one program unless it is there. The caller holds the folder's lock."""
    target = folder / name
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise BinaryError(
            f"{name} was not found in $KUBEBUILDER_ASSETS, $PATH or {folder}, and Go, which could build it, is not "
            f"installed. Install Go {go_version()} or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a "
            "folder with etcd and kube-apiserver, such as the one setup-envtest prints."
        )
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


def compile_package(name: str, work: Path, report: "ProgressReport") -> None:
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


def follow_build(name: str, build: SupervisedProcess, output: TextIO, report: "ProgressReport") -> int:
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


class ProgressReport:
    """One line kept up to date on a terminal; elsewhere a line now and then.

    Args:
        stream: where to write.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._started = self._shown = time.monotonic()
        self._open_line = False

    def start(self, text: str) -> None:
        """Begin a piece of work; times count from here."""
        self._started = self._shown = time.monotonic()
        self.line(text)

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.finish()
        self._write(f"{text}\n")

    def show(self, text: str) -> None:
        """Show a state that the next one replaces."""
        now = time.monotonic()
        if self._terminal:
            self._write(f"\r\x1b[K{text} ({self.elapsed()})")
            self._open_line = True
        elif now - self._shown >= LINE_INTERVAL_SECONDS:
            self._write(f"{text} ({self.elapsed()})\n")
            self._shown = now

    def finish(self) -> None:
        """Take the replaceable line away."""
        if self._open_line:
            self._write("\r\x1b[K")
            self._open_line = False

    def elapsed(self) -> str:
        """Minutes and seconds since :meth:`start`."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}:{seconds:02d}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
