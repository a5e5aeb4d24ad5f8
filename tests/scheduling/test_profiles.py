"""Profiles and their queue are made together, or not at all."""

import time

import pytest

from schedcache.cache import ClusterObjects
from schedcache.config import config_from_dict
from schedcache.framework import EventHint, PluginSetError, Registry
from schedcache.plugins.default_plugins import default_registry
from schedcache.scheduling import make_profiles


class Hopeful:
    name = "Hopeful"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, view):
        raise NotImplementedError

    def events_to_register(self):
        return [EventHint("Node", ("Added",))]


def test_an_event_that_does_not_exist_is_named_with_its_plugin():
    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Hopeful"}]}}}]}
    with pytest.raises(
        PluginSetError, match=r"plugin 'Hopeful': action 'Added' of a cluster event: expected one of Add,"
    ):
        make_profiles(
            config_from_dict(config).config.profiles,
            Registry({**default_registry(), "Hopeful": Hopeful}),
            objects=ClusterObjects(),
            binder=None,
            pod_lister=lambda _namespace, _name: None,
            clock=time.monotonic,
        )
