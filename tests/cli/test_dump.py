"""`schedcache dump`: what it shows of a dump, what it compares, and whom it asks."""

import asyncio
import contextlib
import json
import threading

import pytest
from aiohttp import web

from schedcache.app.serving import serve
from schedcache.cli.commands import run_command
from schedcache.dump import load_dump
from schedcache.server.secure_settings import TLSSettings
from schedcache.server.tls import TLSContexts
from tests.dump.support import EXAMPLE
from tests.server.pki import Authority


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "dump.json"
    path.write_bytes(EXAMPLE)
    return path


def changed(tmp_path, *replacements):
    text = EXAMPLE
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "later.json"
    path.write_bytes(text)
    return path


def dump(*arguments):
    return run_command(["dump", *map(str, arguments)])


def test_everything_at_a_glance(saved, capsys):
    assert dump("--file", saved) == 0
    out = capsys.readouterr().out
    assert "2026-08-01 12:30:15 UTC, generation 7" in out
    assert "1 nodes, 1 pods: 1 assumed" in out
    for words in (("default/waits", "1", "NodeResourcesFit", "2s", "1s"), ("n1", "1/110", "0.5/4", "12%")):
        assert any(all(word in line for word in words) for line in out.splitlines()), words


def test_a_pod_and_what_happened_to_it(saved, capsys):
    assert dump("default/web", "--file", saved) == 0
    out = capsys.readouterr().out
    for word in ("assumed", "n1", "u1", "12:30:45", "assume_pod"):
        assert word in out


def test_a_node_with_its_sums_and_pods(saved, capsys):
    assert dump("n1", "--file", saved) == 0
    out = capsys.readouterr().out
    for word in ("example.com/gpu", "0.5", "default/web"):
        assert word in out


@pytest.mark.parametrize(
    ("what", "says"), [("default/no", "there is no pod default/no"), ("n2", "there is no node n2")]
)
def test_what_is_not_in_it_is_an_answer_too(saved, capsys, what, says):
    assert dump(what, "--file", saved) == 1
    assert says in capsys.readouterr().err


def test_json_is_what_was_read_and_it_can_be_saved(saved, tmp_path, capsys):
    assert dump("--file", saved, "-o", "json", "--save", tmp_path / "copy.json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(EXAMPLE)
    assert (tmp_path / "copy.json").read_bytes() == EXAMPLE


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--file", "/no/such/file"), "/no/such/file: No such file"),
        (("a", "b"), "expected one NAMESPACE/POD or NODE, got a b"),
        (("diff", "a"), "diff: expected two files"),
        (("--file", "x", "--url", "y"), "--file and --url: expected one of them"),
        (("--url", "ftp://x"), "--url: expected a URL"),
        (("--url", "https://x", "--certificate-authority", "/no/file"), "--certificate-authority: /no/file"),
        (("--kubeconfig", "/no/such/file"), "/no/such/file"),
    ],
)
def test_bad_input_is_named(arguments, says, capsys):
    assert dump(*arguments) == 2
    assert says in capsys.readouterr().err


def test_what_is_no_dump_is_named(tmp_path, capsys):
    path = tmp_path / "pods.json"
    path.write_text('{"kind": "PodList"}')
    assert dump("--file", path) == 2
    assert "kind: expected 'Dump', got 'PodList'" in capsys.readouterr().err


