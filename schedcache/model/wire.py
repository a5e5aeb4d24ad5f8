# ruff: noqa: D101  each struct mirrors the API type of its name, which the Kubernetes API reference describes
"""The JSON shape of pods and nodes: only the fields that scheduling needs, unknown ones ignored.

Kubernetes writes null for an absent value or list, so everything except a few counts may be None here; the rest of the
package sees only the compact types of `schedcache.model.pod` and `schedcache.model.node`.
"""

import msgspec

Quantity = str | int | float
"""As the API server writes it (text) or as people write it in manifests (a number)."""
QuantityMap = dict[str, Quantity | None]


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Python's snake_case for the API's camelCase."""


class OwnerReference(_Wire):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str | None = None
    controller: bool | None = None


class ObjectMeta(_Wire):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None


class SelectorRequirement(_Wire):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelectorWire(_Wire):
    match_labels: dict[str, str | None] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeSelectorTermWire(_Wire):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelectorWire(_Wire):
    node_selector_terms: list[NodeSelectorTermWire] | None = None


class PreferredSchedulingTermWire(_Wire):
    weight: int = 0
    preference: NodeSelectorTermWire | None = None


class NodeAffinityWire(_Wire):
    required: NodeSelectorWire | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredSchedulingTermWire] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTermWire(_Wire):
    label_selector: LabelSelectorWire | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelectorWire | None = None
    topology_key: str | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTermWire(_Wire):
    weight: int = 0
    pod_affinity_term: PodAffinityTermWire | None = None


class PodAffinityWire(_Wire):
    required: list[PodAffinityTermWire] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodAffinityTermWire] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class AffinityWire(_Wire):
    node_affinity: NodeAffinityWire | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


class TolerationWire(_Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class TopologySpreadConstraintWire(_Wire):
    max_skew: int = 0
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelectorWire | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ContainerPort(_Wire):
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)


class ResourceRequirements(_Wire):
    requests: QuantityMap | None = None


class RestartPolicyRule(_Wire):
    action: str | None = None


class VolumeMount(_Wire):
    bind_mount_options: list[str] | None = None


class Container(_Wire):
    name: str | None = None
    image: str | None = None
    ports: list[ContainerPort] | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartPolicyRule] | None = None
    volume_mounts: list[VolumeMount] | None = None


class NamedReference(_Wire):
    name: str | None = None


class ClaimVolume(_Wire):
    claim_name: str | None = None
    read_only: bool | None = None


class GCEPersistentDisk(_Wire):
    pd_name: str | None = None
    read_only: bool | None = None


class AWSElasticBlockStore(_Wire):
    volume_id: str | None = msgspec.field(name="volumeID", default=None)
    read_only: bool | None = None


class AzureDisk(_Wire):
    disk_name: str | None = None
    disk_uri: str | None = msgspec.field(name="diskURI", default=None)
    kind: str | None = None


class Cinder(_Wire):
    volume_id: str | None = msgspec.field(name="volumeID", default=None)


class PortworxVolume(_Wire):
    volume_id: str | None = msgspec.field(name="volumeID", default=None)


class ISCSI(_Wire):
    target_portal: str | None = None
    iqn: str | None = None
    lun: int | None = None
    read_only: bool | None = None


class RBD(_Wire):
    monitors: list[str] | None = None
    image: str | None = None
    pool: str | None = None
    read_only: bool | None = None


class InlineCSI(_Wire):
    driver: str | None = None


class ImageVolume(_Wire):
    reference: str | None = None


class EphemeralVolume(_Wire):
    """The claim of a generic ephemeral volume is named after pod and volume; nothing in the template matters here."""


class VolumeWire(_Wire):
    name: str | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    csi: InlineCSI | None = None
    image: ImageVolume | None = None


class PodSpecWire(_Wire):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    node_selector: dict[str, str | None] | None = None
    affinity: AffinityWire | None = None
    tolerations: list[TolerationWire] | None = None
    topology_spread_constraints: list[TopologySpreadConstraintWire] | None = None
    scheduling_gates: list[NamedReference] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    overhead: QuantityMap | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[NamedReference] | None = None
    scheduling_group: object = None
    workload_ref: object = None
    volumes: list[VolumeWire] | None = None


class PodConditionWire(_Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None


class ContainerStatus(_Wire):
    name: str | None = None
    allocated_resources: QuantityMap | None = None
    resources: ResourceRequirements | None = None


class PodStatusWire(_Wire):
    phase: str | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None
    conditions: list[PodConditionWire] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: QuantityMap | None = None
    resources: ResourceRequirements | None = None


class PodWire(_Wire):
    metadata: ObjectMeta | None = None
    spec: PodSpecWire | None = None
    status: PodStatusWire | None = None


class TaintWire(_Wire):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpecWire(_Wire):
    unschedulable: bool | None = None
    taints: list[TaintWire] | None = None


class NodeConditionWire(_Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None


class ContainerImage(_Wire):
    names: list[str] | None = None
    size_bytes: int | None = None


class NodeStatusWire(_Wire):
    allocatable: QuantityMap | None = None
    capacity: QuantityMap | None = None
    conditions: list[NodeConditionWire] | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class NodeWire(_Wire):
    metadata: ObjectMeta | None = None
    spec: NodeSpecWire | None = None
    status: NodeStatusWire | None = None
