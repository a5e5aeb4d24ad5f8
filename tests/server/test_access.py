"""Who may ask: decided by reviews, remembered within bounds, refused in doubt, and never at the expense of others."""

import asyncio
import json
import logging

import aiohttp
import pytest
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from schedcache.app.serving import serve
from schedcache.ports import ClusterAuthentication, UnavailableError, UserInfo
from schedcache.server.access.authentication import CREDENTIAL_ID, Authenticator, bearer_token
from schedcache.server.access.bounded import Budget, Budgets, Kept
from schedcache.server.access.guard import client_of, guard, open_paths
from schedcache.server.access.metrics import AccessCollector
from schedcache.server.access.reviewing import Reviewer, TooManyReviewsError
from schedcache.server.health import Health
from schedcache.server.secure_settings import AccessSettings, TLSSettings
from schedcache.server.stats import ServingStats
from schedcache.server.tls import TLSContexts
from tests.server.pki import Authority, trusting

READER = UserInfo("reader", "1", ("system:serviceaccounts", "system:authenticated"))
STRANGER = UserInfo("stranger")
TOKENS = {"t-reader": READER, "t-stranger": STRANGER, "t-master": UserInfo("root", groups=("system:masters",))}


class Reviews:
    """An API server that can be slow, or down."""

    def __init__(self):
        self.tokens = []
        self.accesses = []
        self.may = {"reader"}
        self.known = dict(TOKENS)
        self.down = False
        self.seconds = 0.0

    async def review_token(self, token):
        self.tokens.append(token)
        await self._answer()
        return self.known.get(token)

    async def review_access(self, user, verb, path):
        self.accesses.append((user, verb, path))
        await self._answer()
        return user.name in self.may

    async def _answer(self):
        await asyncio.sleep(self.seconds)
        if self.down:
            raise UnavailableError("POST /apis: connection refused", reason="Unreachable")


class Guarded:
    """The HTTPS port with its guard; `asked` counts requests that came through to `/dump`."""

    def __init__(self, cluster=None, **settings):
        self.reviews = Reviews()
        self.settings = AccessSettings(**settings)
        self.cluster = cluster or ClusterAuthentication()
        self.now = 1000.0
        self.stats = ServingStats()
        self.asked = 0

    async def __aenter__(self):
        async def dump(request):
            self.asked += 1
            return web.Response(text="the dump")

        self.reviewer = Reviewer(self.reviews, self.settings, lambda: self.now)
        authenticator = Authenticator(self.reviewer, lambda: self.cluster)
        pem = f"{self.cluster.client_ca}{self.cluster.requestheader_client_ca}"
        self.contexts = TLSContexts(TLSSettings(), lambda: pem)
        self._serving = serve(
            [web.get("/dump", dump), *Health([("fine", lambda: "")], []).routes()],
            "127.0.0.1",
            0,
            "--secure-port",
            stats=self.stats,
            tls=self.contexts,
            guards=[guard(authenticator, self.reviewer, self.settings)],
        )
        self.port = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self._serving.__aexit__(*error)

    async def ask(self, path="/dump", token=None, *, method="GET", headers=None, client=None):
        """(status, body, headers)."""
        connector = aiohttp.TCPConnector(ssl=trusting(client=client))
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        async with (
            aiohttp.ClientSession(f"https://127.0.0.1:{self.port}", connector=connector) as session,
            session.request(method, path, headers=headers) as answer,
        ):
            return answer.status, await answer.text(), answer.headers

    async def status(self, *arguments, **more):
        return (await self.ask(*arguments, **more))[0]


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [(None, 401, "Unauthorized"), ("wrong", 401, "Unauthorized"), ("t-stranger", 403, "Forbidden")],
)
async def test_who_is_unknown_or_has_no_right_gets_an_error_of_one_shape(token, status, reason):
    async with Guarded() as port:
        code, text, headers = await port.ask(token=token)
        assert code == status
        found = json.loads(text)
        message = found.pop("message")
        assert found == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": reason,
            "code": status,
        }
        assert message == ("Unauthorized" if status == 401 else 'forbidden: User "stranger" cannot get path "/dump"')
        assert headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)
        assert port.asked == 0
        assert (token is None) == (port.reviews.tokens == [])


