"""`schedcache run`, with seconds for what takes a minute otherwise: for tests of what outlasts its deadlines.

A program of its own, `python -m tests.e2e.hasty`, since it is to be stopped and to go on as a process.
"""

import sys
from dataclasses import replace

from schedcache.cli.commands import make_parser
from schedcache.cli.flag_settings import settings_of
from schedcache.cli.logs import logging_to_stderr
from schedcache.cli.running import run
from schedcache.kube.settings import RequestSettings, WatchSettings

LONGEST_SECONDS = 2.0
HASTY = {
    "assumed_pod_ttl": 1.5,
    "requests": RequestSettings(request_timeout_seconds=1.5),
    "watch": WatchSettings(inactivity_timeout_seconds=LONGEST_SECONDS),
}

if __name__ == "__main__":
    options = make_parser().parse_args()
    with logging_to_stderr(options.log_format, options.v) as log:
        sys.exit(run(replace(settings_of(options), **HASTY), log))
