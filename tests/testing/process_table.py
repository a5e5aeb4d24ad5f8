"""Which processes run, as Linux tells it."""

import time
from pathlib import Path


def running(pids):
    """Those that run; a zombie does not, though nobody may ever collect it in a container."""
    return [pid for pid in pids if state(pid) not in ("", "Z", "X")]


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until_ended(pids, seconds=5.0):
    deadline = time.monotonic() + seconds
    while running(pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return running(pids)