async def test_who_has_the_right_is_answered_with_headers_that_keep_it_from_others():
    async with Guarded() as port:
        code, text, headers = await port.ask(token="t-reader")
        assert (code, text) == (200, "the dump")
        assert port.reviews.accesses == [(READER, "get", "/dump")]
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["Server"] == "schedcache"


async def test_masters_need_no_review_of_what_they_may_do():
    async with Guarded() as port:
        assert await port.status(token="t-master") == 200
        assert port.reviews.accesses == []


async def test_the_verb_is_the_method():
    async with Guarded() as port:
        assert await port.status(token="t-reader", method="HEAD") == 200
        assert await port.status(token="t-reader", method="DELETE") == 405
        assert [verb for _, verb, _ in port.reviews.accesses] == ["head", "delete"]


async def test_open_paths_ask_nobody_and_unknown_ones_only_who_it_is():
    async with Guarded() as port:
        for path in ("/livez", "/readyz", "/healthz"):
            assert await port.status(path) == 200
        assert port.reviews.tokens == []
        assert await port.status("/nothing") == 401
        assert await port.status("/nothing", "t-reader") == 404
        assert port.reviews.accesses == []


async def test_none_but_the_paths_that_are_given_are_open():
    async with Guarded(always_allow_paths=("/dump",)) as port:
        assert await port.status("/dump") == 200
        assert await port.status("/livez") == 401


def test_which_paths_are_open():
    is_open = open_paths(("/healthz", "readyz", "/debug/*"))
    assert [path for path in ("/healthz", "/readyz", "/debug/x/y", "/debug/") if not is_open(path)] == []
    assert [path for path in ("/healthzz", "/healthz/", "/", "", "/debug", "//healthz", "/dump") if is_open(path)] == []
    assert not open_paths(())("/livez")
    with pytest.raises(ValueError, match="final"):
        open_paths(("/a*b",))


async def test_answers_are_remembered_for_ten_seconds():
    async with Guarded() as port:
        for _ in range(3):
            assert await port.status(token="t-reader") == 200
            assert await port.status(token="wrong") == 401
            assert await port.status(token="t-stranger") == 403
        assert len(port.reviews.tokens) == 3
        assert len(port.reviews.accesses) == 2
        port.reviews.may = {"stranger"}
        port.now += 10.1
        assert await port.status(token="t-reader") == 403
        assert await port.status(token="t-stranger") == 200
        del port.reviews.known["t-reader"]
        assert await port.status(token="t-reader") == 403
        port.now += 10.1
        assert await port.status(token="t-reader") == 401


@pytest.mark.parametrize("how", ["down", "slow"])
async def test_without_an_api_server_nobody_new_is_answered_and_soon_nobody_at_all(how):
    async with Guarded(review_seconds=0.3) as port:
        assert await port.status(token="t-reader") == 200
        port.reviews.down, port.reviews.seconds = (True, 0) if how == "down" else (False, 60)
        async with asyncio.timeout(1):
            code, text, headers = await port.ask(token="t-other")
        assert (code, json.loads(text)["reason"], headers["Retry-After"]) == (503, "ServiceUnavailable", "1")
        assert await port.status(token="t-reader") == 200
        port.now += 10.1
        async with asyncio.timeout(1):
            assert await port.status(token="t-reader") == 503
        port.reviews.down, port.reviews.seconds = False, 0
        assert await port.status(token="t-reader") == 200


async def test_a_hundred_who_ask_the_same_share_one_review():
    async with Guarded() as port:
        port.reviews.seconds = 0.2
        assert {*await asyncio.gather(*(port.status(token="t-reader") for _ in range(30)))} == {200}
        assert len(port.reviews.tokens) == 1
        assert len(port.reviews.accesses) == 1


