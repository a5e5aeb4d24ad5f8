"""Threads that decode pods at once: whoever comes first, what is promised to be one object is one object."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

from schedcache.model import Pod
from schedcache.testing import pod_manifest

THREADS = 4
ROUNDS = 2000


def raw(number, **status):
    """A pod with a spec and a shape that nobody has seen yet, if it is the first of its number."""
    obj = pod_manifest("p", uid="u", requests={"cpu": f"{number + 1}m"}, labels={"round": str(number)})
    return json.dumps({**obj, "status": status}).encode()


def report(number):
    """A kubelet's report of more than the pod asks for."""
    return {"name": "main", "resources": {"requests": {"cpu": f"{number + 2}m"}}}


def decoded_at_once(raws):
    """The pods of each text, all threads at the same text at a time."""
    start = threading.Barrier(THREADS)

    def decode():
        pods = []
        for text in raws:
            start.wait()
            pods.append(Pod.from_json(text))
        return pods

    with ThreadPoolExecutor(THREADS) as threads:
        decoding = [threads.submit(decode) for _ in range(THREADS)]
        return list(zip(*(thread.result() for thread in decoding), strict=True))


def test_equal_pods_share_spec_and_shape(switching_often):
    rounds = decoded_at_once([raw(number) for number in range(ROUNDS)])
    specs = sum(len({id(pod.spec) for pod in pods}) > 1 for pods in rounds)
    shapes = sum(len({id(pod.shape) for pod in pods}) > 1 for pods in rounds)
    assert (specs, shapes) == (0, 0)


def test_pods_of_one_spec_with_one_report_share_their_requests(switching_often):
    held = [Pod.from_json(raw(number)) for number in range(ROUNDS)]
    rounds = decoded_at_once([raw(number, containerStatuses=[report(number)]) for number in range(ROUNDS)])
    for pod, pods in zip(held, rounds, strict=True):
        assert pods[0].requests.resource.milli_cpu == pod.requests.resource.milli_cpu + 1
    assert sum(len({id(pod.requests) for pod in pods}) > 1 for pods in rounds) == 0
