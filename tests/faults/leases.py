"""Who held the lease when, and who bound what meanwhile: by the API server's own log.

Each replica has an identity of its own towards the API server, so that the log tells them apart.
"""

from datetime import datetime
from pathlib import Path

from schedcache.testing import Cluster, FaultProxy
from schedcache.testing.audit import AuditEvent

DURATION_SECONDS = 15.0
NAMESPACE = "kube-system"
API_SERVER = "system:apiserver"


def when(received: str) -> float:
    return datetime.fromisoformat(received).timestamp()


async def identity(cluster: Cluster, name: str, way: FaultProxy | None = None) -> Path:
    """A kubeconfig of a ServiceAccount that may do everything, through the proxy if one is given."""
    await cluster.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
    await cluster.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        },
    )
    token = await cluster.service_account_token(NAMESPACE, name)
    if way is not None:
        return way.kubeconfig_for(token)
    return cluster.control_plane.kubeconfig_for(token, user=name)


def user_of(name: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{name}"


async def assert_fenced(cluster: Cluster) -> None:
    """Each binding came from whoever had written the lease last, and less than its duration ago."""
    await cluster.audit.settled(cluster)
    writes = [(when(event.received), event.user) for event in written(cluster)]
    bindings = [
        (when(event.received), event.user) for event in cluster.audit.events(resource="pods", subresource="binding")
    ]
    assert bindings, "nothing was bound"
    assert writes, "nobody wrote a lease"
    for moment, user in bindings:
        held = [(at, holder) for at, holder in writes if at <= moment]
        assert held, f"{user} bound before anybody held the lease"
        at, holder = max(held)
        assert holder == user, f"{user} bound {moment - at:.3f} s after {holder} had written the lease"
        assert moment - at < DURATION_SECONDS, f"{user} bound {moment - at:.1f} s after it last wrote the lease"


def holders(cluster: Cluster) -> list[str]:
    """Who wrote the lease, each time it was another one."""
    found: list[str] = []
    for event in written(cluster):
        if found[-1:] != [event.user]:
            found.append(event.user)
    return found


def written(cluster: Cluster) -> list[AuditEvent]:
    """Writes of the Lease that were carried out; the API server has one of its own beside it."""
    return [
        event
        for event in cluster.audit.events(group="coordination.k8s.io", resource="leases", namespace=NAMESPACE)
        if event.writes and event.status in (200, 201) and event.user != API_SERVER
    ]


def bound_by(cluster: Cluster, user: str, since: str = "") -> list[float]:
    """When that identity asked for bindings."""
    return [
        when(event.received)
        for event in cluster.audit.events(resource="pods", subresource="binding", user=user)
        if event.received > since
    ]
