"""What the end of a request means: each one thing, decided in one place."""

import ast
import itertools
import ssl
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

import schedcache
from schedcache import framework, ports
from schedcache.kube.http.http_answer import NoAnswerError
from schedcache.kube.http.outcomes import CONNECTION_FAILURES, WATCH, ThrottledError, failure, refusal
from schedcache.kube.http.write_connections import NotSentError
from schedcache.kube.watch.edges import Ending, ending_of
from schedcache.ports import ConflictError, NotFoundError, OutcomeUnknownError, RefusedError, UnavailableError

KEY = ConnectionKey("host", 443, True, True, None, None, None)
NEVER_SENT = [
    NotSentError("cannot connect"),
    aiohttp.ClientConnectorError(KEY, OSError("refused")),
    aiohttp.ClientConnectorDNSError(KEY, OSError("no such name")),
    aiohttp.ConnectionTimeoutError(),
    aiohttp.ClientHttpProxyError(SimpleNamespace(real_url="http://proxy"), (), status=502),
]
BROKEN = [
    NoAnswerError("cut off"),
    aiohttp.ServerDisconnectedError(),
    aiohttp.ClientPayloadError("cut off"),
    aiohttp.ClientConnectionResetError("reset"),
    ConnectionResetError("reset"),
    ssl.SSLError("bad record"),
    OSError("no route"),
]
SILENT = [TimeoutError(), aiohttp.SocketTimeoutError(), aiohttp.ServerTimeoutError()]


@pytest.mark.parametrize("error", [*NEVER_SENT, *BROKEN, *SILENT], ids=repr)
def test_a_request_that_ends_without_an_answer_is_of_one_kind(error):
    assert isinstance(error, CONNECTION_FAILURES)
    sent = error not in NEVER_SENT
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        found = failure(method, "/x", error)
        assert type(found) is (OutcomeUnknownError if sent else UnavailableError)
        assert (found.status, found.reason) == (0, "NoAnswer" if sent else "Unreachable")
    assert type(failure("GET", "/x", error)) is type(failure(WATCH, "/x", error)) is UnavailableError
    assert ending_of(failure("GET", "/x", error)) is Ending.CONNECTION
    assert ending_of(failure(WATCH, "/x", error)) is (Ending.SILENT if error in SILENT else Ending.CONNECTION)


@pytest.mark.parametrize("method", ["GET", WATCH, "POST", "PATCH", "DELETE"])
def test_an_answer_that_is_no_success_is_of_one_kind(method):
    reads = method in ("GET", WATCH)
    for status in (0, 101, *range(300, 600), 999):
        decided = 300 <= status < 500
        want = RefusedError if decided else UnavailableError if reads else OutcomeUnknownError
        want = {429: ThrottledError, 409: RefusedError if reads else ConflictError}.get(status, want)
        found = refusal(method, "/x", status, "Phrase", "3", b'{"reason": "Why", "message": "because"}')
        assert (type(found), found.status, found.reason) == (want, status, "Why")
        assert str(found) == f"{method} /x: {status} Why: because"


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_only_the_api_server_itself_can_say_that_an_object_does_not_exist(method):
    """A pod that runs would be taken for gone, and its room given away, because a proxy has lost its way."""
    said = b'{"kind": "Status", "reason": "NotFound", "message": "pods p not found"}'
    assert type(refusal(method, "/x", 404, "Not Found", None, said)) is NotFoundError
    for body in (b"", b"404 page not found", b"<html>default backend", b"{}", b"[]"):
        assert type(refusal(method, "/x", 404, "Not Found", None, body)) is RefusedError


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_that_is_nested_too_deeply_is_one_all_the_same(method):
    found = refusal(method, "/x", 500, "Phrase", None, b'{"x":' + b"[" * 100_000)
    assert type(found) is (UnavailableError if method == "GET" else OutcomeUnknownError)
    assert str(found).startswith(f'{method} /x: 500 Phrase: {{"x":[[[')


def test_the_same_request_may_succeed_later_where_nobody_has_decided_on_it():
    def may_pass(status):
        return refusal("POST", "/x", status, "", None, b"").may_pass

    assert [status for status in (400, 401, 403, 404, 409, 422, 429, 500, 503) if may_pass(status)] == [429, 500, 503]
    assert failure("POST", "/x", TimeoutError()).may_pass
    assert failure("POST", "/x", NotSentError()).may_pass


def test_no_handler_depends_on_standing_before_another():
    """Where one clause catches a class and another what is derived from it, their order would decide what is done."""
    public = [getattr(package, name) for package in (ports, framework) for name in package.__all__]
    roots = (ports.ApiError, framework.SchedulingFailure)
    classes = {found.__name__: found for found in public if isinstance(found, type) and issubclass(found, roots)}
    classes["ThrottledError"] = ThrottledError
    clauses = 0
    for path in Path(schedcache.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Try):
                caught = [
                    [classes[name.id] for name in ast.walk(handler.type) if getattr(name, "id", "") in classes]
                    for handler in node.handlers
                    if handler.type is not None
                ]
                clauses += sum(map(bool, caught))
                for one, other in itertools.permutations(caught, 2):
                    assert not any(issubclass(a, b) for a in one for b in other), f"{path}:{node.lineno}"
    assert clauses >= 10
