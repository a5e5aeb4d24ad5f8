"""The small parts of the watch path and of the writers, each by itself."""

import asyncio
import contextlib
import json
import random
import threading
import time
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedcache.kube.http.answers import FORGET_SECONDS, Answers
from schedcache.kube.http.outcomes import ThrottledError, retry_after
from schedcache.kube.http.threads import DaemonThreads
from schedcache.kube.kopf.fed import Fed
from schedcache.kube.settings import KopfSettings, SourceSettings
from schedcache.kube.watch.contact import Contact
from schedcache.kube.watch.decoder import (
    BrokenStreamError,
    LineSplitter,
    StatusError,
    decode_event,
    decode_metadata_page,
    decode_object,
    decode_page,
    identify,
)
from schedcache.kube.watch.edges import EDGES, Ending
from schedcache.kube.watch.graveyard import Graveyard
from schedcache.kube.watch.kinds import KINDS
from schedcache.kube.watch.lister import Lister
from schedcache.kube.watch.pacing import BackoffManager, Timing
from schedcache.kube.watch.stats import KindStats
from schedcache.kube.watch.store import Listing, ObjectStore, SinkError
from schedcache.kube.watch.sweep import Findings
from schedcache.kube.write.binder import ApiBinder
from schedcache.kube.write.event_recorder import ApiEventRecorder, cut_note, event_name
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.retrying import send_again
from schedcache.kube.write.sparing import SparingLog
from schedcache.kube.write.urgent import Urgent
from schedcache.kube.write.write_queue import WriteQueue
from schedcache.model import MalformedObjectError, Pod
from schedcache.ports import (
    ApiError,
    ConflictError,
    NotFoundError,
    Outage,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
)
from tests.kube.fake_api import pod
from tests.kube.worlds import RecordingSink


@given(st.lists(st.binary(max_size=8), max_size=20), st.integers(1, 9), st.data())
def test_lines_come_out_whole_however_the_stream_is_cut(lines, size, data):
    lines = [line.replace(b"\n", b"") for line in lines]
    whole = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter, found = LineSplitter(), []
    while whole:
        cut = data.draw(st.integers(1, size))
        found += splitter.feed(whole[:cut])
        whole = whole[cut:]
    assert found == [line for line in lines if line]


def test_a_line_of_many_megabytes_costs_no_more_than_its_length():
    splitter = LineSplitter()
    for _ in range(200):
        assert splitter.feed(b"x" * 65536) == []
    [line] = splitter.feed(b"\n")
    assert len(line) == 200 * 65536


def test_pages_are_split_item_by_item():
    page = decode_page(b'{"metadata": {"resourceVersion": "7", "continue": "t"}, "items": [{"a": 1}, 5]}')
    assert ([bytes(raw) for raw in page.items], page.resource_version, page.next) == ([b'{"a": 1}', b"5"], "7", "t")
    assert decode_page(b'{"metadata": {"resourceVersion": "7"}, "items": null}').items == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"metadata": {}, "items": []}'])
def test_what_is_no_list_is_a_broken_stream(body):
    with pytest.raises(BrokenStreamError):
        decode_page(body)


@pytest.mark.parametrize(
    ("decode", "start"),
    [(decode_page, b'{"metadata":'), (decode_metadata_page, b'{"items":'), (decode_event, b'{"object":')],
)
def test_what_is_nested_without_end_is_a_broken_stream(decode, start):
    with pytest.raises(BrokenStreamError):
        decode(start + b'{"a":' * 100_000)


def test_an_error_event_is_no_object():
    with pytest.raises(StatusError) as caught:
        decode_event(b'{"type":"ERROR","object":{"code":429,"reason":"TooMany","details":{"retryAfterSeconds":3}}}')
    assert (caught.value.code, caught.value.reason, caught.value.retry_after) == (429, "TooMany", 3)
    with pytest.raises(StatusError) as caught:
        decode_event(b'{"type":"ERROR","object":"?"}')
    assert caught.value.code == 0


def test_objects_from_json_and_from_dictionaries_are_the_same():
    raw = pod("a", 5)
    for found in (raw, msgspec.json.encode(raw), msgspec.Raw(msgspec.json.encode(raw))):
        assert decode_object(KINDS["Pod"], found).full_name == "default/a"
        assert identify(found) == ("uid-a", "default", "a", "5")
    assert identify({"metadata": 5}) == identify(b"[") == ("", "", "", "")


