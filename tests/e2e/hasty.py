"""`schedcache run`, with seconds for what takes a minute otherwise: for tests of what outlasts its deadlines.

A program of its own, `python -m tests.e2e.hasty`, since it is to be stopped and to go on as a process.
"""

import sys

from schedcache.app.settings import Settings
from schedcache.cli import main
from schedcache.kube.http.transport import Transport
from schedcache.kube.watch.reflector import Reflector

DEADLINES = {
    (Settings, "assumed_pod_ttl"): 1.5,
    (Transport, "request_timeout"): 1.5,
    (Reflector, "inactivity_timeout"): 2.0,
}
LONGEST_SECONDS = max(DEADLINES.values())

if __name__ == "__main__":
    for (owner, name), seconds in DEADLINES.items():
        defaults = owner.__init__.__kwdefaults__
        assert name in defaults, f"{owner.__name__} has no such deadline any more: {name}"
        defaults[name] = seconds
    sys.exit(main())
