"""What the example extender answers, and that a scheduler with its configuration goes by it."""

import importlib.util
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from schedcache.app.settings import load_file
from schedcache.testing import wait_until
from tests.e2e.scheduler_process import SchedulerProcess

FOLDER = Path(__file__).parents[2] / "examples" / "extender"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("cool_nodes", FOLDER / "cool_nodes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def served(example):
    """The URL at which it is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), example.Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def obj(name, degrees=None):
    annotations = {} if degrees is None else {"annotations": {"example.com/temperature": degrees}}
    return {"metadata": {"name": name, **annotations}}


def arguments(pod, *nodes):
    return {"Pod": pod, "Nodes": {"items": list(nodes)}, "NodeNames": None}


def test_hot_nodes_are_left_out_and_pods_may_bear_more(example):
    nodes = obj("hot", "82"), obj("warm", "60"), obj("unknown")
    assert example.filter_nodes(arguments(obj("p"), *nodes)) == {
        "Nodes": {"items": [obj("warm"), obj("unknown")]},
        "FailedAndUnresolvableNodes": {"hot": "node(s) were hotter than 70 degrees"},
    }
    assert example.filter_nodes(arguments(obj("p", "90"), *nodes))["FailedAndUnresolvableNodes"] == {}


def test_the_coolest_nodes_get_most_points(example):
    nodes = obj("a", "20"), obj("b", "45"), obj("c", "70"), obj("d", "-5")
    points = [entry["Score"] for entry in example.prioritize_nodes(arguments(obj("p"), *nodes))]
    assert points == [10, 5, 0, 10]


def test_it_needs_nothing_but_python_and_is_typed():
    script = str(FOLDER / "cool_nodes.py")
    helped = subprocess.run([sys.executable, "-I", "-S", script, "--help"], capture_output=True, check=False)
    assert helped.returncode == 0, helped.stderr
    typed = [sys.executable, "-m", "mypy", "--strict", script]
    done = subprocess.run(typed, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_its_configuration_is_sound():
    [extender] = load_file(FOLDER / "scheduler.yaml").config.extenders
    assert (extender.filter_verb, extender.prioritize_verb, extender.ignorable) == ("filter", "prioritize", True)


@pytest.mark.controlplane
async def test_a_scheduler_goes_by_it(cluster, served, tmp_path):
    config = tmp_path / "scheduler.yaml"
    config.write_text((FOLDER / "scheduler.yaml").read_text().replace("http://127.0.0.1:8888", served))
    for name, degrees in (("hot", "82"), ("warm", "60"), ("cool", "25")):
        await cluster.make_nodes(1, name=name, annotations={"example.com/temperature": degrees})
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log", f"--config={config}") as process:
        await process.ready()
        await cluster.make_pods(3, cpu="100m")
        await cluster.wait_until_bound(3)
        bound = {pod["spec"]["nodeName"] for pod in await cluster.list_pods()}
        assert bound == {"cool"}
        # Where the others are full, the hot one stays empty, and the pod says why.
        await cluster.make_pods(3, name="big-{}", cpu="3500m")

        async def told() -> bool:
            messages = [event["note"] for event in await cluster.list_all("/apis/events.k8s.io/v1/events")]
            return any("1 node(s) were hotter than 70 degrees" in note for note in messages)

        await wait_until(told)
        _, metrics = await process.get("/metrics")
        assert f'scheduler_extender_calls_total{{extender="{served}",result="success",verb="filter"}}' in metrics
        assert not process.complaints()
