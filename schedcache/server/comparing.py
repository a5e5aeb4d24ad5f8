"""Continuous comparison: what is held with what the API server has, and the cache with a computation from scratch."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import structlog
from aiohttp import web

from schedcache.model import Pod
from schedcache.ports import Difference, EventRecorder, EventSource, KindComparison
from schedcache.scheduling import Scheduler
from schedcache.scheduling.differences import POD, differences_within
from schedcache.server.share import ProcessorShare

API_VERSION = "schedcache/v1"
KIND = "Comparison"
WITHIN = "cache"
"""Stands for a kind: the comparison of the scheduler's own data with each other."""
REBUILD = "comparison"
SHOWN = 200
"""Differences that an answer lists."""
LEAST_SECONDS = 10.0
"""Between the beginnings of two comparisons that are asked for."""
MOST_SECONDS = 120.0
"""For the lists, and for events on their way."""
_TOLD = 200

log = structlog.get_logger(__name__)


class Comparison(msgspec.Struct, frozen=True, rename="camel"):
    """Everything, compared: the document that `/compare` returns. docs/compare.md describes each field."""

    api_version: str
    kind: str
    began: datetime
    seconds: float
    check_seconds: float
    objects: int
    bytes: int
    kinds: dict[str, KindComparison]
    counts: dict[str, dict[str, int]]
    differences: tuple[Difference, ...]
    more: int
    repair: str


