"""A network of its own for a scheduler: a namespace and one cable to it, on which packets can be lost. Needs root.

Inside, 127.0.0.1 and the proxy's port lead over the cable, so kubeconfig and certificate are the same as outside.
"""

import asyncio
import os
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from schedcache.testing.control_plane import free_ports
from tests.faults.process import Launch
from tests.faults.relay import Relay

NETWORK = "10.213.{}"
PORTS = "-p tcp"


def run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


class Cable:
    """What lies between the scheduler and the API server."""

    def __init__(self, namespace: str, outside: str, inside: str) -> None:
        self.namespace = namespace
        self.outside = outside
        self.inside = inside
        self.port = 0

    @property
    def launch(self) -> Launch:
        return Launch(prefix=("ip", "netns", "exec", self.namespace), address=self.inside)

    def lose(self, share: float) -> None:
        """So many of all packets from and to the API server, in either direction, and in silence; 0: none, 1: all."""
        self._in_namespace("iptables", "-F", "INPUT")
        self._in_namespace("iptables", "-F", "OUTPUT")
        if share:
            chance = () if share == 1 else ("-m", "statistic", "--mode", "random", "--probability", str(share))
            port = str(self.port)
            self._in_namespace("iptables", "-A", "INPUT", "-p", "tcp", "--sport", port, *chance, "-j", "DROP")
            self._in_namespace("iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", port, *chance, "-j", "DROP")

    def _in_namespace(self, *command: str) -> None:
        run("ip", "netns", "exec", self.namespace, *command)


@asynccontextmanager
async def cable(server: str) -> AsyncIterator[Cable]:
    """To `https://127.0.0.1:PORT`; everything that was made is removed at the end."""
    name = f"sc{os.getpid() % 100000}{secrets.token_hex(2)}"
    prefix = NETWORK.format(secrets.randbelow(250))
    made = Cable(name, f"{prefix}.1", f"{prefix}.2")
    port = int(server.rpartition(":")[2])
    with ExitStack() as undo:
        run("ip", "netns", "add", name)
        undo.callback(run, "ip", "netns", "del", name)
        run("ip", "link", "add", f"{name}o", "type", "veth", "peer", "name", f"{name}i", "netns", name)
        run("ip", "addr", "add", f"{made.outside}/30", "dev", f"{name}o")
        run("ip", "link", "set", f"{name}o", "up")
        inside = made._in_namespace
        inside("ip", "addr", "add", f"{made.inside}/30", "dev", f"{name}i")
        inside("ip", "link", "set", f"{name}i", "up")
        inside("ip", "link", "set", "lo", "up")
        inside("sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
        with free_ports(1) as (free,):
            made.port = free
        target = ("-p", "tcp", "-d", "127.0.0.1", "--dport", str(port), "-j", "DNAT", "--to", f"{made.outside}:{free}")
        inside("iptables", "-t", "nat", "-A", "OUTPUT", *target)
        inside("iptables", "-t", "nat", "-A", "POSTROUTING", "-o", f"{name}i", "-j", "MASQUERADE")
        async with Relay("127.0.0.1", port, address=made.outside, port=free):
            yield made
            await asyncio.sleep(0)
