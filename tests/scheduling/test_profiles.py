"""Profiles and their queue are made together, or not at all."""

import time

import pytest

from schedcache.cache import ClusterObjects
from schedcache.config import config_from_dict
from schedcache.framework import Code, CycleState, EventHint, PluginSetError, Registry, Status
from schedcache.plugins.default_plugins import default_registry
from schedcache.scheduling import make_profiles
from tests.framework.world import make_pod


class Hopeful:
    name = "Hopeful"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, view):
        raise NotImplementedError

    def events_to_register(self):
        return [EventHint("Node", ("Added",))]


def no_pod(_namespace, _name):
    return None


def made_with(plugin, *names, pod_lister=no_pod):
    enabled = {"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}
    config = {"profiles": [{**enabled, "schedulerName": name} for name in names or ("default-scheduler",)]}
    return make_profiles(
        config_from_dict(config).config.profiles,
        Registry({**default_registry(), plugin.name: plugin}),
        objects=ClusterObjects(),
        binder=None,
        pod_lister=pod_lister,
        clock=time.monotonic,
    )


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (lambda _self: 1 / 0, "division by zero"),
        (lambda _self: None, "'NoneType' object is not iterable"),
        (lambda _self: [EventHint("Node", ("Add",)), 5], "answered 5, expected an EventHint"),
        (lambda _self: [("Node", ("Add",))], r"answered \('Node', \('Add',\)\), expected an EventHint"),
    ],
)
def test_registrations_that_are_none_fail_the_start_with_the_plugins_name(events, said):
    plugin = type("Hopeful", (Hopeful,), {"events_to_register": events})
    with pytest.raises(
        PluginSetError, match=rf"profile 'default-scheduler': plugin 'Hopeful': events_to_register: .*{said}"
    ):
        made_with(plugin)


def test_an_event_that_does_not_exist_is_named_with_its_plugin():
    with pytest.raises(
        PluginSetError, match=r"plugin 'Hopeful': action 'Added' of a cluster event: expected one of Add,"
    ):
        made_with(Hopeful)


def test_plugins_of_all_profiles_see_the_same_waiting_pods():
    class Gang(Hopeful):
        name = "Gang"

        def __init__(self, _args, handle):
            self.handle = handle

        def permit(self, _state, _pod, _node):
            return Status(Code.WAIT), 10.0

        def events_to_register(self):
            return []

    frameworks, _ = made_with(Gang, "one", "two")
    frameworks["one"].run_permit(CycleState(), make_pod("p"), "n")
    [waiting] = frameworks["two"].plugins["Gang"].handle.waiting_pods
    assert waiting.pod.name == "p"
    assert waiting.pending_plugins() == ["Gang"]


def test_plugins_see_what_the_queue_nominates_from_the_moment_they_are_made():
    seen = []

    class Looker(Hopeful):
        name = "Looker"

        def __init__(self, _args, handle):
            self.nominator = handle.nominator
            seen.append(list(handle.nominator.nominated_nodes()))

        def events_to_register(self):
            return []

    waits = make_pod("p")
    frameworks, queue = made_with(Looker, "one", "two", pod_lister=lambda _namespace, _name: waits)
    queue.add_nominated_pod(waits, "n1")
    assert seen == [[], []]
    for framework in frameworks.values():
        nominator = framework.plugins["Looker"].nominator
        assert (nominator.nominated_nodes(), nominator.nominated_pods_for_node("n1")) == (["n1"], [waits])
