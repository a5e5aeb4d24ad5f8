"""Reviews and the lookup: what is asked, what the answers mean, and what errors do not say."""

import json

import pytest

from schedcache.kube.access.reviews import (
    ACCESS_REVIEWS,
    CONFIG_MAP,
    TOKEN_REVIEWS,
    ApiReviews,
    cluster_authentication,
)
from schedcache.ports import ClusterAuthentication, OutcomeUnknownError, RefusedError, UnavailableError, UserInfo

SECRET = "s3cr3t"


class Server:
    """Stands for a Transport: answers what it is told to, and remembers what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def send(self, method, path, body):
        self.asked.append((method, path, json.loads(body)))
        return self._answered()

    async def get(self, path, *, timeout):
        self.asked.append(("GET", path, timeout))
        return self._answered()

    def _answered(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()


def token_review(**status):
    return {"kind": "TokenReview", "spec": {"token": SECRET}, "status": status}


USER = {"username": "jane", "uid": "7", "groups": ["b", "a"], "extra": {"y": ["2"], "x": ["1", "3"]}}


async def test_a_token_is_reviewed():
    server = Server(token_review(authenticated=True, user=USER, audiences=["https://kubernetes.default.svc"]))
    user = await ApiReviews(server, server).review_token(SECRET)
    assert user == UserInfo("jane", "7", ("b", "a"), (("x", ("1", "3")), ("y", ("2",))))
    ((method, path, body),) = server.asked
    assert (method, path, body["spec"]) == ("POST", TOKEN_REVIEWS, {"token": SECRET})


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "error": "invalid"},
        {"authenticated": False, "user": USER},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True, "user": None},
    ],
)
async def test_whose_token_it_is_has_to_be_said(status):
    assert await ApiReviews(Server(token_review(**status)), None).review_token(SECRET) is None


@pytest.mark.parametrize(
    ("audiences", "found"),
    [(["ours"], True), (["more", "ours"], True), (["theirs"], False), ([], False), (None, False)],
)
async def test_a_token_has_to_be_for_us_if_we_say_so(audiences, found):
    """Without audiences in the answer it is for the API server alone, says its API."""
    server = Server(token_review(authenticated=True, user=USER, audiences=audiences))
    assert (await ApiReviews(server, server, ("ours", "also")).review_token(SECRET) is not None) is found
    assert server.asked[0][2]["spec"] == {"token": SECRET, "audiences": ["ours", "also"]}


@pytest.mark.parametrize(
    "answer",
    [
        OutcomeUnknownError(f"POST: 500: {SECRET}", status=500, reason="InternalError"),
        RefusedError(f"POST: 403 Forbidden: {SECRET}", status=403, reason="Forbidden"),
        UnavailableError(f"POST: {SECRET}", reason="Unreachable"),
        f'{{"status": {{"authenticated": "{SECRET}"}}}}'.encode(),
        SECRET.encode(),
        b'{"spec": {}}',
    ],
)
async def test_no_answer_is_an_error_without_the_token(answer):
    with pytest.raises(UnavailableError) as raised:
        await ApiReviews(Server(answer), None).review_token(SECRET)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None
    assert TOKEN_REVIEWS in str(raised.value)


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": False, "denied": True, "reason": "no"}, False),
    ],
)
async def test_access_is_reviewed(status, allowed):
    server = Server({"kind": "SubjectAccessReview", "status": status})
    user = UserInfo("jane", "7", ("a",), (("x", ("1",)),))
    assert await ApiReviews(None, server).review_access(user, "get", "/dump") is allowed
    ((method, path, body),) = server.asked
    assert (method, path) == ("POST", ACCESS_REVIEWS)
    assert body["spec"] == {
        "user": "jane",
        "uid": "7",
        "groups": ["a"],
        "extra": {"x": ["1"]},
        "nonResourceAttributes": {"path": "/dump", "verb": "get"},
    }


@pytest.mark.parametrize("answer", [b"{}", b"[]", {"status": {}}, {"status": {"allowed": "yes"}}])
async def test_an_answer_that_makes_no_sense_allows_nothing(answer):
    with pytest.raises(UnavailableError):
        await ApiReviews(None, Server(answer)).review_access(UserInfo("jane"), "get", "/dump")


async def test_what_the_api_server_publishes():
    data = {
        "client-ca-file": "clients",
        "requestheader-client-ca-file": "proxies",
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group","X-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    server = Server({"kind": "ConfigMap", "data": data})
    assert await cluster_authentication(server, 5.0) == ClusterAuthentication(
        "clients",
        "proxies",
        ("front-proxy-client",),
        ("X-Remote-User",),
        ("X-Remote-Uid",),
        ("X-Remote-Group", "X-Group"),
        ("X-Remote-Extra-",),
    )
    assert server.asked == [("GET", CONFIG_MAP, 5.0)]
    assert await cluster_authentication(Server({"data": None}), 5.0) == ClusterAuthentication()
    assert await cluster_authentication(Server({"data": {"client-ca-file": "x"}}), 5.0) == ClusterAuthentication("x")


async def test_a_config_map_that_makes_no_sense_is_an_error():
    for data in ({"requestheader-allowed-names": "front"}, {"requestheader-allowed-names": '{"a": 1}'}):
        with pytest.raises(UnavailableError, match="extension-apiserver-authentication"):
            await cluster_authentication(Server({"data": data}), 5.0)
