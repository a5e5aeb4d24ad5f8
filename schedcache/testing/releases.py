"""Fetches the programs of a control plane as upstream releases them for tests: envtest's archives, known by their digests."""

import contextlib
import hashlib
import os
import platform
import shutil
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath

from schedcache.testing.processes import exclusive_lock
from schedcache.testing.progress import ProgressReport

VERSION = "v1.37.0"
"""Of Kubernetes. envtest has archives of few patch releases; etcd is 3.7.0, as in the module that is built otherwise."""

DIGESTS: Mapping[str, str] = {
    "linux-amd64": "1d1c453633b72c161a5d5a886cde7ac850be1a2ac796a9e1d4ffacacc6486829"
    "5bdd2d57aa66cd0c158f5ce510f5dfe3fbc61ac21bd3dcfb875bd70658aa663a",
    "linux-arm64": "ae6a670502988200b0131c943758cfd3d3a58cf4e6247ef7f0e6a6467f1cd9a3"
    "33c802e86101f0446b1b92a0e327387224e1e44fe1a4693da0929c6e529cfe9a",
    "darwin-amd64": "19a2a5376a8aa57a7b25ec5198834db29bf2ba0d6ff572d7f45ba683b13fb14c"
    "3ebec8069e92db66c39f1c7a9cff1bc2be879e2aacdc9fa8b8a7e861959bdf7b",
    "darwin-arm64": "fb38cfacdd71b5e97a4d4cceac861af5f55069cf783f0e49cf181bfc32eb3e55"
    "7c2091a534dc5d38f1b92c5ba142bc1979f215a5385b3630ea6a661be6fa161b",
}
"""Platform -> SHA-512 of its archive, as in controller-tools' envtest-releases.yaml."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PROGRAMS = frozenset({"etcd", "kube-apiserver", "kubectl"})
RELEASES_URL = "https://github.com/kubernetes-sigs/controller-tools/releases/download"
URL_VARIABLE = "SCHEDCACHE_ENVTEST_URL"
OFF = "off"

REACH_SECONDS = 5.0
"""From the request to the head of the answer, with everything in between: names, proxies, redirections."""
SILENCE_SECONDS = 3.0
"""For a connection to be made, and without a byte. Shorter than the above: a dead address may be followed by a good one."""
SLOW_WINDOW_SECONDS = 10.0
SLOWEST_BYTES_PER_SECOND = 128 * 1024
"""At this rate, fetching takes as long as building. What has come is kept for the next time."""
RESUMPTIONS = 10
CHUNK_BYTES = 64 * 1024
MEGABYTE = 1_000_000


class FetchError(RuntimeError):
    """The release could not be fetched; the message says why."""


def release_url() -> str | None:
    """Where the archive for this platform is; ``None``: there is none, or fetching is off.

    ``$SCHEDCACHE_ENVTEST_URL`` is ``off`` or the URL of a mirror with the same paths as controller-tools' releases. What a
    mirror has must have the same digest.

    Raises:
        FetchError: the variable has neither.
    """
    base = os.environ.get(URL_VARIABLE) or RELEASES_URL
    if base == OFF or platform_name() not in DIGESTS:
        return None
    if not base.startswith(("https://", "http://")):
        raise FetchError(f"{URL_VARIABLE} is {base!r}, expected {OFF!r} or a URL that begins with https:// or http://")
    return f"{base.rstrip('/')}/envtest-{VERSION}/{archive_name()}"


def platform_name() -> str:
    """As the archives are named, such as ``linux-amd64``."""
    machine = platform.machine().lower()
    return f"{sys.platform}-{ARCHITECTURES.get(machine, machine)}"


def archive_name() -> str:
    """The archive's file name for this platform."""
    return f"envtest-{VERSION}-{platform_name()}.tar.gz"


def release_folder() -> Path:
    """``$XDG_CACHE_HOME/schedcache/controlplane/envtest-VERSION-PLATFORM``, where the programs of a release are kept."""
    return controlplane_cache() / archive_name().removesuffix(".tar.gz")


