"""Turns the JSON of a pod into its parts, with specs and shapes interned."""

import sys
from collections.abc import Iterable, Mapping
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from schedcache.model import wire
from schedcache.model.decode import labels_of, quantities, strings
from schedcache.model.interning import Interned, enter
from schedcache.model.labels import NodeSelectorTerm, PreferredSchedulingTerm
from schedcache.model.pod_spec import (
    DEFAULT_SCHEDULER_NAME,
    OwnerRef,
    PodAffinityTerm,
    PodCondition,
    PodShape,
    PodSpec,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from schedcache.model.resources import ContainerRequests, PodRequests, PodResources, ResourceList, pod_requests
from schedcache.model.selectors import label_selector, node_selector_term
from schedcache.model.taints import Toleration

# The conditions that scheduling reads; a running pod's others would cost memory and mean nothing here.
_CONDITIONS = frozenset({"PodScheduled", "DisruptionTarget", "PodResizePending", "PodResizeInProgress"})
_RESTART_ALL = "RestartAllContainers"

_encode = msgspec.json.Encoder(order="deterministic").encode
_shapes: Interned[PodShape] = WeakValueDictionary()
_specs: Interned[PodSpec] = WeakValueDictionary()


def merge_match_label_keys(
    constraints: Iterable[wire.TopologySpreadConstraintWire], labels: Mapping[str, str | None]
) -> None:
    """Add the pod's values of `matchLabelKeys` to the selector, as kube-scheduler does (KEP-3243).

    API servers from 1.34 on have done it already; doing it again changes nothing.
    """
    for constraint in constraints:
        selector, keys = constraint.label_selector, constraint.match_label_keys
        if selector is not None and keys:
            present = selector.match_expressions or []
            added = [wire.SelectorRequirement(key, "In", [labels[key] or ""]) for key in keys if key in labels]
            selector.match_expressions = present + [r for r in added if r not in present]


def shape_of(meta: wire.ObjectMeta, spec: wire.PodSpecWire, image_volumes: tuple[str, ...]) -> PodShape:
    """The shape of all pods with this namespace, these labels and this spec, from which everything individual was removed."""
    spec_key = _encode((spec, image_volumes))
    namespace = meta.namespace or "default"
    key = _encode((namespace, meta.labels)) + spec_key
    shape = _shapes.get(key)
    if shape is None:
        compiled = _specs.get(spec_key)
        if compiled is None:
            compiled = enter(_specs, spec_key, _spec(spec, image_volumes))
        shape = enter(_shapes, key, PodShape(sys.intern(namespace), labels_of(meta.labels), compiled))
    return shape


def _spec(spec: wire.PodSpecWire, image_volumes: tuple[str, ...]) -> PodSpec:
    affinity = spec.affinity or wire.AffinityWire()
    node_affinity = affinity.node_affinity or wire.NodeAffinityWire()
    together = affinity.pod_affinity or wire.PodAffinityWire()
    apart = affinity.pod_anti_affinity or wire.PodAffinityWire()
    containers, inits = spec.containers or [], spec.init_containers or []
    images = tuple(c.image or "" for c in (*inits, *containers)) + image_volumes
    resources = _resources(spec)
    return PodSpec(
        requests=pod_requests(resources),
        container_requests=pod_requests(replace(resources, pod_requests={})) if resources.pod_requests else None,
        scheduler_name=sys.intern(spec.scheduler_name or DEFAULT_SCHEDULER_NAME),
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy or "",
        scheduling_gates=tuple(g.name or "" for g in spec.scheduling_gates or ()),
        node_selector=labels_of(spec.node_selector),
        node_affinity=_required_node_affinity(node_affinity.required),
        preferred_node_affinity=tuple(
            PreferredSchedulingTerm(t.weight, node_selector_term(t.preference)) for t in node_affinity.preferred or ()
        ),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in spec.tolerations or ()
        ),
        host_ports=tuple(_host_ports((*containers, *(c for c in inits if c.restart_policy == "Always")))),
        images=images,
        has_pod_affinity=affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None,
        pod_affinity=_terms(together.required),
        preferred_pod_affinity=_weighted_terms(together.preferred),
        pod_anti_affinity=_terms(apart.required),
        preferred_pod_anti_affinity=_weighted_terms(apart.preferred),
        topology_spread=tuple(_spread(c) for c in spec.topology_spread_constraints or ()),
        resource_claims=tuple(c.name or "" for c in spec.resource_claims or ()),
        has_scheduling_group=spec.scheduling_group is not None or spec.workload_ref is not None,
        container_count=len(containers),
        image_count=len(images),
        required_features=_required_features(spec),
    )


