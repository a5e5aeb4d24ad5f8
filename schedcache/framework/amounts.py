"""Arithmetic with amounts that may be anything up to 2**63-1: an API server stores such quantities, and nodes do report them.

kube-scheduler 1.37 computes with int64s that wrap: a node with 10**17 bytes may score outside 0..100, which ends the attempt
of every pod that the node is feasible for. Where nothing wraps there, the results here are the same.
"""

import numpy as np
import numpy.typing as npt

from schedcache.model.quantity import MAX_UNITS

Amounts = npt.NDArray[np.int64]

_FULL = 100
_SAFE = MAX_UNITS // _FULL


def add_amounts(amounts: Amounts, more: Amounts | int) -> Amounts:
    """The sums, or 2**63-1 where they are larger; `amounts` are not negative."""
    total: Amounts = amounts + (min(more, MAX_UNITS) if isinstance(more, int) else more)
    fewer = total < amounts
    if np.count_nonzero(fewer):
        total[fewer & (np.greater(more, 0))] = MAX_UNITS
    return total


def percent(part: Amounts, whole: Amounts | int) -> Amounts:
    """How many whole percent of `whole`, which is above zero, `part` is; exact for all amounts."""
    found: Amounts = part * _FULL // whole
    if part.max(initial=0) > _SAFE:
        large = np.flatnonzero(part > _SAFE)
        of = whole if isinstance(whole, int) else whole[large].astype(object)
        found[large] = part[large].astype(object) * _FULL // of
    return found
