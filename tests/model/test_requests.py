"""The effective requests of a pod, by the rules of component-helpers 1.37."""

import gc

import pytest

from schedcache.model import Resource
from schedcache.model.resources import is_scalar_resource
from schedcache.testing import make_pod

MI = 1024**2
NO_CPU, NO_MEMORY = 100, 200 * MI


def container(name="c", **requests):
    return {"name": name, "resources": {"requests": {k.replace("_", "-"): v for k, v in requests.items()}}}


def sidecar(name="s", **requests):
    return {**container(name, **requests), "restartPolicy": "Always"}


def pod(containers, inits=(), status=None, **spec):
    return make_pod("p", containers=containers, initContainers=list(inits), status=status, **spec)


def cpu(pod):
    return pod.requests.resource.milli_cpu


class TestContainers:
    def test_add_up_before_they_are_rounded(self):
        p = pod([container(cpu="1.5m", memory="1500m"), container("d", cpu="1.5m", memory="500m")])
        assert cpu(p) == 3
        assert p.requests.resource.memory == 2

    def test_init_containers_count_as_a_peak(self):
        assert cpu(pod([container(cpu="100m")], [container("i", cpu="7"), container("j", cpu="2")])) == 7000
        assert cpu(pod([container(cpu="8")], [container("i", cpu="7")])) == 8000

    def test_sidecars_add_up_and_run_beside_later_init_containers(self):
        assert cpu(pod([container(cpu="1")], [sidecar(cpu="500m"), container("i", cpu="200m")])) == 1500
        assert cpu(pod([container(cpu="1")], [sidecar(cpu="500m"), container("i", cpu="2")])) == 2500
        assert cpu(pod([container(cpu="1")], [container("i", cpu="2"), sidecar(cpu="500m")])) == 2000
        assert (
            cpu(pod([container(cpu="100m")], [sidecar(cpu="1"), sidecar("t", cpu="1"), container("i", cpu="1")]))
            == 3000
        )

    def test_overhead_is_added_last(self):
        p = pod([container(cpu="1")], [container("i", cpu="2")], overhead={"cpu": "250m", "memory": "128Mi"})
        assert cpu(p) == 2250
        assert p.requests.resource.memory == 128 * MI
        assert p.requests.non_zero_milli_cpu == 2250
        assert p.requests.non_zero_memory == 200 * MI + 128 * MI

    def test_of_nothing(self):
        p = pod([])
        assert p.requests.resource == Resource()
        assert (p.requests.non_zero_milli_cpu, p.requests.non_zero_memory) == (0, 0)


class TestNonZero:
    @pytest.mark.parametrize(
        ("requests", "expected"),
        [
            ({}, (NO_CPU, NO_MEMORY)),
            ({"cpu": "0", "memory": "0"}, (0, 0)),
            ({"cpu": "1"}, (1000, NO_MEMORY)),
            ({"memory": "1"}, (NO_CPU, 1)),
        ],
    )
    def test_fills_in_missing_keys_alone(self, requests, expected):
        p = pod([container(**requests)])
        assert (p.requests.non_zero_milli_cpu, p.requests.non_zero_memory) == expected

    def test_fills_in_each_container_init_containers_too(self):
        p = pod([container(), container("d", cpu="1")], [sidecar(), container("i")])
        assert p.requests.non_zero_milli_cpu == NO_CPU + 1000 + NO_CPU
        assert p.requests.non_zero_memory == 3 * NO_MEMORY
        assert cpu(p) == 1000

    def test_carries_no_other_resources(self):
        p = pod([container(**{"ephemeral_storage": "1Gi", "x.io/y": "1"})])
        assert p.requests.resource.scalar == {"x.io/y": 1}
        assert p.requests.resource.ephemeral_storage == 1024**3
        assert p.requests.non_zero_memory == NO_MEMORY


class TestPodLevel:
    def test_replaces_what_the_containers_ask_for(self):
        p = pod([container(cpu="1", memory="1Gi")], resources={"requests": {"cpu": "3"}})
        assert (cpu(p), p.requests.resource.memory) == (3000, 1024**3)
        assert p.requests.non_zero_milli_cpu == 3000

    def test_fills_in_no_container_for_what_it_names(self):
        p = pod([container(), container("d")], resources={"requests": {"cpu": "1", "memory": "1Mi"}})
        assert (p.requests.non_zero_milli_cpu, p.requests.non_zero_memory) == (1000, MI)

    def test_of_other_resources_does_not_count(self):
        p = pod([container(**{"x.io/y": "2"})], resources={"requests": {"x.io/y": "9", "hugepages-2Mi": "4Mi"}})
        assert p.requests.resource.scalar == {"x.io/y": 2, "hugepages-2Mi": 4 * MI}

    def test_with_overhead(self):
        p = pod([container(cpu="5")], resources={"requests": {"cpu": "1"}}, overhead={"cpu": "500m"})
        assert cpu(p) == 1500


