"""When checks are made, and what becomes of what they find."""

import pytest

from schedcache.cache import CacheCorruptedError
from schedcache.cache.checks.validator import Validator, run
from schedcache.testing import VirtualClock


class Checks:
    """A check of everything, which takes `seconds`, and one of what has changed."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.made = clock, seconds, []

    def everything(self):
        self.made.append("everything")
        self.clock.now += self.seconds

    def changed(self):
        self.made.append("changed")


@pytest.mark.parametrize(("seconds", "calls"), [(0.0, 0), (0.004, 0), (0.011, 2), (1.0, 200)])
def test_everything_is_checked_as_often_as_5_ms_a_call_allow(seconds, calls):
    clock = VirtualClock(0.0)
    validator, checks = Validator(clock), Checks(clock, seconds)
    for _ in range(2 * (calls + 1)):
        validator.after("change", checks.everything, checks.changed)
    assert checks.made == ["everything", *["changed"] * calls] * 2


def test_calls_of_each_kind_are_counted_by_themselves():
    clock = VirtualClock(0.0)
    validator, checks = Validator(clock), Checks(clock, 0.0125)
    for call in ("change", "update", "update", "change"):
        validator.after(call, checks.everything)
    assert checks.made == ["everything", "everything"]
    validator.start_over()
    validator.after("change", checks.everything)
    assert len(checks.made) == 3


def test_a_clock_that_goes_astray_stops_no_checks_for_long():
    clock = VirtualClock(0.0)
    validator, checks = Validator(clock), Checks(clock, -3.0)
    for _ in range(3):
        validator.after("change", checks.everything)
    assert len(checks.made) == 3
    checks.seconds = 600.0
    for _ in range(1003):
        validator.after("change", checks.everything)
    assert len(checks.made) == 5


def failing():
    raise CacheCorruptedError("wrong")


def crashing():
    raise KeyError("n1")


def test_a_difference_is_raised_where_nobody_is_to_be_told():
    validator = Validator(VirtualClock(0.0))
    for _ in range(2):
        with pytest.raises(CacheCorruptedError, match=r"^wrong$"):
            validator.after("change", failing)


def test_a_check_that_trips_over_damage_has_found_it():
    with pytest.raises(CacheCorruptedError, match=r"^the check failed: KeyError: 'n1'$") as error:
        run(crashing)
    assert isinstance(error.value.__cause__, KeyError)
    told = []
    Validator(VirtualClock(0.0), told.append).after("change", crashing)
    assert [str(error) for error in told] == ["the check failed: KeyError: 'n1'"]


def test_who_is_told_is_told_once_until_the_start_over():
    told = []
    validator = Validator(VirtualClock(0.0), told.append)
    for _ in range(2):
        for _ in range(3):
            validator.after("change", failing)
        validator.start_over()
    assert len(told) == 2


def test_what_changed_is_told_as_well():
    clock, told = VirtualClock(0.0), []
    validator = Validator(clock, told.append)
    validator.after("change", Checks(clock, 1.0).everything)
    validator.after("change", failing, failing)
    assert [str(error) for error in told] == ["wrong"]
