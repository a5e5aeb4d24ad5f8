"""The effective requests of a pod, by the rules of component-helpers 1.37."""

import pytest

from schedcache.model import Pod, Resource
from schedcache.model.resources import is_scalar_resource

MI = 1024**2
NO_CPU, NO_MEMORY = 100, 200 * MI


def container(name="c", **requests):
    return {"name": name, "resources": {"requests": {k.replace("_", "-"): v for k, v in requests.items()}}}


def sidecar(name="s", **requests):
    return {**container(name, **requests), "restartPolicy": "Always"}


def pod(containers, inits=(), status=None, **spec):
    return Pod.from_dict(
        {
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"containers": containers, "initContainers": list(inits), **spec},
            "status": status or {},
        }
    )


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
