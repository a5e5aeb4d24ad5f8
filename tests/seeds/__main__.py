"""`make seeds`: runs many seeds on all cores, or one of them in detail."""

import argparse
import os
import sys

from tests.seeds.many import command, find_bugs, run_many
from tests.seeds.planted import BUGS, planted
from tests.seeds.scenario import make_scenario
from tests.seeds.shrinking import shrink
from tests.seeds.simulation import simulate

TRACE_LINES = 60


def main() -> int:
    """Exit status 1 if an invariant was broken, or a planted bug was not found; 130 after Ctrl-C if neither was."""
    arguments = _arguments()
    if arguments.bugs:
        return find_bugs(arguments.count, arguments.jobs)
    if arguments.digests:
        for seed in range(arguments.first, arguments.first + arguments.count):
            print(seed, simulate(make_scenario(seed)).digest)
        return 0
    if arguments.seed is not None:
        with planted(arguments.bug):
            return show(arguments.seed, arguments.keep, arguments.bug)
    return run_many(arguments.first, arguments.count, arguments.jobs, arguments.bug)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make seeds", description=__doc__)
    parser.add_argument("--count", type=_positive, default=2000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count(), help="processes")
    parser.add_argument("--seed", type=int, help="run this one alone, and show what happened")
    parser.add_argument("--keep", type=_numbers, help="with --seed: only the actions of these numbers")
    parser.add_argument("--bug", choices=["", *BUGS], default="", help="with a bug planted")
    parser.add_argument("--bugs", action="store_true", help="for each planted bug, how many seeds it takes to find it")
    parser.add_argument("--digests", action="store_true", help="print a digest of what happened in each seed")
    return parser.parse_args()


def _positive(text: str) -> int:
    """None at all would be a run in which nothing can fail."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text}")
    return number


def _numbers(text: str) -> list[int] | None:
    return [int(number) for number in text.split(",")] if text else None


def show(seed: int, keep: list[int] | None, bug: str) -> int:
    """One seed, made as small as possible if it fails."""
    scenario = make_scenario(seed)
    if keep is not None:
        scenario = scenario.keeping(keep)
    result = simulate(scenario)
    if result.violation and keep is None:
        print(f"seed {seed}: {result.violation}\nleaving out what it does not take ...", flush=True)
        keep = shrink(scenario, result.violation)
        scenario = scenario.keeping(keep)
        result = simulate(scenario)
    print(f"\n{scenario}\n\nThe end of what happened:")
    print("\n".join(result.trace[-TRACE_LINES:]))
    print(f"\nseed {seed}: {result.violation or 'nothing is wrong'}")
    if result.violation:
        print(f"again: {command(seed, keep, bug)}")
    else:
        print(f"at rest {result.healed_after:.1f} s after the last fault, {result.turns} turns of the loop")
    return 1 if result.violation else 0


if __name__ == "__main__":
    sys.exit(main())
