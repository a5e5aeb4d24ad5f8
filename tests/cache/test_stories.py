"""What the ring of transitions tells of pods and nodes."""

import pytest

from schedcache.cache import PROCESS_STORIES, PodNotFoundError, SchedulerCache, Stories, Story
from schedcache.testing import VirtualClock, make_node, make_pod
from tests.cache.support import make_cache


class TestStories:
    def test_tell_what_happened_to_a_pod_and_why(self):
        clock = VirtualClock(5.0)
        cache = make_cache("n1", "n2", clock=clock)
        pod = make_pod("a", "n1", resource_version=7)
        cache.assume_pod(pod, cause="attempt 3")
        clock.advance(1)
        cache.finish_binding(pod)
        cache.add_pod(make_pod("a", "n2", resource_version=8))
        cache.remove_pod(make_pod("a", "n2", resource_version=9))
        told = [(s.time, s.operation, s.node, s.cause) for s in cache.stories.of(uid="uid-a")]
        assert told == [
            (5.0, "assume_pod", "n1", "attempt 3"),
            (6.0, "finish_binding", "n1", "7"),
            (6.0, "add_pod", "n2", "8"),
            (6.0, "remove_pod", "n2", "9"),
        ]

    def test_tell_what_happened_to_a_node(self):
        cache = make_cache()
        pod = make_pod("a", "n1")
        cache.add_pod(pod)
        cache.add_node(make_node("n1", resource_version=4))
        cache.update_node(None, make_node("n1", resource_version=5))
        cache.remove_node(make_node("n1", resource_version=6))
        cache.remove_pod(pod)
        cache.add_node(make_node("n2"))
        stories = list(cache.stories.of(node="n1"))
        assert [s.operation for s in stories] == ["add_pod", "add_node", "update_node", "remove_node", "remove_pod"]
        assert [s.cause for s in stories[1:4]] == ["4", "5", "6"]
        generations = [s.generation for s in stories]
        assert generations[:4] == sorted(set(generations[:4]))
        assert generations[0] > 0
        assert generations[4] == 0, "the entry is gone"
        assert list(cache.stories.of(uid="uid-a", node="n2")) == []

    def test_tell_of_every_kind_of_end(self):
        clock = VirtualClock(5.0)
        cache = make_cache("n1", clock=clock)
        for name in ("expires", "is cleaned up", "is forgotten"):
            cache.assume_pod(make_pod(name, "n1", resource_version=3))
            cache.finish_binding(make_pod(name, "n1"), cause="attempt 1")
        cache.forget_pod(make_pod("is forgotten", "n1"), cause="no room")
        clock.advance(31)
        cache.expire_pod(make_pod("expires", "n1"), cause="gone")
        cache.cleanup_expired(clock.now)
        cache.add_pod(make_pod("a", "n1", resource_version=4), cause="list")
        cache.update_pod(make_pod("a", "n1"), make_pod("a", "n1", resource_version=6))
        cache.remove_pod(make_pod("a", "n1", resource_version=7), cause="relist")
        told = [(s.operation, s.uid, s.cause) for s in cache.stories.of()][1:]
        assert told == [
            ("assume_pod", "uid-expires", "3"),
            ("finish_binding", "uid-expires", "attempt 1"),
            ("assume_pod", "uid-is cleaned up", "3"),
            ("finish_binding", "uid-is cleaned up", "attempt 1"),
            ("assume_pod", "uid-is forgotten", "3"),
            ("finish_binding", "uid-is forgotten", "attempt 1"),
            ("forget_pod", "uid-is forgotten", "no room"),
            ("expire_pod", "uid-expires", "gone"),
            ("expire_pod", "uid-is cleaned up", ""),
            ("add_pod", "uid-a", "list"),
            ("update_pod", "uid-a", "6"),
            ("remove_pod", "uid-a", "relist"),
        ]

    def test_give_no_cause_where_there_is_none(self):
        clock = VirtualClock()
        cache = make_cache("n1", clock=clock)
        for name in ("a", "b"):
            cache.assume_pod(make_pod(name, "n1"))
            cache.finish_binding(make_pod(name, "n1"))
        clock.advance(31)
        cache.forget_pod(make_pod("a", "n1"))
        cache.expire_pod(make_pod("b", "n1"))
        assert [s.cause for s in cache.stories.of()][-2:] == ["", ""]

    def test_tell_two_pods_of_one_name_apart(self):
        cache = make_cache("n1", "n2")
        cache.add_pod(make_pod("web", "n1", uid="u1"))
        cache.update_pod(make_pod("web", "n1", uid="u1"), make_pod("web", "n2", uid="u2", resource_version=8))
        cache.update_pod(
            make_pod("web", "n2", uid="u2"), make_pod("web", "n1", uid="u3", resource_version=9), cause="replaced"
        )
        told = [(s.operation, s.uid, s.node, s.cause) for s in cache.stories.of()][-4:]
        assert told == [
            ("remove_pod", "u1", "n1", "8"),
            ("add_pod", "u2", "n2", "8"),
            ("remove_pod", "u2", "n2", "replaced"),
            ("add_pod", "u3", "n1", "replaced"),
        ]

    def test_of_nodes_take_a_cause_too(self):
        cache = make_cache()
        cache.add_node(make_node("n1"), cause="list")
        cache.update_node(None, make_node("n1"), cause="label")
        cache.remove_node(make_node("n1"), cause="relist")
        assert [s.cause for s in cache.stories.of(node="n1")] == ["list", "label", "relist"]
        assert {s.uid for s in cache.stories.of(node="n1")} == {""}

    def test_of_refused_calls_are_not_told(self):
        cache = make_cache("n1")
        before = len(cache.stories)
        with pytest.raises(PodNotFoundError):
            cache.remove_pod(make_pod("a", "n1"))
        cache.finish_binding(make_pod("a", "n1"))
        assert len(cache.stories) == before

    def test_never_become_more_than_the_ring_holds(self):
        stories = Stories(capacity=3)
        cache = SchedulerCache(stories=stories)
        for i in range(5):
            cache.add_node(make_node(f"n{i}"))
        assert [s.node for s in stories.of()] == ["n2", "n3", "n4"]
        stories.clear()
        assert len(stories) == 0

    def test_of_all_caches_of_the_process_are_in_one_ring_by_default(self):
        PROCESS_STORIES.clear()
        for name in ("n1", "n2"):
            SchedulerCache().add_node(make_node(name))
        assert [(s.operation, s.node) for s in PROCESS_STORIES.of()] == [("add_node", "n1"), ("add_node", "n2")]

    def test_of_a_reset(self):
        cache = make_cache("n1")
        cache.assume_pod(make_pod("a", "n1"))
        cache.reset(["uid-a"])
        assert list(cache.stories.of())[-1] == Story(1000.0, "reset", "", "", 0, "1 assumed pods kept")
