"""Finds the known name that is closest to a mistyped one."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that differs only by typing errors, "" if there is none.

    Apart from case, at most one letter in four, and never more than three, may be missing, extra, wrong or swapped with its
    neighbour: NodeResourcesFitPlus is not taken for NodeResourcesFit.
    """
    distance, near = min(((_slips(name.lower(), other.lower()), other) for other in known), default=(0, ""))
    return near if distance <= min(3, max(1, len(name) // 4)) else ""


def _slips(one: str, other: str) -> int:
    """The Damerau-Levenshtein distance, with swaps of neighbours only."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            best = min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]
