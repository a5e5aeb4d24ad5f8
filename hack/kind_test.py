"""Checks the chart and deploy/ in a kind cluster that has the image (make kind-load).

Installs the chart, has Helm test it and pods placed, kills the leader, upgrades and uninstalls, and asks the cluster what came of it.
Prints a line for each check and at the end `N passed, N failed`; exits 1 if any failed. Everything it made is removed, unless KEEP=1 is
set, which leaves out what uninstalls.

Settings, from the environment: CLUSTER (the kind cluster; needed only if there are several) and KUBECONFIG.
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = "charts/schedcache"
NAMESPACE = "schedcache-kind-test"
LABEL = "app.kubernetes.io/instance"
SCHEDULER = "schedcache"
OBSERVER = "schedcache-observer"
SERVICE_ACCOUNT = f"system:serviceaccount:kube-system:{SCHEDULER}"
COME_AND_GO = {"componentstatuses", "events", "events.events.k8s.io"}
ZONE_LABEL = "topology.kubernetes.io/zone"
PORT = 10259
# What deploy/demo-pods.yaml holds: replicas by the label app.
PLACED_BY_US = {"web": 9, "zonal": 3}
NOT_OURS = {"not-ours": 2}


def run(*command: str, env: dict[str, str] | None = None) -> str:
    """Standard output of a command; AssertionError with what it printed when it fails."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )
    assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def until(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition, looked at twice a second; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.5)