class Comparer:
    """Compares when asked, tells metrics, log and operators of what the regular comparisons find, and has it repaired.

    The source compares itself with the API server, regularly and when asked, and repairs what differs by listing again. What
    differs within this process is found here, and repaired by reading everything again.

    Args:
        scheduler: whose data is compared.
        source: of its events; told to call this for each comparison.
        recorder: of the events that tell operators of drift.
        own_pod: the pod that this process runs in, if it is known.
        share: of the processor that checks may take.
        interval: seconds between checks that nobody asks for; None: there are none.
        wall_clock: seconds since 1970.

    Attributes:
        latest: by kind, and for WITHIN: the latest comparison, and its time in seconds since 1970.
        drift: (kind, cause) -> differences found so far.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        source: EventSource,
        recorder: EventRecorder,
        share: ProcessorShare,
        *,
        own_pod: Callable[[], Pod | None] = lambda: None,
        interval: float | None = 600.0,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._source = source
        self._recorder = recorder
        self._share = share
        self._own_pod = own_pod
        self._interval = interval
        self._wall_clock = wall_clock
        self._began_at = float("-inf")
        self._running: asyncio.Task[Comparison] | None = None
        self._checking = asyncio.Lock()
        self._check_seconds = 0.0
        # Since the last comparison that was asked for began.
        self._told: deque[KindComparison] = deque(maxlen=_TOLD)
        self.latest: dict[str, tuple[float, KindComparison]] = {}
        self.drift: Counter[tuple[str, str]] = Counter()
        source.on_compared = self._compared

    async def run(self) -> None:
        """Check what is within this process from time to time, until cancelled."""
        while self._interval is not None:
            await asyncio.sleep(self._interval)
            if self._source.has_synced() and not self._source.rebuild_wanted():
                try:
                    await self._check()
                except Exception:
                    # Comparing is a second line of defence: a fault in it must not end the first one.
                    log.exception("a comparison crashed, trying again later")
        await asyncio.Event().wait()

    async def compare(self) -> Comparison:
        """Compare everything now. Who asks meanwhile, or within ten seconds of its beginning, gets the same answer."""
        if self._running is None or (self._running.done() and time.monotonic() - self._began_at > LEAST_SECONDS):
            self._began_at = time.monotonic()
            self._running = asyncio.create_task(self._compare(), name="comparison")
        return await asyncio.shield(self._running)

    async def _compare(self) -> Comparison:
        began, started = datetime.fromtimestamp(self._wall_clock(), UTC), time.monotonic()
        self._told.clear()
        if self._source.has_synced():
            try:
                async with asyncio.timeout(MOST_SECONDS):
                    await self._source.compare()
            except TimeoutError:
                log.warning("a comparison with the API server took too long")
            await self._check()
        kinds = {found.kind: found for found in self._told}
        for kind in (*self._source.resource_versions(), WITHIN):
            kinds.setdefault(kind, KindComparison(kind, problem="not listed yet, or being read again"))
        # A regular comparison may come in between, and then what it found is repaired by now.
        found = list(dict.fromkeys(difference for kind in self._told for difference in kind.differences))
        counts: dict[str, dict[str, int]] = {}
        for difference in found:
            by_cause = counts.setdefault(difference.kind, {})
            by_cause[difference.cause] = by_cause.get(difference.cause, 0) + 1
        return Comparison(
            API_VERSION,
            KIND,
            began,
            round(time.monotonic() - started, 6),
            round(self._check_seconds, 6),
            sum(kind.objects for name, kind in kinds.items() if name != WITHIN),
            sum(kind.bytes for kind in kinds.values()),
            {name: msgspec.structs.replace(kind, differences=()) for name, kind in kinds.items()},
            counts,
            tuple(found[:SHOWN]),
            max(0, len(found) - SHOWN),
            "rebuild" if kinds[WITHIN].differences else "list" if found else "none",
        )

    async def _check(self) -> None:
        """What is within this process, in turns of the share."""
        async with self._checking:
            await self._check_once()

    async def _check_once(self) -> None:
        started, used, objects = time.monotonic(), 0.0, 0
        found: list[Difference] = []
        pieces = differences_within(self._scheduler, self._source)
        while True:
            async with self._share:
                began = time.thread_time()
                piece = next(pieces, None)
                used += time.thread_time() - began
            if piece is None:
                break
            found += piece
        objects = sum(len(self._source.held(kind)) for kind in self._source.resource_versions())
        self._check_seconds = used
        self._compared(KindComparison(WITHIN, objects, 0, round(time.monotonic() - started, 6), "", tuple(found)))
        if found and not self._source.rebuild_wanted():
            self._source.request_rebuild(REBUILD)

    def _compared(self, found: KindComparison) -> None:
        """Remember it; if there is drift, tell those who look after the cluster."""
        self.latest[found.kind] = self._wall_clock(), found
        if found.kind == POD and not found.problem:
            self._scheduler.live_reader.caught_up(self._scheduler.state.clock() - found.seconds)
        self._told.append(found)
        if not found.differences:
            return
        causes = Counter((difference.kind, str(difference.cause)) for difference in found.differences)
        self.drift += causes
        counted = ", ".join(f"{kind}: {cause} {number}" for (kind, cause), number in sorted(causes.items()))
        first = found.differences[0]
        tell = log.error if found.kind == WITHIN else log.warning
        tell("drift found, repairing it", where=found.kind, found=counted, first=msgspec.to_builtins(first))
        regarding = self._own_pod() or _concerned(found)
        if regarding is not None:
            remedy = "everything is read again" if found.kind == WITHIN else "they are listed again"
            note = f"What is held differed from what should be ({counted}; first {first.name}), {remedy}"
            self._recorder.event(regarding, "Warning", "CacheDrift", "Comparing", note)


def _concerned(found: KindComparison) -> Pod | None:
    """The first pod that differs, whether it is held or not."""
    for difference in found.differences:
        if difference.kind == POD:
            namespace, _, name = difference.name.partition("/")
            metadata = {"namespace": namespace, "name": name, "uid": difference.uid}
            return Pod.from_dict({"metadata": metadata})
    return None


def compare_route(comparer: Comparer) -> web.RouteDef:
    """`GET /compare`: compares now, and answers with what differs."""

    async def handle(request: web.Request) -> web.Response:
        if request.query:
            raise web.HTTPBadRequest(text="expected no parameter\n")
        headers = {"Cache-Control": "no-store"}
        if request.method == "HEAD":
            return web.Response(content_type="application/json", headers=headers)
        document = msgspec.json.encode(await comparer.compare())
        return web.Response(body=document, content_type="application/json", headers=headers)

    return web.get("/compare", handle)