async def test_whoever_gives_up_does_not_spoil_it_for_others():
    async with Guarded() as port:
        port.reviews.seconds = 0.3
        first = asyncio.create_task(port.status(token="t-reader"))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(port.status(token="t-reader"))
        await asyncio.sleep(0.1)
        first.cancel()
        assert await second == 200


async def test_a_flood_of_wrong_tokens_neither_reaches_the_api_server_nor_keeps_readers_out():
    async with Guarded() as port:
        assert await port.status(token="t-reader") == 200
        flood = [await port.status(token=f"wrong-{i}") for i in range(60)]
        assert flood.count(401) == 19
        assert flood.count(429) == 41
        assert len(port.reviews.tokens) == 20
        assert await port.status(token="t-reader") == 200
        # Nor when it has to be asked again, from the same address.
        port.now += 10.1
        for i in range(60):
            await port.status(token=f"wronger-{i}")
        assert await port.status(token="t-reader") == 200
        code, text, headers = await port.ask(token="wrong-again")
        assert (code, json.loads(text)["reason"], headers["Retry-After"]) == (429, "TooManyRequests", "1")
        assert await port.status() == 401


async def test_one_address_does_not_use_up_what_others_have():
    reviews, now = Reviews(), 0.0
    reviewer = Reviewer(reviews, AccessSettings(reviews_per_second=1000, review_burst=1000), lambda: now)
    for i in range(20):
        await reviewer.user_of(f"wrong-{i}", "10.0.0.1")
    with pytest.raises(TooManyReviewsError):
        await reviewer.user_of("wrong", "10.0.0.1")
    assert await reviewer.user_of("t-reader", "10.0.0.2") == READER


async def test_all_addresses_together_have_a_limit_which_known_readers_do_not_feel():
    reviews, now = Reviews(), 0.0
    reviewer = Reviewer(reviews, AccessSettings(), lambda: now)
    assert await reviewer.user_of("t-reader", "10.0.0.1") == READER
    refused = 0
    for i in range(500):
        try:
            await reviewer.user_of(f"wrong-{i}", f"10.0.{i // 250}.{i % 250}")
        except TooManyReviewsError:
            refused += 1
    assert refused == 401
    now = 10.1
    for i in range(600):
        with pytest.raises(TooManyReviewsError) if i >= 100 else structlog.testing.capture_logs():
            await reviewer.user_of(f"wronger-{i}", f"10.1.{i // 250}.{i % 250}")
    assert await reviewer.user_of("t-reader", "10.0.0.9") == READER


async def test_one_user_does_not_use_up_what_others_have():
    reviews = Reviews()
    reviewer = Reviewer(reviews, AccessSettings(), lambda: 0.0)
    for i in range(20):
        await reviewer.may(STRANGER, "get", f"/{i}")
    with pytest.raises(TooManyReviewsError):
        await reviewer.may(STRANGER, "get", "/more")
    assert await reviewer.may(READER, "get", "/dump")


async def test_wrong_tokens_do_not_push_out_the_right_ones():
    reviews = Reviews()
    settings = AccessSettings(
        kept_reviews=5, client_review_burst=1000, review_burst=1000, client_reviews_per_second=1000
    )
    reviewer = Reviewer(reviews, settings, lambda: 0.0)
    await reviewer.user_of("t-reader", "a")
    for i in range(100):
        await reviewer.user_of(f"wrong-{i}", "a")
    await reviewer.user_of("t-reader", "a")
    assert reviews.tokens.count("t-reader") == 1
    assert len(reviewer._nobody) == 5


