"""Makes a failing scenario small: it leaves out actions for as long as the same invariant is broken."""

from collections.abc import Callable, Sequence

from tests.seeds.scenario import Scenario
from tests.seeds.simulation import simulate


def invariant_of(violation: str) -> str:
    """The number of the invariant that was broken."""
    return violation.partition(":")[0]


def shrink(scenario: Scenario, violation: str) -> list[int]:
    """The numbers of the actions that it takes: without any one of them, the violation does not occur."""
    broken = invariant_of(violation)
    return smallest(
        range(len(scenario.actions)),
        lambda kept: invariant_of(simulate(scenario.keeping(kept)).violation) == broken,
    )


def smallest(items: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Delta debugging: leaves out large parts first, then smaller ones, until none can be left out."""
    kept = list(items)
    size = len(kept)
    while size:
        start, shorter = 0, False
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                kept, shorter = rest, True
            else:
                start += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2) if size > 1 else 1
    return kept
