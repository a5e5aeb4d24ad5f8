"""What a comparison of what is held with what is true finds."""

from enum import StrEnum

import msgspec


class Cause(StrEnum):
    """How what is held differs."""

    MISSED_ADD = "missed add"
    """The API server has an object that is not held."""
    MISSED_DELETE = "missed delete"
    """An object is held that the API server does not have."""
    STALE_VERSION = "stale version"
    """An object is held in an older state."""
    NEWER_VERSION = "newer version"
    """An object is held in a state that the API server, or the watch, does not have: it may have been set back."""
    WRONG_UID = "wrong UID"
    """The object that has the name now is another one than that which is held."""
    NOT_HANDED_ON = "not handed on"
    """What the watch delivered is not what the scheduler works with."""
    CACHE_DRIFT = "cache drift"
    """A sum, an index or a column of the cache is not what a computation from scratch gives."""


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """One object that is held wrongly.

    Attributes:
        kind: of the object.
        cause: how it differs.
        name: with its namespace, if it has one; "" if that is not known.
        uid: of the object held, or if none is, of the one that should be.
        held: its resourceVersion as held, or what was found; "" for nothing.
        expected: its resourceVersion as the API server has it, or what should have been found; "" for nothing.
    """

    kind: str
    cause: Cause
    name: str
    uid: str
    held: str
    expected: str


class KindComparison(msgspec.Struct, frozen=True, rename="camel"):
    """What is held of a kind, compared with a list of the API server.

    Attributes:
        kind: its name.
        objects: how many the API server has.
        bytes: read from it.
        seconds: of the wall clock, the time that events had to arrive included.
        resource_version: of the list.
        differences: that are no event on its way.
        problem: why it could not be compared, "" if it was.
    """

    kind: str
    objects: int = 0
    bytes: int = 0
    seconds: float = 0.0
    resource_version: str = ""
    differences: tuple[Difference, ...] = ()
    problem: str = ""