def test_a_fault_of_the_reader_is_a_malformed_object():
    class Broken:
        name = "Pod"

        @staticmethod
        def from_json(_raw):
            raise RecursionError

    with pytest.raises(MalformedObjectError, match="RecursionError"):
        decode_object(Broken(), b'{"metadata": {"name": "a"}}')


def test_every_ending_has_an_edge():
    assert set(EDGES) == set(Ending)


def store_of(*objects):
    sink = RecordingSink()
    store = ObjectStore(KINDS["Pod"], sink, KindStats())
    for obj in objects:
        store.upsert(Pod.from_dict(obj))
    sink.log.clear()
    return store, sink


def replace(store, *objects, malformed=()):
    listing = Listing()
    listing.objects = {o["metadata"]["uid"]: Pod.from_dict(o) for o in objects}
    listing.malformed = [(identify(o), MalformedObjectError("Pod", "x", "spec", "bad")) for o in malformed]
    for _ in store.replace(listing):
        pass


def test_a_list_adds_and_changes_before_it_deletes():
    store, sink = store_of(pod("a", 1), pod("b", 2))
    replace(store, pod("b", 3), pod("c", 4))
    assert [(what, name) for what, name, _ in sink.log] == [("update", "b"), ("add", "c"), ("delete", "a")]
    assert (sink.missed, sink.faults, len(store)) == ({"uid-a"}, [], 2)


def test_a_new_uid_under_an_old_name_takes_its_place():
    store, sink = store_of(pod("a", 1))
    replace(store, pod("a", 9, uid="other"))
    assert [(what, uid) for what, _, uid in sink.log] == [("delete", "uid-a"), ("add", "other")]
    store.delete("uid-a", missed=False)
    assert list(store.uids()) == ["other"]


def test_the_same_version_is_no_news():
    store, sink = store_of(pod("a", 1))
    store.upsert(Pod.from_dict(pod("a", 1)))
    assert sink.log == []


def test_unreadable_objects_are_told_once_for_each_version_and_kept_as_they_were():
    store, sink = store_of(pod("a", 1), pod("b", 2))
    replace(store, malformed=[pod("a", 5), pod("n", 6)])
    replace(store, malformed=[pod("a", 5), pod("n", 6)])
    assert (len(sink.malformed), store.stats.malformed, store.stats.unreadable) == (2, 2, 2)
    assert list(store.uids()) == ["uid-a"]
    replace(store, malformed=[pod("a", 7)])
    assert (len(sink.malformed), store.stats.unreadable) == (3, 1)
    replace(store)
    assert (len(store), store.stats.unreadable) == (0, 0)


def test_an_object_without_a_readable_uid_is_kept_by_its_name():
    store, _ = store_of(pod("a", 1))
    spoiled = pod("a", 5)
    spoiled["metadata"]["uid"] = None
    replace(store, malformed=[spoiled])
    assert list(store.uids()) == ["uid-a"]


def test_a_failure_of_the_sink_names_kind_and_call():
    store, sink = store_of()
    sink.raise_once = lambda *_: True
    with pytest.raises(SinkError, match=r"Pod: on_add: RuntimeError"):
        store.upsert(Pod.from_dict(pod("a", 1)))


def test_a_list_that_is_adopted_is_held_without_a_word():
    store, sink = store_of(pod("a", 1), pod("b", 2), pod("gone", 3))
    listing = Listing()
    listing.objects = {"uid-a": Pod.from_dict(pod("a", 9))}
    listing.malformed = [(identify(pod("b", 8)), MalformedObjectError("Pod", "b", "spec", "bad"))]
    store.adopt(listing)
    assert {o.name: o.resource_version for o in store.objects()} == {"a": "9", "b": "2"}
    assert (sink.log, len(sink.malformed)) == ([], 1)


def test_the_dead_stay_dead_and_are_forgotten_in_the_end():
    now = [0.0]
    graves = Graveyard(lambda: now[0])
    graves.bury("a", "10")
    assert graves.covers("a", "9")
    assert graves.covers("a", "10")
    assert not graves.covers("a", "11")
    assert not graves.covers("b", "1")
    graves.floor = "20"
    assert graves.covers("b", "20")
    assert not graves.covers("b", "21")
    now[0] = 1000.0
    for number in range(3):
        graves.bury(f"later-{number}", "30")
    assert "a" not in graves
    assert len(graves) == 3


