"""The extenders of a configuration, as they are called, and what has to be kept for them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import asdict

from schedcache.app.errors import UsageError
from schedcache.config import KubeSchedulerConfiguration
from schedcache.framework import Extenders
from schedcache.kube.extender.client import ExtenderSettings, ExtenderSetupError, HttpExtenders
from schedcache.kube.extender.tls import TLSSettings
from schedcache.kube.watch.kinds import KINDS, Kind
from schedcache.kube.watch.whole import keeping_json
from schedcache.model import Pod


def extender_settings(configuration: KubeSchedulerConfiguration) -> Sequence[ExtenderSettings]:
    """How to call the extenders of the configuration."""
    return [
        ExtenderSettings(
            url_prefix=extender.url_prefix,
            filter_verb=extender.filter_verb,
            prioritize_verb=extender.prioritize_verb,
            preempt_verb=extender.preempt_verb,
            bind_verb=extender.bind_verb,
            weight=extender.weight,
            enable_https=extender.enable_https,
            tls=None if extender.tls_config is None else TLSSettings(**asdict(extender.tls_config)),
            timeout_seconds=extender.http_timeout.seconds,
            node_cache_capable=extender.node_cache_capable,
            managed_resources=frozenset(resource.name for resource in extender.managed_resources),
            ignorable=extender.ignorable,
        )
        for extender in configuration.extenders
    ]


def check_extenders(configuration: KubeSchedulerConfiguration, file: Path) -> None:
    """Whether the extenders could be called: their URLs make sense, their certificates can be read. Raises UsageError."""
    try:
        HttpExtenders(extender_settings(configuration))
    except ExtenderSetupError as error:
        raise UsageError(f"{file}: {error}") from error


def known_kinds(
    settings: Sequence[ExtenderSettings], extenders: Extenders, scheduler_names: Iterable[str]
) -> Mapping[str, Kind]:
    """The kinds to watch, by name, keeping whole what extenders will be sent.

    That is the pods that they will be asked about, as long as these have no node; all nodes for those that cannot do with
    names; and all pods, as possible victims, for such as take part in preemption.
    """
    known = dict(KINDS)
    ours = frozenset(scheduler_names)
    whole_victims = any(each.preempt_verb and not each.node_cache_capable for each in settings)
    whole_nodes = any((each.filter_verb or each.prioritize_verb) and not each.node_cache_capable for each in settings)

    def is_asked_about(pod: Pod) -> bool:
        return not pod.node_name and pod.scheduler_name in ours and extenders.take_part(pod)

    if extenders:
        known["Pod"] = keeping_json(known["Pod"], _always if whole_victims else is_asked_about)
    if whole_nodes:
        known["Node"] = keeping_json(known["Node"], _always)
    return known


def _always(_obj: object) -> bool:
    return True
