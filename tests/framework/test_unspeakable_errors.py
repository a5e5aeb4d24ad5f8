"""Exceptions of plugins that cannot even say what went wrong: their text is asked for on many ways, and must not do harm on any."""

from structlog.testing import capture_logs

from schedcache.framework.plugin_calls import failure_text
from schedcache.model.error_text import error_text
from schedcache.queue.faults import Faults
from schedcache.scheduling.failure import Failure


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


def test_the_text_of_an_exception_is_its_own_or_its_name():
    assert error_text(ValueError("x")) == "x"
    assert error_text(ValueError()) == "ValueError"
    assert error_text("") == ""
    assert error_text(UnspeakableError()) == "UnspeakableError, which does not say what is wrong (RuntimeError)"


def test_a_failure_is_told_all_the_same():
    assert Failure.of_error(UnspeakableError()).message.startswith("UnspeakableError")
    assert "UnspeakableError" in failure_text("P", "filter", UnspeakableError())


def test_a_fault_in_the_queue_is_reported_all_the_same():
    with capture_logs() as lines:
        try:
            str(UnspeakableError())
        except RuntimeError as raised:
            Faults().report("P", "less", None, UnspeakableError().with_traceback(raised.__traceback__))
    assert "UnspeakableError" in lines[0]["error"]
