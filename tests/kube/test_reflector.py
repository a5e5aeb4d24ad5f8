"""The edges of the reflector's state machine, one by one, against a scripted server."""

import asyncio
import contextlib
import gc
import random
import re
import time
from collections.abc import AsyncIterator

import pytest
import yaml

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import WatchSettings
from schedcache.kube.watch.decoder import StatusError
from schedcache.kube.watch.differences import differences_of
from schedcache.kube.watch.kind_watch import State
from schedcache.kube.watch.kinds import KINDS
from schedcache.kube.watch.pacing import Timing
from schedcache.kube.watch.rebuilds import ROLLBACK
from schedcache.kube.watch.reflector import Reflector
from schedcache.kube.watch.stats import KindStats
from schedcache.kube.watch.store import ObjectStore
from schedcache.kube.watch.sweep import Findings
from schedcache.ports import ApiError
from tests.kube.fake_api import FakeApi, bookmark, error, event, listing, node, pod, refusal, stream
from tests.kube.worlds import RecordingSink

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


def kubeconfig(tmp_path, server, **user):
    content = {
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "someone"}}],
        "clusters": [{"name": "fake", "cluster": {"server": server}}],
        "users": [{"name": "someone", "user": user or {"token": "secret"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


class Bench:
    """A reflector of pods on a scripted server; its pauses take no time and are noted."""

    def __init__(self, api: FakeApi, transport: Transport, kinds=("Pod",), timing=None, **settings) -> None:
        self.api = api
        self.sink = RecordingSink()
        self.pauses: list[float] = []
        timing = timing or Timing(sleep=self._sleep, rng=random.Random(1))
        watch = WatchSettings(**{"sweep_interval_seconds": None, "probe_interval_seconds": None, **settings})
        self.reflector = Reflector(transport, self.sink, kinds, settings=watch, timing=timing)
        self.task: asyncio.Task[None] | None = None

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    @property
    def stats(self):
        return self.reflector.stats.kinds["Pod"]

    def names(self):
        return sorted(obj.name for obj in self.sink.held["Pod"].values())

    async def until(self, condition, timeout=5.0):
        if self.task is None:
            self.task = asyncio.create_task(self.reflector.run())
        async with asyncio.timeout(timeout):
            while not condition():
                assert not self.task.done()
                await asyncio.sleep(0.005)

    async def watches(self, count):
        await self.until(lambda: len(self.api.asked("watch")) >= count)
        return self.api.asked("watch")


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        fake.lists[PODS] = [listing(900, pod("a", 880), pod("b", 17))]
        yield fake


@contextlib.asynccontextmanager
async def bench_on(api, tmp_path, **options):
    async with Transport(load_credentials(kubeconfig(tmp_path, api.url))) as transport:
        bench = Bench(api, transport, **options)
        try:
            yield bench
        finally:
            if bench.task is not None:
                bench.task.cancel()
                await asyncio.wait([bench.task])
                assert bench.task.cancelled()
    assert bench.sink.faults == []


@pytest.fixture
async def bench(api, tmp_path) -> AsyncIterator[Bench]:
    async with bench_on(api, tmp_path) as made:
        yield made


async def test_the_watch_goes_on_from_the_version_of_the_list_not_of_its_last_item(api, bench):
    api.watches[PODS] = [stream(then="reset")]
    watches = await bench.watches(2)
    assert [w["resourceVersion"] for w in watches[:2]] == ["900", "900"]
    assert watches[0]["allowWatchBookmarks"] == "true"
    assert 300 <= int(watches[0]["timeoutSeconds"]) <= 600
    assert watches[0]["fieldSelector"] == api.asked("list")[0]["fieldSelector"] != ""
    assert api.asked("list")[0]["limit"] == "500"


async def test_events_and_bookmarks_move_the_version(api, bench):
    api.watches[PODS] = [
        stream(event("ADDED", pod("c", 901))),
        stream(bookmark(950)),
        stream(event("DELETED", pod("c", 960))),
    ]
    watches = await bench.watches(4)
    assert [w["resourceVersion"] for w in watches[:4]] == ["900", "901", "950", "960"]
    assert bench.names() == ["a", "b"]
    assert bench.pauses == []
    assert bench.stats.watch_events == {"ADDED": 1, "BOOKMARK": 1, "DELETED": 1}
    assert bench.stats.watch_restarts == {"closed": 3}
    assert len(api.asked("list")) == 1


async def test_a_410_in_the_stream_is_no_object_and_leads_to_a_list(api, bench):
    api.lists[PODS] = [listing(100, pod("a", 90), pod("b", 91)), listing(200, pod("a", 90), pod("b", 150, uid="other"))]
    api.watches[PODS] = [stream(error(410, "too old resource version: 100 (64845263)", reason="Gone"))]
    watches = await bench.watches(2)
    assert [w["resourceVersion"] for w in watches] == ["100", "200"]
    assert [(what, uid) for what, _, uid in bench.sink.log] == [
        ("add", "uid-a"),
        ("add", "uid-b"),
        ("delete", "uid-b"),
        ("add", "other"),
    ]
    assert bench.sink.missed == {"uid-b"}
    assert bench.stats.relists == {"expired": 1}
    assert bench.pauses == []


async def test_lists_that_expire_at_once_do_not_become_a_hot_loop(api, bench):
    api.watches[PODS] = [refusal(410)] * 5
    await bench.watches(6)
    assert len(api.asked("list")) == 6
    assert len(bench.pauses) == 4


async def test_a_version_that_expired_during_an_outage_is_no_reason_to_wait_any_longer(api, bench):
    """An API server begins with what it finds in etcd when it starts, and knows no version from before."""
    api.watches[PODS] = [stream(then="reset")] * 4 + [stream(error(410, "too old resource version: 900 (901)"))]
    await bench.watches(6)
    assert len(api.asked("list")) == 2
    assert bench.stats.watch_restarts == {"connection": 4, "expired": 1}
    assert len(bench.pauses) == 4


async def test_an_expired_page_starts_the_list_again_in_one_piece(api, bench):
    api.lists[PODS] = [listing(100, pod("a", 90), more="p2"), refusal(410), listing(300, pod("b", 91))]
    await bench.watches(1)
    lists = api.asked("list")
    assert [(q.get("limit"), q.get("continue")) for q in lists] == [("500", None), ("500", "p2"), (None, None)]
    assert bench.names() == ["b"]
    assert bench.stats.list_failures == {"page expired": 1}
    assert (bench.stats.lists, bench.stats.list_pages) == (1, 2)


async def test_pages_are_collected_and_delivered_as_one(api, bench):
    seen = []

    async def second(request):
        seen.append(bench.names())
        return await listing(100, pod("b", 80))(request)

    api.lists[PODS] = [listing(100, pod("a", 90), more="p2"), second]
    await bench.watches(1)
    assert seen == [[]]
    assert bench.names() == ["a", "b"]


async def test_throttling_is_answered_with_the_pause_asked_for(api, bench):
    api.watches[PODS] = [
        refusal(429, Retry_After="7"),
        stream(error(429, "too many", details={"retryAfterSeconds": 5})),
        refusal(429, Retry_After="100000"),
        refusal(429),
    ]
    await bench.watches(5)
    asked = bench.pauses
    assert 7 <= asked[0] <= 8.4
    assert 5 <= asked[1] <= 6
    assert 30 <= asked[2] <= 36
    assert asked[3] > 0
    assert bench.stats.watch_restarts == {"throttled": 4}
    assert len(api.asked("list")) == 1


async def test_pauses_grow_with_jitter_up_to_a_limit(api, bench):
    api.watches[PODS] = [refusal(500), stream(error(500)), refusal(503)] * 4
    await bench.watches(13)
    assert len(bench.pauses) == 12
    bases = [min(30, 0.8 * 2**n) for n in range(12)]
    assert all(base <= pause <= min(30, base * 2) for base, pause in zip(bases, bench.pauses, strict=True))
    assert bench.stats.watch_restarts == {"server error": 12}
    assert len(api.asked("list")) == 1


async def test_what_a_failed_watch_has_held_is_freed_at_once(api, bench):
    """Not by the garbage collector, which is in no hurry: each connection has a quarter of a megabyte of buffers."""
    api.watches[PODS] = [refusal(500), stream(error(500)), stream(then="reset")] * 10

    def errors():
        return sum(isinstance(one, ApiError | StatusError) for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = errors()
        await bench.watches(31)
        assert errors() - before <= 1
    finally:
        gc.enable()


async def test_a_list_is_tried_until_it_succeeds(api, bench):
    api.lists[PODS] = [refusal(500), refusal(403), refusal(401), listing(5, pod("a", 4))]
    await bench.watches(1)
    assert bench.names() == ["a"]
    assert bench.stats.list_failures == {"server error": 1, "forbidden": 1, "unauthorized": 1}
    assert len(bench.pauses) == 3


async def test_an_orderly_end_is_followed_at_once_unless_it_comes_at_once_again_and_again(api, bench):
    api.watches[PODS] = [stream()] * 5
    await bench.watches(6)
    assert bench.stats.watch_restarts == {"closed": 2, "closed at once": 3}
    assert len(bench.pauses) == 3


async def test_what_has_failed_otherwise_does_not_count_against_an_orderly_end(api, bench):
    api.watches[PODS] = [stream(then="reset")] * 4 + [stream()] * 2
    await bench.watches(7)
    assert bench.stats.watch_restarts == {"connection": 4, "closed": 2}
    assert len(bench.pauses) == 4


async def test_slow_readers_that_are_cut_off_again_and_again_do_not_pause(api, bench):
    api.watches[PODS] = [stream(event("MODIFIED", pod("a", 1000 + n))) for n in range(20)]
    await bench.watches(21)
    assert bench.pauses == []
    assert bench.sink.held["Pod"]["uid-a"].resource_version == "1019"


async def test_a_connection_that_breaks_in_the_middle_of_an_event_loses_nothing(api, bench):
    line = event("ADDED", pod("c", 901))
    api.watches[PODS] = [stream(line + event("ADDED", pod("d", 902))[:40], then="reset")]
    watches = await bench.watches(2)
    assert watches[1]["resourceVersion"] == "901"
    assert bench.names() == ["a", "b", "c"]
    assert bench.stats.watch_restarts == {"connection": 1}
    assert len(bench.pauses) == 1


async def test_the_first_kind_that_reaches_the_server_again_spares_the_others_their_pause(api, tmp_path):
    pauses = []
    all_wait = asyncio.Event()

    async def sleep(seconds):
        """Only who came first is ever waited for."""
        pauses.append(seconds)
        if len(pauses) == 2:
            all_wait.set()
        await (all_wait.wait() if len(pauses) == 1 else asyncio.Event().wait())

    api.lists[NODES] = [listing(10, node("n1", 9))]
    api.watches[PODS], api.watches[NODES] = [stream(then="reset")], [stream(then="reset")]
    timing = Timing(sleep=sleep, rng=random.Random(1))
    async with bench_on(api, tmp_path, kinds=("Node", "Pod"), timing=timing) as bench:
        await bench.until(lambda: bench.reflector.outages() == {} and len(pauses) == 2)
        assert [len(api.asked("watch", path)) for path in (PODS, NODES)] == [2, 2]


async def test_a_refusal_is_waited_out_whatever_the_others_reach(api, tmp_path):
    async def sleep(_seconds):
        await asyncio.Event().wait()

    api.lists[NODES] = [listing(10, node("n1", 9))]
    api.watches[PODS] = [stream(then="close")]
    api.watches[NODES] = [refusal(403), stream(then="hang")]
    timing = Timing(sleep=sleep, rng=random.Random(1))
    async with bench_on(api, tmp_path, kinds=("Node", "Pod"), timing=timing) as bench:
        await bench.until(lambda: len(api.asked("watch", PODS)) == 2 and len(api.asked("watch", NODES)) == 1)
        await asyncio.sleep(0.05)
        assert bench.reflector.outages().keys() == {"Node"}
        assert len(api.asked("watch", NODES)) == 1


async def test_a_silent_connection_is_given_up_and_the_watch_resumed(api, tmp_path):
    api.watches[PODS] = [stream(bookmark(950), then="hang")]
    async with bench_on(api, tmp_path, inactivity_timeout_seconds=0.2) as bench:
        watches = await bench.watches(2)
    assert watches[1]["resourceVersion"] == "950"
    assert bench.stats.watch_restarts["silent"] >= 1
    assert bench.pauses == []


async def test_a_watch_that_is_opened_again_is_heard_of_before_its_first_bookmark(api, tmp_path):
    """A minute may pass until then, during which all is well."""
    async with bench_on(api, tmp_path, inactivity_timeout_seconds=0.3) as bench:
        await bench.watches(3)
        await bench.until(lambda: bench.reflector.outages() == {})
        assert bench.reflector.ages()["Pod"] < 0.3


async def test_broken_lines_are_a_broken_stream_and_in_the_end_a_list(api, bench):
    api.watches[PODS] = [
        stream(event("ADDED", pod("c", 901)) + b"<html>oops</html>\n"),
        stream(b'{"type": "ADDED"\n'),
        stream(b"\xff\xfe\n"),
        stream(b"[]\n"),
    ]
    api.lists[PODS] += [listing(901, pod("a", 880), pod("b", 17), pod("c", 901))]
    watches = await bench.watches(5)
    assert [w["resourceVersion"] for w in watches] == ["900", "901", "901", "901", "901"]
    assert bench.stats.relists == {"broken": 1}
    assert bench.stats.watch_restarts == {"broken": 4}


async def test_a_server_that_was_restored_from_a_backup_is_listed_again(api, bench):
    api.lists[PODS] = [listing(900, pod("a", 880)), listing(50, pod("a", 40))]
    api.watches[PODS] = [refusal(504, "Too large resource version: 900, current: 50")]
    api.watches[PODS] += [stream(event("MODIFIED", pod("a", 60)))]
    watches = await bench.watches(3)
    assert [w["resourceVersion"] for w in watches] == ["900", "50", "60"]
    assert bench.stats.relists == {"invalid version": 1, "rebuild": 1}
    assert bench.reflector.stats.rebuilds == {ROLLBACK: 1}
    assert bench.sink.rebuilds == 1


async def test_forbidden_is_told_once_and_tried_for_ever(api, bench, capsys):
    api.watches[PODS] = [refusal(403, "pods is forbidden: User x cannot watch")] * 4
    await bench.watches(5)
    assert bench.stats.watch_restarts == {"forbidden": 4}
    assert capsys.readouterr().out.count("cannot watch") == 1


async def test_what_goes_on_is_told_once_and_so_is_its_end(api, bench, capsys):
    api.watches[PODS] = (
        [refusal(500)] * 3 + [stream(then="reset")] + [refusal(500)] * 2 + [refusal(429)] + [refusal(500)]
    )
    await bench.watches(9)
    await bench.until(lambda: bench.reflector.outages() == {})
    told = re.findall(r"ending=('[^']+'|\w+)|(answers again)", capsys.readouterr().out)
    assert [ending.strip("'") or "fine" for ending, _ in told] == [
        *("server error", "fine", "connection", "server error", "throttled", "server error", "fine")
    ]
    assert bench.stats.watch_restarts == {"server error": 6, "connection": 1, "throttled": 1}


async def test_new_credentials_are_read_when_the_old_ones_are_refused(api, tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")

    async def only_new(request):
        if request.headers["Authorization"] != "Bearer new":
            return await refusal(401)(request)
        return await listing(5, pod("a", 4))(request)

    api.lists[PODS] = [only_new]
    credentials = load_credentials(kubeconfig(tmp_path, api.url, tokenFile=str(token)))
    token.write_text("new\n")
    async with Transport(credentials) as transport:
        bench = Bench(api, transport)
        await bench.watches(1)
        bench.task.cancel()
        await asyncio.wait([bench.task])
    assert api.tokens[:2] == ["Bearer old", "Bearer new"]
    assert bench.pauses == []


async def test_an_object_listed_again_in_the_same_version_is_left_as_it_is(api, bench):
    api.lists[PODS] = [listing(900, pod("a", 880)), listing(950, pod("a", 880), pod("c", 940))]
    api.watches[PODS] = [refusal(410)]
    await bench.until(lambda: bench.sink.held["Pod"])
    first = bench.sink.held["Pod"]["uid-a"]
    await bench.watches(2)
    assert bench.sink.held["Pod"]["uid-a"] is first
    assert [what for what, _, _ in bench.sink.log] == ["add", "add"]


async def test_a_listed_object_that_cannot_be_read_stays_held_as_it_was(api, bench):
    spoiled = pod("a", 940)
    spoiled["spec"] = "gone bad"
    api.lists[PODS] = [listing(900, pod("a", 880), pod("b", 881)), listing(950, spoiled), listing(960, pod("a", 955))]
    api.watches[PODS] = [refusal(410), stream(error(410))]
    await bench.watches(3)
    assert [(what, name) for what, name, _ in bench.sink.log] == [
        ("add", "a"),
        ("add", "b"),
        ("delete", "b"),
        ("update", "a"),
    ]
    assert "default/a" in str(bench.sink.malformed[0])
    assert bench.sink.held["Pod"]["uid-a"].resource_version == "955"
    assert (bench.stats.malformed, bench.stats.unreadable) == (1, 0)


async def test_an_object_without_identity_is_malformed_and_no_more(api, bench):
    api.watches[PODS] = [
        stream(
            event("ADDED", {"metadata": "what?"}),
            event("ADDED", {"metadata": {"name": "x", "resourceVersion": "903"}}),
            event("ADDED", pod("c", 904)),
        )
    ]
    watches = await bench.watches(2)
    assert watches[1]["resourceVersion"] == "904"
    assert bench.names() == ["a", "b", "c"]
    assert "metadata.uid" in str(bench.sink.malformed[1])


async def test_a_watch_that_dies_is_started_again_while_the_other_kind_goes_on(api, tmp_path):
    api.lists[NODES] = [listing(10, node("n1", 9)), listing(20, node("n2", 19)), listing(30, node("n3", 29))]
    api.watches[PODS] = [stream(event("ADDED", pod("c", 901)), then="hang")]
    async with bench_on(api, tmp_path, kinds=("Node", "Pod")) as bench:
        await bench.until(lambda: len(api.asked("watch", NODES)) == 1)
        bench.reflector._tasks["Node"].cancel()
        await bench.until(lambda: len(api.asked("watch", NODES)) == 2)
        watch = bench.reflector._watches["Node"]
        watch.store.read = lambda _raw: 1 / 0
        api.watches[NODES] = [stream(event("ADDED", node("n4", 21)))]
        bench.reflector._tasks["Node"].cancel()
        await bench.until(lambda: bench.reflector.stats.kinds["Node"].crashes >= 3)
        del watch.store.read
        await bench.until(lambda: {n.name for n in bench.sink.held["Node"].values()} == {"n3", "n4"})
        assert bench.names() == ["a", "b", "c"]
        assert bench.reflector.stats.kinds["Node"].relists["crash"] >= 3
        assert len(api.asked("watch", PODS)) == 1


async def test_a_rebuild_that_fails_is_tried_again(api, bench):
    await bench.watches(1)
    failures = iter([RuntimeError("first"), RuntimeError("second")])
    real = bench.sink.on_rebuild

    def on_rebuild(objects):
        if failure := next(failures, None):
            raise failure
        real(objects)

    bench.sink.on_rebuild = on_rebuild
    bench.reflector.request_rebuild("a test")
    await bench.until(lambda: bench.sink.rebuilds == 1)
    await bench.watches(2)
    assert bench.reflector.stats.rebuilds == {"a test": 1, "rebuild failed": 2}
    assert bench.names() == ["a", "b"]


async def test_a_burst_never_blocks_the_loop_for_long(api, bench):
    lines = b"".join(event("MODIFIED", pod(f"p{n % 500}", 1000 + n)) for n in range(8000))
    api.watches[PODS] = [stream(lines, then="hang")]
    # As a scheduler does once it has listed everything: what other tests have left is not gone through now.
    gc.collect()
    gc.freeze()
    # The time this thread has worked, so that nothing else on the machine counts.
    longest, last = 0.0, time.thread_time()

    async def heartbeat():
        nonlocal longest, last
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    heart = asyncio.create_task(heartbeat())
    try:
        await bench.until(lambda: bench.stats.watch_events.total() == 8000, timeout=20)
    finally:
        gc.unfreeze()
        heart.cancel()
    assert longest < 0.05


async def test_how_long_each_kind_has_been_silent_is_known(api, bench):
    assert bench.reflector.ages() == {"Pod": float("inf")}
    await bench.watches(1)
    assert 0 <= bench.reflector.ages()["Pod"] < 5
    assert bench.reflector.states()["Pod"] is State.WATCHING
    assert bench.reflector.resource_versions() == {"Pod": "900"}


def test_unknown_kinds_are_refused_by_name():
    with pytest.raises(ValueError, match="Pood"):
        Reflector(None, RecordingSink(), ("Pood", "Node"))


def metadata(version, *objects):
    """A list of metadata, as probes and sweeps read it."""
    return listing(version, *({"metadata": obj["metadata"]} for obj in objects))


class TestBackups:
    """The server was set back to version 50; it accepts the watch from version 900, and says nothing."""

    @pytest.fixture(autouse=True)
    def _set_back(self, api):
        # The pod has another content in a version that was seen before.
        api.lists[PODS] = [listing(900, pod("a", 880), pod("lost", 890)), listing(50, pod("a", 40))]
        self.changed = pod("a", 880, labels={"later": "yes"})

    async def heals(self, api, bench):
        await bench.until(lambda: bench.sink.rebuilds == 1 and api.asked("watch")[-1]["resourceVersion"] == "50")
        assert bench.names() == ["a"]
        assert bench.reflector.stats.rebuilds == {ROLLBACK: 1}
        assert bench.reflector.rebuild_wanted() == ""

    async def test_a_probe_sees_a_lower_version_than_ours(self, api, tmp_path, capsys):
        api.probes[PODS] = [metadata(905), metadata(49), metadata(51)]
        async with bench_on(
            api, tmp_path, timing=Timing(), probe_interval_seconds=0.2, probe_look_seconds=0.05
        ) as bench:
            await self.heals(api, bench)
            await asyncio.sleep(0.5)
            await self.heals(api, bench)
        assert capsys.readouterr().out.count("older state than what was seen of it") == 1

    async def test_a_watch_that_is_opened_anew_is_asked_about_at_once(self, api, tmp_path):
        api.probes[PODS] = [metadata(905), metadata(49), metadata(51)]
        api.watches[PODS] = [stream(bookmark(901), then="hang")]
        timing = Timing()
        async with bench_on(
            api, tmp_path, timing=timing, probe_interval_seconds=600.0, probe_look_seconds=0.05
        ) as bench:
            await bench.until(lambda: len(api.asked("probe")) == 1)
            await asyncio.sleep(0.2)
            assert len(api.asked("probe")) == 1
            watch = bench.reflector._watches["Pod"]
            watch.contact.opened(object())
            await self.heals(api, bench)

    async def test_a_sweep_sees_a_lower_version_than_ours(self, api, tmp_path):
        api.lists[PODS].insert(1, metadata(50, pod("a", 40)))
        async with bench_on(api, tmp_path, sweep_interval_seconds=0.05) as bench:
            await self.heals(api, bench)

    async def test_a_sweep_sees_an_object_of_a_lower_version_than_ours(self, api, tmp_path):
        """The server has caught up with the version that we have, by other changes."""
        api.lists[PODS] = [
            listing(900, pod("a", 880), pod("lost", 890)),
            metadata(950, pod("a", 40)),
            listing(950, pod("a", 40)),
        ]
        async with bench_on(api, tmp_path, sweep_interval_seconds=0.05) as bench:
            await bench.until(lambda: bench.sink.rebuilds == 1 and api.asked("watch")[-1]["resourceVersion"] == "950")
            assert bench.names() == ["a"]

    async def test_a_second_silence_in_a_row_leads_to_a_list(self, api, tmp_path):
        async with bench_on(api, tmp_path, inactivity_timeout_seconds=0.1) as bench:
            await self.heals(api, bench)
            assert bench.stats.relists == {"silent": 1, "rebuild": 1}
            assert [watch["resourceVersion"] for watch in api.asked("watch")][:3] == ["900", "900", "50"]

    async def test_the_same_version_with_other_contents_is_read_again(self, api, tmp_path):
        api.lists[PODS] = [listing(900, pod("a", 880), pod("lost", 890)), listing(885, self.changed)]
        api.probes[PODS] = [metadata(885)]
        async with bench_on(
            api, tmp_path, timing=Timing(), probe_interval_seconds=0.2, probe_look_seconds=0.05
        ) as bench:
            await bench.until(lambda: bench.sink.rebuilds == 1)
            (held,) = bench.sink.held["Pod"].values()
            assert held.labels["later"] == "yes"


async def test_a_server_that_does_not_answer_is_known_by_its_silence(api, tmp_path):
    async def say_nothing(_request):
        await asyncio.Event().wait()

    api.probes[PODS] = [metadata(900), say_nothing]
    often = {"probe_interval_seconds": 0.1, "probe_look_seconds": 0.05, "probe_timeout_seconds": 0.2}
    async with bench_on(api, tmp_path, timing=Timing(), **often) as bench:
        await bench.until(lambda: bench.reflector.outages() == {} and bench.reflector.unanswered() is not None)
        assert bench.reflector.unanswered().why == "no answer in time"
        await bench.until(lambda: bench.reflector.unanswered().seconds > 0.5)
        api.probes[PODS] = [refusal(403)]
        await bench.until(lambda: bench.reflector.unanswered() is None)


async def test_a_comparison_waits_for_a_watch_that_works_on_a_backlog_but_not_for_one_that_brings_nothing(bench):
    watch = bench.reflector._watches["Pod"]
    watch.version, steps = "100", iter(["200", "300", "400", "500"])

    async def sleep(seconds):
        bench.pauses.append(seconds)
        watch.version = next(steps)

    bench.reflector._sleep = sleep
    await bench.reflector._wait_for_watch(watch, "350")
    assert watch.version == "400"
    steps = iter(["400"])
    await bench.reflector._wait_for_watch(watch, "1000")
    assert bench.pauses == [WatchSettings.sweep_grace_seconds] * 4


async def test_what_differs_is_named_with_its_cause():
    store = ObjectStore(KINDS["Pod"], RecordingSink(), KindStats())
    for name, version in (("gone", 1), ("stale", 2), ("newer", 9), ("twin", 4), ("same", 5)):
        store.upsert(store.read(pod(name, version)))
    names = {
        "uid-stale": "default/stale",
        "uid-newer": "default/newer",
        "uid-new": "default/new",
        "other": "default/twin",
    }
    found = Findings(
        ["uid-gone", "uid-twin"],
        {"uid-stale": "2", "uid-newer": "9", "uid-new": "", "other": ""},
        5,
        "10",
        False,
        names,
        {"uid-stale": "3", "uid-newer": "8", "uid-new": "7", "other": "6"},
        100,
    )
    told = [(one.cause, one.name, one.uid, one.held, one.expected) for one in differences_of(store, found)]
    assert told == [
        ("missed delete", "default/gone", "uid-gone", "1", ""),
        ("wrong UID", "default/twin", "uid-twin", "4", "other"),
        ("stale version", "default/stale", "uid-stale", "2", "3"),
        ("newer version", "default/newer", "uid-newer", "9", "8"),
        ("missed add", "default/new", "uid-new", "", "7"),
    ]


async def test_a_server_that_misses_a_question_now_and_then_is_not_compared_with_all_the_time(api, tmp_path):
    api.probes[PODS] = [metadata(900), *([refusal(503), metadata(900)] * 50)]
    often = {"probe_interval_seconds": 0.01, "probe_look_seconds": 0.01, "sweep_grace_seconds": 0.01}
    async with bench_on(api, tmp_path, timing=Timing(), sweep_interval_seconds=600.0, **often) as bench:
        await bench.until(lambda: len(api.asked("probe")) > 80, timeout=20)
        assert bench.stats.sweeps == 1


async def test_one_kind_that_cannot_be_listed_does_not_pass_for_a_server_that_does_not_answer(api, tmp_path):
    nodes = "/api/v1/nodes"
    api.lists[nodes] = [listing(900)]
    api.probes[PODS] = [refusal(500)]
    api.probes[nodes] = [metadata(900)]
    often = {"probe_interval_seconds": 0.1, "probe_look_seconds": 0.05}
    async with bench_on(api, tmp_path, kinds=("Pod", "Node"), timing=Timing(), **often) as bench:
        await bench.until(lambda: len(api.asked("probe")) >= 5)
        started = asyncio.get_running_loop().time()
        before = len(api.asked("probe"))
        await asyncio.sleep(0.5)
        took = asyncio.get_running_loop().time() - started
        assert len(api.asked("probe")) - before <= 1.5 * took / 0.1 + 1, "hardly more often than if all was well"
        assert len(api.asked("probe", nodes)) >= 3
        outage = bench.reflector.unanswered()
        assert outage is None or outage.seconds < 0.45


async def test_a_probe_asks_for_any_object_and_not_for_the_first_of_those_that_are_followed(api, tmp_path):
    api.probes[PODS] = [metadata(900)]
    often = {"probe_interval_seconds": 0.1, "probe_look_seconds": 0.05}
    async with bench_on(api, tmp_path, timing=Timing(), **often) as bench:
        await bench.until(lambda: api.asked("probe"))
    assert "fieldSelector" in api.asked("list")[0]
    assert api.asked("probe")[0] == {"limit": "1"}
