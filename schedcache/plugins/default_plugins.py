"""The registry of the default plugins."""

from typing import Any

from schedcache.framework import Registry
from schedcache.plugins.default_binder import DefaultBinder
from schedcache.plugins.default_preemption import DefaultPreemption
from schedcache.plugins.dynamic_resources import DynamicResources
from schedcache.plugins.image_locality import ImageLocality
from schedcache.plugins.inter_pod_affinity import InterPodAffinity
from schedcache.plugins.node_affinity import NodeAffinity
from schedcache.plugins.node_declared_features import NodeDeclaredFeatures
from schedcache.plugins.node_name import NodeName
from schedcache.plugins.node_ports import NodePorts
from schedcache.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from schedcache.plugins.node_resources_fit import NodeResourcesFit
from schedcache.plugins.node_unschedulable import NodeUnschedulable
from schedcache.plugins.node_volume_limits import NodeVolumeLimits
from schedcache.plugins.pod_topology_spread import PodTopologySpread
from schedcache.plugins.priority_sort import PrioritySort
from schedcache.plugins.scheduling_gates import SchedulingGates
from schedcache.plugins.taint_toleration import TaintToleration
from schedcache.plugins.volume_binding import VolumeBinding
from schedcache.plugins.volume_restrictions import VolumeRestrictions
from schedcache.plugins.volume_zone import VolumeZone

__all__ = ["default_registry", "installed_registry"]

_DEFAULT: tuple[type[Any], ...] = (
    DefaultBinder,
    DefaultPreemption,
    DynamicResources,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodTopologySpread,
    PrioritySort,
    SchedulingGates,
    TaintToleration,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)


def default_registry() -> Registry:
    """kube-scheduler's in-tree plugins, under their upstream names."""
    return Registry({plugin.name: plugin for plugin in _DEFAULT})


def installed_registry() -> Registry:
    """The same, and the plugins of installed packages. Raises RegistryError for one that takes the name of another."""
    registry = default_registry()
    registry.register_installed()
    return registry
