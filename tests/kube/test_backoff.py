"""Exponential backoff: one rule for all who ask again."""

import random
from itertools import islice

import pytest

from schedcache.ports import Backoff
from schedcache.scheduling.binding_cycle import LOOK_AGAIN


def test_pauses_grow_by_the_factor_up_to_the_limit_and_every_series_begins_at_the_first():
    backoff = Backoff(first=0.5, limit=10.0, factor=3.0)
    assert list(islice(backoff, 5)) == list(islice(backoff, 5)) == [0.5, 1.5, 4.5, 10.0, 10.0]
    assert list(islice(LOOK_AGAIN, 6)) == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize("seed", range(20))
def test_jitter_stretches_a_pause_and_never_beyond_the_limit(seed):
    backoff = Backoff(first=1.0, limit=10.0, jitter=0.5)
    pauses = list(islice(backoff.pauses(random.Random(seed)), 6))
    bases = [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert all(base <= pause <= min(10.0, 1.5 * base) for base, pause in zip(bases, pauses, strict=True))
    assert pauses == list(islice(backoff.pauses(random.Random(seed)), 6))
    assert pauses != list(islice(backoff.pauses(random.Random(seed + 100)), 6))


def test_pauses_never_end_and_never_overflow():
    *_, last = islice(Backoff(first=1.0, limit=30.0, factor=10.0), 5000)
    assert last == 30.0