def test_the_dead_are_forgotten_once_a_complete_list_is_newer():
    graves = Graveyard(lambda: 0.0)
    for number in range(1000):
        graves.bury(f"uid-{number}", str(number))
        graves.floor = str(number)
    assert len(graves) < 3
    for number in (500, 999):
        assert graves.covers(f"uid-{number}", "400"), "the list covers them"


def test_the_dead_stay_remembered_if_no_version_can_be_compared():
    graves = Graveyard(lambda: 0.0)
    for number in range(10):
        graves.bury(f"uid-{number}", "opaque")
        graves.floor = "dark"
    assert len(graves) == 10


def test_kopf_is_behind_until_it_has_reported_the_version_that_was_listed_readable_or_not():
    store, _ = store_of()
    fed = Fed(store, Lister(None, store, KopfSettings(), time.monotonic), KopfSettings(), time.monotonic)
    findings = Findings([], {"uid-a": ""}, 1, "10", False, {"uid-a": "default/a"}, {"uid-a": "9"}, 0)
    error = MalformedObjectError("Pod", "a", "spec", "bad")
    assert fed.still_behind(findings) == ["uid-a"]
    store.malformed(identify(pod("a", 8)), error)
    assert fed.still_behind(findings) == ["uid-a"], "that was an older one"
    store.malformed(identify(pod("a", 9)), error)
    assert fed.still_behind(findings) == []


async def test_tokens_come_at_their_rate_first_come_first_served():
    now, slept = [0.0], []

    async def sleep(seconds):
        slept.append(seconds)

    bucket = TokenBucket(10, 3, clock=lambda: now[0], sleep=sleep)
    for _ in range(6):
        await bucket.acquire("POST")
    assert slept == pytest.approx([0.1, 0.2, 0.3])
    now[0] = 100.0
    for _ in range(3):
        await bucket.acquire("POST")
    assert len(slept) == 3


async def test_a_cancelled_wait_gives_its_token_back():
    bucket = TokenBucket(1, 1, clock=lambda: 0.0)
    await bucket.acquire("POST")
    waiting = asyncio.create_task(bucket.acquire("POST"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert bucket._tokens == 0


async def test_no_rate_is_no_limit():
    bucket = TokenBucket(0, 0)
    for _ in range(1000):
        await bucket.acquire("POST")
    with pytest.raises(ValueError, match="burst"):
        TokenBucket(5, 0)


def test_pauses_start_over_after_a_healthy_time():
    now = [0.0]
    backoff = BackoffManager(Timing(clock=lambda: now[0], rng=random.Random(7)), SourceSettings())
    pauses = [backoff.pause() for _ in range(10)]
    assert 0.8 <= pauses[0] <= 1.6
    assert pauses[-1] == 30
    now[0] = 30.0 + 120.0
    assert backoff.pause() == 30, "the healthy time begins when the last pause is over"
    now[0] = 30.0 + 120.0 + 30.0 + 121.0
    assert 0.8 <= backoff.pause() <= 1.6


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3), ("0.5", 0.5), (None, None), ("soon", None), ("-1", None), ("inf", None)]
)
def test_retry_after_is_a_number_of_seconds(header, seconds):
    assert retry_after(header) == seconds


async def test_a_queue_keeps_the_newest_and_never_writes_a_key_twice_at_once():
    written, running, begun = [], set(), asyncio.Event()

    async def write(key, value):
        assert key not in running
        running.add(key)
        begun.set()
        await asyncio.sleep(0.001)
        running.discard(key)
        written.append((key, value))
        if value == "crash":
            raise RuntimeError

    queue = WriteQueue(write, workers=3, limit=3)
    assert queue.put("a", 1)
    assert queue.put("a", 2)
    assert queue.put("b", "crash")
    assert queue.put("c", 1)
    assert not queue.put("d", 1)
    queue.discard("c")
    task = asyncio.create_task(queue.run())
    await begun.wait()
    queue.put("a", 3)
    assert await queue.drain(5) == 0
    task.cancel()
    await asyncio.wait([task])
    assert sorted(written, key=str) == [("a", 2), ("a", 3), ("b", "crash")]
    assert queue.crashes == 1


