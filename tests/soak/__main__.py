"""`python -m tests.soak`: a soak on a control plane of its own.

Exit status: 0 if all is well, 1 if anything is wrong or the soak could not go on, 130 after Ctrl-C.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import traceback
from pathlib import Path

from schedcache.testing import Cluster, ControlPlane
from tests.soak.run import Report, SoakSettings, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak ARGS=...", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, help="default: any; it is printed")
    parser.add_argument("--source", choices=("reflector", "kopf"), default="reflector")
    parser.add_argument("--rate", type=float, default=50.0, help="pods per second (default %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("build/soak.json"), help="JSON file (default %(default)s)")
    parser.add_argument(
        "--log", type=Path, help="the scheduler's log (default: beside the JSON file, with .log at the end)"
    )
    options = parser.parse_args()
    # That connections break is the point; asyncio and aiohttp, of the proxy, would tell of each.
    logging.disable(logging.ERROR)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    settings = SoakSettings(seed=seed, seconds=60 * options.minutes, source=options.source, per_second=options.rate)
    print(f"{options.minutes:g} minutes, {options.source}, --seed={seed}", flush=True)
    log = options.log or options.output.with_suffix(".log")
    for file in (log, options.output):
        file.parent.mkdir(parents=True, exist_ok=True)
        # Nobody should take an earlier run's for this one's.
        file.unlink(missing_ok=True)
    try:
        report = asyncio.run(_run(settings, log))
    except KeyboardInterrupt:
        print(f"seed {seed}: stopped before its end ({log})")
        return 130
    except Exception:  # noqa: BLE001  whatever it is, where to look has to be told
        traceback.print_exc()
        print(f"seed {seed}: the soak could not go on ({log})")
        return 1
    options.output.write_text(json.dumps(report.as_json(), indent=1))
    print(table(report))
    print(f"seed {seed}: {'; '.join(report.problems) or 'all is well'} ({options.output}, {log})")
    return 1 if report.problems else 0


async def _run(settings: SoakSettings, log: Path) -> Report:
    async with ControlPlane() as servers, Cluster(servers) as cluster:
        return await soak(cluster, settings, log)


def table(report: Report) -> str:
    lines = [f"{'':18}{'second third':>14}{'last third':>12}{'drift':>9}{'bound':>8}{'most':>9}"]
    lines += [
        f"{name:18}{one.second:14.1f}{one.last:12.1f}{one.drift:+9.1f}{one.bound:8.1f}{one.most:9.1f}"
        + ("" if one.flat else "  grows")
        for name, one in report.trends.items()
    ]
    lines += [f"{name}: {number}" for name, number in [*report.counts.items(), *report.faults.items()]]
    if report.healed_seconds is None:
        lines.append("after the last fault, not everything came to be in order")
    else:
        lines.append(f"after the last fault, all was in order within {report.healed_seconds} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
