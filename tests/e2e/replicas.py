"""Several replicas of one scheduler, each with its own way to the API server and a user of its own, and the proof of who wrote when."""

import itertools
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from schedcache.testing import Cluster, FaultProxy, wait_until
from tests.e2e.figures import figures
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.shipped_rights import make_account, user_of

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/schedcache"
LEASES = r"/leases\b"
DURATION = 3.0
RETRY = 0.5
QUICK = (
    "--leader-elect",
    f"--leader-elect-lease-duration={DURATION:g}s",
    "--leader-elect-renew-deadline=2s",
    f"--leader-elect-retry-period={RETRY:g}s",
)


class Replica(SchedulerProcess):
    """A process, and its user's name in the audit log; with `proxy`, that between it and the API server."""

    def __init__(
        self, kubeconfig: Path, user: str, log: Path, *flags: str, proxy: FaultProxy | None, module: str
    ) -> None:
        super().__init__(kubeconfig, log, *flags, module=module)
        self._proxy = proxy
        self.user = user

    @property
    def proxy(self) -> FaultProxy:
        assert self._proxy is not None, "it is connected directly"
        return self._proxy

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def standing(self) -> str:
        status, text = await self.get("/readyz", probe=True)
        return text.strip() if status == 200 else f"{status}: {text}"

    async def leads(self) -> bool:
        if self.process.returncode is not None:
            return False
        found = await figures(self)
        return found.of("leader_election_master_status", name="schedcache") == 1


@asynccontextmanager
async def replicas(
    cluster: Cluster, folder: Path, count: int, *flags: str, proxied: bool = False, module: str = "schedcache"
) -> AsyncIterator[list[Replica]]:
    """Started one after the other, so that the first one leads; all are ready.

    `proxied` only for faults on the way: what a proxy has taken it passes on, though nobody waits for it any more, and on a busy machine
    that may be late.
    """
    found = []
    async with AsyncExitStack() as stack:
        for number in range(count):
            proxy = await stack.enter_async_context(FaultProxy(cluster.control_plane)) if proxied else None
            user, token = user_of(f"replica-{number}"), await make_account(cluster, f"replica-{number}")
            kubeconfig = (proxy or cluster.control_plane).kubeconfig_for(token)
            replica = Replica(kubeconfig, user, folder / f"log-{number}", *flags, proxy=proxy, module=module)
            await stack.enter_async_context(replica)
            await replica.ready()
            if number == 0:
                await wait_until(replica.leads, 20)
            found.append(replica)
        yield found


class LeaseWrite(NamedTuple):
    """One that was carried out; times in seconds since the epoch, of the API server's clock."""

    received: float
    user: str
    holder: str
    seconds: int


async def lease_writes(cluster: Cluster) -> list[LeaseWrite]:
    """All of them, in order."""
    await cluster.audit.settled(cluster)
    found = []
    for event in cluster.audit.events(resource="leases"):
        body = event.body or {}
        # The API server has Leases of its own.
        if event.status in (200, 201) and event.writes and body.get("metadata", {}).get("name") == "schedcache":
            spec = body["spec"]
            found.append(
                LeaseWrite(_time(event.received), event.user, spec["holderIdentity"], spec["leaseDurationSeconds"])
            )
    return found


async def assert_only_holders_wrote(cluster: Cluster) -> dict[str, int]:
    """Every decisive write arrived while the lease of its sender had not run out, and before the next one's. Returns binds by user.

    A lease cannot have run out for others sooner than its duration after the API server received its last renewal.
    """
    writes = await lease_writes(cluster)
    assert writes
    binds: dict[str, int] = {}
    for event in cluster.audit.events():
        decisive = event.subresource == "binding" or (event.resource == "pods" and event.verb in ("delete", "patch"))
        if not decisive or "replica-" not in event.user:
            continue
        arrived = _time(event.received)
        before = [write for write in writes if write.received <= arrived]
        assert before, f"{event.user} wrote before anybody had the lease"
        last = before[-1]
        assert (last.user, bool(last.holder)) == (event.user, True), f"{event.user} wrote although {last.user} led"
        assert arrived < last.received + last.seconds, (
            f"{event.user} wrote {arrived - last.received:.3f} s after its renewal"
        )
        if event.subresource == "binding" and event.status == 201:
            binds[event.user] = binds.get(event.user, 0) + 1
    holders = [holder for holder, _ in itertools.groupby(write.holder for write in writes if write.holder)]
    assert len(set(holders)) == len(holders), "who has lost the lease never has it again"
    return binds


async def hand_over(cluster: Cluster) -> float:
    """Seconds from the last write of the former holder, a release included, to the first of the present one."""
    writes = await lease_writes(cluster)
    present = next(write.holder for write in reversed(writes) if write.holder)
    first = next(number for number, write in enumerate(writes) if write.holder == present)
    return writes[first].received - writes[first - 1].received


def tell(text: str) -> None:
    """A figure, for whoever runs the tests with -s."""
    sys.stdout.write(f"\n{text}\n")


def _time(text: str) -> float:
    return datetime.fromisoformat(re.sub(r"Z$", "+00:00", text)).timestamp()
