"""The door of `schedcache.app`: its names are loaded when they are asked for, and are all there."""

import subprocess
import sys

import pytest

import schedcache.app
from schedcache.app import Settings


def test_every_name_is_there():
    for name in schedcache.app.__all__:
        assert getattr(schedcache.app, name).__name__ == name
    with pytest.raises(AttributeError, match=r"module 'schedcache\.app' has no attribute 'sevred'"):
        schedcache.app.sevred  # noqa: B018  looking it up is the point


def test_the_package_itself_loads_nothing():
    script = "import sys, schedcache.app; print(*(name for name in sys.modules if name.startswith('schedcache')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["schedcache", "schedcache.app"]


def test_settings_need_nothing_said():
    assert [profile.scheduler_name for profile in Settings().profiles] == ["schedcache"]
    assert Settings().port is None
