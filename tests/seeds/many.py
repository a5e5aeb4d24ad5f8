"""Runs many seeds, on all cores."""

import gc
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

from tests.seeds.planted import BUGS, planted
from tests.seeds.scenario import make_scenario
from tests.seeds.simulation import simulate

CHUNK = 25
MOST_FAILURES = 3
TELL_SECONDS = 10.0
STOPPED = 130
"""Exit status after Ctrl-C, a shell's own."""


def command(seed: int, keep: Sequence[int] | None = None, bug: str = "") -> str:
    """What shows a seed again."""
    more = f" BUG={bug}" if bug else ""
    return f"make seeds SEED={seed}{more}" + (f" KEEP={','.join(map(str, keep))}" if keep else "")


def run_many(first: int, count: int, jobs: int, bug: str) -> int:
    """Seeds one after the other on all cores; ends early after some failures, and at Ctrl-C, with what was found until then."""
    started = told = time.monotonic()
    done, failures = 0, []
    chunks = ((seed, min(CHUNK, first + count - seed), bug) for seed in range(first, first + count, CHUNK))
    stopped = False
    with _pool(jobs) as pool:
        try:
            for results in _in_turn(pool, chunks, 2 * jobs):
                done += len(results)
                failures += [(seed, violation) for seed, violation in results if violation]
                now = time.monotonic()
                if now - told > TELL_SECONDS or done == count:
                    told = now
                    speed = done / (now - started)
                    print(f"{done} of {count} seeds, {len(failures)} failed, {speed:.1f} seeds/s", flush=True)
                if len(failures) >= MOST_FAILURES:
                    break
        except KeyboardInterrupt:
            stopped = True
            print(f"stopped after {done} of {count} seeds, {len(failures)} failed", flush=True)
        pool.shutdown(cancel_futures=True)
    for seed, violation in failures:
        print(f"\nseed {seed}: {violation}\nreplay: {command(seed, bug=bug)}")
    return 1 if failures else STOPPED if stopped else 0


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """Collections come between seeds here; otherwise they take a third of the time. Ctrl-C is for the process that tells of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    gc.disable()


def _in_turn(
    pool: ProcessPoolExecutor, chunks: Iterator[tuple[int, int, str]], ahead: int
) -> Iterator[list[tuple[int, str]]]:
    """The results, as they come; only a few chunks are handed out in advance."""
    waiting: set[Future[list[tuple[int, str]]]] = set()
    while True:
        while len(waiting) < ahead and (chunk := next(chunks, None)) is not None:
            waiting.add(pool.submit(_run_chunk, chunk))
        if not waiting:
            return
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for each in ended:
            yield each.result()


def _run_chunk(chunk: tuple[int, int, str]) -> list[tuple[int, str]]:
    first, count, bug = chunk
    with planted(bug):
        found = [(seed, violation_of(seed)) for seed in range(first, first + count)]
    gc.collect()
    return found


def violation_of(seed: int) -> str:
    """What a seed broke, "" for nothing. A simulation that crashes has broken something, too, and says which seed it was."""
    try:
        return simulate(make_scenario(seed)).violation
    except Exception:  # noqa: BLE001  whatever it is, its seed has to be told
        return f"the simulation crashed: {traceback.format_exc()}"


def find_bugs(count: int, jobs: int) -> int:
    """A line for each planted bug: its name, the number of seeds that it took, and what was reported."""
    missed = 0
    with _pool(jobs) as pool:
        for name, (seeds, violation) in zip(BUGS, pool.map(_seeds_for, [(name, count) for name in BUGS]), strict=True):
            missed += not violation
            print(f"{name}: {f'{seeds} seeds' if violation else 'not found'}: {violation[:160]}", flush=True)
    return 1 if missed else 0


def _seeds_for(which: tuple[str, int]) -> tuple[int, str]:
    name, count = which
    with planted(name):
        for seed in range(count):
            if violation := simulate(make_scenario(seed)).violation:
                gc.collect()
                return seed + 1, violation
            if seed % CHUNK == 0:
                gc.collect()
    return count, ""
