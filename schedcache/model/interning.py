"""Tables in which equal values are one object.

Invariants
    One object a key. While an object that was entered under a key lives, every look-up of that key gives it, in every thread.
    The key says everything. Two values with equal keys are equal in each field, so it does not matter whose is kept.
    Values never change. What is computed from one may be kept with it, and `is` may stand for `==`.
    Values are held weakly. A table grows with what is in use, not with what has ever been seen; a key that comes back
    after its object died gets a new object, which nobody can tell from the old one.

A look-up takes no lock: a table is read for every pod and written once for every template. Whoever misses makes the value,
and `enter` decides, under a lock, whose is kept. Two threads may so make the same value; the later one's is dropped. Making
it outside the lock means that a malformed object raises with nothing locked, and that no thread waits for another's decoding.
"""

from threading import Lock
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

Interned = WeakValueDictionary[bytes, T]
"""Key -> its object. Read it with `get`; write to it with `enter` alone."""

# One for all tables: it is held for less than a microsecond, and a spec has a table of its own for what pods report.
_entering = Lock()


def enter(table: Interned[T], key: bytes, made: T) -> T:
    """What every thread is to use for the key: what another has entered meanwhile, or else `made`."""
    with _entering:
        return table.setdefault(key, made)
