"""Extenders over HTTP: what they are sent, and that no answer of theirs, and none at all, does any harm."""

import asyncio
import json
import os
import ssl
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schedcache.kube.extender import wire
from schedcache.kube.extender.client import SLACK_BYTES, ExtenderSettings, ExtenderSetupError, HttpExtenders
from schedcache.kube.extender.tls import TLSSettings
from schedcache.kube.extender.wire import (
    MalformedAnswerError,
    extender_args,
    read_binding_result,
    read_filter_result,
    read_host_priorities,
    read_preemption_result,
)
from schedcache.kube.watch.kinds import KINDS
from schedcache.kube.watch.whole import keeping_json
from schedcache.ports import ExtenderError, Fence, MetaVictims, Victims
from schedcache.testing import make_node, make_pod
from schedcache.testing.certificates import make_certificates, openssl
from tests.kube.extender_server import TEN_MEGABYTES, Server, drip, endless, hang, http, reset, stop_in_the_middle

POD = replace(make_pod("p", uid="u"), json=b'{"metadata":{"name":"p"}}')
NODES = [replace(make_node(name), json=b'{"metadata":{"name":"%s"}}' % name.encode()) for name in "ab"]


@asynccontextmanager
async def extender(
    server: Any,
    context: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    fence: Fence | None = None,
    **settings: Any,
):
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    verbs = {f"{verb}_verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    url = f"{'https' if context else 'http'}://{host}:{port}/x/"
    async with listening, HttpExtenders([ExtenderSettings(url_prefix=url, **verbs | settings)], fence) as extenders:
        [found] = extenders
        yield found


async def result_of(answer: Awaitable[Any]) -> tuple[str, str]:
    with pytest.raises(ExtenderError) as caught:
        await answer
    return caught.value.result, str(caught.value)


# ---- what is sent


async def test_nodes_are_sent_whole_or_by_name_as_the_extender_is_able_to():
    server = Server(http({"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "FailedNodes": {"a": "no"}}))
    async with extender(server) as whole:
        answer = await whole.filter(POD, NODES)
    assert answer == (["b"], {"a": "no"}, {})
    [(head, sent)] = server.requests
    assert head.startswith("POST /x/filter HTTP/1.1\r\n")
    assert "Content-Type: application/json" in head
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    assert sent == {
        "Pod": {"metadata": {"name": "p"}},
        "Nodes": {"metadata": {}, "items": items},
        "NodeNames": None,
    }
    server = Server(http({"NodeNames": ["a"], "FailedAndUnresolvableNodes": {"b": "never"}}))
    async with extender(server, node_cache_capable=True) as named:
        answer = await named.filter(POD, NODES)
    assert answer == (["a"], {}, {"b": "never"})
    assert server.requests[0][1] == {"Pod": {"metadata": {"name": "p"}}, "Nodes": None, "NodeNames": ["a", "b"]}


async def test_scores_bindings_and_victims():
    server = Server(
        http([{"Host": "a", "Score": 7}]),
        http({}),
        http({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v"}], "NumPDBViolations": 2}}}),
    )
    victim = replace(make_pod("v", "a", uid="v"), json=b'{"metadata":{"name":"v"}}')
    async with extender(server, weight=3) as whole:
        assert (whole.weight, await whole.prioritize(POD, NODES)) == (3, [("a", 7)])
        await whole.bind(POD, "a")
        assert await whole.process_preemption(POD, {"a": Victims([victim], 1)}) == {"a": MetaVictims(["v"], 2)}
    pod = {"metadata": {"name": "p"}}
    assert [sent for _, sent in server.requests[1:]] == [
        {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a"},
        {
            "Pod": pod,
            "NodeNameToVictims": {"a": {"Pods": [{"metadata": {"name": "v"}}], "NumPDBViolations": 1}},
            "NodeNameToMetaVictims": None,
        },
    ]
    assert server.connections == 1, "one connection serves them all"
    async with extender(server, node_cache_capable=True) as named:
        await named.process_preemption(POD, {"a": Victims([victim], 1)})
    assert server.requests[-1][1] == {
        "Pod": pod,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}},
    }


async def test_it_is_interested_in_pods_that_ask_for_what_it_manages():
    extenders = list(
        HttpExtenders(
            [
                ExtenderSettings(url_prefix="http://x", managed_resources=frozenset({"foo.com/bar", "foo.com/baz"})),
                ExtenderSettings(url_prefix="http://y"),
            ]
        )
    )
    pods = [make_pod(), make_pod(requests={"foo.com/baz": 0}), make_pod(requests={"foo.com/other": 1})]
    assert [[each.is_interested(pod) for pod in pods] for each in extenders] == [[False, True, False], [True] * 3]


# ---- what comes back


@pytest.mark.parametrize(
    ("answer", "result", "said"),
    [
        (hang, "timeout", "filter: no answer within 0.3 s"),
        (drip, "timeout", "filter: no answer within 0.3 s"),
        (reset, "disconnected", "filter: the connection ended: "),
        (stop_in_the_middle, "disconnected", "filter: the connection ended: "),
        (endless, "too_large", "filter: the answer is longer than 41"),
        (TEN_MEGABYTES, "too_large", "filter: the answer is longer than 41"),
        (http(b"oops", "500 Internal Server Error"), "status", "x/filter, code 500: oops"),
        (http(b"", "404 Not Found"), "status", "x/filter, code 404"),
        (http(b"", "307 Temporary Redirect", Location="/elsewhere"), "status", "x/filter, code 307"),
        (http(b"\xff" * 10_000_000, "502 Bad Gateway"), "status", "x/filter, code 502: "),
        (http(b"<html>"), "malformed", "filter: the answer cannot be read: JSON is malformed"),
        (http(b""), "malformed", "filter: the answer cannot be read: Input data was truncated"),
        (http([]), "malformed", "filter: the answer cannot be read: Expected `object | null`, got `array`"),
        (http({"NodeNames": 5}), "malformed", "nodenames: Expected `array | null`, got `int`"),
        (http({}, Content_Encoding="gzip"), "malformed", "it is compressed, although that was not requested"),
        (b"hello\r\n\r\n", "malformed", "filter: not HTTP: "),
        (http({"NodeNames": ["a", "nowhere"]}), "wrong", "claims a filtered node 'nowhere' which is not found"),
        (http({"Error": "no licence server"}), "error", "no licence server"),
        (http({"Error": "x" * 3_000_000}), "error", "xxx"),
        (http({"NodeNames": ["x" * 3_000_000]}), "wrong", "claims a filtered node 'xxx"),
        (
            http(b'{"Error": ' + b"[" * 100_000),
            "malformed",
            "the answer cannot be read: maximum recursion depth",
        ),
    ],
)
async def test_every_bad_answer_is_an_error_that_says_what_was_wrong(answer, result, said):
    async with extender(Server(answer), timeout_seconds=0.3, node_cache_capable=True) as peer:
        found, text = await result_of(peer.filter(POD, NODES))
        assert (found, said in text, peer.name in text) == (result, True, True), text
        assert len(text) < 600
        assert [name for name, _ in [await result_of(peer.filter(POD, NODES))]] == [result], "and so is the next one"


async def test_nobody_there_is_told_from_no_answer():
    async with extender(Server(http({}))) as peer:
        pass
    async with HttpExtenders([ExtenderSettings(url_prefix=peer.name, filter_verb="filter")]) as extenders:
        [gone] = extenders
        assert (await result_of(gone.filter(POD, NODES)))[0] == "unreachable"
    with pytest.raises(RuntimeError, match="async with"):
        await gone.filter(POD, NODES)


async def test_nodes_that_were_not_sent_are_an_error_where_nodes_are_sent_whole_too():
    answer = http({"Nodes": {"items": [{"metadata": {"name": "nowhere"}}]}})
    async with extender(Server(answer)) as peer:
        assert (await result_of(peer.filter(POD, NODES)))[0] == "wrong"


def test_whole_nodes_are_not_copied_into_the_request():
    big = [replace(node, json=b'{"x":"%s"}' % (b"y" * 2_000_000)) for node in NODES]
    body = extender_args(POD, big, names_only=False)
    assert all(any(piece is node.json for piece in body) for node in big)
    assert json.loads(b"".join(body))["Nodes"]["items"] == [json.loads(node.json) for node in big]
    assert json.loads(b"".join(extender_args(POD, [], names_only=False)))["Nodes"]["items"] == []


async def test_a_binding_that_was_refused_is_an_error_with_the_reason():
    async with extender(Server(http({"error": "taken"}))) as peer:
        found, text = await result_of(peer.bind(POD, "a"))
        assert (found, text) == ("error", f"extender {peer.name!r}: taken")


async def test_an_answer_may_be_long_where_the_request_was():
    big = [
        replace(node, json=b'{"metadata":{"name":"%s"},"x":"%s"}' % (node.name.encode(), b"y" * 3_000_000))
        for node in NODES
    ]
    items = [json.loads(node.json) for node in big]
    async with extender(Server(http({"Nodes": {"items": items}}))) as peer:
        assert len(json.dumps(items)) > SLACK_BYTES
        assert (await peer.filter(POD, big)).node_names == ["a", "b"]


async def test_a_password_in_the_url_is_used_and_not_told():
    server = Server(http({"Error": "no"}))
    async with extender(server, host="me:secret@127.0.0.1") as peer:
        _, text = await result_of(peer.filter(POD, NODES))
    assert "secret" not in text + peer.name
    assert "Authorization: Basic bWU6c2VjcmV0" in server.requests[0][0]


@pytest.mark.parametrize(
    ("no_proxy", "way"), [("", "http://proxy:3128"), ("example.com", None)], ids=["by proxy", "around it"]
)
def test_the_environments_proxy_is_used_as_in_go(monkeypatch, no_proxy, way):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", no_proxy)
    urls = "http://extender.example.com/x", "http://127.0.0.1/x", "https://extender.example.com/x"
    extenders = HttpExtenders([ExtenderSettings(url_prefix=url) for url in urls])
    assert [each._proxy for each in extenders] == [way, None, None]


# ---- the forms of answers


def read(reading: Any) -> Any:
    """All of it at once."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value


def test_fields_are_found_whatever_their_case_and_null_is_nothing():
    assert read(read_filter_result(b'{"nodes": null, "nodenames": ["a"], "failedNodes": null, "error": null}')) == (
        None,
        ["a"],
        {},
        {},
        "",
    )
    assert read(read_filter_result(b'{"nodes": {"items": null}}')).nodes == []
    assert read(read_filter_result(b"null")) == (None, None, {}, {}, "")
    assert read(read_host_priorities(b'[{"host": "a", "score": 1}, {"HOST": "b"}]')) == [("a", 1), ("b", 0)]
    assert read(read_host_priorities(b"null")) == []
    assert read(read_preemption_result(b'{"nodeNameToMetaVictims": {"a": {"pods": [{"uid": "v"}]}, "b": null}}')) == {
        "a": MetaVictims(["v"], 0),
        "b": MetaVictims([], 0),
    }
    assert read(read_binding_result(b'{"ERROR": "no"}')) == "no"


@pytest.mark.parametrize(
    "body", [b"{}", b'[{"Host": 5}]', b'[{"Host": "a", "Score": "7"}]', b'[{"Host": "a", "Score": 1.5}]', b"[5]"]
)
def test_scores_are_whole_numbers_of_hosts(body):
    with pytest.raises(MalformedAnswerError):
        read(read_host_priorities(body))


def test_a_victim_is_one_however_often_it_is_named():
    body = b'{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v"}, {"UID": "w"}, {"UID": "v"}]}}}'
    assert read(read_preemption_result(body)) == {"a": MetaVictims(["v", "w"], 0)}


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**40])
def test_budgets_are_counted_in_64_bits(number):
    with pytest.raises(MalformedAnswerError, match="numpdbviolations"):
        read(read_preemption_result(b'{"NodeNameToMetaVictims": {"a": {"NumPDBViolations": %d}}}' % number))


def test_long_answers_are_read_in_pieces():
    victims = {f"n{i}": {"Pods": [{"UID": f"u{i}"}]} for i in range(1000)}
    assert len(list(read_preemption_result(json.dumps({"NodeNameToMetaVictims": victims}).encode()))) == 5
    assert len(list(read_filter_result(b'{"Nodes": {"items": []}}'))) == 2


async def test_others_have_their_turn_while_an_answer_is_read(monkeypatch):
    turns = []

    async def other():
        while len(turns) < 10:
            turns.append("other")
            await asyncio.sleep(0)

    def reading(_body):
        others = asyncio.create_task(other())
        for _ in range(12):
            yield
        assert others.done()
        return ""

    monkeypatch.setattr(wire, "read_binding_result", reading)
    async with extender(Server(http({}))) as peer:
        await peer.bind(POD, "a")
    assert len(turns) == 10


# ---- certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    made = make_certificates(folder)
    openssl(folder, "ecparam -name prime256v1 -genkey -noout -out client.key")
    openssl(folder, "req -x509 -new -subj /CN=client -key client.key -days 30 -out client.crt")
    return made, folder / "client.crt", folder / "client.key"


def server_side(certificates, *, asks_client: bool = False) -> ssl.SSLContext:
    made, client, _ = certificates
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.certificate, made.key)
    if asks_client:
        context.load_verify_locations(client)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize(
    ("settings", "answers"),
    [
        ({}, False),
        ({"enable_https": True}, True),
        ({"tls": {"insecure": True}}, True),
        ({"tls": {"ca_file": "CA"}}, True),
        ({"tls": {"ca_data": "CA"}}, True),
        ({"enable_https": True, "tls": {"ca_data": "CLIENT"}}, False),
        ({"tls": {"ca_file": "CA", "server_name": "localhost"}}, True),
        ({"tls": {"ca_file": "CA", "server_name": "elsewhere"}}, False),
    ],
)
async def test_the_certificate_of_the_extender_is_checked_as_it_is_configured(certificates, settings, answers):
    made, client, _ = certificates
    files = {"CA": made.authority, "CLIENT": client}
    given = dict(settings)
    if "tls" in given:
        tls = {k: files.get(v, v) for k, v in given["tls"].items()}
        given["tls"] = TLSSettings(
            **{k: v.read_bytes() if k.endswith("data") else str(v) if k.endswith("file") else v for k, v in tls.items()}
        )
    async with extender(Server(http({"Nodes": None})), server_side(certificates), **given) as peer:
        if answers:
            assert (await peer.filter(POD, NODES)).node_names == ()
        else:
            assert (await result_of(peer.filter(POD, NODES)))[0] == "unreachable"


async def test_a_client_certificate_is_shown_from_a_file_or_from_data(certificates):
    _, client, key = certificates
    as_files = TLSSettings(insecure=True, cert_file=str(client), key_file=str(key))
    as_data = TLSSettings(insecure=True, cert_data=client.read_bytes(), key_data=key.read_bytes())
    for tls in (as_files, as_data):
        async with extender(Server(http({})), server_side(certificates, asks_client=True), tls=tls) as peer:
            assert (await peer.filter(POD, NODES)).node_names == ()
    async with extender(Server(http({})), server_side(certificates, asks_client=True), enable_https=True) as peer:
        assert (await result_of(peer.filter(POD, NODES)))[0] in ("unreachable", "disconnected")


@pytest.mark.parametrize(
    ("url", "tls", "said"),
    [
        ("extender", {}, "expected a URL such as http://HOST:PORT/PATH"),
        ("ftp://x", {}, "expected a URL such as http://HOST:PORT/PATH"),
        ("http://x:port", {}, "port"),
        ("https://x", {"ca_file": "/nowhere"}, "caFile: /nowhere: No such file or directory"),
        ("https://x", {"ca_data": b"nonsense"}, "caFile or caData: "),
        ("https://x", {"cert_data": b"nonsense"}, "go together; found only one of them"),
        ("https://x", {"cert_data": b"nonsense", "key_data": b"nonsense"}, "client certificate or key: "),
    ],
)
def test_what_cannot_be_called_is_told_at_once_by_name(url, tls, said):
    with pytest.raises(ExtenderSetupError) as caught:
        HttpExtenders([ExtenderSettings(url_prefix=url, tls=TLSSettings(**tls))])
    assert said in str(caught.value)
    assert url in str(caught.value)


def test_a_time_out_of_less_than_nothing_is_refused():
    with pytest.raises(ExtenderSetupError, match="'http://x': a time-out of -5 s is too short for any answer"):
        HttpExtenders([ExtenderSettings(url_prefix="http://x", timeout_seconds=-5)])


# ---- objects that are kept whole


@pytest.mark.parametrize("form", ["json", "dict"])
def test_whole_objects_are_kept_where_they_are_wanted(form):
    kept = keeping_json(KINDS["Pod"], lambda pod: not pod.node_name)
    metadata = {"name": "p", "uid": "u", "annotations": {"a": "b"}, "managedFields": [{"manager": "kubectl"}]}
    obj = {"metadata": metadata, "spec": {"hostname": "h", "containers": []}}

    def read(found: Any) -> Any:
        if form == "dict":
            return kept.from_dict(found)
        return kept.from_json(msgspec.Raw(msgspec.json.encode(found)))

    pod = read(obj)
    assert json.loads(pod.json) == {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}
    assert pod.with_node("a").json == pod.json
    assert read({**obj, "spec": {"nodeName": "n"}}).json == b""
    assert os.linesep.encode() not in pod.json
