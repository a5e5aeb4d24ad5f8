"""All that is logged comes out in one form."""

import io
import json
import logging
import warnings

import pytest
import structlog

from schedcache.cli.logs import configure_logging


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_ours_and_others_are_json_objects_of_one_shape():
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    structlog.get_logger("schedcache.test").info("ours", pod="default/a")
    logging.getLogger("aiohttp.client").warning("theirs %s", 7)
    ours, theirs = lines(stream)
    assert (ours["event"], ours["level"], ours["pod"]) == ("ours", "info", "default/a")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("theirs 7", "warning", "aiohttp.client")
    assert ours["timestamp"].endswith("Z")
    assert theirs["timestamp"].endswith("Z")


def test_kopf_names_its_object_and_its_settings_stay_out():
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    reference = {"kind": "Pod", "namespace": "default", "name": "a"}
    logging.getLogger("kopf.reactor").warning("gone", extra={"k8s_ref": reference, "settings": object()})
    (line,) = lines(stream)
    assert line["object"] == "Pod default/a"
    assert "settings" not in line


@pytest.mark.parametrize(
    ("verbosity", "expected"),
    [
        (0, ["info"]),
        (2, ["debug", "info"]),
        (4, ["debug", "info", "lib info"]),
        (6, ["debug", "info", "lib debug", "lib info"]),
    ],
)
def test_verbosity(verbosity, expected):
    stream = io.StringIO()
    configure_logging("json", verbosity, stream=stream)
    log = structlog.get_logger("schedcache.test")
    log.debug("debug")
    log.info("info")
    logging.getLogger("kopf").debug("lib debug")
    logging.getLogger("kopf").info("lib info")
    assert [line["event"] for line in lines(stream)] == expected


def test_quiet_leaves_warnings():
    stream = io.StringIO()
    configure_logging("json", quiet=True, stream=stream)
    log = structlog.get_logger("schedcache.test")
    log.info("info")
    log.warning("warning")
    assert [line["event"] for line in lines(stream)] == ["warning"]


def test_tracebacks_hold_no_local_variables():
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    secret = "a token that nobody should read"

    def fails():
        held = secret
        raise RuntimeError(len(held))

    for log in (structlog.get_logger("schedcache.test"), logging.getLogger("other")):
        try:
            fails()
        except RuntimeError:
            log.exception("failed")
    assert len(lines(stream)) == 2
    assert secret not in stream.getvalue()
    assert all("RuntimeError" in json.dumps(line) for line in lines(stream))


def test_console_is_for_people():
    stream = io.StringIO()
    configure_logging("console", stream=stream)
    structlog.get_logger("schedcache.test").info("bound", pod="default/a")
    text = stream.getvalue()
    assert "bound" in text
    assert "pod=default/a" in text
    assert "\x1b" not in text


def test_without_a_terminal_auto_is_json():
    stream = io.StringIO()
    configure_logging("auto", stream=stream)
    structlog.get_logger("schedcache.test").info("hello")
    assert lines(stream)[0]["event"] == "hello"


def test_pythons_warnings_are_logged_too():
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("careful", UserWarning, stacklevel=1)
    assert "careful" in lines(stream)[0]["event"]
