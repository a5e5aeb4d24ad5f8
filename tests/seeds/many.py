"""Runs many seeds, on all cores."""

import gc
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

from tests.seeds.planted import BUGS, planted
from tests.seeds.scenario import make_scenario
from tests.seeds.simulation import simulate

CHUNK = 25
MOST_FAILURES = 3
TELL_SECONDS = 10.0


def command(seed: int, keep: Sequence[int] | None = None, bug: str = "") -> str:
    """What shows a seed again."""
    more = f" BUG={bug}" if bug else ""
    return f"make seeds SEED={seed}{more}" + (f" KEEP={','.join(map(str, keep))}" if keep else "")


def run_many(first: int, count: int, jobs: int, bug: str) -> int:
    """Seeds one after the other on all cores; ends early after some failures."""
    started = told = time.monotonic()
    done, failures = 0, []
    chunks = ((seed, min(CHUNK, first + count - seed), bug) for seed in range(first, first + count, CHUNK))
    with _pool(jobs) as pool:
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
        pool.shutdown(cancel_futures=True)
    for seed, violation in failures:
        print(f"\nseed {seed}: {violation}\nreplay: {command(seed, bug=bug)}")
    return 1 if failures else 0


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """Collections come between seeds here; otherwise they take a third of the time."""
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
        found = [(seed, simulate(make_scenario(seed)).violation) for seed in range(first, first + count)]
    gc.collect()
    return found


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