def resizing(spec, allocated=None, actual=None, infeasible=False):
    """A pod whose spec asks for one thing while the kubelet reports another (kubernetes/kubernetes#129532)."""
    report = {"name": "c"}
    if allocated is not None:
        report["allocatedResources"] = {"cpu": allocated}
    if actual is not None:
        report["resources"] = {"requests": {"cpu": actual}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    return pod([container(cpu=spec)], status={"containerStatuses": [report], "conditions": conditions})


class TestResize:
    @pytest.mark.parametrize(
        ("spec", "allocated", "actual", "expected"),
        [("1", "3", "3", 3000), ("3", "1", "1", 3000), ("1", "2", "3", 3000), ("1", None, "2", 2000), ("1", "2", None, 2000),
         ("2", "2", "2", 2000), ("1", None, None, 1000)],
    )  # fmt: skip
    def test_takes_the_largest(self, spec, allocated, actual, expected):
        assert cpu(resizing(spec, allocated, actual)) == expected

    def test_that_is_infeasible_leaves_the_wish_out(self):
        assert cpu(resizing("9", "1", "2", infeasible=True)) == 2000
        assert cpu(resizing("9", "1", "1", infeasible=True)) == 1000

    def test_of_a_container_that_is_not_named_counts_its_spec(self):
        status = {"containerStatuses": [{"name": "other", "allocatedResources": {"cpu": "9"}}]}
        assert cpu(pod([container(cpu="1")], status=status)) == 1000

    def test_that_reports_the_spec_costs_no_vector_of_its_own(self):
        quiet, reporting = pod([container(cpu="1")]), resizing("1", "1", "1")
        assert reporting.requests is reporting.spec.requests
        assert reporting.spec is quiet.spec

    def test_that_the_kubelet_reports_of_the_whole_pod_costs_none_either(self):
        """From Kubernetes 1.36 on it does so for every pod."""
        report = {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1000m"}}
        p = pod([container(cpu="1")], status=report)
        assert p.requests is p.spec.requests

    def test_is_computed_once_for_pods_of_one_spec_and_report(self):
        first, second = resizing("1", "3", "2"), resizing("1", "3", "2")
        assert first.requests is second.requests
        assert [cpu(p) for p in (first, resizing("1", "2", "3"), resizing("1", "2"), resizing("2", "3", "2"))] == [
            3000, 3000, 2000, 3000,
        ]  # fmt: skip
        assert cpu(resizing("1", "3", "2", infeasible=True)) == 3000
        assert cpu(resizing("4", "3", "2")) == 4000
        assert cpu(resizing("4", "3", "2", infeasible=True)) == 3000

    def test_of_no_resource_named_before_has_a_vector_of_its_own(self):
        status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1", "x.io/y": "0"}}]}
        p = pod([container(cpu="1")], status=status)
        assert p.requests is not p.spec.requests
        assert (p.requests.resource, p.requests.named) == (p.spec.requests.resource, {"cpu", "x.io/y"})

    def test_that_is_over_is_forgotten(self):
        quiet, busy = resizing("1"), resizing("1", "3")
        assert list(quiet.spec.reported_requests.values()) == [busy.requests]
        del busy
        gc.collect()
        assert not quiet.spec.reported_requests

    @pytest.mark.parametrize(
        ("statuses", "expected"),
        [
            ({"containerStatuses": [("c", "2"), ("c", "5")]}, 2000),
            ({"initContainerStatuses": [("c", "2"), ("c", "5")]}, 2000),
            ({"initContainerStatuses": [("c", "5")], "containerStatuses": [("c", "2")]}, 2000),
        ],
    )
    def test_of_several_reports_under_one_name_the_first_counts(self, statuses, expected):
        status = {
            group: [{"name": name, "allocatedResources": {"cpu": amount}} for name, amount in reports]
            for group, reports in statuses.items()
        }
        assert cpu(pod([container(cpu="1")], status=status)) == expected

    def test_of_a_container_without_name_is_found_too(self):
        nameless = {"resources": {"requests": {"cpu": "1"}}}
        assert cpu(pod([nameless], status={"containerStatuses": [{"allocatedResources": {"cpu": "3"}}]})) == 3000


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


class TestPodLevelResize:
    """Requests of the pod itself against status.resources and status.allocatedResources of the pod.

    Expected amounts: CalculateResource of kube-scheduler 1.37.2.
    """

    @pytest.mark.parametrize(
        ("asked", "status", "milli_cpu"),
        [
            ("1", {"allocatedResources": {"cpu": "2"}}, 1000),
            ("1", {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}, 3000),
            ("1", {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}, 3000),
            ("4", {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}, 4000),
            ("1", {"resources": {"limits": {"cpu": "4"}}, "allocatedResources": {"cpu": "2"}}, 2000),
            ("1", {"resources": {}, "allocatedResources": {"cpu": "2"}}, 2000),
            ("1", {"resources": {}}, 1000),
            ("4", {"resources": {}, "allocatedResources": {"cpu": "2"}, **INFEASIBLE}, 2000),
            ("4", {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}, **INFEASIBLE}, 2000),
            ("4", {"resources": {"limits": {"cpu": "9"}}, **INFEASIBLE}, 0),
            ("4", INFEASIBLE, 4000),
        ],
    )
    def test_is_the_largest_of_spec_and_report(self, asked, status, milli_cpu):
        p = pod([container(cpu="500m")], status=status, resources={"requests": {"cpu": asked}})
        assert cpu(p) == milli_cpu

    @pytest.mark.parametrize("asked", [{}, {"x.io/y": "9"}, {"ephemeral-storage": "1"}])
    def test_counts_nothing_where_the_spec_asks_for_nothing_pod_level(self, asked):
        status = {"resources": {"requests": {"x.io/y": "1"}, "limits": {"cpu": "9"}}}
        p = pod([container(cpu="500m")], status=status, resources={"requests": asked})
        assert (cpu(p), p.requests.non_zero_memory) == (500, NO_MEMORY)
        status["resources"]["requests"]["cpu"] = "3"
        p = pod([container(cpu="500m")], status=status, resources={"requests": asked})
        assert cpu(p) == 500

    def test_that_leaves_no_request_fills_in_no_container(self):
        """The spec names CPU, so nothing is implied for it, though the report has replaced what it asks for."""
        status = {"resources": {}, "allocatedResources": {"memory": "1Mi"}, **INFEASIBLE}
        p = pod([container(cpu="1")], status=status, resources={"requests": {"cpu": "4"}})
        assert (p.requests.non_zero_milli_cpu, p.requests.non_zero_memory) == (NO_CPU, MI)

    def test_adds_overhead_once_more(self):
        status = {"resources": {"requests": {"hugepages-2Mi": "6Mi"}}, "allocatedResources": {"cpu": "2"}}
        asked = {"requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}}
        p = pod([container()], status=status, resources=asked, overhead={"cpu": "250m", "hugepages-2Mi": "2Mi"})
        assert (cpu(p), p.requests.resource.scalar) == (2250, {"hugepages-2Mi": 8 * MI})

    def test_beside_a_resize_of_containers_and_sidecars(self):
        """Memory, which no request of the pod names, is the containers' largest; CPU is the pod's."""
        status = {
            "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1", "memory": "3Mi"}}],
            "initContainerStatuses": [{"name": "s", "resources": {"requests": {"cpu": "1", "memory": "5Mi"}}}],
            "resources": {"limits": {"cpu": "4"}},
            "allocatedResources": {"cpu": "2"},
        }
        containers, inits = [container(cpu="500m", memory="4Mi")], [sidecar(cpu="250m", memory="1Mi")]
        p = pod(containers, inits, status, resources={"requests": {"cpu": "1"}})
        assert (cpu(p), p.requests.resource.memory) == (2000, 8 * MI)


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("example.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi-x", True),
        ("kubernetes.io/batch-cpu", True),
        ("requests.kubernetes.io/x", True),
        ("requests.example.com/gpu", False),
        ("gpu", False),
        ("cpu", False),
        ("pods", False),
    ],
)
def test_what_counts_as_a_scalar(name, scalar):
    assert is_scalar_resource(name) is scalar


def test_pods_is_no_request():
    p = pod([container(pods="3", gpu="1")])
    assert p.requests.resource == Resource()


class TestResource:
    def test_equality_takes_zero_as_none(self):
        assert Resource(1, scalar={"a": 0}) == Resource(1)
        assert Resource(1, scalar={"a": 1}) != Resource(1)
        assert Resource(1) != Resource(2)
        assert Resource() != 0

    def test_a_copy_is_apart(self):
        first = Resource(1, 2, 3, 4, {"a": 5})
        second = first.copy()
        second.scalar["a"] = 6
        assert first.scalar == {"a": 5}
        assert (second.milli_cpu, second.memory, second.ephemeral_storage, second.allowed_pod_number) == (1, 2, 3, 4)

    def test_repr_shows_amounts(self):
        assert "milli_cpu=1" in repr(Resource(1))