def test_what_is_kept_is_bounded_in_number_and_time():
    now = 0.0
    kept = Kept(3, 10, lambda: now)
    for key in "abc":
        kept.put(key, key.upper())
    assert kept.get("a") == "A"
    kept.put("d", "D")
    assert [kept.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    now = 10.0
    assert [kept.get(key) for key in "abcd"] == [None] * 4
    assert len(kept) == 0
    none = Kept(3, 0, lambda: now)
    none.put("a", 1)
    assert none.get("a") is None


def test_budgets_fill_up_again_and_are_bounded():
    now = 0.0
    budget = Budget(2, 4, lambda: now)
    assert [budget.take() for _ in range(5)] == [True] * 4 + [False]
    now = 1.0
    assert [budget.take() for _ in range(3)] == [True, True, False]
    budgets = Budgets(1, 1, 10, lambda: now)
    assert all(budgets.take(f"client-{i}") for i in range(1000))
    assert len(budgets._budgets) == 10


def test_clients_are_addresses_and_networks_of_ipv6():
    assert client_of("10.0.0.1") == client_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff") == "2001:db8::/64"
    assert client_of("2001:db8:0:1::1") != client_of("2001:db8::1")
    assert client_of("fe80::1%eth0") == "fe80::/64"
    assert client_of(None) == ""


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer   abc ", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer a b", None),
        ("Bearer t\u00f6ken", None),
        ("Bearer \udcff", None),
        ("", None),
    ],
)
def test_bearer_tokens(header, token):
    assert bearer_token({"Authorization": header}) == token


