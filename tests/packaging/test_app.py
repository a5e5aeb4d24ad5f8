"""The door of `schedcache.app`: its names are loaded when they are asked for, and are all there."""

import subprocess
import sys

import aiohttp
import pytest
import structlog

import schedcache.app
from schedcache.app import Settings, assembled, served


def test_every_name_is_there():
    for name in schedcache.app.__all__:
        assert getattr(schedcache.app, name).__name__ == name
    with pytest.raises(AttributeError, match=r"module 'schedcache\.app' has no attribute 'sevred'"):
        schedcache.app.sevred  # noqa: B018  looking it up is the point


def test_the_package_itself_loads_nothing():
    script = "import sys, schedcache.app; print(*(name for name in sys.modules if name.startswith('schedcache')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["schedcache", "schedcache.app"]


def test_settings_need_nothing_said():
    assert [profile.scheduler_name for profile in Settings().profiles] == ["schedcache"]
    assert Settings().port is None


async def ask(port, host):
    async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics", headers={"Host": host}) as answer:
        return answer.status


async def test_without_tls_it_says_who_can_reach_it_and_answers_none_but_them(unreachable_kubeconfig):
    settings = Settings(kubeconfig=unreachable_kubeconfig, port=0)
    with structlog.testing.capture_logs() as logs:
        async with assembled(settings) as program, served(program) as ports:
            assert (ports.secure_port, ports.probe_port) == (None, None)
            for host in (
                "localhost",
                f"localhost:{ports.port}",
                "127.0.0.1",
                f"127.0.0.1:{ports.port}",
                "[::1]:80",
                "127.1.2.3",
            ):
                assert await ask(ports.port, host) == 200, host
            # A web page that has given its name our address.
            for host in (
                "evil.example",
                f"evil.example:{ports.port}",
                "localhost.evil.example",
                "10.0.0.1",
                "[::2]",
                "",
            ):
                assert await ask(ports.port, host) == 403, host
    (line,) = [line for line in logs if line["event"] == "serving metrics and dump"]
    assert (line["address"], line["tls"], line["open_to"]) == ("127.0.0.1", False, "everybody on this machine")


async def test_without_tls_on_an_address_that_others_reach_there_is_a_warning(unreachable_kubeconfig):
    settings = Settings(kubeconfig=unreachable_kubeconfig, port=0, bind_address="0.0.0.0")
    with structlog.testing.capture_logs() as logs:
        async with assembled(settings) as program, served(program) as ports:
            assert await ask(ports.port, "some.name") == 200
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"].startswith("whoever reaches this address can read everything")


async def test_all_ports_at_once(unreachable_kubeconfig):
    settings = Settings(
        kubeconfig=unreachable_kubeconfig, port=0, secure_port=0, probe_port=0, bind_address="127.0.0.1"
    )
    async with assembled(settings) as program, served(program) as ports:
        assert None not in ports
        assert len(set(ports)) == 3