async def no_sleep(_seconds):
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("errors", "sent", "raises"),
    [
        ([OutcomeUnknownError("500", status=500), UnavailableError("refused")], 3, None),
        ([RefusedError("forbidden", status=403)], 1, RefusedError),
        ([NotFoundError("gone", status=404)], 1, NotFoundError),
        ([OutcomeUnknownError("500", status=500)] * 9, 5, OutcomeUnknownError),
    ],
)
async def test_only_what_may_pass_is_sent_again(errors, sent, raises):
    calls = []

    async def send():
        calls.append(1)
        if errors:
            raise errors.pop(0)

    if raises:
        with pytest.raises(raises):
            await send_again(send, sleep=no_sleep)
    else:
        assert await send_again(send, sleep=no_sleep) == sent - 1
    assert len(calls) == sent


def test_notes_are_cut_by_bytes_and_never_inside_a_character():
    assert cut_note("x" * 1024) == "x" * 1024
    assert cut_note("x" * 1025) == "x" * 1020 + " ..."
    cut = cut_note("é" * 1000)
    assert len(cut.encode()) <= 1024
    assert cut.endswith("é ...")


def test_names_of_events_are_dns_names():
    assert event_name("web-0", 255) == "web-0.ff"
    long = event_name("a" * 235 + "." + "b" * 17, 1_800_000_000_000_000_000)
    assert len(long) <= 253
    assert ".." not in long


def test_a_connection_is_there_while_a_watch_is_open_and_lost_since_the_last_sign_of_life():
    now = 100.0
    stats = KindStats()
    contact = Contact(lambda: now, stats)
    now = 103.0
    assert contact.outage() == Outage(3.0, "none yet")
    contact.failed("forbidden")
    assert contact.outage() == Outage(3.0, "forbidden")
    contact.heard()
    now = 110.0
    assert contact.outage() == Outage(7.0, "forbidden")
    assert stats.last_heard == 103.0
    contact.opened("first")
    assert stats.last_heard == 110.0
    contact.opened("second")
    # Whatever becomes of one that was replaced.
    contact.ended("first", "closed")
    assert contact.outage() is None
    contact.ended("second", "closed")
    now = 111.0
    contact.ended("second", "again")
    assert contact.outage() == Outage(1.0, "closed")
    assert stats.last_heard == 110.0, "an end is no sign of life"


def test_failures_that_repeat_are_told_now_and_then_and_each_sort_by_itself(capsys):
    now = 0.0
    told = SparingLog("not written", 30.0, lambda: now)
    for seconds in (0, 1, 29, 30, 31):
        now = float(seconds)
        told.warning(RefusedError(f"refused at {seconds}", status=403, reason="Forbidden"), pod="a")
    told.warning(OutcomeUnknownError("gone", reason="NoAnswer"), pod="b")
    lines = capsys.readouterr().out.splitlines()
    assert ["refused at 0" in lines[0], "refused at 30" in lines[1], "gone" in lines[2], len(lines)] == [True] * 3 + [3]
    assert "left_out" not in lines[0] + lines[2]
    assert "left_out=2" in lines[1]


async def test_calls_in_daemon_threads_answer_fail_and_are_waited_for_by_nobody():
    loop = asyncio.get_running_loop()
    loop.set_default_executor(DaemonThreads())
    assert await asyncio.to_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(divmod, 7, 0)
    hangs = threading.Event()
    calls = [asyncio.create_task(asyncio.to_thread(hangs.wait)) for _ in range(50)]
    # However many hang, there is a thread for the next one.
    assert await asyncio.to_thread(divmod, 9, 2) == (4, 1)
    started = time.monotonic()
    await loop.shutdown_default_executor()
    assert time.monotonic() - started < 1
    hangs.set()
    assert await asyncio.gather(*calls) == [True] * 50


class AskedAbout(Answers):
    """Requests one at a time, at the moments that a test sets."""

    def __init__(self):
        self.now = 100.0
        super().__init__(lambda: self.now)

    def ask(self, how, *details):
        self.asked()
        getattr(self, how)(*details)


def test_requests_fail_since_the_first_one_without_success_and_not_for_ever():
    answers = AskedAbout()
    assert answers.outage() is None
    answers.ask("failed", "500 InternalError")
    answers.now = 110.0
    assert answers.outage() == Outage(0.0, "500 InternalError"), "one failure does not come to prove more with time"
    answers.ask("failed", "NoAnswer")
    answers.now = 112.0
    assert answers.outage() == Outage(10.0, "NoAnswer")
    answers.ask("undecided")
    assert answers.outage() == Outage(10.0, "NoAnswer")
    answers.ask("answered")
    assert answers.outage() is None
    answers.ask("failed", "Unreachable")
    answers.now += FORGET_SECONDS + 1
    assert answers.outage() is None, "nobody has tried since"
    answers.ask("failed", "Unreachable")
    assert answers.outage() == Outage(0.0, "Unreachable")