async def answered(port, lines, context):
    """What is answered to a request with these header lines, which may be such as no client library sends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=context)
    head = f"GET /dump HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n"
    writer.write(head.encode("utf-8", "surrogateescape"))
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("token", ["s3cr3t\0", "s3cr3t" * 2000], ids=["control character", "too long"])
async def test_an_error_does_not_quote_the_token_that_it_is_about(token):
    async with Guarded() as port:
        answer = await answered(port, f"Authorization: Bearer {token}\r\n", trusting())
        assert b" 400 " in answer
        assert b"s3cr3t" not in answer


async def test_a_token_that_is_no_text_is_nobodys_and_not_asked_about():
    async with Guarded() as port:
        answer = await answered(port, "Authorization: Bearer \udcff\r\n", trusting())
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert port.reviews.tokens == []


async def test_no_token_is_in_a_log_an_error_or_a_metric(caplog):
    caplog.set_level(logging.DEBUG)
    secret = "s3cr3t-t0ken"
    with structlog.testing.capture_logs() as logs:
        async with Guarded() as port:
            for down in (False, True):
                port.reviews.down = down
                _, text, headers = await port.ask(token=secret)
                port.now += 20
                assert secret not in text + str(dict(headers))
            registry = CollectorRegistry()
            registry.register(AccessCollector(port.reviewer.stats, lambda: 7.0))
            metrics = generate_latest(registry).decode()
            assert secret not in metrics
            assert secret not in repr(vars(port.reviewer))
            assert 'scheduler_http_reviews_total{result="asked",review="token"} 2.0' in metrics
            assert 'scheduler_http_reviews_total{result="failed",review="token"} 1.0' in metrics
            assert "scheduler_http_certificate_expiry_timestamp_seconds 7.0" in metrics
    assert [line["log_level"] for line in logs if "refused" in line["event"]] == ["warning"]
    assert secret not in repr(logs) + caplog.text


async def test_answers_are_counted_by_path_and_code():
    async with Guarded() as port:
        await port.status(token="t-reader")
        await port.status()
        await port.status("/nothing/of/the/kind", "t-reader")
        assert port.stats.answers == {
            ("main", "/dump", 200): 1,
            ("main", "/dump", 401): 1,
            ("main", "other", 404): 1,
        }


@pytest.fixture
def clients(tmp_path):
    return Authority(tmp_path, "clients")


@pytest.fixture
def proxies(tmp_path):
    return Authority(tmp_path, "proxies")


def published(clients, proxies, **more):
    return ClusterAuthentication(
        client_ca=clients.pem.decode(),
        requestheader_client_ca=proxies.pem.decode(),
        requestheader_allowed_names=("front-proxy-client",),
        requestheader_username_headers=("X-Remote-User",),
        requestheader_uid_headers=("X-Remote-Uid",),
        requestheader_group_headers=("X-Remote-Group",),
        requestheader_extra_headers_prefix=("X-Remote-Extra-",),
        **more,
    )


async def test_a_client_certificate_is_a_user_with_its_organizations_as_groups(clients, proxies):
    async with Guarded(published(clients, proxies)) as port:
        assert await port.status(client=clients.client("reader", "team")) == 200
        assert port.reviews.tokens == []
        ((user, verb, path),) = port.reviews.accesses
        assert (user.name, user.groups, verb, path) == ("reader", ("team", "system:authenticated"), "get", "/dump")
        ((key, (credential,)),) = user.extra
        assert key == CREDENTIAL_ID
        assert credential.startswith("X509SHA256=")


HEADERS = {"X-Remote-User": "reader", "X-Remote-Group": "team", "X-Remote-Uid": "7", "X-Remote-Extra-Some%2fKey": "x"}


async def test_a_front_proxy_speaks_for_users(clients, proxies):
    async with Guarded(published(clients, proxies)) as port:
        proxy = proxies.client("front-proxy-client")
        assert await port.status(client=proxy, headers=HEADERS) == 200
        ((user, _, _),) = port.reviews.accesses
        assert user == UserInfo("reader", "7", ("team", "system:authenticated"), (("some/key", ("x",)),))
        # Whom it does not name it does not speak for, and it is no user itself.
        assert await port.status(client=proxy) == 401


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ({"X-Remote-User": "r\udcff"}, UserInfo("r\ufffd", groups=("system:authenticated",))),
        (
            {"X-Remote-User": "r", "X-Remote-Group": "\udcff", "X-Remote-Extra-K": "\udcff", "X-Remote-Uid": "\udcff"},
            UserInfo("r", "\ufffd", ("\ufffd", "system:authenticated"), (("k", ("\ufffd",)),)),
        ),
        ({"X-Remote-User": "system:anonymous"}, UserInfo("system:anonymous")),
    ],
)
async def test_a_review_has_the_user_as_kube_scheduler_writes_it(clients, proxies, headers, user):
    async with Guarded(published(clients, proxies)) as port:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = await answered(port, lines, trusting(client=proxies.client("front-proxy-client")))
        assert head.startswith(b"HTTP/1.1 403 ")
        assert [found for found, _, _ in port.reviews.accesses] == [user]


async def test_nobody_else_speaks_for_users(clients, proxies):
    async with Guarded(published(clients, proxies)) as port:
        assert await port.status(headers=HEADERS) == 401
        assert await port.status(headers=HEADERS, client=proxies.client("another")) == 401
        stranger = clients.client("stranger")
        assert await port.status(headers=HEADERS, client=stranger) == 403
        assert port.reviews.accesses[-1][0].name == "stranger"
        assert await port.status(headers=HEADERS, client=clients.client("front-proxy-client")) == 403


async def test_a_token_counts_where_a_certificate_says_nothing(clients, proxies):
    async with Guarded(published(clients, proxies)) as port:
        assert await port.status(token="t-reader", client=proxies.client("another")) == 200
        # Where it does, the certificate is who it is: as in kube-scheduler.
        assert await port.status(token="t-reader", client=clients.client("stranger")) == 403


async def test_an_authority_that_counts_no_more_does_not_for_open_connections_either(clients, proxies):
    async with Guarded(published(clients, proxies)) as port:
        connector = aiohttp.TCPConnector(ssl=trusting(client=clients.client("reader")))
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port.port}", connector=connector) as session:
            statuses = []
            for cluster in (port.cluster, ClusterAuthentication()):
                port.cluster = cluster
                async with session.get("/dump") as answer:
                    statuses.append(answer.status)
        assert statuses == [200, 401]


async def test_a_certificate_that_expires_does_so_for_open_connections_as_well(clients, proxies):
    async with Guarded(published(clients, proxies)) as port:
        client = clients.client("reader", days=2 / 86400)
        connector = aiohttp.TCPConnector(ssl=trusting(client=client))
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port.port}", connector=connector) as session:
            async with session.get("/dump") as answer:
                assert answer.status == 200
            await asyncio.sleep(2.1)
            async with session.get("/dump") as answer:
                assert answer.status == 401
