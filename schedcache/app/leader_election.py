"""Which Lease a scheduler's replicas share, and who takes part in its election."""

import hashlib
import re
import socket
import uuid
from pathlib import Path

from schedcache.app.errors import UsageError
from schedcache.app.own_pod import NAMESPACE_FILE, own_namespace
from schedcache.config import KubeSchedulerConfiguration, LeaderElection
from schedcache.kube.settings import MOST_IN_A_LEASE, LeaderElectionSettings

DEFAULT_NAME = "schedcache"
_UPSTREAM = LeaderElection()
_LONGEST_NAME = 253
_LONGEST_PART, _DIGITS = 200, 10
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def leader_election_of(
    configuration: KubeSchedulerConfiguration,
    *,
    resource_name: str | None = None,
    resource_namespace: str | None = None,
    namespace_file: Path = NAMESPACE_FILE,
) -> LeaderElectionSettings | None:
    """What the configuration says about leader election; None if it does without.

    The Lease `kube-scheduler` is what a configuration names that says nothing, and that is the cluster's own scheduler's: shared, one of
    the two would wait for ever. It stands for a Lease of our own, named after the first profile, in the namespace of the pod that this
    runs in (else `kube-system`). Only the arguments can name `kube-scheduler` itself.

    Args:
        configuration: a valid one.
        resource_name: overrules the configuration.
        resource_namespace: likewise.
        namespace_file: where Kubernetes mounts the namespace of a pod.

    Raises:
        UsageError: no Lease can have such a name, or such a duration.
    """
    election = configuration.leader_election
    if not election.leader_elect:
        return None
    name, namespace = election.resource_name, election.resource_namespace
    if name == _UPSTREAM.resource_name:
        name = lease_name(configuration.profiles[0].scheduler_name)
        if namespace == _UPSTREAM.resource_namespace:
            namespace = own_namespace(namespace_file) or namespace
    found = LeaderElectionSettings(
        resource_name=name if resource_name is None else resource_name,
        resource_namespace=namespace if resource_namespace is None else resource_namespace,
        lease_duration_seconds=election.lease_duration.seconds,
        renew_deadline_seconds=election.renew_deadline.seconds,
        retry_period_seconds=election.retry_period.seconds,
    )
    if len(found.resource_name) > _LONGEST_NAME or not _NAME.fullmatch(found.resource_name):
        raise UsageError(f"leaderElection.resourceName: expected the name of a Lease, found {found.resource_name!r}")
    if not _NAMESPACE.fullmatch(found.resource_namespace):
        raise UsageError(f"leaderElection.resourceNamespace: expected a namespace, found {found.resource_namespace!r}")
    if found.lease_duration_seconds > MOST_IN_A_LEASE:
        raise UsageError(
            f"leaderElection.leaseDuration: expected at most {MOST_IN_A_LEASE} s, found {election.lease_duration}"
        )
    return found


def lease_name(scheduler_name: str) -> str:
    """Of the Lease that replicas for this scheduler name share by default; never `kube-scheduler`."""
    if scheduler_name == DEFAULT_NAME:
        return DEFAULT_NAME
    name = f"{DEFAULT_NAME}-{scheduler_name}"
    if len(name) <= _LONGEST_NAME and _NAME.fullmatch(name):
        return name
    # Not all that the API takes for a scheduler's name; and no two may end up with the same Lease.
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_PART].rstrip("-")
    return f"{plain}-{hashlib.sha256(scheduler_name.encode()).hexdigest()[:_DIGITS]}"


def new_identity() -> str:
    """Of a candidate, as client-go makes it: where it runs, and which one it is."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