class Cluster:
    """kubectl, bound to one kind cluster."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kubectl_command = ("kubectl", "--context", f"kind-{name}")

    def kubectl(self, *args: str) -> str:
        """Standard output of kubectl."""
        return run(*self.kubectl_command, *args)

    def helm(self, *args: str) -> str:
        """Standard output of Helm, at work in kube-system."""
        return run("hack/helm", *args, "--kube-context", f"kind-{self.name}", "--namespace", "kube-system")

    def everything(self) -> set[tuple[str, ...]]:
        """Kind, namespace and name of all objects, but for those that come and go by themselves."""
        kinds = set(self.kubectl("api-resources", "--verbs=list", "-o", "name").split()) - COME_AND_GO
        columns = "custom-columns=:.kind,:.metadata.namespace,:.metadata.name"
        listed = self.kubectl("get", ",".join(sorted(kinds)), "-A", "--no-headers", "-o", columns)
        return {tuple(line.split()) for line in listed.splitlines()}

    def items(self, kind: str, *args: str) -> list[dict[str, Any]]:
        """The objects of a kind, as the API server gives them."""
        listed: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, *args, "-o", "json"))["items"]
        return listed

    def pods(self, app: str) -> list[dict[str, Any]]:
        """The test's pods with the label app=`app`."""
        return self.items("pods", "-n", NAMESPACE, "-l", f"app={app}")

    def reporters(self, reason: str) -> dict[str, set[str]]:
        """By the UID of a pod of the test: the components that reported events of a reason about it."""
        found: dict[str, set[str]] = {}
        for event in self.items("events.events.k8s.io", "-n", NAMESPACE):
            if event["reason"] == reason:
                reporter = event.get("reportingController") or event["deprecatedSource"]["component"]
                found.setdefault(event["regarding"]["uid"], set()).add(reporter)
        return found

    def worker(self, deployment: str) -> str:
        """Of the scheduler the replica that leads, whose identity begins with the pod's name; of others any."""
        if deployment != SCHEDULER:
            return f"deployment/{deployment}"
        lease = json.loads(self.kubectl("-n", "kube-system", "get", "lease", SCHEDULER, "-o", "json"))
        return f"pod/{lease['spec']['holderIdentity'].rpartition('_')[0]}"

    @contextlib.contextmanager
    def forwarded(self, deployment: str) -> Iterator[str]:
        """The URL on this machine of a deployment's HTTPS port, while the context lasts."""
        command = (*self.kubectl_command, "-n", "kube-system", "port-forward", self.worker(deployment), f":{PORT}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                match = re.match(r"Forwarding from (127\.0\.0\.1:\d+)", line)
                assert match, f"port-forward said {line!r}"
                yield f"https://{match[1]}"
            finally:
                process.terminate()

    def fetch(self, deployment: str, path: str) -> str:
        """What a deployment answers at a path of its HTTPS port to the administrator of the cluster."""
        with (
            self.forwarded(deployment) as url,
            urllib.request.urlopen(url + path, timeout=30, context=self.identity()) as response,  # noqa: S310  always https
        ):
            text: str = response.read().decode()
        return text

    def identity(self) -> ssl.SSLContext:
        """The client certificate of kind's kubeconfig; the server's is the scheduler's own, at the end of a port-forward."""
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        user = config["users"][0]["user"]
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with tempfile.NamedTemporaryFile() as file:
            file.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def dump(self, deployment: str) -> dict[str, Any]:
        """A deployment's /dump."""
        decoded: dict[str, Any] = json.loads(self.fetch(deployment, "/dump"))
        return decoded


def only_cluster() -> str:
    """The cluster to test: $CLUSTER, or the only one that kind knows."""
    if name := os.environ.get("CLUSTER"):
        return name
    names = run("kind", "get", "clusters").split()
    if len(names) != 1:
        sys.exit(f"set CLUSTER to a kind cluster; kind knows: {' '.join(names) or 'none'} (make kind-up creates one)")
    return names[0]


class Checks:
    """The checks in order; each method says by its name what holds when it returns."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.before: set[tuple[str, ...]] = set()
        self.figures: list[str] = []

    def all(self) -> list[Callable[[], None]]:
        """Every check, in the order of their definition."""
        names = [name for name in vars(type(self)) if name.startswith("check_")]
        return [getattr(self, name) for name in names]

    def check_chart_installs_and_becomes_ready(self) -> None:
        self.before = self.cluster.everything()
        self.cluster.helm("install", SCHEDULER, CHART)
        self.roll_out(SCHEDULER)

    def check_helm_test_passes(self) -> None:
        begin = time.monotonic()
        self.cluster.helm("test", SCHEDULER, "--timeout", "120s")
        self.figures.append(f"helm test: {time.monotonic() - begin:.1f} s")

    def roll_out(self, deployment: str) -> None:
        """Wait for a deployment of kube-system; the log of its pod is in the error."""
        begin = time.monotonic()
        try:
            self.cluster.kubectl("-n", "kube-system", "rollout", "status", f"deployment/{deployment}", "--timeout=120s")
        except AssertionError as error:
            log = self.cluster.kubectl("-n", "kube-system", "logs", "--all-containers", "-l", f"{LABEL}={deployment}")
            raise AssertionError(f"{error}\n{log}") from error
        self.figures.append(f"{deployment} ready after {time.monotonic() - begin:.1f} s")

    def check_rights_stop_at_what_scheduling_needs(self) -> None:
        def can(*question: str) -> bool:
            command = (*self.cluster.kubectl_command, "auth", "can-i", *question, "--as", SERVICE_ACCOUNT, "-A")
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == "yes"

        assert can("create", "pods", "--subresource=binding")
        assert can("delete", "pods"), "preemption evicts them"
        refused = [
            ("create", "pods"),
            ("update", "pods"),
            ("deletecollection", "pods"),
            ("delete", "nodes"),
            ("patch", "nodes"),
            ("get", "secrets"),
            ("list", "customresourcedefinitions"),
        ]
        allowed = [question for question in refused if can(*question)]
        assert not allowed, f"{SERVICE_ACCOUNT} may {allowed}"

    def check_pods_with_our_scheduler_name_run(self) -> None:
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        begin = time.monotonic()
        self.cluster.kubectl("-n", NAMESPACE, "apply", "-f", "deploy/demo-pods.yaml")
        for app, count in self.expected().items():
            self.until_running(app, count)
        self.figures.append(f"{sum(self.expected().values())} pods of ours run after {time.monotonic() - begin:.1f} s")

    def expected(self) -> dict[str, int]:
        """Pods of ours that this cluster has a node for: zonal needs a zone-a, which not every kind cluster has."""
        zones = {node["metadata"]["labels"].get(ZONE_LABEL) for node in self.cluster.items("nodes")}
        return {app: count for app, count in PLACED_BY_US.items() if app != "zonal" or "zone-a" in zones}

    def until_running(self, app: str, count: int) -> None:
        """Wait until so many pods of an app run."""
        until(f"{count} pods {app} run", lambda: self.running(app) == count, 120)

    def running(self, app: str) -> int:
        """How many pods of an app have all their containers running."""
        return sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
            for pod in self.cluster.pods(app)
        )

    def check_events_say_that_we_placed_them(self) -> None:
        uids = {pod["metadata"]["uid"] for app in self.expected() for pod in self.cluster.pods(app)}
        until("an event Scheduled for each", lambda: uids <= self.cluster.reporters("Scheduled").keys())
        reporters = self.cluster.reporters("Scheduled")
        assert all(reporters[uid] == {SCHEDULER} for uid in uids), reporters

    def check_pods_keep_off_tainted_nodes_and_other_zones(self) -> None:
        nodes = {node["metadata"]["name"]: node for node in self.cluster.items("nodes")}
        tainted = {
            name
            for name, node in nodes.items()
            if any(t["effect"] != "PreferNoSchedule" for t in node["spec"].get("taints", []))
        }
        used = Counter(pod["spec"]["nodeName"] for app in self.expected() for pod in self.cluster.pods(app))
        assert not used.keys() & tainted, f"{used} of which {tainted} are tainted"
        assert len(used) > 1 or len(nodes.keys() - tainted) == 1, f"all on one node: {used}"
        for pod in self.cluster.pods("zonal") if "zonal" in self.expected() else []:
            assert nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][ZONE_LABEL] == "zone-a"
        self.figures.append("pods per node: " + ", ".join(f"{name} {count}" for name, count in sorted(used.items())))

    def check_pod_that_fits_nowhere_says_why(self) -> None:
        (pod,) = self.cluster.pods("too-big")
        until(
            "FailedScheduling from us",
            lambda: SCHEDULER in self.cluster.reporters("FailedScheduling").get(pod["metadata"]["uid"], set()),
        )
        (pod,) = self.cluster.pods("too-big")
        condition = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable"), condition
        assert re.match(r"0/\d+ nodes are available: .*Insufficient cpu", condition["message"]), condition["message"]
        assert "nodeName" not in pod["spec"]

    def check_pods_of_the_default_scheduler_are_left_alone(self) -> None:
        for app, count in NOT_OURS.items():
            self.until_running(app, count)
            for pod in self.cluster.pods(app):
                assert self.cluster.reporters("Scheduled")[pod["metadata"]["uid"]] == {"default-scheduler"}

    def check_dump_equals_the_cluster(self) -> None:
        until("/dump equals the API", lambda: self.difference(SCHEDULER) == "", 30)
        dump = self.cluster.dump(SCHEDULER)
        assert dump["kind"] == "Dump"
        assert dump["assumed"] == [], dump["assumed"]
        (waiting,) = self.cluster.pods("too-big")
        assert waiting["metadata"]["uid"] in json.dumps(dump["queue"]), dump["queue"]

    def difference(self, deployment: str) -> str:
        """What a dump and the API server disagree about, of nodes and of where unfinished pods are; empty if nothing."""
        dump = self.cluster.dump(deployment)
        nodes = {node["metadata"]["name"] for node in self.cluster.items("nodes")}
        placed = {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in self.cluster.items("pods", "-A")
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in {"Succeeded", "Failed"}
        }
        dumped = {uid: pod["node"] for uid, pod in dump["pods"].items() if pod["node"]}
        if nodes != dump["nodes"].keys():
            return f"nodes: {sorted(nodes)} and {sorted(dump['nodes'])}"
        return "" if placed == dumped else f"pods: {sorted(placed.items() ^ dumped.items())}"

    def check_metrics_count_the_placements(self) -> None:
        metrics = self.cluster.fetch(SCHEDULER, "/metrics")
        counted = re.findall(
            r'^scheduler_schedule_attempts_total\{[^}]*result="scheduled"[^}]*\} (\S+)', metrics, re.MULTILINE
        )
        # And the one of Helm's test.
        assert sum(map(float, counted)) == sum(self.expected().values()) + 1, counted

    def check_log_has_no_refusal_and_no_error(self) -> None:
        self.clean_log(SCHEDULER)

    def clean_log(self, deployment: str) -> None:
        """No 403, no traceback, no restart."""
        log = self.cluster.kubectl("-n", "kube-system", "logs", "--tail=-1", "-l", f"{LABEL}={deployment}")
        assert log.strip(), "the log is empty"
        bad = [
            line
            for line in log.splitlines()
            if re.search(r"\b403\b|forbidden|Traceback|\"level\": ?\"(error|critical)\"", line, re.IGNORECASE)
        ]
        assert not bad, "\n".join(bad[:10])
        pods = self.cluster.items("pods", "-n", "kube-system", "-l", f"{LABEL}={deployment}")
        assert pods
        restarts = sum(pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods)
        assert restarts == 0, f"{restarts} restarts"

    def check_observer_sees_the_same_with_read_only_rights(self) -> None:
        self.cluster.helm("install", OBSERVER, CHART, "--values", f"{CHART}/ci/observer-values.yaml")
        self.roll_out(OBSERVER)
        until("the observer's /dump equals the API", lambda: self.difference(OBSERVER) == "", 30)
        self.clean_log(OBSERVER)

    def check_pods_created_during_a_restart_are_placed_after_it(self) -> None:
        begin = time.monotonic()
        self.cluster.kubectl("-n", "kube-system", "delete", "pod", "-l", f"{LABEL}={SCHEDULER}", "--wait=true")
        self.figures.append(f"stopped within {time.monotonic() - begin:.1f} s of the delete")
        self.cluster.kubectl("-n", NAMESPACE, "scale", "deployment/web", "--replicas=12")
        self.roll_out(SCHEDULER)
        self.until_running("web", 12)
        until("/dump equals the API", lambda: self.difference(SCHEDULER) == "", 30)
        self.clean_log(SCHEDULER)

    def check_another_replica_takes_over_from_a_leader_that_is_killed(self) -> None:
        leader = self.cluster.worker(SCHEDULER)
        begin = time.monotonic()
        self.cluster.kubectl("-n", "kube-system", "delete", leader, "--grace-period=0", "--force")
        until("another replica leads", lambda: self.cluster.worker(SCHEDULER) != leader)
        self.figures.append(f"another replica led {time.monotonic() - begin:.1f} s after the leader was killed")
        self.cluster.kubectl("-n", NAMESPACE, "scale", "deployment/web", "--replicas=15")
        self.until_running("web", 15)
        self.roll_out(SCHEDULER)

    def check_upgrade_with_changed_values_loses_no_pod(self) -> None:
        values = ("--set", "replicaCount=3,kubeApi.qps=100,log.verbosity=2")
        self.cluster.helm("upgrade", SCHEDULER, CHART, *values)
        # While old and new pods take turns.
        self.cluster.kubectl("-n", NAMESPACE, "scale", "deployment/web", "--replicas=20")
        self.roll_out(SCHEDULER)
        self.until_running("web", 20)
        assert len(self.cluster.items("pods", "-n", "kube-system", "-l", f"{LABEL}={SCHEDULER}")) >= 3
        until("/dump equals the API", lambda: self.difference(SCHEDULER) == "", 30)

    def check_uninstalling_leaves_nothing(self) -> None:
        if os.environ.get("KEEP"):
            return
        remove_everything(self.cluster)

        def left() -> set[tuple[str, ...]]:
            return {found for found in self.cluster.everything() - self.before if SCHEDULER in found[-1]}

        until("nothing is left", lambda: not left())

    def check_manifests_of_deploy_do_without_helm(self) -> None:
        if os.environ.get("KEEP"):
            return
        self.cluster.kubectl("apply", "-f", "deploy/scheduler")
        self.roll_out(SCHEDULER)
        self.clean_log(SCHEDULER)
        remove_everything(self.cluster)


def remove_everything(cluster: Cluster) -> None:
    """Delete the test's namespace and what is installed, and wait until they are gone."""
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true", "--timeout=120s")
    for release in (OBSERVER, SCHEDULER):
        cluster.helm("uninstall", release, "--ignore-not-found", "--wait", "--timeout", "60s")
    cluster.kubectl("delete", "-f", "deploy/scheduler", "--ignore-not-found", "--wait=true", "--timeout=60s")


def main() -> int:
    """Run the checks; after one failed, the later ones still run."""
    cluster = Cluster(only_cluster())
    checks = Checks(cluster)
    remove_everything(cluster)
    failed = 0
    for check in checks.all():
        title = check.__name__.removeprefix("check_").replace("_", " ")
        begin = time.monotonic()
        try:
            check()
        except Exception as error:  # noqa: BLE001  whatever it is, it is this check's failure, and is shown
            failed += 1
            print(f"FAIL {title}: {type(error).__name__}: {error}", flush=True)
        else:
            print(f"ok   {title} ({time.monotonic() - begin:.1f} s)", flush=True)
    print(*(f"     {figure}" for figure in checks.figures), sep="\n")
    if not os.environ.get("KEEP"):
        remove_everything(cluster)
    print(f"{len(checks.all()) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
