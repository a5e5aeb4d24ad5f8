"""What failed requests leave behind: exceptions and frames that hold one another, which no reference count frees."""

import gc

import pytest

from schedcache.app.program import _GC_THRESHOLDS, keep_what_was_read

MADE = 600_000


class Cycle:
    """An object that holds itself, as an exception does by way of its frames."""

    alive = 0

    def __init__(self):
        self.itself = self
        Cycle.alive += 1

    def __del__(self):
        Cycle.alive -= 1


@pytest.fixture
def collector():
    """As in a scheduler that has read everything; afterwards as before."""
    former = gc.get_threshold()
    gc.set_threshold(*_GC_THRESHOLDS)
    keep_what_was_read()
    yield
    gc.unfreeze()
    gc.set_threshold(*former)


def test_garbage_is_collected_while_it_takes_little_memory(collector):
    kept, most = [], 0
    for number in range(MADE):
        # Some live until a young collection or two are over, as requests do that wait for their time-out.
        kept.append(Cycle())
        if len(kept) == 50_000:
            kept.clear()
        if number % 1000 == 0:
            most = max(most, Cycle.alive)
    kept.clear()
    assert most < 250_000