def test_a_request_that_is_under_way_is_without_success_so_far():
    answers = AskedAbout()
    answers.asked()
    answers.now = 120.0
    assert answers.outage() == Outage(20.0, "no answer yet")
    answers.asked()
    answers.answered()
    assert answers.outage() == Outage(0.0, "no answer yet"), "the other may still come to nothing"
    answers.now += FORGET_SECONDS + 1
    assert answers.outage() == Outage(FORGET_SECONDS + 1, "no answer yet")
    answers.undecided()
    assert answers.outage() is None


def test_a_refusal_of_one_object_is_its_own_affair_and_that_of_a_second_is_not():
    answers = AskedAbout()
    for answers.now in (100.0, 110.0, 130.0):
        answers.ask("refused", "a", "403 Forbidden")
        assert answers.outage() is None
    answers.ask("refused", "b", "403 Forbidden")
    answers.now = 140.0
    answers.ask("refused", "a", "403 Forbidden")
    assert answers.outage() == Outage(10.0, "403 Forbidden")
    answers.ask("answered")
    answers.ask("refused", "b", "403 Forbidden")
    assert answers.outage() is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="a page"),
        pytest.param(b"{}", id="nothing"),
        pytest.param(b'{"x":' + b"[" * 100_000, id="without end"),
        pytest.param(json.dumps(pod("b", 1)).encode(), id="another pod"),
        pytest.param(json.dumps({"metadata": {"name": "a", "namespace": "default"}}).encode(), id="no pod"),
    ],
)
async def test_an_answer_that_is_not_the_pod_says_nothing_about_it(body):
    """Taken at its word it would say that the pod is gone, and the room of one that runs would be given away."""

    class Server:
        async def get(self, _path):
            return body

    binder = ApiBinder(Server(), TokenBucket(1000, 100))
    with pytest.raises(UnavailableError, match="GET /api/v1/namespaces/default/pods/a: ") as caught:
        await binder.get_pod("default", "a")
    assert caught.value.reason == "Malformed"


async def test_a_conflict_says_nothing_about_the_server():
    class Server:
        async def send(self, *_request, fence=None):
            raise ConflictError("neither", status=409)

    binder = ApiBinder(Server(), TokenBucket(1000, 100), clock=lambda: 0.0)
    for before in (None, Outage(0.0, "before")):
        if before is not None:
            binder.binds.asked()
            binder.binds.failed("before")
        with contextlib.suppress(ConflictError):
            await binder.bind(Pod.from_dict(pod("a", 1)), "node")
        assert binder.binds.outage() == before


@pytest.mark.parametrize(
    ("found", "outage"),
    [
        ({}, Outage(20.0, "409 Conflict")),
        ({"spec": {"nodeName": "elsewhere"}}, None),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, None),
        ({"metadata": {"uid": "another"}}, None),
    ],
)
async def test_a_conflict_over_a_pod_that_nothing_has_happened_to_is_the_servers_failure(found, outage):
    """An API server whose etcd has no room left answers every bind so."""
    plain = Pod.from_dict(pod("a", 1))
    body, moment = pod("a", 1), 0.0
    for part, fields in found.items():
        body[part] |= fields

    class Server:
        async def send(self, *_request, fence=None):
            raise ConflictError("no space", status=409, reason="Conflict")

        async def get(self, _path):
            return json.dumps(body).encode()

    binder = ApiBinder(Server(), TokenBucket(1000, 100), clock=lambda: moment)
    for moment in (100.0, 120.0):  # noqa: B007  the binder's clock reads it
        with pytest.raises(ConflictError):
            await binder.bind(plain, "node")
        await binder.get_pod("default", "a")
    assert binder.binds.outage() == outage


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (None, None),
        (RefusedError("no", status=403, reason="NamespaceTerminating"), None),
        (NotFoundError("no", status=404), None),
        (OutcomeUnknownError("no", status=500, reason="InternalError"), "500 InternalError"),
        (OutcomeUnknownError("no", reason="NoAnswer"), "NoAnswer"),
        (UnavailableError("no", reason="Unreachable"), "Unreachable"),
        (UnavailableError("no", status=504, reason="Timeout"), "504 Timeout"),
        (ThrottledError("no", reason="TooManyRequests", retry_after=1.0), "429 TooManyRequests"),
    ],
)
async def test_what_an_answer_says_about_the_server(error, why):

    class Server:
        async def send(self, *_request, fence=None):
            if error is not None:
                raise error
            return b""

        get = send

    binder = ApiBinder(Server(), TokenBucket(1000, 100), clock=lambda: 0.0)
    for answers, request in (
        (binder.binds, lambda: binder.bind(Pod.from_dict(pod("a", 1)), "node")),
        (binder.reads, lambda: binder.get_pod("default", "a")),
    ):
        answers.asked()
        answers.failed("before")
        with contextlib.suppress(ApiError):
            await request()
        assert answers.outage() == (None if why is None else Outage(0.0, why))


