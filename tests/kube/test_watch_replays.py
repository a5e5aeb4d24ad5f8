"""Scripts of users' reports about watches, through the real reflector and the real health checks, in virtual time.

The steps are those of `schedcache.testing.replay`, and what happens on the way: `close`, `silence`, `killTask`, `bookmark`,
`serverOnly`, `compare`. The server does what a script says; otherwise a watch has a bookmark every minute.
"""

import asyncio
import contextlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedcache.app.deadlines import HealthSettings
from schedcache.app.health import health_of
from schedcache.kube.settings import WatchSettings
from schedcache.kube.watch.edges import Ending, ending_of
from schedcache.kube.watch.kinds import KINDS
from schedcache.kube.watch.pacing import Timing
from schedcache.kube.watch.reflector import Reflector
from schedcache.ports import UnavailableError
from schedcache.testing import VirtualClock
from schedcache.testing.replay import read_script
from schedcache.testing.virtual_clock import settle
from tests.kube.worlds import RecordingSink

SCRIPTS = sorted((Path(__file__).parent / "replays").glob("*.json"))
KIND_OF = {kind.plural: name for name, kind in KINDS.items() if name in ("Pod", "Node")}
BOOKMARK_SECONDS = 30.0


class Server:
    """What a script says of the API server; stands in for a Transport."""

    def __init__(self, clock):
        self._clock = clock
        self.version = "1"
        self.items = {plural: [] for plural in KIND_OF}
        self.streams = {}
        self.dead = set()
        self.withheld = set()
        self.requests = []

    async def get(self, path, params, **_options):
        plural = path.rpartition("/")[2]
        probe = params.get("limit") == "1"
        self.requests.append(("probe" if probe else "list", plural, ""))
        if plural in self.dead:
            await self._clock.sleep(0 if probe else 60)
            raise UnavailableError("no answer", reason="Unreachable")
        while plural in self.withheld and not probe:
            await self._clock.sleep(0.1)
        items = self.items[plural][:1] if probe else self.items[plural]
        return json.dumps({"metadata": {"resourceVersion": self.version}, "items": items}).encode()

    @contextlib.asynccontextmanager
    async def stream(self, path, params, inactivity):
        plural = path.rpartition("/")[2]
        self.requests.append(("watch", plural, params["resourceVersion"]))
        chunks = self.streams[plural] = asyncio.Queue()
        if plural in self.dead:
            chunks.put_nowait(RuntimeError("the script kills the task"))

        async def iter_any():
            while True:
                waiting = asyncio.create_task(chunks.get())
                silence = asyncio.create_task(self._clock.sleep(inactivity))
                await asyncio.wait([waiting, silence], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                silence.cancel()
                if not waiting.done():
                    raise UnavailableError("nothing came", reason="Silent")
                if isinstance(waiting.result(), Exception):
                    raise waiting.result()
                if waiting.result() is None:
                    return
                yield waiting.result()

        yield SimpleNamespace(iter_any=iter_any)

    def send(self, plural, change, obj):
        self.streams[plural].put_nowait(json.dumps({"type": change, "object": obj}).encode() + b"\n")

    def bookmark(self, plural):
        if plural in self.streams and plural not in self.dead:
            self.send(plural, "BOOKMARK", {"metadata": {"resourceVersion": self.version}})


class Replay:
    def __init__(self):
        self.clock = VirtualClock()
        self.server, self.sink = Server(self.clock), RecordingSink()
        self.reflector = None
        self.mark = 0

    async def carry_out(self, step):
        steps = ("list", "watch", "close", "silence", "killTask", "bookmark", "serverOnly", "compare", "expect")
        (name,) = [name for name in steps if name in step]
        if name != "list" and self.reflector is None:
            await self.start()
        if name not in ("expect", "list", "silence"):
            self.mark = len(self.server.requests)
        await getattr(self, f"_{name}")(step)
        await settle()

    async def start(self):
        timing = Timing(clock=self.clock, sleep=self.clock.sleep)
        kinds = list(KIND_OF.values())
        self.reflector = Reflector(self.server, self.sink, kinds, settings=WatchSettings(), timing=timing)
        self.task = asyncio.create_task(self.reflector.run())
        await self.clock.elapse(1)
        assert self.reflector.has_synced()

    async def elapse(self, seconds, silent=()):
        for _ in range(int(seconds / BOOKMARK_SECONDS)):
            for plural in KIND_OF.keys() - set(silent):
                self.server.bookmark(plural)
            await self.clock.elapse(BOOKMARK_SECONDS)

    async def _list(self, step):
        plural = step["list"]
        self.server.items[plural], self.server.version = step["items"], step["resourceVersion"]
        self.server.withheld.discard(plural)
        if self.reflector is not None:
            await self.clock.elapse(1)

    async def _watch(self, step):
        event = step["watch"]
        self.server.send(step.get("stream") or f"{event['object']['kind'].lower()}s", event["type"], event["object"])
        await self.clock.elapse(1)

    async def _close(self, step):
        await self.clock.elapse(5)
        self.mark = len(self.server.requests)
        self.server.streams[step["close"]].put_nowait(None)

    async def _silence(self, step):
        await self.elapse(step["seconds"], silent=KIND_OF)

    async def _killTask(self, step):  # noqa: N802  the step's name
        self.server.dead.add(step["killTask"])
        self.server.streams[step["killTask"]].put_nowait(RuntimeError("the script kills the task"))

    async def _bookmark(self, step):
        for _ in range(int(step["for"] / step["every"])):
            self.server.bookmark(step["bookmark"])
            await self.clock.elapse(step["every"])

    async def _serverOnly(self, step):  # noqa: N802  the step's name
        """What the server has from now on is told by a later step."""
        if backup := re.search(r"restored from a backup of version (\d+)", step["serverOnly"]):
            self.server.version = backup[1]
            self.server.withheld = set(KIND_OF)

    async def _compare(self, step):
        plural = step["compare"]
        self.server.items[plural] = [i for i in self.server.items[plural] if i["metadata"]["name"] in step["fresh"]]
        await self.elapse(660)

    async def _expect(self, step):
        for name, want in step["expect"].items():
            assert getattr(self, f"found_{name}")(want) == want, name

    def found_nextRequest(self, want):  # noqa: N802  as in scripts, and those that follow
        asked = [r for r in self.server.requests[self.mark :] if r[0] != "probe" and r[1] == want["kind"]]
        verb, kind, version = asked[0]
        return {"verb": verb, "kind": kind} | ({"resourceVersion": version} if version else {})

    def _names(self, kind, want):
        held = sorted(
            f"{obj.namespace}/{obj.name}" if kind == "Pod" else obj.name for obj in self.sink.held[kind].values()
        )
        return held if any("/" in name for name in want) else [name.rpartition("/")[2] for name in held]

    def found_cachedPods(self, want):  # noqa: N802
        return self._names("Pod", want)

    def found_cachedNodes(self, want):  # noqa: N802
        return self._names("Node", want)

    found_snapshotNodes = found_cachedNodes  # noqa: N815

    def found_diverged(self, want):
        repaired = {plural: self.reflector.stats.kinds[KIND_OF[plural]].repaired["missed_delete"] for plural in want}
        return {
            plural: names for plural, names in want.items() if repaired[plural] == len(names) == len(self.sink.missed)
        }

    def problems(self):
        scheduler = SimpleNamespace(
            last_housekeeping=self.clock(),
            state=SimpleNamespace(clock=self.clock),
            handlers=SimpleNamespace(synced_kinds=set(self.sink.synced)),
        )
        answers = SimpleNamespace(outage=lambda: None)
        program = SimpleNamespace(
            scheduler=scheduler,
            source=self.reflector,
            settings=SimpleNamespace(health=HealthSettings()),
            transport=SimpleNamespace(unauthorized=False),
            elector=None,
            binder=SimpleNamespace(binds=answers, reads=answers, rights=SimpleNamespace(denied_in="")),
            stopping=False,
            failed_task=lambda: "",
        )
        return [problem for problem in health_of(program).ready().values() if problem]

    def found_ready(self, _want):
        return not self.problems()

    def found_unreadyNames(self, _want):  # noqa: N802
        return [plural for plural in KIND_OF if any(f"{plural} (" in problem for problem in self.problems())]

    def found_restarted(self, _want):
        return [plural for plural, kind in KIND_OF.items() if self.reflector.stats.kinds[kind].crashes]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
async def test_reports_of_users(path):
    replay = Replay()
    steps = read_script(path)
    assert any("expect" in step for step in steps)
    try:
        for step in steps:
            await replay.carry_out(step)
    finally:
        replay.task.cancel()
        await asyncio.wait([replay.task])
    assert replay.sink.faults == []


def test_the_stand_in_ends_as_a_transport_does():
    assert ending_of(UnavailableError("nothing came", reason="Silent")) is Ending.SILENT
    assert ending_of(UnavailableError("no answer", reason="Unreachable")) is Ending.CONNECTION
