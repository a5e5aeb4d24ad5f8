import json

import msgspec
import pytest

from schedcache.testing import AuditLog, parse_audit_log


def record(**fields):
    base = {
        "verb": "get",
        "stage": "ResponseComplete",
        "user": {"username": "someone", "groups": ["g"]},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "stageTimestamp": "2026-01-01T00:00:00.250000Z",
        "requestURI": "/readyz",
        "responseStatus": {"code": 200, "metadata": {}},
    }
    return json.dumps({**base, **fields}) + "\n"


def test_a_request_has_its_times():
    (event,) = parse_audit_log(record().encode())
    assert (event.received, event.completed) == ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.250000Z")


def test_an_unfinished_line_waits_for_its_end():
    whole = record(verb="list")
    assert [event.verb for event in parse_audit_log((whole + whole[:20]).encode())] == ["list"]


def test_a_line_that_is_no_event_is_named():
    with pytest.raises(msgspec.ValidationError, match="verb"):
        parse_audit_log(record(verb=7).encode())


def test_what_writes_and_what_only_asks(tmp_path):
    path = tmp_path / "audit.log"
    reference = {"resource": "pods", "namespace": "ns", "name": "p", "apiVersion": "v1"}
    review = {"resource": "subjectaccessreviews", "apiGroup": "authorization.k8s.io"}
    path.write_text(
        record()
        + record(verb="watch", objectRef=reference, stage="ResponseStarted")
        + record(verb="create", objectRef=review, responseStatus={"code": 201})
        + record(verb="patch", objectRef={**reference, "subresource": "status"}, responseStatus={"code": 403})
        + record(verb="create", objectRef={"resource": "serviceaccounts", "subresource": "token"})
    )
    log = AuditLog(path)
    assert [(event.verb, event.resource, event.subresource) for event in log.writes()] == [
        ("patch", "pods", "status"),
        ("create", "serviceaccounts", "token"),
    ]
    assert [event.verb for event in log.refused("someone")] == ["patch"]
    assert log.refused("someone-else") == []
    assert [event.verb for event in log.events(namespace="ns", status=403)] == ["patch"]
    with pytest.raises(TypeError, match="an audit event has no code"):
        log.events(code=403)


def test_a_log_that_is_not_there_yet_is_empty(tmp_path):
    log = AuditLog(tmp_path / "audit.log").from_now()
    assert log.events() == []
    log.path.write_text(record())
    assert len(log.events()) == 1
    assert log.from_now().events() == []


@pytest.mark.controlplane
async def test_each_binding_is_seen_with_its_uid_and_node(cluster):
    await cluster.make_nodes(2)
    pods = await cluster.make_pods(2)
    await cluster.bind(pods[0], "node-1")
    await cluster.bind(pods[1], "node-0")
    for other in ("node-0", "node-1"):
        with pytest.raises(Exception, match="409"):
            await cluster.bind(pods[0], other)
    await cluster.audit.settled(cluster)
    assert cluster.audit.bindings() == {
        ("default", pod["metadata"]["name"], pod["metadata"]["uid"]): [node]
        for pod, node in zip(pods, ["node-1", "node-0"], strict=True)
    }
    assert len(cluster.audit.events(subresource="binding", user="admin")) == 4
    assert all(event.user_agent == "schedcache-testing" for event in cluster.audit.events(subresource="binding"))


@pytest.mark.controlplane
async def test_a_log_from_now_on_leaves_out_what_was_before(cluster):
    await cluster.audit.settled(cluster)
    cluster.audit = cluster.audit.from_now()
    await cluster.make_pods(1)
    await cluster.audit.settled(cluster)
    assert [event.resource for event in cluster.audit.writes("admin")] == ["pods"]
    assert cluster.audit.from_now().writes() == []