async def test_what_is_not_urgent_waits_for_what_is_but_not_for_ever():
    urgent = Urgent()
    await asyncio.wait_for(urgent.over(60), 1)
    with urgent:
        with urgent:
            waiting = asyncio.create_task(urgent.over(60))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done(), "another one is under way"
        await asyncio.wait_for(urgent.over(0.01), 1)
    await asyncio.wait_for(waiting, 1)
    with pytest.raises(LookupError), urgent:
        raise LookupError
    await asyncio.wait_for(urgent.over(60), 1)


async def recorded(type_, note):
    """A recorder that has written the event for each of 2,000 pods, and how many bytes that holds."""

    class Server:
        async def send(self, *_request):
            return b""

    recorder = ApiEventRecorder(Server(), TokenBucket(-1, 1), ["schedcache"])
    writing = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    pods = [Pod.from_dict(pod(f"p-{number}", 1)) for number in range(2000)]
    tracemalloc.start()
    try:
        for one in pods:
            recorder.event(one, type_, "Reason", "Action", f"{note} default/{one.name}")
        assert await recorder.drain(10) == 0
        return recorder, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        writing.cancel()
        await asyncio.wait([writing])


async def test_an_event_that_may_be_repeated_is_remembered_in_few_bytes():
    """For six minutes, which may be 20,000 of them."""
    recorder, held = await recorded("Warning", "0/1 nodes are available for")
    assert recorder.written == len(recorder._series) == 2000
    assert held / 2000 < 1000


async def test_what_went_well_is_forgotten_once_it_is_written():
    """A pod is bound once: at 50 pods a second there would be 18,000 such events to remember."""
    recorder, _ = await recorded("Normal", "Successfully assigned")
    assert recorder.written == 2000
    assert recorder._series == {}


class Pages:
    """A server with a list of several pages, one of which may fail."""

    def __init__(self, *pages):
        self.pages = pages
        self.story = []

    async def get(self, _path, params, *, timeout):
        number = int(params.get("continue", "0"))
        self.story.append(f"page {number} asked for")
        if isinstance(self.pages[number], Exception):
            raise self.pages[number]
        following = str(number + 1) if number + 1 < len(self.pages) else ""
        metadata = {"resourceVersion": "7", "continue": following}
        return msgspec.json.encode({"metadata": metadata, "items": self.pages[number]})


def lister_of(server, sink):
    store = ObjectStore(KINDS["Pod"], sink, KindStats())
    read_into = store.read_into

    def read(listing, raw, *, afresh):
        read_into(listing, raw, afresh=afresh)
        server.story.append(f"{list(listing.objects)[-1]} read")

    store.read_into = read
    return Lister(server, store, SourceSettings(), time.monotonic)


async def test_the_next_page_is_asked_for_before_this_one_is_read():
    server = Pages([pod("a", 1), pod("b", 2)], [pod("c", 3)])
    listing = await lister_of(server, None).read()
    assert [obj.name for obj in listing.objects.values()] == ["a", "b", "c"]
    a, b, c = (f"{uid} read" for uid in listing.objects)
    assert server.story == ["page 0 asked for", "page 1 asked for", a, b, c]


async def test_a_page_that_fails_while_another_is_read_fails_the_list():
    server = Pages([pod("a", 1)], UnavailableError("no", reason="Unreachable"))
    with pytest.raises(UnavailableError):
        await lister_of(server, None).read()