def test_two_dumps_are_compared(saved, tmp_path, capsys):
    assert dump("diff", saved, saved) == 0
    assert "nothing differs" in capsys.readouterr().out
    later = changed(
        tmp_path,
        (b'"milliCpu": 500', b'"milliCpu": 600'),
        (b'"attempts": 1', b'"attempts": 4'),
        (b'"pods": ["u1"]', b'"pods": ["u1", "u7"]'),
        (b'"state": "assumed"', b'"state": "bound"'),
        (b"12:30:45Z", b"12:31:45Z"),
    )
    assert dump("diff", saved, later, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["nodes"] == [
        {"name": "n1", "field": "nonZeroRequested.milliCpu", "before": 500, "after": 600},
        {"name": "n1", "field": "pods", "before": ["u1"], "after": ["u1", "u7"]},
        {"name": "n1", "field": "requested.milliCpu", "before": 500, "after": 600},
    ]
    assert found["pods"] == [
        {"name": "default/web", "uid": "u1", "field": "state", "before": "assumed", "after": "bound"}
    ]
    assert found["queue"] == [{"name": "default/waits", "uid": "u2", "field": "attempts", "before": 1, "after": 4}]
    assert dump("diff", saved, later) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["n1", "│", "pods", "│", "│", "u7"] in rows


def test_what_came_and_went_is_told(saved, tmp_path, capsys):
    later = changed(tmp_path, (b'"nodes": {"n1"', b'"nodes": {"n2"'))
    assert dump("diff", saved, later, "-o", "json") == 1
    assert json.loads(capsys.readouterr().out)["nodes"] == [
        {"name": "n1", "change": "removed"},
        {"name": "n2", "change": "added"},
    ]


@contextlib.contextmanager
def served(handler, tls=None):
    """A port in a thread of its own, since a command runs its own event loop."""
    ready, stop = threading.Event(), None
    found = {}

    async def run():
        nonlocal stop
        stop = asyncio.Event()
        found["loop"] = asyncio.get_running_loop()
        async with serve([web.get("/dump", handler)], "127.0.0.1", 0, "--port", tls=tls) as port:
            found["port"] = port
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield found["port"]
    finally:
        found["loop"].call_soon_threadsafe(stop.set)
        thread.join()


def test_a_scheduler_at_an_address_is_asked_for_what_is_shown(capsys):
    asked = []

    async def answer(request):
        asked.append((dict(request.query), request.headers.get("Authorization")))
        return web.Response(body=EXAMPLE, content_type="application/json")

    with served(answer) as port:
        url = f"http://127.0.0.1:{port}"
        assert dump("--url", url, "-o", "json") == 0
        assert load_dump(capsys.readouterr().out).generation == 7
        assert dump("--url", f"{url}/", "default/web", "--token", "abc") == 0
        assert dump("--url", url, "n1") == 0
    assert asked == [
        ({}, None),
        ({"namespace": "default", "stories": "default/web"}, "Bearer abc"),
        ({"nodes": "n1", "stories": "n1"}, None),
    ]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (web.HTTPUnauthorized(text="Unauthorized"), "401: Unauthorized; it knows neither token nor certificate"),
        (web.HTTPForbidden(text="forbidden: no"), "403: forbidden: no; somebody who may has to: kubectl create"),
        (web.HTTPServiceUnavailable(text="later"), "503: later"),
    ],
)
def test_a_refusal_says_why_and_what_may_help(error, says, capsys):
    async def refuse(request):
        raise error

    with served(refuse) as port:
        assert dump("--url", f"http://127.0.0.1:{port}") == 1
    assert says in capsys.readouterr().err


def test_nobody_at_the_address_is_told(capsys):
    assert dump("--url", "http://127.0.0.1:1") == 1
    said = capsys.readouterr().err
    assert "http://127.0.0.1:1: " in said
    assert "SSLContext" not in said


def test_the_certificate_at_an_address_is_verified_unless_it_shall_not_be(tmp_path, capsys):
    async def answer(request):
        return web.Response(body=EXAMPLE, content_type="application/json")

    authority = Authority(tmp_path)
    files = authority.server()
    tls = TLSContexts(TLSSettings(cert_file=files.certificate, private_key_file=files.key), str)
    with served(answer, tls) as port:
        url = f"https://127.0.0.1:{port}"
        assert dump("--url", url) == 1
        assert "certificate" in capsys.readouterr().err.lower()
        assert dump("--url", url, "--insecure-skip-tls-verify") == 0
