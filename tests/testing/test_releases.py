import contextlib
import hashlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from schedcache.testing import BinaryError, binaries, find_binaries, find_binary, progress, releases
from tests.packaging import pages

PROGRAM = "#!/bin/sh\necho {}\n"


def archive_of(*programs):
    """As upstream packs them, with what we do not want beside them; the padding does not compress."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        folder = tarfile.TarInfo("controller-tools/envtest/")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        contents = {name: PROGRAM.format(name).encode() for name in programs}
        for name, content in {**contents, "padding": os.urandom(300_000)}.items():
            member = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


ARCHIVE = archive_of("etcd", "kube-apiserver", "kubectl")


class Mirror(ThreadingHTTPServer):
    """Has one file; `misbehave` is called with the handler before each answer, and does all of it if it returns true."""

    daemon_threads = True

    def __init__(self, content=ARCHIVE):
        super().__init__(("127.0.0.1", 0), MirrorHandler)
        self.content = content
        self.misbehave = lambda handler: False
        self.requests = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/mirror"

    def handle_error(self, request, client_address):
        """A client that hangs up is what some tests are about."""


class MirrorHandler(BaseHTTPRequestHandler):
    def log_message(self, format, *args):  # noqa: A002 -- the base class names it so
        pass

    def do_GET(self):
        self.server.requests.append((self.path, self.headers["Range"]))
        if not self.server.misbehave(self):
            self.answer()

    def answer(self, upto=None):
        content = self.server.content
        begin = int(re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "bytes=0-")[1])
        if begin >= len(content):
            return self.send_error(416)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin:upto])
        return None


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A machine without programs or Go and with an empty cache, whose releases come from loopback."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    pin(monkeypatch, ARCHIVE)
    with Mirror() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("SCHEDCACHE_ENVTEST_URL", f"{server.url}/")
        yield server
        server.shutdown()


def pin(monkeypatch, content):
    monkeypatch.setattr(releases, "DIGESTS", {releases.platform_name(): hashlib.sha512(content).hexdigest()})


def not_fetched(names=("etcd",)):
    """The reason, as a machine shows it that cannot build either."""
    shown = io.StringIO()
    with pytest.raises(BinaryError, match="was not fetched, and Go, which could build it, is not installed"):
        find_binaries(names, shown)
    [reason] = [line for line in shown.getvalue().splitlines() if line.startswith("not fetched: ")]
    return reason


def kept():
    return {path.name: path.stat().st_size for path in releases.release_folder().iterdir() if path.name != "lock"}


PART = f"{releases.archive_name()}.part"


def test_a_release_is_fetched_instead_of_built(mirror):
    shown = io.StringIO()
    found = find_binaries(progress=shown)
    folder = releases.release_folder()
    assert found == {name: folder / name for name in ("etcd", "kube-apiserver")}
    assert subprocess.run([found["etcd"]], capture_output=True, text=True, check=True).stdout == "etcd\n"
    assert sorted(kept()) == ["etcd", "kube-apiserver", "kubectl"]
    path = f"/mirror/envtest-{releases.VERSION}/{releases.archive_name()}"
    assert mirror.requests == [(path, None)]
    begun, ended = shown.getvalue().splitlines()
    assert (
        begun == f"fetching etcd and kube-apiserver {releases.VERSION} from {mirror.url}{path.removeprefix('/mirror')}"
    )
    assert re.fullmatch(rf"fetched etcd and kube-apiserver {releases.VERSION} in 0:0\d", ended)
    assert find_binaries(["etcd", "kubectl"], shown) == {"etcd": folder / "etcd", "kubectl": folder / "kubectl"}
    assert len(mirror.requests) == 1


def test_what_was_built_comes_before_what_was_fetched(mirror):
    find_binaries(progress=io.StringIO())
    built = binaries.cache_folder() / "etcd"
    built.write_text("#!/bin/sh\n")
    built.chmod(0o755)
    assert find_binary("etcd") == built


def test_another_digest_is_refused(mirror, monkeypatch):
    pin(monkeypatch, b"what was reviewed")
    assert not_fetched() == f"not fetched: {releases.release_url()} is refused: its SHA-512 is not the pinned one"
    assert kept() == {}
    assert find_binary("etcd") is None


def test_an_interrupted_download_goes_on_where_it_ended(mirror):
    def cut(handler):
        handler.server.misbehave = lambda _: False
        handler.answer(upto=200_000)
        return True

    mirror.misbehave = cut
    find_binaries(progress=io.StringIO())
    assert [asked for _, asked in mirror.requests] == [None, "bytes=200000-"]
    assert sorted(kept()) == ["etcd", "kube-apiserver", "kubectl"]


def test_the_next_run_goes_on_as_well(mirror):
    def cut(handler):
        handler.server.misbehave = lambda late: late.send_error(503) or True
        handler.answer(upto=200_000)
        return True

    mirror.misbehave = cut
    assert not_fetched().endswith("HTTP Error 503: Service Unavailable")
    assert kept() == {PART: 200_000}
    mirror.misbehave = lambda _: False
    find_binaries(progress=io.StringIO())
    assert mirror.requests[-1][1] == "bytes=200000-"


@pytest.mark.parametrize("part", [b"of another file", ARCHIVE + b"too much", os.urandom(len(ARCHIVE))])
def test_a_beginning_of_something_else_is_thrown_away(mirror, part):
    releases.release_folder().mkdir(parents=True)
    (releases.release_folder() / PART).write_bytes(part)
    find_binaries(progress=io.StringIO())
    assert [asked for _, asked in mirror.requests] == [f"bytes={len(part)}-", None]
    assert sorted(kept()) == ["etcd", "kube-apiserver", "kubectl"]


def test_a_whole_archive_that_was_not_unpacked_is_not_fetched_again(mirror):
    releases.release_folder().mkdir(parents=True)
    (releases.release_folder() / PART).write_bytes(ARCHIVE)
    (releases.release_folder() / "unpack-killed").mkdir()
    find_binaries(progress=io.StringIO())
    assert mirror.requests == []
    assert sorted(kept()) == ["etcd", "kube-apiserver", "kubectl"]


def test_a_server_that_cannot_resume_sends_all_of_it_again(mirror):
    def whole(handler):
        del handler.headers["Range"]
        return False

    mirror.misbehave = whole
    releases.release_folder().mkdir(parents=True)
    (releases.release_folder() / PART).write_bytes(ARCHIVE[:1000])
    find_binaries(progress=io.StringIO())
    assert len(mirror.requests) == 1


def test_a_server_that_cuts_without_end_is_given_up(mirror):
    def crumb(handler):
        begin = int((handler.headers["Range"] or "bytes=0-")[6:-1])
        handler.answer(upto=begin + 10)
        return True

    mirror.misbehave = crumb
    assert f"the connection ended after 110 of {len(ARCHIVE)} bytes" in not_fetched()
    assert len(mirror.requests) == releases.RESUMPTIONS + 1


def test_a_mirror_without_the_archive_is_asked_once(mirror):
    mirror.misbehave = lambda handler: handler.send_error(404) or True
    assert not_fetched() == f"not fetched: {releases.release_url()}: HTTP Error 404: Not Found"
    assert len(mirror.requests) == 1


def test_redirections_are_followed_with_the_range(mirror):
    def elsewhere(handler):
        if handler.path.startswith("/elsewhere"):
            return False
        handler.send_response(302)
        handler.send_header("Location", f"/elsewhere{handler.path}")
        handler.end_headers()
        return True

    mirror.misbehave = elsewhere
    releases.release_folder().mkdir(parents=True)
    (releases.release_folder() / PART).write_bytes(ARCHIVE[:1000])
    find_binaries(progress=io.StringIO())
    assert [(path[:7], asked) for path, asked in mirror.requests] == [
        ("/mirror", "bytes=1000-"),
        ("/elsewh", "bytes=1000-"),
    ]


def test_a_server_that_stalls_is_given_up_and_what_came_is_kept(mirror, monkeypatch):
    monkeypatch.setattr(releases, "SILENCE_SECONDS", 0.2)
    over = threading.Event()

    def stall(handler):
        handler.server.misbehave = lambda _: over.wait(10)
        handler.answer(upto=200_000)
        handler.wfile.flush()
        return over.wait(10)

    mirror.misbehave = stall
    begin = time.monotonic()
    assert "timed out" in not_fetched()
    assert time.monotonic() - begin < 5
    assert kept() == {PART: 200_000}
    over.set()


def test_a_server_that_crawls_is_given_up_and_what_came_is_kept(mirror, monkeypatch):
    monkeypatch.setattr(releases, "SLOW_WINDOW_SECONDS", 0.3)
    over = threading.Event()

    def crawl(handler):
        handler.answer(upto=1000)
        with contextlib.suppress(OSError):
            for byte in range(1000, 2000):
                if over.wait(0.02):
                    break
                handler.wfile.write(ARCHIVE[byte : byte + 1])
        return True

    mirror.misbehave = crawl
    assert re.search(r"comes too slowly, with [0-9] KiB/s", not_fetched())
    assert len(mirror.requests) == 1
    assert 1000 < kept()[PART] < 2000
    over.set()


def test_a_server_that_never_answers_costs_seconds(mirror, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("SCHEDCACHE_ENVTEST_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        begin = time.monotonic()
        assert "timed out" in not_fetched()
        assert time.monotonic() - begin < releases.REACH_SECONDS + 1


def test_a_name_that_does_not_resolve_in_time_costs_seconds(mirror, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: over.wait(10) and [])
    monkeypatch.setattr(releases, "REACH_SECONDS", 0.3)
    monkeypatch.setenv("SCHEDCACHE_ENVTEST_URL", "https://releases.example")
    begin = time.monotonic()
    assert not_fetched().endswith(": no answer within 0.3 s")
    assert time.monotonic() - begin < 3
    over.set()


def test_an_answer_that_comes_too_late_is_closed(mirror, monkeypatch):
    monkeypatch.setattr(releases, "REACH_SECONDS", 0.1)
    closed = threading.Event()
    close = releases.close_late_answer
    monkeypatch.setattr(releases, "close_late_answer", lambda answer: (close(answer), closed.set()))
    mirror.misbehave = lambda _: time.sleep(0.4)
    assert "no answer within 0.1 s" in not_fetched()
    assert closed.wait(10)


def test_a_refused_connection_costs_nothing(mirror, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    monkeypatch.setenv("SCHEDCACHE_ENVTEST_URL", f"http://127.0.0.1:{port}")
    begin = time.monotonic()
    assert "Connection refused" in not_fetched()
    assert time.monotonic() - begin < 2


def test_fetching_can_be_turned_off(mirror, monkeypatch):
    monkeypatch.setenv("SCHEDCACHE_ENVTEST_URL", "off")
    with pytest.raises(BinaryError):
        find_binaries(progress=(shown := io.StringIO()))
    assert shown.getvalue() == ""
    assert mirror.requests == []


def test_the_url_is_one(mirror, monkeypatch):
    monkeypatch.setenv("SCHEDCACHE_ENVTEST_URL", "file:///etc")
    assert not_fetched() == (
        "not fetched: SCHEDCACHE_ENVTEST_URL is 'file:///etc', expected 'off' or a URL that begins with https:// or http://"
    )


def test_by_default_it_is_upstreams_own_release(monkeypatch):
    monkeypatch.delenv("SCHEDCACHE_ENVTEST_URL", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(releases.platform, "machine", lambda: "arm64")
    upstream = "https://github.com/kubernetes-sigs/controller-tools/releases/download"
    name = f"envtest-{releases.VERSION}"
    assert releases.release_url() == f"{upstream}/{name}/{name}-darwin-arm64.tar.gz"


def test_a_platform_without_a_release_builds(monkeypatch):
    monkeypatch.setattr(releases.platform, "machine", lambda: "riscv64")
    assert releases.release_url() is None


def test_kube_scheduler_is_in_no_release(mirror):
    with pytest.raises(BinaryError):
        find_binaries(["kube-scheduler"], io.StringIO())
    assert mirror.requests == []


def test_an_archive_without_a_program_is_no_release(mirror, monkeypatch):
    mirror.content = archive_of("etcd", "kubectl")
    pin(monkeypatch, mirror.content)
    assert not_fetched(["kube-apiserver"]).endswith(f"{releases.archive_name()} has no kube-apiserver")


def test_progress_says_how_much_of_it_is_there(mirror, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "TERMINAL_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LINE_INTERVAL_SECONDS", 0.0)
    terminal, plain = Terminal(), io.StringIO()
    find_binaries(progress=terminal)
    for name in kept():
        (releases.release_folder() / name).unlink()
    find_binaries(progress=plain)
    assert f"\r\x1b[Kfetching etcd and kube-apiserver: 0.3 of {len(ARCHIVE) / 1e6:.1f} MB (0:00)" in terminal.getvalue()
    assert terminal.getvalue().count("\n") == 2
    assert f"fetching etcd and kube-apiserver: 0.3 of {len(ARCHIVE) / 1e6:.1f} MB (0:00)\n" in plain.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_those_who_need_it_at_the_same_time_fetch_it_once(mirror):
    mirror.misbehave = lambda _: time.sleep(0.3)
    streams = [io.StringIO() for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda stream: find_binaries(progress=stream), streams))
    assert found == [{name: releases.release_folder() / name for name in ("etcd", "kube-apiserver")}] * 3
    assert len(mirror.requests) == 1
    assert sum("waiting for another process" in stream.getvalue() for stream in streams) == 2


def test_processes_of_different_modules_fetch_it_once_as_well(mirror, tmp_path):
    """Their locks are different ones, except that of the release."""
    mirror.misbehave = lambda _: time.sleep(0.3)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: releases.fetch_release(progress.ProgressReport(io.StringIO())), range(2)))
    assert len(mirror.requests) == 1


def test_a_killed_process_leaves_what_the_next_one_goes_on_with(mirror):
    over = threading.Event()

    def hold(handler):
        handler.answer(upto=200_000)
        handler.wfile.flush()
        return over.wait(20)

    mirror.misbehave = hold
    script = "import sys; from schedcache.testing import releases, find_binaries; "
    script += f"releases.DIGESTS = {releases.DIGESTS!r}; find_binaries(progress=sys.stderr)"
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, env=os.environ) as fetcher:
        deadline = time.monotonic() + 20
        part = releases.release_folder() / PART
        # What is written lies in the file's buffer of at most 128 KiB before it is in the file.
        while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
        fetcher.send_signal(signal.SIGKILL)
    size = part.stat().st_size
    assert size > 0
    mirror.misbehave = lambda _: False
    over.set()
    find_binaries(progress=io.StringIO())
    assert mirror.requests[-1][1] == f"bytes={size}-"
    assert sorted(kept()) == ["etcd", "kube-apiserver", "kubectl"]


def test_the_release_is_of_the_minor_that_is_built_otherwise():
    assert releases.VERSION.rpartition(".")[0] == binaries.kubernetes_version().rpartition(".")[0]


def test_the_page_names_the_versions():
    words = " ".join(pages.text("docs/getting-started.md").split())
    fetched, built = releases.VERSION.removeprefix("v"), binaries.kubernetes_version().removeprefix("v")
    assert f"archive of Kubernetes {fetched}, for" in words
    assert f"a build of Kubernetes {built} from" in words
    assert f"below <{releases.RELEASES_URL}>," in words
    assert f"few patch releases, and none of {built}." in words


def test_every_pinned_digest_is_a_sha_512():
    assert set(releases.DIGESTS) == {"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}
    assert all(re.fullmatch(r"[0-9a-f]{128}", digest) for digest in releases.DIGESTS.values())
    assert set(binaries.PACKAGES) > releases.PROGRAMS
