"""The pod that this process runs in."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedcache.model import Pod
    from schedcache.scheduling import PodStore

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace(file: Path = NAMESPACE_FILE) -> str:
    """The namespace of that pod, "" outside a cluster; `file` is where Kubernetes mounts it."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def own_pod(pods: "PodStore") -> "Pod | None":
    """That pod, None outside a cluster; its name is the host name."""
    return pods.get(own_namespace(), socket.gethostname())
