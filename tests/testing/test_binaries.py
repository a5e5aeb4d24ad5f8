import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from schedcache.testing import BinaryError, find_binaries, find_binary, progress
from schedcache.testing import binaries as module
from tests.testing.process_table import running, wait_until_ended

FAKE_GO = """#!/bin/sh
# go build ... -o OUTPUT PACKAGE
echo $$ "$@" >> {calls}
while [ "$1" != "-o" ]; do shift; done
test -f go.mod && test -f go.sum && test -f tools.go || exit 9
echo "go: downloading example.com/a v1.0.0" >&2
echo example.com/a >&2
echo example.com/b >&2
{then}
printf '#!/bin/sh\\n' > "$2" && chmod +x "$2"
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """No binaries anywhere, an empty cache, nothing to be fetched, and nothing but a shell in PATH."""
    for name in ("bin", "cache"):
        (tmp_path / name).mkdir()
    for tool in ("sh", "sleep", "chmod", "test"):
        (tmp_path / "bin" / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("SCHEDCACHE_ENVTEST_URL", "off")
    return tmp_path


def install_go(machine, then=""):
    calls = machine / "calls"
    calls.touch()
    program(machine / "bin" / "go", FAKE_GO.format(calls=calls, then=then))
    return calls


def program(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def left_behind():
    return sorted(path.name for path in module.cache_folder().iterdir() if path.name != "lock")


def test_where_programs_are_looked_for(machine, monkeypatch):
    assert find_binary("etcd") is None
    cached = program(module.cache_folder() / "etcd")
    assert find_binary("etcd") == cached
    in_path = program(machine / "bin" / "etcd")
    assert find_binary("etcd") == in_path
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    assert find_binary("etcd") == in_path, "a folder that is not there is passed over"
    asset = program(machine / "assets" / "etcd")
    assert find_binary("etcd") == asset
    asset.chmod(0o644)
    assert find_binary("etcd") == in_path, "what cannot be run is passed over"
    with pytest.raises(KeyError, match="unknown program 'etcdd', expected one of etcd, kube-apiserver"):
        find_binary("etcdd")


def test_the_cache_is_keyed_by_what_is_built(machine, monkeypatch):
    folder = module.cache_folder()
    assert re.fullmatch(r"v1\.\d+\.\d+-[0-9a-f]{12}-\w+-\w+", folder.name)
    assert folder.is_relative_to(machine / "cache" / "schedcache")
    changed = machine / "module"
    changed.mkdir()
    for name in module.MODULE_FILES:
        (changed / name).write_bytes((module.MODULE / name).read_bytes())
    with (changed / "go.sum").open("a") as file:
        file.write("\n")
    monkeypatch.setattr(module, "MODULE", changed)
    assert module.cache_folder() != folder
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert module.cache_folder().is_relative_to(Path.home() / ".cache" / "schedcache")


def test_what_is_missing_is_built_once(machine):
    calls = install_go(machine)
    program(machine / "bin" / "etcd")
    shown = io.StringIO()
    found = find_binaries(progress=shown)
    assert found == {"etcd": machine / "bin" / "etcd", "kube-apiserver": module.cache_folder() / "kube-apiserver"}
    [call] = calls.read_text().splitlines()
    version = module.kubernetes_version()
    minor = version.split(".")[1]
    assert f"-X k8s.io/component-base/version.gitVersion={version}" in call
    assert f"gitMajor=1 -X k8s.io/component-base/version.gitMinor={minor}" in call
    assert call.endswith(" k8s.io/kubernetes/cmd/kube-apiserver")
    begun, ended = shown.getvalue().splitlines()
    assert begun.startswith(f"building kube-apiserver {version} with Go, once")
    assert re.fullmatch(rf"built kube-apiserver {version} in \d:\d\d", ended)
    assert find_binaries(progress=shown) == found
    assert len(calls.read_text().splitlines()) == 1
    assert left_behind() == ["kube-apiserver"]


def test_progress_is_one_line_on_a_terminal_and_plain_lines_elsewhere(machine, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(module, "TERMINAL_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(progress, "TERMINAL_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LINE_INTERVAL_SECONDS", 0.1)
    install_go(machine, then="sleep 0.5")
    terminal, plain = Terminal(), io.StringIO()
    find_binaries(["etcd"], terminal)
    shown = "building etcd: 1 modules downloaded, 2 packages compiled (0:00)"
    assert f"\r\x1b[K{shown}\r\x1b[K" in terminal.getvalue()
    assert terminal.getvalue().count("\n") == 2
    find_binaries(["kubectl"], plain)
    assert 2 <= plain.getvalue().count("building kubectl: 1 modules downloaded, 2 packages compiled (0:00)\n") <= 6
    assert "\x1b" not in plain.getvalue()


def test_without_go_the_error_says_what_to_install(machine):
    with pytest.raises(
        BinaryError, match=r"etcd was not found .* Install Go 1\.\d+\.\d+ or newer .*KUBEBUILDER_ASSETS"
    ):
        find_binaries(["etcd"], io.StringIO())
    assert left_behind() == []


def test_a_failed_build_shows_its_end_and_leaves_nothing(machine):
    install_go(machine, then='echo half > "$2"; echo "no space left on device" >&2; exit 1')
    with pytest.raises(BinaryError, match=r"go build of etcd .* failed(.|\n)*no space left on device"):
        find_binaries(["etcd"], io.StringIO())
    assert left_behind() == []


def test_builders_wait_for_one_another(machine):
    calls = install_go(machine, then="sleep 0.5")
    found, streams = [], [io.StringIO() for _ in range(3)]
    threads = [threading.Thread(target=lambda s=s: found.append(find_binaries(["etcd"], s))) for s in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [{"etcd": module.cache_folder() / "etcd"}] * 3
    assert len(calls.read_text().splitlines()) == 1
    assert sum("waiting for another process" in stream.getvalue() for stream in streams) == 2


def test_a_killed_builder_leaves_no_build_running_and_the_next_one_builds(machine):
    calls = install_go(machine, then="exec sleep 60")
    script = "import sys; from schedcache.testing import find_binaries; find_binaries(['etcd'], sys.stderr)"
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, env=os.environ) as builder:
        deadline = time.monotonic() + 10
        while not calls.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        [build] = [int(line.split()[0]) for line in calls.read_text().splitlines()]
        assert running([build]) == [build]
        builder.send_signal(signal.SIGKILL)
    assert wait_until_ended([build]) == []
    assert [name[:6] for name in left_behind()] == ["build-"]
    install_go(machine)
    find_binaries(["etcd"], io.StringIO())
    assert left_behind() == ["etcd"]


def test_the_module_names_every_program_and_the_version():
    tools = (module.MODULE / "tools.go").read_text()
    assert all(f'_ "{package}"' in tools for package in module.PACKAGES.values())
    assert re.fullmatch(r"v1\.\d+\.\d+", module.kubernetes_version())
    assert re.fullmatch(r"1\.\d+(\.\d+)?", module.go_version())
