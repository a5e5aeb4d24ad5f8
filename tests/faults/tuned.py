"""`schedcache run`, which compares what it holds with the API server every five seconds in place of every ten minutes."""

import sys
from dataclasses import replace

from schedcache.cli.commands import make_parser
from schedcache.cli.flag_settings import settings_of
from schedcache.cli.logs import configure_logging
from schedcache.cli.running import run
from schedcache.kube.settings import KopfSettings, WatchSettings

OFTEN = {
    "watch": WatchSettings(sweep_interval_seconds=5.0, sweep_grace_seconds=1.0),
    "kopf": KopfSettings(sweep_interval_seconds=5.0),
}

if __name__ == "__main__":
    options = make_parser().parse_args()
    configure_logging(options.log_format, options.v)
    sys.exit(run(replace(settings_of(options), **OFTEN)))
