"""What repeats is told once, then counted, a line a minute; and what is held for that is limited."""

import io
import json
import logging
import time

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from schedcache.cli.logs import configure_logging
from schedcache.cli.repeats import INTERVAL_SECONDS, MOST_KINDS, MOST_VARIANTS, Repeats


class Told:
    """Repeats with a clock of its own, and what it told."""

    def __init__(self):
        self.now = 0.0
        self.lines = []
        self.repeats = Repeats(lambda line, number: self.lines.append((self.now, line, number)), lambda: self.now)

    def say(self, kind, variant="", line=None):
        line = line or f"{kind} {variant}"
        if self.repeats.admits(kind, variant, line):
            self.lines.append((self.now, line, 0))


def test_the_first_at_once_then_a_line_a_minute():
    told = Told()
    for second in range(150):
        told.now = float(second)
        told.say("a", line=f"a at {second}")
    assert told.lines == [(0, "a at 0", 0), (60, "a at 59", 59), (120, "a at 119", 60)]
    told.now = 1000.0
    assert told.repeats.tell_due() is not None
    assert told.lines[3:] == [(1000, "a at 149", 30)]


def test_what_has_ended_is_told_of_and_what_comes_back_is_told_at_once():
    told = Told()
    told.say("a")
    told.say("a")
    assert told.repeats.tell_due() == INTERVAL_SECONDS
    told.now = 60.0
    assert told.repeats.tell_due() == INTERVAL_SECONDS, "it may go on"
    told.now = 120.0
    assert told.repeats.tell_due() is None, "nothing is held of what has ended"
    told.say("a")
    assert told.lines == [(0, "a ", 0), (60, "a ", 1), (120, "a ", 0)]


def test_of_one_kind_only_some_are_told():
    told = Told()
    for number in range(1000):
        told.say("failed", f"pod-{number}")
    assert len(told.lines) == MOST_VARIANTS
    told.repeats.tell_all()
    assert told.lines[MOST_VARIANTS:] == [(0, "failed pod-999", 1000 - MOST_VARIANTS)]


def test_one_kind_does_not_hide_another():
    told = Told()
    for number in range(100):
        told.say("a", number)
    told.say("b")
    assert told.lines[-1] == (0, "b ", 0)


@given(
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 15), st.integers(0, 30), st.floats(0, 100)), max_size=400)
)
def test_every_line_is_told_or_counted_and_little_is_held(calls):
    told = Told()
    for kind, variant, pause, more in calls:
        told.now += pause * more / 100
        told.say(kind, variant)
        assert len(told.repeats._kinds) <= MOST_KINDS
    told.repeats.tell_all()
    assert sum(number or 1 for _, _, number in told.lines) == len(calls)


def test_no_more_kinds_are_held_than_there_is_room_for():
    told = Told()
    for number in range(10 * MOST_KINDS):
        told.say(number)
        told.say(number)
    told.repeats.tell_all()
    assert sum(number or 1 for _, _, number in told.lines) == 20 * MOST_KINDS


@pytest.fixture
def log():
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def fail(text):
    raise RuntimeError(text)


def test_ours_and_others_are_counted_alike(log):
    for _ in range(100):
        structlog.get_logger("schedcache.test").warning("failed", error="the same")
        logging.getLogger("asyncio").error("accept() failed on %d", 7)
    assert [line["event"] for line in log()] == ["failed", "accept() failed on 7"]


def test_of_messages_from_one_place_only_some_are_told(log):
    for number in range(100):
        logging.getLogger("aiohttp.server").error("Error handling request from %d", number)
    assert len(log()) == MOST_VARIANTS
    logging.getLogger("aiohttp.server").error("another place")
    assert log()[-1]["event"] == "another place"


def test_errors_are_told_apart(log):
    for text in ("one", "two", "one"):
        try:
            fail(text)
        except RuntimeError:
            structlog.get_logger("schedcache.test").exception("it failed")
            logging.getLogger("other").exception("it failed")
    assert len(log()) == 4


def test_what_is_no_problem_is_always_told(log):
    for _ in range(100):
        structlog.get_logger("schedcache.test").info("bound")
    assert len(log()) == 100


def test_what_is_critical_is_always_told(log):
    for _ in range(3):
        structlog.get_logger("schedcache.test").critical("ended")
        logging.getLogger("other").critical("ended")
    assert len(log()) == 6


def test_a_line_that_tells_of_repeats_looks_like_the_others(monkeypatch):
    monkeypatch.setattr("schedcache.cli.repeats.INTERVAL_SECONDS", 0.5)
    stream = io.StringIO()
    configure_logging("json", stream=stream)

    def say():
        for _ in range(3):
            try:
                fail("no room")
            except RuntimeError:
                structlog.get_logger("schedcache.test").exception("it failed", pod="default/p")
            logging.getLogger("kopf").warning("odd", extra={"k8s_ref": {"kind": "Pod", "namespace": "a", "name": "b"}})

    say()
    time.sleep(0.6)
    say()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    ours, theirs = (line for line in lines if "repeated" in line)
    assert ours.pop("timestamp").endswith("Z")
    assert theirs.pop("timestamp").endswith("Z")
    assert ours == {
        "event": "it failed",
        "level": "error",
        "pod": "default/p",
        "error": "RuntimeError: no room",
        "repeated": 2,
    }
    assert theirs == {"event": "odd", "level": "warning", "logger": "kopf", "object": "Pod a/b", "repeated": 2}


def test_an_error_that_cannot_say_what_it_is_is_told_all_the_same(log):
    class MuteError(RuntimeError):
        def __str__(self):
            raise ValueError("no text")

    def fail_mutely():
        raise MuteError

    try:
        fail_mutely()
    except MuteError:
        structlog.get_logger("schedcache.test").exception("it failed")
    assert [line["event"] for line in log()] == ["it failed"]


def test_a_value_that_cannot_be_shown_later_is_left_out_and_is_no_trouble_to_others(monkeypatch):
    monkeypatch.setattr("schedcache.cli.repeats.INTERVAL_SECONDS", 0.2)
    stream = io.StringIO()
    configure_logging("json", stream=stream)

    class Fading:
        faded = False

        def __repr__(self):
            if self.faded:
                raise ValueError("closed")
            return "shown"

    value = Fading()
    for _ in range(3):
        structlog.get_logger("schedcache.test").warning("odd", value=value)
    value.faded = True
    time.sleep(0.3)
    structlog.get_logger("schedcache.other").warning("another")
    first, repeated, another = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["value"], another["event"]) == ("shown", "another")
    assert {key: repeated[key] for key in repeated if key != "timestamp"} == {
        "event": "odd",
        "level": "warning",
        "repeated": 2,
    }
