"""Which of the pods in a cluster is the scheduler to ask."""

import re
from typing import NamedTuple

import msgspec

from schedcache.kube.http.transport import Transport
from schedcache.ports import ApiError

HTTPS = "https"
PORT = 10259
OBSERVE = "--observe"
_LEASE = re.compile(r"--leader-elect-resource-name[= ](\S+)")
_DEFAULT_LEASE = "schedcache"


class NoSchedulerError(Exception):
    """There is none that could be asked; the message says where it was looked for."""


class Found(NamedTuple):
    """A pod to ask, and the port of its HTTPS listener. `leads`: None if that is not known."""

    name: str
    port: int
    leads: bool | None


class _Port(msgspec.Struct, rename="camel"):
    container_port: int
    name: str = ""


class _Container(msgspec.Struct):
    args: list[str] | None = None
    command: list[str] | None = None
    ports: list[_Port] | None = None


class _Spec(msgspec.Struct):
    containers: list[_Container]


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @property
    def port(self) -> int:
        """That of its port named https; 10259 if none is."""
        ports = [port for container in self.spec.containers for port in container.ports or ()]
        return next((port.container_port for port in ports if port.name == HTTPS), PORT)

    @property
    def words(self) -> list[str]:
        """Its command line."""
        return [w for c in self.spec.containers for w in (*(c.command or ()), *(c.args or ()))]

    @property
    def lease(self) -> str:
        named = _LEASE.search(" ".join(self.words))
        return named[1] if named is not None else _DEFAULT_LEASE


class _Pods(msgspec.Struct):
    items: list[_Pod]


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct):
    spec: _LeaseSpec


async def find(transport: Transport, namespace: str, selector: str, name: str | None) -> Found:
    """The pod of that name, else one that leads, else any that is ready; an observer only where there is nothing else.

    Raises NoSchedulerError or ApiError.
    """
    answer = await transport.get(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector})
    every = msgspec.json.decode(answer, type=_Pods).items
    running = [pod for pod in every if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]
    where = f"in namespace {namespace} with the labels {selector}"
    if not running:
        other = f", {len(every)} of which none is" if every else ""
        raise NoSchedulerError(f"no pod is running {where}{other}; -n and -l say where else to look")
    if name is not None:
        pod = next((pod for pod in running if pod.metadata.name == name), None)
        if pod is None:
            names = ", ".join(pod.metadata.name for pod in running)
            raise NoSchedulerError(f"pod {name} is not among those that are running {where}: {names}")
        return Found(name, pod.port, None)
    running = [pod for pod in running if OBSERVE not in pod.words] or running
    leader = ""
    # Each scheduler that was deployed by itself has a Lease of its own.
    for lease in dict.fromkeys(pod.lease for pod in running):
        leader = await _leader(transport, namespace, lease) or leader
        for pod in running:
            # An identity is the pod's name, an underscore, and something random.
            if leader.rpartition("_")[0] == pod.metadata.name:
                return Found(pod.metadata.name, pod.port, leads=True)
    pod = next((pod for pod in running if pod.ready), running[0])
    return Found(pod.metadata.name, pod.port, False if leader else None)


async def _leader(transport: Transport, namespace: str, lease: str) -> str:
    """The identity in the Lease, "" if it cannot be read: then any pod will do."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}"
    try:
        return msgspec.json.decode(await transport.get(path), type=_Lease).spec.holder_identity or ""
    except ApiError:
        return ""
