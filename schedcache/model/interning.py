"""Tables in which equal values are one object.

Invariants
    One object per key. While an object that was entered under a key lives, every look-up of that key gives it, in every thread.
    The key says everything. Two values with equal keys are equal in each field, so it does not matter which one is kept.
    Values never change. What is computed from one may be kept with it, and `is` may be used for `==`.
    Values are held weakly. A table grows with what is in use, not with what has ever been seen; a key that comes back
    after its object died gets a new object, which cannot be told from the old one.

A look-up takes no lock: a table is read for every pod and written once for every template. On a miss, the caller makes the
value, and `enter` decides, under a lock, which one is kept. So two threads may make the same value; the later one is dropped.
Because it is made outside the lock, a malformed object raises with nothing locked, and no thread waits for another's decoding.
"""

from threading import Lock
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

Interned = WeakValueDictionary[bytes, T]
"""Key -> its object. Read it with `get`; write to it only with `enter`."""

# One for all tables: it is held for less than a microsecond, and a spec has a table of its own for what pods report.
_entering = Lock()


def enter(table: Interned[T], key: bytes, made: T) -> T:
    """The object that every thread is to use for the key: the one that another thread has entered meanwhile, or `made`."""
    with _entering:
        return table.setdefault(key, made)