def controlplane_cache() -> Path:
    """The folder of all programs that were built or fetched: ``$XDG_CACHE_HOME/schedcache/controlplane``."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache).absolute() / "schedcache" / "controlplane"


def fetch_release(report: ProgressReport) -> None:
    """Fetch this platform's archive and unpack it into :func:`release_folder`, unless it is there or fetching is off.

    An interrupted download is resumed, also by a later call. Processes that fetch at the same time wait for one another.

    Raises:
        FetchError: no answer within seconds, a download that stalled or crawled, another digest than the pinned one, or a
            full disk. Nothing that was not verified is ever unpacked.
    """
    url = release_url()
    if url is None:
        return
    folder = release_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(folder / "lock", lambda: report.line(f"waiting for another process that fetches {url}")):
            if all((folder / name).exists() for name in PROGRAMS):
                return
            report.start(f"fetching etcd and kube-apiserver {VERSION} from {url}")
            archive = folder / f"{archive_name()}.part"
            download_verified(url, archive, report)
            unpack(archive, folder)
            archive.unlink()
            report.line(f"fetched etcd and kube-apiserver {VERSION} in {report.elapsed()}")
    except OSError as error:
        raise FetchError(f"{url}: {error}") from error
    finally:
        report.finish()


def download_verified(url: str, archive: Path, report: ProgressReport) -> None:
    """Make ``archive`` the file with the pinned digest, going on from what is there; with another digest, it is removed.

    Raises:
        FetchError: what ``url`` has is another file.
        OSError: see :func:`download`.
    """
    while not is_verified(archive):
        begun_earlier = archive.exists()
        download(url, archive, report)
        if not is_verified(archive):
            archive.unlink()
            # The beginning may be of another file, or damaged; then a whole new one is right.
            if not begun_earlier:
                raise FetchError(f"{url} is refused: its SHA-512 is not the pinned one")


def is_verified(archive: Path) -> bool:
    """Whether the file is there with the pinned digest."""
    with contextlib.suppress(FileNotFoundError), archive.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest() == DIGESTS[platform_name()]
    return False


def download(url: str, part: Path, report: ProgressReport) -> None:
    """Download into ``part``, after what it holds already. A connection that breaks is made again if it brought anything.

    Raises:
        OSError: it broke, or never answered.
        FetchError: it is too slow.
    """
    for left in reversed(range(RESUMPTIONS + 1)):
        begin = part.stat().st_size if part.exists() else 0
        try:
            receive(url, part, begin, report)
        except urllib.error.HTTPError as error:
            error.close()
            # We hold as much as it has, or more, and yet it is not the right file.
            if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not begin:
                raise
            part.unlink()
        except (OSError, HTTPException) as error:
            if not left or not part.exists() or part.stat().st_size <= begin:
                raise error if isinstance(error, OSError) else ConnectionError(repr(error)) from error
        else:
            return


def receive(url: str, part: Path, begin: int, report: ProgressReport) -> None:
    """One request for the bytes from ``begin`` on."""
    with open_url(url, begin) as response:
        resumed = response.status == HTTPStatus.PARTIAL_CONTENT
        done = begin if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        window_end, window_done = time.monotonic() + SLOW_WINDOW_SECONDS, done
        with part.open("ab" if resumed else "wb") as file:
            # read1: what one packet brought; read() would wait for the whole chunk, however slowly it comes.
            while chunk := response.read1(CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                size = f"{done / MEGABYTE:.1f}" + (f" of {total / MEGABYTE:.1f}" if total else "")
                report.show(f"fetching etcd and kube-apiserver: {size} MB")
                if (now := time.monotonic()) >= window_end:
                    rate = (done - window_done) / (now - window_end + SLOW_WINDOW_SECONDS)
                    if rate < SLOWEST_BYTES_PER_SECOND:
                        raise FetchError(f"{url} comes too slowly, with {rate / 1024:.0f} KiB/s")
                    window_end, window_done = now + SLOW_WINDOW_SECONDS, done
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def open_url(url: str, begin: int) -> HTTPResponse:
    """The answer to a GET for the bytes from ``begin`` on; ``TimeoutError`` after :data:`REACH_SECONDS`.

    Asked in a thread that is left behind when time is up: nothing else limits the time that a name takes to resolve.
    """
    request = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"} if begin else {})  # noqa: S310 -- release_url has seen to http(s)
    answer: Future[HTTPResponse] = Future()

    def ask() -> None:
        try:
            answer.set_result(urllib.request.urlopen(request, timeout=SILENCE_SECONDS))  # noqa: S310 -- as above
        except Exception as error:  # noqa: BLE001 -- raised again by result()
            answer.set_exception(error)

    threading.Thread(target=ask, name="fetch", daemon=True).start()
    try:
        return answer.result(REACH_SECONDS)
    except TimeoutError:
        if answer.done():
            raise
        answer.add_done_callback(close_late_answer)
        raise TimeoutError(f"no answer within {REACH_SECONDS:g} s") from None


def close_late_answer(answer: "Future[HTTPResponse]") -> None:
    """Nobody reads it any more."""
    if answer.exception() is None:
        answer.result().close()


def unpack(archive: Path, folder: Path) -> None:
    """Put the programs of a verified archive into ``folder``, each whole or not at all."""
    for leftover in folder.glob("unpack-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    missing = set(PROGRAMS)
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=folder) as work, tarfile.open(archive) as tar:
        for member in tar:
            name = PurePosixPath(member.name).name
            source = tar.extractfile(member) if name in missing and member.isfile() else None
            if source is not None:
                program = Path(work) / name
                with source, program.open("wb") as target:
                    shutil.copyfileobj(source, target)
                program.chmod(0o755)
                program.replace(folder / name)
                missing.discard(name)
    if missing:
        raise FetchError(f"{archive_name()} has no {', '.join(sorted(missing))}")