def _required_features(spec: wire.PodSpecWire) -> frozenset[str]:
    features = set()
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    if spec.host_network and spec.host_users is False:
        features.add("UserNamespacesHostNetworkSupport")
    if any(
        m.bind_mount_options for c in [*containers, *(spec.ephemeral_containers or ())] for m in c.volume_mounts or ()
    ):
        features.add("VolumeBindMountOptions")
    if any(rule.action == _RESTART_ALL for c in containers for rule in c.restart_policy_rules or ()):
        features.add("RestartAllContainersOnContainerExits")
    return frozenset(features)


def _resources(spec: wire.PodSpecWire, status: wire.PodStatusWire | None = None) -> PodResources:
    # If several reports have the same name, the first counts; those of init containers come last.
    reported = {s.name or "": s for s in reversed(_container_reports(status))} if status else {}

    def container(path: str, index: int, c: wire.Container) -> ContainerRequests:
        said = reported.get(c.name or "") or wire.ContainerStatus()
        return ContainerRequests(
            requests=quantities(c.resources.requests if c.resources else None, f"{path}[{index}].resources.requests"),
            restartable_init=c.restart_policy == "Always",
            allocated=_optional(said.allocated_resources, "status.containerStatuses[].allocatedResources"),
            actuated=_optional(
                said.resources.requests if said.resources else None, "status.containerStatuses[].resources.requests"
            ),
        )

    def group(path: str, group: Iterable[wire.Container] | None) -> tuple[ContainerRequests, ...]:
        return tuple(container(path, i, c) for i, c in enumerate(group or ()))

    return PodResources(
        containers=group("spec.containers", spec.containers),
        init_containers=group("spec.initContainers", spec.init_containers),
        overhead=quantities(spec.overhead, "spec.overhead"),
        pod_requests=quantities(spec.resources.requests if spec.resources else None, "spec.resources.requests"),
        pod_allocated=_optional(status.allocated_resources, "status.allocatedResources") if status else None,
        pod_actuated=_optional(status.resources.requests if status.resources else None, "status.resources.requests")
        if status
        else None,
        pod_reported=status is not None and status.resources is not None,
        resize_infeasible=status is not None and _resize_infeasible(status),
    )


def _container_reports(status: wire.PodStatusWire) -> list[wire.ContainerStatus]:
    return [*(status.container_statuses or ()), *(status.init_container_statuses or ())]


def _optional(amounts: wire.QuantityMap | None, field: str) -> ResourceList | None:
    return None if amounts is None else quantities(amounts, field)


