"""A framework around plugins made for one test."""

import random
from functools import partial

import numpy as np

from schedcache import testing
from schedcache.cache import ClusterObjects, Snapshot
from schedcache.config import profile_with_defaults
from schedcache.config.v1 import KubeSchedulerProfile, Plugin, Plugins, PluginSet
from schedcache.framework import Framework, Handle, Registry, Verdicts, unschedulable
from schedcache.plugins.default_binder import DefaultBinder
from schedcache.plugins.priority_sort import PrioritySort
from schedcache.queue import Nominator
from schedcache.testing import make_node

make_pod = partial(testing.make_pod, cpu="1")


def nominated(*pods):
    """These pods, on the nodes that their status names."""
    nominator = Nominator()
    for pod in pods:
        nominator.add(pod, None)
    return nominator


class Base:
    """A plugin of a test: what it is made with is kept."""

    name = "Base"

    def __init__(self, args, handle):
        self.args = args
        self.handle = handle


def plugin(plugin_name, **methods):
    """A plugin class with these methods; each is called without self."""
    statics = {k: staticmethod(v) if callable(v) else v for k, v in methods.items()}
    return type(plugin_name, (Base,), {"name": plugin_name, **statics})


def rejecting(name, *node_names, status=None, calls=None, **more):
    """A filter that rejects these nodes; the rows that it is asked for are noted in `calls`."""

    def judge(state, pod, view):
        if calls is not None:
            calls.append((name, view.names()))
        codes = np.array([node in node_names for node in view.names()], np.int16)
        return Verdicts(codes, (None, status or unschedulable(f"{name} says no")))

    return plugin(name, filter=judge, **more)


def make_framework(*plugins, weights=None, nominations=None, objects=None, binder=None, args=None):
    """Only these plugins, a queue sort and a binder, in this order."""
    sort_and_bind = [PrioritySort, *([] if any(hasattr(p, "bind") for p in plugins) else [DefaultBinder])]
    classes = [*plugins, *sort_and_bind]
    enabled = [Plugin(name=p.name, weight=(weights or {}).get(p.name)) for p in classes]
    sets = Plugins(multi_point=PluginSet(enabled=enabled, disabled=[Plugin(name="*")]))
    profile = profile_with_defaults(KubeSchedulerProfile(scheduler_name="test", plugins=sets, plugin_config=args or []))
    handle = Handle(cluster_objects=objects or ClusterObjects(), nominator=nominations or Nominator(), binder=binder)
    return Framework(profile, Registry({p.name: p for p in classes}), handle)


def make_snapshot(*names, pods=()):
    nodes = [make_node(n) if isinstance(n, str) else n for n in names]
    return Snapshot.build(pods, nodes)


def schedule(framework, pod, snapshot, seed=0):
    nominated = framework.handle.nominator.nominated_pods_for_node
    return framework.schedule(pod, snapshot, nominated, random.Random(seed))
