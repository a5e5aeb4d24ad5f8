"""What the assembled file system has to do before it becomes an image: run, alone, as a user without rights."""

import os
import pathlib
import subprocess

CLUSTER = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: node}
  status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: pod, namespace: default}
  spec:
    containers: [{name: main, image: example, resources: {requests: {cpu: "1"}}}]
"""
IMPORT_ALL = """
import importlib, pkgutil, ssl, schedcache
for module in pkgutil.walk_packages(schedcache.__path__, "schedcache."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert ssl.create_default_context().cert_store_stats()["x509_ca"], "no certificate authorities"
"""
CHECKS = (
    ("-m", "schedcache", "--version"),
    ("-m", "schedcache", "run", "--help"),
    ("-m", "schedcache", "simulate", "--cluster", "-", "--pod", "default/pod"),
    ("-c", IMPORT_ALL),
)


def run(root: pathlib.Path, user: int) -> None:
    """Run Python in `root` as `user`, who may write nowhere else than a container with a read-only root would.

    Raises:
        SystemExit: a command failed; with what it said.
    """

    def enter() -> None:
        os.chroot(root)
        os.chdir("/")
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    environment = {"PATH": "/usr/local/bin:/usr/bin", "PYTHONPATH": "/opt/schedcache", "PYTHONDONTWRITEBYTECODE": "1"}
    for arguments in CHECKS:
        done = subprocess.run(
            ["python3", *arguments],
            env=environment,
            input=CLUSTER,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            preexec_fn=enter,
        )
        if done.returncode:
            raise SystemExit(
                f"in the image, python3 {' '.join(arguments[:3])} exits with {done.returncode}:\n{done.stdout}"
            )