def _resize_infeasible(status: wire.PodStatusWire) -> bool:
    pending = next((c for c in status.conditions or () if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def effective_requests(compiled: PodSpec, spec: wire.PodSpecWire, status: wire.PodStatusWire) -> PodRequests:
    """The spec's requests, or the largest of spec and status if the kubelet reports others.

    From Kubernetes 1.36 on, every running pod has a report, and most report what the spec asks for. Pods with the same spec
    and report share a vector, which is the spec's own if the result is the same.
    """
    infeasible = _resize_infeasible(status)
    if not (infeasible or _reports_resources(status)):
        return compiled.requests
    reports = status.container_statuses, status.init_container_statuses
    key = _encode((*reports, status.allocated_resources, status.resources, infeasible))
    found = compiled.reported_requests.get(key)
    if found is None:
        found = pod_requests(_resources(spec, status))
        same = found.same_as(compiled.requests)
        found = enter(compiled.reported_requests, key, compiled.requests if same else found)
    return found


def _reports_resources(status: wire.PodStatusWire) -> bool:
    if status.resources is not None or status.allocated_resources is not None:
        return True
    return any(s.resources is not None or s.allocated_resources is not None for s in _container_reports(status))


def _host_ports(containers: Iterable[wire.Container]) -> Iterable[tuple[str, str, int]]:
    for container in containers:
        for port in container.ports or ():
            if port.host_port is not None and port.host_port > 0:
                yield port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port  # noqa: S104  Kubernetes' "any address", compared, never bound


def _required_node_affinity(selector: wire.NodeSelectorWire | None) -> tuple[NodeSelectorTerm, ...] | None:
    if selector is None:
        return None
    return tuple(node_selector_term(t) for t in selector.node_selector_terms or ())


def _term(term: wire.PodAffinityTermWire) -> PodAffinityTerm:
    return PodAffinityTerm(
        term.topology_key or "",
        label_selector(term.label_selector),
        strings(term.namespaces),
        label_selector(term.namespace_selector),
    )


def _terms(terms: Iterable[wire.PodAffinityTermWire] | None) -> tuple[PodAffinityTerm, ...]:
    return tuple(_term(t) for t in terms or ())


def _weighted_terms(terms: Iterable[wire.WeightedPodAffinityTermWire] | None) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(
        WeightedPodAffinityTerm(t.weight, _term(t.pod_affinity_term or wire.PodAffinityTermWire())) for t in terms or ()
    )


def _spread(constraint: wire.TopologySpreadConstraintWire) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key or "",
        when_unsatisfiable=constraint.when_unsatisfiable or "",
        selector=label_selector(constraint.label_selector),
        min_domains=constraint.min_domains,
        node_affinity_policy=constraint.node_affinity_policy or "Honor",
        node_taints_policy=constraint.node_taints_policy or "Ignore",
    )


def volumes_of(volumes: Iterable[wire.VolumeWire], pod_name: str) -> Iterable[Volume]:
    """The volumes that matter to scheduling."""
    for v in volumes:
        name = v.name or ""
        if v.persistent_volume_claim is not None:
            claim = v.persistent_volume_claim
            yield Volume(name, claim.claim_name or "", read_only=bool(claim.read_only))
        elif v.ephemeral is not None:
            yield Volume(name, f"{pod_name}-{name}", ephemeral=True)
        elif (source := _in_tree_source(v)) is not None:
            yield source


def _in_tree_source(v: wire.VolumeWire) -> Volume | None:
    """A volume of a type that names its device directly; two with equal tuples are the same device."""
    return _cloud_disk(v) or _network_device(v)


def _cloud_disk(v: wire.VolumeWire) -> Volume | None:
    name = v.name or ""
    if (gce := v.gce_persistent_disk) is not None:
        return Volume(name, read_only=bool(gce.read_only), source_kind="gcePersistentDisk", source=(gce.pd_name or "",))
    if (aws := v.aws_elastic_block_store) is not None:
        return Volume(
            name, read_only=bool(aws.read_only), source_kind="awsElasticBlockStore", source=(aws.volume_id or "",)
        )
    if (azure := v.azure_disk) is not None:
        disk = (azure.disk_name or "", azure.disk_uri or "", azure.kind or "")
        return Volume(name, source_kind="azureDisk", source=disk)
    if (cinder := v.cinder) is not None:
        return Volume(name, source_kind="cinder", source=(cinder.volume_id or "",))
    if (portworx := v.portworx_volume) is not None:
        return Volume(name, source_kind="portworxVolume", source=(portworx.volume_id or "",))
    return None


def _network_device(v: wire.VolumeWire) -> Volume | None:
    name = v.name or ""
    if (iscsi := v.iscsi) is not None:
        source = (iscsi.iqn or "", iscsi.target_portal or "", str(iscsi.lun or 0))
        return Volume(name, read_only=bool(iscsi.read_only), source_kind="iscsi", source=source)
    if (rbd := v.rbd) is not None:
        devices = (rbd.pool or "", rbd.image or "", *strings(rbd.monitors))
        return Volume(name, read_only=bool(rbd.read_only), source_kind="rbd", source=devices)
    if (csi := v.csi) is not None:
        return Volume(name, source_kind="csi", source=(csi.driver or "",))
    return None


def conditions_of(conditions: Iterable[wire.PodConditionWire]) -> tuple[PodCondition, ...]:
    """Those that scheduling reads or writes."""
    return tuple(
        PodCondition(c.type, c.status, c.reason or "", c.message or "", c.observed_generation or 0)
        for c in conditions
        if c.type in _CONDITIONS
    )


def owner_of(references: Iterable[wire.OwnerReference]) -> OwnerRef | None:
    """The controller among the owners, if there is one."""
    return next((OwnerRef(r.kind, r.name, r.uid) for r in references if r.controller), None)
